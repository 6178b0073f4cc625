//! Reads and writes the two files in a session's task directory (S1-15, S1-16, S1-24): `.auto-signal`, which
//! is only compared, and `.auto-stop`, whose reason is read, and which coord also writes and removes.
//!
//! This module decides nothing. A task directory may be in a hostile repository. Its path is therefore opened
//! component by component, no link is followed, nothing blocks, reads are bounded, and writes go only to new
//! files.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use coord_model::TaskFound;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, statat, unlinkat};
use rustix::io::Errno;
use serde_json::Value;
use siphasher::sip::SipHasher13;

const SIGNAL: &str = ".auto-signal";
const STOP: &str = ".auto-stop";
/// Longest part of a file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4096;
/// Longest reason, in characters.
const REASON_CHARS_MAX: usize = 64;

/// Reads a task directory. One that cannot be opened counts as empty.
pub fn read(dir: &str) -> TaskFound {
    match open_dir(dir) {
        Ok(dir) => TaskFound { signal: signal(&dir), stop: stop(&dir) },
        Err(error) => {
            tracing::debug!(dir, %error, "task directory");
            TaskFound::default()
        }
    }
}

/// Whether the directory has a stop file, of whatever kind.
pub fn is_stopped(dir: &str) -> bool {
    open_dir(dir).is_ok_and(|dir| is_there(&dir))
}

/// Writes the stop file, unless one exists: a person's file stays as it is.
///
/// # Errors
/// The file cannot be written.
pub fn write_stop(dir: &str, text: &str) -> std::io::Result<()> {
    let dir = open_dir(dir)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    match openat(&dir, STOP, flags, mode) {
        // If a full disk leaves the file empty, it is still a stop file.
        Ok(file) => File::from(file).write_all(text.as_bytes()),
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes the stop file if it contains exactly `text`. Returns whether it was removed.
///
/// # Errors
/// The file cannot be removed.
pub fn remove_stop(dir: &str, text: &str) -> std::io::Result<bool> {
    let dir = open_dir(dir)?;
    let is_ours = contents(&dir, STOP).is_some_and(|(_, found)| found == text.as_bytes());
    if is_ours {
        unlinkat(&dir, STOP, AtFlags::empty())?;
    }
    Ok(is_ours)
}

/// Opens a directory, if no component of its path is a link.
///
/// # Errors
/// The directory cannot be opened, or a component of its path is a link.
pub fn open_dir(path: &str) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = open("/", flags, Mode::empty())?;
    for part in Path::new(path).components() {
        match part {
            Component::RootDir => (),
            Component::Normal(part) => at = openat(&at, part, flags, Mode::empty())?,
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => {
                return Err(Errno::INVAL.into());
            }
        }
    }
    Ok(at)
}

fn is_there(dir: &OwnedFd) -> bool {
    statat(dir, STOP, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// A digest of the signal file's text and metadata: if any of them differs, the signal is a new one.
fn signal(dir: &OwnedFd) -> Option<u64> {
    let (file, text) = contents(dir, SIGNAL)?;
    let mut hasher = SipHasher13::new();
    (text, file.ino(), file.len(), file.mtime(), file.mtime_nsec()).hash(&mut hasher);
    Some(hasher.finish())
}

/// The reason in the stop file, in plain words; none without a stop file.
fn stop(dir: &OwnedFd) -> Option<String> {
    is_there(dir)
        .then(|| contents(dir, STOP).map_or_else(String::new, |(_, text)| reason_in(&text)))
}

/// The reason in the text of a stop file, reduced to plain words; empty if the text gives none.
pub fn reason_in(text: &[u8]) -> String {
    let said: Option<Value> = serde_json::from_slice(text).ok();
    let reason = said.as_ref().and_then(|said| said.get("reason")?.as_str());
    let is_plain = |one: &char| one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | ' ');
    reason.unwrap_or_default().chars().filter(is_plain).take(REASON_CHARS_MAX).collect()
}

/// The metadata and the first [`FILE_BYTES_MAX`] bytes of a regular file.
fn contents(dir: &OwnedFd, name: &str) -> Option<(std::fs::Metadata, Vec<u8>)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty()).ok()?;
    let is_file = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
    let file = File::from(file);
    let mut text = Vec::new();
    (&file).take(FILE_BYTES_MAX).read_to_end(&mut text).ok().filter(|_| is_file)?;
    Some((file.metadata().ok()?, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn dir() -> (tempfile::TempDir, String) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        (scratch, path)
    }

    // S1-16
    #[test]
    fn every_new_signal_is_another_one() {
        let (scratch, path) = dir();
        assert_eq!(read(&path), TaskFound::default());
        let file = scratch.path().join(SIGNAL);
        std::fs::write(&file, r#"{"v":1,"iteration":1}"#).unwrap();
        let first = read(&path).signal;
        assert!(first.is_some());
        assert_eq!(read(&path).signal, first, "the same file");
        std::fs::write(&file, r#"{"v":1,"iteration":2}"#).unwrap();
        let second = read(&path).signal;
        assert!(second.is_some() && second != first);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read(&path).signal, None);
    }

    // S1-15: anything under that name stops the task.
    #[test]
    fn a_stop_file_needs_no_form() {
        let (scratch, path) = dir();
        let file = scratch.path().join(STOP);
        for (text, reason) in [
            ("", ""),
            ("enough", ""),
            (r#"{"reason":"lunch"}"#, "lunch"),
            ("{\"reason\":\"\\u001b[31m$(x) `y`\"}", "31mx y"),
            (r#"{"reason":7}"#, ""),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(&path).stop.as_deref(), Some(reason), "{text}");
            assert!(is_stopped(&path));
        }
        std::fs::remove_file(&file).unwrap();
        symlink("/nowhere", &file).unwrap();
        assert_eq!(read(&path).stop.as_deref(), Some(""));
        assert!(is_stopped(&path));
    }

    // S1-24: a person's stop file is neither overwritten nor removed.
    #[test]
    fn only_what_was_written_is_taken_away() {
        let (scratch, path) = dir();
        let file = scratch.path().join(STOP);
        let text = "{\"v\":1,\"by\":\"coord\",\"reason\":\"stall_limit\"}\n";
        write_stop(&path, text).unwrap();
        assert_eq!(read(&path).stop.as_deref(), Some("stall_limit"));
        std::fs::write(&file, "mine").unwrap();
        write_stop(&path, text).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        assert!(!remove_stop(&path, text).unwrap());
        std::fs::write(&file, text).unwrap();
        assert!(remove_stop(&path, text).unwrap());
        assert!(!file.exists());
        assert!(!remove_stop(&path, text).unwrap());
    }

    // H-27: no link is followed, neither the file itself nor a component of its path.
    #[test]
    fn links_are_not_followed() {
        let (scratch, path) = dir();
        let (target, target_path) = dir();
        let victim = target.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        symlink(&victim, scratch.path().join(SIGNAL)).unwrap();
        symlink(&victim, scratch.path().join(STOP)).unwrap();
        assert_eq!(read(&path).signal, None);
        write_stop(&path, "x").unwrap();
        assert!(!remove_stop(&path, "kept").unwrap());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        symlink(&target_path, scratch.path().join("task")).unwrap();
        let linked = format!("{path}/task");
        assert!(write_stop(&linked, "x").is_err());
        assert!(!is_stopped(&linked) && !target.path().join(STOP).exists());
        assert!(write_stop(&format!("{path}/../x"), "x").is_err());
    }
}
