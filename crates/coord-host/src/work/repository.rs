//! Finds the repository that a directory is in, without git: only what belongs to this user is looked into.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coord_model::Operation;
use rustix::fs::{Mode, OFlags, open};

/// Longest file that names a directory or a reference, in bytes.
const NAME_BYTES_MAX: u64 = 8192;
/// Longest configuration that is read, in bytes.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// A repository with a work tree, all of it this user's.
#[derive(Debug)]
pub(super) struct Repository {
    /// Root of the work tree.
    pub(super) root: PathBuf,
    /// What belongs to this work tree alone: HEAD, index, the operation in progress.
    pub(super) git_dir: PathBuf,
    /// What all work trees have in common: objects, references, configuration.
    pub(super) common_dir: PathBuf,
    /// The text of HEAD.
    pub(super) head: Vec<u8>,
}

/// The result of a search.
#[derive(Debug)]
pub(super) enum Search {
    /// A repository of this user.
    Found(Repository),
    /// There is none.
    Nothing,
    /// It belongs to another user.
    NotOurs,
}

/// Finds the repository of the innermost work tree that contains `cwd`. A directory inside of a git directory belongs to
/// the work tree around it; a bare repository has none. `uid` is this user.
pub(super) fn find(cwd: &Path, uid: u32) -> Result<Search, String> {
    let cwd = cwd.canonicalize().map_err(|error| format!("the directory: {error}"))?;
    for dir in cwd.ancestors() {
        if let Some(search) = find_in(dir, uid)? {
            return Ok(search);
        }
    }
    Ok(Search::Nothing)
}

/// The repository whose work tree begins at `root`, if one does.
fn find_in(root: &Path, uid: u32) -> Result<Option<Search>, String> {
    let link = root.join(".git");
    let text = |error: io::Error| format!(".git: {error}");
    let is_ours = |of: &Metadata| of.uid() == uid;
    let Some(of_link) = present(fs::symlink_metadata(&link)).map_err(text)? else {
        return Ok(None);
    };
    let of_root = fs::metadata(root).map_err(text)?;
    if !is_ours(&of_root) || !is_ours(&of_link) {
        return Ok(Some(Search::NotOurs));
    }
    // A link to a git directory is followed, as git does.
    let Some(kind) = present(fs::metadata(&link)).map_err(text)? else { return Ok(None) };
    let git_dir = if kind.is_dir() {
        link
    } else if kind.is_file() {
        let named = small_file(&link).map_err(text)?.unwrap_or_default();
        let named = named.strip_prefix(b"gitdir:").ok_or(".git: it names no git directory")?;
        root.join(path(named))
    } else {
        return Ok(None);
    };
    let git_dir = git_dir.canonicalize().map_err(text)?;
    let common_dir = match small_file(&git_dir.join("commondir")).map_err(text)? {
        Some(named) => git_dir.join(path(&named)).canonicalize().map_err(text)?,
        None => git_dir.clone(),
    };
    for dir in [&git_dir, &common_dir] {
        if !is_ours(&fs::metadata(dir).map_err(text)?) {
            return Ok(Some(Search::NotOurs));
        }
    }
    let Some(head) = head_of(&git_dir).map_err(text)? else { return Ok(None) };
    let is_whole = ["objects", "refs"].iter().all(|name| common_dir.join(name).is_dir());
    let repository = Repository { root: root.to_owned(), git_dir, common_dir, head };
    Ok(is_whole.then_some(Search::Found(repository)))
}

impl Repository {
    /// Whether this is not the repository's first work tree.
    pub(super) fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// The operation in progress. Of several, the one that contains the others.
    pub(super) fn operation(&self) -> Option<Operation> {
        let marks = [
            ("rebase-apply/applying", Operation::Am),
            ("rebase-apply", Operation::Rebase),
            ("rebase-merge", Operation::Rebase),
            ("MERGE_HEAD", Operation::Merge),
            ("CHERRY_PICK_HEAD", Operation::CherryPick),
            ("REVERT_HEAD", Operation::Revert),
        ];
        let is_there = |name: &str| fs::symlink_metadata(self.git_dir.join(name)).is_ok();
        let found = marks.into_iter().find(|(name, _)| is_there(name)).map(|(_, found)| found);
        // Between two steps, a sequence has neither head.
        found
            .or_else(|| self.sequence())
            .or_else(|| is_there("BISECT_LOG").then_some(Operation::Bisect))
    }

    /// The operation whose next steps are listed.
    fn sequence(&self) -> Option<Operation> {
        let steps = small_file(&self.git_dir.join("sequencer/todo")).ok()??;
        match steps.split(|byte| *byte == b' ').next()? {
            b"pick" | b"p" => Some(Operation::CherryPick),
            b"revert" => Some(Operation::Revert),
            _ => None,
        }
    }
}

/// The text of HEAD. An old repository has a link there.
fn head_of(git_dir: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = git_dir.join("HEAD");
    let Some(found) = present(fs::symlink_metadata(&file))? else { return Ok(None) };
    if found.is_symlink() {
        let target = fs::read_link(&file)?;
        return Ok(Some([b"ref: ", target.as_os_str().as_bytes(), b"\n"].concat()));
    }
    small_file(&file)
}

/// What is there; none if nothing is.
fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Opens a regular file, without following a link and without blocking (H-27). None if there is no such file.
pub(super) fn open_regular(file: &Path) -> io::Result<Option<File>> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = open(file, flags, Mode::empty()).map_err(io::Error::from);
    let Some(file) = present(opened)?.map(File::from) else { return Ok(None) };
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Opens a configuration file. The error says why it is not read.
pub(super) fn open_config(file: &Path) -> Result<Option<File>, String> {
    let text = |error: io::Error| format!("config: {error}");
    let Some(file) = open_regular(file).map_err(text)? else { return Ok(None) };
    let length = file.metadata().map_err(text)?.len();
    if CONFIG_BYTES_MAX < length {
        Err("config: it is too long".to_owned())
    } else {
        Ok(Some(file))
    }
}

/// The text of a small file. None if there is no such file.
fn small_file(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_regular(file)? else { return Ok(None) };
    let mut text = Vec::new();
    file.take(NAME_BYTES_MAX).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// The path that a line is.
fn path(line: &[u8]) -> PathBuf {
    std::ffi::OsString::from_vec(line.trim_ascii().to_owned()).into()
}
