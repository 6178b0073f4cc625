//! The wake hook: waits beside an idle session for one message, hands it over, and exits.
//!
//! This module decides when it does not wait at all: in a run without a person at a terminal, which
//! would wait for the hook, and where nobody would answer. It decides when it stops: with its
//! harness, or when the coordinator answers. If the coordinator ends without an answer, the hook
//! asks the next one, since the client starts no other wake hook before the end of the next turn
//! (U-08). A message is passed to the client on standard error with exit code 2, the only exception
//! to "never 2" (H-02). The hook keeps nothing: what it cannot hand over stays with the coordinator.

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
use core::mem::MaybeUninit;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
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
    let Some(ask) = Ask::new(&place, session_id, harness.process) else { return SAFE };
    let Some(mut coordinator) = ask.send() else { return SAFE };
    let answer = loop {
        match wait(&coordinator, &harness) {
            Wait::Answered(answer) => break answer,
            Wait::Over => return SAFE,
            Wait::CoordinatorGone => match ask.send_to_next(&harness) {
                Some(next) => coordinator = next,
                None => return SAFE,
            },
        }
    };
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

/// Tells coordinators that this hook waits.
struct Ask<'a> {
    place: &'a Place,
    request: Vec<u8>,
}

impl<'a> Ask<'a> {
    fn new(place: &'a Place, session_id: &[u8], harness: Process) -> Option<Self> {
        deliver::run_directory(place).ok()?;
        Some(Self { place, request: request(session_id, harness) })
    }

    /// Sends it to the coordinator that runs, if one does.
    fn send(&self) -> Option<OwnedFd> {
        let deadline_ns = mono_ns().saturating_add(nanoseconds(EXCHANGE));
        begin(&self.place.paths.socket(), &self.request, deadline_ns).ok()
    }

    /// Waits for the next coordinator, and sends it there. Returns none if the harness is gone first,
    /// or the directory in which a coordinator would listen.
    fn send_to_next(&self, harness: &Harness) -> Option<OwnedFd> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        // A coordinator moves its socket there once it listens.
        let news = WatchFlags::MOVED_TO | WatchFlags::DELETE_SELF | WatchFlags::ONLYDIR;
        loop {
            // Watched before it is asked, so that no start is missed; and checked each time, since
            // the directory may be another one by now.
            deliver::run_directory(self.place).ok()?;
            inotify::add_watch(&watch, &self.place.paths.run, news).ok()?;
            if let Some(coordinator) = self.send() {
                return Some(coordinator);
            }
            is_ready(watch.as_fd(), PollFlags::IN, harness).then_some(())?;
            let mut events = [MaybeUninit::uninit(); 512];
            let mut reader = inotify::Reader::new(&watch, &mut events);
            while reader.next().is_ok() {}
        }
    }
}

fn request(session_id: &[u8], harness: Process) -> Vec<u8> {
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
    request
}

/// What ended a wait.
enum Wait {
    Answered(Answer),
    /// The coordinator ended, and had not begun to answer.
    CoordinatorGone,
    /// The harness ended, or the answer is none.
    Over,
}

/// Waits for the answer without limit.
fn wait(coordinator: &OwnedFd, harness: &Harness) -> Wait {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if !is_ready(coordinator.as_fd(), PollFlags::IN, harness) {
            return Wait::Over;
        }
        bytes.reserve(1024);
        match recv(coordinator, spare_capacity(&mut bytes), RecvFlags::empty()) {
            Ok((_, 0)) | Err(Errno::CONNRESET) if bytes.is_empty() => return Wait::CoordinatorGone,
            Ok((_, 0)) => return Wait::Over,
            Ok(_) => (),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => return Wait::Over,
        }
        match whole_answer(&bytes, WAKE_BYTES_MAX) {
            Ok(Some(answer)) => return Wait::Answered(answer),
            Ok(None) => (),
            Err(_) => return Wait::Over,
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
