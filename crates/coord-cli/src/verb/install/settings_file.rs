//! Changes one settings file, or leaves it exactly as it is.
//!
//! Decides how a new text gets to its place: under a lock, with a backup, by rename, verified. Does
//! not decide what the text is. Holds G8 for links, mode, owner, extended attributes and concurrent
//! writers.
//!
//! Whatever cuts it off, by cases: before the rename the file is the old one, behind it the new one,
//! and the rename itself is one step. The new text is synced and read back from the disk before the
//! rename, so the name never leads to a text that is not whole. What is found under the name behind
//! the rename and is another text was written by somebody else: it is named and left alone, since
//! putting the backup in its place would lose what they wrote. A file that was not renamed yet lies
//! beside the settings under a name of its own; the next change under the lock removes it.
//!
//! The lock is a `flock` on the file itself, so nothing is left lying about; whoever waited for it
//! and finds another file under the name begins again. The directory is not locked: a running
//! coordinator holds that lock for as long as it lives.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tempfile::NamedTempFile;

use super::attributes;

/// A longer file is none that a client or a person wrote, in bytes.
pub(super) const SETTINGS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How often an edit is begun anew because another program wrote the file meanwhile.
const ATTEMPTS_MAX: u32 = 5;

/// What an edit makes of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// This text.
    Text(String),
    /// No file.
    Gone,
}

/// What a file was and what it is now (or would be).
#[derive(Debug)]
pub(super) struct Outcome {
    /// `None`: there was no file.
    pub before: Option<String>,
    /// `None`: there is no file.
    pub after: Option<String>,
    /// Where the former text lies, if there was one and it was changed.
    pub backup: Option<PathBuf>,
    /// Extended attributes that the new file could not be given.
    pub lost: Vec<String>,
}

impl Outcome {
    /// Whether any byte differs.
    pub(super) fn is_change(&self) -> bool {
        self.before != self.after
    }
}

/// The file as it was when it was read.
struct Found {
    target: PathBuf,
    file: File,
    text: String,
}

/// Shows what `edit` would make of the file.
pub(super) fn preview(
    path: &Path,
    edit: &dyn Fn(Option<&str>) -> anyhow::Result<Wanted>,
) -> anyhow::Result<Outcome> {
    let before = find(path)?.map(|found| found.text);
    let after = after(path, edit(before.as_deref())?);
    Ok(Outcome { before, after, backup: None, lost: Vec::new() })
}

/// Makes of the file what `edit` says. On any error the file is as it was.
pub(super) fn change(
    path: &Path,
    edit: &dyn Fn(Option<&str>) -> anyhow::Result<Wanted>,
) -> anyhow::Result<Outcome> {
    for _ in 0..ATTEMPTS_MAX {
        if let Some(outcome) = attempt(path, edit)? {
            return Ok(outcome);
        }
    }
    bail!("{} is being changed by another program: try again", path.display())
}

/// Where the former text is kept.
pub(super) fn backup_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".coord-backup");
    path.with_file_name(name)
}

/// A link to the file is somebody's arrangement and keeps pointing at something.
fn after(path: &Path, wanted: Wanted) -> Option<String> {
    match wanted {
        Wanted::Text(text) => Some(text),
        Wanted::Gone if path.is_symlink() => Some("{}\n".to_owned()),
        Wanted::Gone => None,
    }
}

/// One attempt; `None` if the file changed meanwhile.
fn attempt(
    path: &Path,
    edit: &dyn Fn(Option<&str>) -> anyhow::Result<Wanted>,
) -> anyhow::Result<Option<Outcome>> {
    let Some(found) = find(path)? else { return create(path, edit) };
    rustix::fs::flock(&found.file, rustix::fs::FlockOperation::LockExclusive)
        .with_context(|| format!("cannot lock {}", path.display()))?;
    if !is_still(&found)? {
        return Ok(None);
    }
    let after = after(path, edit(Some(&found.text))?);
    remove_unfinished(path)?;
    remove_unfinished(&found.target)?;
    let mut outcome =
        Outcome { before: Some(found.text.clone()), after, backup: None, lost: Vec::new() };
    if !outcome.is_change() {
        return Ok(Some(outcome));
    }
    let backup = backup_path(path);
    let kept = temporary(&backup, found.text.as_bytes())?;
    kept.persist(&backup).with_context(|| format!("cannot write {}", backup.display()))?;
    outcome.backup = Some(backup);
    let is_replaced = match &outcome.after {
        Some(text) => replace(&found, text, &mut outcome.lost)?,
        None => remove(&found)?,
    };
    if !is_replaced {
        return Ok(None);
    }
    verify(path, &outcome)?;
    Ok(Some(outcome))
}

/// Opens and reads the file that `path` leads to.
fn find(path: &Path) -> anyhow::Result<Option<Found>> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        Err(error) => {
            let what = format!("{} is a dangling link: repair or remove it", path.display());
            return Err(error).context(what);
        }
    };
    refuse_foreign_target(path, &target)?;
    let cannot_read = || format!("cannot read {}", path.display());
    // Without waiting: a FIFO in the place of the file must not hold us.
    let flags = rustix::fs::OFlags::RDONLY
        | rustix::fs::OFlags::NONBLOCK
        | rustix::fs::OFlags::CLOEXEC
        | rustix::fs::OFlags::NOFOLLOW;
    let opened = rustix::fs::open(&target, flags, rustix::fs::Mode::empty());
    let mut file = File::from(opened.with_context(cannot_read)?);
    let metadata = file.metadata().with_context(cannot_read)?;
    if !metadata.is_file() {
        bail!("{} is not a regular file", path.display());
    }
    if metadata.nlink() > 1 {
        bail!(
            "{} has {} hard links, which replacing the file would break: make it a symbolic link",
            path.display(),
            metadata.nlink()
        );
    }
    if SETTINGS_BYTES_MAX < metadata.len() {
        bail!(
            "{} has {} bytes; settings have {SETTINGS_BYTES_MAX} at most: repair or move the file",
            path.display(),
            metadata.len()
        );
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(cannot_read)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.split(|byte| *byte == b'\n').count();
        let column = valid.rsplit(|byte| *byte == b'\n').next().unwrap_or_default().len() + 1;
        anyhow::anyhow!(
            "{}:{line}:{column}: not UTF-8: save it as UTF-8 and run again; nothing was changed",
            path.display()
        )
    })?;
    Ok(Some(Found { target, file, text }))
}

/// Where the settings really lie, if `path` or its directory is a link.
pub(super) fn target_of_link(path: &Path) -> Option<PathBuf> {
    let is_link = path.is_symlink() || path.parent().is_some_and(Path::is_symlink);
    is_link.then(|| fs::canonicalize(path).ok()).flatten()
}

/// A link may lead to a file that another user reads and writes; only our own is changed through one.
fn refuse_foreign_target(path: &Path, target: &Path) -> anyhow::Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    let owner =
        fs::metadata(target).with_context(|| format!("cannot read {}", path.display()))?.uid();
    if owner != uid && target_of_link(path).is_some() {
        bail!(
            "{} is a link to {}, which belongs to user {owner}: replace the link with a file of \
             your own, or run as that user; nothing was changed",
            path.display(),
            target.display()
        );
    }
    Ok(())
}

/// Whether the name still leads to the file that was read, with the same text.
fn is_still(found: &Found) -> anyhow::Result<bool> {
    let now = match fs::metadata(&found.target) {
        Ok(now) => now,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).with_context(|| found.target.display().to_string()),
    };
    let then = found.file.metadata()?;
    let text = fs::read(&found.target)?;
    Ok((now.dev(), now.ino()) == (then.dev(), then.ino()) && text == found.text.as_bytes())
}

/// Puts a new file in the place of the one found, with its mode, owner and attributes.
fn replace(found: &Found, text: &str, lost: &mut Vec<String>) -> anyhow::Result<bool> {
    let temporary = temporary(&found.target, text.as_bytes())?;
    let (old, new) = (found.file.metadata()?, temporary.as_file().metadata()?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        fchown(temporary.as_file(), Some(old.uid()), Some(old.gid())).with_context(|| {
            let target = found.target.display();
            format!("cannot keep the owner of {target}: run as user {}", old.uid())
        })?;
    }
    *lost = attributes::copy(&found.file, temporary.as_file());
    // After the owner, since a change of owner takes bits away.
    temporary.as_file().set_permissions(old.permissions())?;
    temporary.as_file().sync_all()?;
    read_back(temporary.path(), text)?;
    if !is_still(found)? {
        return Ok(false);
    }
    temporary
        .persist(&found.target)
        .with_context(|| format!("cannot replace {}", found.target.display()))?;
    sync_directory(directory(&found.target)?)?;
    Ok(true)
}

fn remove(found: &Found) -> anyhow::Result<bool> {
    if !is_still(found)? {
        return Ok(false);
    }
    fs::remove_file(&found.target)
        .with_context(|| format!("cannot remove {}", found.target.display()))?;
    sync_directory(directory(&found.target)?)?;
    Ok(true)
}

/// Makes a file where there is none; one that turns up meanwhile is not overwritten.
fn create(
    path: &Path,
    edit: &dyn Fn(Option<&str>) -> anyhow::Result<Wanted>,
) -> anyhow::Result<Option<Outcome>> {
    let after = after(path, edit(None)?);
    let outcome = Outcome { before: None, after, backup: None, lost: Vec::new() };
    let Some(text) = &outcome.after else { return Ok(Some(outcome)) };
    let directory = directory(path)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let temporary = temporary(path, text.as_bytes())?;
    read_back(temporary.path(), text)?;
    match temporary.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot make {}", path.display())),
    }
    sync_directory(directory)?;
    verify(path, &outcome)?;
    Ok(Some(outcome))
}

/// How the name of a file begins that is to replace the one at `path`.
fn unfinished_prefix(path: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".coord-");
    prefix
}

/// A synced file of mode 0600 beside `path`, which is gone again unless it is given that name.
pub(crate) fn temporary(path: &Path, bytes: &[u8]) -> anyhow::Result<NamedTempFile> {
    let directory = directory(path)?;
    let cannot_write = || format!("cannot write in {}", directory.display());
    let mut file = tempfile::Builder::new()
        .prefix(&unfinished_prefix(path))
        .tempfile_in(directory)
        .with_context(cannot_write)?;
    file.write_all(bytes).with_context(cannot_write)?;
    file.as_file().sync_all().with_context(cannot_write)?;
    Ok(file)
}

/// Removes what a killed edit of `path` left. Only under the lock: without it, it may be another's.
fn remove_unfinished(path: &Path) -> anyhow::Result<()> {
    let (directory, prefix) = (directory(path)?, unfinished_prefix(path));
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries.flatten() {
        if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            // One that stays harms nobody.
            drop(fs::remove_file(entry.path()));
        }
    }
    Ok(())
}

/// Refuses a disk that does not give back what was written, before anything depends on it.
fn read_back(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = File::open(path)?;
    // What is synced need not stay in memory: the read is then one of the disk itself.
    let _from_memory_then = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if bytes != text.as_bytes() {
        bail!(
            "the disk of {} returns other bytes than were written: check the disk",
            path.display()
        );
    }
    Ok(())
}

fn verify(path: &Path, outcome: &Outcome) -> anyhow::Result<()> {
    let now = find(path)?.map(|found| found.text);
    if now != outcome.after {
        let backup = outcome.backup.as_ref();
        let where_ = backup.map(|path| format!(" (its former text: {})", path.display()));
        bail!("{} was changed again at once{}", path.display(), where_.unwrap_or_default());
    }
    Ok(())
}

fn directory(path: &Path) -> anyhow::Result<&Path> {
    path.parent().with_context(|| format!("{} has no directory", path.display()))
}

pub(crate) fn sync_directory(directory: &Path) -> anyhow::Result<()> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .with_context(|| format!("cannot sync {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt as _;

    fn append(before: Option<&str>) -> Wanted {
        Wanted::Text(format!("{}+", before.unwrap_or_default()))
    }

    #[test]
    fn a_write_between_read_and_rename_begins_the_edit_anew_g8() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("settings.json");
        fs::write(&path, "first").unwrap();
        let calls = Cell::new(0);
        let edit = |before: Option<&str>| {
            calls.set(calls.get() + 1);
            if calls.get() == 1 {
                fs::write(&path, "second").unwrap();
            } else if calls.get() == 2 {
                fs::write(scratch.path().join("new"), "third").unwrap();
                fs::rename(scratch.path().join("new"), &path).unwrap();
            }
            Ok(append(before))
        };
        change(&path, &edit).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third+");
        assert_eq!(calls.get(), 3);
        assert_eq!(fs::read_to_string(backup_path(&path)).unwrap(), "third");
    }

    #[test]
    fn a_file_that_turns_up_meanwhile_is_edited_not_overwritten_g8() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("deep/settings.json");
        let edit = |before: Option<&str>| {
            if before.is_none() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "user").unwrap();
            }
            Ok(append(before))
        };
        change(&path, &edit).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "user+");
    }

    #[test]
    fn a_program_that_keeps_writing_wins_g8() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("settings.json");
        fs::write(&path, "").unwrap();
        let edit = |before: Option<&str>| {
            fs::write(&path, format!("{}.", before.unwrap())).unwrap();
            Ok(append(before))
        };
        let error = change(&path, &edit).unwrap_err().to_string();
        assert!(error.contains("being changed by another program"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), ".....");
    }

    #[test]
    fn concurrent_edits_are_all_kept_g8() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("settings.json");
        fs::write(&path, "").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                // One waiter may find the file changed by every other one, and no more.
                scope.spawn(|| change(&path, &|before| Ok(append(before))).unwrap());
            }
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "++++");
    }

    #[test]
    fn links_modes_and_strange_files_g8() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, target) = (scratch.path().join("settings.json"), scratch.path().join("dot"));
        fs::write(&target, "a").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("dot", &path).unwrap();
        let outcome = change(&path, &|before| Ok(append(before))).unwrap();
        assert!(path.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "a+");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o7777, 0o640);
        let backup = fs::metadata(outcome.backup.unwrap()).unwrap();
        assert_eq!(backup.permissions().mode() & 0o7777, 0o600);

        fs::hard_link(&target, scratch.path().join("twin")).unwrap();
        let error = change(&path, &|before| Ok(append(before))).unwrap_err().to_string();
        assert!(error.contains("hard links"), "{error}");
        fs::remove_file(&target).unwrap();
        let error = change(&path, &|before| Ok(append(before))).unwrap_err().to_string();
        assert!(error.contains("dangling link"), "{error}");
        assert!(path.is_symlink());
    }
}
