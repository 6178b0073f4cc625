//! Sends the event to the coordinator, within a bounded time (H-37).
//!
//! This module decides which listener is trusted: one that belongs to this user and is in our pid
//! namespace, on a socket in a private directory of this user (H-15). It also decides what part of
//! the answer is passed to the client: one complete JSON object, or nothing (R-18, S4-08).

use crate::fields::Fields;
use crate::files;
use crate::place::Place;
use crate::report::{Report, Stamp};
use crate::scan::{Progress, Scanner};
use crate::system::ignore_write_signals;
use crate::text::push_number;
use coord_wire::exchange::{Answer, Miss, exchange, mono_ns};
use coord_wire::limits::{BODY_BYTES_MAX, EXCHANGE, MISS_MEMORY};
use coord_wire::trust::is_private;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, access, fstat, open, statat};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::time::Duration;

/// Name of the file in the run directory that notes a missed exchange.
const MISS: &str = "miss";

/// The result of the exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The coordinator has the event. The value is its answer for the client, if any.
    Safe(Option<Vec<u8>>),
    /// The coordinator does not have the event, so it goes to the spool.
    Refused,
    /// Nobody listens, so the event goes to the spool.
    Absent,
}

/// Sends the event, unless an exchange was missed a moment ago.
pub(crate) fn deliver(place: &Place, report: &mut Report, stamp: Stamp) -> Delivery {
    let run = match run_directory(place) {
        Ok(run) => run,
        Err(Errno::NOENT) => return Delivery::Absent,
        Err(_) => return Delivery::Refused,
    };
    if is_miss_remembered(&run, stamp) {
        return Delivery::Refused;
    }
    match post(place, report, mono_ns().saturating_add(nanoseconds(EXCHANGE))) {
        Ok(answer) if answer.status == 200 && is_one_object(&answer.body) => {
            Delivery::Safe(Some(answer.body))
        }
        Ok(answer) if matches!(answer.status, 200 | 204) => Delivery::Safe(None),
        Err(Miss::Absent) => Delivery::Absent,
        Err(Miss::Late) => {
            // Without the note, the next hook waits in vain too, but nothing is lost.
            let _only_slower = files::touch(&run, MISS, place.uid);
            Delivery::Refused
        }
        Ok(_) | Err(Miss::Foreign | Miss::Broken) => Delivery::Refused,
    }
}

/// Whether a coordinator seems to listen, and has not kept a hook waiting a moment ago.
pub(crate) fn seems_to_listen(place: &Place, stamp: Stamp) -> bool {
    run_directory(place).is_ok_and(|run| !is_miss_remembered(&run, stamp))
        && access(place.paths.socket(), Access::EXISTS).is_ok()
}

/// Sends an event that need not arrive, because a newer one will follow: it is neither spooled nor missed (N-08). Returns
/// the body of the answer.
pub(crate) fn send_once(place: &Place, report: &mut Report, deadline_ns: u64) -> Option<Vec<u8>> {
    let answer = post(place, report, deadline_ns).ok()?;
    (answer.status == 200).then_some(answer.body)
}

fn post(place: &Place, report: &mut Report, deadline_ns: u64) -> Result<Answer, Miss> {
    let mut head = Vec::with_capacity(112);
    head.extend_from_slice(b"POST /v1/events HTTP/1.1\r\nHost: coord\r\nContent-Length: ");
    push_number(&mut head, report.envelope().len() as u64);
    head.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    exchange(&place.paths.socket(), report.behind(&head), BODY_BYTES_MAX, deadline_ns)
}

/// The directory of the coordinator's socket, if it is private to this user.
pub(crate) fn run_directory(place: &Place) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let run = open(&place.paths.run, flags, Mode::empty())?;
    let ours = is_private(&fstat(&run)?, FileType::Directory, place.uid);
    if ours { Ok(run) } else { Err(Errno::PERM) }
}

fn is_miss_remembered(run: &OwnedFd, stamp: Stamp) -> bool {
    let Ok(note) = statat(run, MISS, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let seconds = u64::try_from(note.st_mtime).unwrap_or(0);
    let missed_ms = seconds.saturating_mul(1000).saturating_add(note.st_mtime_nsec / 1_000_000);
    // A note from the future, after a jump of the clock, expires as well.
    u128::from(stamp.wall_ms.abs_diff(missed_ms)) < MISS_MEMORY.as_millis()
}

/// Whether the text is one JSON object and nothing else.
pub(crate) fn is_one_object(text: &[u8]) -> bool {
    match Scanner::new(Fields::new(None)).feed(text) {
        Progress::Done(end) => text.get(end..).is_some_and(|rest| rest.trim_ascii().is_empty()),
        Progress::More | Progress::Malformed(..) => false,
    }
}

/// The answer did not reach the client completely.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AnswerCut;

/// Prints the answer. If the client reads none of it, it has no use for it, and that is no error.
/// But a part of an answer must not be taken for an answer.
pub(crate) fn print(answer: &[u8], deadline_ns: u64) -> Result<(), AnswerCut> {
    ignore_write_signals();
    let stdout = rustix::stdio::stdout();
    let mut rest = answer;
    while !rest.is_empty() {
        let written = wait_writable(stdout, deadline_ns).and_then(|()| write_some(stdout, rest));
        match written {
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(Errno::INTR | Errno::AGAIN) => (),
            Err(_) if rest.len() == answer.len() => return Ok(()),
            Err(_) => return Err(AnswerCut),
        }
    }
    Ok(())
}

/// Writes without ever waiting: with a flag to a socket, and otherwise at most as much as a ready
/// pipe accepts.
fn write_some(stdout: BorrowedFd<'_>, rest: &[u8]) -> Result<usize, Errno> {
    const PIPE_BYTES: usize = 4096;
    match send(stdout, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Err(Errno::NOTSOCK) => rustix::io::write(stdout, rest.get(..PIPE_BYTES).unwrap_or(rest)),
        sent => sent,
    }
}

fn wait_writable(stdout: BorrowedFd<'_>, deadline_ns: u64) -> Result<(), Errno> {
    let left = Duration::from_nanos(deadline_ns.saturating_sub(mono_ns()));
    let timeout = Timespec::try_from(left).map_err(|_| Errno::TIMEDOUT)?;
    match poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], Some(&timeout))? {
        0 => Err(Errno::TIMEDOUT),
        _ => Ok(()),
    }
}

/// Converts a limit to nanoseconds.
pub(crate) fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}
