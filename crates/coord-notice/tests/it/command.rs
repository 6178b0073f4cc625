//! The channel `command`.

use crate::sender::{LINE, directory, notice, request, send, send_with, tell, text};
use coord_tests::wait::wait_until;
use coord_wire::notice::{Channel, Notice, SendRequest};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A script of the shell, which can be run.
#[track_caller]
pub(crate) fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let file = dir.join(name);
    // A file that was open for writing in this process cannot be run while another test forks.
    let new = format!("cat > '{0}' && chmod 700 '{0}'", file.display());
    let mut child = std::process::Command::new("sh");
    let mut child = child.args(["-c", &new]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let script = format!("#!/bin/sh\n{text}\n");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(fs::metadata(&file).unwrap().permissions().mode() & 0o100 != 0);
    file
}

fn channel(program: &Path) -> Channel {
    Channel::Command { program: text(program) }
}

// N-02
#[test]
fn a_program_gets_the_notice_as_one_line_and_its_input_ends() {
    let dir = directory();
    let out = dir.path().join("out");
    let program = script(dir.path(), "on notice", &format!("cat > '{}'", out.display()));
    let answer = send(&request(channel(&program), tell(notice(), LINE, None))).sent();
    assert_eq!((answer.saying.as_str(), answer.tries), ("taken by on notice", 1));
    let line = fs::read_to_string(out).unwrap();
    assert_eq!(line.matches('\n').count(), 1);
    assert_eq!(serde_json::from_str::<Notice>(&line).unwrap(), notice());
    assert!(line.contains("\"where\":\"work:api.1\"") && line.contains("\"kind\":\"permission\""));
}

// H-26
#[test]
fn a_program_gets_no_character_that_steers_a_terminal() {
    let dir = directory();
    let out = dir.path().join("out");
    let program = script(dir.path(), "on", &format!("cat > '{}'", out.display()));
    let hostile = "a\u{1b}[31m\u{9b}2J\u{202e}b\n\u{e0041}";
    let notice = Notice {
        text: hostile.to_owned(),
        directory: Some(hostile.to_owned()),
        lines: vec![hostile.to_owned(); 30],
        ..notice()
    };
    send(&request(channel(&program), tell(notice, LINE, None))).sent();
    let told: Notice = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let shown = "a\u{fffd}[31m2Jb\u{fffd}";
    assert_eq!((told.text.as_str(), told.directory.as_deref()), (shown, Some(shown)));
    assert_eq!((told.lines.len(), told.more), (20, 10));
    assert!(told.lines.iter().all(|line| line == shown));
}

// H-24
#[test]
fn a_program_has_the_variables_of_a_list() {
    let dir = directory();
    let out = dir.path().join("out");
    let program =
        script(dir.path(), "on", &format!("cat /proc/self/environ > '{}'", out.display()));
    let variables = [
        ("HOME", "/home/x"),
        ("DISPLAY", ":9"),
        ("SSH_AUTH_SOCK", "/canary"),
        ("LD_PRELOAD", ""),
        ("PATH", "/canary"),
        ("TMUX", "/canary"),
    ];
    send_with(&request(channel(&program), tell(notice(), LINE, None)), &variables).sent();
    let environment = fs::read_to_string(out).unwrap();
    let names: Vec<&str> =
        environment.split('\0').filter_map(|one| one.split('=').next()).collect();
    for name in ["HOME", "DISPLAY", "LANG", "PATH"] {
        assert!(names.contains(&name), "{environment:?}");
    }
    for unwanted in ["canary", "LD_PRELOAD", "SSH_AUTH_SOCK"] {
        assert!(!environment.contains(unwanted), "{environment:?}");
    }
}

#[test]
fn a_program_that_fails_is_quoted_in_one_safe_line() {
    let dir = directory();
    let fails = "printf 'no \\033[31mroom %0200d\\nsecond' 7 >&2; exit 3";
    let program = script(dir.path(), "on", fails);
    let answer = send(&request(channel(&program), tell(notice(), LINE, None))).failed();
    let quoted = answer.saying.strip_prefix("on: exit status: 3: ").unwrap();
    assert!(quoted.starts_with("no \u{fffd}[31mroom 000") && quoted.ends_with('…'), "{quoted}");
    assert_eq!(quoted.chars().count(), 120);
    assert!(!answer.is_refused);
    // As much as it likes is dropped, and holds it up nowhere.
    let much = "head -c 9000000 /dev/zero; head -c 9000000 /dev/zero >&2";
    let loud = script(dir.path(), "loud", much);
    send(&request(channel(&loud), tell(notice(), LINE, None))).sent();
    let gone = dir.path().join("gone");
    let answer = send(&request(channel(&gone), tell(notice(), LINE, None))).failed();
    assert!(answer.is_refused && answer.saying.ends_with("gone: entity not found"), "{answer:?}");
}

#[test]
fn a_program_that_hangs_ends_with_what_it_started() {
    let dir = directory();
    let pipe = dir.path().join("pipe");
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    let reader = open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    // Whoever is left of them holds the pipe open.
    let hang = format!("exec 3> '{}'; echo begun >&3; sleep 1000 & wait", pipe.display());
    let program = script(dir.path(), "on", &hang);
    let act = tell(notice(), LINE, None);
    let request = SendRequest { channel: channel(&program), act, within_ms: 3000 };
    let answer = send(&request).failed();
    assert!(answer.saying.contains("not done within 3 s"), "{answer:?}");
    let mut said = Vec::new();
    let mut reader = fs::File::from(reader);
    wait_until("all of them are gone", || reader.read_to_end(&mut said));
    assert_eq!(said, b"begun\n");
}
