//! Loads the journal: what follows a snapshot, and history.
//!
//! It finds the segments and checks that nothing is missing; it changes nothing on disk.

use super::error::JournalError;
use crate::disk::Disk;
use crate::finding::Finding;
use crate::segment::{Segment, file_name, first_seq_of};
use coord_wire::limits::SEGMENT_FILE_BYTES_MAX;
use std::io;
use std::path::Path;

/// The records after a snapshot, and what was found while reading them.
#[derive(Debug)]
pub struct Tail {
    pub(super) segments: Vec<Segment>,
    pub(super) from_seq: u64,
    /// Irregularities, and how they were handled.
    pub report: Vec<Finding>,
}

impl Tail {
    /// Reads the tail beside a running coordinator, under the shared state lock. Bytes at the end
    /// that are no record yet are skipped: the writer may be in the middle of one.
    pub fn read<D: Disk>(disk: &D, dir: &Path, from_seq: u64) -> Result<Self, JournalError> {
        let (segments, _) = load(disk, dir, from_seq)?;
        Ok(Self { segments, from_seq, report: Vec::new() })
    }

    /// The records with their numbers, in order, all after the snapshot.
    pub fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let from_seq = self.from_seq;
        self.segments.iter().flat_map(Segment::records).filter(move |(seq, _)| from_seq < *seq)
    }
}

/// Iterates over the segments from the one that contains record `from_seq` on, oldest first, from
/// either end. Each segment is read when the iterator reaches it. A damaged segment is an error in
/// its place, and the others can still be read. The caller must hold the shared state lock.
pub fn read_segments<D: Disk>(
    disk: &D,
    dir: &Path,
    from_seq: u64,
) -> Result<impl DoubleEndedIterator<Item = Result<Segment, JournalError>>, JournalError> {
    let firsts = first_seqs(disk, dir)?;
    let last = firsts.last().copied();
    let begin = holder(&firsts, from_seq).unwrap_or(0);
    let (disk, dir) = (disk.clone(), dir.to_path_buf());
    Ok(firsts.into_iter().skip(begin).map(move |first_seq| {
        let segment = read_segment(&disk, &dir, first_seq)?;
        match segment.damage {
            Some(damage) if Some(first_seq) != last => Err(segment.damaged(damage)),
            Some(_) | None => Ok(segment),
        }
    }))
}

/// Loads the segments that contain what follows `from_seq`, checked for gaps, and the last segments
/// in which nothing was ever synced. The last segment with a header is always included, if there is
/// one.
pub(super) fn load<D: Disk>(
    disk: &D,
    dir: &Path,
    from_seq: u64,
) -> Result<(Vec<Segment>, Vec<Segment>), JournalError> {
    let mut firsts = first_seqs(disk, dir)?;
    let mut unbegun = Vec::new();
    let mut last = None;
    while let Some(first_seq) = firsts.pop() {
        let segment = read_segment(disk, dir, first_seq)?;
        if let Some(damage) = segment.loss() {
            return Err(segment.damaged(damage));
        }
        if segment.begun {
            last = Some(segment);
            break;
        }
        unbegun.push(segment);
    }
    let Some(last) = last else { return Ok((Vec::new(), unbegun)) };
    firsts.push(last.first_seq);
    let Some(begin) = holder(&firsts, from_seq + 1) else {
        let first = firsts.first().copied().unwrap_or(last.first_seq);
        return Err(gap(dir, from_seq + 1, first));
    };
    firsts.pop();
    let mut segments = Vec::new();
    for first_seq in firsts.into_iter().skip(begin) {
        let segment = read_segment(disk, dir, first_seq)?;
        if let Some(damage) = segment.damage {
            return Err(segment.damaged(damage));
        }
        segments.push(segment);
    }
    segments.push(last);
    for (earlier, later) in segments.iter().zip(segments.iter().skip(1)) {
        let expected = earlier.next_seq();
        if expected < later.first_seq {
            return Err(gap(dir, expected, later.first_seq));
        }
        if later.first_seq < expected {
            return Err(JournalError::Overlap { file: later.path.clone(), expected });
        }
    }
    Ok((segments, unbegun))
}

fn gap(dir: &Path, first: u64, next: u64) -> JournalError {
    JournalError::Gap { dir: dir.to_path_buf(), first, last: next - 1 }
}

/// The index of the segment that contains record `seq`, or would contain it if it were the next
/// one.
fn holder(firsts: &[u64], seq: u64) -> Option<usize> {
    firsts.partition_point(|first| *first <= seq).checked_sub(1)
}

/// The number of the first record of each segment, in order; none if there is no journal yet.
pub(super) fn first_seqs<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<u64>, JournalError> {
    let names = match disk.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => {
            return Err(JournalError::Io { path: dir.to_path_buf(), operation: "list", source });
        }
    };
    Ok(names.iter().filter_map(|name| first_seq_of(name)).collect())
}

/// The oldest record that is kept, and the first one of the oldest segment that was written to since a time, milliseconds
/// since 1970; 1 if there is no journal yet.
///
/// # Errors
/// The disk refused.
pub fn oldest<D: Disk>(disk: &D, dir: &Path, since_ms: u64) -> Result<(u64, u64), JournalError> {
    let firsts = first_seqs(disk, dir)?;
    let first = firsts.first().copied().unwrap_or(1);
    let mut wanted = firsts.last().copied().unwrap_or(first);
    for seq in firsts.into_iter().rev() {
        let path = dir.join(file_name(seq));
        match disk.modified(&path) {
            Ok(at) if at < since_ms => break,
            Ok(_) => wanted = seq,
            // It was pruned meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(source) => return Err(JournalError::Io { path, operation: "look at", source }),
        }
    }
    Ok((first, wanted))
}

fn read_segment<D: Disk>(disk: &D, dir: &Path, first_seq: u64) -> Result<Segment, JournalError> {
    let path = dir.join(file_name(first_seq));
    // A segment that somebody lengthened contains no more accepted records: the rest is a torn
    // tail.
    match disk.read_at(&path, 0, usize::try_from(SEGMENT_FILE_BYTES_MAX).unwrap_or(usize::MAX)) {
        Ok(bytes) => Segment::scan(path, first_seq, bytes),
        Err(source) => Err(JournalError::Io { path, operation: "read", source }),
    }
}
