//! Who is told that a hold lasts (H-35).

use crate::crashes::{PID, at_rest, unattended};
use crate::world::{PROMPT, World, present};
use coord_model::{
    Action, Command, Event, HookKind, Kind, MarkChange, Registry, RegistryEntry, RegistryStatus,
    SessionKey, TaskFound, Whom,
};

/// Sets a hold.
type Begins = fn(&mut World);

/// What was shown on panes since the last call.
fn shown(world: &mut World) -> Vec<String> {
    let text = |action| if let Action::Notify { text, .. } = action { Some(text) } else { None };
    world.actions().into_iter().filter_map(text).collect()
}

fn hold(world: &mut World, session: Option<SessionKey>, for_ms: Option<u64>) {
    world.command(Command::Hold { session, for_ms });
}

fn has_stop_file(world: &mut World) {
    let whom = Whom::Session(world.key());
    let marks = MarkChange { task_dir: Some("/task".into()), ..MarkChange::default() };
    world.command(Command::Attend { whom, marks });
    world.pass(1.0);
    for stop in [None, Some("lunch".into())] {
        let found = TaskFound { signal: None, stop };
        world.take(&Event::TaskRead { dir: "/task".into(), found });
    }
}

fn waits_for(world: &mut World, error: &str) {
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.hook("s1", PID, HookKind::StopFailure(error.into()));
    world.says("s1", PID, RegistryStatus::Idle);
}

#[test]
fn h_35_whoever_set_it_a_hold_is_told_once_after_half_an_hour() {
    let holds: [(Begins, &str); 4] = [
        (|world| hold(world, Some(world.key()), None), "a person holds the session"),
        (|world| hold(world, None, None), "a person holds the session"),
        (has_stop_file, "the task directory has an .auto-stop (lunch)"),
        (|world| waits_for(world, "rate_limit"), "waits for the usage limit to reset"),
    ];
    for (begin, why) in holds {
        let mut world = at_rest();
        begin(&mut world);
        let _before = shown(&mut world);
        world.pass(1_790.0);
        assert_eq!(shown(&mut world), [""; 0], "{why}");
        world.pass(20.0);
        assert_eq!(shown(&mut world), [format!("coord: on hold for half an hour: {why}")]);
        world.pass(7_200.0);
        assert_eq!(shown(&mut world), [""; 0], "{why}");
    }
}

#[test]
fn h_35_another_hold_is_told_again() {
    let mut world = at_rest();
    for _ in 0..2 {
        let session = Some(world.key());
        hold(&mut world, session, None);
        world.pass(1_810.0);
        assert_eq!(shown(&mut world).len(), 1);
        world.command(Command::Release { session });
        world.pass(10.0);
    }
}

#[test]
fn h_35_a_hold_that_ends_before_is_not_told() {
    let mut world = at_rest();
    let session = Some(world.key());
    hold(&mut world, session, Some(1_800_000));
    world.pass(7_200.0);
    assert_eq!(shown(&mut world), [""; 0]);
}

// After an API error a session that a person watches is idle; coord waits with the others.
#[test]
fn h_35_a_wait_for_the_api_is_told_where_coord_waits() {
    let answered = |world: &mut World| {
        waits_for(world, "server_error");
        let _before = shown(world);
        world.pass(1_810.0);
        shown(world)
    };
    assert_eq!(answered(&mut at_rest()), [""; 0]);
    let told = "coord: on hold for half an hour: waits for the API to answer";
    assert_eq!(answered(&mut unattended()), [told]);
}

// S1-21: a session that its user has go on does not wait, however long its turn takes.
#[test]
fn h_35_a_turn_after_a_limit_is_no_hold() {
    let mut world = at_rest();
    waits_for(&mut world, "rate_limit");
    world.pass(600.0);
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(7_200.0);
    assert_eq!(shown(&mut world), [""; 0]);
}

// What a recovery waits for is told by the recovery.
#[test]
fn h_35_a_recovery_on_hold_is_told_once() {
    let causes: [Begins; 2] = [|world| world.crash(PID), World::signature];
    for begin in causes {
        let mut world = unattended();
        let session = Some(world.key());
        hold(&mut world, session, None);
        begin(&mut world);
        world.pass(7_200.0);
        let told = shown(&mut world);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("coord: the recovery has waited"), "{told:?}");
    }
}

// whoever started the session decides what is shown in its pane.
#[test]
fn h_35_nothing_is_shown_on_the_pane_of_a_foreign_session() {
    let mut world = at_rest();
    let Registry::Present(own) = present("s1") else { unreachable!() };
    let foreign = Registry::Present(RegistryEntry { is_foreign: true, ..own });
    world.registry(PID, foreign, false);
    hold(&mut world, None, None);
    let _before = shown(&mut world);
    world.pass(7_200.0);
    assert_eq!(shown(&mut world), [""; 0]);
}

#[test]
fn h_35_without_a_pane_it_is_recorded() {
    let mut world = World::new();
    world.open("s1", PID, Kind::Headless);
    let session = Some(world.key());
    hold(&mut world, session, None);
    world.pass(1_810.0);
    assert_eq!(shown(&mut world), [""; 0]);
    let of_it = world.decisions.iter().filter(|one| one.rule == "H-35");
    let did: Vec<&str> = of_it.map(|one| one.did.as_str()).collect();
    assert_eq!(did, ["no pane to show it on"]);
}
