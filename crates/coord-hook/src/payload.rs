//! Reads the payload from standard input.
//!
//! Decides when to stop: behind one JSON value, at the end, at the byte limit, or when the time is
//! up, because the client may keep stdin open. Keeps the beginning for the diagnosis of malformed
//! payloads. Holds G7 and S4-07.

use crate::fields::Fields;
use crate::scan::{Fault, Progress, Scanner};
use coord_wire::exchange::mono_ns;
use coord_wire::limits::{MALFORMED_BYTES_MAX, STDIN_BYTES_MAX};
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
    let mut buffer = vec![0; MALFORMED_BYTES_MAX];
    let (mut at, mut kept, mut n) = (0, 0, 0);
    let ending = loop {
        if STDIN_BYTES_MAX <= n || !is_readable(deadline_ns) {
            break Ending::Unfinished;
        }
        if at == buffer.len() {
            at = KEPT_BYTES;
        }
        let room = buffer.get_mut(at..).unwrap_or_default();
        let piece = match rustix::io::read(rustix::stdio::stdin(), &mut *room) {
            Ok(0) => break Ending::Short,
            Ok(more) => room.get(..more).unwrap_or_default(),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => break Ending::Short,
        };
        let progress = scanner.feed(piece);
        let piece_n = piece.len();
        at += piece_n;
        let before = n;
        n += piece_n as u64;
        kept = if n == at as u64 { at } else { KEPT_BYTES };
        match progress {
            Progress::More => (),
            Progress::Done(_) => break Ending::Whole,
            Progress::Malformed(offset, fault) => {
                break Ending::Malformed(before + offset as u64, fault);
            }
        }
    };
    buffer.truncate(kept);
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
