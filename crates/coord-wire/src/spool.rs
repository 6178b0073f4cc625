//! The files of the spool, to which hooks write events that no coordinator accepted.
//!
//! | file | content |
//! |---|---|
//! | `spool/current` | header, then one record per event: the envelope's JSON |
//! | `spool/drain-N` | a former `current` that the coordinator is draining |
//! | `spool/solo-ID` | no header, one record: a hook that could not get the lock of `current` in time |
//! | `spool/malformed` | header, then malformed payloads, masked, for diagnosis |
//! | `spool/crashes` | header, then one line of text per panic of a hook |
//!
//! A writer opens `current`, takes the exclusive flock, and checks that the path still names the file
//! that it holds, since the coordinator renames the file under the same lock. Then it writes its record
//! at the end, and the two counters of the header. A killed writer leaves at most a torn record, which
//! the next record's magic ends ([`crate::frame`]); counters that lag by one are harmless. Nothing here
//! is synced: after a power loss, all harnesses are gone anyway (G1).
//!
//! ```text
//! offset  size  field of the header, all little endian
//!      0     8  "CRDSPL1\n"
//!      8     8  tool events that were counted here instead of being written (H-29)
//!     16     8  records
//!     24  1000  250 counters of 4 bytes: bytes written by the sessions of that bucket
//! ```

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 1024;
/// The header's first bytes.
pub const HEADER_MAGIC: [u8; 8] = *b"CRDSPL1\n";
/// Offset of the count of folded events.
pub const FOLDED_AT: u64 = 8;
/// Offset of the count of records.
pub const RECORDS_AT: u64 = 16;
/// Offset of the first share counter.
pub const SHARES_AT: u64 = 24;
/// Number of share counters.
pub const SHARES: u32 = 250;
/// Name of the file that hooks append to.
pub const CURRENT: &str = "current";
/// Prefix of files that the coordinator is draining.
pub const DRAIN_PREFIX: &str = "drain-";
/// Prefix of files with one record.
pub const SOLO_PREFIX: &str = "solo-";
/// Name of the file of malformed payloads.
pub const MALFORMED: &str = "malformed";
/// Name of the file of hook panics.
pub const CRASHES: &str = "crashes";

/// Offset of the share counter of a session.
pub fn share_at(session_id: &str) -> u64 {
    SHARES_AT + 4 * u64::from(crate::frame::crc32_plain(&[session_id.as_bytes()]) % SHARES)
}
