//! What the sequences brought to light, each as a test of its own.

use coord_core::Turn;
use coord_model::{
    EndReason, Event, HookKind, Kind, ProcessSeen, RegistryStatus, Screen, SessionState,
    StartSource,
};

use crate::world::{END, EXIT, PROMPT, RESUME, World, entry, pane, present, process};

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
    assert_eq!(world.state_of("s1"), SessionState::Running);
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
    let (kind, forked_from, launch) = (None, None, None);
    let is_stopped = true;
    world.take(&Event::ProcessSeen(ProcessSeen {
        process,
        alive: true,
        kind,
        is_stopped,
        forked_from,
        launch,
    }));
    world.pass(3.0);
    assert_eq!(world.state_of("s1"), SessionState::Suspended);
    assert_eq!(world.state.next_deadline(), None);
}

// H-42, R-07: the entry that a crashed process left behind does not contest, or take back, what its
// successor holds; nor does it make a crash of what its user ended there.
#[test]
fn h_42_an_entry_left_behind_claims_nothing_after_a_resume() {
    let mut world = in_a_turn();
    world.die(100, present("s1"));
    world.hook("s1", 200, RESUME);
    world.registry(100, present("s1"), false);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    world.hook("s1", 200, EXIT);
    world.registry(100, present("s1"), false);
    world.exit(100);
    world.registry(100, present("s1"), true);
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
}

// the mark goes when one of the two went over to another conversation, or both died.
#[test]
fn r_07_two_owners_are_so_only_while_there_are_two() {
    for source in [StartSource::Resume, StartSource::Clear] {
        let mut world = in_a_turn();
        world.hook("s1", 200, RESUME);
        assert!(world.state.sessions().all(|session| session.two_owners));
        world.hook("s2", 100, HookKind::SessionStart(source));
        assert!(world.state.sessions().all(|session| !session.two_owners));
    }
    let mut world = in_a_turn();
    world.hook("s1", 200, RESUME);
    world.reboot();
    assert!(world.state.sessions().all(|session| session.shown.state == SessionState::Interrupted));
}

// H-05, S0-02: a conversation that went on after /clear is not cleared: its death may be a crash.
#[test]
fn s0_02_a_crash_after_a_clear_whose_start_was_lost_is_a_crash() {
    let mut world = in_a_turn();
    world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
    world.hook("s2", 100, PROMPT);
    world.die(100, present("s2"));
    assert_eq!(world.state_of("s2"), SessionState::Crashed);
}

// H-36: of a cleared conversation nothing is left to be brought back after a restart.
#[test]
fn h_36_a_cleared_session_is_not_interrupted_by_a_restart() {
    let mut world = in_a_turn();
    world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
    world.reboot();
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
}

// G6, H-10: what its user ended stays so, whatever a later SessionEnd gives as its reason.
#[test]
fn g6_an_end_of_its_users_is_not_taken_back_by_another_end() {
    let mut world = World::new();
    world.open_in("s1", 100, Kind::Interactive, Some(pane(7)));
    world.hook("s1", 100, EXIT);
    world.hook("s1", 100, END);
    world.exit(7);
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
}

// what a dead client's screen and registry entry go on saying ends no turn.
#[test]
fn r_10_a_look_at_what_the_dead_left_ends_no_turn() {
    for has_registry in [true, false] {
        let mut world = World::new();
        world.open_in("s1", 100, Kind::Interactive, Some(pane(7)));
        world.hook("s1", 100, PROMPT);
        world.exit(100);
        world.seconds += 1.1;
        if has_registry {
            says(&mut world, RegistryStatus::Idle);
        }
        world.screen(100, Screen::Prompt);
        world.screen(100, Screen::Prompt);
        assert!(matches!(*world.session("s1").turn, Turn::Open { .. }), "{has_registry}");
    }
}

// H-05: what was found after a death stays the reason of its judgement.
#[test]
fn h_05_a_later_look_does_not_rewrite_what_a_death_left() {
    let mut world = in_a_turn();
    world.die(100, present("s1"));
    let because = world.session("s1").shown.because.clone();
    says(&mut world, RegistryStatus::Busy);
    world.hook("s1", 100, PROMPT);
    assert_eq!(world.session("s1").shown.because, because);
}

// S0-18: a compaction says of no prompt that it is over.
#[test]
fn s0_18_a_compaction_clears_no_wait() {
    let mut world = in_a_turn();
    for agent in [None, Some("a1".to_owned())] {
        let mut event = world.event("s1", 100, HookKind::PermissionRequest, 0.0);
        event.agent = agent;
        world.send(event);
        world.seconds += 0.001;
    }
    world.hook("s1", 100, HookKind::SubagentStop);
    world.hook("s1", 100, HookKind::SessionStart(StartSource::Compact));
    assert_eq!(world.session("s1").waits.len(), 2);
}
