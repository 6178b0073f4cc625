//! A harness that hangs in the midst of a turn: what proves it, and what is done then (H-07, S0-25).

use crate::crashes::{NEXT, PID, at_rest, in_a_turn, living};
use crate::world::{PROMPT, World};

use coord_model::{
    Action, Background, Command, HookKind, Input, Outcome, PaneState, Proof, Registry,
    RegistryStatus, SessionState, Signal,
};

/// A look at a harness that is busy, behind whatever stands in its input line.
fn busy(world: &World, ran_ns: Option<u64>) -> Proof {
    let pane = PaneState::Client { screen: None, input: Input::Draft, signature: None };
    Proof { idle_since_ms: None, ran_ns, pane, ..living(world) }
}

/// A crash signature in an open turn, a minute on.
fn signed() -> World {
    let mut world = in_a_turn();
    world.signature();
    world.is_content(false);
    world.pass(61.0);
    world
}

/// Looks every ten seconds find this; the acts that come of it.
#[track_caller]
fn look_on(world: &mut World, looks: u32, ran_ns: impl Fn(u32) -> Option<u64>) -> Vec<Action> {
    for look in 0..looks {
        let proof = busy(world, ran_ns(look));
        let acts = world.prove(proof);
        if !acts.is_empty() {
            return acts;
        }
        world.pass(10.0);
    }
    Vec::new()
}

fn is_end(acts: &[Action], with: Signal) -> bool {
    matches!(acts, [Action::End { signal, proof, .. }] if *signal == with && proof.ran_ns.is_some())
}

// H-07, S0-25: SIGTERM after a minute; SIGKILL only after another whole minute.
#[test]
fn a_main_thread_that_never_runs_is_hung() {
    let mut world = signed();
    assert_eq!(look_on(&mut world, 6, |_| Some(5)), [], "not within a minute");
    let proof = busy(&world, Some(5));
    let (intent, action) = world.act(proof);
    assert!(is_end(&[action], Signal::Term));
    world.acted(intent, Outcome::Done);
    world.pass(10.5);
    // The signal woke it for a moment.
    assert_eq!(look_on(&mut world, 6, |_| Some(6)), [], "not within a minute");
    let proof = busy(&world, Some(6));
    let (intent, action) = world.act(proof);
    assert!(is_end(&[action], Signal::Kill));
    world.acted(intent, Outcome::Done);
    world.crash(PID);
    assert!(world.pending().unwrap().was_working, "its work was cut off");
    world.comes_back(NEXT);
    assert_eq!(world.session("s1").recovery.budget.used().1, 1, "one attempt");
}

// S0-04, H-07: however still its screen is.
#[test]
fn a_main_thread_that_runs_is_left_alone() {
    let mut world = signed();
    assert_eq!(look_on(&mut world, 60, |look| Some(u64::from(look) / 6)), []);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    assert_eq!(world.waits_for(), "a turn is open");
}

// G4: where it is not told, and where its user has stopped it, nothing is proved.
#[test]
fn what_is_not_told_proves_nothing() {
    let mut world = signed();
    assert_eq!(look_on(&mut world, 60, |_| None), []);
    assert_eq!(look_on(&mut world, 60, |look| Some(5).filter(|_| look % 6 != 5)), []);
}

// S0-20, H-07: nor one whose background work goes on, whatever its main thread does in the turn behind it.
#[test]
fn background_work_is_not_cut_off_by_the_next_turn() {
    let work = Background { tasks: 1, subagents: 0, crons: 0 };
    for (background, is_ended) in [(Background::default(), true), (work, false)] {
        let mut world = in_a_turn();
        world.signature();
        world.is_content(false);
        // A prompt that waited becomes the next turn.
        world.hook("s1", PID, PROMPT);
        world.hook("s1", PID, HookKind::Stop(background));
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(61.0);
        assert_eq!(world.waits_for(), "a turn is open");
        assert_eq!(world.state_of("s1"), SessionState::Running);
        let looks = world.actions();
        assert_eq!(looks.iter().any(|action| matches!(action, Action::Prove { .. })), is_ended);
    }
}

// S0-25: what moved after SIGTERM is not killed.
#[test]
fn one_that_wakes_is_not_killed() {
    let mut world = signed();
    let acts = look_on(&mut world, 7, |_| Some(5));
    assert!(is_end(&acts, Signal::Term));
    world.acted(crate::crashes::intent_of(&acts[0]), Outcome::Done);
    world.pass(10.5);
    assert_eq!(look_on(&mut world, 60, |look| Some(u64::from(look))), []);
}

/// Hangs, gets SIGTERM, does not end, and hangs on for this many looks.
fn outlived(looks: u32) -> World {
    let mut world = signed();
    let acts = look_on(&mut world, 7, |_| Some(5));
    assert!(is_end(&acts, Signal::Term));
    world.acted(crate::crashes::intent_of(&acts[0]), Outcome::Done);
    world.pass(10.5);
    assert_eq!(look_on(&mut world, looks, |_| Some(6)), []);
    world
}

// H-07: any sign of life after SIGTERM withdraws the case. SIGKILL is never next.
#[test]
fn any_sign_of_life_withdraws_the_case() {
    type Sign = fn(&mut World);
    let signs: [(&str, Sign); 4] = [
        ("a hook", |world| world.hook("s1", PID, crate::world::TOOL)),
        ("the registry", |world| world.says("s1", PID, RegistryStatus::Shell)),
        ("its main thread", |world| {
            let proof = busy(world, Some(7));
            assert_eq!(world.prove(proof), []);
            world.pass(10.0);
        }),
        ("its screen", |world| {
            let proof = Proof { pane: crate::crashes::EMPTY, ..busy(world, Some(6)) };
            assert_eq!(world.prove(proof), []);
            world.pass(10.0);
        }),
    ];
    for (name, sign) in signs {
        let mut world = outlived(3);
        sign(&mut world);
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(10.0);
        assert_eq!(look_on(&mut world, 6, |_| Some(6)), [], "{name}: not within a minute");
        let acts = look_on(&mut world, 2, |_| Some(6));
        assert!(is_end(&acts, Signal::Term), "{name}: {acts:?}");
        assert_eq!(world.session("s1").recovery.budget.used(), (2, 2), "{name}: each one counts");
    }
}

// G5: a client that shows life right after SIGTERM has outlived that attempt, and the next one counts.
#[test]
fn an_attempt_that_its_client_outlived_is_over() {
    let mut world = signed();
    let acts = look_on(&mut world, 7, |_| Some(5));
    world.acted(crate::crashes::intent_of(&acts[0]), Outcome::Done);
    world.pass(5.0);
    world.hook("s1", PID, crate::world::TOOL);
    world.pass(6.0);
    assert!(world.pending().unwrap().begun.is_none());
    let acts = look_on(&mut world, 9, |_| Some(6));
    assert!(is_end(&acts, Signal::Term), "{acts:?}");
    assert_eq!(world.session("s1").recovery.budget.used(), (2, 2));
}

// S0-25: what it did between SIGTERM and the first look after it counts, too.
#[test]
fn a_hook_right_after_the_signal_is_a_sign_of_life() {
    let mut world = signed();
    let acts = look_on(&mut world, 7, |_| Some(5));
    world.acted(crate::crashes::intent_of(&acts[0]), Outcome::Done);
    world.pass(5.0);
    world.hook("s1", PID, crate::world::TOOL);
    world.pass(5.5);
    assert!(is_end(&look_on(&mut world, 7, |_| Some(6)), Signal::Term));
}

// S0-25, S0-04: one that outlived a signal and went on working is asked anew when it hangs again.
#[test]
fn one_that_hangs_again_later_is_not_killed_at_once() {
    let mut world = signed();
    let acts = look_on(&mut world, 7, |_| Some(5));
    assert!(is_end(&acts, Signal::Term));
    world.acted(crate::crashes::intent_of(&acts[0]), Outcome::Done);
    world.pass(10.5);
    assert_eq!(look_on(&mut world, 7, |look| Some(u64::from(look))), []);
    assert_eq!(look_on(&mut world, 6, |_| Some(99)), [], "not within a minute");
    assert!(is_end(&look_on(&mut world, 1, |_| Some(99)), Signal::Term));
}

// H-08: a person, a program of its own and another owner keep a hung one from being ended, too.
#[test]
fn what_holds_for_every_living_harness_holds_for_a_hung_one() {
    type Change = fn(&World, &mut Proof);
    let changes: [(&str, Change); 4] = [
        ("somebody is at the terminal", |world, proof| {
            proof.any_key_ms = Some(world.now().wall_ms - 100_000);
        }),
        ("a child of the client has the terminal", |_, proof| {
            proof.children = vec![crate::world::process(9)];
        }),
        ("the screen cannot be read", |_, proof| proof.pane = PaneState::Closed),
        ("another process has locked the transcript", |_, proof| {
            proof.transcript = coord_model::TranscriptState::Locked;
        }),
    ];
    for (why, change) in changes {
        let mut world = signed();
        assert_eq!(look_on(&mut world, 6, |_| Some(5)), []);
        let mut proof = busy(&world, Some(5));
        change(&world, &mut proof);
        assert_eq!(world.prove(proof), [], "{why}");
        assert_eq!(world.waits_for(), why);
    }
}

// H-07: a person who asks for a session does not ask for its work to be cut off.
#[test]
fn a_person_who_asks_gets_a_hung_one_back() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    let session = world.key();
    world.command(Command::Recover { session, restart: true, when_idle: true });
    world.pass(61.0);
    assert_eq!(look_on(&mut world, 20, |look| Some(u64::from(look))), []);
    assert!(is_end(&look_on(&mut world, 8, |_| Some(99)), Signal::Term));
}

// what is being ended has its word from that, however long it was silent.
#[test]
fn silence_is_no_deadline_while_it_is_ended() {
    let mut world = signed();
    world.pass(840.0);
    let acts = look_on(&mut world, 7, |_| Some(5));
    assert!(is_end(&acts, Signal::Term));
    world.acted(crate::crashes::intent_of(&acts[0]), Outcome::Done);
    world.registry(PID, Registry::Absent, false);
    world.pass(5.0);
    assert_eq!(world.state_of("s1"), SessionState::Recovering);
}

// G9, S0-25: every signal is recorded with what was seen and why it was sent.
#[test]
fn a_signal_is_recorded_with_its_reason() {
    let said = |world: &World| {
        let of_end = world.decisions.iter().filter(|one| one.did.starts_with("SIG"));
        let words = of_end.map(|one| (one.rule.clone(), one.saw.clone(), one.did.clone()));
        words.collect::<Vec<_>>()
    };
    let hung = "the client hangs: its main thread has not run for a minute of an open turn";
    let not_ended = "the hung client did not end on SIGTERM and has not run for another minute";
    let term = ("S0-25".into(), hung.to_owned(), "SIGTERM to the client".to_owned());
    let kill = ("S0-25".into(), not_ended.to_owned(), "SIGKILL to the client".to_owned());
    let mut world = outlived(0);
    assert_eq!(said(&world), std::slice::from_ref(&term));
    assert!(is_end(&look_on(&mut world, 7, |_| Some(6)), Signal::Kill));
    assert_eq!(said(&world), [term.clone(), kill]);

    let mut world = at_rest();
    let session = world.key();
    world.command(Command::Recover { session, restart: true, when_idle: false });
    let proof = living(&world);
    world.act(proof);
    let rest = "the client is idle, its input line is empty, and nobody is at the terminal";
    assert_eq!(said(&world), [("S0-25".into(), rest.to_owned(), term.2)]);
}
