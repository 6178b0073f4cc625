//! Whether a program may be started by a hook: nobody but its user and root can have put it there.

use rustix::fs::{FileType, Mode, Stat, stat};
use std::path::Path;

/// Whether the entry is of this kind, belongs to `owner`, and nobody else may change it.
pub fn is_private(stat: &Stat, kind: FileType, owner: u32) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
        && stat.st_uid == owner
        && stat.st_mode & (Mode::WGRP | Mode::WOTH).as_raw_mode() == 0
}

/// Whether the program and its directory belong to this user or to root, and others may change
/// neither (H-48).
pub fn is_trusted_program(program: &Path, uid: u32) -> bool {
    let Some(directory) = program.parent() else { return false };
    program.is_absolute()
        && stat(program).is_ok_and(|found| {
            [uid, 0].into_iter().any(|owner| is_private(&found, FileType::RegularFile, owner))
        })
        && stat(directory).is_ok_and(|found| is_trusted_directory(&found, uid))
}

/// A group may write to a directory if it is the private one of the user, which has the user's
/// number: with the usual umask 002 every directory of a home is of that kind.
fn is_trusted_directory(found: &Stat, uid: u32) -> bool {
    let others = if found.st_gid == uid { Mode::WOTH } else { Mode::WGRP | Mode::WOTH };
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
        && [uid, 0].contains(&found.st_uid)
        && found.st_mode & others.as_raw_mode() == 0
}
