//! Reads the journal in pieces: nothing is read twice, and little is held in memory.

use super::error::JournalError;
use super::load::first_seqs;
use crate::disk::Disk;
use crate::segment::{OWN_PREFIX, check_version, file_name};
use coord_wire::frame::{self, Frame, Frames};
use std::path::Path;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1024 * 1024;

/// Records with their numbers, and the number of bytes that they and the frames between them take.
type Taken = (Vec<(u64, Vec<u8>)>, usize);

/// A position in the journal, to read what comes after it.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// The segment, by its first record; none before the first read.
    segment: Option<u64>,
    /// Bytes of the segment that were already read.
    offset: u64,
    /// The number of the next record.
    next_seq: u64,
    /// Records before this one are skipped.
    from_seq: u64,
}

impl Cursor {
    /// A cursor before record `from_seq`, or before the oldest later one that still exists.
    pub fn before(from_seq: u64) -> Self {
        Self { segment: None, offset: 0, next_seq: 0, from_seq }
    }

    /// Reads the next records with their numbers, and moves after them. Returns none if there are
    /// no more yet. One call reads about a megabyte. The caller must hold the shared state lock, or
    /// be prepared for the oldest segments to vanish.
    ///
    /// # Errors
    /// The disk refused, or a segment other than the last is damaged.
    pub fn read<D: Disk>(
        &mut self,
        disk: &D,
        dir: &Path,
    ) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
        let firsts = first_seqs(disk, dir)?;
        let mut piece_bytes = PIECE_BYTES;
        loop {
            let Some(first) = self.place(&firsts) else { return Ok(Vec::new()) };
            let path = dir.join(file_name(first));
            let bytes = match disk.read_at(&path, self.offset, piece_bytes) {
                Ok(bytes) => bytes,
                Err(source) => return Err(JournalError::Io { path, operation: "read", source }),
            };
            let (records, used) = self.take(&path, &bytes)?;
            let is_end = bytes.len() < piece_bytes;
            if used == 0 && !is_end && piece_bytes <= frame::PAYLOAD_BYTES_MAX {
                // The record is longer than the piece.
                piece_bytes *= 2;
                continue;
            }
            if !records.is_empty() {
                return Ok(records);
            }
            if 0 < used && !is_end {
                continue;
            }
            let Some(later) = firsts.iter().copied().find(|later| first < *later) else {
                return Ok(records);
            };
            if used < bytes.len() {
                let (at, bytes) = (self.offset, (bytes.len() - used) as u64);
                let before = usize::try_from(self.next_seq - first).unwrap_or(usize::MAX);
                return Err(JournalError::Damaged { file: path, at, bytes, before, behind: 0 });
            }
            (self.segment, self.offset, self.next_seq) = (Some(later), 0, later);
        }
    }

    /// The segment to read from: the present one, or the one that contains the first wanted record.
    fn place(&mut self, firsts: &[u64]) -> Option<u64> {
        if let Some(first) = self.segment.filter(|first| firsts.contains(first)) {
            return Some(first);
        }
        let wanted = self.from_seq.max(self.next_seq);
        let holder = firsts.iter().rfind(|first| **first <= wanted).or(firsts.first());
        let first = *holder?;
        (self.segment, self.offset, self.next_seq) = (Some(first), 0, first);
        Some(first)
    }

    /// The wanted records at the beginning of `bytes`, and the number of bytes that were used.
    fn take(&mut self, path: &Path, bytes: &[u8]) -> Result<Taken, JournalError> {
        let (mut records, mut used) = (Vec::new(), 0);
        for frame in Frames::new(bytes, 0) {
            let Frame::Record { at, payload } = frame else { break };
            used = at + frame::HEAD_BYTES + payload.len();
            if payload.starts_with(OWN_PREFIX) {
                check_version(path, payload)?;
                continue;
            }
            if self.from_seq <= self.next_seq {
                records.push((self.next_seq, payload.to_vec()));
            }
            self.next_seq += 1;
        }
        self.offset += used as u64;
        // If the segment is read again from its start, records that were returned before are
        // skipped.
        self.from_seq = self.from_seq.max(self.next_seq);
        Ok((records, used))
    }
}
