//! Creates the state directory: private to one user, and with the key for digests.
//!
//! This module decides who may use the directory (only its owner; any other user, root included, leaves no
//! file in it, H-29), and where it may be (on a local file system with working locks, H-15). `coord install`,
//! `coord serve` and `coord down` create it in the same way, and keep what exists.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use anyhow::{Context, bail};
use coord_store::{Disk, RealDisk, check_place};
use coord_wire::paths::Paths;
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Length of the key for digests of prompts and tool inputs, in bytes.
const DIGEST_KEY_BYTES: usize = 16;

/// Creates the directories and files that are missing.
pub fn prepare(paths: &Paths) -> anyhow::Result<()> {
    // Directories above ours need no protection; ours have mode 0700.
    let above = paths.state_base.parent().unwrap_or(&paths.state_base);
    std::fs::create_dir_all(above).with_context(|| format!("cannot make {}", above.display()))?;
    for dir in [&paths.state_base, &paths.state, &paths.spool(), &paths.logs()] {
        RealDisk.create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    check_place(&paths.state)?;
    make_digest_key(paths)
}

/// Creates the key, unless it exists. The key file is complete, or it does not exist.
fn make_digest_key(paths: &Paths) -> anyhow::Result<()> {
    let path = paths.digest_key();
    let failed = || format!("cannot make {}", path.display());
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.len() == DIGEST_KEY_BYTES as u64 => return Ok(()),
        Ok(metadata) => {
            bail!("{} has {} bytes instead of 16: move it away", path.display(), metadata.len())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => (),
        Err(error) => return Err(error).with_context(failed),
    }
    let mut key = [0; DIGEST_KEY_BYTES];
    rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())?;
    let new = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .with_context(failed)?;
    // The umask reduces the mode above, and may deny even the owner all access.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
        .and_then(|()| file.write_all(&key))
        .and_then(|()| file.sync_all())
        .with_context(failed)?;
    match renameat_with(CWD, &new, CWD, &path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(RealDisk.sync_dir(&paths.state)?),
        // Another program created the key at the same time: its key counts.
        Err(rustix::io::Errno::EXIST) => Ok(std::fs::remove_file(&new)?),
        Err(error) => Err(error).with_context(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(root: &std::path::Path) -> Paths {
        Paths::resolve(Some(root), "m1234567", 0, |_| None).unwrap()
    }

    // G11
    #[test]
    fn everything_is_private_and_the_key_stays() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path());
        prepare(&paths).unwrap();
        let key = std::fs::read(paths.digest_key()).unwrap();
        assert_eq!(key.len(), DIGEST_KEY_BYTES);
        for (path, mode) in
            [(&paths.state, 0o700), (&paths.spool(), 0o700), (&paths.digest_key(), 0o600)]
        {
            let metadata = std::fs::metadata(path).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{}", path.display());
        }
        prepare(&paths).unwrap();
        assert_eq!(std::fs::read(paths.digest_key()).unwrap(), key);
    }

    #[test]
    fn a_cut_key_is_named_and_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path());
        prepare(&paths).unwrap();
        std::fs::write(paths.digest_key(), b"short").unwrap();
        let error = prepare(&paths).unwrap_err().to_string();
        assert!(error.contains("digest.key has 5 bytes instead of 16"), "{error}");
    }
}
