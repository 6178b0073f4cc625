//! The snapshot: the state at one record of the journal, so that a start replays only the tail.
//!
//! It is one file of frames ([`coord_wire::frame`]), written whole and put in place by rename:
//!
//! | frame | payload |
//! |---|---|
//! | 1 | `{"store":1,"through_seq":N}`: store version, last record that is in it |
//! | 2 | the header, the caller's bytes |
//! | … | one entry per session, the caller's bytes |
//! | … | the blob, the caller's bytes (event ids, G2) |
//! | … | the index: pages of sorted keys, and a page with the first key of each page |
//! | last | the trailer: 8 bytes of magic, then little-endian u64 numbers: entries, and offset and length of frame 2, of the blob and of the page of pages |
//!
//! A row of the index is: length of the key (2 bytes), key, offset of the frame it leads to (8),
//! length of that frame (4). [`crate::SnapshotIndex`] finds an entry with three reads.
//!
//! To put a snapshot in place, `snapshot.tmp` is written and synced, `snapshot` becomes
//! `snapshot.old`, `snapshot.tmp` becomes `snapshot`, and the directory is synced. After a crash,
//! these cases are possible. A complete `snapshot` is used. If it is missing or damaged, the old
//! one is used, which is reported, and the journal makes up for the difference. Without either
//! file, the store is new. If there are only damaged ones, they are refused, and a newer version is
//! refused at once. A snapshot that is longer than [`SNAPSHOT_BYTES_MAX`] is damaged, and none that
//! long is written. `snapshot.tmp` is never read. A damaged `snapshot` is renamed to
//! `snapshot.damaged` before the next one is put in place, so that it does not replace the old one.
//! This module does not decide when a snapshot is taken.

use crate::disk::{Disk, DiskFile, is_too_long, too_long};
use crate::finding::Finding;
use coord_model::STORE_VERSION;
use coord_wire::frame::{self, Frame, Frames};
use coord_wire::limits::SNAPSHOT_BYTES_MAX;
use serde::Deserialize;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Name of the snapshot in the state directory.
pub(crate) const CURRENT: &str = "snapshot";
/// Name of the previous snapshot.
pub(crate) const OLD: &str = "snapshot.old";
/// Name of a snapshot that is being written.
const TMP: &str = "snapshot.tmp";
/// Name of a damaged snapshot that was set aside.
const DAMAGED: &str = "snapshot.damaged";
/// First bytes of the trailer.
const TRAILER_MAGIC: [u8; 8] = *b"CRDSNAP\n";
/// Length of the trailer's frame.
pub(crate) const TRAILER_BYTES: usize = frame::HEAD_BYTES + 8 + 7 * 8;
/// Size at which a page of keys is closed, in bytes: one read of the disk.
const PAGE_BYTES: usize = 4096;
/// Longest key, in bytes; longer keys are cut, and so are longer prefixes in a search.
pub(crate) const KEY_BYTES_MAX: usize = 512;

/// Why a snapshot cannot be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The disk refused.
    Io {
        /// File or directory.
        path: PathBuf,
        /// The operation that failed.
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A newer coordinator wrote the snapshot.
    Newer {
        /// The file.
        file: PathBuf,
        /// The store version of the snapshot.
        found: u32,
    },
    /// Neither the snapshot nor the previous one can be used.
    Damaged {
        /// The newest snapshot.
        file: PathBuf,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, operation, .. } => write!(f, "cannot {operation} {}", path.display()),
            Self::Newer { file, found } => write!(
                f,
                "{} is of store version {found}, this program knows {STORE_VERSION}: run the newer coord, or move the state directory aside to start over",
                file.display()
            ),
            Self::Damaged { file } => write!(
                f,
                "{} is damaged, and there is no older one to use: move it aside, and the journal is replayed as far back as it reaches",
                file.display()
            ),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Newer { .. } | Self::Damaged { .. } => None,
        }
    }
}

/// Builds a snapshot in memory, which can then be written on another thread.
#[derive(Debug)]
pub struct SnapshotWriter {
    bytes: Vec<u8>,
    header: Place,
    entries: u64,
    keys: Vec<(Vec<u8>, Place)>,
}

/// The position of a frame: its offset and its length, including the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl SnapshotWriter {
    /// Begins the snapshot of the state after record `through_seq`, which must be synced.
    pub fn new(through_seq: u64, header: &[u8]) -> Self {
        let mut writer =
            Self { bytes: Vec::new(), header: Place::default(), entries: 0, keys: Vec::new() };
        let first = format!("{{\"store\":{STORE_VERSION},\"through_seq\":{through_seq}}}");
        writer.push(first.as_bytes());
        writer.header = writer.push(header);
        writer
    }

    /// Adds an entry that can be found by each of `keys`, and by their prefixes.
    pub fn entry(&mut self, keys: &[&str], payload: &[u8]) {
        let place = self.push(payload);
        self.entries += 1;
        self.keys.extend(keys.iter().map(|key| (cut_key(key).to_vec(), place)));
    }

    /// Completes the snapshot with the blob, and writes and syncs it beside the current one.
    pub fn stage<D: Disk>(
        mut self,
        disk: &D,
        dir: &Path,
        blob: &[u8],
    ) -> Result<Staged<D>, SnapshotError> {
        let blob = self.push(blob);
        let top = self.push_index();
        let mut trailer = TRAILER_MAGIC.to_vec();
        for number in
            [self.entries, self.header.at, self.header.len, blob.at, blob.len, top.at, top.len]
        {
            trailer.extend_from_slice(&number.to_le_bytes());
        }
        self.push(&trailer);
        let path = dir.join(TMP);
        let bytes = self.bytes.len() as u64;
        if SNAPSHOT_BYTES_MAX < bytes {
            let source = too_long(&path, bytes, SNAPSHOT_BYTES_MAX);
            return Err(SnapshotError::Io { path, operation: "write", source });
        }
        let written = disk.open_append(&path).and_then(|mut file| {
            file.truncate(0)?;
            file.append(&self.bytes)?;
            file.sync()
        });
        if let Err(source) = written {
            // A file that is useless should not take room on a full disk; the next one overwrites
            // it.
            drop(disk.remove(&path));
            return Err(SnapshotError::Io { path, operation: "write", source });
        }
        // A damaged snapshot must not replace the old one, which may be the only good one.
        let current = dir.join(CURRENT);
        if matches!(read(disk, &current)?, Read::Damaged) {
            disk.rename(&current, &dir.join(DAMAGED)).map_err(on(&current, "rename"))?;
            disk.sync_dir(dir).map_err(on(dir, "sync"))?;
        }
        Ok(Staged { disk: disk.clone(), dir: dir.to_path_buf() })
    }

    fn push(&mut self, payload: &[u8]) -> Place {
        let at = self.bytes.len();
        frame::push(&mut self.bytes, payload);
        Place { at: at as u64, len: (self.bytes.len() - at) as u64 }
    }

    /// Writes the pages of sorted keys, and the page of their first keys.
    fn push_index(&mut self) -> Place {
        let mut keys = std::mem::take(&mut self.keys);
        keys.sort_unstable_by(|(a, a_place), (b, b_place)| (a, a_place.at).cmp(&(b, b_place.at)));
        let (mut page, mut top) = (Vec::new(), Vec::new());
        let mut first: &[u8] = &[];
        for (key, place) in &keys {
            if page.is_empty() {
                first = key;
            }
            push_row(&mut page, key, *place);
            if PAGE_BYTES <= page.len() {
                push_row(&mut top, first, self.push(&page));
                page.clear();
            }
        }
        if !page.is_empty() {
            push_row(&mut top, first, self.push(&page));
        }
        self.push(&top)
    }
}

pub(crate) fn cut_key(key: &str) -> &[u8] {
    let bytes = key.as_bytes();
    bytes.get(..KEY_BYTES_MAX).unwrap_or(bytes)
}

fn push_row(page: &mut Vec<u8>, key: &[u8], place: Place) {
    let key_len = u16::try_from(key.len()).unwrap_or(u16::MAX);
    page.extend_from_slice(&key_len.to_le_bytes());
    page.extend_from_slice(key);
    page.extend_from_slice(&place.at.to_le_bytes());
    // A frame is shorter than 4 GiB (`frame::PAYLOAD_BYTES_MAX`).
    page.extend_from_slice(&u32::try_from(place.len).unwrap_or(u32::MAX).to_le_bytes());
}

/// A snapshot that is on disk, but not yet in its place.
#[derive(Debug)]
#[must_use = "a staged snapshot is not used until it is published"]
pub struct Staged<D> {
    disk: D,
    dir: PathBuf,
}

impl<D: Disk> Staged<D> {
    /// Puts the snapshot in place of the current one, which is kept as the old one. The caller must
    /// hold the exclusive state lock.
    pub fn publish(self) -> Result<(), SnapshotError> {
        let (tmp, current) = (self.dir.join(TMP), self.dir.join(CURRENT));
        match self.disk.rename(&current, &self.dir.join(OLD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(on(&current, "rename")(error));
            }
            Ok(()) | Err(_) => {}
        }
        self.disk.rename(&tmp, &current).map_err(on(&tmp, "rename"))?;
        self.disk.sync_dir(&self.dir).map_err(on(&self.dir, "sync"))
    }
}

/// A complete snapshot in memory.
#[derive(Debug)]
pub struct Snapshot {
    bytes: Vec<u8>,
    /// The last record of the journal that the snapshot covers.
    pub through_seq: u64,
    header: Range<usize>,
    entries: Vec<Range<usize>>,
    blob: Range<usize>,
    /// Irregularities, and how they were handled.
    pub report: Vec<Finding>,
}

impl Snapshot {
    /// Loads the snapshot of the state directory, or the previous one; none in a new store.
    pub fn load<D: Disk>(disk: &D, dir: &Path) -> Result<Option<Self>, SnapshotError> {
        let (current, old) = (dir.join(CURRENT), dir.join(OLD));
        let why = match read(disk, &current)? {
            Read::Whole(snapshot) => return Ok(Some(snapshot)),
            Read::Missing => "is missing",
            Read::Damaged => "is damaged",
        };
        match read(disk, &old)? {
            Read::Whole(mut snapshot) => {
                snapshot.report.push(Finding::OldSnapshot { file: current, why });
                Ok(Some(snapshot))
            }
            Read::Missing if why == "is missing" => Ok(None),
            Read::Missing => Err(SnapshotError::Damaged { file: current }),
            Read::Damaged => Err(SnapshotError::Damaged { file: old }),
        }
    }

    /// The header's bytes.
    pub fn header(&self) -> &[u8] {
        self.slice(&self.header)
    }

    /// The entries' bytes, in the order in which they were added.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entries.iter().map(|span| self.slice(span))
    }

    /// The blob's bytes.
    pub fn blob(&self) -> &[u8] {
        self.slice(&self.blob)
    }

    fn slice(&self, span: &Range<usize>) -> &[u8] {
        self.bytes.get(span.clone()).unwrap_or_default()
    }
}

enum Read {
    Whole(Snapshot),
    Missing,
    Damaged,
}

fn read<D: Disk>(disk: &D, path: &Path) -> Result<Read, SnapshotError> {
    let bytes = match disk.read(path, SNAPSHOT_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::Missing),
        // No coordinator writes a file that long.
        Err(error) if is_too_long(&error) => return Ok(Read::Damaged),
        Err(error) => return Err(on(path, "read")(error)),
    };
    let Some(through_seq) = through_seq(path, &bytes)? else { return Ok(Read::Damaged) };
    Ok(parse(bytes, through_seq).map_or(Read::Damaged, Read::Whole))
}

/// Reads the first frame: checks the version that wrote the file, and returns the last record that
/// it covers. None if the frame is damaged.
pub(crate) fn through_seq(path: &Path, bytes: &[u8]) -> Result<Option<u64>, SnapshotError> {
    #[derive(Deserialize)]
    struct First {
        store: u32,
        #[serde(default)]
        through_seq: u64,
    }
    let first = frame::record_at(bytes, 0);
    match first.and_then(|payload| serde_json::from_slice::<First>(payload).ok()) {
        Some(First { store, .. }) if STORE_VERSION < store => {
            Err(SnapshotError::Newer { file: path.to_path_buf(), found: store })
        }
        Some(First { through_seq, .. }) => Ok(Some(through_seq)),
        None => Ok(None),
    }
}

/// Checks every frame; none if anything is wrong.
fn parse(bytes: Vec<u8>, through_seq: u64) -> Option<Snapshot> {
    let trailer = Trailer::parse(bytes.get(bytes.len().checked_sub(TRAILER_BYTES)?..)?)?;
    let mut entries = Vec::new();
    let (mut header, mut blob) = (None, None);
    for frame in Frames::new(&bytes, 0) {
        let Frame::Record { at, payload } = frame else { return None };
        let from = at + frame::HEAD_BYTES;
        let span = from..from + payload.len();
        let at = at as u64;
        if at == trailer.header.at {
            header = Some(span);
        } else if at == trailer.blob.at {
            blob = Some(span);
        } else if trailer.header.at < at && at < trailer.blob.at {
            entries.push(span);
        }
    }
    let is_whole = entries.len() as u64 == trailer.entries;
    let (header, blob) = (header?, blob?);
    is_whole.then_some(Snapshot { bytes, through_seq, header, entries, blob, report: Vec::new() })
}

/// The last frame, which locates the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trailer {
    entries: u64,
    pub(crate) header: Place,
    blob: Place,
    pub(crate) top: Place,
}

impl Trailer {
    /// Parses the trailer's frame.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let payload = frame::record_at(bytes, 0)?.strip_prefix(&TRAILER_MAGIC)?;
        let mut numbers =
            payload.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
        let entries = numbers.next()?;
        let mut place = || Some(Place { at: numbers.next()?, len: numbers.next()? });
        Some(Self { entries, header: place()?, blob: place()?, top: place()? })
    }
}

/// Adds the file and the operation to an error.
pub(crate) fn on(path: &Path, operation: &'static str) -> impl FnOnce(io::Error) -> SnapshotError {
    move |source| SnapshotError::Io { path: path.to_path_buf(), operation, source }
}
