//! Which files belong to a session, and how far each of them was read.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use memchr::memchr;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, statat};
use siphasher::sip::SipHasher13;

use crate::registry::Readable;
use crate::transcript::{open, open_below};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 * 1024;
/// Longest line that is read, in bytes; longer ones are passed over. No answer is that long: a model's output is limited.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Fewest bytes that a read may read, so that it always gets past a line.
pub(super) const BYTES_MIN: u64 = (LINE_BYTES_MAX + 2 * PIECE_BYTES) as u64;
/// Bytes before a position by which the file is recognized.
const MARK_BYTES: usize = 1024;
/// Most files of subagents, and how deep they may be.
const FILES_MAX: usize = 4096;
const DEPTH_MAX: usize = 4;

/// Which state of which file: device, inode, length, time in seconds and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

#[expect(clippy::useless_conversion, reason = "the types differ between architectures")]
fn stamp_of(stat: &Stat) -> Stamp {
    Stamp {
        file: (stat.st_dev, stat.st_ino),
        length: u64::try_from(stat.st_size).unwrap_or_default(),
        changed: (stat.st_mtime.into(), i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
    }
}

/// How far a file was read.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// What the file was when all of it was read.
    whole: Option<Stamp>,
    file: (u64, u64),
    /// Where the next line begins, or the next part of a line that is passed over.
    offset: u64,
    is_passing_over: bool,
    /// Digest of the bytes before `offset`.
    mark: u64,
}

impl Position {
    /// Whether all of this state was read.
    pub(super) fn is_at(&self, stamp: &Stamp) -> bool {
        self.whole == Some(*stamp)
    }

    /// Reads complete lines, `left` bytes at most. Returns whether nothing more is there. A file that was replaced,
    /// shortened or rewritten is read from its beginning.
    pub(super) fn read(
        &mut self,
        file: &File,
        left: &mut u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<bool> {
        let of = file.metadata()?;
        let stamp = Stamp {
            file: (of.dev(), of.ino()),
            length: of.len(),
            changed: (of.mtime(), of.mtime_nsec()),
        };
        if self.is_at(&stamp) {
            return Ok(true);
        }
        self.whole = None;
        let is_same = self.file == stamp.file
            && self.offset <= stamp.length
            && self.mark == mark_before(file, self.offset)?;
        if !is_same {
            *self = Self { file: stamp.file, ..Self::default() };
        }
        let is_at_end = self.read_lines(file, left, take)?;
        self.mark = mark_before(file, self.offset)?;
        self.whole = is_at_end.then_some(stamp);
        Ok(is_at_end)
    }

    fn read_lines(
        &mut self,
        file: &File,
        left: &mut u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<bool> {
        let mut piece = vec![0; PIECE_BYTES];
        // The beginning of a line whose end was not read yet.
        let mut begun = Vec::new();
        while 0 < *left {
            let n = match file.read_at(&mut piece, self.offset + begun.len() as u64) {
                Ok(0) => return Ok(true),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            *left = left.saturating_sub(n as u64);
            let mut rest = piece.get(..n).unwrap_or_default();
            while let Some(end) = memchr(b'\n', rest) {
                let (line, after) = rest.split_at(end);
                if !std::mem::take(&mut self.is_passing_over) {
                    if begun.is_empty() {
                        take(line);
                    } else {
                        begun.extend_from_slice(line);
                        take(&begun);
                    }
                }
                self.offset += (begun.len().max(line.len()) + 1) as u64;
                begun.clear();
                rest = after.get(1..).unwrap_or_default();
            }
            if !self.is_passing_over {
                begun.extend_from_slice(rest);
                self.is_passing_over = LINE_BYTES_MAX < begun.len();
                rest = if self.is_passing_over { begun.as_slice() } else { &[] };
            }
            self.offset += rest.len() as u64;
            if self.is_passing_over {
                begun.clear();
            }
        }
        Ok(false)
    }
}

/// Digest of the bytes before `offset`.
fn mark_before(file: &File, offset: u64) -> io::Result<u64> {
    let length = offset.min(MARK_BYTES as u64);
    let mut mark = [0; MARK_BYTES];
    let mark = mark.get_mut(..usize::try_from(length).unwrap_or_default()).unwrap_or_default();
    let mut n = 0;
    while let Some(rest) = mark.get_mut(n..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset - length + n as u64) {
            Ok(0) => break,
            Ok(read) => n += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    let mut hasher = SipHasher13::new();
    mark.get(..n).hash(&mut hasher);
    Ok(hasher.finish())
}

/// The files of a session's subagents.
#[derive(Debug)]
pub(super) struct Found {
    /// Which state each file is in.
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    /// Whether these are all.
    pub(super) is_whole: bool,
}

/// Opens a transcript.
pub(super) fn open_own(
    readable: &Readable,
    config_dir: &Path,
    path: &Path,
) -> Result<File, String> {
    open(readable, config_dir, path).map_err(|why| format!("{}: {why}", path.display()))
}

/// The transcripts of subagents of the session whose transcript is at `path`. A link is another session's file.
pub(super) fn of_subagents(readable: &Readable, config_dir: &Path, path: &Path) -> Found {
    let mut found = Found { files: BTreeMap::new(), is_whole: true };
    let mut dirs = vec![(path.with_extension("").join("subagents"), 1)];
    while let Some((dir, depth)) = dirs.pop() {
        // Without subagents there is no directory.
        let flags = OFlags::DIRECTORY;
        let Ok(fd) = open_below(readable, config_dir, &dir, flags) else { continue };
        let Ok(entries) = Dir::read_from(&fd) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(stat) = statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let name = std::ffi::OsStr::from_bytes(name.to_bytes());
            let kind = FileType::from_raw_mode(stat.st_mode);
            let is_agent = name.as_bytes().starts_with(b"agent-")
                && Path::new(name).extension().is_some_and(|one| one == "jsonl");
            if kind == FileType::RegularFile && is_agent {
                if FILES_MAX <= found.files.len() {
                    found.is_whole = false;
                    return found;
                }
                found.files.insert(dir.join(name), stamp_of(&stat));
            } else if kind == FileType::Directory && name != "." && name != ".." {
                found.is_whole &= depth < DEPTH_MAX;
                if depth < DEPTH_MAX {
                    dirs.push((dir.join(name), depth + 1));
                }
            }
        }
    }
    found
}
