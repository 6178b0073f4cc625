//! Fixed limits of formats and exchanges. What a user may change stands in the configuration.

use core::time::Duration;

/// A string field of an envelope is cut here, in bytes, and named in `cut`.
pub const FIELD_BYTES_MAX: usize = 4 * 1024;
/// A hook reads this much of its standard input, in bytes.
pub const STDIN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Largest HTTP body the coordinator takes, in bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Largest HTTP request head, in bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The spool's size, in bytes.
pub const SPOOL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The spool's size, in records.
pub const SPOOL_RECORDS_MAX: u64 = 100_000;
/// Part of the spool, in bytes, that only the turn edges of [`is_reserved`] may use (H-29).
pub const SPOOL_RESERVE_BYTES: u64 = 8 * 1024 * 1024;
/// No session may fill more of the spool than this, in bytes (H-29).
pub const SPOOL_SESSION_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// No more of a spool file is read, in bytes: hooks write none that is longer.
pub const SPOOL_FILE_BYTES_MAX: u64 = SPOOL_BYTES_MAX + 128 * 1024;
/// Malformed payloads, and panics of hooks, kept for diagnosis.
pub const MALFORMED_RECORDS_MAX: u64 = 100;
/// Largest malformed payload kept, in bytes.
pub const MALFORMED_BYTES_MAX: usize = 64 * 1024;
/// A journal segment is closed at this size, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// No more of a segment's file is read, in bytes: a segment may exceed [`SEGMENT_BYTES_MAX`] by its
/// last record or batch.
pub const SEGMENT_FILE_BYTES_MAX: u64 = 4 * SEGMENT_BYTES_MAX;
/// Largest snapshot, in bytes: a longer one is neither written nor read.
pub const SNAPSHOT_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Largest configuration file, install record or other small file that a person or `install` writes, in bytes.
pub const SMALL_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// The journal's size, in bytes; the oldest segments go first.
pub const JOURNAL_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// The journal's age.
pub const JOURNAL_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Event ids remembered so that a second arrival changes nothing (G2).
pub const SEEN_IDS_MAX: usize = 1_000_000;
/// How long event ids are remembered.
pub const SEEN_IDS_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Space kept back so that the coordinator can still record when the disk is full (H-29), bytes.
pub const RESERVE_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// A hook is done after this, whatever happens (interfaces.md, Hook executables).
pub const HOOK_TOTAL: Duration = Duration::from_secs(1);
/// A hook waits this long for its payload; the rest of [`HOOK_TOTAL`] is for the event.
pub const HOOK_STDIN: Duration = Duration::from_millis(600);
/// The exchange of a hook with the coordinator (H-37).
pub const EXCHANGE: Duration = Duration::from_millis(150);
/// Largest text that a wake hook hands over: a message of 64 KiB with the frame around it, in bytes.
pub const WAKE_BYTES_MAX: usize = 72 * 1024;
/// A missed exchange is remembered this long: hooks go straight to the spool (H-37).
pub const MISS_MEMORY: Duration = Duration::from_secs(10);
/// What the coordinator acknowledged is synced to disk within this time (G1), milliseconds.
pub const SYNC_WITHIN_MS: u64 = 100;

/// Turn edges: the last to be given up when space runs out (H-29).
pub const RESERVED_EVENTS: [&str; 4] = ["SessionStart", "Stop", "StopFailure", "SessionEnd"];
/// High-frequency tool events: the first to be folded into counters (H-29).
pub const FOLDED_EVENTS: [&str; 4] =
    ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch"];

/// Whether an event may use the reserve of spool and disk.
pub fn is_reserved(event: &str) -> bool {
    RESERVED_EVENTS.contains(&event)
}

/// Whether an event may be folded into a counter when space or a share runs out.
pub fn is_folded(event: &str) -> bool {
    FOLDED_EVENTS.contains(&event)
}
