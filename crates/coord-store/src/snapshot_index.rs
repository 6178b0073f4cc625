//! Finds one entry of a snapshot without loading it, to show the state when no coordinator runs: it
//! needs the same few small reads for ten sessions and for ten thousand.
//!
//! The format is in [`crate::snapshot`]. The index falls back to the old snapshot in the same
//! cases, judged by the parts that it reads. A newer version is refused there as well as here.

use crate::disk::Disk;
use crate::snapshot::{
    CURRENT, OLD, Place, SnapshotError, TRAILER_BYTES, Trailer, cut_key, on, through_seq,
};
use coord_wire::frame;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes at the end that are read at once: the trailer, and with it the page of pages of up to some
/// 15,000 keys.
const END_BYTES: usize = 16 * 1024;
/// Longest first frame, in bytes.
const FIRST_BYTES: usize = 128;

/// An open snapshot. The caller must hold the shared state lock while using it.
#[derive(Debug)]
pub struct SnapshotIndex<D> {
    disk: D,
    path: PathBuf,
    /// The last record of the journal that the snapshot covers.
    pub through_seq: u64,
    header: Place,
    /// The first key and the position of each page of keys.
    pages: Vec<Row>,
}

impl<D: Disk> SnapshotIndex<D> {
    /// Opens the snapshot of the state directory, or the previous one; none in a new store.
    pub fn open(disk: &D, dir: &Path) -> Result<Option<Self>, SnapshotError> {
        let (current, old) = (dir.join(CURRENT), dir.join(OLD));
        let mut damaged = None;
        for path in [current, old] {
            match open_one(disk, &path) {
                Ok(Some(index)) => return Ok(Some(index)),
                Ok(None) => damaged = damaged.or(Some(path)),
                Err(SnapshotError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        damaged.map_or(Ok(None), |file| Err(SnapshotError::Damaged { file }))
    }

    /// The header's bytes.
    pub fn header(&self) -> Result<Vec<u8>, SnapshotError> {
        self.payload(self.header)
    }

    /// The entries with a key that begins with `prefix`, each once.
    pub fn find(&self, prefix: &str) -> Result<Vec<Vec<u8>>, SnapshotError> {
        let prefix = cut_key(prefix);
        // The last page with a smaller first key may end with matches; the first keys of later
        // matching pages begin with the prefix.
        let begin = self.pages.partition_point(|page| page.key.as_slice() < prefix);
        let mut found: Vec<Place> = Vec::new();
        for (n, page) in self.pages.iter().enumerate().skip(begin.saturating_sub(1)) {
            if begin <= n && !page.key.starts_with(prefix) {
                break;
            }
            for Row { key, place } in rows(&self.payload(page.place)?) {
                if key.starts_with(prefix) && !found.contains(&place) {
                    found.push(place);
                }
            }
        }
        found.into_iter().map(|place| self.payload(place)).collect()
    }

    fn payload(&self, place: Place) -> Result<Vec<u8>, SnapshotError> {
        let len_max = frame::HEAD_BYTES + frame::PAYLOAD_BYTES_MAX;
        let len = usize::try_from(place.len).unwrap_or(0).min(len_max);
        let bytes = self.disk.read_at(&self.path, place.at, len).map_err(on(&self.path, "read"))?;
        let payload = frame::record_at(&bytes, 0);
        payload
            .map(<[u8]>::to_vec)
            .ok_or_else(|| SnapshotError::Damaged { file: self.path.clone() })
    }
}

/// Opens one file; none if a required part of it is damaged.
fn open_one<D: Disk>(disk: &D, path: &Path) -> Result<Option<SnapshotIndex<D>>, SnapshotError> {
    let first = disk.read_at(path, 0, FIRST_BYTES).map_err(on(path, "read"))?;
    let Some(through_seq) = through_seq(path, &first)? else { return Ok(None) };
    let len = disk.len(path).map_err(on(path, "read"))?;
    let end_at = len.saturating_sub(END_BYTES as u64);
    let end = disk.read_at(path, end_at, END_BYTES).map_err(on(path, "read"))?;
    let trailer_at = end.len().saturating_sub(TRAILER_BYTES);
    let Some(trailer) = end.get(trailer_at..).and_then(Trailer::parse) else { return Ok(None) };
    let header = trailer.header;
    let mut index = SnapshotIndex {
        disk: disk.clone(),
        path: path.to_path_buf(),
        through_seq,
        header,
        pages: Vec::new(),
    };
    let in_end = trailer.top.at.checked_sub(end_at).and_then(|at| usize::try_from(at).ok());
    let top = match in_end.and_then(|at| frame::record_at(&end, at)) {
        Some(top) => top.to_vec(),
        None => match index.payload(trailer.top) {
            Err(SnapshotError::Damaged { .. }) => return Ok(None),
            other => other?,
        },
    };
    index.pages = rows(&top);
    Ok(Some(index))
}

/// A key, and the frame to which it leads.
#[derive(Debug)]
struct Row {
    key: Vec<u8>,
    place: Place,
}

/// The rows of a page of keys.
fn rows(page: &[u8]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut rest = page;
    while let Some((row, behind)) = row(rest) {
        rows.push(row);
        rest = behind;
    }
    rows
}

fn row(bytes: &[u8]) -> Option<(Row, &[u8])> {
    let (key_len, bytes) = bytes.split_first_chunk::<2>()?;
    let (key, bytes) = bytes.split_at_checked(usize::from(u16::from_le_bytes(*key_len)))?;
    let (at, bytes) = bytes.split_first_chunk::<8>()?;
    let (len, bytes) = bytes.split_first_chunk::<4>()?;
    let place = Place { at: u64::from_le_bytes(*at), len: u64::from(u32::from_le_bytes(*len)) };
    Some((Row { key: key.to_vec(), place }, bytes))
}
