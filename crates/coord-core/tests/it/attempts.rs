//! The steps of a recovery: which answer each one takes, what it locks and lets go, and what it counts (G4, G5, G10,
//! H-13, H-34, S0-25f).

use coord_core::Stage;
use coord_model::{
    Action, Command, Event, HookEvent, HookKind, Intent, Outcome, PaneState, Proof, Provenance,
    Registry, RegistryStatus, Screen, StartSource,
};

use crate::crashes::{
    EMPTY, NEXT, PID, SHELL_PROMPT, dead, in_a_turn, intent_of, is_act, living, unattended,
};
use crate::world::{PROMPT, STOP, World, process};

/// The transcripts that these actions let go.
fn released(actions: &[Action]) -> Vec<&str> {
    let ids = actions.iter().filter_map(|action| {
        let Action::Release { session_id } = action else { return None };
        Some(&**session_id)
    });
    ids.collect()
}

/// The one look that these actions ask for, and the id that it is made for.
#[track_caller]
fn look(actions: &[Action]) -> (Intent, &str) {
    let looks = actions.iter().filter_map(|action| {
        let Action::Prove { intent, subject } = action else { return None };
        Some((*intent, &*subject.session_id))
    });
    let looks: Vec<_> = looks.collect();
    let [look] = looks[..] else { panic!("{actions:?}") };
    look
}

/// That look finds somebody at the terminal. What the next one asks for.
fn looked_again(world: &mut World, actions: &[Action]) -> Vec<Action> {
    let any_key_ms = Some(world.now().wall_ms);
    let proof = Box::new(Proof { any_key_ms, ..living(world) });
    world.take(&Event::Proved { session_id: String::new(), intent: look(actions).0, proof });
    assert_eq!(world.actions(), [], "it keeps what it locked");
    world.pass(121.0);
    world.actions()
}

// H-13: a look keeps the transcript that it locked, for the next look of the same id; where the conversation is
// another by then, the one before is let go, and nothing else ever is.
#[test]
fn a_look_lets_go_the_transcript_of_an_id_that_it_is_not_made_for() {
    let mut world = unattended();
    world.signature();
    world.is_content(false);
    let first = world.actions();
    assert_eq!((look(&first).1, released(&first)), ("s1", vec![]), "nothing was locked");
    let second = looked_again(&mut world, &first);
    assert_eq!((look(&second).1, released(&second)), ("s1", vec![]), "it is the same");
    world.hook("s2", PID, HookKind::SessionStart(StartSource::Clear));
    world.says("s2", PID, RegistryStatus::Idle);
    let third = looked_again(&mut world, &second);
    assert_eq!((look(&third).1, released(&third)), ("s2", vec!["s1"]));
    let fourth = looked_again(&mut world, &third);
    assert_eq!((look(&fourth).1, released(&fourth)), ("s2", vec![]), "once");
}

// G4, G10: what is done is decided on the look that was made for it. The answer to one that was given up decides
// nothing.
#[test]
fn a_late_answer_to_a_look_that_was_given_up_is_not_acted_on() {
    let mut world = in_a_turn();
    world.crash(PID);
    let (given_up, _) = world.asked();
    world.pass(10.0);
    assert_eq!(world.waits_for(), "the check did not finish in time");
    world.pass(2.0);
    let proof = Box::new(dead(&world));
    world.take(&Event::Proved {
        session_id: String::new(),
        intent: given_up,
        proof: proof.clone(),
    });
    assert!(matches!(world.pending().unwrap().stage, Stage::Proving { .. }));
    let (intent, _) = look(&world.actions());
    world.take(&Event::Proved { session_id: String::new(), intent, proof });
    assert!(matches!(&world.actions()[..], [Action::TypeResume { .. }]));
}

/// A crash whose resume a client has claimed, and the look that was made before the act.
fn claimed() -> (World, Intent) {
    let mut world = in_a_turn();
    world.crash(PID);
    let (first, _) = world.asked();
    let proof = Box::new(dead(&world));
    world.take(&Event::Proved { session_id: String::new(), intent: first, proof });
    let actions = world.actions();
    let [typed] = &actions[..] else { panic!("{actions:?}") };
    assert!(is_act(typed));
    world.acted(intent_of(typed), Outcome::Done);
    world.claim(NEXT);
    world.actions();
    (world, first)
}

// H-43: why a resumed client takes long is told by the look that was made for that.
#[test]
fn an_older_look_does_not_tell_why_a_client_takes_long() {
    let (mut world, older) = claimed();
    world.pass(61.0);
    let proof = Box::new(living(&world));
    world.take(&Event::Proved { session_id: String::new(), intent: older, proof });
    assert_eq!(world.session("s1").recovery.needs_operator, None);
    let PaneState::Client { input, signature, .. } = EMPTY else { panic!() };
    let pane = PaneState::Client { screen: Some(Screen::Trust), input, signature };
    let proof = Proof { pane, ..living(&world) };
    assert_eq!(world.prove(proof), []);
    assert!(world.waits_for().contains("a dialog is open"), "{}", world.waits_for());
    assert_eq!(world.session("s1").recovery.needs_operator, None);
}

// H-13: that the resumed client is not alone is told by the look that was made once it had started, not by an
// older one, which saw others or nobody.
#[test]
fn an_older_look_does_not_tell_whether_the_resumed_client_is_alone() {
    let (mut world, older) = claimed();
    world.comes_up(NEXT);
    world.pass(3.5);
    for owners in [vec![process(900)], Vec::new()] {
        let proof = Box::new(Proof { owners, ..living(&world) });
        world.take(&Event::Proved { session_id: String::new(), intent: older, proof });
        assert_eq!(world.session("s1").recovery.needs_operator, None);
        let stage = &world.pending().unwrap().stage;
        assert!(matches!(stage, Stage::Started { is_sole: false, .. }), "{stage:?}");
    }
    let proof = living(&world);
    assert_eq!(world.prove(proof), []);
    world.pass(2.0);
    assert_eq!(world.outcome(), Some("verified"));
}

// H-34: a line that was typed and that nobody took may stand at the shell's prompt still: the next look looks for
// it. One that was run in a pane or window of its own stands nowhere.
#[test]
fn the_next_look_looks_for_a_line_that_was_typed_and_for_no_other() {
    let panes = [(SHELL_PROMPT, true), (PaneState::Dead, false), (PaneState::Closed, false)];
    for (pane, is_typed) in panes {
        let mut world = in_a_turn();
        world.crash(PID);
        let proof = Proof { pane: pane.clone(), ..dead(&world) };
        let nonce = proof.nonce.clone();
        let (intent, _) = world.act(proof);
        world.acted(intent, Outcome::Done);
        world.pass(66.0);
        assert_eq!(world.outcome(), Some("failed"), "nobody took it");
        let (_, subject) = world.asked();
        assert_eq!(subject.typed, is_typed.then_some(nonce), "{pane:?}");
    }
}

// S0-25: the harness ended, and whether the signal was sent is not told: at the end of the time that it may take it
// is taken for ours, and its session comes back.
#[test]
fn an_end_that_may_be_ours_is_taken_for_ours_when_its_time_is_over() {
    let mut world = unattended();
    world.signature();
    world.is_content(false);
    let proof = living(&world);
    assert!(matches!(world.act(proof).1, Action::End { .. }));
    let until = world.seconds + 10.0;
    world.pass(3.0);
    world.die(PID, Registry::Absent);
    world.pass(until - world.seconds - 0.01);
    assert!(matches!(world.pending().unwrap().stage, Stage::Ending { .. }));
    assert!(!world.pending().unwrap().ended_by_us);
    world.pass(0.01);
    assert!(world.pending().unwrap().ended_by_us);
    let proof = dead(&world);
    assert!(matches!(world.act(proof).1, Action::TypeResume { .. }));
}

// S0-25f: only what a host event took along may come back in another server than its own, which is gone.
#[test]
fn only_what_a_host_event_interrupted_may_come_back_in_any_server() {
    let mut world = in_a_turn();
    world.crash(PID);
    assert!(!world.asked().1.any_server, "a crash");

    let mut world = unattended();
    world.crash(PID);
    world.actions();
    world.command(Command::Recover { session: world.key(), restart: false, when_idle: false });
    assert!(!world.asked().1.any_server, "an order");

    let mut world = unattended();
    world.reboot();
    world.locked();
    world.pass(31.0);
    world.command(Command::Restore { sessions: vec![world.key()] });
    assert!(world.asked().1.any_server, "a restart of the machine");
}

// G5, H-35, H-44: the limit of one turn begins anew with a turn of its user's own: not with one that coord started,
// nor where nobody but a claim says that there was a prompt.
#[test]
fn only_a_turn_of_its_user_begins_the_limit_of_a_turn_anew() {
    let used = |world: &World| world.session("s1").recovery.budget.used();
    let mut world = in_a_turn();
    world.crash(PID);
    world.comes_back(NEXT);
    assert!(world.actions().iter().any(|action| matches!(action, Action::Wake { .. })), "to go on");
    world.hook("s1", NEXT, PROMPT);
    assert_eq!(used(&world), (1, 1), "that turn was started by coord");
    world.hook("s1", NEXT, STOP);
    let claim = world.event("s1", NEXT, PROMPT, 0.0);
    world.send(HookEvent { provenance: Provenance::Claimed, ..claim });
    world.seconds += 0.001;
    assert_eq!(used(&world), (1, 1), "that one is only claimed");
    world.hook("s1", NEXT, STOP);
    world.hook("s1", NEXT, PROMPT);
    assert_eq!(used(&world), (0, 1), "its user goes on");
}
