//! The program of the status line (N-08): the user's command is not changed by it in any way that the client could see, and
//! its numbers arrive.
#![expect(clippy::unwrap_used, reason = "a test fails where its ground is missing")]

use crate::world::{Answer, NO_CONTENT, STATUS_LINE, World, envelope};
use coord_model::Decimal;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

const PAYLOAD: &str = r#"{"session_id":"s-1","transcript_path":"/secret/t.jsonl","cwd":"/secret","prompt_id":"p-1",
    "model":{"id":"claude-opus-5-5","display_name":"Opus 5.5"},"workspace":{"current_dir":"/secret"},
    "cost":{"total_cost_usd":0.0024000000000000002},
    "context_window":{"context_window_size":1000000,"used_percentage":61},
    "rate_limits":{"five_hour":{"used_percentage":42,"resets_at":1795459209}}}"#;

/// A test fails where the program hangs, long before its own limit.
const PATIENCE: Duration = Duration::from_secs(20);

fn wrapped(world: &World, words: &[&str]) -> Command {
    let mut command = world.command(STATUS_LINE);
    command.arg("--").args(words).env("PATH", "/usr/bin:/bin");
    command.env("CLAUDE_PID", std::process::id().to_string());
    command
}

fn plain(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_clear().env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end with this input.
fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The command may end without having read all of it.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ended_early = writer.join().unwrap();
    output
}

/// Starts a command, and waits until it has printed a line. Signals end it, even where whoever started the tests ignores
/// them, as `nohup` and jobs in the background do.
#[expect(unsafe_code, reason = "no safe call sets a disposition")]
fn started(mut command: Command) -> (Child, impl BufRead) {
    for number in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default disposition needs no handler.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(PAYLOAD.as_bytes()).unwrap();
    drop(stdin);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, stdout)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

// N-08: input, output, diagnosis, exit code and signal are the command's own.
#[test]
fn n_08_a_command_runs_unchanged() {
    let world = World::new();
    let _received = world.coordinator(Answer::Text(NO_CONTENT));
    let large = "x".repeat(300_000);
    let larger = format!("{PAYLOAD}{}", "\u{0}\r\n".repeat(1_000_000));
    let inputs = [PAYLOAD, "", "no JSON \r\n\u{0}\"", &large, &larger];
    let scripts = [
        "cat; echo err >&2; exit 7",
        "cat >/dev/null; exit 1",
        "exit 0",
        "exec cat",
        "exec <&-; printf 'a\\r\\n'; exit 255",
        "head -c 3; kill -TERM $$",
        "kill -SEGV $$",
        "kill -PIPE $$",
        "cat >/dev/null; head -c 1000000 /dev/zero",
        "printf '%s|' \"$0\" \"$@\"; cat",
    ];
    for script in scripts {
        for input in inputs {
            let words = ["/bin/sh", "-c", script, "--", "--state", "a b", ""];
            let ours = run(wrapped(&world, &words), input.as_bytes());
            let own = run(plain(&words), input.as_bytes());
            let length = input.len();
            assert_eq!(ours.status.code(), own.status.code(), "{script} {length}");
            assert_eq!(ours.status.signal(), own.status.signal(), "{script} {length}");
            assert!(ours.stdout == own.stdout, "{script} {length}");
            assert!(ours.stderr == own.stderr, "{script} {length}");
        }
    }
}

// N-08: the numbers arrive after the output, and nothing else of the payload.
#[test]
fn n_08_the_numbers_arrive_after_the_output() {
    let world = World::new();
    let received = world.coordinator(Answer::Text(NO_CONTENT));
    let script = "read -r line; echo ready; read -r line < \"$0\"; exec cat";
    let gate = world.dir.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let words = ["/bin/sh", "-c", script, gate.to_str().unwrap()];
    let (mut child, mut stdout) = started(wrapped(&world, &words));
    let pid = child.id();
    assert_eq!(received.try_recv(), Err(TryRecvError::Empty), "its output is not out yet");
    std::fs::write(&gate, "go\n").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, PAYLOAD.split_once('\n').unwrap().1);
    assert!(child.wait().unwrap().success());
    let body = received.recv_timeout(PATIENCE).unwrap();
    let text = String::from_utf8(body.clone()).unwrap();
    assert!(!text.contains("secret") && !text.contains("p-1"), "{text}");
    let envelope = envelope(&[body]);
    assert_eq!((envelope.event.as_str(), envelope.session_id.as_str()), ("StatusLine", "s-1"));
    assert_eq!((envelope.pid, envelope.harness.unwrap().pid), (pid, std::process::id()));
    let usage = envelope.usage.unwrap();
    assert_eq!(usage.model.as_deref(), Some("claude-opus-5-5"));
    assert_eq!(usage.model_name.as_deref(), Some("Opus 5.5"));
    assert_eq!(usage.context_percent, Some(Decimal(61 * Decimal::ONE)));
    assert_eq!(usage.cost_usd, Some(Decimal(2400)));
    assert_eq!(usage.seven_day_percent, None);
    assert!(text.contains("0.0024000000000000002"), "{text}");
}

// N-08: a command that reads nothing is no reason to lose the numbers.
#[test]
fn n_08_the_numbers_arrive_though_the_command_reads_nothing() {
    let world = World::new();
    let received = world.coordinator(Answer::Text(NO_CONTENT));
    let output = run(wrapped(&world, &["/bin/true"]), PAYLOAD.as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let envelope = envelope(&[received.recv_timeout(PATIENCE).unwrap()]);
    assert_eq!(envelope.usage.unwrap().context_percent, Some(Decimal(61 * Decimal::ONE)));
}

// N-08: the client ends a status line that is too slow by SIGTERM: the command ends with it, and nothing is reported.
#[test]
fn n_08_a_command_that_hangs_ends_with_the_program() {
    let world = World::new();
    let received = world.coordinator(Answer::Text(NO_CONTENT));
    for number in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::KILL] {
        let script = "echo ready; exec tail -f /dev/null";
        let (mut child, mut stdout) = started(wrapped(&world, &["/bin/sh", "-c", script]));
        signal(&child, number);
        assert_eq!(child.wait().unwrap().signal(), Some(number.as_raw()));
        // The end of the output is the end of the command, which has it open.
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
    assert_eq!(received.try_recv(), Err(TryRecvError::Empty));
}

// N-08: a command that handles SIGTERM, sent to the whole group as the client does, is given the time it takes.
#[test]
fn n_08_a_command_may_handle_its_end() {
    let world = World::new();
    let received = world.coordinator(Answer::Text(NO_CONTENT));
    // What it waits for is there before its line, so that the signal reaches both whenever it comes.
    let script = "tail -f /dev/null >&2 & trap 'echo bye; exit 3' TERM; echo ready; wait; exit 4";
    let mut command = wrapped(&world, &["/bin/sh", "-c", script]);
    command.process_group(0);
    let (mut child, mut stdout) = started(command);
    rustix::process::kill_process_group(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("bye\n", Some(3)));
    assert_eq!(received.try_recv(), Err(TryRecvError::Empty), "the next one has newer numbers");
}

// N-08: numbers that nobody takes are dropped: not spooled, no line, no coordinator that is started, no long wait.
#[test]
fn n_08_numbers_that_nobody_takes_are_dropped() {
    for answer in [
        None,
        Some(Answer::Never),
        Some(Answer::Text("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")),
    ] {
        let world = World::new();
        let _received = answer.map(|answer| world.coordinator(answer));
        let begun = Instant::now();
        let output = run(wrapped(&world, &["/bin/cat"]), PAYLOAD.as_bytes());
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stdout == PAYLOAD.as_bytes() && output.stderr.is_empty());
        assert!(world.spool_files().is_empty());
        assert!(!world.paths.miss().exists(), "hooks keep their own time");
    }
}

// N-08: a coordinator that kept a hook waiting a moment ago is not waited for.
#[test]
fn n_08_a_coordinator_that_was_too_slow_is_left_alone() {
    let world = World::new();
    let received = world.coordinator(Answer::Text(NO_CONTENT));
    std::fs::write(world.paths.miss(), "").unwrap();
    let output = run(wrapped(&world, &["/bin/cat"]), PAYLOAD.as_bytes());
    assert!(output.status.success() && output.stdout == PAYLOAD.as_bytes());
    assert_eq!(received.try_recv(), Err(TryRecvError::Empty));
}

// N-08, G7: where coord is absent or switched off, the command runs all the same.
#[test]
fn n_08_the_command_runs_without_coord() {
    let world = World::new();
    let received = world.coordinator(Answer::Text(NO_CONTENT));
    std::fs::remove_dir_all(&world.paths.state).unwrap();
    let output = run(wrapped(&world, &["/bin/cat"]), PAYLOAD.as_bytes());
    assert!(output.status.success() && output.stdout == PAYLOAD.as_bytes());
    assert_eq!(received.try_recv(), Err(TryRecvError::Empty));
}

// N-08: what cannot be started is said as a shell says it.
#[test]
fn n_08_a_command_that_cannot_be_started_has_the_exit_code_of_a_shell() {
    let world = World::new();
    for (program, code) in [("no-such-program", 127), ("/dev/null", 126)] {
        let output = run(wrapped(&world, &[program]), b"");
        assert_eq!(output.status.code(), Some(code));
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(line.starts_with(&format!("coord: {program}: ")), "{line}");
    }
}

// N-08: without a command, the line is the coordinator's answer.
#[test]
fn n_08_without_a_command_the_answer_is_the_line() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n2 other sessions need you";
    for (answer, expected) in [(answer, "2 other sessions need you\n"), (NO_CONTENT, "")] {
        let world = World::new();
        let received = world.coordinator(Answer::Text(answer));
        let output = run(world.command(STATUS_LINE), PAYLOAD.as_bytes());
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        assert_eq!(envelope(&[received.recv_timeout(PATIENCE).unwrap()]).event, "StatusLine");
    }
    let world = World::new();
    world.run(STATUS_LINE, PAYLOAD).assert_silent();
    world.run(STATUS_LINE, "no JSON").assert_silent();
    assert!(world.spool_files().is_empty());
}
