//! What a session is called (U-03).

use coord_model::{Command, Kind, MarkChange, NameSource, RegistryStatus, Whom};

use crate::world::{PROMPT, STOP, World, entry};

fn open(world: &mut World, id: &str, pid: u32, cwd: &str) {
    let mut event = world.event(id, pid, crate::world::START, 0.0);
    event.harness.as_mut().expect("it names one").kind = Some(Kind::Interactive);
    event.cwd = cwd.into();
    world.send(event);
    world.seen_alive(pid);
    world.seconds += 0.001;
}

#[track_caller]
fn called(world: &World, id: &str) -> (String, NameSource) {
    let (name, source) = world.session(id).called().expect("it has a name");
    (name.to_owned(), source)
}

fn give(world: &mut World, id: &str, name: &str) {
    let whom = Whom::Session(world.session(id).key);
    let marks = MarkChange { name: Some(name.into()), ..MarkChange::default() };
    world.command(Command::Attend { whom, marks });
}

/// The registry's entry of a session, which the client calls `name`.
fn renamed(world: &mut World, id: &str, pid: u32, name: &str) {
    let changed_ms = world.now().wall_ms;
    let coord_model::Registry::Present(found) = entry(id, Some(RegistryStatus::Idle), changed_ms)
    else {
        panic!("an entry")
    };
    let found = coord_model::RegistryEntry { name: Some(name.into()), ..found };
    world.registry(pid, coord_model::Registry::Present(found), false);
}

#[test]
fn u_03_a_session_is_called_as_its_directory_for_life() {
    let mut world = World::new();
    open(&mut world, "s1", 100, "/home/dev/api");
    open(&mut world, "s2", 200, "/home/dev/other/api/");
    open(&mut world, "s3", 300, "/home/dev/api");
    for (id, name) in [("s1", "api"), ("s2", "api-2"), ("s3", "api-3")] {
        assert_eq!(called(&world, id), (name.to_owned(), NameSource::Directory));
    }
    // It works in another directory by now, and the first one is gone.
    let mut event = world.event("s2", 200, PROMPT, 0.0);
    event.cwd = "/home/dev/elsewhere".into();
    world.send(event);
    world.hook("s2", 200, STOP);
    assert_eq!(called(&world, "s2").0, "api-2");
}

#[test]
fn u_03_a_given_name_displaces_a_derived_one() {
    let mut world = World::new();
    open(&mut world, "s1", 100, "/home/dev/api");
    open(&mut world, "s2", 200, "/home/dev/web");
    give(&mut world, "s2", "api");
    assert_eq!(called(&world, "s2"), ("api".to_owned(), NameSource::Given));
    assert_eq!(called(&world, "s1"), ("api-2".to_owned(), NameSource::Directory));
    open(&mut world, "s3", 300, "/home/dev/api");
    assert_eq!(called(&world, "s3").0, "api-3");
}

#[test]
fn u_03_the_clients_own_name_comes_before_the_directory() {
    let mut world = World::new();
    open(&mut world, "s1", 100, "/home/dev/api");
    renamed(&mut world, "s1", 100, "Fix the parser; quickly and well");
    assert_eq!(called(&world, "s1"), ("Fix-the-parser--quickly".to_owned(), NameSource::Client));
    renamed(&mut world, "s1", 100, "-../\u{1b}[31m");
    let (name, _) = called(&world, "s1");
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)), "{name}");
    assert!(!name.starts_with(['-', '.']), "{name}");
    give(&mut world, "s1", "parser");
    assert_eq!(called(&world, "s1"), ("parser".to_owned(), NameSource::Given));
}

// H-44: what nobody verified takes no name from a session that is there, or will be.
#[test]
fn u_03_claims_alone_give_no_name() {
    let mut world = World::new();
    let mut event = world.event("s1", 100, PROMPT, 0.0);
    (event.harness, event.cwd) = (None, "/home/dev/api".into());
    event.provenance = coord_model::Provenance::Claimed;
    world.send(event);
    assert_eq!(world.session("s1").called(), None);
    assert_eq!(world.session("s1").called_or_id(), "s1");
    open(&mut world, "s2", 200, "/home/dev/api");
    assert_eq!(called(&world, "s2").0, "api");
}
