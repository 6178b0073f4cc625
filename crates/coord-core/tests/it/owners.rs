//! One conversation and several processes: which of them comes back, and what its person is asked first
//! (H-06, H-13, H-42).

use crate::crashes::{NEXT, PID, at_rest, dead, in_a_turn, is_act, living, opted_in};
use crate::world::{END, EXIT, PROMPT, RESUME, STOP, TOOL, World, process};
use coord_core::{Ending, Stage};
use coord_model::{
    Action, Command, Event, HookEvent, HookKind, Input, Intent, Outcome, PaneState, Proof,
    Provenance, RegistryStatus, Screen, SessionState, Signal, StartSource,
};

// H-42, G6: what its user did with it in another process counts, whoever asks for the dead one.
#[test]
fn a_conversation_that_went_on_elsewhere_is_not_brought_back() {
    let mut world = in_a_turn();
    let first = world.key();
    world.hook("s1", 200, RESUME);
    world.crash(PID);
    world.hook("s1", 200, PROMPT);
    world.hook("s1", 200, EXIT);
    world.command(Command::Recover { session: first, restart: true, when_idle: true });
    world.pass(600.0);
    let recovery = &world.state.session(first).unwrap().recovery;
    assert!(recovery.pending.is_none());
    let why = "the conversation continued in another process".to_owned();
    assert_eq!(recovery.last.as_ref().unwrap().outcome, Ending::Closed { why });
    assert!(!world.actions().iter().any(is_act));
}

// H-42, G6: two clients had it; the loop stood still while the one died and the other was ended by its user.
// Which was first cannot be told, unless the dying one was seen alive after that end.
#[test]
fn a_conversation_that_may_have_ended_after_its_death_is_not_brought_back() {
    for (is_told, is_watched, clock_ms, is_passed_on) in [
        (true, false, 0, true),
        (false, false, 0, true),
        (true, true, 0, false),
        (true, true, -60_000, false),
    ] {
        let mut world = in_a_turn();
        let first = world.key();
        if is_told {
            world.hook("s1", 200, RESUME);
        }
        world.seconds += 10.0;
        // All that is heard of the other one may be its end, unverified.
        let end = world.event("s1", 200, EXIT, 0.0);
        let provenance = if is_told { Provenance::Verified } else { Provenance::Claimed };
        world.send(HookEvent { provenance, ..end });
        if !is_watched {
            world.take(&Event::Gap { ns: 10_000_000_000 });
        }
        world.clock_ms = clock_ms;
        world.crash(PID);
        let session = world.state.session(first).unwrap();
        let what = format!("{is_told} {is_watched} {clock_ms}");
        assert_eq!(session.recovery.passed_on.is_some(), is_passed_on, "{what}");
    }
}

// H-42: its user was quicker than whoever restores.
#[test]
fn what_lives_is_not_restored() {
    let mut world = at_rest();
    let sessions = vec![world.key()];
    world.command(Command::Restore { sessions });
    world.pass(200.0);
    assert!(world.pending().is_none());
    assert_eq!(world.actions(), []);
}

// S0-25f, G6: all that is heard of the process in which its user took it up is its end.
#[test]
fn a_conversation_that_ended_elsewhere_is_not_brought_back() {
    for (pid, is_brought_back) in [(200, false), (50, true)] {
        let mut world = in_a_turn();
        world.crash(PID);
        world.hook("s1", pid, END);
        assert_eq!(world.state_of("s1") == SessionState::Crashed, !is_brought_back, "pid {pid}");
        let proof = dead(&world);
        let acts = if is_brought_back { world.prove(proof) } else { Vec::new() };
        assert_eq!(acts.len(), usize::from(is_brought_back));
        assert_eq!(world.pending().is_some(), is_brought_back);
    }
}

// H-13: its user takes it up while the client that we started is still coming up.
#[test]
fn a_user_who_is_quicker_than_our_client_is_told_of_both() {
    let mut world = in_a_turn();
    world.crash(PID);
    world.resume_as(NEXT);
    world.hook("s1", 900, RESUME);
    let recovery = &world.session("s1").recovery;
    assert!(recovery.pending.is_none());
    assert_eq!(recovery.needs_operator.as_ref().unwrap().reason, "two processes hold the session");
}

// H-13: two owners after all: ours goes, if nobody has used it; the hook of a prompt may have been lost.
#[test]
fn of_two_owners_ours_goes() {
    let screens = [(Some(Screen::Prompt), true), (Some(Screen::Working), false), (None, false)];
    for ((screen, at_prompt), is_idle) in
        screens.into_iter().flat_map(|one| [(one, true), (one, false)])
    {
        let mut world = in_a_turn();
        world.crash(PID);
        world.resume_as(NEXT);
        world.comes_up(NEXT);
        world.pass(3.5);
        let proof = living(&world);
        let idle_since_ms = proof.idle_since_ms.filter(|_| is_idle);
        let pane = PaneState::Client { screen, input: Input::Empty, signature: None };
        let acts = world.prove(Proof { owners: vec![process(900)], idle_since_ms, pane, ..proof });
        let is_ended = matches!(
            &acts[..],
            [Action::End { subject, signal: Signal::Term, .. }] if subject.harness == process(NEXT)
        );
        assert_eq!(is_ended, at_prompt && is_idle, "{screen:?} {is_idle}: {acts:?}");
        assert_eq!(acts.is_empty(), !is_ended);
        assert!(world.session("s1").recovery.needs_operator.is_some());
    }
}

// H-06: a kept pane is watched as a shell is.
#[test]
fn a_key_in_a_kept_pane_cancels() {
    for (key_ago_s, is_graced) in [(None, true), (Some(3_600), true), (Some(0), false)] {
        let mut world = opted_in();
        world.crash(PID);
        let key_ms = key_ago_s.map(|ago_s| world.now().wall_ms - ago_s * 1_000);
        let proof = Proof { pane: PaneState::Dead, key_ms, ..dead(&world) };
        assert_eq!(world.prove(proof), []);
        let stage = world.pending().map(|pending| &pending.stage);
        assert_eq!(matches!(stage, Some(Stage::Grace { .. })), is_graced, "{key_ago_s:?}");
        assert_eq!(world.session("s1").recovery.needs_operator.is_none(), is_graced);
    }
}

/// An event that nobody verified says that the process switched to another session.
fn claim(world: &mut World, pid: u32) {
    let event = world.event("s2", pid, RESUME, 0.0);
    world.send(HookEvent { provenance: Provenance::Claimed, ..event });
    world.seconds += 0.001;
}

// H-44, R-01: a recovery that is owed to a living client waits for its next proved event. After the client's death there
// is none, and what became of the session is unknown.
#[test]
fn a_recovery_ends_with_the_death_of_a_client_that_may_have_gone_over() {
    let mut world = opted_in();
    world.hook("s1", PID, PROMPT);
    world.signature();
    world.is_content(false);
    claim(&mut world, PID);
    assert!(world.pending().is_some(), "the client lives, and may still report");
    world.crash(PID);
    assert!(world.pending().is_none(), "{:?}", world.pending());
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
}

// H-44: the same while coord ends the client to resume the session: its person is told.
#[test]
fn a_client_that_coord_ended_and_that_may_have_gone_over_needs_its_person() {
    let (mut world, intent) = about_to_be_ended();
    claim(&mut world, PID);
    world.acted(intent, Outcome::Done);
    world.crash(PID);
    assert!(world.pending().is_none(), "{:?}", world.pending());
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
    assert!(world.session("s1").recovery.needs_operator.is_some());
}

// H-44, H-33: an event that nobody verified names another session of the same process. What went over to another
// conversation is brought back by nobody, by hand neither, until something believable comes from it.
#[test]
fn what_may_have_gone_over_to_another_session_is_not_brought_back() {
    for (claims_pid, is_healed, state) in [
        (PID, false, SessionState::Unknown),
        (PID, true, SessionState::RecoveryPending),
        (900, false, SessionState::RecoveryPending),
    ] {
        let mut world = in_a_turn();
        let session = world.key();
        claim(&mut world, claims_pid);
        if is_healed {
            world.hook("s1", PID, TOOL);
        }
        world.crash(PID);
        assert_eq!(world.state.session(session).unwrap().shown.state, state, "{claims_pid}");
    }
    // What names no process is nobody's, whatever former id it names.
    let mut world = in_a_turn();
    world.hook("s2", PID, HookKind::SessionStart(StartSource::Clear));
    world.hook("s2", PID, PROMPT);
    let event = world.event("s1", PID, TOOL, 0.0);
    world.send(HookEvent { provenance: Provenance::Claimed, harness: None, ..event });
    world.crash(PID);
    assert_eq!(world.state_of("s2"), SessionState::RecoveryPending);
    let mut world = in_a_turn();
    claim(&mut world, PID);
    world.reboot();
    let session = world.key();
    world.command(Command::Restore { sessions: vec![session] });
    world.pass(200.0);
    assert_eq!(world.actions(), []);
    assert!(world.pending().is_none(), "the order is refused, with the reason");
    let decided = world.decisions.iter().any(|one| one.did.contains("switched to another session"));
    assert!(decided, "{:?}", world.decisions);
    // What is heard of a process whose death was judged changes nothing.
    let mut world = in_a_turn();
    world.crash(PID);
    claim(&mut world, PID);
    let proof = dead(&world);
    assert_eq!(world.prove(proof).len(), 1);
}

/// It showed a crash signature, is at rest, and is to be ended.
fn about_to_be_ended() -> (World, Intent) {
    let mut world = opted_in();
    world.hook("s1", PID, PROMPT);
    world.signature();
    world.is_content(false);
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    let proof = Proof { idle_since_ms: Some(world.now().wall_ms), ..living(&world) };
    assert_eq!(world.prove(proof), []);
    world.pass(32.0);
    let proof = living(&world);
    assert_eq!(world.prove(proof), [], "H-54: its person is told first");
    world.pass(10.5);
    let proof = living(&world);
    let (intent, action) = world.act(proof);
    assert!(matches!(action, Action::End { signal: Signal::Term, .. }), "{action:?}");
    (world, intent)
}

// H-06, G10: who crashes before the signal is known to have come did not end on it.
#[test]
fn who_crashes_before_it_is_ended_has_its_grace() {
    for is_sent in [true, false] {
        let (mut world, intent) = about_to_be_ended();
        if is_sent {
            world.acted(intent, Outcome::Done);
        }
        world.crash(PID);
        world.pass(5.0);
        let proof = dead(&world);
        let acts = world.prove(proof);
        let stage = world.pending().map(|pending| &pending.stage);
        let is_graced = matches!(stage, Some(Stage::Grace { .. }));
        assert_eq!((acts.len(), is_graced), if is_sent { (1, false) } else { (0, true) });
    }
}

// H-06: we ended the first client, not the one that dies behind it.
#[test]
fn a_resumed_client_that_dies_is_not_ours_to_bring_back_unasked() {
    let (mut world, intent) = about_to_be_ended();
    world.acted(intent, Outcome::Done);
    world.hook("s1", PID, END);
    world.exit(PID);
    world.resume_as(NEXT);
    world.comes_up(NEXT);
    world.screen(NEXT, Screen::Prompt);
    world.crash(NEXT);
    world.pass(6.0);
    let proof = dead(&world);
    assert_eq!(world.prove(proof), [], "its person is told first");
    let recovery = &world.session("s1").recovery;
    let stage = recovery.pending.as_ref().map(|pending| &pending.stage);
    assert!(matches!(stage, Some(Stage::Grace { .. })), "{recovery:?}");
}

// H-05: how it ended is read first, and then it is looked at anew.
#[test]
fn a_look_at_the_living_says_nothing_of_the_dead() {
    let mut world = at_rest();
    let session = world.key();
    world.command(Command::Recover { session, restart: true, when_idle: true });
    let (intent, subject) = world.asked();
    assert!(subject.lives);
    world.exit(PID);
    let proof = Box::new(dead(&world));
    world.take(&Event::Proved { session_id: String::new(), intent, proof });
    assert!(!world.actions().iter().any(is_act));
    assert_eq!(world.waits_for(), "coord is checking how the client ended");
    world.registry(PID, crate::world::present("s1"), true);
    let proof = dead(&world);
    let (_, action) = world.act(proof);
    assert!(matches!(action, Action::TypeResume { .. }), "{action:?}");
}
