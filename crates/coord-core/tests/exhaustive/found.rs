//! What the sequences brought to light, each as a test of its own.

use coord_core::{Event, Kind, RegistryStatus, Word};

use crate::world::{PROMPT, World, entry, process};

fn in_a_turn() -> World {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world
}

/// The registry of process 100 says this of `s1` now.
fn says(world: &mut World, status: RegistryStatus) {
    let changed_ms = world.now().wall_ms;
    world.registry(100, entry("s1", Some(status), changed_ms), false);
    world.seconds += 0.001;
}

// a prompt typed while the registry says busy changes nothing there; nothing is due then.
#[test]
fn r_21_a_registry_that_agrees_is_not_waited_for() {
    let mut world = in_a_turn();
    says(&mut world, RegistryStatus::Busy);
    world.hook("s1", 100, PROMPT);
    world.pass(3.0);
    assert_eq!(world.word("s1"), Word::Running);
    assert_eq!(world.state.next_deadline(), None);
}

// a registry that stands still while its process does is no disagreement to wait for.
#[test]
fn r_10_a_stopped_process_leaves_no_deadline_due() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    says(&mut world, RegistryStatus::Idle);
    world.hook("s1", 100, PROMPT);
    let process = process(100);
    let (kind, forked_from) = (None, None);
    world.take(&Event::ProcessSeen { process, alive: true, kind, is_stopped: true, forked_from });
    world.pass(3.0);
    assert_eq!(world.word("s1"), Word::Suspended);
    assert_eq!(world.state.next_deadline(), None);
}
