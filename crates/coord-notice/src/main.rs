//! `coord-notice-send` sends one notice to a person through one channel, answers, and ends (N-03). It is the only
//! program of coord that speaks to a network.
//!
//! It reads one [`SendRequest`] from standard input and writes one [`SendAnswer`] as a line of JSON to standard
//! output. It exits with 0 if the notice was sent, 1 if not, and 64 if the request is unreadable. It keeps nothing,
//! and takes nothing from the environment but what a channel needs (H-24). Neither an argument, a message nor the
//! answer ever has a secret, and foreign text reaches every channel without control characters (H-26).

mod answer;
mod budget;
mod command;
mod desktop;
mod program;
mod secret;
mod text;
mod tmux;
mod webhook;
mod wording;

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use answer::Failure;
use budget::Budget;
use coord_wire::notice::{Channel, SendAct, SendAnswer, SendRequest};

/// Longest request, in bytes. A digest of many lines has some KiB.
const REQUEST_BYTES_MAX: u64 = 256 * 1024;
/// How long the request may take to arrive: its writer has it ready.
const READ_LIMIT: Duration = Duration::from_secs(5);
/// Longest time that a request may allow.
const WITHIN_MAX: Duration = Duration::from_secs(60);
/// What is kept back of the time for writing the answer, at most.
const RESERVE_MAX: Duration = Duration::from_millis(100);
/// The exit code for a request that cannot be read (EX_USAGE).
const UNREADABLE: u8 = 64;

/// What the thread that does the work reports.
enum Report {
    /// The request is read; the answer follows within this time.
    Begun(Duration),
    /// The request cannot be read.
    Unreadable(&'static str),
    /// The request is done.
    Done(SendAnswer),
}

fn main() -> ExitCode {
    // The message of a panic can hold a secret; its place cannot.
    std::panic::set_hook(Box::new(|panic| {
        if let Some(place) = panic.location() {
            complain(&format!("panic at {}:{}", place.file(), place.line()));
        }
    }));
    let (reports, received) = sync_channel(2);
    // What hangs in a system call cannot be cancelled. It ends with the process.
    let started = std::thread::Builder::new().spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(|| work(&reports)));
        let done =
            done.unwrap_or_else(|_| Report::Done(Failure::new("the sender failed").answer(0)));
        let _ = reports.send(done);
    });
    match started {
        Ok(_) => wait(&received),
        Err(error) => finish(&Failure::new(format!("no thread: {error}")).answer(0)),
    }
}

/// Waits for the work, at most as long as the request allows.
fn wait(reports: &Receiver<Report>) -> ExitCode {
    let mut within = None;
    loop {
        match reports.recv_timeout(within.unwrap_or(READ_LIMIT)) {
            Ok(Report::Begun(limit)) => within = Some(limit),
            Ok(Report::Unreadable(why)) => return unreadable(why),
            Ok(Report::Done(answer)) => return finish(&answer),
            Err(_) => {
                let Some(within) = within else { return unreadable("it did not arrive in time") };
                let why = format!("not done within {}", text::duration(within));
                return finish(&Failure::new(why).answer(1));
            }
        }
    }
}

fn work(reports: &SyncSender<Report>) -> Report {
    let request = match read_request() {
        Ok(request) => request,
        Err(why) => return Report::Unreadable(why),
    };
    let within = Duration::from_millis(request.within_ms).min(WITHIN_MAX);
    let _ = reports.send(Report::Begun(within));
    let mut answer =
        send(request, Budget::new(within.saturating_sub(RESERVE_MAX.min(within / 10))));
    answer.saying = text::clean(&answer.saying, text::SAYING_CHARS_MAX);
    Report::Done(answer)
}

/// Reads the request. Why it cannot be read is said without a word of it: it can hold a secret.
fn read_request() -> Result<SendRequest, &'static str> {
    let mut bytes = Vec::new();
    let mut stdin = std::io::stdin().lock().take(REQUEST_BYTES_MAX + 1);
    stdin.read_to_end(&mut bytes).map_err(|_| "standard input cannot be read")?;
    if REQUEST_BYTES_MAX < bytes.len() as u64 {
        return Err("it is longer than 256 KiB");
    }
    serde_json::from_slice(&bytes).map_err(|_| "it is not a request of this version")
}

fn send(request: SendRequest, budget: Budget) -> SendAnswer {
    let SendRequest { channel, act, .. } = request;
    match act {
        SendAct::Tell { notice, line, handle } => {
            let notice = text::clean_notice(*notice);
            let line = text::clean(&line, text::LINE_CHARS_MAX);
            let handle = handle.as_deref();
            match channel {
                Channel::Tmux { program, sockets, bell } => {
                    tmux::tell(&program, &sockets, bell, &notice, &line, budget)
                }
                Channel::Desktop { program } => {
                    desktop::tell(&program, &notice, &line, handle, budget)
                }
                Channel::Command { program } => command::tell(&program, &notice, budget),
                Channel::Webhook(webhook) => webhook::tell(&webhook, &notice, handle, budget),
            }
        }
        SendAct::ShowState(state) => match channel {
            Channel::Tmux { program, sockets, .. } => {
                tmux::show_state(&program, &sockets, &state, budget)
            }
            Channel::Desktop { .. } | Channel::Command { .. } | Channel::Webhook(_) => {
                Failure::refused("only tmux shows states").answer(0)
            }
        },
    }
}

fn finish(answer: &SendAnswer) -> ExitCode {
    let Ok(mut line) = serde_json::to_vec(answer) else { return ExitCode::FAILURE };
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    let is_written = stdout.write_all(&line).and_then(|()| stdout.flush()).is_ok();
    if is_written && answer.is_sent { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn unreadable(why: &str) -> ExitCode {
    complain(&format!("the request on standard input is unreadable: {why}"));
    ExitCode::from(UNREADABLE)
}

/// One line on standard error; if nobody reads it, it is lost.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "coord-notice-send: {line}");
}
