//! Decides whether a hook may start a program: only the user and root can have put it there.

use rustix::fs::{FileType, Mode, Stat, stat};
use std::path::Path;

/// Whether an entry has this type, belongs to `owner`, and cannot be changed by anybody else.
pub fn is_private(stat: &Stat, kind: FileType, owner: u32) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
        && stat.st_uid == owner
        && stat.st_mode & (Mode::WGRP | Mode::WOTH).as_raw_mode() == 0
}

/// Whether a program and its directory belong to this user or to root, and nobody else can change either
/// (H-48).
pub fn is_trusted_program(program: &Path, uid: u32) -> bool {
    let Some(directory) = program.parent() else { return false };
    program.is_absolute()
        && stat(program).is_ok_and(|found| {
            [uid, 0].into_iter().any(|owner| is_private(&found, FileType::RegularFile, owner))
        })
        && stat(directory).is_ok_and(|found| is_trusted_directory(&found, uid))
}

/// Whether a directory is trusted. A group may have write access if it is the user's private group,
/// which has the same number as the user: with the usual umask 002, all directories of a home are
/// writable for it.
fn is_trusted_directory(found: &Stat, uid: u32) -> bool {
    let others = if found.st_gid == uid { Mode::WOTH } else { Mode::WGRP | Mode::WOTH };
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
        && [uid, 0].contains(&found.st_uid)
        && found.st_mode & others.as_raw_mode() == 0
}
