//! What a run came to, and what its caller is told: its own code or signal, and nothing else.

use crate::case::{A_WHILE, AGENT, Case};
use rustix::process::Signal;
use std::process::Stdio;

const OTHER: [&str; 2] = ["--provider", "other"];
const CLAUDE: [&str; 2] = ["--provider", "claude"];

/// Runs these steps, and what came of it.
#[track_caller]
fn judged(options: &[&str], steps: &[&str], code: i32, outcome: &str) -> Case {
    let case = Case::new(&[]);
    let finished = case.finish(options, steps);
    assert_eq!(finished.code(), Some(code), "{finished:#?}");
    assert_eq!(case.ended()["outcome"], outcome, "{:#?}", case.lines());
    case.assert_not_forced();
    case
}

// S2-01, S3-08
pub(crate) fn its_exit_code_is_passed_on() {
    judged(&OTHER, &["say", "x", "exit", "0"], 0, "done").assert_ended("exited", "done");
    judged(&OTHER, &["say", "x", "exit", "3"], 3, "crash").assert_ended("exited", "crash");
    judged(&OTHER, &["say", "x", "exit", "143"], 143, "crash");
    judged(&CLAUDE, &["init", "exit", "1"], 1, "crash");
}

// S2-01, S3-08, S3-24
pub(crate) fn it_dies_by_a_signal() {
    for (name, signal, outcome) in [
        ("TERM", Signal::TERM, "crash"),
        ("KILL", Signal::KILL, "crash"),
        ("USR1", Signal::USR1, "crash"),
        ("INT", Signal::INT, "cancelled"),
    ] {
        let case = Case::new(&[]);
        let finished = case.finish(&OTHER, &["say", "x", "die", name]);
        assert_eq!(finished.signal(), Some(signal.as_raw()), "{finished:#?}");
        case.assert_ended("killed_by_signal", outcome);
    }
}

// S2-02
pub(crate) fn it_prints_nothing() {
    judged(&OTHER, &["exit", "0"], 0, "no_result");
    judged(&CLAUDE, &["init", "exit", "0"], 0, "no_result");
    judged(&CLAUDE, &["init", "part", r#"{"type":"result","#, "exit", "0"], 0, "no_result");
}

// S2-13, S2-14, S2-18, R-14: from fields, whatever the code and standard error say.
pub(crate) fn it_is_judged_from_fields() {
    judged(&OTHER, &["stderr", "Error: read ECONNRESET", "say", "x", "exit", "0"], 0, "done");
    judged(&CLAUDE, &["init", "result", "stderr", "ETIMEDOUT", "exit", "1"], 1, "done");
    judged(&CLAUDE, &["init", "result-error", "500", "exit", "1"], 1, "crash");
    judged(&CLAUDE, &["init", "result-error", "429", "exit", "1"], 1, "exhausted");
    judged(&CLAUDE, &["init", "result-error", "401", "exit", "1"], 1, "authentication");
    judged(&CLAUDE, &["init", "text", "429 rate limit, 401", "result", "exit", "0"], 0, "done");
    let two = judged(&CLAUDE, &["init", "result", "init", "result", "exit", "0"], 0, "done");
    assert_eq!(two.run_shown()["results"], 2);
}

// S2-01
pub(crate) fn wrong_arguments() {
    judged(&OTHER, &["exit", "64"], 64, "usage");
    judged(&CLAUDE, &["stderr", "error: unknown option '--no-such-flag'", "exit", "1"], 1, "usage");
}

// S2-03, S2-04, S2-05
pub(crate) fn a_named_error_and_a_hang() {
    let case = Case::new(&[]);
    let options = [&OTHER[..], &["--confirm", "1s"]].concat();
    let running = case.start_agent(&options, &["stderr", "Error: read econnreset", "hang"]);
    case.wait_note("error_case_opened");
    let finished = running.finish();
    assert_eq!(finished.signal(), Some(Signal::TERM.as_raw()), "{finished:#?}");
    assert_eq!(finished.stderr.lines().next(), Some("Error: read econnreset"));
    case.assert_ended("error_hang_timeout", "no_result");
}

// S2-05, S3-21: where no stream tells of tools, what works is waited for, and what is idle is not.
pub(crate) fn a_named_error_beside_a_child() {
    let clocks = [("tick", "600ms"), ("kill_grace", "300ms"), ("quiet_after", "600ms")];
    let case = Case::new(&clocks);
    let options = [&OTHER[..], &["--confirm", "1s"]].concat();
    case.finish(&options, &["child", "", "@child", "stderr", "ETIMEDOUT", "hang"]);
    case.assert_ended("error_hang_timeout", "no_result");
    let case = Case::new(&clocks);
    let steps = ["child", "burn", "@child", "stderr", "ETIMEDOUT", "wait", "@go", "say", "x"];
    let running = case.start_agent(&options, &steps);
    case.wait_hold("tool_running");
    assert!(!running.ends_within(A_WHILE));
    case.make_file("go");
    running.finish().expect_success();
    case.assert_not_forced();
}

// S2-05: at once, where its user wants it so.
pub(crate) fn a_named_error_that_needs_no_confirming() {
    let case = Case::new(&[]);
    let options = [&OTHER[..], &["--confirm", "0s"]].concat();
    case.finish(&options, &["stderr", "No messages returned", "hang"]);
    case.assert_ended("error_hang_timeout", "no_result");
}

// S2-05, H-09: behind a result it takes less than before one.
pub(crate) fn a_named_error_behind_a_result() {
    let case = Case::new(&[("confirm", "1s")]);
    case.finish(&CLAUDE, &["init", "result", "stderr", "connect ETIMEDOUT", "hang"]);
    case.assert_ended("error_hang_timeout", "done");
    let case = Case::new(&[("confirm", "100ms"), ("tick", "300ms")]);
    let steps = ["init", "stderr", "connect ETIMEDOUT", "wait", "@go", "result", "exit", "0"];
    let running = case.start_agent(&CLAUDE, &steps);
    case.wait_note("error_case_opened");
    case.wait_count("watchdog.tick", 4);
    case.make_file("go");
    running.finish().expect_success();
    case.assert_not_forced();
}

// H-09
pub(crate) fn no_confirming_is_refused_for_the_client() {
    let case = Case::new(&[]);
    let options = [&CLAUDE[..], &["--confirm", "0s"]].concat();
    let finished = case.finish(&options, &["write", "@begun"]);
    assert_eq!(finished.code(), Some(64), "{finished:#?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:#?}");
    assert!(finished.stderr.contains("confirm"), "{finished:#?}");
    assert!(finished.stdout.is_empty(), "{finished:#?}");
    assert!(!case.file("begun").exists());
}

// R-13: an error of the supervisor's own is not taken for one of the command.
pub(crate) fn a_wrong_configuration_starts_nothing() {
    let case = Case::new(&[]);
    case.home.write_config("run = 3\n");
    let finished = case.finish(&[], &["write", "@begun"]);
    assert_eq!(finished.code(), Some(64), "{finished:#?}");
    assert!(finished.stderr.contains("write it as [run]"), "{finished:#?}");
    assert!(!case.file("begun").exists());
}

// S2-04
pub(crate) fn it_floods_its_standard_error() {
    let case = Case::new(&[]);
    let steps = ["flood-stderr", "100000000", "say", "done", "exit", "0"];
    let mut command = case.agent(&OTHER, &steps);
    let status = command.stderr(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
    assert!(status.success(), "{status:?}");
    assert_eq!(case.ended()["stderr_bytes"], 100_000_000);
    assert_eq!(case.ended()["outcome"], "done");
    // What is named behind much is seen while it runs.
    let case = Case::new(&[]);
    let steps = ["flood-stderr", "70000", "stderr", "ETIMEDOUT", "say", "x", "wait", "@go"];
    let running = case.start_agent(&OTHER, &steps);
    case.wait_note("error_case_opened");
    case.make_file("go");
    running.finish().expect_success();
    case.assert_ended("exited", "done");
}

// S2-01
pub(crate) fn it_cannot_be_started() {
    let case = Case::new(&[]);
    std::fs::write(case.file("no-program"), "no program").expect("write a file");
    let no_program = case.file("no-program");
    for (program, code) in [("no-such-program", 127), (&*no_program.to_string_lossy(), 126)] {
        let case = Case::new(&[]);
        let finished = case.start(case.run(&[], &[program])).finish();
        assert_eq!(finished.code(), Some(code), "{finished:#?}");
        assert!(!finished.stderr.trim().is_empty(), "it says why");
        case.assert_ended("not_started", "usage");
    }
    let usages: [(&[&str], &[&str]); 3] =
        [(&[], &[]), (&["--no-such-option"], &[AGENT]), (&["--timeout", "soon"], &[AGENT])];
    for (options, command) in usages {
        let finished = case.start(case.run(options, command)).finish();
        assert_eq!(finished.code(), Some(64), "{options:?}: {finished:#?}");
    }
    assert!(case.files().is_empty(), "{:?}", case.files());
}
