//! The reading side of the spool: what hooks wrote while no coordinator took their events. The
//! layout stands in [`coord_wire::spool`]; this is how it is emptied (G1, G2, H-29).
//!
//! [`Spool::take`] renames `current` away under its lock, so that no hook is writing to it then or
//! later. What was renamed is read, journaled and synced by the caller, and only then removed: a
//! crash in between brings the records a second time, and their event ids make that harmless.
//! Nothing in the spool is synced; what a power loss leaves of it is read as far as it is whole.
//!
//! A running coordinator reads the files in pieces ([`Spool::piece`]), each of which costs a bounded
//! amount of memory and work, whatever stands in the file. A file that is longer than hooks write is
//! read as far as hooks write and then set aside ([`Spool::set_aside`]) instead of being removed.
//!
//! A `solo-` file without a whole record may belong to a hook that is about to write it. It is
//! left alone for a day and removed then. Nothing is decided here about what a record means.

use crate::disk::{Disk, DiskFile};
use crate::finding::Finding;
use coord_model::envelope::ENVELOPE_BYTES_MAX;
use coord_model::stamp::WallMs;
use coord_wire::frame::{self, Frame, Frames};
use coord_wire::limits::SPOOL_FILE_BYTES_MAX;
use coord_wire::spool::{
    CRASHES, CURRENT, DRAIN_PREFIX, FOLDED_AT, HEADER_BYTES, HEADER_MAGIC, MALFORMED, RECORDS_AT,
    SOLO_PREFIX,
};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A solo file without a whole record is given up after this.
const UNFINISHED_KEPT_MS: u64 = 24 * 3_600_000;
/// Digits of a drained file's number, so that names sort as numbers.
const DRAIN_DIGITS: usize = 20;
/// Where a file goes that is longer than hooks write: the newest one only.
const TOO_LONG: &str = "too-long";
/// A piece is no longer than this, in bytes.
const PIECE_BYTES: usize = 256 * 1024;
/// A piece has no more records than this.
const PIECE_RECORDS: usize = 100;
/// A longer payload is damage, in bytes: hooks write none.
const PAYLOAD_BYTES_MAX: usize = ENVELOPE_BYTES_MAX + 4 * 1024;
/// A piece ends once this many bytes went through a checksum: heads of records may overlap.
const CHECKED_BYTES_MAX: usize = 4 * 1024 * 1024;

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

/// A part of one file of the spool.
#[derive(Debug)]
pub struct Piece {
    /// Tool events that were counted instead of being written (H-29); the first piece has them.
    pub folded: u64,
    /// Bytes that were no record.
    pub damaged: u64,
    /// Where the next piece begins; none at the end of the file.
    pub next: Option<u64>,
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
}

impl Piece {
    /// The records, in the order in which they were written.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter().map(|span| self.bytes.get(span.clone()).unwrap_or_default())
    }

    /// Finds the records from `begin` on; returns where it stopped. Bytes at the end of the piece that
    /// may be the beginning of a record are left to the next piece, unless the file ends there.
    fn scan(&mut self, begin: usize, is_end: bool) -> usize {
        let (mut at, mut checked) = (begin, 0);
        while at < self.bytes.len()
            && self.records.len() < PIECE_RECORDS
            && checked < CHECKED_BYTES_MAX
        {
            match head_at(&self.bytes, at) {
                HeadAt::Record(len) => {
                    checked += frame::HEAD_BYTES + len;
                    if frame::record_at(&self.bytes, at).is_some() {
                        let from = at + frame::HEAD_BYTES;
                        self.records.push(from..from + len);
                        at = from + len;
                        continue;
                    }
                }
                HeadAt::Cut if !is_end => return at,
                HeadAt::Cut | HeadAt::None => (),
            }
            let next = next_head(&self.bytes, at + 1);
            self.damaged += (next - at) as u64;
            at = next;
        }
        at
    }
}

/// What may begin at one place of a piece.
enum HeadAt {
    /// A record with a payload of this length, if its checksum is right.
    Record(usize),
    /// A record that goes on behind the piece.
    Cut,
    /// No record.
    None,
}

fn head_at(bytes: &[u8], at: usize) -> HeadAt {
    let rest = bytes.get(at..).unwrap_or_default();
    let magic = rest.get(..frame::MAGIC.len().min(rest.len())).unwrap_or_default();
    if !frame::MAGIC.starts_with(magic) {
        return HeadAt::None;
    }
    let Some(head) = rest.first_chunk::<{ frame::HEAD_BYTES }>() else { return HeadAt::Cut };
    let [_, _, _, _, a, b, c, d, ..] = *head;
    let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if PAYLOAD_BYTES_MAX < len {
        HeadAt::None
    } else if rest.len() < frame::HEAD_BYTES + len {
        HeadAt::Cut
    } else {
        HeadAt::Record(len)
    }
}

/// Where the next record may begin, from `from` on.
fn next_head(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let first = frame::MAGIC[0];
    let is_one = |at: &usize| !matches!(head_at(bytes, from + at), HeadAt::None);
    let found = rest.iter().enumerate().filter(|(_, byte)| **byte == first).map(|(at, _)| at);
    found.into_iter().find(is_one).map_or(bytes.len(), |at| from + at)
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
        Ok(self.files()?.into_iter().filter_map(move |name| {
            if name.starts_with(SOLO_PREFIX) {
                self.solo(&name, now).transpose()
            } else {
                Some(self.read(&name))
            }
        }))
    }

    /// The names of the files that were taken, oldest first, then of the single records.
    pub fn files(&self) -> io::Result<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| name.starts_with(DRAIN_PREFIX) || name.starts_with(SOLO_PREFIX));
        names.sort_by_key(|name| name.starts_with(SOLO_PREFIX));
        Ok(names)
    }

    /// The part of a file that begins at `at`: 0, or where the piece before ended.
    pub fn piece(&self, name: &str, at: u64) -> io::Result<Piece> {
        let path = self.dir.join(name);
        let len = self.disk.len(&path)?.min(SPOOL_FILE_BYTES_MAX);
        let rest = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
        let bytes = self.disk.read_at(&path, at, PIECE_BYTES.min(rest))?;
        let has_header = at == 0 && bytes.starts_with(&HEADER_MAGIC);
        let folded = if has_header { number_at(&bytes, FOLDED_AT) } else { 0 };
        let begin = if has_header { HEADER_BYTES.min(bytes.len()) } else { 0 };
        let is_end = rest <= bytes.len() || bytes.is_empty();
        let mut piece = Piece { folded, damaged: 0, next: None, bytes, records: Vec::new() };
        let stopped = piece.scan(begin, is_end);
        let is_over = is_end && piece.bytes.len() <= stopped;
        piece.next = (!is_over).then(|| at + stopped as u64);
        Ok(piece)
    }

    /// Whether a file without a whole record may still get one: it is a solo file, and its hook may be
    /// about to write it. One that is older than a day is removed.
    pub fn is_unfinished(&self, name: &str, now: WallMs) -> io::Result<bool> {
        if !name.starts_with(SOLO_PREFIX) {
            return Ok(false);
        }
        let path = self.dir.join(name);
        if UNFINISHED_KEPT_MS < now.saturating_sub(self.disk.modified(&path)?) {
            self.disk.remove(&path)?;
        }
        Ok(true)
    }

    /// The file that was set aside because it was longer than hooks write: path and length.
    pub fn set_aside(&self) -> Option<(PathBuf, u64)> {
        let path = self.dir.join(TOO_LONG);
        self.disk.len(&path).ok().map(|len| (path, len))
    }

    /// What stands in one file of the spool, also in `malformed` and `crashes`, as far as hooks write.
    pub fn read(&self, name: &str) -> io::Result<Drained> {
        let path = self.dir.join(name);
        let bytes_max = usize::try_from(SPOOL_FILE_BYTES_MAX).unwrap_or(usize::MAX);
        let bytes = self.disk.read_at(&path, 0, bytes_max)?;
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

    /// Removes a drained file; its records must be synced in the journal. One that is longer than
    /// hooks write is set aside instead: nobody has read the rest.
    pub fn remove(&self, file: &str) -> io::Result<()> {
        let path = self.dir.join(file);
        if SPOOL_FILE_BYTES_MAX < self.disk.len(&path)? {
            return self.disk.rename(&path, &self.dir.join(TOO_LONG));
        }
        self.disk.remove(&path)
    }

    /// Records that wait in the spool, by the files' own counters.
    pub fn pending(&self) -> io::Result<u64> {
        let mut pending = 0_u64;
        for name in self.names()? {
            if name == CURRENT || name.starts_with(DRAIN_PREFIX) {
                // A damaged header may count to the end of its type.
                pending = pending.saturating_add(self.header_count(&name, RECORDS_AT)?);
            } else if name.starts_with(SOLO_PREFIX) {
                pending = pending.saturating_add(1);
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
        self.is_unfinished(name, now)?;
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
