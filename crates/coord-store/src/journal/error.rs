//! The errors of the journal, each with its remedy.

use coord_model::STORE_VERSION;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why the journal cannot be opened or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum JournalError {
    /// The disk refused.
    Io {
        /// File or directory.
        path: PathBuf,
        /// The operation that failed: read, sync, …
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A newer coordinator wrote the journal.
    Newer {
        /// The file with the newer version.
        file: PathBuf,
        /// The store version of the file.
        found: u32,
    },
    /// Bytes that were durable are no longer records.
    Damaged {
        /// The segment.
        file: PathBuf,
        /// Offset of the first bad byte.
        at: u64,
        /// Number of bad bytes before the next record or the end.
        bytes: u64,
        /// Complete records of this segment before the damage.
        before: usize,
        /// Complete records of this segment after the damage.
        behind: usize,
    },
    /// Records after the snapshot are missing.
    Gap {
        /// The journal's directory.
        dir: PathBuf,
        /// The first missing record.
        first: u64,
        /// The last missing record.
        last: u64,
    },
    /// Two segments contain the same records.
    Overlap {
        /// The later segment.
        file: PathBuf,
        /// The number that the first record of that segment should have.
        expected: u64,
    },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, operation, .. } => write!(f, "cannot {operation} {}", path.display()),
            Self::Newer { file, found } => write!(
                f,
                "{} is of store version {found}, this program knows {STORE_VERSION}: run the newer coord, or move the state directory aside to start over",
                file.display()
            ),
            Self::Damaged { file, at, bytes, before, behind } => write!(
                f,
                "{} is damaged at offset {at} ({bytes} bytes): {before} records before and {behind} after it can be saved; keep a copy, then move the state directory aside to start over",
                file.display()
            ),
            Self::Gap { dir, first, last } => write!(
                f,
                "records {first} to {last} are missing in {}: put their segments back, or move the state directory aside to start over",
                dir.display()
            ),
            Self::Overlap { file, expected } => write!(
                f,
                "{} begins before record {expected}, where it should: move it out of the journal",
                file.display()
            ),
        }
    }
}

impl std::error::Error for JournalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Newer { .. } | Self::Damaged { .. } | Self::Gap { .. } | Self::Overlap { .. } => {
                None
            }
        }
    }
}

/// Why a record was refused. No part of it is then in the journal.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The disk is full; the next record is attempted again.
    Full {
        /// The segment.
        file: PathBuf,
    },
    /// The disk refused; the next record is attempted again.
    Failed {
        /// The segment.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A sync or a repair failed: the content of the disk is unknown, and nothing is accepted until
    /// the journal is reopened.
    ReadOnly {
        /// The journal's directory.
        dir: PathBuf,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { file } => {
                write!(f, "{}: no space left; free some on its file system", file.display())
            }
            Self::Failed { file, .. } => write!(f, "cannot append to {}", file.display()),
            Self::ReadOnly { dir } => write!(
                f,
                "{} is read-only since a sync failed: check the disk; the coordinator reopens it as soon as it can",
                dir.display()
            ),
        }
    }
}

impl std::error::Error for AppendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed { source, .. } => Some(source),
            Self::Full { .. } | Self::ReadOnly { .. } => None,
        }
    }
}
