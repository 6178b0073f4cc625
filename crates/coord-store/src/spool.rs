//! The reading side of the spool: empties what hooks wrote while no coordinator accepted their
//! events (G1, G2, H-29). The layout is in [`coord_wire::spool`].
//!
//! [`Spool::take`] renames `current` under its lock, so that no hook writes to it then or later.
//! The caller reads, journals and syncs what was renamed, and only then removes it. A crash in
//! between delivers the records a second time, and their event ids make that harmless. Nothing in
//! the spool is synced; what a power loss leaves is read as far as it is complete.
//!
//! A running coordinator reads the files in pieces ([`Spool::piece`]). Each piece needs a bounded
//! amount of memory and work, whatever the file contains. A file that is longer than hooks write is
//! read up to that length, and then set aside ([`Spool::set_aside`]) instead of being removed.
//!
//! A `solo-` file without a complete record may belong to a hook that is about to write it. It is
//! left alone for a day, and then removed. This module does not decide what a record means.

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

/// Age at which a solo file without a complete record is given up, in milliseconds.
const UNFINISHED_KEPT_MS: u64 = 24 * 3_600_000;
/// Digits of a drained file's number, so that names sort as numbers.
const DRAIN_DIGITS: usize = 20;
/// Name under which a file that is longer than hooks write is set aside; only the newest is kept.
const TOO_LONG: &str = "too-long";
/// Longest piece, in bytes.
const PIECE_BYTES: usize = 256 * 1024;
/// Most records in a piece.
const PIECE_RECORDS: usize = 100;
/// Longest payload, in bytes; hooks write none longer, so a longer one is damage.
const PAYLOAD_BYTES_MAX: usize = ENVELOPE_BYTES_MAX + 4 * 1024;
/// Bytes passed through a checksum after which a piece ends, because heads of records may overlap.
const CHECKED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The spool of one state directory.
#[derive(Debug)]
pub struct Spool<D> {
    disk: D,
    dir: PathBuf,
}

/// What happened to `current`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was empty.
    Empty,
    /// It is now a drained file.
    Taken,
    /// A hook holds its lock; try again soon.
    Busy,
}

/// The content of one file of the spool.
#[derive(Debug)]
pub struct Drained {
    /// The name of the file, for [`Spool::remove`].
    pub file: String,
    /// Tool events that were counted instead of being written (H-29).
    pub folded: u64,
    /// Bytes that are no record.
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
    /// Tool events that were counted instead of being written (H-29); reported with the first
    /// piece.
    pub folded: u64,
    /// Number of bytes that are no record.
    pub damaged: u64,
    /// The offset of the next piece; none at the end of the file.
    pub next: Option<u64>,
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
}

impl Piece {
    /// The records, in the order in which they were written.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter().map(|span| self.bytes.get(span.clone()).unwrap_or_default())
    }

    /// Finds the records from `begin` on, and returns where it stopped. Bytes at the end of the
    /// piece that may begin a record are left to the next piece, unless the file ends there.
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

/// What may begin at one position of a piece.
enum HeadAt {
    /// A record with a payload of this length, if its checksum is correct.
    Record(usize),
    /// A record that continues after the piece.
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

/// The offset from `from` on at which the next record may begin.
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

    /// Takes `current` away from the hooks. It never waits: a hook may have been stopped while it
    /// holds the lock.
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
        // Hooks reinitialize a shorter file. One with an invalid header is useless to them, so it
        // is taken whatever it contains.
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

    /// Everything that was taken, oldest first, then the single records. Each file is read when the
    /// iterator reaches it. `now` is wall time.
    pub fn drained(&self, now: WallMs) -> io::Result<impl Iterator<Item = io::Result<Drained>>> {
        Ok(self.files()?.into_iter().filter_map(move |name| {
            if name.starts_with(SOLO_PREFIX) {
                self.solo(&name, now).transpose()
            } else {
                Some(self.read(&name))
            }
        }))
    }

    /// The names of the files that were taken, oldest first, then those of the single records.
    pub fn files(&self) -> io::Result<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| name.starts_with(DRAIN_PREFIX) || name.starts_with(SOLO_PREFIX));
        names.sort_by_key(|name| name.starts_with(SOLO_PREFIX));
        Ok(names)
    }

    /// Reads the part of a file that begins at `at`: 0, or the end of the previous piece.
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

    /// Whether a file without a complete record may still get one: it is a solo file, and its hook
    /// may be about to write it. A file older than a day is removed.
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

    /// The path and length of the file that was set aside because it was longer than hooks write.
    pub fn set_aside(&self) -> Option<(PathBuf, u64)> {
        let path = self.dir.join(TOO_LONG);
        self.disk.len(&path).ok().map(|len| (path, len))
    }

    /// Reads one file of the spool, also `malformed` and `crashes`, up to the length that hooks
    /// write.
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

    /// Removes a drained file, whose records must be synced in the journal. A file that is longer
    /// than hooks write is set aside instead, because nobody has read the rest.
    pub fn remove(&self, file: &str) -> io::Result<()> {
        let path = self.dir.join(file);
        if SPOOL_FILE_BYTES_MAX < self.disk.len(&path)? {
            return self.disk.rename(&path, &self.dir.join(TOO_LONG));
        }
        self.disk.remove(&path)
    }

    /// The number of records in the spool, by the files' own counters.
    pub fn pending(&self) -> io::Result<u64> {
        let mut pending = 0_u64;
        for name in self.names()? {
            if name == CURRENT || name.starts_with(DRAIN_PREFIX) {
                // A damaged header may contain any number.
                pending = pending.saturating_add(self.header_count(&name, RECORDS_AT)?);
            } else if name.starts_with(SOLO_PREFIX) {
                pending = pending.saturating_add(1);
            }
        }
        Ok(pending)
    }

    /// The number of malformed payloads that are kept for diagnosis.
    pub fn malformed(&self) -> io::Result<u64> {
        self.header_count(MALFORMED, RECORDS_AT)
    }

    /// The number of panics of hooks.
    pub fn crashes(&self) -> io::Result<u64> {
        self.header_count(CRASHES, RECORDS_AT)
    }

    /// The record of a solo file; none while its hook may still be writing it.
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

    /// One of the counters of a header; 0 if the file or its header is missing.
    fn header_count(&self, name: &str, at: u64) -> io::Result<u64> {
        match self.disk.read_at(&self.dir.join(name), 0, 24) {
            Ok(header) if header.starts_with(&HEADER_MAGIC) => Ok(number_at(&header, at)),
            Ok(_) => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// The little-endian number at `at`; 0 if the file is too short.
fn number_at(bytes: &[u8], at: u64) -> u64 {
    let from = usize::try_from(at).unwrap_or(usize::MAX);
    let number = bytes.get(from..).and_then(|rest| rest.first_chunk::<8>());
    number.map_or(0, |number| u64::from_le_bytes(*number))
}
