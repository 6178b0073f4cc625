//! Streams pass as they are: every byte, in order, no faster than they are read, and to their end.

use crate::case::{A_WHILE, Case};
use coord_tests::wait::wait_until;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Enough that no pipe and no buffer holds it.
const BYTES: u64 = 64 * 1024 * 1024;
/// The most that may lie between a run and a reader that does not read: two pipes and what is being passed.
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;

/// A file of bytes that nobody foresaw.
#[track_caller]
fn random_file(case: &Case, bytes: u64) -> PathBuf {
    let path = case.file("random");
    let mut file = File::create(&path).expect("create a file");
    let mut source = File::open("/dev/urandom").expect("there are random bytes").take(bytes);
    std::io::copy(&mut source, &mut file).expect("write a file");
    path
}

#[track_caller]
fn assert_same(case: &Case, one: &PathBuf, other: &PathBuf) {
    let mut cmp = case.home.command("cmp");
    let status = cmp.arg(one).arg(other).status().expect("cmp is there");
    assert!(status.success(), "{} differs from {}", one.display(), other.display());
}

#[track_caller]
fn to_file(command: &mut Command, path: &PathBuf) {
    command.stdout(File::create(path).expect("create a file"));
}

// whatever stands in it, it is not read as anything else.
pub(crate) fn every_byte_passes() {
    for provider in ["other", "claude"] {
        let case = Case::new(&[]);
        let (sent, got) = (random_file(&case, BYTES), case.file("got"));
        let mut run = case.run(&["--provider", provider], &["cat", &sent.to_string_lossy()]);
        to_file(&mut run, &got);
        assert!(run.status().expect("it starts").success());
        assert_same(&case, &sent, &got);
        assert_eq!(case.ended()["stdout_bytes"], BYTES);
    }
}

pub(crate) fn every_byte_of_standard_error_passes() {
    let case = Case::new(&[]);
    let (sent, got) = (random_file(&case, BYTES / 8), case.file("got"));
    let script = "cat \"$1\" >&2; echo x";
    let mut run = case.run(&[], &["sh", "-c", script, "sh", &sent.to_string_lossy()]);
    run.stdout(Stdio::null()).stderr(File::create(&got).expect("create a file"));
    assert!(run.status().expect("it starts").success());
    assert_same(&case, &sent, &got);
}

pub(crate) fn standard_input_is_its_own() {
    let case = Case::new(&[]);
    let (sent, got) = (random_file(&case, BYTES / 8), case.file("got"));
    let mut run = case.run(&[], &["cat"]);
    to_file(run.stdin(File::open(&sent).expect("open a file")), &got);
    assert!(run.status().expect("it starts").success());
    assert_same(&case, &sent, &got);
}

/// Starts the agent with a reader that does not read yet.
#[track_caller]
fn unread(case: &Case, options: &[&str], steps: &[&str]) -> Child {
    let mut command = case.agent(options, steps);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

// nothing is kept for a reader that does not read; nothing is lost either.
pub(crate) fn a_reader_that_does_not_read() {
    let case = Case::new(&[("tick", "300ms"), ("first_result", "1s"), ("post_result", "1s")]);
    let steps = ["flood-told", "33554432", "@told", "exit", "7"];
    let mut run = unread(&case, &["--provider", "other"], &steps);
    let told = || case.wait_file("told").parse::<u64>().expect("a number");
    // It writes on as long as anybody takes it: that it stands still shows between two ticks.
    let ahead = wait_until("the agent's writes wait", || {
        let (before, ticks) = (told(), case.count("watchdog.tick"));
        case.wait_count("watchdog.tick", ticks + 1);
        if told() == before { Ok(before) } else { Err(before) }
    });
    assert!(ahead <= AHEAD_BYTES, "{ahead}");
    let mut stdout = run.stdout.take().expect("a pipe");
    let got = std::io::copy(&mut stdout, &mut std::io::sink()).expect("read a pipe");
    assert_eq!(got, 33_554_432);
    assert_eq!(run.wait().expect("it ends").code(), Some(7));
    case.assert_not_forced();
}

// S3-22, S3-10: what has something to say that nobody takes is not silent, and is not ended for it.
pub(crate) fn a_reader_that_pauses() {
    let clocks = [("tick", "200ms"), ("first_result", "2s"), ("limbo", "2s")];
    let case = Case::new(&clocks);
    let steps = ["init", "result", "flood", "33554432", "exit", "7"];
    let mut run = unread(&case, &["--provider", "claude"], &steps);
    // Fifteen ticks are more than a silent run would have.
    case.wait_count("watchdog.tick", 15);
    let mut stdout = run.stdout.take().expect("a pipe");
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("read a pipe");
    assert_eq!(run.wait().expect("it ends").code(), Some(7));
    case.assert_not_forced();
}

// what was said is kept for a reader that comes back after the end, and so is what it came to.
pub(crate) fn a_reader_that_pauses_at_the_end() {
    let case = Case::new(&[("kill_grace", "1s")]);
    let steps = ["init", "flood", "1024000", "result", "write", "@end", "exit", "7"];
    let mut run = unread(&case, &["--provider", "claude"], &steps);
    case.wait_file("end");
    let pid = Pid::from_child(&run);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("it lives");
    let mut ends = [PollFd::new(&pidfd, PollFlags::IN)];
    let a_while = Timespec::try_from(A_WHILE).expect("a time");
    assert_eq!(poll(&mut ends, Some(&a_while)), Ok(0), "it has something to hand on");
    let mut stdout = run.stdout.take().expect("a pipe");
    let got = std::io::copy(&mut stdout, &mut std::io::sink()).expect("read a pipe");
    assert!(1_024_000 < got, "{got}");
    assert_eq!(run.wait().expect("it ends").code(), Some(7));
    case.assert_ended("exited_after_result", "done");
}

// S3-01: whoever reads learns of the end of the output, though the run lives on.
pub(crate) fn the_end_of_its_output_passes() {
    let case = Case::new(&[]);
    let mut run = unread(&case, &[], &["say", "x", "close", "wait", "@go"]);
    let mut got = String::new();
    let mut stdout = run.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut got).expect("read a pipe");
    assert_eq!(got, "x\n");
    assert!(run.try_wait().expect("ask for it").is_none());
    case.make_file("go");
    assert_eq!(run.wait().expect("it ends").code(), Some(0));
}

/// Closes the reader's end once the first byte is there.
#[track_caller]
fn read_one_byte(run: &mut Child) {
    let mut stdout = run.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0]).expect("it says something");
}

// any other program is told, as in every pipeline.
pub(crate) fn a_reader_that_leaves() {
    let case = Case::new(&[]);
    let steps = ["flood", "100000000", "write", "@end", "exit", "0"];
    let mut run = unread(&case, &["--provider", "other"], &steps);
    read_one_byte(&mut run);
    assert_eq!(run.wait().expect("it ends").code(), Some(5));
    assert!(!case.file("end").exists());
    case.assert_not_forced();
    let case = Case::new(&[]);
    let mut yes = case.run(&["--provider", "other"], &["yes"]);
    let mut run = yes.stdout(Stdio::piped()).spawn().expect("it starts");
    read_one_byte(&mut run);
    let status = run.wait().expect("it ends");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::PIPE.as_raw()));
}

// an agent at work is not ended for it.
pub(crate) fn a_reader_that_leaves_the_client() {
    let case = Case::new(&[]);
    let steps = ["init", "flood", "10000000", "result", "write", "@end", "exit", "0"];
    let mut run = unread(&case, &["--provider", "claude"], &steps);
    read_one_byte(&mut run);
    assert_eq!(run.wait().expect("it ends").code(), Some(0));
    assert!(case.file("end").exists());
    case.assert_ended("exited_after_result", "done");
}
