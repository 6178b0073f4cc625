//! `coord events`: what happened to sessions, with their messages, folded for people and whole for programs, at the
//! cost of what is new (U-10).

use super::wire::{client_event, event, post, with};
use coord_tests::coord::{Coordinator, coord, events, programs};
use coord_tests::home::Home;
use coord_tests::process::Running;
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

const ONE: &str = "aaaa1111";
const TWO: &str = "bbbb2222";

/// Posts events of a session, which follow on its `n`-th.
fn happen(home: &Home, session: &str, n: u32, names: &[(&str, &str)]) {
    for (n, (name, tool)) in (n..).zip(names) {
        let tool = if tool.is_empty() { json!({}) } else { json!({"tool_name": tool}) };
        post(home, &with(client_event(session, name, n), tool));
    }
}

/// A turn with tools.
fn a_turn(home: &Home, session: &str) {
    let turn = [
        ("UserPromptSubmit", ""),
        ("PreToolUse", "Bash"),
        ("PostToolUse", "Bash"),
        ("PreToolUse", "Bash"),
        ("PostToolUse", "Bash"),
        ("PreToolUse", "Edit"),
        ("PostToolUse", "Edit"),
        ("Stop", ""),
    ];
    happen(home, session, 1, &turn);
}

/// `coord events ARGUMENTS`, without the times.
#[track_caller]
fn lines(home: &Home, arguments: &[&str]) -> Vec<String> {
    let text = coord(home, &[&["events"], arguments].concat()).expect_success().stdout;
    text.lines().map(|line| line.get(16..).unwrap_or(line).to_owned()).collect()
}

fn n_of(lines: &[String], text: &str) -> usize {
    lines.iter().filter(|line| line.contains(text)).count()
}

/// Sends a message; its id.
#[track_caller]
fn send(home: &Home, arguments: &[&str]) -> String {
    let sent = coord(home, &[arguments, &["--json"]].concat()).expect_success().stdout;
    serde_json::from_str::<Value>(&sent).unwrap()["id"].as_str().unwrap().to_owned()
}

// U-10
#[test]
fn u_10_without_an_id_it_is_what_happened_to_sessions() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    a_turn(&home, ONE);
    send(&home, &["send", ONE, "hello"]);
    let shown = lines(&home, &[]);
    let fits = |what: &str| n_of(&shown, what) == 1;
    assert!(fits("prompt") && fits("turn ended") && fits("sent to session"), "{shown:#?}");
    for unwanted in ["tool", "process", "registry", "coordinator"] {
        assert_eq!(n_of(&shown, unwanted), 0, "{unwanted}: {shown:#?}");
    }
    let all = lines(&home, &["--all"]);
    for wanted in ["3 tools", "process", "coordinator started"] {
        assert!(0 < n_of(&all, wanted), "{wanted}: {all:#?}");
    }
    // Programs read every record, as before.
    let recorded = events(&home, None);
    let named = |name: &str| recorded.iter().filter(|line| line["name"] == name).count();
    assert_eq!((named("PreToolUse"), named("PostToolUse"), named("Due")), (3, 3, 0));
    assert!(0 < named("ProcessSeen") && named("CoordinatorStarted") == 1, "{recorded:#?}");
    let kinds = |name: &str| -> Vec<&Value> {
        recorded.iter().filter(|line| line["name"] == name).map(|line| &line["kind"]).collect()
    };
    assert_eq!(kinds("Stop"), ["edge"]);
    assert_eq!(kinds("PreToolUse"), ["activity"; 3]);
    assert_eq!(kinds("Message"), ["message"]);
}

// U-10: of one session, its tools between two other lines are one line, and --all has its observations.
#[test]
fn u_10_the_tools_of_a_session_fold() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    a_turn(&home, ONE);
    a_turn(&home, TWO);
    let shown = lines(&home, &[ONE]);
    let wanted =
        ["aaaa1111  prompt", "aaaa1111  3 tools              Bash 2, Edit", "aaaa1111  turn ended"];
    assert_eq!(shown.len(), 3, "{shown:#?}");
    for (line, wanted) in shown.iter().zip(wanted) {
        assert!(line.starts_with(wanted), "{shown:#?}");
    }
    let all = lines(&home, &[ONE, "--all"]);
    assert!(0 < n_of(&all, "process"), "{all:#?}");
    let of_two = lines(&home, &[TWO, "--all"]);
    assert!(all.iter().all(|line| !of_two.contains(line)), "{all:#?} {of_two:#?}");
}

// U-10: a message stands with the session that it is for, from its sending to its end, and with no other.
#[test]
fn u_10_messages_stand_with_their_session() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    for id in [ONE, TWO] {
        happen(&home, id, 1, &[("UserPromptSubmit", "")]);
    }
    let id = send(&home, &["send", ONE, "hello"]);
    let other = send(&home, &["queue", "send", "builds", "build"]);
    coord(&home, &["queue", "drop", &id]).expect_success();
    let check = || {
        let short = id.get(..8).unwrap();
        for arguments in [&[ONE][..], &[ONE, "-n", "100"], &[id.as_str()]] {
            let shown = lines(&home, arguments);
            let about = |what: &str| {
                shown.iter().any(|line| line.starts_with(short) && line.contains(what))
            };
            assert!(about("sent to session") && about("dropped"), "{arguments:?}: {shown:#?}");
            assert_eq!(n_of(&shown, &other), 0, "{shown:#?}");
        }
        assert_eq!(n_of(&lines(&home, &[TWO]), short), 0);
        let recorded = events(&home, Some(ONE));
        let about = |line: &&Value| line["session_id"] == id.as_str() && line["kind"] == "message";
        assert_eq!(recorded.iter().filter(about).count(), 2, "{recorded:#?}");
    };
    check();
    coordinator.kill();
    check();
}

// U-10
#[test]
fn u_10_the_last_lines_are_counted_as_they_are_shown() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    a_turn(&home, ONE);
    a_turn(&home, TWO);
    let last = lines(&home, &[ONE, "-n", "2"]);
    assert!(last.len() == 2 && last[0].contains("3 tools") && last[1].contains("turn ended"));
    let all = lines(&home, &[]);
    assert_eq!(lines(&home, &["-n", "3"]), all[all.len() - 3..], "{all:#?}");
    assert_eq!(lines(&home, &["-n", "100"]), all);
    let json = coord(&home, &["events", "--json", "-n", "2"]).expect_success().stdout;
    let all: Vec<u64> =
        events(&home, None).iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    let seqs = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let seqs: Vec<u64> = seqs.map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, all[all.len() - 2..]);
}

// U-10: a headless run and its session are one entry.
#[test]
fn u_10_the_id_of_a_run_stands_for_its_session() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    happen(&home, ONE, 1, &[("UserPromptSubmit", "")]);
    let line = json!({"type": "system", "subtype": "init", "session_id": ONE}).to_string();
    let script = format!("echo '{line}'");
    coord(&home, &["run", "--stream", "--", "/bin/sh", "-c", &script]).expect_success();
    let runs = coord(&home, &["inspect", "--all", "--json"]).expect_success().stdout;
    let runs: Value = serde_json::from_str(&runs).unwrap();
    let run = runs["runs"][0]["run_id"].as_str().unwrap();
    assert_eq!(n_of(&lines(&home, &[run]), "aaaa1111  prompt"), 1);
}

/// Bytes that a process has read so far.
fn bytes_read(running: &Running) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/io", running.pid())).unwrap();
    let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

// U-10: what is followed costs as much as what is new, however long the journal is.
#[test]
fn u_10_following_reads_what_is_new() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let long = "x".repeat(1_000);
    for n in 1..=30 {
        let many = (0..50).map(|one| {
            with(event(&format!("session-{one}"), "Stop", n), json!({"transcript_path": long}))
        });
        post(&home, &json!(many.collect::<Vec<Value>>()));
    }
    let journal = home.paths().journal();
    let files = std::fs::read_dir(&journal).unwrap().map(|file| file.unwrap());
    let size: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(2_000_000 < size, "{size}");
    let mut command = home.command(programs().join("coord"));
    command.args(["events", "--follow"]).env("COORD_HOME", home.root());
    let following = Running::start(command, &home.tmp(), "follow");
    let shows = |what: &str| {
        wait_until(&format!("{what} is shown"), || {
            let [text, _] = following.output();
            if text.contains(what) { Ok(text.lines().count()) } else { Err(text) }
        })
    };
    // It begins with the last lines, and not with the whole history.
    happen(&home, ONE, 1, &[("UserPromptSubmit", "")]);
    let n = shows("aaaa1111  prompt");
    assert!(n <= 11, "{n} lines");
    // By now it has found its place in the newest segment.
    happen(&home, ONE, 2, &[("Stop", "")]);
    shows("aaaa1111  turn ended");
    let before = bytes_read(&following);
    for n in 3..=22 {
        happen(&home, ONE, n, &[("UserPromptSubmit", "")]);
    }
    happen(&home, TWO, 1, &[("UserPromptSubmit", "")]);
    shows("bbbb2222  prompt");
    let read = bytes_read(&following) - before;
    assert!(read < 200_000, "{read} bytes for 21 events, of a journal of {size}");
}
