//! The directory that git is given in place of a repository's own: links to its data, and a configuration of ours.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::repository::{Repository, open_regular};
use super::settings::Settings;

/// Most files of a split index that are copied, and the most bytes of all of them.
const SHARED_FILES_MAX: usize = 8;
const SHARED_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The directory. It is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Shadow {
    dir: TempDir,
}

impl Shadow {
    /// Makes the directory. Others cannot enter it.
    pub(super) fn make(repository: &Repository) -> io::Result<Self> {
        let shadow = Self { dir: tempfile::Builder::new().prefix("coord-work-").tempdir()? };
        let dir = shadow.dir();
        let (own, common) = (&repository.git_dir, &repository.common_dir);
        fs::write(dir.join("HEAD"), &repository.head)?;
        borrow_objects(common, dir)?;
        for name in ["packed-refs", "refs", "reftable", "shallow"] {
            symlink(common.join(name), dir.join(name))?;
        }
        // If there is no index, nothing is at the end of the link, as git expects it.
        symlink(own.join("index"), dir.join("index"))?;
        let info = dir.join("info");
        fs::create_dir(&info)?;
        symlink(common.join("info/attributes"), info.join("attributes"))?;
        symlink(common.join("info/exclude"), info.join("exclude"))?;
        symlink(own.join("info/sparse-checkout"), info.join("sparse-checkout"))?;
        copy_shared_index(own, dir)?;
        shadow.configure(&Settings::default())?;
        Ok(shadow)
    }

    /// Writes the configuration.
    pub(super) fn configure(&self, settings: &Settings) -> io::Result<()> {
        fs::write(self.dir().join("config"), settings.text())
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Names the repository's objects as borrowed ones: an object that git writes is written into the directory of ours.
fn borrow_objects(common: &Path, dir: &Path) -> io::Result<()> {
    let info = dir.join("objects/info");
    fs::create_dir_all(&info)?;
    let mut line = b"\"".to_vec();
    for byte in common.join("objects").as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            line.push(*byte);
        } else {
            line.extend(format!("\\{byte:03o}").as_bytes());
        }
    }
    line.extend(b"\"\n");
    fs::write(info.join("alternates"), line)
}

/// Copies the files of a split index: git sets their time whenever it reads them, through a link too.
fn copy_shared_index(from: &Path, to: &Path) -> io::Result<()> {
    let names = fs::read_dir(from)?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        let is_shared = name.to_str().is_some_and(|name| name.starts_with("sharedindex."));
        is_shared.then_some(PathBuf::from(name))
    });
    let mut left = SHARED_BYTES_MAX;
    for name in names.take(SHARED_FILES_MAX) {
        // What cannot be copied is missing, and the index unreadable.
        let Ok(Some(file)) = open_regular(&from.join(&name)) else { continue };
        let length = file.metadata()?.len();
        let Some(rest) = left.checked_sub(length) else { continue };
        left = rest;
        let mut copy = File::create(to.join(&name))?;
        io::copy(&mut io::Read::take(file, length), &mut copy)?;
    }
    Ok(())
}
