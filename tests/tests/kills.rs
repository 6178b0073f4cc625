//! SIGKILL of hooks and of the coordinator at random moments, under load: a hook that exited 0 has
//! its event in the history exactly once, a killed one at most once, and neither leaves a lock.
//! SIGSTOP of the coordinator costs hooks no more than their budget and doubles nothing. Holds G1,
//! G2, G7, G10, H-37.
//!
//! The seed repeats the choices, not the machine's timing.

use coord_testkit::Random;
use coord_tests::coord::{Coordinator, events, health, inspect, install, programs};
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running};
use coord_tests::wait::{PATIENCE, wait_until};
use coord_wire::spool::{CURRENT, SOLO_PREFIX};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const WRITERS: u64 = 4;
const HOOKS_PER_WRITER: u64 = 75;
/// One hook in so many is killed.
const KILLED_ONE_IN: u64 = 3;
/// A hook takes about 1 ms once it has its payload, a coordinator's start some 20, its end some 40
/// with a snapshot; the kills fall all over that.
const HOOK_LIFE_MAX: Duration = Duration::from_millis(2);
const START_LIFE_MAX: Duration = Duration::from_millis(40);
const END_MAX: Duration = Duration::from_millis(60);

/// The seed of this run: `COORD_TEST_SEED`, else a fresh one. Whoever draws it prints it.
#[track_caller]
fn seed() -> u64 {
    if let Ok(seed) = std::env::var("COORD_TEST_SEED") {
        return seed.parse().expect("COORD_TEST_SEED is a number");
    }
    RandomState::new().hash_one(0)
}

/// A time below `bound`, in microseconds.
fn time_below(random: &mut Random, bound: Duration) -> Duration {
    let micros = u64::try_from(bound.as_micros()).expect("fits");
    Duration::from_micros(random.below(micros))
}

/// What became of one hook. Each event has a session of its own, by which it is found again.
struct Outcome {
    session_id: String,
    event: &'static str,
    finished: Finished,
}

/// What the coordinator is doing, and how many were killed before.
struct Coordinators<'a> {
    home: &'a Home,
    random: Random,
    now: Now,
    killed: u64,
}

enum Now {
    Away,
    Serving(Coordinator),
    Stopped(Coordinator),
}

#[test]
fn g1_g2_kills_at_random_moments_lose_and_double_nothing() {
    let seed = seed();
    println!("COORD_TEST_SEED={seed}");
    let home = Home::new();
    install(&home);
    let programs = programs();
    let mut coordinators =
        Coordinators { home: &home, random: Random::new(seed), now: Now::Away, killed: 0 };
    let outcomes = std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for writer in 0..WRITERS {
            let (home, programs, sender) = (&home, programs.as_path(), sender.clone());
            let random = Random::new(seed ^ (writer + 1));
            scope.spawn(move || write(writer, random, home, programs, &sender));
        }
        drop(sender);
        coordinators.change_during(&receiver)
    });
    let killed = coordinators.killed;
    drop(coordinators);
    println!("{}", numbers(&outcomes, killed));
    let _coordinator = Coordinator::start(&home);
    wait_until_spool_is_taken_in(&home);
    check(&outcomes, &times_recorded(&home));
    assert_eq!(health(&home).map(|health| health.invariant_violations), Some(0));
}

#[test]
fn g1_what_is_recorded_survives_another_kill() {
    let home = Home::new();
    install(&home);
    let mut random = Random::new(1);
    let coordinator = Coordinator::start(&home);
    let outcomes = run_hooks(&mut random, &home, "", 20);
    let before = times_recorded(&home);
    coordinator.kill();
    let _coordinator = Coordinator::start(&home);
    assert_eq!(times_recorded(&home), before);
    check(&outcomes, &before);
    println!("{}", numbers(&outcomes, 1));
}

// What hooks write while no coordinator is there, killed ones among them, is taken in by the first
// one that lives long enough; all before it are killed while they begin.
#[test]
fn g1_killed_in_the_spool_nothing_is_locked_lost_or_doubled() {
    let seed = seed();
    println!("COORD_TEST_SEED={seed}");
    let (home, mut random) = (Home::new(), Random::new(seed));
    install(&home);
    let mut outcomes = Vec::new();
    for n in 0..120 {
        let id = n.to_string();
        outcomes.push(run_hook(&mut random, &home, &programs(), id, n % 2 == 0));
        assert_spool_is_unlocked(&home);
    }
    let names = std::fs::read_dir(home.paths().spool()).expect("hooks made the spool");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let solos = names.filter(|name| name.to_string_lossy().starts_with(SOLO_PREFIX)).count();
    assert_eq!(solos, 0, "a hook found the spool locked");
    for _ in 0..10 {
        Coordinator::spawn(&home).kill_after(time_below(&mut random, START_LIFE_MAX));
        assert_spool_is_unlocked(&home);
    }
    let _coordinator = Coordinator::start(&home);
    wait_until_spool_is_taken_in(&home);
    check(&outcomes, &times_recorded(&home));
    println!("{}", numbers(&outcomes, 10));
}

// H-37: hooks wait for a coordinator that does not answer for as long as the exchange may take, or
// not at all where that was noted, and it may have taken the event in all the same.
#[test]
fn g2_h37_a_stopped_coordinator_costs_no_event_and_doubles_none() {
    let seed = seed();
    println!("COORD_TEST_SEED={seed}");
    let (home, mut random) = (Home::new(), Random::new(seed));
    install(&home);
    let coordinator = Coordinator::start(&home);
    let mut outcomes = run_hooks(&mut random, &home, "before", 3);
    stop(&coordinator);
    let begun = Instant::now();
    for n in 0..6 {
        forget_miss(&home);
        outcomes.append(&mut run_hooks(&mut random, &home, &format!("stopped-{n}"), 2));
    }
    println!("12 hooks beside a stopped coordinator took {:?}", begun.elapsed());
    check_ends(&outcomes);
    coordinator.signal(Signal::CONT);
    wait_until_spool_is_taken_in(&home);
    forget_miss(&home);
    outcomes.append(&mut run_hooks(&mut random, &home, "after", 3));
    check(&outcomes, &times_recorded(&home));
    coordinator.kill();
    let _coordinator = Coordinator::start(&home);
    check(&outcomes, &times_recorded(&home));
    println!("{}", numbers(&outcomes, 1));
}

// A coordinator that is asked to end writes a snapshot, prunes what is older and closes the segment;
// it is killed anywhere in that, again and again.
#[test]
fn g1_g10_killed_while_it_snapshots_and_prunes_it_loses_no_session() {
    const ROUNDS: u64 = 25;
    let seed = seed();
    println!("COORD_TEST_SEED={seed}");
    let (home, mut random) = (Home::new(), Random::new(seed));
    install(&home);
    home.write_config("[store]\njournal_kept = \"1ms\"\n");
    let (mut killed, mut cut) = (0, 0);
    let coordinator = Coordinator::start(&home);
    let mut outcomes = run_hooks(&mut random, &home, "first", 4);
    let begun = Instant::now();
    assert!(!coordinator.end_within(PATIENCE));
    let whole = begun.elapsed();
    for round in 0..ROUNDS {
        let coordinator = Coordinator::start(&home);
        outcomes.append(&mut run_hooks(&mut random, &home, &round.to_string(), 4));
        if coordinator.end_within(time_below(&mut random, whole)) {
            killed += 1;
            cut += u64::from(home.paths().state.join("snapshot.tmp").exists());
        }
    }
    // On a busy machine all of them may have been killed before they pruned.
    assert!(!Coordinator::start(&home).end_within(PATIENCE));
    println!("{}, {cut} snapshots cut", numbers(&outcomes, killed));
    println!("the first end, not killed, took {whole:?}");
    check_ends(&outcomes);
    let first_segment = home.paths().journal().join(format!("{:020}.seg", 1));
    assert!(!first_segment.exists(), "nothing was pruned");
    let _coordinator = Coordinator::start(&home);
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for session in inspect(&home).sessions {
        for id in session.previous_ids.into_iter().chain([session.session_id]) {
            *known.entry(id).or_default() += 1;
        }
    }
    // The end of a session that nothing else was heard of makes no record.
    let due = outcomes.iter().filter(|hook| hook.event != "SessionEnd");
    let unknown = due.filter(|hook| known.get(&hook.session_id) != Some(&1));
    let unknown: Vec<_> = unknown.map(|hook| (hook.event, &hook.session_id)).collect();
    assert!(unknown.is_empty(), "{unknown:?} of {known:?}");
    assert_eq!(health(&home).map(|health| health.invariant_violations), Some(0));
}

impl Coordinators<'_> {
    /// Starts, stops and kills coordinators while the writers' outcomes come in; collects those.
    fn change_during(&mut self, outcomes: &Receiver<Outcome>) -> Vec<Outcome> {
        let mut collected = Vec::new();
        self.now = Now::Serving(Coordinator::start(self.home));
        let mut until_change = 10;
        for outcome in outcomes {
            collected.push(outcome);
            until_change -= 1;
            if until_change == 0 {
                until_change = 1 + self.random.below(25);
                self.change();
            }
        }
        collected
    }

    fn change(&mut self) {
        self.now = match std::mem::replace(&mut self.now, Now::Away) {
            Now::Serving(alive) => match self.random.below(4) {
                0 => {
                    let limit = time_below(&mut self.random, END_MAX);
                    self.killed += u64::from(alive.end_within(limit));
                    Now::Away
                }
                1 => {
                    stop(&alive);
                    Now::Stopped(alive)
                }
                _ => self.kill(alive),
            },
            Now::Stopped(alive) if self.random.coin() => {
                alive.signal(Signal::CONT);
                forget_miss(self.home);
                Now::Serving(alive)
            }
            Now::Stopped(alive) => self.kill(alive),
            Now::Away if self.random.coin() => {
                let life = time_below(&mut self.random, START_LIFE_MAX);
                Coordinator::spawn(self.home).kill_after(life);
                self.killed += 1;
                Now::Away
            }
            Now::Away => Now::Serving(Coordinator::start(self.home)),
        };
    }

    fn kill(&mut self, alive: Coordinator) -> Now {
        alive.kill();
        self.killed += 1;
        Now::Away
    }
}

/// Stops it as Ctrl-Z does, and waits until it has stopped.
#[track_caller]
fn stop(coordinator: &Coordinator) {
    coordinator.signal(Signal::STOP);
    wait_until("the coordinator is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", coordinator.pid()));
        let stat = stat.expect("the coordinator is not reaped");
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'));
        if state == Some(true) { Ok(()) } else { Err(stat) }
    });
}

/// Lets hooks try the socket again at once, which they avoid for a while after a miss.
fn forget_miss(home: &Home) {
    let _ = std::fs::remove_file(home.paths().miss());
}

#[track_caller]
fn assert_spool_is_unlocked(home: &Home) {
    // A hook that was killed early has made no spool yet.
    if let Ok(current) = std::fs::File::open(home.paths().spool().join(CURRENT)) {
        let locked = flock(&current, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(locked, Ok(()), "a killed process left its lock");
    }
}

#[track_caller]
fn wait_until_spool_is_taken_in(home: &Home) {
    wait_until("the coordinator has taken in the spool", || match health(home) {
        Some(health) if health.spool_pending == 0 => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

fn is_killed(outcome: &Outcome) -> bool {
    outcome.finished.signal() == Some(Signal::KILL.as_raw())
}

/// The line that says how much was tried.
fn numbers(outcomes: &[Outcome], coordinators: u64) -> String {
    let (run, killed) = (outcomes.len(), outcomes.iter().filter(|hook| is_killed(hook)).count());
    format!("kills: {run} hooks run, {killed} hooks killed, {coordinators} coordinators killed")
}

/// Runs hooks one after the other, to their ends.
fn run_hooks(random: &mut Random, home: &Home, name: &str, n: u64) -> Vec<Outcome> {
    let ids = (0..n).map(|n| format!("{name}-{n}"));
    ids.map(|id| run_hook(random, home, &programs(), id, false)).collect()
}

fn write(writer: u64, mut random: Random, home: &Home, programs: &Path, to: &Sender<Outcome>) {
    for n in 0..HOOKS_PER_WRITER {
        let killed = random.below(KILLED_ONE_IN) == 0;
        let outcome = run_hook(&mut random, home, programs, format!("{writer}-{n}"), killed);
        to.send(outcome).expect("the receiver outlives the writers");
    }
}

fn run_hook(
    random: &mut Random,
    home: &Home,
    programs: &Path,
    session_id: String,
    killed: bool,
) -> Outcome {
    let of = [
        ("coord-hook-session-start", "SessionStart"),
        ("coord-hook-post-tool-use", "PostToolUse"),
        ("coord-hook-stop", "Stop"),
        ("coord-hook-event", "UserPromptSubmit"),
        ("coord-hook-event", "PreToolUse"),
        ("coord-hook-event", "SessionEnd"),
    ];
    let (program, event) = of[random.index(of.len())];
    let mut command = home.command(programs.join(program));
    command.arg("--root").arg(home.root()).stdin(Stdio::piped());
    let mut hook = Running::start(command, &home.tmp(), "hook");
    let payload = payload(random, home, &session_id, event);
    let mut stdin = hook.take_stdin().expect("stdin is a pipe");
    // A hook stops reading once it has what it needs, so a broken pipe is no fault.
    let _ = stdin.write_all(format!("{payload}\n").as_bytes());
    // Claude Code may keep stdin open.
    let kept_open = if random.below(4) == 0 { Some(stdin) } else { None };
    let finished = if killed {
        hook.ends_within(time_below(random, HOOK_LIFE_MAX));
        hook.kill()
    } else {
        hook.finish()
    };
    drop(kept_open);
    Outcome { session_id, event, finished }
}

fn payload(random: &mut Random, home: &Home, session_id: &str, event: &str) -> Value {
    let bulk = "x".repeat(usize::try_from(random.below(100_000)).expect("fits"));
    let mut payload = json!({
        "session_id": session_id,
        "transcript_path": home.config_dir().join("transcript.jsonl"),
        "cwd": home.project(),
        "hook_event_name": event,
    });
    let fields = match event {
        "SessionStart" => json!({"source": "startup"}),
        "SessionEnd" => json!({"reason": "other"}),
        "Stop" => json!({"stop_hook_active": false, "background_tasks": [], "session_crons": []}),
        "UserPromptSubmit" => json!({"prompt": bulk, "permission_mode": "default"}),
        _ => {
            json!({"tool_name": "Bash", "tool_use_id": session_id, "tool_input": {"command": bulk}})
        }
    };
    for (name, value) in fields.as_object().expect("made as objects") {
        payload[name] = value.clone();
    }
    payload
}

/// How often each session's event is in the history.
#[track_caller]
fn times_recorded(home: &Home) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for event in events(home, None).into_iter().filter(|event| event["source"] == "hook") {
        let id = event["session_id"].as_str().expect("an event names its session").to_owned();
        *times.entry(id).or_default() += 1;
    }
    times
}

/// Hooks that were not killed have ended well, without a word.
#[track_caller]
fn check_ends(outcomes: &[Outcome]) {
    for outcome in outcomes.iter().filter(|outcome| !is_killed(outcome)) {
        let Finished { stdout, stderr, .. } = &outcome.finished;
        let is_quiet = stdout.is_empty() && stderr.is_empty();
        let ended_well = outcome.finished.code() == Some(0) && is_quiet;
        assert!(ended_well, "session {}: {:?}", outcome.session_id, outcome.finished);
    }
}

#[track_caller]
fn check(outcomes: &[Outcome], recorded: &BTreeMap<String, usize>) {
    check_ends(outcomes);
    let times = |hook: &Outcome| recorded.get(&hook.session_id).copied().unwrap_or(0);
    let is_wrong =
        |hook: &&Outcome| if is_killed(hook) { 1 < times(hook) } else { times(hook) != 1 };
    let wrong: Vec<String> = outcomes
        .iter()
        .filter(is_wrong)
        .map(|hook| {
            let (id, finished) = (&hook.session_id, &hook.finished);
            format!("session {id}, recorded {} times: {finished:?}", times(hook))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), outcomes.len(), wrong.join("\n"));
}
