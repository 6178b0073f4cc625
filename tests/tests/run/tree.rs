//! Whom a forced end reaches, and whom never (H-20).

use crate::case::{AGENT, Case, Other};
use coord_tests::coord::{health, programs};
use coord_tests::process::run;
use std::os::unix::fs::symlink;

/// Its output ends, and a second later it is ended.
const QUICK: [(&str, &str); 4] =
    [("post_result", "1s"), ("quiet_after", "1s"), ("tick", "600ms"), ("kill_grace", "1s")];

/// A forced end of an agent that has one such child.
fn with_child(kinds: &str, options: &[&str]) -> (Case, Other) {
    let case = Case::new(&QUICK);
    let steps = ["init", "result", "child", kinds, "@child", "close", "hang"];
    let running = case.start_agent(options, &steps);
    let child = case.process("child");
    running.finish();
    case.assert_ended("reader_done_but_alive_timeout", "done");
    (case, child)
}

// H-20, S3-06: its parents lead to the run.
pub(crate) fn a_child_with_a_group_of_its_own() {
    let (case, child) = with_child("group", &[]);
    assert!(child.is_gone());
    assert!(case.left().is_empty());
}

// H-20, S3-06
pub(crate) fn a_child_with_a_session_of_its_own() {
    let (case, child) = with_child("session", &[]);
    assert!(child.is_gone());
    assert!(case.left().is_empty());
}

// H-20, S3-06: its parent is gone, and it stayed in the run's group.
pub(crate) fn an_orphan_of_the_run_s_group() {
    let (case, child) = with_child("daemon", &[]);
    assert!(child.is_gone());
    assert!(case.left().is_empty());
}

// S3-07: one of them is stubborn.
pub(crate) fn a_child_that_ignores_sigterm() {
    let (case, child) = with_child("stubborn,group", &[]);
    assert!(child.is_gone());
    assert_eq!(case.wait_file("child.signals"), "TERM\n");
}

// H-20
pub(crate) fn a_daemon_is_left_and_listed() {
    let (case, daemon) = with_child("session,daemon", &[]);
    daemon.assert_lives();
    let left = case.left();
    assert!(left.len() == 1 && left[0].starts_with(&daemon.pid.to_string()), "{left:?}");
}

// H-20
pub(crate) fn a_daemon_is_ended_on_demand() {
    let (case, daemon) = with_child("session,daemon", &["--end-daemons"]);
    assert!(daemon.is_gone());
    assert!(case.left().is_empty());
}

// H-20: its output does not end as long as that one has it.
pub(crate) fn a_daemon_that_holds_the_output() {
    let case = Case::new(&[
        ("limbo", "1s"),
        ("quiet_after", "1s"),
        ("tick", "600ms"),
        ("kill_grace", "1s"),
    ]);
    let steps = ["init", "child", "session,daemon,output", "@child", "result", "hang"];
    let running = case.start_agent(&[], &steps);
    let daemon = case.process("child");
    running.finish();
    case.assert_ended("post_result_limbo_timeout", "done");
    assert!(daemon.is_gone());
    assert!(case.left().is_empty());
}

// S3-07, H-20: what a run leaves behind that ended by itself.
pub(crate) fn an_end_by_itself_leaves_nothing() {
    let case = Case::new(&[("kill_grace", "300ms")]);
    let steps =
        ["child", "", "@child", "child", "session,daemon", "@daemon", "say", "x", "exit", "4"];
    let running = case.start_agent(&[], &steps);
    let (child, daemon) = (case.process("child"), case.process("daemon"));
    assert_eq!(running.finish().code(), Some(4));
    assert!(child.is_gone());
    daemon.assert_lives();
    case.assert_ended("exited", "crash");
    case.assert_not_forced();
}

// H-20: in there its session and its group are 0. A container's first program is where that happens.
pub(crate) fn in_a_pid_namespace_of_its_own() {
    let case = Case::new(&QUICK);
    let steps = ["init", "result", "child", "group,daemon", "@child", "close", "hang"];
    let inside = case.agent(&[], &steps);
    let is_alive = case.file("is-alive");
    let mut command = case.home.command("unshare");
    let flags = if rustix::process::geteuid().is_root() { "-pf" } else { "-rpf" };
    command.args([flags, "--mount-proc", "--kill-child", "sh", "-c"]);
    command.arg("is_alive=$1 child=$2; shift 2; \"$@\"; kill -0 \"$(cat \"$child\")\"; echo $? >\"$is_alive\"");
    command.arg("sh").arg(&is_alive).arg(case.file("child"));
    command.arg(inside.get_program()).args(inside.get_args());
    command.env("COORD_HOME", case.home.root()).stdin(std::process::Stdio::null());
    case.start(command).finish();
    case.assert_ended("reader_done_but_alive_timeout", "done");
    assert!(case.left().is_empty(), "it stayed in the run's session");
    assert_eq!(case.wait_file("is-alive"), "1\n");
}

// H-20: another session's harness, and what runs below it.
pub(crate) fn a_harness_below_the_run_s_own() {
    let case = Case::new(&QUICK);
    let claude = case.file("claude");
    symlink(AGENT, &claude).expect("link the agent");
    let file = |name: &str| case.file(name).to_string_lossy().into_owned();
    let (nested, child) = (file("nested"), file("child"));
    let steps =
        ["init", "result", "child", "claude", &nested, "child", "", &child, "close", "hang"];
    let claude = claude.to_string_lossy().into_owned();
    let words = [&[claude.as_str(), "stream-json"][..], &steps].concat();
    let running = case.start(case.run(&[], &words));
    let (nested, child) = (case.process("nested"), case.process("child"));
    running.finish();
    case.assert_ended("reader_done_but_alive_timeout", "done");
    assert!(child.is_gone(), "that one is the run's own");
    nested.assert_lives();
    let left = case.left();
    assert!(left.iter().any(|left| left.starts_with(&nested.pid.to_string())), "{left:?}");
}

/// A run whose program is a shell that starts something and then becomes the agent. Daemons go with
/// it, so that nothing but what it is keeps that alive.
fn behind(case: &Case, shell: &str) {
    let shell = format!("set -e\n{shell}\nexec \"$@\"");
    let words = ["sh", "-c", &shell, "sh", AGENT, "stream-json", "init", "result", "close", "hang"];
    let finished = case.start(case.run(&["--end-daemons"], &words)).finish();
    assert!(finished.signal().is_some(), "{finished:#?}");
    case.assert_ended("reader_done_but_alive_timeout", "done");
}

// H-20
pub(crate) fn a_tmux_server_lives_on() {
    let case = Case::new(&QUICK);
    let socket = case.file("tmux");
    let tmux = format!("tmux -f /dev/null -S '{}'", socket.display());
    let pids = case.file("pids");
    behind(
        &case,
        &format!(
            "{tmux} new-session -d 'exec tail -f /dev/null'\n\
             {tmux} display-message -p '#{{pid}} #{{pane_pid}}' > '{}'",
            pids.display()
        ),
    );
    for pid in case.wait_file("pids").split_whitespace() {
        Other::of(pid.parse().expect("tmux prints pids")).assert_lives();
    }
    let mut list = case.home.command("tmux");
    list.args(["-S", &socket.to_string_lossy(), "list-sessions"]);
    run(list, &case.home.tmp(), "tmux").expect_success();
}

// H-20
pub(crate) fn a_coordinator_lives_on() {
    let case = Case::new(&QUICK);
    behind(&case, &format!("'{}' up >&2", programs().join("coord").display()));
    assert!(health(&case.home).is_some(), "the coordinator is gone");
}
