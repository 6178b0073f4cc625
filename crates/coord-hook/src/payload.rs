//! Reads the payload from standard input.
//!
//! Decides when to stop: behind one JSON value, at the end, at the byte limit, or when the time is
//! up, because the client may keep stdin open. Keeps the beginning for the diagnosis of malformed
//! payloads. Holds G7 and S4-07.

use crate::fields::Fields;
use crate::scan::{Fault, Progress, Scanner};
use coord_wire::exchange::mono_ns;
use coord_wire::limits::{MALFORMED_BYTES_MAX, STDIN_BYTES_MAX};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::time::Duration;

/// Bytes of the beginning that stay when the payload is longer than the buffer.
const KEPT_BYTES: usize = MALFORMED_BYTES_MAX / 2;

/// How the payload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Whole.
    Whole,
    /// Too long or too late: what was seen so far counts.
    Unfinished,
    /// No payload; the offset at which that was clear.
    Malformed(u64, Fault),
    /// Standard input ended within the value, or was empty.
    Short,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) fields: Fields,
    pub(crate) ending: Ending,
    /// The payload's first bytes, for diagnosis.
    pub(crate) start: Vec<u8>,
    /// Bytes read in all.
    pub(crate) n: u64,
}

/// Reads standard input until `deadline_ns`.
pub(crate) fn read(fields: Fields, deadline_ns: u64) -> Payload {
    let mut scanner = Scanner::new(fields);
    let mut buffer = Vec::with_capacity(MALFORMED_BYTES_MAX);
    let mut n = 0;
    let ending = loop {
        if STDIN_BYTES_MAX <= n || !is_readable(deadline_ns) {
            break Ending::Unfinished;
        }
        if buffer.len() == buffer.capacity() {
            buffer.truncate(KEPT_BYTES);
        }
        let at = buffer.len();
        match rustix::io::read(rustix::stdio::stdin(), spare_capacity(&mut buffer)) {
            Ok(0) => break Ending::Short,
            Ok(_) => (),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => break Ending::Short,
        }
        let piece = buffer.get(at..).unwrap_or_default();
        let before = n;
        n += piece.len() as u64;
        match scanner.feed(piece) {
            Progress::More => (),
            Progress::Done(_) => break Ending::Whole,
            Progress::Malformed(offset, fault) => {
                break Ending::Malformed(before + offset as u64, fault);
            }
        }
    };
    if (buffer.len() as u64) < n {
        buffer.truncate(KEPT_BYTES);
    }
    Payload { fields: scanner.fields, ending, start: buffer, n }
}

/// Waits until there is something to read or the end. False: the time is up.
fn is_readable(deadline_ns: u64) -> bool {
    loop {
        let left = Duration::from_nanos(deadline_ns.saturating_sub(mono_ns()));
        let timeout = Timespec::try_from(left).unwrap_or_default();
        let stdin = rustix::stdio::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)) {
            Ok(n) => return n != 0,
            Err(Errno::INTR) => (),
            // Nothing can be waited for: let the read say what is wrong.
            Err(_) => return true,
        }
    }
}
