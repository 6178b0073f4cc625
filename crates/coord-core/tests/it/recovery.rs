//! From a crash to the resumed session, step by step, and everything that stops it on the way.

use crate::crashes::{
    EMPTY, NEXT, PID, SHELL_PROMPT, at_rest, dead, in_a_turn, is_act, launch, living, unattended,
};
use crate::world::{END, EXIT, PROMPT, RESUME, STOP, World, no_registry, process, start_of};
use coord_core::Stage;
use coord_model::{
    Action, Command, Input, Mode, Outcome, PaneState, ParentKind, Prompt, Proof, RegistryStatus,
    Screen, SessionState, Settings, Signal, TranscriptState,
};

// S0-28a, S0-25a, S0-25b, S0-25e, H-33
#[test]
fn a_crash_in_a_turn_comes_back_in_its_shell() {
    let mut world = in_a_turn();
    world.crash(PID);
    assert_eq!(world.state_of("s1"), SessionState::RecoveryPending);
    let proof = dead(&world);
    let (intent, action) = world.act(proof);
    assert!(matches!(&action, Action::TypeResume { subject, .. } if subject.session_id == "s1"));
    assert_eq!(world.state_of("s1"), SessionState::Recovering);
    world.acted(intent, Outcome::Done);
    world.claim(NEXT);
    world.comes_up(NEXT);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert_eq!(world.outcome(), None);
    world.pass(3.5);
    let proof = living(&world);
    assert_eq!(world.prove(proof), []);
    world.pass(2.0);
    assert_eq!(world.outcome(), Some("verified"));
    assert!(world.pending().is_none());
    assert_eq!(world.session("s1").recovery.budget.used(), (1, 1));
    assert!(matches!(world.actions().last(), Some(Action::Release { .. })));
}

// H-06: an attended session is brought back only if it is wanted, or with a signature of its own.
#[test]
fn somebody_who_watches_is_not_surprised() {
    let mut world = at_rest();
    world.crash(PID);
    assert!(world.pending().is_some(), "what is on its screen has to be looked at");
    assert_eq!(world.state_of("s1"), SessionState::Crashed);
    let proof = dead(&world);
    assert_eq!(world.prove(proof), []);
    assert_eq!((world.outcome(), world.state_of("s1")), (Some("closed"), SessionState::Crashed));

    let mut world = at_rest();
    world.crash(PID);
    let signature = Some("RangeError: Maximum call stack size exceeded".to_owned());
    let prompt = Some(Prompt { column: 10, digest: 7 });
    let pane = PaneState::Shell { prompt, signature, has_typed: false };
    let proof = Proof { pane, ..dead(&world) };
    assert_eq!(world.prove(proof.clone()), []);
    assert!(matches!(world.pending().unwrap().stage, Stage::Grace { .. }));
    world.pass(9.0);
    assert!(matches!(world.pending().unwrap().stage, Stage::Grace { .. }));
    world.pass(1.5);
    let proof = Proof { nonce: "n2".into(), ..proof };
    assert!(matches!(world.act(proof).1, Action::TypeResume { .. }));
}

// H-06: any key in the pane cancels during the grace.
#[test]
fn a_key_cancels_the_grace() {
    let mut world = at_rest();
    world.set_mode(Mode::Act);
    world.crash(PID);
    let proof = dead(&world);
    assert_eq!(world.prove(proof), []);
    world.pass(10.5);
    let key_ms = Some(world.now().wall_ms - 4_000);
    let proof = Proof { key_ms, any_key_ms: key_ms, ..dead(&world) };
    assert_eq!(world.prove(proof), []);
    assert_eq!(world.outcome(), Some("failed"));
    assert!(world.session("s1").recovery.needs_operator.is_some());
}

// S0-25g: everything is decided, nothing is done.
#[test]
fn observing_is_recorded_and_touches_nothing() {
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = dead(&world);
    let (intent, _) = world.act(proof);
    world.acted(intent, Outcome::Observed);
    assert_eq!((world.outcome(), world.state_of("s1")), (Some("observed"), SessionState::Crashed));
}

// G6, S0-25f, H-05: what its user ended is not brought back.
#[test]
fn what_was_ended_stays_ended() {
    for end in [EXIT, END] {
        let mut world = unattended();
        world.hook("s1", PID, end);
        world.exit(PID);
        assert!(world.pending().is_none());
        assert_eq!(world.state_of("s1"), SessionState::Stopped);
    }
    // The SessionEnd hook is late: it comes after the judgement.
    let mut world = in_a_turn();
    world.crash(PID);
    world.hook("s1", PID, EXIT);
    assert!(world.pending().is_none());
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
    // It is later still: the line is typed already, and good for nothing.
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = dead(&world);
    let nonce = proof.nonce.clone();
    let _ = world.act(proof);
    assert!(world.state.resume_placed(&nonce).is_some());
    world.hook("s1", PID, EXIT);
    assert!(world.state.resume_placed(&nonce).is_none());
}

// H-42: its user resumed it meanwhile.
#[test]
fn a_resume_by_its_user_ends_the_recovery() {
    let mut world = in_a_turn();
    world.crash(PID);
    world.hook("s1", NEXT, RESUME);
    assert!(world.pending().is_none());
    assert_eq!(world.outcome(), Some("closed"));
}

/// What keeps a dead harness's session from coming back, and the word for what becomes of it.
fn hindered(change: impl FnOnce(&World, &mut Proof)) -> (World, Vec<Action>) {
    let mut world = in_a_turn();
    world.crash(PID);
    world.pass(5.0);
    let mut proof = dead(&world);
    change(&world, &mut proof);
    let actions = world.prove(proof);
    (world, actions)
}

// H-13, H-18, H-33, H-36, H-11, S0-25e: what the proof shows decides.
#[test]
fn nothing_is_done_on_a_proof_that_shows_a_hindrance() {
    type Change = fn(&World, &mut Proof);
    let changes: [(&str, Change, Option<&str>); 13] = [
        ("H-18", |_, proof| proof.is_line_plain = false, Some("failed")),
        ("H-13", |_, proof| proof.owners.push(process(900)), Some("failed")),
        ("H-36", |_, proof| proof.transcript = TranscriptState::Absent, Some("closed")),
        ("H-36", |_, proof| proof.transcript = TranscriptState::Empty, Some("closed")),
        ("H-13", |_, proof| proof.transcript = TranscriptState::Locked, None),
        ("H-18", |_, proof| proof.has_cwd = false, Some("failed")),
        ("H-18", |_, proof| proof.has_program = false, Some("failed")),
        ("H-11", |_, proof| proof.want = Some("too little memory".into()), None),
        ("H-33", |_, proof| proof.children.push(process(901)), None),
        ("H-17", |_, proof| proof.is_synchronized = true, None),
        ("H-16", |_, proof| proof.is_in_mode = true, None),
        ("S0-25e", |_, proof| proof.pane = PaneState::None, Some("failed")),
        ("H-10", |_, proof| proof.pane = PaneState::NoServer, Some("closed")),
    ];
    for (rule, change, outcome) in changes {
        let (world, actions) = hindered(change);
        assert_eq!(actions, [], "{rule}");
        assert_eq!(world.outcome(), outcome, "{rule}: {:?}", world.pending());
        assert_eq!(world.pending().is_some(), outcome.is_none(), "{rule}");
        assert!(world.decisions.iter().any(|one| one.rule == rule), "{rule}");
    }
}

// H-18: where typing is not proved to be safe, an unattended session gets a window of its own.
#[test]
fn a_shell_that_may_not_be_typed_into_is_left_alone() {
    type Change = fn(&World, &mut Proof);
    let changes: [(&str, Change); 5] = [
        ("half-typed", |_, proof| {
            proof.pane = PaneState::Shell { prompt: None, signature: None, has_typed: false };
        }),
        ("sudo", |_, proof| proof.pane = PaneState::Other),
        ("a key", |world, proof| proof.key_ms = Some(world.now().wall_ms)),
        ("closed", |_, proof| proof.pane = PaneState::Closed),
        ("dead", |_, proof| proof.pane = PaneState::Dead),
    ];
    for (name, change) in changes {
        let (_, actions) = hindered(change);
        let is_right = match name {
            "dead" => matches!(actions.as_slice(), [Action::RespawnPane { .. }]),
            _ => matches!(actions.as_slice(), [Action::NewWindow { .. }]),
        };
        assert!(is_right, "{name}: {actions:?}");
    }
}

// H-18: a shell needs a moment to paint its prompt; another prompt than the first one is a typed line.
#[test]
fn the_shells_prompt_is_awaited_and_remembered() {
    let mut world = in_a_turn();
    world.crash(PID);
    let painting = PaneState::Shell { prompt: None, signature: None, has_typed: false };
    let proof = Proof { pane: painting, ..dead(&world) };
    assert_eq!(world.prove(proof), []);
    world.pass(0.5);
    // Another process has its transcript for a while.
    let proof = Proof { transcript: TranscriptState::Locked, ..dead(&world) };
    assert_eq!(world.prove(proof), []);
    world.pass(25.0);
    let prompt = Some(Prompt { column: 12, digest: 9 });
    let pane = PaneState::Shell { prompt, signature: None, has_typed: false };
    let proof = Proof { pane, ..dead(&world) };
    assert!(matches!(world.act(proof).1, Action::NewWindow { .. }));
}

// H-33: a tool that lives on is waited for, ten minutes long, and never touched.
#[test]
fn a_surviving_tool_is_waited_for() {
    let mut world = in_a_turn();
    world.crash(PID);
    for _ in 0..130 {
        if world.pending().is_none() {
            break;
        }
        let proof = Proof { children: vec![process(901)], ..dead(&world) };
        assert_eq!(world.prove(proof), []);
        world.pass(5.0);
    }
    let flag = world.session("s1").recovery.needs_operator.clone().unwrap();
    assert!(flag.reason.contains("still run"), "{flag:?}");
}

// H-13, H-19: who is restarted by others, or cannot be started the same way, is not restarted.
#[test]
fn a_wrapper_or_an_unknown_option_is_no_case_for_coord() {
    for is_wrapper in [true, false] {
        let mut world = in_a_turn();
        let mut launch = launch();
        if is_wrapper {
            launch.parent.kind = ParentKind::Other("loop.sh".into());
        } else {
            launch.unfit = Some("--news is not known".into());
        }
        world.launched(PID, launch);
        world.crash(PID);
        assert!(world.pending().is_none());
        assert!(!world.actions().iter().any(is_act));
        assert_eq!(world.session("s1").recovery.needs_operator.is_some(), !is_wrapper);
    }
}

// S0-08 to S0-10, S0-16, S0-19 to S0-21, S0-25, S0-26, H-08
#[test]
fn a_signature_in_a_turn_waits_for_rest_and_then_restarts_gracefully() {
    let mut world = in_a_turn();
    world.signature();
    world.is_content(false);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    let since = world.pending().unwrap().detected_at;
    world.signature();
    assert_eq!(world.pending().unwrap().detected_at, since);
    world.pass(300.0);
    let proof = Proof { idle_since_ms: None, ran_ns: Some(1), ..living(&world) };
    assert_eq!(world.prove(proof), [], "it works");
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    let proof = Proof { idle_since_ms: Some(world.now().wall_ms), ..living(&world) };
    assert_eq!(world.prove(proof), [], "idle for 30 s first");
    world.pass(32.0);
    let proof = living(&world);
    let (intent, action) = world.act(proof);
    assert!(matches!(action, Action::End { signal: Signal::Term, .. }), "{action:?}");
    world.acted(intent, Outcome::Done);
    world.hook("s1", PID, END);
    world.exit(PID);
    assert!(world.pending().is_some(), "its end was ours: {:?}", world.session("s1").presence);
    world.comes_back(NEXT);
    assert_eq!(world.session("s1").recovery.budget.used().1, 1, "one attempt");
}

// H-08, S0-15, S0-25c, R-02: a living harness is ended only at rest with nobody at it.
#[test]
fn a_living_harness_is_left_alone_while_anybody_may_be_at_it() {
    type Change = fn(&World, &mut Proof);
    let changes: [(&str, Change); 9] = [
        ("a key", |world, proof| proof.any_key_ms = Some(world.now().wall_ms - 100_000)),
        ("a draft", |_, proof| {
            let (screen, input) = (Some(Screen::Prompt), Input::Draft);
            proof.pane = PaneState::Client { screen, input, signature: None };
        }),
        ("an unreadable line", |_, proof| {
            let (screen, input) = (Some(Screen::Prompt), Input::Unreadable);
            proof.pane = PaneState::Client { screen, input, signature: None };
        }),
        ("a dialog", |_, proof| {
            let (screen, input) = (Some(Screen::Permission), Input::Empty);
            proof.pane = PaneState::Client { screen, input, signature: None };
        }),
        ("an editor", |_, proof| proof.children.push(process(901))),
        ("something in front", |_, proof| proof.pane = PaneState::Other),
        ("no registry", |_, proof| proof.idle_since_ms = None),
        ("another owner", |_, proof| proof.owners.push(process(900))),
        ("idle for a moment", |world, proof| {
            proof.idle_since_ms = Some(world.now().wall_ms - 10_000);
        }),
    ];
    for (name, change) in changes {
        let mut world = unattended();
        world.signature();
        world.is_content(false);
        let mut proof = living(&world);
        change(&world, &mut proof);
        assert_eq!(world.prove(proof), [], "{name}");
        assert_eq!(world.state_of("s1"), SessionState::Idle, "{name}");
    }
}

// S0-29: the words of a crash that are content close the case.
#[test]
fn content_is_no_crash() {
    let mut world = in_a_turn();
    world.signature();
    world.is_content(true);
    assert!(world.pending().is_none());
    assert_eq!(world.outcome(), Some("closed"));
    world.signature();
    assert!(world.pending().is_none());
}

// H-07: in a session that somebody watches, a signature over a living harness is evidence only.
#[test]
fn a_signature_in_an_attended_session_opens_nothing() {
    let mut world = at_rest();
    world.signature();
    world.is_content(false);
    world.pass(400.0);
    assert!(world.pending().is_none());
    assert!(!world.actions().iter().any(is_act));
}

// G4: between proof and act something changed: nothing was touched, and it is proved anew.
#[test]
fn a_change_before_the_act_is_proved_anew() {
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = dead(&world);
    let (intent, _) = world.act(proof);
    world.acted(intent, Outcome::Changed { what: "the pane changed".into() });
    assert_eq!(world.waits_for(), "not done: the pane changed");
    world.pass(1.5);
    world.comes_back(NEXT);
    assert_eq!(world.session("s1").recovery.budget.used().1, 1, "one attempt");
}

// S0-11, S0-22, S0-23, G5: failures wait longer and longer, and then a person is asked.
#[test]
fn failed_attempts_are_spaced_and_limited() {
    let mut world = in_a_turn();
    world.crash(PID);
    for wait in [5.0, 10.0] {
        world.resume_as(NEXT);
        world.exit(NEXT);
        assert_eq!(world.outcome(), Some("failed"));
        world.pass(wait - 0.5);
        assert_eq!(world.actions().len(), 0, "not before {wait} s");
        world.pass(1.0);
    }
    let proof = dead(&world);
    let (intent, _) = world.act(proof);
    world.acted(intent, Outcome::Failed { why: "tmux".into() });
    assert!(world.pending().is_some(), "S0-21");
    let flag = world.session("s1").recovery.needs_operator.clone().unwrap();
    assert_eq!(flag.reason, "3 recoveries in this turn");
    world.pass(1_000.0);
    assert!(!world.actions().iter().any(is_act));
    world.command(Command::ResetFailed { session: Some(world.key()) });
    assert!(world.session("s1").recovery.needs_operator.is_none());
    let proof = dead(&world);
    assert_eq!(world.prove(proof).len(), 1);
}

// G5: limits that begin anew count what is under way from its next step.
#[test]
fn an_attempt_behind_a_reset_counts() {
    let mut world = at_rest();
    let session = world.key();
    world.command(Command::Recover { session, restart: true, when_idle: true });
    for begins_anew in [false, true] {
        if begins_anew {
            world.command(Command::ResetFailed { session: Some(session) });
            assert_eq!(world.session("s1").recovery.budget.used(), (0, 0));
        }
        let proof = living(&world);
        let (intent, _) = world.act(proof);
        assert_eq!(world.session("s1").recovery.budget.used(), (1, 1));
        world.acted(intent, Outcome::Changed { what: "the screen changed".into() });
        world.pass(3.0);
    }
}

// S0-25b, H-43: nobody takes the line; its nonce is good for nothing then.
#[test]
fn a_line_that_nobody_takes_is_a_failed_attempt() {
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = dead(&world);
    let nonce = proof.nonce.clone();
    let (intent, _) = world.act(proof);
    world.acted(intent, Outcome::Done);
    assert!(world.state.resume_placed(&nonce).is_some());
    world.pass(61.0);
    assert_eq!(world.outcome(), Some("failed"));
    assert!(world.state.resume_placed(&nonce).is_none());
}

// H-43: a resumed client that does not report is left alone: a dialog waits for its user.
#[test]
fn a_slow_resume_is_never_started_again() {
    for (pane, needs_operator) in [
        (
            PaneState::Client {
                screen: Some(Screen::Trust),
                input: Input::Unreadable,
                signature: None,
            },
            false,
        ),
        (EMPTY, true),
    ] {
        let mut world = in_a_turn();
        world.crash(PID);
        world.resume_as(NEXT);
        world.pass(61.0);
        let proof = Proof { pane, ..living(&world) };
        assert_eq!(world.prove(proof), []);
        assert_eq!(world.session("s1").recovery.needs_operator.is_some(), needs_operator);
        world.pass(3_600.0);
        assert!(!world.actions().iter().any(is_act));
        // It comes up after all.
        world.comes_up(NEXT);
        world.pass(3.5);
        let proof = living(&world);
        world.prove(proof);
        world.pass(2.0);
        assert_eq!(world.outcome(), Some("verified"));
        assert!(world.session("s1").recovery.needs_operator.is_none());
    }
}

// H-06: who kills it again and again means it.
#[test]
fn a_second_death_soon_after_is_left_alone() {
    let mut world = in_a_turn();
    world.crash(PID);
    world.comes_back(NEXT);
    world.pass(40.0);
    world.screen(NEXT, Screen::Prompt);
    world.crash(NEXT);
    let proof = dead(&world);
    assert_eq!(world.prove(proof), []);
    assert!(world.session("s1").recovery.needs_operator.is_some());
}

// H-06, H-32, G12
#[test]
fn a_hold_and_settling_keep_it_back() {
    let mut world = in_a_turn();
    world.command(Command::Hold { session: None, for_ms: Some(60_000) });
    world.crash(PID);
    assert_eq!(world.waits_for(), "a person holds the session");
    world.pass(59.0);
    assert_eq!(world.actions(), []);
    world.pass(2.0);
    let proof = dead(&world);
    assert_eq!(world.prove(proof).len(), 1);

    let mut world = in_a_turn();
    world.take(&coord_model::Event::Gap { ns: 0 });
    world.crash(PID);
    world.pass(29.0);
    assert_eq!(world.actions(), []);
    world.pass(2.0);
    let proof = dead(&world);
    assert_eq!(world.prove(proof).len(), 1);
}

// H-06: what holds all holds one whose own hold is over, too.
#[test]
fn a_hold_that_is_over_lifts_no_other() {
    let mut world = in_a_turn();
    let session = Some(world.key());
    world.command(Command::Hold { session, for_ms: Some(1_000) });
    world.pass(2.0);
    world.command(Command::Hold { session: None, for_ms: None });
    world.crash(PID);
    assert_eq!(world.waits_for(), "a person holds the session");
}

// H-14: without the lock of the configuration directory, and without a proved hook, nothing acts.
#[test]
fn who_has_not_the_lock_only_looks() {
    let mut world = in_a_turn();
    let config_dir = "/home/dev/.claude".into();
    world.take(&coord_model::Event::ConfigDirLock { config_dir, held: false });
    world.crash(PID);
    world.pass(100.0);
    assert_eq!(world.actions(), []);
    assert!(world.waits_for().contains("another coordinator"));
    // A start forgets the locks of the process before it, and blames nobody for that.
    let host = world.state.header().host.clone().unwrap();
    world.take(&start_of(host, Settings::default()));
    assert!(world.waits_for().contains("not locked yet"), "{}", world.waits_for());
}

// H-35: what its user goes on with is no longer a case for the operator.
#[test]
fn a_completed_turn_lifts_needs_operator() {
    let (mut world, _) = hindered(|_, proof| proof.has_cwd = false);
    assert!(world.session("s1").recovery.needs_operator.is_some());
    world.hook("s1", NEXT, RESUME);
    world.hook("s1", NEXT, PROMPT);
    world.pass(1.0);
    world.hook("s1", NEXT, STOP);
    assert!(world.session("s1").recovery.needs_operator.is_none());
}

// G10, H-34: a restart in the midst of each step never repeats it blindly.
#[test]
fn a_restart_looks_before_it_goes_on() {
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = dead(&world);
    let _ = world.act(proof);
    world.start_coordinator();
    let config_dir = "/home/dev/.claude".into();
    world.take(&coord_model::Event::ConfigDirLock { config_dir, held: true });
    assert!(!world.actions().iter().any(is_act));
    // The line had been typed, and is taken now.
    world.claim(NEXT);
    world.comes_up(NEXT);
    world.pass(3.5);
    let proof = living(&world);
    world.prove(proof);
    // Nothing is concluded from time alone right after a start (H-32).
    world.pass(2.0);
    assert_eq!(world.outcome(), None);
    world.pass(30.0);
    assert_eq!(world.outcome(), Some("verified"));

    // It had not: the next look shows our line, or an empty one.
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = dead(&world);
    let _ = world.act(proof);
    world.start_coordinator();
    let config_dir = "/home/dev/.claude".into();
    world.take(&coord_model::Event::ConfigDirLock { config_dir, held: true });
    world.pass(70.0);
    let PaneState::Shell { prompt, signature, .. } = SHELL_PROMPT else { panic!() };
    let pane = PaneState::Shell { prompt, signature, has_typed: true };
    let proof = Proof { pane, ..dead(&world) };
    assert_eq!(world.prove(proof), []);
    assert!(world.waits_for().contains("not sent"));
}

// H-05, S0-02: what nothing proves to be a crash is not brought back, whatever its screen showed before.
#[test]
fn an_unknown_end_is_no_crash() {
    for has_signature in [false, true] {
        let mut world = in_a_turn();
        if has_signature {
            world.signature();
            world.is_content(false);
        }
        assert_eq!(world.pending().is_some(), has_signature);
        world.die(PID, no_registry());
        world.pass(10.0);
        assert_eq!(world.state_of("s1"), SessionState::Unknown);
        assert!(world.pending().is_none());
    }
}

// H-10, H-11, S0-25f: the deaths come first, their tmux server's end is noticed behind them.
#[test]
fn what_a_host_event_took_along_is_no_crash() {
    let mut world = in_a_turn();
    for (id, pid) in [("s2", 102), ("s3", 103)] {
        world.open_in(id, pid, coord_model::Kind::Interactive, Some(crate::world::pane(7)));
        world.seen_on_pane(pid, crate::world::its(crate::world::blank()), false);
    }
    for (id, pid) in [("s1", PID), ("s2", 102), ("s3", 103)] {
        world.die(pid, crate::world::present(id));
    }
    assert!(world.state.header().machine.breaker.is_some());
    world.exit(7);
    for id in ["s1", "s2", "s3"] {
        assert_eq!(world.state_of(id), SessionState::Interrupted, "{id}");
        assert!(world.session(id).recovery.pending.is_none(), "{id}");
    }
    assert!(world.state.header().machine.breaker.is_none());
    world.pass(600.0);
    assert!(!world.actions().iter().any(is_act));
    world.command(Command::Restore { sessions: vec![world.key()] });
    let proof = Proof { pane: PaneState::Closed, ..dead(&world) };
    assert!(matches!(world.act(proof).1, Action::NewWindow { .. }));
}
