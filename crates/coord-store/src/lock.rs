//! The lock files (architecture 5), and the only use of advisory locks.
//!
//! Only the lock itself counts, never the pid in its file: that text is for people. All locks are
//! `flock`s, so the kernel releases them when their holder ends, however it ends. A lock file is
//! never removed, since two processes could then hold two files of the same name.
//!
//! The coordinator's lock also tests the file system: if a second handle gets the lock that the
//! first one holds, locks do not work there, and the state is refused (H-15, interfaces.md).

use crate::disk::{Disk, DiskFile};
use crate::real_disk::open_lock_file;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Longest part of the holder's text that is read, in bytes.
const HOLDER_BYTES_MAX: usize = 200;

/// Why a lock was not taken.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds the lock.
    Held {
        /// The lock file.
        path: PathBuf,
        /// The text of the lock file, which names the holder for people; may be empty.
        by: String,
    },
    /// The file system grants an exclusive lock twice, or grants none.
    NoLocks {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock file could not be opened, read or written.
    Io {
        /// The lock file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { path, by } if by.is_empty() => {
                write!(f, "{} is held by another process", path.display())
            }
            Self::Held { path, by } => write!(f, "{} is held by {by}", path.display()),
            Self::NoLocks { path } => write!(
                f,
                "{}: this file system has no working locks; set COORD_HOME or XDG_STATE_HOME to a local one",
                path.display()
            ),
            Self::Io { path, .. } => write!(f, "cannot use the lock file {}", path.display()),
        }
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Held { .. } | Self::NoLocks { .. } => None,
        }
    }
}

/// A lock; dropping it releases the lock.
#[derive(Debug)]
#[must_use = "dropping a lock gives it up"]
pub struct Held<F = File> {
    _file: F,
}

/// The coordinator's lock, held for life: its holder is the only writer of the store.
#[derive(Debug)]
pub struct CoordinatorLock;

impl CoordinatorLock {
    /// Takes the lock at `path`, or reports its holder.
    pub fn acquire<D: Disk>(disk: &D, path: &Path) -> Result<Held<D::File>, LockError> {
        let io = |source| LockError::Io { path: path.to_path_buf(), source };
        let mut file = disk.open_append(path).map_err(io)?;
        if !file.try_lock().map_err(|error| refused(path, error))? {
            let by = disk.read_at(path, 0, HOLDER_BYTES_MAX).map_err(io)?;
            let by = String::from_utf8_lossy(&by).trim().to_owned();
            return Err(LockError::Held { path: path.to_path_buf(), by });
        }
        let second = disk.open_append(path).map_err(io)?;
        if second.try_lock().map_err(|error| refused(path, error))? {
            return Err(LockError::NoLocks { path: path.to_path_buf() });
        }
        file.truncate(0).map_err(io)?;
        file.append(format!("pid {}\n", std::process::id()).as_bytes()).map_err(io)?;
        Ok(Held { _file: file })
    }
}

/// The lock between readers of the state and operations that remove files: publishing a snapshot,
/// and pruning the journal.
#[derive(Debug)]
pub struct StateLock;

impl StateLock {
    /// Waits for the lock as a reader. Writers hold it only for a few renames.
    pub fn shared(path: &Path) -> Result<Held, LockError> {
        let file = open_lock_file(path)
            .map_err(|source| LockError::Io { path: path.to_path_buf(), source })?;
        fs2::FileExt::lock_shared(&file).map_err(|error| refused(path, error))?;
        Ok(Held { _file: file })
    }

    /// Takes the lock as the writer, or returns [`LockError::Held`] at once: a stopped reader must
    /// not stop the coordinator, which tries again later.
    pub fn exclusive<D: Disk>(disk: &D, path: &Path) -> Result<Held<D::File>, LockError> {
        let io = |source| LockError::Io { path: path.to_path_buf(), source };
        let file = disk.open_append(path).map_err(io)?;
        if file.try_lock().map_err(|error| refused(path, error))? {
            Ok(Held { _file: file })
        } else {
            Err(LockError::Held { path: path.to_path_buf(), by: String::new() })
        }
    }
}

/// Takes the exclusive lock on an open file, if nobody holds it.
pub(crate) fn try_exclusive(file: &File) -> io::Result<bool> {
    match fs2::FileExt::try_lock_exclusive(file) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Classifies an error of a lock operation: some mean that the file system has no locks.
fn refused(path: &Path, error: io::Error) -> LockError {
    let path = path.to_path_buf();
    let no_locks = [rustix::io::Errno::NOLCK, rustix::io::Errno::NOSYS, rustix::io::Errno::NOTSUP];
    if no_locks.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
        LockError::NoLocks { path }
    } else {
        LockError::Io { path, source: error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    #[test]
    fn a_second_coordinator_is_refused_by_the_lock_and_told_the_pid() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("coordinator.lock");
        let first = CoordinatorLock::acquire(&RealDisk, &path).unwrap();
        let error = CoordinatorLock::acquire(&RealDisk, &path).unwrap_err();
        assert!(
            matches!(&error, LockError::Held { by, .. } if *by == format!("pid {}", std::process::id())),
            "{error}"
        );
        drop(first);
        drop(CoordinatorLock::acquire(&RealDisk, &path).unwrap());
    }

    #[test]
    fn a_pid_in_the_file_proves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("coordinator.lock");
        std::fs::write(&path, format!("pid {}\n", std::process::id())).unwrap();
        drop(CoordinatorLock::acquire(&RealDisk, &path).unwrap());
    }

    #[test]
    fn readers_share_and_a_writer_is_sent_away_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.lock");
        let one = StateLock::shared(&path).unwrap();
        let two = StateLock::shared(&path).unwrap();
        assert!(matches!(StateLock::exclusive(&RealDisk, &path), Err(LockError::Held { .. })));
        drop((one, two));
        drop(StateLock::exclusive(&RealDisk, &path).unwrap());
    }

    #[test]
    fn a_link_is_no_lock_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.lock");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(matches!(StateLock::shared(&path), Err(LockError::Io { .. })));
    }
}
