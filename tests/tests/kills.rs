//! SIGKILL of hooks and of the coordinator at random moments, under load: a hook that exited 0 has
//! its event in the history exactly once, a killed one at most once. Holds G1, G2, G7.
//!
//! The seed repeats the choices, not the machine's timing.

use coord_tests::coord::{Coordinator, events, health, install, programs};
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running};
use coord_tests::random::Random;
use coord_tests::wait::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const WRITERS: u64 = 4;
const HOOKS_PER_WRITER: u64 = 75;
/// One hook in so many is killed.
const KILLED_ONE_IN: u64 = 3;
/// A hook takes about 2 ms, a coordinator's start some 20; the kills fall all over that.
const HOOK_LIFE_MAX: Duration = Duration::from_millis(4);
const START_LIFE_MAX: Duration = Duration::from_millis(40);

/// What became of one hook. Each event has a session of its own, by which it is found again.
struct Outcome {
    session_id: String,
    finished: Finished,
}

#[test]
fn g1_g2_kills_at_random_moments_lose_and_double_nothing() {
    let seed = Random::seed();
    println!("COORD_TEST_SEED={seed}");
    let home = Home::new();
    install(&home);
    let programs = programs();
    let outcomes = std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for writer in 0..WRITERS {
            let (home, programs, sender) = (&home, programs.as_path(), sender.clone());
            let random = Random::new(seed ^ (writer + 1));
            scope.spawn(move || write(writer, random, home, programs, &sender));
        }
        drop(sender);
        kill_coordinators(Random::new(seed), &home, &receiver)
    });
    let killed = outcomes.iter().filter(|outcome| outcome.finished.signal().is_some()).count();
    println!("{} hooks, {killed} of them killed", outcomes.len());
    let _coordinator = Coordinator::start(&home);
    wait_until("the coordinator has taken in the spool", || match health(&home) {
        Some(health) if health.spool_pending == 0 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    check(&outcomes, &times_recorded(&home));
    assert_eq!(health(&home).map(|health| health.invariant_violations), Some(0));
}

#[test]
fn g1_what_is_recorded_survives_another_kill() {
    let home = Home::new();
    install(&home);
    let mut random = Random::new(1);
    let coordinator = Coordinator::start(&home);
    let outcomes: Vec<Outcome> =
        (0..20).map(|n| run_hook(&mut random, &home, &programs(), n.to_string(), false)).collect();
    let before = times_recorded(&home);
    coordinator.kill();
    let _coordinator = Coordinator::start(&home);
    assert_eq!(times_recorded(&home), before);
    check(&outcomes, &before);
}

/// Starts and kills coordinators while the writers' outcomes come in, and collects those.
fn kill_coordinators(
    mut random: Random,
    home: &Home,
    outcomes: &Receiver<Outcome>,
) -> Vec<Outcome> {
    let mut collected = Vec::new();
    let mut coordinator = Some(Coordinator::start(home));
    let mut until_change = 10;
    for outcome in outcomes {
        collected.push(outcome);
        until_change -= 1;
        if until_change != 0 {
            continue;
        }
        until_change = 1 + random.below(25);
        match coordinator.take() {
            Some(alive) => alive.kill(),
            None if random.once_in(2) => {
                Coordinator::spawn(home).kill_after(random.time_below(START_LIFE_MAX));
            }
            None => coordinator = Some(Coordinator::start(home)),
        }
    }
    collected
}

fn write(writer: u64, mut random: Random, home: &Home, programs: &Path, to: &Sender<Outcome>) {
    for n in 0..HOOKS_PER_WRITER {
        let killed = random.once_in(KILLED_ONE_IN);
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
    let (program, event) = *random.pick(&[
        ("coord-hook-session-start", "SessionStart"),
        ("coord-hook-post-tool-use", "PostToolUse"),
        ("coord-hook-stop", "Stop"),
        ("coord-hook-event", "UserPromptSubmit"),
        ("coord-hook-event", "PreToolUse"),
        ("coord-hook-event", "SessionEnd"),
    ]);
    let mut command = home.command(programs.join(program));
    command.arg("--root").arg(home.root()).stdin(Stdio::piped());
    let mut hook = Running::start(command, &home.tmp(), "hook");
    let payload = payload(random, home, &session_id, event);
    let mut stdin = hook.take_stdin().expect("stdin is a pipe");
    // A hook stops reading once it has what it needs, so a broken pipe is no fault.
    let _ = stdin.write_all(format!("{payload}\n").as_bytes());
    // Claude Code may keep stdin open.
    let kept_open = if random.once_in(4) { Some(stdin) } else { None };
    let finished = if killed {
        hook.ends_within(random.time_below(HOOK_LIFE_MAX));
        hook.kill()
    } else {
        hook.finish()
    };
    drop(kept_open);
    Outcome { session_id, finished }
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

#[track_caller]
fn check(outcomes: &[Outcome], recorded: &BTreeMap<String, usize>) {
    let mut wrong = Vec::new();
    for Outcome { session_id, finished } in outcomes {
        let times = recorded.get(session_id).copied().unwrap_or(0);
        let right = if finished.signal() == Some(Signal::KILL.as_raw()) {
            times <= 1
        } else {
            finished.code() == Some(0) && finished.stdout.is_empty() && times == 1
        };
        if !right {
            wrong.push(format!("session {session_id}, recorded {times} times: {finished:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), outcomes.len(), wrong.join("\n"));
}
