//! Reading the journal piece by piece: what was read is not read again, and little is held in memory.

use super::error::JournalError;
use super::load::first_seqs;
use crate::disk::Disk;
use crate::segment::{OWN_PREFIX, check_version, file_name};
use coord_wire::frame::{self, Frame, Frames};
use std::path::Path;

/// So much is read at once, in bytes.
const PIECE_BYTES: usize = 1024 * 1024;

/// Records with their numbers, and how many bytes they and what stands between them take.
type Taken = (Vec<(u64, Vec<u8>)>, usize);

/// A place in the journal, and what comes after it.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// The segment, by its first record; none before the first read.
    segment: Option<u64>,
    /// Bytes of the segment that were read.
    offset: u64,
    /// The next record.
    next_seq: u64,
    /// Records before this one are passed over.
    from_seq: u64,
}

impl Cursor {
    /// Before record `from_seq`, or the oldest one after it that is still there.
    pub fn before(from_seq: u64) -> Self {
        Self { segment: None, offset: 0, next_seq: 0, from_seq }
    }

    /// The next records with their numbers, and moves after them; none where no more are there yet. One
    /// call reads about a megabyte. Call it under the shared state lock, or be ready to find that the
    /// oldest segments are gone.
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
                // A record that is longer than the piece.
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

    /// The segment to read from: the one at hand, or the one that has the first wanted record.
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

    /// The wanted records at the beginning of `bytes`, and how many bytes are used up.
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
        // After a restart of the segment at hand, what was seen before is not told again.
        self.from_seq = self.from_seq.max(self.next_seq);
        Ok((records, used))
    }
}
