//! Conversations that one process leaves, and goes over to.

use crate::world::{PROMPT, World, no_registry, present};
use coord_model::{
    EndReason, HookKind, Kind, Provenance, Registry, RegistryStatus, SessionState, StartSource,
};

// the process goes on with the next conversation at once.
#[test]
fn r_07_a_cleared_session_is_not_stopped() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    world.die(100, present("s1"));
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
}

// a client returns to a conversation that it had cleared, and the hook of that is lost. What happens in that
// conversation later than the hooks of its end can run shows it.
#[test]
fn r_07_a_client_returns_to_a_conversation_that_it_had_cleared() {
    let shown_by: [fn(&mut World); 2] = [
        |world| world.says("s1", 100, RegistryStatus::Idle),
        |world| world.hook("s1", 100, HookKind::Notification("idle_prompt".into())),
    ];
    for show in shown_by {
        for (later, word) in [(59.0, SessionState::Stopped), (61.0, SessionState::Crashed)] {
            let mut world = World::new();
            world.open("s1", 100, Kind::Interactive);
            world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
            world.pass(later);
            show(&mut world);
            world.die(100, present("s1"));
            assert_eq!(world.state_of("s1"), word, "{later}");
        }
    }
}

// the start in the conversation that a client went over to is lost, and the client's next word names it. That
// conversation may be a new one or an earlier one of the same process.
#[test]
fn r_07_a_client_that_went_over_is_found_by_its_next_word() {
    let ways = [(EndReason::Resume, false), (EndReason::Resume, true), (EndReason::Clear, true)];
    for (reason, is_back) in ways {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
        world.hook("s2", 100, HookKind::SessionStart(StartSource::Clear));
        world.hook("s2", 100, HookKind::SessionEnd(reason));
        let next = if is_back { "s1" } else { "s3" };
        world.hook(next, 100, HookKind::Notification("idle_prompt".into()));
        assert_eq!(world.session(next).session_id, next);
        assert_eq!(world.state_of(next), SessionState::Idle);
        world.die(100, present(next));
        assert_eq!(world.state_of(next), SessionState::Crashed);
    }
}

// a late word of the conversation before does not take a client back there.
#[test]
fn r_07_a_late_word_of_the_conversation_before_changes_nothing() {
    for is_over in [false, true] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        let late = world.event("s1", 100, HookKind::Notification("idle_prompt".into()), 0.0);
        world.pass(1.0);
        world.hook("s2", 100, HookKind::SessionStart(StartSource::Clear));
        if is_over {
            world.hook("s2", 100, HookKind::SessionEnd(EndReason::Resume));
        }
        world.send(late);
        assert_eq!(world.session("s2").session_id, "s2");
        let expected = if is_over { SessionState::Stopped } else { SessionState::Idle };
        assert_eq!(world.state_of("s2"), expected);
    }
}

// R-07, H-44: what nobody proved of going over ends no session, and leaves open which conversation crashed.
#[test]
fn r_07_an_unproved_word_of_going_over_is_a_doubt() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let mut end = world.event("s1", 100, HookKind::SessionEnd(EndReason::Resume), 0.0);
    end.provenance = Provenance::Claimed;
    world.send(end);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    world.die(100, present("s1"));
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
}

// R-07, H-05: what was spooled meanwhile says that the next conversation had begun.
#[test]
fn r_07_a_conversation_after_the_cleared_one_may_crash() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
    world.exit(100);
    world.hook("s2", 100, HookKind::SessionStart(StartSource::Clear));
    world.hook("s2", 100, PROMPT);
    world.registry(100, present("s2"), true);
    assert_eq!(world.state_of("s2"), SessionState::Crashed);
}

// R-07, H-05: the same, told only after the death was judged.
#[test]
fn r_07_a_conversation_after_the_cleared_one_is_told_late() {
    for (found, word) in [
        (present("s2"), SessionState::Crashed),
        (Registry::Absent, SessionState::Stopped),
        (no_registry(), SessionState::Unknown),
    ] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.registry(100, present("s1"), false);
        world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
        world.exit(100);
        world.registry(100, found, true);
        world.pass(10.0);
        assert_eq!(world.state_of("s1"), SessionState::Stopped);
        world.hook("s2", 100, HookKind::SessionStart(StartSource::Clear));
        assert_eq!(world.state_of("s2"), word);
    }
}
