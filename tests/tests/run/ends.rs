//! A run that does not end by itself: which of its clocks ends it, what defers that, and what stands
//! in its file.

use crate::case::{A_WHILE, Case};
use rustix::process::Signal;

/// Of every output: a result came, and then it ended.
const RESULT: [&str; 2] = ["init", "result"];

fn steps<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&RESULT[..], more].concat()
}

// S3-01, S3-03, S3-06, S3-08, S3-09, S3-15, S3-16, S3-17, R-13
pub(crate) fn it_closes_its_output_and_lives_on() {
    let case = Case::new(&[
        ("post_result", "2s"),
        ("quiet_after", "1s"),
        ("tick", "600ms"),
        ("kill_grace", "60s"),
    ]);
    let running = case.start_agent(&[], &steps(&["child", "", "@child", "close", "hang"]));
    let child = case.process("child");
    let finished = running.finish();
    assert_eq!(finished.signal(), Some(Signal::TERM.as_raw()), "{finished:#?}");
    assert!(child.is_gone(), "an orphan");
    case.assert_ended("reader_done_but_alive_timeout", "done");
    assert!(case.took_ms() >= 2_000, "{:#?}", case.ended());
    case.assert_order(&[
        "subprocess.state.spawned",
        "watchdog.entry",
        "subprocess.state.idle_post_result",
        "subprocess.state.reader_eof",
        "watchdog.tick",
        "subprocess.state.subcountdown",
        "reader_done_but_alive",
        "end_decided",
        "subprocess.state.sigterm_sent",
        "sigterm_after_timeout",
        "subprocess.state.exited",
        "watchdog.exit",
    ]);
    assert_eq!(case.count("sigkill_after_grace"), 0);
}

// S3-07, S3-09
pub(crate) fn it_ignores_sigterm() {
    let case = Case::new(&[("post_result", "1s"), ("kill_grace", "300ms")]);
    let finished = case.finish(&[], &steps(&["trap", "TERM", "@signals", "close", "hang"]));
    assert_eq!(finished.signal(), Some(Signal::KILL.as_raw()), "{finished:#?}");
    assert_eq!(case.wait_file("signals"), "TERM\n");
    case.assert_ended("reader_done_but_alive_timeout", "done");
    case.assert_order(&[
        "sigterm_after_timeout",
        "subprocess.state.sigkill_sent",
        "sigkill_after_grace",
        "subprocess.state.exited",
    ]);
}

// S3-04, S3-08
pub(crate) fn it_ends_in_the_countdown() {
    let case = Case::new(&[]);
    let running = case.start_agent(&[], &steps(&["close", "wait", "@go", "exit", "3"]));
    case.wait_note("reader_done_but_alive");
    case.make_file("go");
    // Nothing else is due for ten minutes.
    assert_eq!(running.finish().code(), Some(3));
    case.assert_ended("subprocess_exited_during_subcountdown", "done");
    case.assert_not_forced();
}

// S3-05: it is waited for, and what was deferred begins anew behind its answer.
pub(crate) fn a_pending_request_defers() {
    let case = Case::new(&[("limbo", "1500ms")]);
    let more = ["control", "r1", "wait", "@go", "control-done", "r1", "write", "@answered", "hang"];
    let running = case.start_agent(&[], &steps(&more));
    case.wait_note("subcountdown_deferred");
    assert!(case.because("subcountdown_deferred").contains("pending_request"));
    assert!(!running.ends_within(A_WHILE));
    case.assert_not_forced();
    case.make_file("go");
    case.wait_file("answered");
    running.finish();
    case.assert_ended("post_result_limbo_timeout", "done");
    let (made, ended) = (case.made_ms("go"), case.noted_ms("end_decided"));
    assert!(made + 1_500 <= ended, "it begins anew: {:#?}", case.lines());
}

// S3-02, S3-05, S2-20: nothing defers it for longer than it may take.
pub(crate) fn a_request_that_stays_open() {
    let case = Case::new(&[("post_result", "1s")]);
    let steps = ["init", "control", "r1", "close", "hang"];
    let running = case.start_agent(&["--timeout", "4s"], &steps);
    case.wait_note("subcountdown_deferred");
    let shown = case.run_shown();
    assert_eq!(shown["hold"]["reason"], "pending_request", "{shown:#}");
    for time in ["since", "until"] {
        assert!(shown["hold"][time].is_string(), "{shown:#}");
    }
    running.finish();
    case.assert_ended("invocation_timeout", "no_result");
    assert!(case.took_ms() >= 4_000, "{:#?}", case.ended());
}

// S3-10, S3-13, S3-20: its output never ended, so that nothing of the other tier has run.
pub(crate) fn a_limbo_behind_its_result() {
    let case = Case::new(&[("limbo", "1s")]);
    let finished = case.finish(&[], &steps(&["hang"]));
    assert_eq!(finished.signal(), Some(Signal::TERM.as_raw()), "{finished:#?}");
    case.assert_ended("post_result_limbo_timeout", "done");
    assert_eq!(case.count("post_result_limbo_detected"), 1);
    assert_eq!(case.count("reader_done_but_alive"), 0);
    case.assert_order(&["subprocess.state.limbo", "post_result_limbo_detected", "end_decided"]);
}

// S3-11
pub(crate) fn nothing_is_cut_below_the_limbo() {
    let case = Case::new(&[("limbo", "60s"), ("tick", "300ms")]);
    let running = case.start_agent(&[], &steps(&["wait", "@go", "exit", "0"]));
    case.wait_count("watchdog.tick", 5);
    case.make_file("go");
    running.finish().expect_success();
    case.assert_ended("exited_after_result", "done");
    case.assert_not_forced();
    assert_eq!(case.count("post_result_limbo_detected"), 0);
}

// S3-12, S3-02: as long as it would sleep, and no longer than the cap.
pub(crate) fn a_scheduled_wakeup() {
    let case = Case::new(&[("limbo", "1s"), ("wakeup_after", "2s")]);
    let running = case.start_agent(&[], &["init", "wakeup", "3600", "result", "hang"]);
    case.wait_note("subcountdown_deferred");
    assert_eq!(case.run_shown()["hold"]["reason"], "scheduled_wakeup");
    running.finish();
    case.assert_ended("post_result_limbo_timeout", "done");
    assert!(case.took_ms() >= 3_000, "{:#?}", case.ended());
}

// S3-14
pub(crate) fn it_is_warned_about() {
    let clocks = [("post_result", "12s"), ("limbo_warning", "1500ms")];
    let case = Case::new(&clocks);
    case.finish(&[], &steps(&["close", "hang"]));
    case.assert_order(&[
        "reader_done_but_alive",
        "subprocess.state.limbo",
        "runner.limbo_detected",
        "end_decided",
    ]);
    assert!(case.is_warning("runner.limbo_detected"));
    // With work that is evident it is told, and no warning.
    let case = Case::new(&clocks);
    let running = case.start_agent(&[], &["init", "tasks", "1", "result", "close", "hang"]);
    case.wait_note("runner.limbo_detected");
    assert!(!case.is_warning("runner.limbo_detected"));
    drop(running);
}

// S3-22
pub(crate) fn it_gives_no_result() {
    let case = Case::new(&[("first_result", "1s")]);
    case.finish(&[], &["init", "hang"]);
    case.assert_ended("first_result_timeout", "no_result");
}

// S3-22: a tool that runs explains its silence.
pub(crate) fn a_tool_runs_for_long() {
    let case = Case::new(&[("first_result", "1s")]);
    let steps = ["init", "tool", "t1", "wait", "@go", "tool-done", "t1", "result", "exit", "0"];
    let running = case.start_agent(&[], &steps);
    case.wait_note("subcountdown_deferred");
    assert_eq!(case.run_shown()["hold"]["reason"], "tool_running");
    assert_eq!(case.run_shown()["state"], "tool_active");
    assert!(!running.ends_within(A_WHILE));
    case.make_file("go");
    running.finish().expect_success();
    case.assert_ended("exited_after_result", "done");
    case.assert_not_forced();
}

// S2-20: whatever it is at.
pub(crate) fn it_takes_too_long() {
    let case = Case::new(&[("kill_grace", "1s")]);
    let steps = ["init", "tool", "t1", "child", "burn", "@child", "burn"];
    let running = case.start_agent(&["--timeout", "2s"], &steps);
    let child = case.process("child");
    running.finish();
    case.assert_ended("invocation_timeout", "no_result");
    assert!(child.is_gone());
}

// S3-21: work that goes on is waited for, up to its cap.
pub(crate) fn background_work_that_is_busy() {
    let case = Case::new(&[
        ("limbo", "1s"),
        ("quiet_after", "1s"),
        ("unknown_after", "1s"),
        ("busy_after", "5s"),
        ("tick", "600ms"),
    ]);
    let steps = ["init", "tasks", "1", "child", "burn", "@child", "result", "hang"];
    let running = case.start_agent(&[], &steps);
    let child = case.process("child");
    case.wait_hold("background_work_busy");
    running.finish();
    case.assert_ended("post_result_limbo_timeout", "done");
    assert!(case.took_ms() >= 6_000, "{:#?}", case.ended());
    assert!(child.is_gone());
}

// S3-21: work that does nothing is waited for no more.
pub(crate) fn background_work_that_is_quiet() {
    let case = Case::new(&[("limbo", "1s"), ("quiet_after", "2s"), ("tick", "600ms")]);
    let steps = ["init", "tasks", "1", "child", "", "@child", "result", "hang"];
    let running = case.start_agent(&[], &steps);
    let child = case.process("child");
    case.wait_hold("background_work_quiet");
    running.finish();
    case.assert_ended("post_result_limbo_timeout", "done");
    assert!(case.because("end_decided").contains("quiet"));
    assert!(case.took_ms() >= 3_000, "{:#?}", case.ended());
    assert!(child.is_gone());
}

// S3-21: what outlives its first result and ends by itself is never touched.
pub(crate) fn background_work_that_ends() {
    let case = Case::new(&[("limbo", "1s"), ("tick", "600ms"), ("kill_grace", "300ms")]);
    let begins = ["init", "tasks", "1", "child", "burn", "@child", "result", "wait", "@go"];
    let ends = ["tasks", "0", "init", "result", "exit", "0"];
    let running = case.start_agent(&[], &[&begins[..], &ends].concat());
    case.wait_hold("background_work_busy");
    case.make_file("go");
    running.finish().expect_success();
    case.assert_ended("exited_after_result", "done");
    case.assert_not_forced();
    assert_eq!(case.run_shown()["results"], 2);
}
