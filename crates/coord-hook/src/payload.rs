//! Reads the payload from standard input.
//!
//! This module decides when to stop: after one JSON value, at the end of input, at the byte limit,
//! or when time is up, because the client may keep standard input open. It keeps the beginning for
//! the diagnosis of malformed payloads. It holds G7 and S4-07.

use crate::fields::Fields;
use crate::scan::{Fault, Progress, Scanner};
use coord_wire::exchange::mono_ns;
use coord_wire::limits::{MALFORMED_BYTES_MAX, STDIN_BYTES_MAX};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::time::Duration;

/// Bytes of the beginning that are kept when the payload is longer than the buffer.
const KEPT_BYTES: usize = MALFORMED_BYTES_MAX / 2;

/// How the payload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The payload is complete.
    Whole,
    /// The payload is too long or too late: what was read so far counts.
    Unfinished,
    /// The input is no payload, as determined at this offset.
    Malformed(u64, Fault),
    /// Standard input ended within the value, or was empty.
    Short,
}

/// What was read from standard input.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) fields: Fields,
    pub(crate) ending: Ending,
    /// The first bytes of the payload, for diagnosis.
    pub(crate) start: Vec<u8>,
    /// The number of bytes read.
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

/// Waits for input or its end. Returns false if time is up.
fn is_readable(deadline_ns: u64) -> bool {
    loop {
        let left = Duration::from_nanos(deadline_ns.saturating_sub(mono_ns()));
        let timeout = Timespec::try_from(left).unwrap_or_default();
        let stdin = rustix::stdio::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)) {
            Ok(n) => return n != 0,
            Err(Errno::INTR) => (),
            // Waiting is impossible: the read will report what is wrong.
            Err(_) => return true,
        }
    }
}
