//! Rotation: who runs next, from outcomes, limits and resets (S2-07 to S2-20).

use coord_core::{
    IterationEnd, Limits, LoopEnd, Next, Rotation, RotationLimits, RunOutcome, StatusWord,
};
use coord_model::{Awake, Delay, Moment};
use proptest::prelude::*;

const START_MS: u64 = 1_790_000_000_000;
const LIMITS: RotationLimits = RotationLimits {
    max_iterations: 100,
    crashes: Limits { per_turn: 3, total: 10, delay: Delay { first_ms: 5_000, max_ms: 600_000 } },
    exhausted: Delay { first_ms: 900_000, max_ms: 7_200_000 },
    never_waits: false,
};

/// A loop whose time is what its test says.
struct Play {
    rotation: Rotation,
    limits: RotationLimits,
    ms: u64,
}

impl Play {
    fn of(agents: &[&str]) -> Self {
        let rotation = Rotation::new(agents.iter().copied(), at(0));
        Self { rotation, limits: LIMITS, ms: 0 }
    }

    fn next(&self) -> Next {
        self.rotation.next(self.limits, at(self.ms))
    }

    /// Waits as long as it is told, and begins: agent, iteration, conversation.
    fn begin(&mut self) -> (String, u32, Option<String>) {
        loop {
            match self.next() {
                Next::Run { agent, iteration, resume } => {
                    self.rotation.began(&agent, resume.is_some(), at(self.ms));
                    return (agent, iteration, resume);
                }
                Next::Wait(hold) => self.ms += hold.remaining_ms(at(self.ms).awake).max(1),
                Next::End { end, because } => panic!("{end:?}: {because}"),
            }
        }
    }

    fn end(&mut self, end: IterationEnd<'_>) {
        self.rotation.ended(&end, self.limits, at(self.ms));
    }

    /// Who ran.
    fn runs(&mut self, end: IterationEnd<'_>) -> String {
        let (agent, _, _) = self.begin();
        self.end(end);
        agent
    }

    fn wait_ms(&self) -> u64 {
        match self.next() {
            Next::Wait(hold) => hold.remaining_ms(at(self.ms).awake),
            Next::Run { .. } => 0,
            Next::End { end, because } => panic!("{end:?}: {because}"),
        }
    }

    fn over(&self) -> (LoopEnd, String) {
        match self.next() {
            Next::End { end, because } => (end, because),
            other @ (Next::Run { .. } | Next::Wait(_)) => panic!("{other:?}"),
        }
    }
}

fn at(ms: u64) -> Moment {
    Moment { awake: Awake::default().plus_ms(ms), wall_ms: START_MS + ms }
}

fn came(outcome: RunOutcome) -> IterationEnd<'static> {
    IterationEnd {
        outcome,
        is_ours: false,
        resets_ms: None,
        status: None,
        session: None,
        summary: "exit code 1",
        error_line: None,
    }
}

fn said(status: StatusWord) -> IterationEnd<'static> {
    IterationEnd { status: Some(status), ..came(RunOutcome::Done) }
}

// S2-02, S2-07, S2-08, S2-16: whatever its agent wrote before, a crash rotates, counts, and takes nobody out.
#[test]
fn a_crash_rotates_and_the_crashed_agent_stays() {
    for outcome in [RunOutcome::Crash, RunOutcome::NoResult, RunOutcome::PoisonedResume] {
        for status in [None, Some(StatusWord::Done), Some(StatusWord::Stuck)] {
            let mut play = Play::of(&["a", "b"]);
            assert_eq!(play.runs(IterationEnd { status, ..came(outcome) }), "a");
            assert_eq!(play.rotation.crash().unwrap().agent, "a");
            assert_eq!(play.rotation.crash().unwrap().outcome, outcome.word());
            assert_eq!(play.begin(), ("b".into(), 2, None), "{outcome:?} {status:?}");
            play.end(said(StatusWord::Rotate));
            assert_eq!(play.begin(), ("a".into(), 3, None), "{outcome:?} {status:?}");
        }
    }
}

// S2-09: three crashes in a row and ten in all are gone on from; the end says so, and how to go on.
#[test]
fn only_limits_halt_the_loop() {
    let mut play = Play::of(&["a", "b"]);
    for _ in 0..4 {
        play.runs(came(RunOutcome::Crash));
    }
    let (end, because) = play.over();
    assert_eq!(end, LoopEnd::Error);
    assert!(because.starts_with("the loop continued after 3 crashes in a row"), "{because}");
    assert!(because.contains("b: crash, exit code 1"), "{because}");
    play.rotation.restart(["a", "b"], at(play.ms));
    assert_eq!(play.begin().1, 5);

    let mut play = Play::of(&["a", "b"]);
    for _ in 0..5 {
        play.runs(came(RunOutcome::Crash));
        play.runs(came(RunOutcome::Crash));
        play.runs(came(RunOutcome::Done));
    }
    play.runs(came(RunOutcome::Crash));
    let (end, because) = play.over();
    assert_eq!(end, LoopEnd::Error);
    assert!(because.starts_with("the loop continued after 10 crashes in all"), "{because}");
    play.rotation.restart(["a", "b"], at(play.ms));
    assert!(play.over().1.contains("--fresh"), "a restart gives back no more than those in a row");
}

// S3-24: five seconds, doubled up to ten minutes, before anything goes on; a run that did well ends the delays.
#[test]
fn nothing_goes_on_from_a_crash_at_once() {
    let mut play = Play::of(&["a", "b"]);
    play.limits.crashes.per_turn = 100;
    play.limits.crashes.total = 100;
    for seconds in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
        play.runs(came(RunOutcome::Crash));
        assert_eq!(play.wait_ms(), seconds * 1000);
    }
    play.runs(came(RunOutcome::Done));
    assert_eq!(play.wait_ms(), 0);
    play.runs(came(RunOutcome::Crash));
    assert_eq!(play.wait_ms(), 5_000);
}

// S3-24: what coord ended itself is no crash: it rotates after a while, and no limit of crashes counts it.
#[test]
fn our_own_signals_are_no_crashes() {
    let mut play = Play::of(&["a", "b"]);
    let ours = IterationEnd { is_ours: true, ..came(RunOutcome::NoResult) };
    for agent in ["a", "b"].iter().cycle().take(20) {
        assert_eq!(play.runs(ours), *agent);
        assert!(5_000 <= play.wait_ms());
    }
}

// S2-13, S2-14: a run that did its turn goes on with the same agent, unless its status says otherwise.
#[test]
fn the_status_word_decides_after_a_turn() {
    let mut play = Play::of(&["a", "b"]);
    assert_eq!(play.runs(came(RunOutcome::Done)), "a");
    assert_eq!(play.runs(said(StatusWord::Continue)), "a");
    assert_eq!(play.runs(said(StatusWord::Rotate)), "a");
    assert_eq!(play.runs(said(StatusWord::Rotate)), "b");
    assert_eq!(play.runs(said(StatusWord::Done)), "a");
    assert_eq!(play.over().0, LoopEnd::Done);
    // S2-14
    for (text, status) in [
        ("done\n", Some(StatusWord::Done)),
        ("  STUCK", Some(StatusWord::Stuck)),
        ("Rotate", Some(StatusWord::Rotate)),
        ("continue", Some(StatusWord::Continue)),
        ("", None),
        ("done, I think", None),
        ("COMPLETE", None),
    ] {
        assert_eq!(StatusWord::read(text), status, "{text:?}");
    }
}

// S2-20
#[test]
fn every_end_has_its_exit_code() {
    let ended = |end: IterationEnd<'_>| {
        let mut play = Play::of(&["a"]);
        play.limits.never_waits = true;
        play.limits.max_iterations = 1;
        play.runs(end);
        play.over().0.exit_code()
    };
    assert_eq!(ended(said(StatusWord::Done)), 0);
    assert_eq!(ended(came(RunOutcome::Billing)), 1);
    assert_eq!(ended(said(StatusWord::Stuck)), 2);
    assert_eq!(ended(said(StatusWord::Continue)), 3);
    assert_eq!(ended(came(RunOutcome::Exhausted)), 4);
    assert_eq!(ended(came(RunOutcome::Cancelled)), 130);
}

// S2-01: wrong arguments end the loop, with no other agent tried.
#[test]
fn wrong_arguments_stop_the_loop() {
    let mut play = Play::of(&["a", "b"]);
    play.runs(came(RunOutcome::Usage));
    assert_eq!(play.over(), (LoopEnd::Error, "a was called wrongly: exit code 1".into()));
}

// S2-15, S2-17: out until its reset, back by itself, and no crash on the way.
#[test]
fn an_agent_at_its_limit_comes_back_at_its_reset() {
    let mut play = Play::of(&["a", "b"]);
    let resets_ms = Some(START_MS + 3_600_000);
    let limit = IterationEnd { resets_ms, ..came(RunOutcome::Exhausted) };
    assert_eq!(play.runs(limit), "a");
    assert_eq!(play.rotation.crash(), None);
    assert_eq!(play.wait_ms(), 0, "b is free");
    assert_eq!(play.begin(), ("b".into(), 1, None), "the iteration is not over");
    play.end(said(StatusWord::Rotate));
    assert_eq!(play.runs(said(StatusWord::Rotate)), "b", "a is out");
    play.ms = 3_600_000;
    assert_eq!(play.runs(said(StatusWord::Rotate)), "a");
}

// S2-17: all at their limit: the earliest reset is waited for, or the loop ends.
#[test]
fn when_all_are_at_their_limit_the_earliest_reset_counts() {
    let mut play = Play::of(&["a", "b"]);
    let until =
        |ms: u64| IterationEnd { resets_ms: Some(START_MS + ms), ..came(RunOutcome::Exhausted) };
    play.runs(until(7_200_000));
    play.runs(until(1_800_000));
    let Next::Wait(hold) = play.next() else { panic!("{:?}", play.next()) };
    assert_eq!(hold.reason, "all agents are at their usage limit; b resets first");
    assert_eq!(hold.remaining_ms(at(0).awake), 1_800_000);
    play.limits.never_waits = true;
    assert_eq!(play.over().0, LoopEnd::AllExhausted);
    play.limits.never_waits = false;
    assert_eq!(play.begin().0, "b");
    assert_eq!(play.ms, 1_800_000);
}

// S2-17: a reset that nobody names, that is past or beyond belief is asked after on a growing curve.
#[test]
fn an_unknown_reset_is_asked_after_more_and_more_seldom() {
    let beyond = START_MS + 400 * 86_400_000;
    for resets_ms in [None, Some(0), Some(START_MS), Some(beyond), Some(u64::MAX)] {
        let mut play = Play::of(&["a"]);
        let limit = IterationEnd { resets_ms, ..came(RunOutcome::Exhausted) };
        for minutes in [15, 30, 60, 120, 120] {
            play.runs(limit);
            assert_eq!(play.wait_ms(), minutes * 60_000, "{resets_ms:?}");
        }
        play.runs(came(RunOutcome::Done));
        play.runs(limit);
        assert_eq!(play.wait_ms(), 15 * 60_000);
    }
}

// S2-17: a reset that is always a moment away is no busy loop.
#[test]
fn a_reset_that_proves_wrong_is_not_run_into_again_and_again() {
    let mut play = Play::of(&["a"]);
    for seconds in [5, 10, 20, 40] {
        play.begin();
        let resets_ms = Some(START_MS + play.ms + 1);
        play.end(IterationEnd { resets_ms, ..came(RunOutcome::Exhausted) });
        assert_eq!(play.wait_ms(), seconds * 1000);
    }
}

// S2-18: a refused login or account takes its agent out until the loop is started again.
#[test]
fn a_blocked_agent_is_out_until_the_loop_starts_again() {
    let mut play = Play::of(&["a", "b"]);
    play.runs(came(RunOutcome::Authentication));
    for _ in 0..3 {
        assert_eq!(play.runs(said(StatusWord::Rotate)), "b");
    }
    play.runs(came(RunOutcome::Billing));
    let (end, because) = play.over();
    assert_eq!(end, LoopEnd::Error);
    assert!(because.contains("a (authentication: exit code 1), b (billing"), "{because}");
    play.rotation.restart(["a", "b"], at(play.ms));
    assert_eq!(play.begin().0, "a");
}

// S3-23: only where the crashed agent is the next one is its conversation gone on with, and only once.
#[test]
fn a_conversation_is_gone_on_with_by_its_own_agent_once() {
    let crash = |session| IterationEnd { session: Some(session), ..came(RunOutcome::Crash) };
    let mut pool = Play::of(&["a", "b"]);
    pool.runs(crash("s1"));
    assert_eq!(pool.begin(), ("b".into(), 2, None));

    let mut alone = Play::of(&["a"]);
    alone.runs(crash("s1"));
    assert_eq!(alone.begin().2.as_deref(), Some("s1"));
    alone.end(crash("s1"));
    assert_eq!(alone.begin().2, None, "it crashed again");
    alone.end(crash("s2"));
    assert_eq!(alone.begin().2.as_deref(), Some("s2"));
    alone.end(IterationEnd { session: Some("s2"), ..came(RunOutcome::PoisonedResume) });
    let Next::End { because, .. } = alone.next() else { panic!("{:?}", alone.next()) };
    assert!(because.contains("poisoned_resume"), "{because}");
    alone.rotation.restart(["a"], at(alone.ms));
    assert_eq!(alone.begin().2, None);
}

// H-11, S3-24: too little memory or disk is a hold, a longer one each time, and no crash.
#[test]
fn a_full_machine_is_waited_for() {
    let mut play = Play::of(&["a"]);
    for seconds in [5, 10, 20] {
        play.rotation.wanting("memory available 3 MB", at(play.ms));
        let Next::Wait(hold) = play.next() else { panic!("{:?}", play.next()) };
        assert_eq!(hold.reason, "memory available 3 MB");
        assert_eq!(hold.remaining_ms(at(play.ms).awake), seconds * 1000);
        play.ms += seconds * 1000;
    }
    assert_eq!(play.begin(), ("a".into(), 1, None));
    assert_eq!(play.rotation.crash(), None);
}

// G10: a loop that was ended in mid-run goes on behind it: counted, told, and with a wait.
#[test]
fn an_interrupted_run_is_counted_and_told() {
    let mut play = Play::of(&["a", "b"]);
    play.begin();
    let text = serde_json::to_string(&play.rotation).unwrap();
    play.rotation = serde_json::from_str(&text).unwrap();
    assert_eq!(play.rotation.running(), Some(("a", 1)));
    play.rotation.restart(["b", "a", "c"], at(play.ms));
    assert_eq!(play.rotation.crash().unwrap().summary, "the loop itself was interrupted");
    assert_eq!(play.wait_ms(), 5_000);
    assert_eq!(play.begin(), ("b".into(), 2, None));
}

// G10: what was done or stuck begins anew; limits of accounts are kept.
#[test]
fn a_loop_that_came_to_its_end_begins_anew() {
    for status in [StatusWord::Done, StatusWord::Stuck] {
        let mut play = Play::of(&["a", "b"]);
        play.runs(came(RunOutcome::Crash));
        play.runs(came(RunOutcome::Exhausted));
        play.runs(said(status));
        play.rotation.restart(["a", "b"], at(play.ms));
        assert_eq!(play.begin(), ("a".into(), 1, None));
        play.end(said(StatusWord::Rotate));
        assert_eq!(play.begin().0, "a", "b is at its limit");
    }
}

/// What a pool of three does at random.
#[derive(Debug, Clone)]
struct Happening {
    outcome: RunOutcome,
    is_ours: bool,
    resets_in_ms: Option<u64>,
    status: Option<StatusWord>,
    takes_ms: u64,
    wants: bool,
    is_restart: bool,
}

fn happening() -> impl Strategy<Value = Happening> {
    let outcome = prop::sample::select(RunOutcome::ALL.to_vec());
    let status = prop::option::of(prop::sample::select(StatusWord::ALL.to_vec()));
    let resets = prop::option::of(0..10_000_000_000_u64);
    (outcome, any::<bool>(), resets, status, 0..10_000_000_u64, 0..8_u8, 0..12_u8).prop_map(
        |(outcome, is_ours, resets_in_ms, status, takes_ms, wants, restarts)| Happening {
            outcome,
            is_ours,
            resets_in_ms,
            status,
            takes_ms,
            wants: wants == 0,
            is_restart: restarts == 0,
        },
    )
}

/// What the rules say, kept beside.
#[derive(Default)]
struct Kept {
    out_until: [u64; 3],
    tries: [u32; 3],
    blocked: [bool; 3],
    streak: u32,
    total: u32,
    after_crash: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // S2-09, S2-17, G5, G10: no agent runs while it is out, no limit is passed, nothing waits for ever, the
    // iteration never goes back, and a loop read back from its file is the same loop.
    #[test]
    fn the_rules_hold_for_any_course_of_events(course in prop::collection::vec(happening(), 1..60)) {
        let names = ["a", "b", "c"];
        let mut play = Play::of(&names);
        play.limits.max_iterations = 30;
        let mut kept = Kept::default();
        let mut iteration = 0;
        for one in course {
            let text = serde_json::to_string(&play.rotation).unwrap();
            let read: Rotation = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &play.rotation);
            play.rotation = read;
            if one.wants {
                play.rotation.wanting("memory", at(play.ms));
            }
            let mut waits = 0;
            let agent = loop {
                match play.next() {
                    Next::Run { agent, iteration: next, .. } => {
                        prop_assert!(next <= 30);
                        break Some(agent);
                    }
                    Next::Wait(hold) => {
                        waits += 1;
                        prop_assert!(waits < 4, "no wait after wait after wait");
                        let left = hold.remaining_ms(at(play.ms).awake);
                        let now = START_MS + play.ms;
                        let is_free = |n: &usize| !kept.blocked[*n] && kept.out_until[*n] <= now;
                        let cap = if (0..3).any(|n| is_free(&n)) { 600_000 } else { 8 * 86_400_000 };
                        prop_assert!(0 < left && left <= cap, "{left} of {cap}: {}", hold.reason);
                        play.ms += left;
                    }
                    Next::End { because, .. } => {
                        prop_assert!(!because.is_empty());
                        break None;
                    }
                }
            };
            let Some(agent) = agent else {
                play.rotation.restart(names, at(play.ms));
                kept.blocked = Default::default();
                kept.streak = 0;
                if play.rotation.iteration() < iteration {
                    prop_assert_eq!(play.rotation.iteration(), 0);
                    kept.total = 0;
                    kept.after_crash = false;
                }
                iteration = play.rotation.iteration();
                continue;
            };
            let place = names.iter().position(|name| *name == agent).unwrap();
            prop_assert!(!kept.blocked[place], "{agent} is blocked");
            prop_assert!(kept.out_until[place] <= START_MS + play.ms, "{agent} is at its limit");
            play.rotation.began(&agent, false, at(play.ms));
            if std::mem::take(&mut kept.after_crash) {
                kept.streak += 1;
                kept.total += 1;
            }
            prop_assert!(kept.streak <= 3 && kept.total <= 10, "{} {}", kept.streak, kept.total);
            play.ms += one.takes_ms;
            if one.is_restart {
                play.rotation.restart(names, at(play.ms));
                kept.blocked = Default::default();
                (kept.streak, kept.after_crash) = (0, true);
                kept.tries[place] = 0;
                prop_assert_eq!(play.rotation.iteration(), iteration + 1);
                iteration += 1;
                continue;
            }
            let now = START_MS + play.ms;
            let resets_ms = one.resets_in_ms.map(|ms| now + ms);
            let end = IterationEnd {
                outcome: one.outcome,
                is_ours: one.is_ours,
                resets_ms,
                status: one.status,
                session: None,
                summary: "x",
                error_line: None,
            };
            play.end(end);
            prop_assert!(iteration <= play.rotation.iteration());
            iteration = play.rotation.iteration();
            match one.outcome {
                RunOutcome::Crash | RunOutcome::NoResult | RunOutcome::PoisonedResume => {
                    kept.after_crash |= !one.is_ours;
                    kept.tries[place] = 0;
                }
                RunOutcome::Done => (kept.streak, kept.tries[place]) = (0, 0),
                RunOutcome::Exhausted => {
                    kept.tries[place] += 1;
                    let curve = |first_ms: u64| first_ms << (kept.tries[place] - 1).min(20);
                    let reset =
                        resets_ms.filter(|ms| (now + 1..=now + 8 * 86_400_000).contains(ms));
                    kept.out_until[place] = match reset {
                        Some(reset) => reset.max(now + curve(5_000).min(7_200_000)),
                        None => now + curve(900_000).min(7_200_000),
                    };
                }
                RunOutcome::Authentication | RunOutcome::Billing => kept.blocked[place] = true,
                RunOutcome::Cancelled | RunOutcome::Usage => (),
            }
        }
    }
}
