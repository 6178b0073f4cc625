//! The program of Claude Code's status line (N-08): runs the user's own command as if nothing stood before it, and then
//! reports the numbers that the client gave to it.
//!
//! This module decides that the command comes first. It gets the input as it came, writes to the client itself, and this
//! process ends as the command did. Nothing is reported before its end: the client shows a line only once the process has
//! ended (measured), so all of a report's time is a delay, and has a limit. A command that hangs stays the client's to
//! end, by SIGTERM at the next update. It is passed on, and nothing is reported then: the next status line has newer
//! numbers. For the same reason a report is neither spooled nor repeated, and starts no coordinator. Without a command the
//! program prints the line with which the coordinator answers.
//!
//! No fault of coord's shows in the status line: whatever is wrong, the command runs, and nothing is said.

use crate::child::{Child, end_like};
use crate::deliver::{nanoseconds, print, seems_to_listen, send_once};
use crate::fields::{Fields, Text};
use crate::place::{Given, Place};
use crate::report::{Report, Stamp};
use crate::scan::{Progress, Scanner};
use crate::system::{Args, ignore_write_signals};
use crate::usage::usage;
use crate::{NAME_BYTES_MAX, SAFE, diagnosis, files};
use coord_wire::exchange::mono_ns;
use coord_wire::limits::HOOK_STDIN;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use std::time::Duration;

/// Longest payload that is read for its numbers, in bytes. A longer one goes to the command all the same.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Longest delay by a report, after the command's end.
const REPORT: Duration = Duration::from_millis(100);
/// A signal is passed on if the command has not ended within this time: the client signals the whole group (measured), so
/// the command mostly has it already.
const GRACE: Duration = Duration::from_millis(20);
/// Exit codes of a shell whose command cannot be started.
const NO_COMMAND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Runs the program after its arguments were parsed.
pub(crate) fn run(given: &Given<'_>, stamp: Stamp, command: Option<Args>) -> i32 {
    files::fill_standard_streams();
    let Some(command) = command else { return print_own_line(given, stamp) };
    let child = match Child::start(command) {
        Ok(child) => child,
        Err(errno) => return refuse(command, errno),
    };
    // A command need not read its input.
    ignore_write_signals();
    let mut run = Run { child, input: Input::new(), signal: None };
    run.until_input_ended();
    let mut facts = run.input.has_ended.then(|| Facts::new(given, stamp, &run.input)).flatten();
    run.until_end();
    let end = run.child.wait();
    run.child.unblock();
    if run.signal.is_none() {
        let deadline_ns = mono_ns().saturating_add(nanoseconds(REPORT));
        if !run.input.has_ended {
            run.input.read_until(deadline_ns);
            facts = Facts::new(given, stamp, &run.input);
        }
        if let Some(facts) = &mut facts {
            send_once(&facts.place, &mut facts.report, deadline_ns);
        }
    }
    end_like(end)
}

/// Says what a shell would say.
fn refuse(command: Args, errno: Errno) -> i32 {
    let name = String::from_utf8_lossy(command.first().to_bytes());
    let (why, code) = match errno {
        Errno::NOENT => (": not found", NO_COMMAND),
        _ => (": cannot be run", NOT_EXECUTABLE),
    };
    diagnosis::write_line(&[&*name, why].concat());
    code
}

/// Prints what the coordinator answers.
fn print_own_line(given: &Given<'_>, stamp: Stamp) -> i32 {
    let mut input = Input::new();
    input.read_until(stamp.mono_ns.saturating_add(nanoseconds(HOOK_STDIN)));
    let Some(mut facts) = Facts::new(given, stamp, &input) else { return SAFE };
    let deadline_ns = mono_ns().saturating_add(nanoseconds(REPORT));
    let answer = send_once(&facts.place, &mut facts.report, deadline_ns);
    if let Some(mut line) = answer.filter(|line| !line.is_empty()) {
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let deadline_ns = mono_ns().saturating_add(nanoseconds(REPORT));
        let _nobody_reads_it = print(&line, deadline_ns);
    }
    SAFE
}

/// What is reported, and where.
struct Facts {
    place: Place,
    report: Report,
}

impl Facts {
    /// The facts of a payload; none if it is none, or if nobody is to have them.
    fn new(given: &Given<'_>, stamp: Stamp, input: &Input) -> Option<Self> {
        let payload = input.whole()?;
        let place = Place::find(given).ok()??;
        if !seems_to_listen(&place, stamp) {
            return None;
        }
        diagnosis::record_panics_in(&place);
        let mut scanner = Scanner::new(Fields::new(None));
        let Progress::Done(end) = scanner.feed(payload) else { return None };
        let session_id = scanner.fields.text(Text::SessionId)?;
        if !(1..=NAME_BYTES_MAX).contains(&session_id.len()) {
            return None;
        }
        let numbers = usage(payload.get(..end)?);
        let fields = Fields::of_status_line(session_id, numbers);
        let report = Report::new(&place, stamp, &fields, false);
        Some(Self { place, report })
    }
}

/// Standard input, as far as it was read and is still needed.
struct Input {
    bytes: Vec<u8>,
    /// How much of `bytes` the command was given.
    given: usize,
    /// Whether there is more than [`PAYLOAD_BYTES_MAX`].
    is_longer: bool,
    has_ended: bool,
}

impl Input {
    fn new() -> Self {
        let bytes = Vec::with_capacity(PAYLOAD_BYTES_MAX);
        Self { bytes, given: 0, is_longer: false, has_ended: false }
    }

    /// All of it, if it ended within the limit.
    fn whole(&self) -> Option<&[u8]> {
        (self.has_ended && !self.is_longer).then_some(self.bytes.as_slice())
    }

    fn has_room(&self) -> bool {
        self.bytes.len() < self.bytes.capacity()
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.given..).unwrap_or_default()
    }

    /// Reads what is there. What is longer than the limit is only passed on.
    fn read(&mut self) {
        match rustix::io::read(rustix::stdio::stdin(), spare_capacity(&mut self.bytes)) {
            Ok(0) => self.has_ended = true,
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => (),
            Err(_) => (self.has_ended, self.is_longer) = (true, true),
        }
        self.make_room();
    }

    /// Forgets what the command was given, once the buffer is full.
    fn make_room(&mut self) {
        if !self.has_room() && self.rest().is_empty() {
            self.is_longer = true;
            self.given = 0;
            self.bytes.clear();
        }
    }

    /// Gives the command what it takes. False if it takes nothing more.
    fn give(&mut self, stdin: &OwnedFd) -> bool {
        match rustix::io::write(stdin, self.rest()) {
            Ok(n) => self.given = self.given.saturating_add(n),
            Err(Errno::INTR | Errno::AGAIN) => (),
            Err(_) => return false,
        }
        self.make_room();
        true
    }

    /// Reads to its end, while nobody is given it any more.
    fn read_until(&mut self, deadline_ns: u64) {
        while !self.has_ended && !self.is_longer {
            let left = Duration::from_nanos(deadline_ns.saturating_sub(mono_ns()));
            let stdin = rustix::stdio::stdin();
            let mut only = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut only, Some(&Timespec::try_from(left).unwrap_or_default())) {
                Ok(0) => return,
                Ok(_) | Err(Errno::INTR) => (),
                Err(_) => return,
            }
            self.read();
            self.given = self.bytes.len();
            self.make_room();
        }
    }
}

/// A command that runs.
struct Run {
    child: Child,
    input: Input,
    /// The signal that this process was sent, and when it is passed on; none once it was.
    signal: Option<Signalled>,
}

/// A signal, and when it is passed on.
#[derive(Debug, Clone, Copy)]
struct Signalled {
    signal: Signal,
    deadline_ns: Option<u64>,
}

impl Run {
    /// Passes the input on, until its end or that of the command.
    fn until_input_ended(&mut self) {
        while self.child.stdin.is_some() || !self.input.has_ended {
            if self.step() {
                return;
            }
        }
    }

    /// Waits for the end of the command.
    fn until_end(&mut self) {
        while !self.step() {}
    }

    /// Waits until there is something to do, and does it. True once the command has ended.
    fn step(&mut self) -> bool {
        let reads = !self.input.has_ended && self.input.has_room();
        let own_stdin = rustix::stdio::stdin();
        let stdin = self.child.stdin.as_ref();
        let writes = stdin.filter(|_| !self.input.rest().is_empty());
        let nothing = PollFlags::empty();
        // What is not waited for is the command's end a second time.
        let end = self.child.end.as_fd();
        let mut waited = [
            PollFd::from_borrowed_fd(end, PollFlags::IN),
            PollFd::new(&self.child.signals, PollFlags::IN),
            PollFd::from_borrowed_fd(if reads { own_stdin } else { end }, PollFlags::IN),
            writes.map_or_else(
                || PollFd::from_borrowed_fd(end, nothing),
                |stdin| PollFd::new(stdin, PollFlags::OUT),
            ),
        ];
        let left = self.signal.and_then(|signalled| signalled.deadline_ns);
        let left = left.map(|at| Duration::from_nanos(at.saturating_sub(mono_ns())));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let is_ready = match poll(&mut waited, timeout.as_ref()) {
            Ok(_) => waited.each_ref().map(|one| !one.revents().is_empty()),
            Err(_) => [false; 4],
        };
        let [has_ended, is_signalled, has_input, _] = is_ready;
        if is_signalled {
            self.take_signal();
        }
        self.pass_signal_on();
        if has_ended {
            return true;
        }
        if reads && has_input {
            self.input.read();
        }
        self.feed();
        false
    }

    /// Gives the command its input, and the end of it.
    fn feed(&mut self) {
        let Some(stdin) = &self.child.stdin else {
            // Nobody reads it, but it may still end.
            self.input.given = self.input.bytes.len();
            self.input.make_room();
            return;
        };
        let takes_more = self.input.rest().is_empty() || self.input.give(stdin);
        if !takes_more || (self.input.has_ended && self.input.rest().is_empty()) {
            self.child.stdin = None;
        }
    }

    fn take_signal(&mut self) {
        // The number of the signal is the first member of a `signalfd_siginfo`.
        let mut bytes = [0; 128];
        let Ok(n) = rustix::io::read(&self.child.signals, &mut bytes) else { return };
        let number = bytes.first_chunk().filter(|_| n == 128).map(|n| i32::from_ne_bytes(*n));
        let Some(signal) = number.and_then(Signal::from_named_raw) else { return };
        let deadline_ns = Some(mono_ns().saturating_add(nanoseconds(GRACE)));
        self.signal = Some(Signalled { signal, deadline_ns });
    }

    fn pass_signal_on(&mut self) {
        let Some(signalled) = &mut self.signal else { return };
        if signalled.deadline_ns.is_some_and(|at| at <= mono_ns()) {
            signalled.deadline_ns = None;
            let _has_ended = pidfd_send_signal(&self.child.end, signalled.signal);
        }
    }
}
