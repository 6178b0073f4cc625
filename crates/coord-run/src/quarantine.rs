//! Quarantines conversations whose run was ended by force after its result (S3-23): the next resume has to
//! prove itself, or a fresh start replaces it. Each conversation has one small file.

use std::io;
use std::path::PathBuf;

use coord_store::{Disk, DiskFile, RealDisk};
use coord_wire::paths::Paths;

/// The file of a conversation; none for a text that is no id.
fn file(paths: &Paths, session_id: &str) -> Option<PathBuf> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || one == '-';
    let is_id = (8..=64).contains(&session_id.len()) && session_id.chars().all(is_plain);
    is_id.then(|| paths.quarantine().join(session_id))
}

/// Whether the next resume of a conversation has to prove itself.
pub fn is_quarantined(paths: &Paths, session_id: &str) -> bool {
    file(paths, session_id).is_some_and(|file| RealDisk.len(&file).is_ok())
}

/// Quarantines a conversation. The file is on disk when this returns.
///
/// # Errors
/// The file cannot be written, or the text is no id.
pub(crate) fn put(paths: &Paths, session_id: &str, run_id: &str) -> io::Result<()> {
    let no_id = || io::Error::new(io::ErrorKind::InvalidInput, "no session id");
    let path = file(paths, session_id).ok_or_else(no_id)?;
    RealDisk.create_dir(&paths.quarantine())?;
    let mut file = RealDisk.open_append(&path)?;
    file.append(format!("{run_id}\n").as_bytes())?;
    file.sync()?;
    RealDisk.sync_dir(&paths.quarantine())
}

/// Ends the quarantine of a conversation whose resume proved itself.
pub(crate) fn lift(paths: &Paths, session_id: &str) -> io::Result<()> {
    match file(paths, session_id).map(|file| RealDisk.remove(&file)) {
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Some(_) | None => Ok(()),
    }
}
