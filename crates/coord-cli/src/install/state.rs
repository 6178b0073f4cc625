//! The state directory as an installation needs it: private, with its digest key and its record.
//!
//! Decides who may have it (its owner only) and what is removed by `--purge`. Starts and stops
//! nothing. Holds H-15 and H-41 (the install record) and the part of H-29 that keeps another user,
//! root included, from leaving files in it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use coord_wire::api::InstallRecord;
use coord_wire::paths::{Paths, machine_id};

use super::settings_file::{sync_directory, temporary};

/// Keys the digests of prompts and tool inputs, in bytes.
const DIGEST_KEY_BYTES: usize = 16;

/// Where state is, and for whom.
#[derive(Debug)]
pub(super) struct State {
    pub paths: Paths,
    machine: String,
    uid: u32,
    root: Option<PathBuf>,
}

impl State {
    /// Names the directories, and refuses those of another user.
    pub(super) fn locate(root: Option<&Path>) -> anyhow::Result<Self> {
        let root = match root {
            Some(root) => Some(std::path::absolute(root).context("--root")?),
            None => None,
        };
        let file = fs::read_to_string("/etc/machine-id").ok();
        let node = rustix::system::uname();
        let machine = machine_id(file.as_deref(), &node.nodename().to_string_lossy());
        let uid = rustix::process::geteuid().as_raw();
        let paths = Paths::resolve(root.as_deref(), &machine, uid, |name| std::env::var_os(name))?;
        let state = Self { paths, machine, uid, root };
        state.refuse_other_owner()?;
        Ok(state)
    }

    /// `sudo coord install` would leave files of root where the user's coordinator cannot write.
    fn refuse_other_owner(&self) -> anyhow::Result<()> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|_| self.root.is_none());
        let owned = [Some(self.paths.state.clone()), Some(self.paths.state_base.clone()), home];
        for path in owned.into_iter().flatten() {
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if metadata.uid() != self.uid {
                bail!(
                    "{} belongs to user {}: run as that user, or set COORD_HOME",
                    path.display(),
                    metadata.uid()
                );
            }
        }
        Ok(())
    }

    /// Makes what is missing and leaves what is there.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        for directory in [&self.paths.state_base, &self.paths.state] {
            make_private(directory)?;
        }
        self.make_digest_key()?;
        self.write_record()
    }

    fn make_digest_key(&self) -> anyhow::Result<()> {
        let path = self.paths.digest_key();
        let mut key = [0_u8; DIGEST_KEY_BYTES];
        rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())
            .context("no random numbers")?;
        let file = temporary(&self.paths.state, &key)?;
        match file.persist_noclobber(&path) {
            Ok(_) => sync_directory(&self.paths.state),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                let bytes = fs::metadata(&path)?.len();
                if bytes != DIGEST_KEY_BYTES as u64 {
                    bail!("{} has {bytes} bytes instead of 16: move it away", path.display());
                }
                Ok(())
            }
            Err(error) => Err(error).with_context(|| format!("cannot make {}", path.display())),
        }
    }

    fn write_record(&self) -> anyhow::Result<()> {
        let path = self.paths.install_record();
        let program = std::env::current_exe().context("cannot tell the path of this program")?;
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.with_context(|| format!("{} is not UTF-8: use another path", path.display()))
        };
        let record = InstallRecord {
            v: 1,
            coord: text(&program)?,
            machine: self.machine.clone(),
            uid: self.uid,
            // Zero where the system has no pid namespaces.
            pid_ns: fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino()),
            root: self.root.as_deref().map(text).transpose()?,
        };
        let standing = fs::read(&path).ok();
        let standing = standing.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if standing.as_ref() == Some(&record) {
            return Ok(());
        }
        let file = temporary(&self.paths.state, &serde_json::to_vec(&record)?)?;
        file.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
        sync_directory(&self.paths.state)
    }

    /// Refuses while a coordinator holds its lock.
    pub(super) fn refuse_running(&self) -> anyhow::Result<()> {
        let lock = match File::open(self.paths.coordinator_lock()) {
            Ok(lock) => lock,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).context("cannot open the coordinator's lock"),
        };
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared)
            .context("the coordinator is running, or that cannot be told: run `coord down` first")
    }

    /// Removes the state of this machine, the socket, and the directories left empty.
    pub(super) fn purge(&self) -> anyhow::Result<()> {
        self.refuse_running()?;
        for file in [self.paths.socket(), self.paths.miss()] {
            ignore_absent(fs::remove_file(&file), &file)?;
        }
        ignore_absent(fs::remove_dir_all(&self.paths.state), &self.paths.state)?;
        for directory in [&self.paths.run, &self.paths.state_base] {
            // One that is not empty holds another machine's state, and stays.
            drop(fs::remove_dir(directory));
        }
        Ok(())
    }
}

fn make_private(directory: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let mode = fs::metadata(directory)?.permissions().mode() & 0o7777;
    if mode != 0o700 {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
            .with_context(|| format!("cannot make {} private", directory.display()))?;
    }
    Ok(())
}

fn ignore_absent(done: std::io::Result<()>, path: &Path) -> anyhow::Result<()> {
    match done {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
