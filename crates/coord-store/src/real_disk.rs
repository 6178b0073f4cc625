//! Implements [`Disk`] on the machine's own file systems.
//!
//! The state is private (G11): directories have mode 0700 and files 0600, whatever the umask. No
//! link is followed, and no foreign file is opened (H-27). Each path is opened from a handle on its
//! directory, which must be a real directory of this user. The open follows no link and does not
//! wait (a FIFO has no reader), and the file must be a regular file of this user. This module
//! decides nothing about content.

use crate::disk::{Disk, DiskFile, too_long};
use coord_model::stamp::WallMs;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flags to open a directory to reach its files: on Linux, this needs no permission to list it.
#[cfg(target_os = "linux")]
const REACH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const REACH: OFlags = OFlags::RDONLY;

const PRIVATE_DIR: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The machine's file systems.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// A regular file of this user.
#[derive(Debug)]
pub struct RealFile {
    file: File,
}

impl Disk for RealDisk {
    type File = RealFile;

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        match fs::mkdir(dir, PRIVATE_DIR) {
            Ok(()) => {
                fs::chmod(dir, PRIVATE_DIR)?;
                let parent = dir.parent().ok_or_else(|| odd(dir, "has no parent directory"))?;
                fs::fsync(open_dir(parent, OFlags::RDONLY)?)?;
            }
            Err(rustix::io::Errno::NOENT) => {
                let parent = dir.parent().ok_or_else(|| odd(dir, "has no parent directory"))?;
                self.create_dir(parent)?;
                return self.create_dir(dir);
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let fd = own_dir(dir, OFlags::RDONLY)?;
        if Mode::from_raw_mode(fs::fstat(&fd)?.st_mode) != PRIVATE_DIR {
            fs::fchmod(&fd, PRIVATE_DIR)?;
        }
        Ok(())
    }

    fn open_append(&self, path: &Path) -> io::Result<RealFile> {
        let file = open(path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)?;
        Ok(RealFile { file })
    }

    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = open(path, OFlags::RDONLY)?;
        let len = file.metadata()?.len();
        if bytes_max < len {
            return Err(too_long(path, len, bytes_max));
        }
        let mut bytes = Vec::new();
        // The file may grow while it is read.
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let file = open(path, OFlags::RDONLY)?;
        // The requested length may come from a damaged file: allocate no more than is there.
        let rest = file.metadata()?.len().saturating_sub(offset);
        let len = usize::try_from(rest).map_or(len, |rest| rest.min(len));
        let mut bytes = vec![0; len];
        let mut have = 0;
        while have < len {
            match file.read_at(&mut bytes[have..], offset + have as u64) {
                Ok(0) => break,
                Ok(more) => have += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(have);
        Ok(bytes)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(open(path, OFlags::RDONLY)?.metadata()?.len())
    }

    fn modified(&self, path: &Path) -> io::Result<WallMs> {
        let modified = open(path, OFlags::RDONLY)?.metadata()?.modified()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(WallMs::try_from(since.as_millis()).unwrap_or(WallMs::MAX))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_dir, from_name) = place(from)?;
        let (to_dir, to_name) = place(to)?;
        Ok(fs::renameat(from_dir, from_name, to_dir, to_name)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = place(path)?;
        Ok(fs::unlinkat(dir, name, AtFlags::empty())?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::new(own_dir(dir, OFlags::RDONLY)?)? {
            // A name that is not UTF-8 is none of coord's.
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Ok(fs::fsync(own_dir(dir, OFlags::RDONLY)?)?)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        let stat = fs::statvfs(dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

impl DiskFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        crate::lock::try_exclusive(&self.file)
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }
}

/// Reads a small file that a person or another program may have written, following links, and no
/// more than `bytes_max` bytes. It never waits, and a longer file is an error ([`is_too_long`]).
///
/// [`is_too_long`]: crate::disk::is_too_long
///
/// # Errors
/// The file cannot be opened or read, or is too long.
pub fn read_small_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(fs::open(path, flags, Mode::empty())?);
    let len = file.metadata()?.len();
    if bytes_max < len {
        return Err(too_long(path, len, bytes_max));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        len if bytes_max < len => Err(too_long(path, len, bytes_max)),
        _ => Ok(bytes),
    }
}

/// Opens a lock file, and creates it if it is missing.
pub(crate) fn open_lock_file(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::CREATE)
}

/// Opens a regular file of this user. If it is new, or accessible to others, its mode becomes 0600.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let (dir, name) = place(path)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = fs::openat(dir, name, flags, PRIVATE_FILE)?;
    let stat = fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(odd(path, "is not a regular file"));
    }
    owned(path, stat.st_uid)?;
    if Mode::from_raw_mode(stat.st_mode) != PRIVATE_FILE {
        fs::fchmod(&file, PRIVATE_FILE)?;
    }
    Ok(File::from(file))
}

/// The directory of a file, and the file's name in it.
fn place(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => Ok((own_dir(dir, REACH)?, name)),
        (None, _) | (_, None) => Err(odd(path, "names no file")),
    }
}

/// Opens a directory that belongs to this user and is no link.
fn own_dir(dir: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let fd = open_dir(dir, flags | OFlags::NOFOLLOW)?;
    owned(dir, fs::fstat(fd.as_fd())?.st_uid)?;
    Ok(fd)
}

fn open_dir(dir: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(fs::open(dir, flags | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn owned(path: &Path, uid: u32) -> io::Result<()> {
    let ours = rustix::process::geteuid().as_raw();
    if uid == ours {
        return Ok(());
    }
    let text = format!("{} belongs to user {uid}, not to user {ours}", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn odd(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} {what}", path.display()))
}
