//! Keeps what is known of the other machines in files, one for each machine: whoever shows them needs neither the relay nor
//! the engine (F-02).

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use coord_fleet::{Peer, Peers};
use coord_model::MachineId;
use serde::{Deserialize, Serialize};

/// A file with what is known of a machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerFile<P = Peer> {
    /// 1.
    pub version: u32,
    /// The boot in which `peer.heard_ms` is a time.
    pub boot: String,
    /// What is known.
    pub peer: P,
}

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

impl PeerFile {
    /// Reads the files of all machines. One that cannot be read is left out.
    ///
    /// # Errors
    /// The directory cannot be read. A missing one has no machines.
    pub fn read_all(dir: &Path) -> io::Result<Vec<(MachineId, Self)>> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let machine =
                name.to_str().and_then(|name| MachineId::parse(name.strip_suffix(".json")?));
            let Some(machine) = machine else { continue };
            if entry.metadata().is_ok_and(|meta| FILE_BYTES_MAX < meta.len()) {
                continue;
            }
            let Ok(text) = fs::read(entry.path()) else { continue };
            let Ok(file) = serde_json::from_slice::<Self>(&text) else { continue };
            if file.version == 1 {
                all.push((machine, file));
            }
        }
        all.sort_by_key(|(machine, _)| *machine);
        Ok(all)
    }
}

/// The directory with the files.
#[derive(Debug)]
pub(crate) struct Views {
    dir: PathBuf,
    boot: String,
    own: MachineId,
    /// Machines whose file is older than what is known.
    changed: BTreeSet<MachineId>,
}

impl Views {
    /// The views of the machine `own`, of which there is no file.
    pub(crate) fn open(dir: PathBuf, boot: String, own: MachineId) -> io::Result<Self> {
        private_dir(&dir)?;
        Ok(Self { dir, boot, own, changed: BTreeSet::new() })
    }

    /// Notes which machines have changed.
    pub(crate) fn note(&mut self, peers: &mut Peers) {
        let own = self.own;
        self.changed.extend(peers.take_changed().filter(|machine| *machine != own));
    }

    /// Removes the files of machines that are not known, after all that are were looked at.
    pub(crate) fn forget_others(&mut self, peers: &Peers) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)?.flatten() {
            let name = entry.file_name();
            let machine =
                name.to_str().and_then(|name| MachineId::parse(name.strip_suffix(".json")?));
            if machine.is_some_and(|machine| !peers.all().contains_key(&machine)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes the files of machines that have changed.
    pub(crate) fn write(&mut self, peers: &Peers) -> io::Result<()> {
        while let Some(machine) = self.changed.pop_first() {
            let path = self.dir.join(format!("{machine}.json"));
            let Some(peer) = peers.all().get(&machine) else {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => continue,
                }
            };
            let file = PeerFile { version: 1, boot: self.boot.clone(), peer };
            let text = serde_json::to_vec(&file).map_err(io::Error::other)?;
            write_whole(&path, &text)?;
        }
        Ok(())
    }
}

/// Makes a directory for its owner alone.
///
/// # Errors
/// It cannot be made.
pub fn private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Replaces a file: readers see the old text or the new one.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text)?;
    fs::rename(&new, path)
}

/// The same, and durably.
///
/// # Errors
/// It was not written; the old text may be there.
pub fn write_durably(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |dir| fs::File::open(dir)?.sync_all())
}
