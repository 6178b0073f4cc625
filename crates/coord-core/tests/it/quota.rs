//! How long a session waits for its quota, and how that ends (R-11, S1-18, S1-20 to S1-22, H-21).

use crate::crashes::{PID, at_rest, living, unattended};
use crate::world::{END, PROMPT, STOP, World};

use coord_model::{
    Action, Command, Effect, Event, Failure, HookKind, Input, Intent, Kind, LastWords, Outcome,
    PaneState, Proof, RegistryStatus, Screen, SessionState, StartSource,
};

/// The delays of the probes with what each session adds of its own, minutes.
const DELAYS: [(f64, f64); 5] =
    [(15.0, 18.0), (30.0, 36.0), (60.0, 72.0), (120.0, 144.0), (120.0, 144.0)];

/// A turn that meets the limit.
fn limited(world: &mut World) {
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(2.0);
    world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    world.says("s1", PID, RegistryStatus::Idle);
    world.pass(1.0);
    assert_eq!(world.state_of("s1"), SessionState::QuotaWait);
}

/// The wakes asked for since the last call. Whoever looks at the end of the conversation finds the error there.
fn wakes(world: &mut World) -> Vec<Intent> {
    let error = world.session("s1").failure.clone().unwrap_or_default();
    let failure = Some(Failure { error, written_ms: world.now().wall_ms, resets_ms: None });
    let (looks, mut wakes) = asked_for(world);
    for look in looks {
        answer(world, look, Some(LastWords { failure: failure.clone(), ..LastWords::default() }));
        wakes.extend(asked_for(world).1);
    }
    wakes
}

/// The looks at the end of the conversation, and the wakes.
fn asked_for(world: &mut World) -> (Vec<Intent>, Vec<Intent>) {
    let (mut looks, mut wakes) = (Vec::new(), Vec::new());
    for action in world.actions() {
        if let Action::Wake { intent, .. } = action {
            wakes.push(intent);
        } else if let Action::Prove { intent, subject } = action
            && subject.reads_last_words
        {
            looks.push(intent);
        }
    }
    (looks, wakes)
}

fn answer(world: &mut World, intent: Intent, last_words: Option<LastWords>) {
    let proof = Box::new(Proof { last_words, ..living(world) });
    world.take(&Event::Proved { session_id: String::new(), intent, proof });
}

/// Minutes until the next probe.
#[track_caller]
fn probed_after(world: &mut World) -> f64 {
    for minute in 0..300 {
        world.pass(60.0);
        match wakes(world)[..] {
            [] => (),
            [intent] => {
                world.acted(intent, Outcome::Done);
                return f64::from(minute + 1);
            }
            _ => panic!("more than one probe"),
        }
    }
    panic!("no probe")
}

// S1-22: each probe that fails doubles the delay; after the last one a person is asked.
#[test]
fn probes_grow_rare_and_end_with_a_person() {
    let mut world = unattended();
    limited(&mut world);
    for (from, to) in DELAYS {
        let minutes = probed_after(&mut world);
        assert!(from <= minutes && minutes <= to + 1.0, "{minutes} not in {from} to {to}");
        limited(&mut world);
    }
    world.pass(24.0 * 3_600.0);
    assert_eq!(wakes(&mut world), []);
    let flag = world.session("s1").recovery.needs_operator.as_ref().unwrap();
    assert_eq!(flag.reason, "the usage limit does not reset");
    assert_eq!(world.state_of("s1"), SessionState::QuotaWait);
    world.command(Command::ResetFailed { session: None });
    world.pass(60.0);
    assert_eq!(wakes(&mut world).len(), 1, "a person has it tried again");
}

// S1-21, S1-22: only a turn that ends well proves that it went on.
#[test]
fn a_turn_that_ends_well_ends_the_wait() {
    let mut world = unattended();
    limited(&mut world);
    probed_after(&mut world);
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(600.0);
    assert!(world.session("s1").quota.is_some(), "a turn that has begun proves nothing");
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    assert_eq!(world.session("s1").quota, None);
    assert!(world.decisions.iter().any(|decision| decision.rule == "S1-21"));
    world.pass(24.0 * 3_600.0);
    assert_eq!(wakes(&mut world), []);
    limited(&mut world);
    assert!(probed_after(&mut world) < 20.0, "another limit begins anew");
}

// S1-22, R-07: the hooks that tell that a client went over to another conversation were lost. By its registry, that
// conversation waits for nothing (seed 1982821235).
#[test]
fn a_client_that_has_another_conversation_is_not_woken() {
    let mut world = unattended();
    limited(&mut world);
    world.says("s9", PID, RegistryStatus::Idle);
    world.pass(24.0 * 3_600.0);
    assert_eq!(wakes(&mut world), []);
    world.says("s1", PID, RegistryStatus::Idle);
    world.pass(60.0);
    assert_eq!(wakes(&mut world).len(), 1, "it has this one again");
}

/// The look that precedes a probe.
#[track_caller]
fn looked_at(world: &mut World) -> Intent {
    world.pass(20.0 * 60.0);
    let (looks, wakes) = asked_for(world);
    assert_eq!(wakes, [], "a probe is decided on a look");
    let [.., look] = looks[..] else { panic!("no look") };
    look
}

// G4, S1-21: hooks were lost, and the agent went on: it is not told of a limit.
#[test]
fn a_conversation_that_went_on_after_its_error_is_not_woken() {
    let mut world = unattended();
    limited(&mut world);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(2.0);
    let written_ms = Some(world.now().wall_ms);
    world.says("s1", PID, RegistryStatus::Idle);
    let look = looked_at(&mut world);
    answer(&mut world, look, Some(LastWords { written_ms, ..LastWords::default() }));
    assert_eq!((world.state_of("s1"), *world.session("s1").quota), (SessionState::Idle, None));
    world.pass(24.0 * 3_600.0);
    assert_eq!(asked_for(&mut world).1, []);
}

// R-07, S1-21: what another client writes after the error ends no wait.
#[test]
fn what_another_client_writes_does_not_end_the_wait() {
    let mut world = unattended();
    limited(&mut world);
    let look = looked_at(&mut world);
    another_fails(&mut world);
    let written_ms = Some(world.now().wall_ms);
    answer(&mut world, look, Some(LastWords { written_ms, ..LastWords::default() }));
    let session = world.state.session_of(crate::world::process(PID)).expect("it lives");
    assert!(session.quota.is_some());
}

// R-19, S1-22: what cannot be read, or is older than the error, contradicts nothing.
#[test]
fn a_transcript_that_shows_nothing_after_the_error_prevents_no_probe() {
    for words in [None, Some(None), Some(Some(0))] {
        let mut world = unattended();
        limited(&mut world);
        let look = looked_at(&mut world);
        let words = words.map(|written_ms| LastWords { written_ms, ..LastWords::default() });
        answer(&mut world, look, words);
        assert_eq!(asked_for(&mut world).1.len(), 1);
    }
}

// S1-22: the reset was written after the transcript was last read.
#[test]
fn a_reset_that_the_look_finds_is_waited_for() {
    let mut world = unattended();
    limited(&mut world);
    let look = looked_at(&mut world);
    let now_ms = world.now().wall_ms;
    let resets_ms = Some(now_ms + 3 * 3_600_000);
    let failure = Some(Failure { error: "rate_limit".into(), written_ms: now_ms, resets_ms });
    answer(&mut world, look, Some(LastWords { failure, ..LastWords::default() }));
    world.pass(2.9 * 3_600.0);
    assert_eq!(asked_for(&mut world), (vec![], vec![]));
    assert!(probed_after(&mut world) < 20.0);
}

// S1-22: somebody opened a dialog that no hook reports; it is tried again once that is closed.
#[test]
fn a_session_with_an_open_dialog_is_not_woken_before_that_is_closed() {
    let mut world = unattended();
    limited(&mut world);
    let look = looked_at(&mut world);
    let screen = Some(Screen::Dialog);
    let pane = PaneState::Client { screen, input: Input::Unreadable, signature: None };
    let proof = Box::new(Proof { pane, ..living(&world) });
    world.take(&Event::Proved { session_id: String::new(), intent: look, proof });
    assert_eq!(asked_for(&mut world).1, []);
    world.pass(61.0);
    let again = asked_for(&mut world).0[0];
    answer(&mut world, again, None);
    assert_eq!(asked_for(&mut world).1.len(), 1);
}

// H-06, S1-22: a person held the session while it was looked at; an answer that never comes is asked for again.
#[test]
fn a_look_without_an_answer_is_repeated_and_a_hold_in_between_counts() {
    let mut world = unattended();
    limited(&mut world);
    let first = looked_at(&mut world);
    world.pass(61.0);
    let second = asked_for(&mut world).0[0];
    answer(&mut world, first, None);
    assert_eq!(asked_for(&mut world).1, [], "the answer to an older look");
    world.command(Command::Hold { session: None, for_ms: Some(3_600_000) });
    answer(&mut world, second, None);
    assert_eq!(asked_for(&mut world).1, []);
}

// A limit where somebody watches is theirs to wait for.
#[test]
fn an_attended_session_is_not_woken() {
    let mut world = at_rest();
    limited(&mut world);
    world.pass(24.0 * 3_600.0);
    assert_eq!(wakes(&mut world), []);
    world.attend(true);
    world.pass(1.0);
    assert_eq!(wakes(&mut world).len(), 1);
}

// H-14, R-21: what is not ours, or not clear, is left alone; it is woken as soon as it is.
#[test]
fn only_what_is_ours_and_clear_is_woken() {
    let lock = |world: &mut World, held| {
        world.take(&Event::ConfigDirLock { config_dir: "/home/dev/.claude".into(), held });
    };
    let mut locked = unattended();
    lock(&mut locked, false);
    limited(&mut locked);
    locked.pass(7_200.0);
    assert_eq!(wakes(&mut locked), []);
    lock(&mut locked, true);
    locked.says("s1", PID, RegistryStatus::Idle);
    locked.pass(1.0);
    assert_eq!(wakes(&mut locked).len(), 1);

    let mut contested = unattended();
    limited(&mut contested);
    contested.hook("s1", PID, PROMPT);
    contested.pass(2.5);
    contested.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    contested.says("s1", PID, RegistryStatus::Busy);
    contested.pass(7_200.0);
    assert_eq!(wakes(&mut contested), []);
}

// H-06, H-21, H-32: a hold, a spent budget and a gap put it off; nothing is dropped.
#[test]
fn what_holds_a_probe_puts_it_off() {
    let mut held = unattended();
    limited(&mut held);
    held.command(Command::Hold { session: None, for_ms: Some(3_600_000) });
    held.pass(3_599.0);
    assert_eq!(wakes(&mut held), []);
    held.pass(120.0);
    assert_eq!(wakes(&mut held).len(), 1);

    let mut gap = unattended();
    limited(&mut gap);
    gap.pass(1_000.0);
    let _ = wakes(&mut gap);
    limited(&mut gap);
    gap.pass(1_750.0);
    gap.seconds += 3_600.0;
    gap.take(&Event::Gap { ns: 3_600_000_000_000 });
    gap.pass(29.0);
    assert_eq!(wakes(&mut gap), [], "it settles, and the time that nobody watched does not count");
}

// S1-22: a probe that reached nobody is no reason to send another at once.
#[test]
fn a_probe_that_nobody_took_is_sent_again_later() {
    let mut world = unattended();
    limited(&mut world);
    probed_after(&mut world);
    assert!(30.0 <= probed_after(&mut world));
}

// S1-22: sessions of one account do not ask together.
#[test]
fn probes_are_spread() {
    let mut world = unattended();
    let mut untils = Vec::new();
    for id in 0..20 {
        let (id, pid) = (format!("other{id}"), 500 + id);
        world.open(&id, pid, Kind::Interactive);
        world.hook(&id, pid, PROMPT);
        world.hook(&id, pid, HookKind::StopFailure("rate_limit".into()));
        untils.push(world.session(&id).quota.unwrap().until);
    }
    untils.sort_unstable();
    let far = untils.windows(2).filter(|two| 1_000 < two[1].ms_since(two[0])).count();
    assert!(15 < far, "{untils:?}");
}

// behind the limit a queued prompt began a turn, and its user interrupted that.
#[test]
fn a_session_that_its_user_interrupted_is_not_woken() {
    let mut world = unattended();
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(1.0);
    world.hook("s1", PID, PROMPT);
    world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    world.pass(5.0);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.says("s1", PID, RegistryStatus::Idle);
    world.pass(24.0 * 3_600.0);
    assert_eq!((world.state_of("s1"), wakes(&mut world)), (SessionState::Idle, vec![]));
}

// S1-21: what is compacted in a turn goes on waiting for what that turn proves.
#[test]
fn a_compaction_does_not_end_the_wait() {
    let mut world = unattended();
    limited(&mut world);
    probed_after(&mut world);
    world.hook("s1", PID, PROMPT);
    world.hook("s1", PID, HookKind::SessionStart(StartSource::Compact));
    world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    assert_eq!(world.session("s1").quota.map(|quota| quota.probes), Some(1));
}

/// The transcript says when the limit ends, at which the last turn ended.
pub(crate) fn resets(world: &mut World, resets_ms: u64) {
    world.take(&Event::TranscriptRead {
        process: crate::world::process(PID),
        interrupted_ms: None,
        has_signature: None,
        failure: Some(Failure {
            error: "rate_limit".into(),
            written_ms: 0,
            resets_ms: Some(resets_ms),
        }),
    });
}

// S1-22: where the reset is known, one probe, soon after it.
#[test]
fn a_known_reset_is_waited_for() {
    for hours in [1, 3, 30, 7 * 24] {
        let mut world = unattended();
        limited(&mut world);
        let asks = world.effects.iter().any(|one| matches!(one, Effect::ReadTranscript { .. }));
        assert!(asks, "the transcript knows");
        let left = f64::from(hours) * 3_600.0;
        let reset = world.now().wall_ms + u64::try_from(hours).unwrap() * 3_600_000;
        resets(&mut world, reset);
        let _ = wakes(&mut world);
        world.pass(left + 119.0);
        assert_eq!(wakes(&mut world), [], "{hours}: the client goes on by itself first");
        world.pass(182.0);
        assert_eq!(wakes(&mut world).len(), 1, "{hours}");
        assert_eq!(world.session("s1").quota.unwrap().resets_ms, None, "it is over, or was wrong");
    }
}

// S1-22: a reset that is past, or farther away than any limit, is none.
#[test]
fn a_wrong_reset_is_not_waited_for() {
    let wrong: [fn(u64) -> u64; 5] = [
        |_| 0,
        |now| now - 1,
        |now| now + 9 * 24 * 3_600_000,
        |_| u64::MAX,
        |now| now - 86_400_000,
    ];
    for reset in wrong {
        let mut world = unattended();
        limited(&mut world);
        let reset = reset(world.now().wall_ms);
        resets(&mut world, reset);
        let minutes = probed_after(&mut world);
        assert!((15.0..20.0).contains(&minutes), "{reset}: {minutes}");
    }
}

// S1-22: a limit that is still there after its reset is probed ever more rarely, like any.
#[test]
fn a_reset_that_was_too_early_is_followed_by_the_usual_delays() {
    let mut world = unattended();
    limited(&mut world);
    let reset = world.now().wall_ms + 60_000;
    resets(&mut world, reset);
    assert!(probed_after(&mut world) <= 7.0);
    limited(&mut world);
    let minutes = probed_after(&mut world);
    assert!((30.0..37.0).contains(&minutes), "{minutes}");
}

// H-32: a limit ends by the wall clock, though the machine slept or its clock was set.
#[test]
fn a_reset_during_a_sleep_is_not_waited_for_once_more() {
    let mut world = unattended();
    limited(&mut world);
    let reset = world.now().wall_ms + 3 * 3_600_000;
    resets(&mut world, reset);
    world.pass(600.0);
    world.seconds += 4.0 * 3_600.0;
    world.take(&Event::Gap { ns: 4 * 3_600_000_000_000 });
    let _ = wakes(&mut world);
    world.pass(119.0);
    assert_eq!(wakes(&mut world), [], "its client comes first");
    world.pass(200.0);
    assert_eq!(wakes(&mut world).len(), 1);
}

// R-11, S1-21: an error of the API's own is waited out the same way, under its own name.
#[test]
fn an_api_that_does_not_answer_is_tried_again() {
    for error in ["server_error", "overloaded"] {
        let mut world = unattended();
        world.hook("s1", PID, PROMPT);
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(2.0);
        world.hook("s1", PID, HookKind::StopFailure(error.into()));
        world.says("s1", PID, RegistryStatus::Idle);
        world.pass(1.0);
        assert_eq!(world.state_of("s1"), SessionState::Idle, "a throttle is no quota");
        let minutes = probed_after(&mut world);
        assert!((5.0..=7.0).contains(&minutes), "{error}: {minutes}");
        world.hook("s1", PID, PROMPT);
        world.says("s1", PID, RegistryStatus::Busy);
        world.hook("s1", PID, STOP);
        world.says("s1", PID, RegistryStatus::Idle);
        assert_eq!(world.session("s1").quota, None);
    }
    for error in ["invalid_request", "max_output_tokens", "model_not_found", "unknown"] {
        let mut world = unattended();
        world.hook("s1", PID, PROMPT);
        world.hook("s1", PID, HookKind::StopFailure(error.into()));
        world.says("s1", PID, RegistryStatus::Idle);
        world.pass(24.0 * 3_600.0);
        assert_eq!((wakes(&mut world), *world.session("s1").quota), (vec![], None), "{error}");
    }
}

// G12, H-21: what waits for its quota costs a few turns a day, and then a person is asked.
#[test]
fn a_limit_that_stays_costs_five_turns() {
    let mut world = unattended();
    limited(&mut world);
    let mut n = 0;
    for _ in 0..7 * 24 * 6 {
        world.pass(600.0);
        for intent in wakes(&mut world) {
            world.acted(intent, Outcome::Done);
            limited(&mut world);
            n += 1;
        }
    }
    assert_eq!(n, 5);
    assert!(
        world.session("s1").recovery.needs_operator.is_some(),
        "its own turns do not lift that"
    );
}

/// The transcript ends with this error, which the client wrote so many seconds ago.
fn transcript_fails(world: &mut World, error: &str, ago_s: u64) {
    let written_ms = world.now().wall_ms - ago_s * 1_000;
    world.take(&Event::TranscriptRead {
        process: crate::world::process(PID),
        interrupted_ms: None,
        has_signature: None,
        failure: Some(Failure { error: error.into(), written_ms, resets_ms: None }),
    });
}

/// Another client resumes the conversation, fails, and ends.
pub(crate) fn another_fails(world: &mut World) {
    world.open("s1", 200, Kind::Interactive);
    for kind in [PROMPT, HookKind::StopFailure("rate_limit".into()), END] {
        world.hook("s1", 200, kind);
        world.pass(1.0);
    }
    world.exit(200);
}

// S1-13, R-07: both clients write to one transcript. The error of the one is no word on the other, which rests.
#[test]
fn an_error_of_another_client_is_not_the_sessions_own() {
    let mut world = unattended();
    let shown = |world: &World| {
        world.state.session_of(crate::world::process(PID)).expect("it lives").shown.state
    };
    another_fails(&mut world);
    transcript_fails(&mut world, "rate_limit", 0);
    assert_eq!(shown(&world), SessionState::Idle);
    world.pass(1.0);
    // Its own later turn fails, and no hook reports that.
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(5.0);
    world.says("s1", PID, RegistryStatus::Idle);
    world.pass(2.0);
    transcript_fails(&mut world, "rate_limit", 2);
    assert_eq!(shown(&world), SessionState::QuotaWait);
}

// S1-13, R-01, R-11: the StopFailure alone was lost: the turn seems interrupted until the transcript is read.
#[test]
fn a_lost_stop_failure_is_made_good_by_the_transcript() {
    for (error, word) in [
        ("rate_limit", SessionState::QuotaWait),
        ("authentication_failed", SessionState::BlockedAuth),
        ("server_error", SessionState::Idle),
    ] {
        let mut world = unattended();
        world.hook("s1", PID, PROMPT);
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(5.0);
        world.effects.clear();
        world.says("s1", PID, RegistryStatus::Idle);
        world.pass(2.0);
        assert_eq!(world.state_of("s1"), SessionState::Idle);
        let asks = world.effects.iter().any(|one| matches!(one, Effect::ReadTranscript { .. }));
        assert!(asks, "the transcript knows");
        transcript_fails(&mut world, error, 2);
        assert_eq!(world.state_of("s1"), word, "{error}");
        let waits = word != SessionState::BlockedAuth;
        assert_eq!(world.session("s1").quota.is_some(), waits);
        if waits {
            assert!(probed_after(&mut world) < 20.0);
        }
    }
}

// an interrupt before any output leaves no mark; the error before it is not this turn's.
#[test]
fn an_older_error_says_nothing_of_an_interrupted_turn() {
    let mut world = unattended();
    world.pass(60.0);
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(5.0);
    world.says("s1", PID, RegistryStatus::Idle);
    world.pass(2.0);
    transcript_fails(&mut world, "rate_limit", 30);
    assert_eq!((world.state_of("s1"), *world.session("s1").quota), (SessionState::Idle, None));
}
