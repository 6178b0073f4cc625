//! A run's file: it is there before a forced end, everybody can read it, and a run that has none goes
//! on untouched.

use crate::case::{A_WHILE, AGENT, Case, Other, SESSION};
use coord_tests::coord::{Coordinator, coord, health};
use coord_tests::wait::wait_until;
use serde_json::Value;
use std::time::Duration;

// S3-23: both are there when the signal comes.
pub(crate) fn a_forced_end_is_written_first() {
    let case = Case::new(&[
        ("limbo", "1s"),
        ("kill_grace", "60s"),
        ("quiet_after", "1s"),
        ("tick", "600ms"),
    ]);
    let (quarantine, runs) = (case.home.paths().state.join("quarantine"), case.runs_dir());
    let [quarantine, runs, seen] =
        [quarantine, runs, case.file("seen")].map(|path| path.to_string_lossy().into_owned());
    // The shell takes SIGTERM, and looks at what stands on the disk.
    let script = "trap 'ls \"$1\" > \"$3\"; cat \"$2\"/*.jsonl >> \"$3\"; exit 0' TERM\n\
                  \"$4\" stream-json init result; tail -f /dev/null & wait";
    let words = ["sh", "-c", script, "sh", &quarantine, &runs, &seen, AGENT];
    let finished = case.start(case.run(&["--provider", "claude"], &words)).finish();
    assert_eq!(finished.code(), Some(0), "{finished:#?}");
    case.assert_ended("post_result_limbo_timeout", "done");
    let seen = case.wait_file("seen");
    assert!(seen.lines().next().is_some_and(|name| name.contains(SESSION)), "{seen}");
    let lines = seen.lines().skip(1).filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let forced = lines.into_iter().find(|line| line["kind"] == "forced");
    let forced = forced.unwrap_or_else(|| panic!("no forced end: {seen}"));
    assert_eq!(forced["quarantine"], SESSION);
    assert_eq!(forced["reason"], "post_result_limbo_timeout");
}

// S3-23: a run that gave no result is nobody's to resume.
pub(crate) fn no_quarantine_without_a_result() {
    let case = Case::new(&[("first_result", "1s")]);
    case.finish(&[], &["init", "hang"]);
    let lines = case.lines();
    let forced = lines.iter().find(|line| line["kind"] == "forced").expect("a forced end");
    assert_eq!(forced["quarantine"], Value::Null);
}

// S3-23: what cannot be written down is not done.
pub(crate) fn nothing_is_ended_without_its_file() {
    let case = Case::new(&[("post_result", "1s"), ("limbo", "1s"), ("tick", "300ms")]);
    std::fs::create_dir_all(&case.home.paths().state).expect("create a directory");
    std::fs::write(case.runs_dir(), "in the way").expect("write a file");
    let steps = ["init", "result", "close", "wait", "@go", "exit", "6"];
    let running = case.start_agent(&[], &steps);
    assert!(!running.ends_within(Duration::from_secs(4)));
    case.make_file("go");
    let finished = running.finish();
    assert_eq!(finished.code(), Some(6), "{finished:#?}");
    assert_eq!(finished.stdout.lines().count(), 2, "{finished:#?}");
}

/// The one run that `coord inspect --json` shows.
#[track_caller]
fn inspected(case: &Case) -> Value {
    let answer = coord(&case.home, &["inspect", "--json"]).expect_success();
    let all: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    let runs = all["runs"].as_array().expect("inspect shows runs").clone();
    let [run] = <[Value; 1]>::try_from(runs).expect("one run");
    run
}

// S3-02, S3-15, G9: without a coordinator.
pub(crate) fn everybody_can_read_it() {
    let case = Case::new(&[("limbo", "1s")]);
    let steps = ["init", "result", "control", "r1", "wait", "@go", "exit", "0"];
    let running = case.start_agent(&["--name", "nightly"], &steps);
    case.wait_hold("pending_request");
    assert!(health(&case.home).is_none(), "a run needs no coordinator");
    let run = inspected(&case);
    assert_eq!((&run["name"], &run["supervised"]), (&"nightly".into(), &true.into()), "{run:#}");
    assert_eq!((&run["session_id"], &run["results"]), (&SESSION.into(), &1.into()), "{run:#}");
    assert_eq!(run["hold"]["reason"], "pending_request", "{run:#}");
    assert_eq!(run["exit"], Value::Null, "{run:#}");
    let id = run["run_id"].as_str().expect("an id").to_owned();
    let why = coord(&case.home, &["explain", &id]).expect_success();
    assert!(why.stdout.contains("pending_request"), "{why:#?}");
    case.make_file("go");
    running.finish().expect_success();
    let run = inspected(&case);
    assert_eq!(
        (&run["state"], &run["exit"]["outcome"]),
        (&"exited".into(), &"done".into()),
        "{run:#}"
    );
    let why = coord(&case.home, &["explain", &id]).expect_success();
    assert!(why.stdout.contains("exited_after_result"), "{why:#?}");
}

// S3-15: a run is nobody's but its supervisor's.
pub(crate) fn a_killed_coordinator() {
    let case = Case::new(&[("kill_grace", "300ms")]);
    let coordinator = Coordinator::start(&case.home);
    let steps =
        ["init", "child", "", "@child", "write", "@up", "wait", "@go", "result", "exit", "0"];
    let running = case.start_agent(&[], &steps);
    let child = case.process("child");
    case.wait_file("up");
    assert_eq!(inspected(&case)["supervised"], true);
    coordinator.kill();
    assert!(!running.ends_within(A_WHILE));
    child.assert_lives();
    assert_eq!(inspected(&case)["supervised"], true);
    case.make_file("go");
    running.finish().expect_success();
    case.assert_ended("exited_after_result", "done");
    case.assert_not_forced();
}

// S3-15, S3-02: then nobody says anything of it any more.
pub(crate) fn a_killed_supervisor() {
    let case = Case::new(&[]);
    let running = case.start_agent(&[], &["init", "write", "@up", "wait", "@go", "write", "@on"]);
    case.wait_file("up");
    // The agent may be quicker than the line that tells of it.
    let begin =
        wait_until("the run's first line", || case.lines().into_iter().next().ok_or("no line"));
    let pid = begin["process"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let agent = Other::of(pid.expect("a pid"));
    running.kill();
    agent.assert_lives();
    let run = inspected(&case);
    assert_eq!((&run["state"], &run["supervised"]), (&"unknown".into(), &false.into()), "{run:#}");
    case.make_file("go");
    agent.wait();
    assert!(case.file("on").exists(), "it went on");
}

/// Nothing of what it printed stands there.
pub(crate) fn what_it_printed_stands_nowhere() {
    let case = Case::new(&[]);
    let steps = [
        "init",
        "say",
        "SECRET-1",
        "text",
        "SECRET-2",
        "tool",
        "SECRET-3",
        "stderr",
        "SECRET-4 ETIMEDOUT",
        "control",
        "SECRET-5",
        "result",
        "exit",
        "1",
    ];
    case.finish(&["--provider", "claude"], &steps);
    let text: Vec<String> = case.lines().iter().map(Value::to_string).collect();
    assert!(!text.is_empty());
    assert!(!text.iter().any(|line| line.contains("SECRET")), "{text:#?}");
}
