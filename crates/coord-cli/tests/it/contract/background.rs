//! `coord up`, `coord down`, and who may start a coordinator (R-15, R-16, H-15, H-37, H-41).

use super::harness::{Harness, Tmux, programs_of};
use super::wire::{client_event, here, post};
use coord_model::SessionState;
use coord_tests::coord::{coord, health, install, programs, session, session_when};
use coord_tests::home::Home;
use coord_tests::process::{Finished, session_of};
use coord_tests::wait::{PATIENCE, readable, wait_until};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::Stdio;

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// The coordinator's pid.
#[track_caller]
fn running(home: &Home) -> u32 {
    health(home).expect("a coordinator answers").pid
}

#[track_caller]
fn failed(finished: &Finished) -> String {
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    finished.stderr.clone()
}

/// The environment of a process: names and values.
fn environment(pid: u32) -> Vec<(String, String)> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let text = String::from_utf8(entry.to_vec()).unwrap();
            let (name, value) = text.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

/// All that comes out of a pipe, up to its end.
#[track_caller]
fn to_the_end(mut pipe: impl Read + AsFd) -> String {
    let (mut text, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        assert!(readable(&pipe, PATIENCE), "somebody holds the pipe: {text:?}");
        match pipe.read(&mut buffer).unwrap() {
            0 => return String::from_utf8(text).unwrap(),
            n => text.extend_from_slice(&buffer[..n]),
        }
    }
}

// R-16, H-41: of whoever starts it the coordinator keeps nothing.
#[test]
fn r16_a_coordinator_started_in_the_background_is_detached() {
    let home = Home::new();
    let mut up = home.command(programs().join("coord"));
    up.arg("up").env("COORD_HOME", home.root());
    for name in [
        "CLAUDECODE",
        "CLAUDE_PID",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "ANTHROPIC_API_KEY",
        "SECRET",
        "LD_LIBRARY_PATH",
    ] {
        up.env(name, "no-business-of-coords");
    }
    up.env("LC_TIME", "C").env("TZ", "UTC");
    up.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = up.spawn().unwrap();
    // Both pipes come to their end, which is there only when nobody holds them any more.
    let stdout = to_the_end(child.stdout.take().unwrap());
    assert_eq!(to_the_end(child.stderr.take().unwrap()), "");
    assert!(child.wait().unwrap().success());
    let pid = running(&home);
    assert_eq!(stdout, format!("coordinator started (pid {pid})\n"));
    assert_eq!(session_of(pid), pid, "a session of its own");
    let proc = std::path::PathBuf::from(format!("/proc/{pid}"));
    assert_eq!(fs::read_link(proc.join("cwd")).unwrap(), std::path::Path::new("/"));
    for fd in 0..=2 {
        let target = fs::read_link(proc.join(format!("fd/{fd}"))).unwrap();
        assert_eq!(target, std::path::Path::new("/dev/null"), "stream {fd}");
    }
    let names: BTreeSet<String> = environment(pid).into_iter().map(|(name, _)| name).collect();
    let allowed = ["HOME", "LANG", "LC_TIME", "PATH", "TZ"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(allowed));
    coord(&home, &["down"]).expect_success();
}

#[test]
fn r16_up_twice_is_one_coordinator() {
    let home = Home::new();
    coord(&home, &["up"]).expect_success();
    let pid = running(&home);
    let again = coord(&home, &["up"]).expect_success();
    assert_eq!(again.stdout, format!("coordinator already running (pid {pid})\n"));
    let again = coord(&home, &["up", "--from-hook"]);
    assert_eq!(running(&home), pid, "{again:?}");
    coord(&home, &["down"]).expect_success();
    assert!(health(&home).is_none());
}

// Many sessions start at once: one coordinator comes of it, and every `up` that failed says why.
#[test]
fn r16_up_at_the_same_time_is_one_coordinator() {
    let home = Home::new();
    install(&home);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| coord(&home, &["up", "--from-hook"]));
        }
    });
    let pid = wait_until("a coordinator answers", || health(&home).ok_or("no answer")).pid;
    wait_until("no other is left", || match programs_of(&home) {
        all if all == [pid] => Ok(()),
        other => Err(other),
    });
    coord(&home, &["down"]).expect_success();
}

#[test]
fn r16_down_holds_until_up() {
    let home = Home::new();
    install(&home);
    let tmux = Tmux::start(&home);
    coord(&home, &["up"]).expect_success();
    let pid = running(&home);
    let down = coord(&home, &["down"]).expect_success();
    assert_eq!(
        down.stdout,
        format!("coordinator stopped (pid {pid}); it stays down until `coord up`\n")
    );
    let down = coord(&home, &["down"]).expect_success();
    assert_eq!(down.stdout, "no coordinator was running; it stays down until `coord up`\n");
    assert!(
        failed(&coord(&home, &["up", "--from-hook"])).contains("only `coord up` starts it again")
    );
    // The hook of an interactive session respects it.
    let mut harness = Harness::in_tmux(&tmux, "session-one");
    harness.begin_turn();
    assert_eq!(programs_of(&home), Vec::<u32>::new());
    let status = coord(&home, &["status"]);
    assert_eq!(status.code(), Some(4));
    assert!(status.stderr.contains("`coord down` stopped"), "{status:?}");
    coord(&home, &["up"]).expect_success();
    session_when(&home, "session-one", "running", |one| one.state == SessionState::Running);
    coord(&home, &["down"]).expect_success();
}

// R-16, H-41: a session at a terminal that finds nobody starts one; a headless run never does.
#[test]
fn r16_only_the_start_of_an_interactive_session_starts_a_coordinator() {
    let home = Home::new();
    install(&home);
    let mut headless = Harness::headless(&home, "session-headless");
    headless.begin_turn();
    assert_eq!(programs_of(&home), Vec::<u32>::new(), "a headless run starts none");
    let tmux = Tmux::start(&home);
    let mut interactive = Harness::in_tmux(&tmux, "session-tty");
    assert_eq!(interactive.report("UserPromptSubmit", &json!({})), 0);
    assert_eq!(programs_of(&home), Vec::<u32>::new(), "nor does another event");
    assert_eq!(interactive.report("SessionStart", &json!({"source": "startup"})), 0);
    let pid = wait_until("a coordinator answers", || health(&home).ok_or("no answer")).pid;
    for id in ["session-headless", "session-tty"] {
        session_when(&home, id, "taken in from the spool", |one| one.last_event.is_some());
    }
    let kept = environment(pid).into_iter().map(|(name, _)| name);
    let foreign: Vec<String> =
        kept.filter(|name| name.starts_with("CLAUDE") || name.starts_with("TMUX")).collect();
    // TMUX_TMPDIR says where the user's tmux servers are.
    assert_eq!(foreign, ["TMUX_TMPDIR"]);
    assert_eq!(session_of(pid), pid);
    // It survives the session, its pane and the whole server.
    tmux.kill();
    assert_eq!(running(&home), pid);
    coord(&home, &["down"]).expect_success();
}

// H-15
#[test]
fn h15_a_hook_starts_a_coordinator_only_where_coord_was_installed() {
    let home = Home::new();
    install(&home);
    let file = home.paths().install_record();
    let record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for (field, value, named) in [
        ("machine", json!("another-machine"), "machine"),
        ("uid", json!(here().uid + 1), "user"),
        ("pid_ns", json!(here().pid_ns + 1), "pid namespace"),
    ] {
        let mut other = record.clone();
        other[field] = value;
        fs::write(&file, other.to_string()).unwrap();
        let line = failed(&coord(&home, &["up", "--from-hook"]));
        assert!(
            line.contains(&format!("another {named}")) && line.contains("coord install"),
            "{line}"
        );
        let mut harness = Harness::at_terminal(&home, "session-one");
        harness.begin_turn();
        assert_eq!(programs_of(&home), Vec::<u32>::new(), "{field}");
    }
    fs::remove_file(&file).unwrap();
    failed(&coord(&home, &["up", "--from-hook"]));
    // By hand it is the user's own decision.
    coord(&home, &["up"]).expect_success();
    coord(&home, &["down"]).expect_success();
}

// H-37: a coordinator that hangs costs the hooks little, is worked around, and can be ended.
#[test]
fn h37_a_hung_coordinator_is_worked_around_and_ended() {
    let home = Home::new();
    install(&home);
    coord(&home, &["up"]).expect_success();
    post(&home, &client_event("session-one", "UserPromptSubmit", 1));
    let pid = running(&home);
    let pidfd = pidfd_open(pid_of(pid), PidfdFlags::empty()).unwrap();
    kill_process(pid_of(pid), Signal::STOP).unwrap();
    let mut harness = Harness::headless(&home, "session-two");
    harness.begin_turn();
    assert!(home.paths().miss().exists(), "the miss is remembered");
    let inspect = coord(&home, &["inspect"]).expect_success();
    for text in ["harness-", "running", "does not answer"] {
        assert!(inspect.stdout.contains(text), "{text}: {inspect:?}");
    }
    assert!(!inspect.stdout.contains("not running"), "it is: {inspect:?}");
    assert_eq!(
        session(&home, "session-two").unwrap().state,
        SessionState::Running,
        "from the spool"
    );
    let status = coord(&home, &["status"]);
    assert_eq!(status.code(), Some(4));
    assert!(
        status.stderr.contains("does not answer") && status.stderr.contains("coord down"),
        "{status:?}"
    );
    assert!(failed(&coord(&home, &["up"])).contains("coord down"));
    let down = coord(&home, &["down"]).expect_success();
    assert!(down.stdout.contains(&format!("coordinator stopped (pid {pid})")), "{down:?}");
    assert!(readable(&pidfd, std::time::Duration::ZERO), "it has ended");
    // Nothing that was accepted is lost.
    coord(&home, &["up"]).expect_success();
    session_when(&home, "session-two", "taken in", |one| one.state == SessionState::Running);
    assert!(session(&home, "session-one").is_some());
    coord(&home, &["down"]).expect_success();
}

// A coordinator that cannot start is reported in one line, with its own reason.
#[test]
fn a_start_that_fails_says_why() {
    let home = Home::new();
    home.write_config("[tracking]\nsetle = '1s'\n");
    let line = failed(&coord(&home, &["up"]));
    assert!(line.contains("config.toml") && line.contains("tracking.settle"), "{line}");
    assert_eq!(programs_of(&home), Vec::<u32>::new());
}
