//! What a message that waits for a session is said to wait for (G9, G12, S4-25).

use coord_model::{
    Command, EndReason, Event, HookKind, PaneState, ProcessSeen, Proof, QueueEvent, RegistryStatus,
    SessionState,
};

use super::mail::{LEASE_S, id};
use crate::crashes::{PID, at_rest, dead, unattended};
use crate::world::{PROMPT, World, no_registry, process};

/// What happens to a session.
type Make = fn(&mut World);

// G12: each hold of a message can be read, and is the one that holds it.
#[test]
fn each_reason_is_said() {
    let makes: [(SessionState, Make, &str); 12] = [
        (SessionState::Idle, |_| (), "is idle; delivered by its wake hook"),
        (
            SessionState::Running,
            |world| world.hook("s1", PID, PROMPT),
            "is working; delivered when the turn",
        ),
        (
            SessionState::AwaitingPermission,
            |world| world.says("s1", PID, RegistryStatus::WaitingPermission),
            "a dialog is open",
        ),
        (SessionState::Suspended, suspended, "stopped by Ctrl-Z"),
        (
            SessionState::QuotaWait,
            |world| {
                world.hook("s1", PID, PROMPT);
                world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
            },
            "waits for the usage limit to reset",
        ),
        (
            SessionState::BlockedAuth,
            |world| {
                world.hook("s1", PID, PROMPT);
                world.hook("s1", PID, HookKind::StopFailure("authentication_failed".into()));
            },
            "an account error",
        ),
        (
            SessionState::Stopped,
            |world| world.hook("s1", PID, HookKind::SessionEnd(EndReason::PromptInputExit)),
            "has ended; delivered when it is resumed",
        ),
        (SessionState::Interrupted, World::reboot, "has ended; delivered when it is resumed"),
        (SessionState::Crashed, crashed, "crashed; delivered when it is recovered"),
        (
            SessionState::RecoveryPending,
            |world| {
                world.attend(true);
                world.crash(PID);
            },
            "crashed; delivered when it is recovered",
        ),
        (
            SessionState::Unknown,
            |world| {
                world.hook("s1", PID, PROMPT);
                world.die(PID, no_registry());
            },
            "how it ended is unknown",
        ),
        (SessionState::Idle, |world| hold(world), "a person holds the session"),
    ];
    for (word, make, why) in makes {
        let mut world = at_rest();
        world.sent([1]);
        make(&mut world);
        assert_eq!(world.state_of("s1"), word, "{why}");
        assert!(world.why_waits(id(1)).contains(why), "{word:?}: {}", world.why_waits(id(1)));
    }
}

fn suspended(world: &mut World) {
    world.take(&Event::ProcessSeen(ProcessSeen {
        process: process(PID),
        alive: true,
        kind: None,
        is_stopped: true,
        forked_from: None,
        launch: None,
    }));
}

fn hold(world: &mut World) {
    let session = Some(world.key());
    world.command(Command::Hold { session, for_ms: None });
}

/// It crashed, and nothing brings it back.
fn crashed(world: &mut World) {
    world.crash(PID);
    for _ in 0..3 {
        if world.session("s1").recovery.pending.is_none() {
            return;
        }
        let proof = Proof { pane: PaneState::Closed, ..dead(world) };
        world.prove(proof);
        world.pass(30.0);
    }
}

// S4-23: one that was tried says why it waits for its next attempt.
#[test]
fn a_failed_attempt_is_said() {
    let mut world = unattended();
    world.sent([1]);
    world.wakes_with(1);
    world.pass(LEASE_S);
    world.queue(QueueEvent::Unproved(id(1)));
    let message = world.message(id(1));
    assert!(message.last_failure.as_deref().unwrap().contains("no answer"), "{message:?}");
    let said: Vec<&str> = world
        .decisions
        .iter()
        .filter(|one| one.session_id == id(1).to_string())
        .map(|one| &*one.rule)
        .collect();
    assert_eq!(said, ["S4-24", "S4-23"], "G9");
}
