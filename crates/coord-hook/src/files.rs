//! Opens coord's own files, and only those (H-27).
//!
//! This module decides which directories and files are accepted: those of the right type, owned by
//! the effective user, not writable for others, and not reached through a symbolic link in the last
//! component.

use coord_wire::trust::is_private;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, fstat, futimens, mkdirat, open,
    openat,
};
use rustix::io::Errno;
use rustix::path::Arg;
use std::path::Path;

/// The mode of all of coord's files.
pub(crate) const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);
const PRIVATE_DIRECTORY: Mode = Mode::RWXU;

/// Opens `/dev/null` for closed standard streams, so that no file of ours gets their numbers.
pub(crate) fn fill_standard_streams() {
    while let Ok(null) = open("/dev/null", OFlags::RDWR, Mode::empty()) {
        if 2 < null.as_raw_fd() {
            return;
        }
        // Kept open on purpose, until the process exits.
        core::mem::forget(null);
    }
}

/// Opens the directory `name`, and creates it if it is missing.
pub(crate) fn directory(parent: impl AsFd, name: &Path, uid: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let opened = match openat(&parent, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            match mkdirat(&parent, name, PRIVATE_DIRECTORY) {
                Ok(()) | Err(Errno::EXIST) => (),
                Err(errno) => return Err(errno),
            }
            openat(&parent, name, flags, Mode::empty())?
        }
        opened => opened?,
    };
    if is_private(&fstat(&opened)?, FileType::Directory, uid) {
        Ok(opened)
    } else {
        Err(Errno::PERM)
    }
}

/// Opens a regular file of this user with `flags`, without ever waiting.
pub(crate) fn file(
    parent: impl AsFd,
    name: &str,
    flags: OFlags,
    uid: u32,
) -> Result<(OwnedFd, Stat), Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(parent, name, flags, PRIVATE)?;
    let stat = fstat(&opened)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_uid == uid {
        Ok((opened, stat))
    } else {
        Err(Errno::PERM)
    }
}

/// Creates a note, or renews its modification time, which is what counts.
pub(crate) fn touch(parent: impl AsFd, name: &str, uid: u32) -> Result<(), Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let (note, _) = file(parent, name, OFlags::WRONLY | OFlags::CREATE, uid)?;
    futimens(&note, &Timestamps { last_access: now, last_modification: now })
}

/// Reads the beginning of a file that is small, or of which only the beginning counts.
pub(crate) fn read_start<'a>(file: &OwnedFd, buffer: &'a mut [u8]) -> &'a [u8] {
    let mut n = 0;
    while let Some(room) = buffer.get_mut(n..).filter(|room| !room.is_empty()) {
        match rustix::io::read(file, room) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(Errno::INTR) => (),
            Err(_) => return &[],
        }
    }
    buffer.get(..n).unwrap_or_default()
}

/// Reads the beginning of a system file, such as one in `/proc`.
pub(crate) fn read_system(path: impl Arg, buffer: &mut [u8]) -> &[u8] {
    match open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()) {
        Ok(file) => read_start(&file, buffer),
        Err(_) => &[],
    }
}
