//! The few file operations from which the store is built (architecture 8).
//!
//! The trait promises what a POSIX file system promises, and no more. Data is durable after
//! [`DiskFile::sync`], and a created, renamed or removed name after [`Disk::sync_dir`]. A rename
//! shows either the old file or the new one. The trait decides nothing about formats.

use coord_model::stamp::WallMs;
use std::io;
use std::path::Path;

/// A place that contains files. Clones refer to the same place, also on other threads.
pub trait Disk: Clone + Send + 'static {
    /// An open file.
    type File: DiskFile;

    /// Creates a directory for its owner alone (mode 0700), with missing parents. An existing
    /// directory of this user is changed to 0700 (G11). The directory is durable when this returns.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a file for appending, and creates it (mode 0600) if it is missing.
    fn open_append(&self, path: &Path) -> io::Result<Self::File>;
    /// Reads the whole content of a file. A file of more than `bytes_max` bytes is an error
    /// ([`is_too_long`]) before any of it is read, since anybody may have lengthened it.
    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>>;
    /// Reads up to `len` bytes from `offset` on; fewer only at the end of the file.
    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>>;
    /// The length of a file, in bytes.
    fn len(&self, path: &Path) -> io::Result<u64>;
    /// When the content of a file last changed.
    fn modified(&self, path: &Path) -> io::Result<WallMs>;
    /// Renames a file, and replaces the file with the new name if there is one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Lists the names in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Free space below `dir`, in bytes.
    fn free(&self, dir: &Path) -> io::Result<u64>;
}

/// A file opened for appending.
pub trait DiskFile: Send + Sync + 'static {
    /// Writes at the end. After an error, the file may contain any part of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file to `len` bytes.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// The length of the file, in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes the content and the length durable.
    fn sync(&self) -> io::Result<()>;
    /// Takes the exclusive advisory lock if nobody holds it, until the file is dropped. Returns
    /// whether it was taken.
    fn try_lock(&self) -> io::Result<bool>;
    /// Returns another handle on the same open file, for another thread.
    fn try_clone(&self) -> io::Result<Self>
    where
        Self: Sized;
}

/// Whether an error means that there is no room: disk full, quota used up, or file too large.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// The error for a file that is longer than allowed.
pub fn too_long(path: &Path, bytes: u64, bytes_max: u64) -> io::Error {
    let text = format!("{} has {bytes} bytes, the limit is {bytes_max}", path.display());
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

/// Whether a read failed because the file is longer than allowed.
pub fn is_too_long(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}
