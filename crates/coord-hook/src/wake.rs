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
use crate::process::Process;
use crate::report::Stamp;
use crate::system::ignore_write_signals;
use crate::text::push_number;
use crate::waiting::{Harness, Wait, is_ready, leave_terminal, wait};
use crate::{SAFE, deliver::nanoseconds, files, is_event};
use coord_wire::exchange::{begin, mono_ns};
use coord_wire::limits::{EXCHANGE, HOOK_STDIN, WAKE_BYTES_MAX};
use core::mem::MaybeUninit;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Exit code: a message is on standard error.
const WOKEN: i32 = 2;

/// Runs the hook after its arguments were parsed.
pub(crate) fn run(given: &Given<'_>, stamp: Stamp) -> i32 {
    files::fill_standard_streams();
    // The wake hook reports nothing, so nothing is lost if it finds no place.
    let Ok(Some(place)) = Place::find(given) else { return SAFE };
    let harness = place.harness.and_then(Harness::of_parent).filter(Harness::is_at_terminal);
    let Some(harness) = harness else { return SAFE };
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
        match wait(&coordinator, &harness, WAKE_BYTES_MAX) {
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
