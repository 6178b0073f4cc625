//! The wake hook: waits beside an idle session for one message, hands it over, and exits.
//!
//! This module decides when it does not wait at all: in a run without a person at a terminal, which
//! would wait for the hook, and where nobody would answer. It decides when it stops: with its
//! harness, with the coordinator, or when either has another waiter. A message is passed to the
//! client on standard error with exit code 2, the only exception to "never 2" (H-02). The hook
//! keeps nothing: what it cannot hand over stays with the coordinator.

use crate::deliver;
use crate::fields::{Fields, Text};
use crate::payload;
use crate::place::{Given, Place};
use crate::process::{self, Process};
use crate::report::Stamp;
use crate::system::ignore_write_signals;
use crate::text::push_number;
use crate::{SAFE, deliver::nanoseconds, files, is_event};
use coord_wire::exchange::{Answer, begin, mono_ns, whole_answer};
use coord_wire::limits::{EXCHANGE, HOOK_STDIN, WAKE_BYTES_MAX};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// Exit code: a message is on standard error.
const WOKEN: i32 = 2;

/// Runs the hook after its arguments were parsed.
pub(crate) fn run(given: &Given<'_>, stamp: Stamp) -> i32 {
    files::fill_standard_streams();
    // The wake hook reports nothing, so nothing is lost if it finds no place.
    let Ok(Some(place)) = Place::find(given) else { return SAFE };
    let Some(harness) = place.harness.and_then(Harness::of_parent) else { return SAFE };
    let stdin_deadline_ns = stamp.mono_ns.saturating_add(nanoseconds(HOOK_STDIN));
    let payload = payload::read(Fields::new(None), stdin_deadline_ns);
    if !is_event(&payload) {
        return SAFE;
    }
    leave_terminal();
    let session_id = payload.fields.text(Text::SessionId).unwrap_or_default();
    let Some(coordinator) = ask(&place, session_id, harness.process) else { return SAFE };
    let Some(answer) = wait(&coordinator, &harness) else { return SAFE };
    if answer.status != 200 || answer.body.is_empty() {
        return SAFE;
    }
    if say(&answer.body, &harness) { WOKEN } else { SAFE }
}

/// An interactive client that started this process.
struct Harness {
    process: Process,
    /// Readable once the client is gone.
    end: OwnedFd,
}

impl Harness {
    /// The harness, if it is this process's parent and a person may be at it. A process between the
    /// two could pass on neither the message nor the exit code.
    fn of_parent(process: Process) -> Option<Self> {
        let parent = getppid().filter(|parent| is_pid(*parent, process.pid))?;
        if !process::is_at_terminal(process) {
            return None;
        }
        let end = pidfd_open(parent, PidfdFlags::empty()).ok()?;
        // The pidfd was opened by number, so the checks are reliable only now that it is held.
        let is_still = getppid() == Some(parent) && Process::read(process.pid) == Some(process);
        is_still.then_some(Self { process, end })
    }
}

fn is_pid(pid: Pid, number: u32) -> bool {
    u32::try_from(pid.as_raw_nonzero().get()) == Ok(number)
}

/// Releases what others may wait for while the hook waits: the terminal, whose users would be taken
/// for work of the harness (H-08), and the directory.
fn leave_terminal() {
    let _has_no_terminal_already = rustix::process::setsid();
    let _stays_where_it_is = rustix::process::chdir("/");
}

/// Tells the coordinator that this hook waits.
fn ask(place: &Place, session_id: &[u8], harness: Process) -> Option<OwnedFd> {
    deliver::run_directory(place).ok()?;
    let mut body = Vec::with_capacity(512);
    body.extend_from_slice(b"{\"session_id\":\"");
    // The session id is already escaped in the payload.
    body.extend_from_slice(session_id);
    body.extend_from_slice(b"\",\"harness\":{\"pid\":");
    push_number(&mut body, harness.pid.into());
    body.extend_from_slice(b",\"start_time\":\"");
    push_number(&mut body, harness.start_time);
    body.extend_from_slice(b"\"},\"pid\":");
    push_number(&mut body, std::process::id().into());
    body.push(b'}');
    let mut request = Vec::with_capacity(1024);
    request.extend_from_slice(b"POST /v1/wake HTTP/1.1\r\nHost: coord\r\nContent-Length: ");
    push_number(&mut request, body.len() as u64);
    request.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    request.extend_from_slice(&body);
    begin(&place.paths.socket(), &request, mono_ns().saturating_add(nanoseconds(EXCHANGE))).ok()
}

/// Waits for the answer without limit. Returns none if the coordinator or the harness is gone
/// first.
fn wait(coordinator: &OwnedFd, harness: &Harness) -> Option<Answer> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        is_ready(coordinator.as_fd(), PollFlags::IN, harness).then_some(())?;
        bytes.reserve(1024);
        match recv(coordinator, spare_capacity(&mut bytes), RecvFlags::empty()) {
            Ok((_, 0)) => return None,
            Ok(_) => (),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => return None,
        }
        if let Some(answer) = whole_answer(&bytes, WAKE_BYTES_MAX).ok()? {
            return Some(answer);
        }
    }
}

/// Writes the whole message for the client. Returns false if nobody is left to read it.
fn say(message: &[u8], harness: &Harness) -> bool {
    ignore_write_signals();
    let stderr = rustix::stdio::stderr();
    let mut rest = message;
    while !rest.is_empty() {
        match rustix::io::write(stderr, rest) {
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) if is_ready(stderr, PollFlags::OUT, harness) => (),
            Err(_) => return false,
        }
    }
    true
}

/// Waits until `fd` is ready. Returns false if the harness is gone.
fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags, harness: &Harness) -> bool {
    loop {
        let mut both =
            [PollFd::from_borrowed_fd(fd, flags), PollFd::new(&harness.end, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => return both[1].revents().is_empty(),
            Err(Errno::INTR) => (),
            Err(_) => return false,
        }
    }
}
