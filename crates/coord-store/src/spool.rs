//! The reading side of the spool: what hooks wrote while no coordinator took their events. The
//! layout stands in [`coord_wire::spool`]; this is how it is emptied (G1, G2, H-29).
//!
//! [`Spool::take`] renames `current` away under its lock, so that no hook is writing to it then or
//! later. What was renamed is read, journaled and synced by the caller, and only then removed: a
//! crash in between brings the records a second time, and their event ids make that harmless.
//! Nothing in the spool is synced; what a power loss leaves of it is read as far as it is whole.
//!
//! A `solo-` file without a whole record may belong to a hook that is about to write it. It is
//! left alone for a day and removed then. Nothing is decided here about what a record means.

use crate::disk::{Disk, DiskFile};
use crate::finding::Finding;
use coord_wire::frame::{self, Frame, Frames};
use coord_wire::spool::{
    CRASHES, CURRENT, DRAIN_PREFIX, FOLDED_AT, HEADER_BYTES, HEADER_MAGIC, MALFORMED, RECORDS_AT,
    SOLO_PREFIX,
};
use coord_wire::stamp::WallMs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A solo file without a whole record is given up after this.
const UNFINISHED_KEPT_MS: u64 = 24 * 3_600_000;
/// Digits of a drained file's number, so that names sort as numbers.
const DRAIN_DIGITS: usize = 20;

/// The spool of one state directory.
#[derive(Debug)]
pub struct Spool<D> {
    disk: D,
    dir: PathBuf,
}

/// What became of `current`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// There was nothing in it.
    Empty,
    /// It is a drained file now.
    Taken,
    /// A hook holds its lock; try again soon.
    Busy,
}

/// The content of one file of the spool.
#[derive(Debug)]
pub struct Drained {
    /// The file's name, for [`Spool::remove`].
    pub file: String,
    /// Tool events that were counted instead of being written (H-29).
    pub folded: u64,
    /// Bytes that were no record.
    pub findings: Vec<Finding>,
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
}

impl Drained {
    /// The records, in the order in which they were written.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter().map(|span| self.bytes.get(span.clone()).unwrap_or_default())
    }
}

impl<D: Disk> Spool<D> {
    /// The spool in `dir`.
    pub fn new(disk: D, dir: &Path) -> Self {
        Self { disk, dir: dir.to_path_buf() }
    }

    /// Takes `current` away from the hooks. It never waits: a hook may have been stopped with the
    /// lock in its hands.
    pub fn take(&self) -> io::Result<Taken> {
        let names = self.names()?;
        if !names.iter().any(|name| name == CURRENT) {
            return Ok(Taken::Empty);
        }
        let current = self.dir.join(CURRENT);
        let file = self.disk.open_append(&current)?;
        if !file.try_lock()? {
            return Ok(Taken::Busy);
        }
        let header = self.disk.read_at(&current, 0, HEADER_BYTES)?;
        // Hooks begin a shorter file anew. One with a header that is none they cannot use, so it
        // is taken away whatever it holds.
        let is_spool = header.starts_with(&HEADER_MAGIC) || header.len() < HEADER_BYTES;
        if is_spool && file.len()? <= HEADER_BYTES as u64 && number_at(&header, FOLDED_AT) == 0 {
            return Ok(Taken::Empty);
        }
        let numbers = names.iter().filter_map(|name| name.strip_prefix(DRAIN_PREFIX)?.parse().ok());
        let number = numbers.max().unwrap_or(0u64) + 1;
        let drained = format!("{DRAIN_PREFIX}{number:0DRAIN_DIGITS$}");
        self.disk.rename(&current, &self.dir.join(drained))?;
        Ok(Taken::Taken)
    }

    /// All that was taken, oldest first, then the single records; each file is read when the
    /// iterator comes to it. `now` is wall time.
    pub fn drained(&self, now: WallMs) -> io::Result<impl Iterator<Item = io::Result<Drained>>> {
        let names = self.names()?;
        let (solos, drains): (Vec<_>, Vec<_>) = names
            .into_iter()
            .filter(|name| name.starts_with(DRAIN_PREFIX) || name.starts_with(SOLO_PREFIX))
            .partition(|name| name.starts_with(SOLO_PREFIX));
        let drains = drains.into_iter().map(|name| self.read(&name));
        let solos = solos.into_iter().filter_map(move |name| self.solo(&name, now).transpose());
        Ok(drains.chain(solos))
    }

    /// What stands in one file of the spool, also in `malformed` and `crashes`.
    pub fn read(&self, name: &str) -> io::Result<Drained> {
        let path = self.dir.join(name);
        let bytes = self.disk.read(&path)?;
        let has_header = bytes.starts_with(&HEADER_MAGIC);
        let folded = if has_header { number_at(&bytes, FOLDED_AT) } else { 0 };
        let begin = if has_header { HEADER_BYTES.min(bytes.len()) } else { 0 };
        let (mut records, mut findings) = (Vec::new(), Vec::new());
        for frame in Frames::new(&bytes, begin) {
            match frame {
                Frame::Record { at, payload } => {
                    let from = at + frame::HEAD_BYTES;
                    records.push(from..from + payload.len());
                }
                Frame::Damaged { at, bytes } | Frame::Torn { at, bytes } => {
                    findings.push(Finding::SpoolDamage {
                        file: path.clone(),
                        at: at as u64,
                        bytes: bytes as u64,
                    });
                }
            }
        }
        Ok(Drained { file: name.to_owned(), folded, findings, bytes, records })
    }

    /// Removes a drained file; its records must be synced in the journal.
    pub fn remove(&self, file: &str) -> io::Result<()> {
        self.disk.remove(&self.dir.join(file))
    }

    /// Records that wait in the spool, by the files' own counters.
    pub fn pending(&self) -> io::Result<u64> {
        let mut pending = 0;
        for name in self.names()? {
            if name == CURRENT || name.starts_with(DRAIN_PREFIX) {
                pending += self.header_count(&name, RECORDS_AT)?;
            } else if name.starts_with(SOLO_PREFIX) {
                pending += 1;
            }
        }
        Ok(pending)
    }

    /// Payloads that were none, kept for diagnosis.
    pub fn malformed(&self) -> io::Result<u64> {
        self.header_count(MALFORMED, RECORDS_AT)
    }

    /// Panics of hooks.
    pub fn crashes(&self) -> io::Result<u64> {
        self.header_count(CRASHES, RECORDS_AT)
    }

    /// A solo file's record; none while its hook may still be writing it.
    fn solo(&self, name: &str, now: WallMs) -> io::Result<Option<Drained>> {
        let drained = self.read(name)?;
        if drained.records().len() != 0 {
            return Ok(Some(drained));
        }
        let path = self.dir.join(name);
        if UNFINISHED_KEPT_MS < now.saturating_sub(self.disk.modified(&path)?) {
            self.disk.remove(&path)?;
        }
        Ok(None)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        match self.disk.list(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }

    /// One of a header's counters; 0 where the file or its header is missing.
    fn header_count(&self, name: &str, at: u64) -> io::Result<u64> {
        match self.disk.read_at(&self.dir.join(name), 0, 24) {
            Ok(header) if header.starts_with(&HEADER_MAGIC) => Ok(number_at(&header, at)),
            Ok(_) => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// The little-endian number at `at`; 0 where the file is too short.
fn number_at(bytes: &[u8], at: u64) -> u64 {
    let from = usize::try_from(at).unwrap_or(usize::MAX);
    let number = bytes.get(from..).and_then(|rest| rest.first_chunk::<8>());
    number.map_or(0, |number| u64::from_le_bytes(*number))
}
