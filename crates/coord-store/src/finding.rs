//! What opening the store found and handled: nothing accepted was lost, but people should know.
//! Each finding is shown as one line.

use std::fmt;
use std::path::PathBuf;

/// An irregularity that did not prevent opening the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The last segment ended in bytes that no sync had covered; they were cut off.
    TornTail {
        /// The segment.
        file: PathBuf,
        /// Offset of the first bad byte, which is now the file's length.
        at: u64,
        /// Number of bytes cut off.
        bytes: u64,
        /// Complete records among them, after a hole.
        records: usize,
        /// The file in which those bytes were kept, if there were complete records.
        kept: Option<PathBuf>,
    },
    /// The last segment had been created, but nothing in it was ever synced; it was removed.
    UnbegunSegment {
        /// The segment.
        file: PathBuf,
    },
    /// The journal ends before the snapshot does; it continues after the snapshot.
    JournalBehindSnapshot {
        /// The last record of the journal.
        last_seq: u64,
        /// The last record that the snapshot covers.
        through_seq: u64,
    },
    /// An earlier coordinator could not sync; its last segment was rewritten.
    Rewritten {
        /// The segment.
        file: PathBuf,
    },
    /// The previous snapshot was used instead of the newest one.
    OldSnapshot {
        /// The snapshot that could not be used.
        file: PathBuf,
        /// Why it could not be used.
        why: &'static str,
    },
    /// A spool file contained bytes that are no record.
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
