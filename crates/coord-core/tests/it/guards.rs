//! What a recovery waits for and what becomes of it then: limits, marks of directories, locks, the words for
//! people.

use crate::crashes::{
    EMPTY, NEXT, PID, SHELL_PROMPT, at_rest, dead, in_a_turn, launch, living, unattended,
};
use crate::world::{END, PROMPT, STOP, TOOL, World, process};
use coord_core::{Pending, Stage};
use coord_model::{
    Action, Command, Effect, Event, HookKind, Input, Kind, MarkChange, Outcome, PaneState, Proof,
    RegistryStatus, Screen, Settings, StartSource, Whom,
};

fn cause(world: &World) -> Option<&'static str> {
    world.pending().map(|pending| pending.cause.word())
}

// S0-08, S0-25f, S0-28a: the cause of a recovery is named to people while it is pending, and when it is over.
#[test]
fn a_recovery_names_its_cause() {
    type Case = fn(&mut World);
    let cases: [(&str, &str, Case); 4] = [
        ("crash_signature", "crash signature", World::signature),
        ("crashed", "crash", |world| world.crash(PID)),
        ("interrupted", "interruption", |world| {
            world.crash(PID);
            world.exit(7);
            let sessions = vec![world.key()];
            world.command(Command::Restore { sessions });
        }),
        ("operator", "asked for by a person", |world| {
            let session = world.key();
            world.command(Command::Recover { session, restart: true, when_idle: true });
        }),
    ];
    for (word, said, case) in cases {
        let mut world = unattended();
        case(&mut world);
        assert_eq!(cause(&world), Some(word));
        world.decisions.clear();
        world.hook("s1", PID, crate::world::EXIT);
        assert_eq!(world.outcome(), Some("closed"), "{word}");
        let saw = format!("{said}; a person ended it");
        assert!(world.decisions.iter().any(|one| one.saw == saw), "{:?}", world.decisions);
    }
}

// S0-25e, G9: where the resume was put is recorded.
#[test]
fn the_way_of_a_resume_is_recorded() {
    for (pane, did) in [
        (SHELL_PROMPT, "resume line typed into the shell"),
        (PaneState::Dead, "resume line run in the kept pane"),
        (PaneState::Closed, "resume line run in a new window"),
    ] {
        let mut world = in_a_turn();
        world.crash(PID);
        let proof = Proof { pane, ..dead(&world) };
        world.act(proof);
        let placed = world.decisions.iter().filter(|one| one.rule == "S0-25e");
        assert_eq!(placed.map(|one| one.did.as_str()).collect::<Vec<_>>(), [did]);
    }
}

/// When its recovery is tried next, milliseconds from now.
fn next_in_ms(world: &World) -> Option<u64> {
    let now = world.state.moment(world.now()).awake;
    world.pending().and_then(Pending::next_at).map(|at| at.ms_since(now))
}

// H-35, S0-24: people are told when it is tried again, where time alone decides that, and nothing elsewhere.
#[test]
fn the_next_attempt_is_known_where_time_decides_it() {
    // A hold that ends by itself.
    let mut world = in_a_turn();
    world.command(Command::Hold { session: None, for_ms: Some(60_000) });
    world.crash(PID);
    assert_eq!(next_in_ms(&world), Some(60_000));
    // One without an end does not.
    let mut world = in_a_turn();
    world.command(Command::Hold { session: None, for_ms: None });
    world.crash(PID);
    assert_eq!((world.waits_for(), next_in_ms(&world)), ("a person holds the session", None));
    // The time that its person has to cancel it.
    let mut world = at_rest();
    world.set_mode(coord_model::Mode::Act);
    world.crash(PID);
    assert_eq!(next_in_ms(&world), None, "it is looked at");
    let proof = dead(&world);
    world.prove(proof);
    assert!(matches!(world.pending().map(|one| &one.stage), Some(Stage::Grace { .. })));
    assert_eq!(next_in_ms(&world), Some(10_000));
    world.pass(11.0);
    let proof = dead(&world);
    world.act(proof);
    assert_eq!(next_in_ms(&world), None, "it is under way");
}

fn mark_dir(world: &mut World, path: &str, marks: MarkChange) {
    world.command(Command::Attend { whom: Whom::Directory(path.into()), marks });
}

// H-06: a directory's marks count for what was started in it, where the session has none of its own.
#[test]
fn the_marks_of_a_directory_are_those_of_its_sessions() {
    let project = "/home/dev/project";
    let unattended = MarkChange { unattended: Some(true), ..MarkChange::default() };
    let wanted = MarkChange { recover: Some(true), ..MarkChange::default() };
    for (dir, marks, own, becomes) in [
        (project, &unattended, None, "acted on"),
        (project, &wanted, None, "told of first"),
        (project, &unattended, Some(false), "closed"),
        ("/home/dev", &unattended, None, "closed"),
        ("/home/dev", &wanted, None, "closed"),
    ] {
        let mut world = at_rest();
        mark_dir(&mut world, dir, marks.clone());
        if let Some(own) = own {
            world.attend(own);
        }
        world.crash(PID);
        let proof = dead(&world);
        let acts = world.prove(proof);
        let is_told = matches!(world.pending().map(|one| &one.stage), Some(Stage::Grace { .. }));
        let became = match (acts.len(), is_told, world.outcome()) {
            (1, false, None) => "acted on",
            (0, true, None) => "told of first",
            (0, false, Some(outcome)) => outcome,
            other => panic!("{dir}: {other:?}"),
        };
        assert_eq!(became, becomes, "{dir}: {marks:?}, {own:?}");
    }
}

// H-14: coord acts in so many configuration directories; whoever waits for one more is told that.
#[test]
fn one_directory_too_many_is_said_to_be_that() {
    for (others, why) in [
        (63, "its configuration directory is not locked yet"),
        (64, "coord already manages its maximum number of configuration directories"),
    ] {
        let mut world = in_a_turn();
        world.start_coordinator();
        for number in 0..others {
            let config_dir = format!("/home/dev/.claude-{number}");
            world.take(&Event::ConfigDirLock { config_dir, held: true });
        }
        world.seen_alive(PID);
        world.pass(31.0);
        world.crash(PID);
        assert_eq!(world.waits_for(), why);
        world.pass(600.0);
        assert_eq!(world.actions(), [], "nothing acts without the lock");
    }
}

// S0-08, S0-09: a signature is one piece of evidence, however much happens while it stands on the screen.
#[test]
fn a_signature_is_weighed_once() {
    let mut world = in_a_turn();
    world.signature();
    assert_eq!(cause(&world), Some("crash_signature"));
    world.hook("s1", PID, TOOL);
    world.is_content(false);
    world.hook("s1", PID, TOOL);
    world.hook("s1", PID, STOP);
    let weighed = world.decisions.iter().filter(|one| one.saw.starts_with("a crash signature"));
    assert_eq!(weighed.map(|one| &*one.rule).collect::<Vec<_>>(), ["S0-08"]);
}

// G5, S0-21: at a limit a person has to look. A dead session's recovery stays owed, and a reset tries it again; what
// lives is left as it is.
#[test]
fn a_limit_keeps_only_the_recovery_of_a_dead_session() {
    for lives in [false, true] {
        let mut world = unattended();
        world.configure(Settings { recoveries_total: 1, ..Settings::default() });
        let proof = if lives {
            world.says("s1", PID, RegistryStatus::Idle);
            world.pass(40.0);
            let session = world.key();
            world.command(Command::Recover { session, restart: true, when_idle: true });
            living(&world)
        } else {
            world.crash(PID);
            dead(&world)
        };
        let (intent, _) = world.act(proof);
        world.acted(intent, Outcome::Failed { why: "no tmux".into() });
        let flag = world.session("s1").recovery.needs_operator.as_ref();
        let reason = flag.map(|flag| (flag.reason.as_str(), flag.is_limit));
        assert_eq!(reason, Some(("1 recoveries in all", true)), "lives: {lives}");
        assert_eq!(world.pending().is_none(), lives, "{:?}", world.pending());
        world.pass(600.0);
        assert_eq!(world.actions().iter().filter(|action| is_look(action)).count(), 0);
        world.command(Command::ResetFailed { session: None });
        assert_eq!(world.actions().iter().any(is_look), !lives, "lives: {lives}");
    }
}

fn is_look(action: &Action) -> bool {
    matches!(action, Action::Prove { .. })
}

/// The ids whose transcripts are free again.
fn released(world: &mut World) -> Vec<String> {
    let ids = world.actions().into_iter().filter_map(|action| {
        let Action::Release { session_id } = action else { return None };
        Some(session_id)
    });
    ids.collect()
}

// H-13: what a look locked is free when the recovery is over, under the id that it was locked by.
#[test]
fn every_lock_is_given_back_under_its_name() {
    // Nothing was looked at.
    let mut world = in_a_turn();
    world.signature();
    world.is_content(true);
    assert_eq!(world.outcome(), Some("closed"));
    assert_eq!(released(&mut world), ["s1"]);
    // It was looked at, and its conversation has another id since.
    let mut world = at_rest();
    let session = world.key();
    world.command(Command::Recover { session, restart: true, when_idle: false });
    let any_key_ms = Some(world.now().wall_ms - 5_000);
    let proof = Proof { any_key_ms, ..living(&world) };
    assert_eq!(world.prove(proof), []);
    world.hook("s9", PID, HookKind::SessionStart(StartSource::Clear));
    assert_eq!(world.session("s1").session_id, "s9");
    assert_eq!(released(&mut world), [""; 0]);
    world.pass(11.0);
    assert_eq!(world.outcome(), Some("closed"));
    assert_eq!(released(&mut world), ["s9", "s1"]);
}

// G4, S0-24: what changes between every look and its act is looked at again later and later, up to a minute.
#[test]
fn what_changes_again_and_again_is_looked_at_more_and_more_rarely() {
    let mut world = in_a_turn();
    world.crash(PID);
    for wait in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0] {
        let proof = dead(&world);
        let (intent, _) = world.act(proof);
        world.acted(intent, Outcome::Changed { what: "the pane changed".into() });
        world.pass(wait - 0.1);
        assert!(!world.actions().iter().any(is_look), "not before {wait} s");
        world.pass(0.2);
    }
    world.comes_back(NEXT);
}

// H-35, H-43: a resumed client whose dialog was answered waits no more, however long it had.
#[test]
fn a_wait_that_is_over_is_not_told_of() {
    let mut world = in_a_turn();
    world.crash(PID);
    world.resume_as(NEXT);
    world.pass(61.0);
    let (screen, input) = (Some(Screen::Trust), Input::Unreadable);
    let pane = PaneState::Client { screen, input, signature: None };
    let proof = Proof { pane, ..living(&world) };
    assert_eq!(world.prove(proof), []);
    assert!(world.waits_for().contains("a dialog is open"));
    world.pass(3_600.0);
    world.decisions.clear();
    world.comes_up(NEXT);
    world.pass(3.5);
    let proof = Proof { pane: EMPTY, ..living(&world) };
    world.prove(proof);
    world.pass(2.0);
    assert_eq!(world.outcome(), Some("verified"));
    let told = world.decisions.iter().filter(|one| one.rule == "H-35");
    assert_eq!(told.count(), 0, "{:?}", world.decisions);
}

// H-08, R-07: the hooks that tell that a client went over to another conversation were lost. Who asks for the restart of the
// former one means no client of another.
#[test]
fn a_client_that_has_another_conversation_is_not_ended() {
    let mut world = at_rest();
    let session = world.key();
    world.says("s9", PID, RegistryStatus::Idle);
    world.command(Command::Recover { session, restart: true, when_idle: true });
    world.pass(60.0);
    assert!(!world.actions().iter().any(is_look));
    assert_eq!(world.waits_for(), "the client's registry names another conversation");
    world.says("s1", PID, RegistryStatus::Idle);
    world.pass(60.0);
    let proof = living(&world);
    assert!(matches!(world.act(proof).1, Action::End { .. }), "it has this one again");
}

// H-35: whoever has to look is told the command that brings it back by hand.
#[test]
fn who_needs_its_operator_is_shown_with_the_command() {
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = Proof { has_cwd: false, ..dead(&world) };
    assert_eq!(world.prove(proof), []);
    let flagged = world.decisions.iter().find(|one| one.rule == "H-18").map(|one| &*one.did);
    let did = "needs you; to resume by hand: claude --resume s1";
    assert_eq!(flagged, Some(did));
}

// H-06, G12: a hold that is released before its time holds nothing any more, whether it was of one or of all.
#[test]
fn a_recovery_goes_on_when_its_hold_is_released() {
    for is_of_all in [false, true] {
        let mut world = in_a_turn();
        let session = (!is_of_all).then(|| world.key());
        world.command(Command::Hold { session, for_ms: Some(3_600_000) });
        world.crash(PID);
        world.pass(60.0);
        assert!(world.waits_for().contains("a person holds the session"));
        world.command(Command::Release { session });
        let proof = dead(&world);
        assert!(matches!(world.act(proof).1, Action::TypeResume { .. }));
    }
}

// G5: an attempt is charged when it begins, and is not given up in its midst because it was the last one, nor counted
// twice where a prompt meets its end (H-53).
#[test]
fn the_last_attempt_that_is_allowed_goes_on_to_its_end() {
    for meets_a_prompt in [false, true] {
        let mut world = unattended();
        world.configure(Settings { recoveries_total: 1, ..Settings::default() });
        world.says("s1", PID, RegistryStatus::Idle);
        world.signature();
        world.is_content(false);
        world.pass(130.0);
        let proof = living(&world);
        let (intent, action) = world.act(proof);
        assert!(matches!(action, Action::End { .. }));
        world.acted(intent, Outcome::Done);
        if meets_a_prompt {
            world.hook("s1", PID, PROMPT);
        }
        world.hook("s1", PID, END);
        world.exit(PID);
        let proof = dead(&world);
        assert!(matches!(world.act(proof).1, Action::TypeResume { .. }), "{meets_a_prompt}");
    }
}

// G5: an attempt that was not carried out, before a turn of its user's, is over: the next one counts in that turn.
#[test]
fn an_attempt_of_an_earlier_turn_is_over() {
    let mut world = unattended();
    world.signature();
    world.is_content(false);
    world.pass(130.0);
    let proof = living(&world);
    let (intent, _) = world.act(proof);
    world.acted(intent, Outcome::Changed { what: "the screen changed".into() });
    world.hook("s1", PID, PROMPT);
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    let pending = world.pending().unwrap();
    assert!(pending.begun.is_none(), "{pending:?}");
    assert_eq!(world.session("s1").recovery.budget.used(), (0, 1));
}

// S0-25d: without its launch a session is not brought back, and `/proc` may be unreadable when it is looked at first.
#[test]
fn a_launch_that_could_not_be_read_is_read_again_at_the_next_prompt() {
    let watched = Effect::WatchProcess { process: process(PID) };
    for kind in [Kind::Interactive, Kind::Headless] {
        let mut world = World::new();
        world.open("s1", PID, kind);
        world.seen_alive(PID);
        world.effects.clear();
        world.hook("s1", PID, PROMPT);
        assert_eq!(world.effects.contains(&watched), kind == Kind::Interactive);
        world.launched(PID, launch());
        world.effects.clear();
        world.hook("s1", PID, STOP);
        world.hook("s1", PID, PROMPT);
        assert!(!world.effects.contains(&watched), "it is known");
    }
}
