//! What opening the store found and dealt with: nothing accepted was lost, but people should
//! know. Each finding prints as one line.

use std::fmt;
use std::path::PathBuf;

/// Something odd that did not keep the store from opening.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The last segment ended in bytes that no sync had covered; they were cut off.
    TornTail {
        /// The segment.
        file: PathBuf,
        /// Offset of the first bad byte, the file's length now.
        at: u64,
        /// Number of bytes cut off.
        bytes: u64,
        /// Whole records among them, which stood behind a hole.
        records: usize,
        /// Where those bytes were kept, if there were whole records.
        kept: Option<PathBuf>,
    },
    /// The last segment had been begun but nothing in it was ever synced; it was removed.
    UnbegunSegment {
        /// The segment.
        file: PathBuf,
    },
    /// The journal ends before the snapshot does; it goes on behind the snapshot.
    JournalBehindSnapshot {
        /// Last record of the journal.
        last_seq: u64,
        /// Last record the snapshot covers.
        through_seq: u64,
    },
    /// An earlier coordinator could not sync; its last segment was written anew.
    Rewritten {
        /// The segment.
        file: PathBuf,
    },
    /// The previous snapshot was used in place of the newest one.
    OldSnapshot {
        /// The snapshot that could not be used.
        file: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// A spool file held bytes that are no record.
    SpoolDamage {
        /// The file.
        file: PathBuf,
        /// Offset of the first bad byte.
        at: u64,
        /// Number of bad bytes.
        bytes: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornTail { file, at, bytes, records, kept } => {
                write!(f, "{}: cut off {bytes} unsynced bytes at offset {at}", file.display())?;
                match kept {
                    Some(kept) => {
                        write!(f, "; {records} records among them are kept in {}", kept.display())
                    }
                    None => Ok(()),
                }
            }
            Self::UnbegunSegment { file } => {
                write!(f, "{}: removed, no record in it was ever synced", file.display())
            }
            Self::JournalBehindSnapshot { last_seq, through_seq } => write!(
                f,
                "journal ends at record {last_seq}, snapshot covers {through_seq}; history has a gap, state has none"
            ),
            Self::Rewritten { file } => {
                write!(f, "{}: written anew after a sync that had failed", file.display())
            }
            Self::OldSnapshot { file, why } => {
                write!(f, "{}: {why}; used the previous snapshot", file.display())
            }
            Self::SpoolDamage { file, at, bytes } => {
                write!(f, "{}: {bytes} bytes at offset {at} are no record", file.display())
            }
        }
    }
}
