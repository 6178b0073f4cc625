//! The few operations on files that the store is built from (architecture 8).
//!
//! The trait promises what a POSIX file system promises and no more: data is durable after
//! [`DiskFile::sync`], a created, renamed or removed name after [`Disk::sync_dir`], and a rename
//! shows either the old file or the new one. It decides nothing about formats.

use coord_model::stamp::WallMs;
use std::io;
use std::path::Path;

/// A place that holds files. Clones name the same place, also from other threads.
pub trait Disk: Clone + Send + 'static {
    /// An open file.
    type File: DiskFile;

    /// Makes a directory for its owner alone (0700), with missing parents; one that is already
    /// there and ours is tightened to 0700 (G11). Durable when it returns.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a file for appending; makes it (0600) where it is missing.
    fn open_append(&self, path: &Path) -> io::Result<Self::File>;
    /// The whole content of a file. One of more than `bytes_max` bytes is an error ([`is_too_long`])
    /// before anything of it is read: its length may be anybody's doing.
    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>>;
    /// Up to `len` bytes from `offset` on; fewer only at the end of the file.
    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>>;
    /// The length of a file, in bytes.
    fn len(&self, path: &Path) -> io::Result<u64>;
    /// When the content of a file last changed.
    fn modified(&self, path: &Path) -> io::Result<WallMs>;
    /// Gives a file a new name in place of whatever had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a name away.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes that may still be written below `dir`.
    fn free(&self, dir: &Path) -> io::Result<u64>;
}

/// A file opened for appending.
pub trait DiskFile: Send + Sync + 'static {
    /// Writes at the end. After an error any part of `bytes` may stand there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to `len` bytes.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether there is nothing in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes content and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Takes the exclusive advisory lock if nobody holds it, until the file is dropped.
    fn try_lock(&self) -> io::Result<bool>;
    /// The same open file once more, for another thread.
    fn try_clone(&self) -> io::Result<Self>
    where
        Self: Sized;
}

/// Whether an error says that there is no room: disk full, quota used up, file too large.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// The error for a file that is longer than it may be.
pub fn too_long(path: &Path, bytes: u64, bytes_max: u64) -> io::Error {
    let text = format!("{} has {bytes} bytes, the limit is {bytes_max}", path.display());
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

/// Whether reading failed because the file is longer than it may be.
pub fn is_too_long(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}
