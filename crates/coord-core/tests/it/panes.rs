//! What panes and transcripts tell where no registry does (R-01, R-10, H-05, H-07, H-16, S0-01,
//! S0-18, S0-29).

use crate::world::{PROMPT, START, STOP, World, blank, entry, its, no_registry, pane};
use coord_core::{PaneFact, Turn};
use coord_model::{
    Effect, Event, Farewell, HookKind, Kind, Look, PaneFound, PaneProof, PaneSeen, Registry,
    RegistryStatus, Screen, SessionState,
};

const ID: &str = "s1";

fn unreadable() -> PaneFound {
    PaneFound::Unreadable { why: "no server".into() }
}

/// An interactive session in a pane, with a turn open for two seconds, and no registry.
fn in_a_turn() -> World {
    let mut world = World::new();
    world.open_in(ID, 100, Kind::Interactive, Some(pane(7)));
    world.registry(100, no_registry(), false);
    world.hook(ID, 100, PROMPT);
    world.pass(2.0);
    world
}

fn asks(world: &mut World) -> HookKind {
    let mut event = world.event(ID, 100, HookKind::PermissionRequest, 0.0);
    event.tool = Some("Bash".into());
    world.send(event);
    HookKind::PermissionRequest
}

/// The looks asked for since the last question.
fn looks(world: &mut World) -> Vec<Look> {
    let effects = core::mem::take(&mut world.effects);
    let looks = effects.into_iter().filter_map(|effect| match effect {
        Effect::CapturePane { look, .. } => Some(look),
        Effect::WatchProcess { .. }
        | Effect::ReadRegistry { .. }
        | Effect::WatchRegistry { .. }
        | Effect::ReadTranscript { .. }
        | Effect::ReadTask { .. }
        | Effect::LookAtWork { .. }
        | Effect::RemoveBody { .. }
        | Effect::LockConfigDir { .. }
        | Effect::Offer { .. }
        | Effect::SeekMessages { .. }
        | Effect::SeekLast { .. }
        | Effect::SeekDecisions { .. }
        | Effect::HandReply { .. }
        | Effect::SendNotice { .. }
        | Effect::Tell(_)
        | Effect::LookForPresence { .. }
        | Effect::Act(_) => None,
    });
    looks.collect()
}

#[test]
fn r_01_a_prompt_seen_twice_is_an_interrupt_and_once_is_nobody_knows() {
    let mut world = in_a_turn();
    world.screen(100, Screen::Prompt);
    assert_eq!(world.state_of(ID), SessionState::Unknown);
    assert!(world.session(ID).contested.is_some());
    world.pass(0.4);
    world.screen(100, Screen::Prompt);
    assert_eq!(world.state_of(ID), SessionState::Idle);
    assert_eq!(world.session(ID).contested, None);
    assert!(world.decisions.iter().any(|decision| decision.rule == "R-01"));
    // The next prompt is no queued one.
    world.hook(ID, 100, PROMPT);
    world.hook(ID, 100, STOP);
    assert_eq!(world.state_of(ID), SessionState::Idle);
}

#[test]
fn r_01_a_screen_that_is_older_than_the_hooks_news_says_nothing() {
    let mut world = in_a_turn();
    world.screen(100, Screen::Prompt);
    world.hook(ID, 100, STOP);
    world.hook(ID, 100, PROMPT);
    assert_eq!(world.state_of(ID), SessionState::Running);
    // Not painted yet: a look right after the edge proves nothing, however often.
    world.pass(0.4);
    world.screen(100, Screen::Prompt);
    world.screen(100, Screen::Prompt);
    assert_eq!(world.state_of(ID), SessionState::Running);
}

// A slow tmux: what was captured before the prompt is heard long after it.
#[test]
fn r_01_a_look_counts_from_when_it_began() {
    let mut world = in_a_turn();
    world.hook(ID, 100, STOP);
    let (process, looked_ns) = (crate::world::process(100), world.mono_ns(0.0));
    let found = its(PaneSeen { screen: Some(Screen::Prompt), ..blank() });
    world.hook(ID, 100, PROMPT);
    world.pass(3.0);
    for _ in 0..2 {
        let (found, after_death) = (found.clone(), false);
        world.take(&Event::PaneSeen { process, found, looked_ns, after_death });
    }
    assert_eq!(world.state_of(ID), SessionState::Running);
}

#[test]
fn r_21_a_screen_says_nothing_against_a_registry() {
    let mut world = in_a_turn();
    let changed_ms = world.now().wall_ms;
    world.registry(100, entry(ID, Some(RegistryStatus::Busy), changed_ms), false);
    world.screen(100, Screen::Prompt);
    world.screen(100, Screen::Prompt);
    assert_eq!(world.state_of(ID), SessionState::Running);
}

#[test]
fn s0_18_a_dialog_that_is_gone_clears_the_wait() {
    let mut world = in_a_turn();
    asks(&mut world);
    assert_eq!(world.state_of(ID), SessionState::AwaitingPermission);
    world.pass(1.5);
    world.screen(100, Screen::Permission);
    world.screen(100, Screen::Permission);
    assert_eq!(world.state_of(ID), SessionState::AwaitingPermission);
    // Approved, and the tool runs: no hook says so before it is done.
    world.screen(100, Screen::Working);
    assert_eq!(world.state_of(ID), SessionState::Unknown);
    world.screen(100, Screen::Working);
    assert_eq!(world.state_of(ID), SessionState::Running);
    assert!(world.session(ID).waits.is_empty());
}

#[test]
fn s0_18_a_refused_prompt_is_over_when_the_input_line_is_back() {
    let mut world = in_a_turn();
    asks(&mut world);
    world.pass(1.5);
    world.screen(100, Screen::Prompt);
    world.screen(100, Screen::Prompt);
    assert_eq!(world.state_of(ID), SessionState::Idle);
    assert!(world.session(ID).waits.is_empty());
}

#[test]
fn a_dialog_that_no_hook_told_of_is_a_wait() {
    let mut world = in_a_turn();
    for (screen, word) in [
        (Screen::Permission, SessionState::AwaitingPermission),
        (Screen::Dialog, SessionState::AwaitingInput),
    ] {
        world.screen(100, screen);
        assert_eq!(world.state_of(ID), SessionState::Unknown);
        world.screen(100, screen);
        assert_eq!(world.state_of(ID), word);
    }
}

#[test]
fn r_04_work_that_no_hook_told_of_is_a_turn() {
    let mut world = in_a_turn();
    world.hook(ID, 100, STOP);
    world.pass(2.0);
    world.screen(100, Screen::Working);
    world.screen(100, Screen::Working);
    assert_eq!(world.state_of(ID), SessionState::Running);
}

#[test]
fn no_fact_is_conclusive_for_ever() {
    let mut world = in_a_turn();
    world.hook(ID, 100, STOP);
    world.pass(2.0);
    world.screen(100, Screen::Working);
    world.screen(100, Screen::Working);
    world.pass(200.0);
    // The server stopped answering: what its screen said has grown old.
    world.seen_on_pane(100, unreadable(), false);
    assert_eq!(world.state_of(ID), SessionState::Idle);
}

#[test]
fn r_01_an_interrupt_in_the_transcript_ends_the_turn_at_once() {
    let mut world = in_a_turn();
    world.interrupted(100);
    assert_eq!(world.state_of(ID), SessionState::Idle);
    assert!(matches!(*world.session(ID).turn, Turn::Interrupted { .. }));
    // One that is older than the prompt is of the turn before.
    world.hook(ID, 100, PROMPT);
    let interrupted_ms = Some(world.now().wall_ms - 60_000);
    let process = crate::world::process(100);
    world.take(&Event::TranscriptRead {
        process,
        interrupted_ms,
        has_signature: None,
        failure: None,
    });
    assert_eq!(world.state_of(ID), SessionState::Running);
}

#[test]
fn r_01_looks_are_asked_for_while_nothing_confirms_the_hooks() {
    let mut world = in_a_turn();
    looks(&mut world);
    world.pass(10.0);
    assert_eq!(looks(&mut world), [Look::Decision; 10]);
    let read = |effect: &Effect| matches!(effect, Effect::ReadTranscript { .. });
    world.pass(2.0);
    assert!(world.effects.iter().any(read));
    // The registry vouches: only the slow sweep goes on.
    let changed_ms = world.now().wall_ms;
    world.registry(100, entry(ID, Some(RegistryStatus::Busy), changed_ms), false);
    looks(&mut world);
    world.pass(10.0);
    assert_eq!(looks(&mut world), [Look::Sweep; 2]);
}

#[test]
fn a_screen_that_contradicts_is_looked_at_again_soon() {
    let mut world = in_a_turn();
    world.screen(100, Screen::Prompt);
    looks(&mut world);
    world.pass(0.6);
    assert_eq!(looks(&mut world), [Look::Decision]);
}

#[test]
fn headless_runs_have_no_pane_of_their_own() {
    let mut world = World::new();
    world.open_in(ID, 100, Kind::Headless, Some(pane(7)));
    world.hook(ID, 100, PROMPT);
    world.pass(60.0);
    assert_eq!(looks(&mut world), []);
}

// H-16: at registration, whatever the environment claims.
#[test]
fn h_16_a_pane_counts_only_by_its_terminal() {
    let mut world = World::new();
    let mut lie = pane(7);
    lie.pane = "%0".into();
    world.open_in(ID, 100, Kind::Interactive, Some(lie));
    assert_eq!(looks(&mut world), [Look::Sweep]);
    world.seen_on_pane(100, its(blank()), false);
    assert_eq!(world.session(ID).pane().unwrap().pane, "%1");
    world.hook(ID, 100, PROMPT);
    assert_eq!(world.session(ID).pane().unwrap().pane, "%1");
    world.seen_on_pane(100, PaneFound::NotThere, false);
    assert_eq!(world.session(ID).pane(), None);
}

fn dies_in_a_turn() -> World {
    let mut world = in_a_turn();
    dies(&mut world);
    world
}

fn dies(world: &mut World) {
    world.seen_on_pane(100, its(blank()), false);
    world.exit(100);
    world.registry(100, no_registry(), true);
    assert_eq!(world.state_of(ID), SessionState::Unknown);
    looks(world);
    world.pass(0.4);
    assert_eq!(looks(world), [Look::AfterDeath]);
}

#[test]
fn h_05_without_a_registry_the_farewell_on_the_pane_is_a_clean_end() {
    let mut world = dies_in_a_turn();
    let farewell = Some(Farewell::Last(ID.to_owned()));
    world.seen_on_pane(100, its(PaneSeen { farewell, ..blank() }), true);
    assert_eq!(world.state_of(ID), SessionState::Stopped);
}

#[test]
fn h_05_without_a_registry_an_open_turn_and_no_farewell_is_a_crash() {
    let mut world = in_a_turn();
    // The farewell of another session that is known is none.
    world.hook("another", 200, START);
    dies(&mut world);
    let other = Some(Farewell::Last("another".to_owned()));
    let found = its(PaneSeen { farewell: other, screen: Some(Screen::Shell), ..blank() });
    world.seen_on_pane(100, found.clone(), true);
    assert_eq!(world.state_of(ID), SessionState::Unknown, "it may not be painted yet");
    world.pass(0.5);
    world.seen_on_pane(100, found, true);
    assert_eq!(world.state_of(ID), SessionState::Crashed);
}

// H-05: a conversation that `/clear` began is known by its farewell alone where the hook that told of it was
// lost; and a line that was typed into the shell stands below the farewell.
#[test]
fn h_05_a_farewell_that_may_be_its_own_is_no_crash() {
    let of = |id: &str| id.to_owned();
    for farewell in [
        Farewell::Last(of("never heard of")),
        Farewell::Above { session: of("never heard of") },
        Farewell::Above { session: of(ID) },
    ] {
        let mut world = dies_in_a_turn();
        world.pass(0.5);
        let found = its(PaneSeen { farewell: Some(farewell.clone()), ..blank() });
        world.seen_on_pane(100, found, true);
        assert_eq!(world.state_of(ID), SessionState::Unknown, "{farewell:?}");
    }
}

// H-05, H-32: after a stop of the loop whatever stands on the pane may have been painted since.
#[test]
fn h_05_a_death_told_behind_a_gap_is_not_judged_by_a_missing_farewell() {
    for (has_gap, word) in [(false, SessionState::Crashed), (true, SessionState::Unknown)] {
        let mut world = in_a_turn();
        world.seen_on_pane(100, its(blank()), false);
        if has_gap {
            world.take(&Event::Gap { ns: 60_000_000_000 });
        }
        world.exit(100);
        world.registry(100, no_registry(), true);
        world.pass(0.9);
        world.seen_on_pane(100, its(blank()), true);
        assert_eq!(world.state_of(ID), word, "{has_gap}");
    }
}

// H-05: where nobody saw the death, a farewell on the pane may be that of a client that was started there later.
#[test]
fn h_05_a_farewell_that_nobody_saw_come_proves_nothing() {
    for is_behind_gap in [false, true] {
        let mut world = in_a_turn();
        world.seen_on_pane(100, its(blank()), false);
        if is_behind_gap {
            world.take(&Event::Gap { ns: 60_000_000_000 });
            world.exit(100);
        } else {
            world.start_coordinator();
            world.seen_dead(100);
        }
        world.registry(100, no_registry(), true);
        world.pass(0.4);
        let farewell = Some(Farewell::Last(ID.to_owned()));
        world.seen_on_pane(100, its(PaneSeen { farewell, ..blank() }), true);
        assert_eq!(world.state_of(ID), SessionState::Unknown, "gap: {is_behind_gap}");
    }
}

#[test]
fn h_05_neither_provable_is_unknown() {
    let mut world = in_a_turn();
    world.hook(ID, 100, STOP);
    world.seen_on_pane(100, its(blank()), false);
    world.exit(100);
    world.registry(100, no_registry(), true);
    world.pass(0.9);
    world.seen_on_pane(100, its(blank()), true);
    assert_eq!(world.state_of(ID), SessionState::Unknown);
    assert_eq!(world.decisions.last().unwrap().rule, "H-05");
    // A pane that is gone, or does not answer, proves nothing either.
    for found in [PaneFound::NotThere, unreadable()] {
        let mut world = dies_in_a_turn();
        world.seen_on_pane(100, found, true);
        world.pass(6.0);
        assert_eq!(world.state_of(ID), SessionState::Unknown);
        assert_eq!(world.decisions.last().unwrap().rule, "H-05");
    }
}

// S0-01, S0-29, H-07: a signature is evidence, once per process, and changes no state.
#[test]
fn s0_01_a_signature_is_evidence_and_nothing_else() {
    let mut world = in_a_turn();
    let signature = Some("range_error".to_owned());
    let found = its(PaneSeen { screen: Some(Screen::Working), signature, ..blank() });
    world.seen_on_pane(100, found.clone(), false);
    world.seen_on_pane(100, found, false);
    assert_eq!(world.state_of(ID), SessionState::Running);
    let noted = world.decisions.iter().filter(|decision| decision.rule == "S0-01").count();
    assert_eq!(noted, 1);
    // Whether the words are content of the conversation is looked up.
    let process = crate::world::process(100);
    world.take(&Event::TranscriptRead {
        process,
        interrupted_ms: None,
        has_signature: Some(true),
        failure: None,
    });
    assert_eq!(world.session(ID).signature.as_ref().unwrap().is_content, Some(true));
}

#[test]
fn a_new_process_has_no_pane_until_it_is_proved() {
    let mut world = in_a_turn();
    world.screen(100, Screen::Working);
    world.die(100, Registry::Absent);
    world.hook(ID, 200, START);
    assert_eq!(world.session(ID).pane, PaneFact::Unknown);
    assert_eq!(world.session(ID).signature, None);
}

#[test]
fn h_16_another_pane_after_the_death_says_nothing() {
    let mut world = dies_in_a_turn();
    world.pass(0.5);
    let proof = PaneProof { pane_pid: 51, tty: 34_816 };
    world.seen_on_pane(100, its(PaneSeen { proof, ..blank() }), true);
    assert_ne!(world.state_of(ID), SessionState::Crashed);
}

// G9: what was detected, concluded and left alone is recorded as a decision, with its rule.
#[test]
fn g9_detections_and_deferrals_are_decisions_of_their_session() {
    let mut world = in_a_turn();
    let signature = Some("range_error".to_owned());
    world.seen_on_pane(100, its(PaneSeen { signature, ..blank() }), false);
    world.screen(100, Screen::Prompt);
    world.screen(100, Screen::Prompt);
    assert!(world.decisions.iter().all(|decision| decision.session_id == ID));
    let rules: Vec<(&str, bool)> = world
        .decisions
        .iter()
        .map(|decision| (&*decision.rule, decision.did.starts_with("left alone")))
        .collect();
    // The signature; the screen against the hooks, left alone; the same again, settled.
    assert_eq!(rules, [("S0-01", false), ("R-01", true), ("R-01", false)]);
}
