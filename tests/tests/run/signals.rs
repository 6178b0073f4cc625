//! What is sent to the supervisor is meant for the run; a terminal has both as one job.

use crate::case::{AGENT, Case};
use coord_tests::coord::programs;
use coord_tests::fake_api::FakeApi;
use coord_tests::terminal::{Pane, Terminal};
use rustix::process::Signal;

// S3-24, S3-08: once, and the run may take its time.
pub(crate) fn sigterm_is_passed_on() {
    let case = Case::new(&[]);
    let steps = ["init", "trap", "TERM", "@got", "write", "@up", "wait", "@go", "exit", "143"];
    let running = case.start_agent(&["--provider", "claude"], &steps);
    case.wait_file("up");
    running.signal(Signal::TERM);
    case.wait_note("signal_forwarded");
    case.wait_file("got");
    case.make_file("go");
    assert_eq!(running.finish().code(), Some(143));
    assert_eq!(case.wait_file("got"), "TERM\n");
    case.assert_ended("forwarded_signal", "cancelled");
    case.assert_not_forced();
}

// S3-24, S3-08
pub(crate) fn sigint_and_sighup_are_passed_on() {
    for signal in [Signal::INT, Signal::HUP] {
        let case = Case::new(&[]);
        let running = case.start_agent(&[], &["init", "write", "@up", "hang"]);
        case.wait_file("up");
        running.signal(signal);
        assert_eq!(running.finish().signal(), Some(signal.as_raw()));
        case.assert_ended("forwarded_signal", "cancelled");
    }
}

/// A run that was cancelled and does its turn all the same did it.
pub(crate) fn a_signal_that_is_not_minded() {
    let case = Case::new(&[]);
    let steps =
        ["init", "trap", "INT", "@got", "write", "@up", "wait", "@got", "result", "exit", "0"];
    let running = case.start_agent(&[], &steps);
    case.wait_file("up");
    running.signal(Signal::INT);
    running.finish().expect_success();
    case.assert_ended("forwarded_signal", "done");
}

/// A pane whose shell runs `coord run -- fake-agent STEPS`.
fn in_a_pane(case: &Case, terminal: &Terminal, program: &[&str]) -> Pane {
    let pane = terminal.pane();
    let words: Vec<String> = program.iter().map(|word| format!(" '{word}'")).collect();
    let (root, coord) = (case.home.root(), programs().join("coord"));
    let (root, coord) = (root.display(), coord.display());
    pane.command(&format!("COORD_HOME={root} {coord} run --{}; echo rc=$?", words.concat()));
    pane
}

/// A terminal of the case's own.
fn terminal(case: &Case) -> (Terminal, FakeApi) {
    let api = FakeApi::start([]);
    (Terminal::start(&case.home, &api), api)
}

// S3-24: as without a supervisor.
pub(crate) fn ctrl_c_on_a_terminal() {
    let case = Case::new(&[]);
    let (terminal, _api) = terminal(&case);
    let (got, up) = (case.file("got"), case.file("up"));
    let [got, up] = [got, up].map(|file| file.to_string_lossy().into_owned());
    let steps = [AGENT, "trap", "INT", &got, "write", &up, "wait", &got, "exit", "9"];
    let pane = in_a_pane(&case, &terminal, &steps);
    case.wait_file("up");
    pane.keys(&["C-c"]);
    pane.wait_screen("rc=9");
    assert_eq!(case.wait_file("got"), "INT\n", "it came once");
    // What does not mind it ends, and the shell is as it was.
    let case = Case::new(&[]);
    let up = case.file("up").to_string_lossy().into_owned();
    let pane = in_a_pane(&case, &terminal, &[AGENT, "write", &up, "hang"]);
    case.wait_file("up");
    pane.keys(&["C-c"]);
    pane.wait_screen("dev$");
    pane.type_line("echo still-$((40 + 2))");
    pane.wait_screen("still-42");
    assert_eq!(case.ended()["outcome"], "cancelled");
}

// both stop, and both go on.
pub(crate) fn ctrl_z_and_fg() {
    let case = Case::new(&[]);
    let (terminal, _api) = terminal(&case);
    let [up, go, on] =
        ["up", "go", "on"].map(|name| case.file(name).to_string_lossy().into_owned());
    let steps = [AGENT, "write", &up, "wait", &go, "write", &on, "copy", "exit", "4"];
    let pane = in_a_pane(&case, &terminal, &steps);
    case.wait_file("up");
    pane.keys(&["C-z"]);
    pane.wait_screen("Stopped");
    case.make_file("go");
    pane.type_line("echo still-$((40 + 2))");
    pane.wait_screen("still-42");
    assert!(!case.file("on").exists(), "it is stopped");
    pane.type_line("fg; echo rc=$?");
    case.wait_file("on");
    // It has the terminal again: what is typed is read by it, and its end too.
    pane.type_line("a line");
    pane.wait_screen("a line\na line");
    pane.keys(&["C-d"]);
    pane.wait_screen("rc=4");
    assert_eq!(case.ended()["status"], "exit code 4");
}
