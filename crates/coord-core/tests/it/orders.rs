//! What a person's order does to a living session, what its person is told first, and what becomes of a
//! prompt that meets its end (H-53, H-54, H-07, H-18).

use crate::crashes::{
    EMPTY, NEXT, PID, SHELL_PROMPT, at_rest, dead, in_a_turn, is_act, living, unattended,
};
use crate::world::{END, PROMPT, STOP, World};
use coord_core::Stage;
use coord_model::{
    Action, Command, HookKind, Input, Mode, Outcome, PaneState, Proof, Registry, RegistryStatus,
    Screen, SessionState, ToolPhase,
};

fn recover(world: &mut World, restart: bool, when_idle: bool) {
    let session = world.key();
    world.command(Command::Recover { session, restart, when_idle });
}

fn busy(world: &mut World) {
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
}

/// The answer to an order, without giving it.
fn would(world: &World, restart: bool, when_idle: bool) -> String {
    let order = Command::Recover { session: world.key(), restart, when_idle };
    world.state.would(&order).remove(0).words
}

// H-53: a living session is refused, with the reason; an idle one is ended only with an explicit word.
#[test]
fn a_living_session_is_not_ended_by_a_plain_order() {
    for (is_busy, restart, when_idle, says) in [
        (false, false, false, "refused: it is alive and idle; --restart ends"),
        (false, true, false, "coord will end the client now, if it is idle"),
        (true, false, false, "refused: it is alive and busy: a turn is open"),
        (true, true, false, "refused: it is alive and busy: a turn is open; with --when-idle"),
        (true, true, true, "coord will end the client once it is idle"),
    ] {
        let mut world = at_rest();
        if is_busy {
            busy(&mut world);
        }
        let said = would(&world, restart, when_idle);
        assert!(said.starts_with(says), "{said}");
        assert!(said.starts_with("refused") || said.contains("not sent is lost"), "{said}");
        recover(&mut world, restart, when_idle);
        assert_eq!(world.pending().is_none(), said.starts_with("refused"), "{said}");
    }
}

// U-07: the answer to an order says what will be tried, and no more: nothing has happened yet.
#[test]
fn an_order_for_a_dead_session_promises_no_success() {
    let mut world = at_rest();
    world.crash(PID);
    world.pass(1.0);
    let said = would(&world, false, false);
    assert_eq!(said, "coord will check the session, then resume it in its pane or in a new window");
}

// H-53: an order is for the moment: what it met is no reason to act later.
#[test]
fn an_order_expires() {
    let mut world = at_rest();
    recover(&mut world, true, false);
    let any_key_ms = Some(world.now().wall_ms - 5_000);
    let proof = Proof { any_key_ms, ..living(&world) };
    assert_eq!(world.prove(proof), []);
    world.pass(9.0);
    assert!(world.pending().is_some());
    world.pass(1.5);
    assert!(world.pending().is_none());
    assert_eq!(world.outcome(), Some("closed"));
    assert!(world.decisions.iter().any(|one| {
        one.rule == "H-53" && one.saw.contains("expired after 10 s: somebody is at the terminal")
    }));
    // The same with a word that lets it wait.
    let mut world = at_rest();
    recover(&mut world, true, true);
    let any_key_ms = Some(world.now().wall_ms - 5_000);
    let proof = Proof { any_key_ms, ..living(&world) };
    assert_eq!(world.prove(proof), []);
    world.pass(130.0);
    let proof = living(&world);
    assert!(matches!(world.act(proof).1, Action::End { .. }));
}

// H-53: of a harness that no source shows at an idle prompt nobody knows that it is idle.
#[test]
fn where_no_source_shows_an_idle_prompt_nothing_is_ended() {
    let unreadable = PaneState::Client {
        screen: Some(Screen::Prompt),
        input: Input::Unreadable,
        signature: None,
    };
    for (pane, has_registry, is_ended) in [
        (PaneState::None, false, false),
        (PaneState::Unreadable { why: "tmux".into() }, false, false),
        (unreadable.clone(), false, false),
        (EMPTY, false, true),
        (PaneState::None, true, true),
        (unreadable, true, true),
    ] {
        let mut world = at_rest();
        recover(&mut world, true, true);
        let idle_since_ms = living(&world).idle_since_ms.filter(|_| has_registry);
        let proof = Proof { pane: pane.clone(), idle_since_ms, ..living(&world) };
        assert_eq!(world.prove(proof).len(), usize::from(is_ended), "{pane:?} {has_registry}");
    }
}

// H-53, H-08: no Stop lists the subagents of an interrupted turn, and no registry tells of them.
#[test]
fn where_a_subagent_may_work_after_the_turn_nothing_is_ended() {
    for (is_interrupted, has_ended) in [(false, false), (false, true), (true, false), (true, true)]
    {
        let mut world = at_rest();
        let kinds = [HookKind::Tool(ToolPhase::Before), HookKind::SubagentStop];
        if is_interrupted {
            world.registry(PID, Registry::Absent, false);
            world.hook("s1", PID, PROMPT);
        }
        for kind in kinds.into_iter().take(if has_ended { 2 } else { 1 }) {
            let mut event = world.event("s1", PID, kind, 0.0);
            event.agent = Some("agent-1".into());
            world.send(event);
            world.pass(1.0);
        }
        if is_interrupted {
            world.interrupted(PID);
        }
        world.pass(120.0);
        recover(&mut world, true, true);
        let proof = Proof { pane: EMPTY, idle_since_ms: None, ..living(&world) };
        let acts = world.prove(proof).len();
        assert_eq!(acts, usize::from(has_ended), "{is_interrupted} {has_ended}");
    }
}

/// An order is carried out: SIGTERM was sent.
fn being_ended() -> World {
    let mut world = at_rest();
    recover(&mut world, true, false);
    let proof = living(&world);
    let (intent, _) = world.act(proof);
    world.acted(intent, Outcome::Done);
    world
}

fn told(world: &mut World) -> Vec<String> {
    let texts = world.actions().into_iter().filter_map(|action| {
        if let Action::Notify { text, .. } = action { Some(text) } else { None }
    });
    texts.collect()
}

// H-53, H-08: a prompt that arrives after the decision is harm, and its person is told when it was entered.
#[test]
fn a_prompt_that_meets_the_end_is_recorded_and_told() {
    let mut world = being_ended();
    world.hook("s1", PID, PROMPT);
    world.hook("s1", PID, END);
    assert_eq!(world.session("s1").recovery.harmed_prompts, 0, "it may outlive the signal");
    world.exit(PID);
    assert_eq!(world.session("s1").recovery.harmed_prompts, 1);
    let says = |text: &String| text.contains("your prompt of ") && text.contains(" UTC arrived");
    let harm = |world: &World| {
        let is_it = |one: &&coord_model::Decision| one.saw.contains("a prompt arrived at ");
        world.decisions.iter().filter(is_it).count()
    };
    assert_eq!(harm(&world), 1);
    // Told at once; and when the session is back, since its pane shows a shell until then.
    world.resume_as(NEXT);
    world.comes_up(NEXT);
    world.screen(NEXT, Screen::Prompt);
    world.pass(3.5);
    let proof = living(&world);
    world.prove(proof);
    world.pass(2.0);
    assert_eq!(world.outcome(), Some("verified"));
    assert!(told(&mut world).iter().any(says));
    // One that comes when the process is gone already.
    let mut world = being_ended();
    world.hook("s1", PID, END);
    world.exit(PID);
    let mut late = world.event("s1", PID, PROMPT, 0.0);
    late.mono_ns -= 1_000_000;
    world.send(late);
    assert_eq!(world.session("s1").recovery.harmed_prompts, 1);
    assert!(told(&mut world).iter().any(says));
}

// H-53: only a prompt may be lost, and only one of the harness that coord ends.
#[test]
fn what_is_no_prompt_to_a_harness_that_is_ended_is_no_harm() {
    let mut world = being_ended();
    world.hook("s1", PID, END);
    world.exit(PID);
    assert_eq!(world.session("s1").recovery.harmed_prompts, 0, "no prompt came");
    // One that died by itself, whose last prompt is told of late.
    let mut world = in_a_turn();
    world.crash(PID);
    late_prompt(&mut world);
    world.resume_as(NEXT);
    world.comes_up(NEXT);
    world.screen(NEXT, Screen::Prompt);
    world.pass(3.5);
    let proof = living(&world);
    world.prove(proof);
    world.pass(2.0);
    assert_eq!(world.outcome(), Some("verified"));
    assert_eq!(world.session("s1").recovery.harmed_prompts, 0, "coord did not end it");
    assert_eq!(told(&mut world), [""; 0]);
}

/// A prompt that was entered a moment before what was heard last.
fn late_prompt(world: &mut World) {
    let mut late = world.event("s1", PID, PROMPT, 0.0);
    late.mono_ns -= 2_000_000;
    world.send(late);
}

// H-53: one prompt is one loss, in whatever order its hook, the end of its session and that of its process are told.
#[test]
fn a_prompt_that_meets_the_end_is_recorded_once() {
    let mut world = being_ended();
    world.hook("s1", PID, END);
    late_prompt(&mut world);
    assert_eq!(world.session("s1").recovery.harmed_prompts, 0, "its process is there still");
    world.exit(PID);
    assert_eq!(world.session("s1").recovery.harmed_prompts, 1);
}

// H-53: its person is told when the prompt was entered, by the clock of the day.
#[test]
fn a_lost_prompt_is_told_of_by_its_time_of_day() {
    const DAY_MS: u64 = 86_400_000;
    for (wall_ms, time) in [
        (0, "00:00:00"),
        (20_000 * DAY_MS, "00:00:00"),
        (20_000 * DAY_MS + 59_999, "00:00:59"),
        (20_000 * DAY_MS + 60_000, "00:01:00"),
        (20_001 * DAY_MS + ((13 * 60 + 4) * 60 + 5) * 1_000, "13:04:05"),
        (20_001 * DAY_MS - 1, "23:59:59"),
    ] {
        let mut world = being_ended();
        let mut prompt = world.event("s1", PID, PROMPT, 0.0);
        prompt.wall_ms = wall_ms;
        world.send(prompt);
        world.seconds += 0.001;
        world.hook("s1", PID, END);
        world.exit(PID);
        let text = format!(
            "coord: your prompt of {time} UTC arrived while coord restarted this session and may be lost"
        );
        assert_eq!(told(&mut world), [text]);
    }
}

// H-53: a prompt before the decision, or to a process that was not ended, is no harm.
#[test]
fn a_prompt_that_was_answered_is_no_harm() {
    let mut world = at_rest();
    recover(&mut world, true, false);
    let proof = living(&world);
    let (intent, _) = world.act(proof);
    world.hook("s1", PID, PROMPT);
    world.acted(intent, Outcome::Changed { what: "the pane changed".into() });
    world.pass(20.0);
    world.hook("s1", PID, STOP);
    world.crash(PID);
    assert_eq!(world.session("s1").recovery.harmed_prompts, 0);
}

/// Somebody watches it and wants it back; it showed a crash signature in a turn, and has been idle since.
fn opted_in() -> World {
    let mut world = at_rest();
    world.set_mode(Mode::Act);
    busy(&mut world);
    world.signature();
    world.is_content(false);
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    let proof = Proof { idle_since_ms: Some(world.now().wall_ms), ..living(&world) };
    assert_eq!(world.prove(proof), []);
    world.pass(32.0);
    world
}

// H-54: it is ended only after 10 s in which its person was told and could cancel it.
#[test]
fn an_opted_in_session_is_ended_after_a_visible_grace() {
    let mut world = opted_in();
    let (intent, _) = world.asked();
    let proof = Box::new(living(&world));
    world.take(&coord_model::Event::Proved { session_id: String::new(), intent, proof });
    let actions = world.actions();
    assert!(!actions.iter().any(is_act));
    let is_told = |action: &Action| {
        matches!(action, Action::Notify { text, for_ms: 10_000, .. }
            if text.contains("in 10 s; press any key to cancel"))
    };
    assert!(actions.iter().any(is_told), "{actions:?}");
    world.pass(9.5);
    assert_eq!(world.actions(), []);
    world.pass(1.0);
    let proof = living(&world);
    assert!(matches!(world.act(proof).1, Action::End { .. }));
}

// H-54: any key cancels, and the same signature does not ask again.
#[test]
fn any_key_in_the_grace_cancels() {
    let mut world = opted_in();
    let proof = living(&world);
    assert_eq!(world.prove(proof), []);
    world.pass(4.0);
    let any_key_ms = Some(world.now().wall_ms);
    world.pass(6.5);
    let proof = Proof { any_key_ms, ..living(&world) };
    assert_eq!(world.prove(proof), []);
    assert!(world.pending().is_none());
    assert_eq!(world.outcome(), Some("closed"));
    world.signature();
    world.pass(600.0);
    assert!(!world.actions().iter().any(is_act));
}

// H-54: what was told long ago, before something else held it, is told again.
#[test]
fn a_grace_does_not_last() {
    let mut world = opted_in();
    let proof = living(&world);
    assert_eq!(world.prove(proof), []);
    let session = Some(world.key());
    world.command(Command::Hold { session, for_ms: Some(300_000) });
    world.pass(301.0);
    let proof = living(&world);
    assert_eq!(world.prove(proof), []);
    assert!(matches!(world.pending().unwrap().stage, Stage::Grace { .. }));
}

// H-07: what was closed or dropped mutes itself, and no other signature.
#[test]
fn another_signature_counts_again() {
    let mut world = unattended();
    busy(&mut world);
    world.signature();
    world.is_content(true);
    assert!(world.pending().is_none());
    let other = || Some("Exception in PromiseRejectCallback".to_owned());
    let seen =
        || crate::world::its(coord_model::PaneSeen { signature: other(), ..crate::world::blank() });
    world.seen_on_pane(PID, seen(), false);
    assert!(world.pending().is_some());
    assert_eq!(world.session("s1").signature.as_ref().unwrap().name, other().unwrap());
    world.is_content(true);
    assert!(world.pending().is_none());
    // Each of them once, in whatever order they are on the screen.
    world.signature();
    world.seen_on_pane(PID, seen(), false);
    assert!(world.pending().is_none());
    assert_eq!(world.session("s1").old_signatures.len(), 1);
    // Content stays content in the process that its user resumes it in.
    world.exit(PID);
    world.hook("s1", NEXT, crate::world::RESUME);
    world.hook("s1", NEXT, PROMPT);
    assert_eq!(world.session("s1").signature, None);
    assert_eq!(world.session("s1").old_signatures.len(), 2);
}

// H-18: who asks by hand has used the shell since; its empty prompt will do once no key comes.
#[test]
fn an_order_uses_the_pane_at_its_empty_prompt() {
    let mut world = at_rest();
    world.crash(PID);
    let proof = dead(&world);
    world.prove(proof);
    world.pass(100.0);
    let key_ms = Some(world.now().wall_ms);
    world.pass(1.0);
    recover(&mut world, false, false);
    // The order is given in that very shell: for a moment it is the order itself that is in front.
    let proof = Proof { pane: PaneState::Other, key_ms, ..dead(&world) };
    assert_eq!(world.prove(proof), []);
    world.pass(0.5);
    let proof = Proof { pane: SHELL_PROMPT, key_ms, ..dead(&world) };
    assert_eq!(world.prove(proof), [], "a key was pressed a moment ago");
    world.pass(11.0);
    let proof = Proof { pane: SHELL_PROMPT, key_ms, ..dead(&world) };
    assert!(matches!(world.act(proof).1, Action::TypeResume { .. }));
}

// H-18, H-01: a client that is suspended leaves its shell in front; its pane is not another session's.
#[test]
fn an_order_leaves_the_pane_of_a_suspended_client_alone() {
    let mut world = at_rest();
    world.crash(PID);
    let proof = dead(&world);
    world.prove(proof);
    world.open_in("s2", 300, coord_model::Kind::Interactive, Some(crate::world::pane(7)));
    world.pass(100.0);
    recover(&mut world, false, false);
    let proof = dead(&world);
    assert!(matches!(world.act(proof).1, Action::NewWindow { .. }));
}

// H-18, H-01: nor is it where coord acts by itself.
#[test]
fn an_unattended_recovery_leaves_the_pane_of_a_suspended_client_alone() {
    let mut world = in_a_turn();
    world.open_in("s2", 300, coord_model::Kind::Interactive, Some(crate::world::pane(7)));
    world.crash(PID);
    let proof = dead(&world);
    assert!(matches!(world.act(proof).1, Action::NewWindow { .. }));
}

// H-18: and where the prompt does not come back, a new window is used as before.
#[test]
fn an_order_takes_a_window_where_the_shell_stays_busy() {
    let mut world = at_rest();
    world.crash(PID);
    let proof = dead(&world);
    world.prove(proof);
    recover(&mut world, false, false);
    for _ in 0..30 {
        let proof = Proof { pane: PaneState::Other, ..dead(&world) };
        if let [action] = world.prove(proof).as_slice() {
            assert!(matches!(action, Action::NewWindow { .. }), "{action:?}");
            return;
        }
        world.pass(1.0);
    }
    panic!("nothing was done");
}

// S0-25f, G6: who was ended by others before the signal came stays ended; who was ended by the signal comes back.
#[test]
fn an_end_before_the_signal_is_no_end_by_it() {
    for (was_sent, word) in [(false, SessionState::Stopped), (true, SessionState::RecoveryPending)]
    {
        let mut world = at_rest();
        let session = world.key();
        world.command(Command::Recover { session, restart: true, when_idle: false });
        let proof = living(&world);
        let (intent, action) = world.act(proof);
        assert!(matches!(action, Action::End { .. }));
        if was_sent {
            world.acted(intent, Outcome::Done);
        }
        world.hook("s1", PID, END);
        world.die(PID, Registry::Absent);
        if !was_sent {
            world.acted(intent, Outcome::Changed { what: "the client changed".into() });
            world.pass(2.0);
        }
        assert_eq!(world.state_of("s1"), word, "{:?}", world.pending());
    }
}
