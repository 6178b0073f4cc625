//! Fixed limits of formats and exchanges. Limits that a user may change are in the configuration.

use core::time::Duration;

/// Longest string field of an envelope, in bytes; longer ones are cut, and named in `cut`.
pub const FIELD_BYTES_MAX: usize = 4 * 1024;
/// Longest standard input that a hook reads, in bytes.
pub const STDIN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Largest HTTP body that the coordinator accepts, in bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Largest head of an HTTP request, in bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Largest size of the spool, in bytes.
pub const SPOOL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Largest size of the spool, in records.
pub const SPOOL_RECORDS_MAX: u64 = 100_000;
/// Part of the spool, in bytes, that only the turn edges of [`is_reserved`] may use (H-29).
pub const SPOOL_RESERVE_BYTES: u64 = 8 * 1024 * 1024;
/// Largest part of the spool that one session may fill, in bytes (H-29).
pub const SPOOL_SESSION_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Longest part of a spool file that is read, in bytes; hooks write no longer file.
pub const SPOOL_FILE_BYTES_MAX: u64 = SPOOL_BYTES_MAX + 128 * 1024;
/// Most malformed payloads, and most panics of hooks, that are kept for diagnosis.
pub const MALFORMED_RECORDS_MAX: u64 = 100;
/// Longest malformed payload that is kept, in bytes.
pub const MALFORMED_BYTES_MAX: usize = 64 * 1024;
/// Size at which a journal segment is closed, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Longest segment file that is read, in bytes: a segment may exceed [`SEGMENT_BYTES_MAX`] by its last
/// record or batch.
pub const SEGMENT_FILE_BYTES_MAX: u64 = 4 * SEGMENT_BYTES_MAX;
/// Largest snapshot, in bytes; a larger one is neither written nor read.
pub const SNAPSHOT_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Largest configuration file, install record, or other small file that a person or `coord install`
/// writes, in bytes.
pub const SMALL_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Largest size of the journal, in bytes; the oldest segments are removed first.
pub const JOURNAL_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Age at which journal segments are removed.
pub const JOURNAL_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Most event ids remembered, so that an event that arrives twice takes effect once (G2).
pub const SEEN_IDS_MAX: usize = 1_000_000;
/// Time for which event ids are remembered.
pub const SEEN_IDS_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Space kept back so that the coordinator can still record when the disk is full (H-29), in bytes.
pub const RESERVE_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Longest run time of a hook in all (interfaces.md, Hook executables).
pub const HOOK_TOTAL: Duration = Duration::from_secs(1);
/// Longest time that a hook waits for its payload; the rest of [`HOOK_TOTAL`] is for the event.
pub const HOOK_STDIN: Duration = Duration::from_millis(600);
/// Longest exchange between a hook and the coordinator (H-37).
pub const EXCHANGE: Duration = Duration::from_millis(150);
/// Longest text that a wake hook hands over, in bytes: a message of 64 KiB and its frame.
pub const WAKE_BYTES_MAX: usize = 72 * 1024;
/// Time for which hooks spool at once after a missed exchange (H-37).
pub const MISS_MEMORY: Duration = Duration::from_secs(10);
/// Time in milliseconds within which acknowledged events are synced to disk (G1).
pub const SYNC_WITHIN_MS: u64 = 100;

/// Turn edges: the last events to be given up when space runs out (H-29).
pub const RESERVED_EVENTS: [&str; 4] = ["SessionStart", "Stop", "StopFailure", "SessionEnd"];
/// Frequent tool events: the first to be folded into counters (H-29).
pub const FOLDED_EVENTS: [&str; 4] =
    ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch"];

/// Whether an event may use the reserve of the spool and the disk.
pub fn is_reserved(event: &str) -> bool {
    RESERVED_EVENTS.contains(&event)
}

/// Whether an event may be folded into a counter when space or a share runs out.
pub fn is_folded(event: &str) -> bool {
    FOLDED_EVENTS.contains(&event)
}
