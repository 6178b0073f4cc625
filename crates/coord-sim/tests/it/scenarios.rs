//! Plays every file of `tests/scenarios`: the rows each one proves stand in its name and in it.
//! And what `coord-sim play` says of files that do not hold or cannot be played.
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use coord_sim::play::{Played, play};
use serde_json::Value;

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_scenario = |path: &PathBuf| path.extension().is_some_and(|is| is == "json");
    let mut files: Vec<PathBuf> = entries.filter(is_scenario).collect();
    files.sort();
    files
}

#[test]
fn every_scenario_holds_and_plays_the_same_twice() {
    let mut failed = Vec::new();
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let Played { lines, end } = play(&text);
        match end {
            Ok(None) => assert_eq!(play(&text).lines, lines, "{}", file.display()),
            Ok(Some(why)) => failed.push(format!("{}: {why}", file.display())),
            Err(error) => failed.push(format!("{}: {error:#}", file.display())),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_scenario_says_what_it_proves_and_why_and_expects_something() {
    assert!(!files().is_empty());
    for file in files() {
        let name = file.file_stem().unwrap().to_string_lossy().to_lowercase();
        let scenario: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let row = scenario["proves"][0].as_str().unwrap().to_lowercase();
        assert!(name.starts_with(&format!("{row}-")), "{name}: {row}");
        assert!(!scenario["why"].as_str().unwrap().is_empty(), "{name}");
        let steps = scenario["steps"].as_array().unwrap();
        let expects =
            |step: &Value| step.get("expect").or_else(|| step.get("expect_needs")).is_some();
        assert!(steps.iter().any(expects), "{name} expects nothing");
    }
}

fn refusal(steps: &str) -> String {
    let played = play(&format!(r#"{{"schema": 1, "steps": [{steps}]}}"#));
    assert!(played.lines.is_empty(), "{:?}", played.lines);
    format!("{:#}", played.end.unwrap_err())
}

#[test]
fn what_cannot_be_played_is_refused_by_name_before_anything_is_played() {
    for (steps, words) in [
        (
            r#"{"at": 1, "hok": {}}"#,
            r#"step 1 (at 1): unknown step "hok"; the nearest known one is "hook""#,
        ),
        (
            r#"{"at": 1, "start": {"pid": 1, "pan": ""}}"#,
            r#"start: unknown field "pan"; the nearest known one is "pane""#,
        ),
        (r#"{"at": 1, "start": {"pid": "1"}}"#, r#"start: has no field "session""#),
        (r#"{"at": 1, "start": {"session": "s1", "pid": "1"}}"#, "start.pid: takes a pid"),
        (
            r#"{"at": 1, "world": {"resume": "work"}}"#,
            r#"world.resume: unknown word "work"; the nearest known one is "works""#,
        ),
        (
            r#"{"at": 12.0, "command": {"restored": "s1"}}"#,
            r#"step 1 (at 12.0): command: unknown field "restored"; the nearest known one is "restore""#,
        ),
        (
            r#"{"at": 1, "command": {"hold": "s1", "task_dir": "/t"}}"#,
            r#"command: "task_dir" stands beside "attend" only"#,
        ),
        (r#"{"at": 1, "command": {"attend": "s1", "task_dir": "t"}}"#, "a path from the root on"),
        (r#"{"at": 1, "file": {"path": "/t/.auto-stop"}}"#, "null removes it"),
        (r#"{"at": 1, "file": {"path": "t", "text": ""}}"#, "file.path: takes a path"),
        (r#"{"at": 1, "stream": "{}"}"#, "stream: takes an object"),
        (r#"{"at": 1, "stream": {"run": "r1", "lin": {}}}"#, r#"the nearest known one is "line""#),
        (r#"{"at": 1, "run": {"run": "r1"}}"#, r#"run: has no field "pid""#),
        (r#"{"at": 1, "forward": {"run": "r1", "signal": "TRM"}}"#, "a name such as"),
        (
            r#"{"at": 2, "boot": {}}, {"at": 1, "boot": {}}"#,
            "step 2 (at 1): comes after step 1 (at 2)",
        ),
        (r#"{"at": -1, "boot": {}}"#, "step 1: has no time"),
        (r#"{"at": 1, "boot": {}, "disk": {"fail": 1}}"#, r#"does both "boot" and "disk""#),
        (r#"{"at": 1, "boot": {}, "pid": 7}"#, r#"unknown field "pid" beside "boot""#),
        (
            r#"{"at": 1, "expect_effects": [{"kind": "signl"}]}"#,
            r#"unknown word "signl"; the nearest known one is "signal""#,
        ),
        (r#"{"at": 1, "expect": {"session": "s1"}}"#, "expect: names no field of the session"),
    ] {
        let refused = refusal(steps);
        assert!(refused.contains(words), "{refused}\nfor {steps}");
    }
    let broken = format!("{:#}", play("{\"schema\": 1,\n \"steps\": [}").end.unwrap_err());
    assert!(broken.contains("is not JSON: ") && broken.contains("line 2 column 12"), "{broken}");
    let unknown = r#"{"schema": 1, "config": {"tracking.swep": "5s"}, "steps": []}"#;
    let unknown = format!("{:#}", play(unknown).end.unwrap_err());
    assert!(unknown.contains("tracking.sweep"), "{unknown}");
}

const STEPS: &str = r#"
    {"at": 0, "start": {"session": "s1", "pid": 100, "pane": "%1"}},
    {"at": 0.6, "hook": {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"}}"#;

fn failure(step: &str) -> String {
    let played = play(&format!(r#"{{"schema": 1, "steps": [{STEPS}, {step}]}}"#));
    played.end.unwrap().expect("an expectation that does not hold")
}

#[test]
fn the_first_expectation_that_does_not_hold_is_named() {
    for (step, words) in [
        (
            r#"{"at": 18.0, "expect": {"session": "s1", "state": "idle", "recovery": {"total": 1}}}"#,
            r#"step 3 (at 18.0): expect "s1": recovery.total: wanted 1, got 0"#,
        ),
        (
            r#"{"at": 1, "expect": {"session": "s2", "state": "idle"}}"#,
            r#"wanted a session "s2", got none"#,
        ),
        (
            r#"{"at": 1, "expect": {"session": "s1", "absent": true}}"#,
            r#"wanted no session "s1", got one"#,
        ),
        (
            r#"{"at": 1, "expect": {"session": "s1", "stat": "idle"}}"#,
            r#"stat: wanted "idle", got no such field; the nearest known one is "state""#,
        ),
        (
            r#"{"at": 1, "expect_effects": [{"kind": "signal"}]}"#,
            r#"wanted {"kind":"signal"}, got none"#,
        ),
        (r#"{"at": 1, "forbid_effects": [{"kind": "capture_pane"}]}"#, "forbid_effects: wanted no"),
    ] {
        let failed = failure(step);
        assert!(failed.contains(words), "{failed}\nfor {step}");
    }
}

fn run(arguments: &[&str], scenario: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.json"), scenario).unwrap();
    let program = env!("CARGO_BIN_EXE_coord-sim");
    Command::new(program).current_dir(dir.path()).args(arguments).output().unwrap()
}

#[test]
fn the_program_prints_what_happened_and_exits_by_what_held() {
    let scenario = |state: &str| {
        let expect = format!(r#"{{"at": 1, "expect": {{"session": "s1", "state": "{state}"}}}}"#);
        format!(r#"{{"schema": 1, "steps": [{STEPS}, {expect}]}}"#)
    };
    let held = run(&["play", "a.json"], &scenario("idle"));
    let lines = String::from_utf8(held.stdout).unwrap();
    let shown =
        r#"{"t":0.6,"session":"s1","state":"idle","because":"waiting for a prompt, by hooks"}"#;
    assert_eq!((lines.lines().next(), held.status.code()), (Some(shown), Some(0)));
    let failed = run(&["play", "a.json"], &scenario("\\u202e\\u001b[31m"));
    let why = String::from_utf8(failed.stderr).unwrap();
    assert_eq!((why.lines().count(), failed.status.code()), (1, Some(1)), "{why}");
    assert!(!why.contains(['\u{1b}', '\u{202e}']), "{why}");
    assert!(why.starts_with("a.json: step 3 (at 1)"), "{why}");
    let several = run(&["play", "a.json", "absent.json"], &scenario("idle"));
    assert!(several.stdout.starts_with(br#"{"file":"a.json"}"#));
    assert_eq!(several.status.code(), Some(2));
}
