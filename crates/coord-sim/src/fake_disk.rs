//! A disk in memory that fails on demand.
//!
//! The fault model:
//!
//! * Operations are counted, reads too. The n-th one, or all from the n-th on, can fail with an
//!   error; an append that fails may have written its first half.
//! * The disk can be of limited size: an append writes what fits and then fails with ENOSPC.
//! * The power can go at the n-th operation: it and all later ones fail, and [`FakeDisk::after_crash`]
//!   gives the disk as the next boot finds it.
//! * What was not synced is then kept (which is also what a `kill -9` leaves), dropped, or torn:
//!   of a file the old or the new length or any between, each sector of [`SECTOR`] bytes written
//!   or still zero, in any order; of a directory any part of the names made, renamed and removed
//!   since it was synced. A single rename is never half done.
//! * A sync that fails loses its data for good although it stays readable: a later sync succeeds
//!   and makes zeros durable (Linux counts the pages as clean).
//!
//! Excluded: bits that rot in synced data (tests flip them by [`FakeDisk::write_synced`]), writes
//! that reach other files, synced data lost, directories that vanish (their making is durable).

use crate::random::Random;
use coord_store::disk::{Disk, DiskFile};
use coord_wire::stamp::WallMs;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a power loss writes or does not, in bytes; small, so that it falls inside records.
pub const SECTOR: usize = 16;

/// What an operation meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The n-th operation from now (from 1) fails, and only that one.
    Error {
        /// Which operation.
        at: u64,
        /// How.
        kind: io::ErrorKind,
    },
    /// All operations from the n-th on fail: the power is gone.
    PowerCut {
        /// Which operation.
        at: u64,
    },
}

/// What becomes of unsynced data in a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// All of it is there, as after a `kill -9`.
    Kept,
    /// None of it is there.
    Dropped,
    /// Any part of it is there, by this seed.
    Torn(u64),
}

/// The disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct FakeDisk {
    world: Arc<Mutex<World>>,
}

/// An open file of a [`FakeDisk`].
#[derive(Debug)]
pub struct FakeFile {
    world: Arc<Mutex<World>>,
    file: usize,
    holds_lock: Mutex<bool>,
}

#[derive(Debug, Default)]
struct World {
    files: Vec<Content>,
    /// Names as the running programs see them.
    names: BTreeMap<PathBuf, usize>,
    /// Names as of the last sync of their directory.
    durable_names: BTreeMap<PathBuf, usize>,
    /// Changes of names since then, in order.
    changes: Vec<Change>,
    dirs: BTreeSet<PathBuf>,
    operations: u64,
    fault: Option<(u64, Fault)>,
    capacity: Option<u64>,
    now: WallMs,
}

#[derive(Debug, Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// The shortest the file has been since its last sync: what is below has not changed.
    low: usize,
    /// Ranges that a failed sync has lost.
    lost: Vec<(usize, usize)>,
    modified: WallMs,
    locked: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Made { path: PathBuf, file: usize },
    Renamed { from: PathBuf, to: PathBuf, file: usize },
    Removed { path: PathBuf },
}

impl Change {
    fn is_in(&self, dir: &Path) -> bool {
        match self {
            Self::Made { path, .. } | Self::Removed { path } => path.parent() == Some(dir),
            Self::Renamed { to, .. } => to.parent() == Some(dir),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Made { path, file } => {
                names.insert(path.clone(), *file);
            }
            Self::Renamed { from, to, file } => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            Self::Removed { path } => {
                names.remove(path);
            }
        }
    }
}

impl FakeDisk {
    /// An empty disk of unlimited size.
    pub fn new() -> Self {
        Self::default()
    }

    /// Arms a fault; it counts from the next operation. An earlier one is forgotten.
    pub fn arm(&self, fault: Fault) {
        let mut world = self.world();
        world.fault = Some((world.operations, fault));
    }

    /// Forgets an armed fault.
    pub fn disarm(&self) {
        self.world().fault = None;
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.world().operations
    }

    /// Looks at the disk from outside the world: it counts as no operation and meets no fault.
    pub fn aside<T>(&self, look: impl FnOnce(&Self) -> T) -> T {
        let (operations, fault) = {
            let mut world = self.world();
            (world.operations, world.fault.take())
        };
        let seen = look(self);
        let mut world = self.world();
        (world.operations, world.fault) = (operations, fault);
        seen
    }

    /// Limits the bytes of all files together; none for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity = bytes;
    }

    /// Sets the wall time that changed files get.
    pub fn set_now(&self, now: WallMs) {
        self.world().now = now;
    }

    /// Bytes of all files together.
    pub fn used(&self) -> u64 {
        self.world().used()
    }

    /// Puts a file on the disk, durable, for tests that begin with one.
    pub fn write_synced(&self, path: &Path, bytes: &[u8]) {
        let mut world = self.world();
        world.dirs.extend(path.parent().map(Path::to_path_buf));
        let file = world.files.len();
        let (bytes, modified) = (bytes.to_vec(), world.now);
        let (durable, low) = (bytes.clone(), bytes.len());
        world.files.push(Content { bytes, durable, low, modified, ..Content::default() });
        world.names.insert(path.to_path_buf(), file);
        world.durable_names.insert(path.to_path_buf(), file);
    }

    /// The disk as the next boot finds it; this one is not changed.
    #[must_use]
    pub fn after_crash(&self, damage: Damage) -> Self {
        let world = self.world();
        let mut random = Random::new(match damage {
            Damage::Torn(seed) => seed,
            Damage::Kept | Damage::Dropped => 0,
        });
        let mut names = world.durable_names.clone();
        for change in &world.changes {
            let survives = match damage {
                Damage::Kept => true,
                Damage::Dropped => false,
                Damage::Torn(_) => random.coin(),
            };
            if survives {
                change.apply(&mut names);
            }
        }
        let files = world.files.iter().map(|content| {
            let bytes = match damage {
                Damage::Kept => content.bytes.clone(),
                Damage::Dropped => content.durable.clone(),
                Damage::Torn(_) => content.torn(&mut random),
            };
            let (durable, low) = (bytes.clone(), bytes.len());
            Content { bytes, durable, low, modified: content.modified, ..Content::default() }
        });
        let after = World {
            files: files.collect(),
            durable_names: names.clone(),
            names,
            dirs: world.dirs.clone(),
            capacity: world.capacity,
            now: world.now,
            ..World::default()
        };
        Self { world: Arc::new(Mutex::new(after)) }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Counts an operation and lets it fail if its turn has come.
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.fault {
            Some((since, Fault::Error { at, kind })) if self.operations == since + at => {
                Err(io::Error::new(kind, "injected"))
            }
            Some((since, Fault::PowerCut { at })) if since + at <= self.operations => {
                Err(io::Error::other("the power is gone"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The power had gone before this operation; the one that it goes at may be half done.
    fn was_cut(&self) -> bool {
        matches!(self.fault, Some((since, Fault::PowerCut { at })) if since + at < self.operations)
    }

    fn is_cut(&self) -> bool {
        matches!(self.fault, Some((since, Fault::PowerCut { at })) if since + at <= self.operations)
    }

    fn used(&self) -> u64 {
        self.names
            .values()
            .filter_map(|file| self.files.get(*file))
            .map(|c| c.bytes.len() as u64)
            .sum()
    }

    fn find(&self, path: &Path) -> io::Result<(usize, &Content)> {
        let file = self.names.get(path).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok((file, self.files.get(file).ok_or(io::ErrorKind::NotFound)?))
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn append(&mut self, file: usize, bytes: &[u8]) -> io::Result<()> {
        let failed = self.operate();
        let fits = match (&failed, self.capacity) {
            (Err(_), _) if self.was_cut() => 0,
            (Err(_), _) => bytes.len() / 2,
            (Ok(()), None) => bytes.len(),
            (Ok(()), Some(capacity)) => {
                let room = capacity.saturating_sub(self.used());
                bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))
            }
        };
        let now = self.now;
        let content = self.files.get_mut(file).ok_or(io::ErrorKind::NotFound)?;
        content.bytes.extend(bytes.iter().take(fits));
        content.modified = now;
        failed?;
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self, file: usize) -> io::Result<()> {
        let failed = self.operate();
        let is_cut = self.is_cut();
        let content = self.files.get_mut(file).ok_or(io::ErrorKind::NotFound)?;
        match failed {
            Ok(()) => {
                content.durable.clone_from(&content.bytes);
                for (from, to) in &content.lost {
                    let to = (*to).min(content.durable.len());
                    content.durable.get_mut(*from..to).unwrap_or_default().fill(0);
                }
                content.low = content.bytes.len();
                Ok(())
            }
            Err(error) if is_cut => Err(error),
            Err(error) => {
                content.lost.push((content.low.min(content.durable.len()), content.bytes.len()));
                Err(error)
            }
        }
    }
}

impl Content {
    fn torn(&self, random: &mut Random) -> Vec<u8> {
        let low = self.low.min(self.durable.len());
        let longest = self.bytes.len().max(self.durable.len());
        let len = match random.below(3) {
            0 => self.bytes.len(),
            1 => self.durable.len(),
            _ => low + random.index(longest - low + 1),
        };
        let mut torn = vec![0; len];
        for (at, byte) in torn.iter_mut().enumerate().take(low) {
            *byte = self.durable.get(at).copied().unwrap_or(0);
        }
        let mut at = low;
        while at < len {
            let end = len.min((at / SECTOR + 1) * SECTOR);
            let source = if random.coin() { &self.bytes } else { &self.durable };
            for (at, byte) in torn.iter_mut().enumerate().take(end).skip(at) {
                *byte = source.get(at).copied().unwrap_or(0);
            }
            at = end;
        }
        torn
    }
}

impl Disk for FakeDisk {
    type File = FakeFile;

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        world.dirs.extend(dir.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn open_append(&self, path: &Path) -> io::Result<FakeFile> {
        let mut world = self.world();
        world.operate()?;
        if !path.parent().is_some_and(|dir| world.dirs.contains(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (next, modified) = (world.files.len(), world.now);
        let file = world.names.get(path).copied().unwrap_or(next);
        if file == next {
            world.files.push(Content { modified, ..Content::default() });
            world.change(Change::Made { path: path.to_path_buf(), file });
        }
        Ok(FakeFile { world: Arc::clone(&self.world), file, holds_lock: Mutex::new(false) })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut world = self.world();
        world.operate()?;
        Ok(world.find(path)?.1.bytes.clone())
    }

    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut world = self.world();
        world.operate()?;
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(world.find(path)?.1.bytes.iter().skip(skip).take(len).copied().collect())
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let mut world = self.world();
        world.operate()?;
        Ok(world.find(path)?.1.bytes.len() as u64)
    }

    fn modified(&self, path: &Path) -> io::Result<WallMs> {
        let mut world = self.world();
        world.operate()?;
        Ok(world.find(path)?.1.modified)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        let (file, _) = world.find(from)?;
        world.change(Change::Renamed { from: from.to_path_buf(), to: to.to_path_buf(), file });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        world.find(path)?;
        world.change(Change::Removed { path: path.to_path_buf() });
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.operate()?;
        if !world.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = world.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        let changes = std::mem::take(&mut world.changes);
        for change in changes {
            if change.is_in(dir) {
                change.apply(&mut world.durable_names);
            } else {
                world.changes.push(change);
            }
        }
        Ok(())
    }

    fn free(&self, _dir: &Path) -> io::Result<u64> {
        let mut world = self.world();
        world.operate()?;
        Ok(world.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(world.used())))
    }
}

impl DiskFile for FakeFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.world).append(self.file, bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut world = lock(&self.world);
        world.operate()?;
        let now = world.now;
        let content = world.files.get_mut(self.file).ok_or(io::ErrorKind::NotFound)?;
        content.bytes.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        content.low = content.low.min(content.bytes.len());
        content.modified = now;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut world = lock(&self.world);
        world.operate()?;
        world
            .files
            .get(self.file)
            .map(|c| c.bytes.len() as u64)
            .ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        lock(&self.world).sync(self.file)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut world = lock(&self.world);
        world.operate()?;
        let content = world.files.get_mut(self.file).ok_or(io::ErrorKind::NotFound)?;
        let mut holds = self.holds_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = *holds || !content.locked;
        content.locked = true;
        *holds |= is_free;
        Ok(is_free)
    }

    fn try_clone(&self) -> io::Result<Self> {
        let holds_lock = Mutex::new(false);
        Ok(Self { world: Arc::clone(&self.world), file: self.file, holds_lock })
    }
}

impl Drop for FakeFile {
    fn drop(&mut self) {
        if *self.holds_lock.lock().unwrap_or_else(PoisonError::into_inner)
            && let Some(content) = lock(&self.world).files.get_mut(self.file)
        {
            content.locked = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/d/file";

    fn disk() -> (FakeDisk, FakeFile) {
        let disk = FakeDisk::new();
        disk.create_dir(Path::new("/d")).unwrap();
        let mut file = disk.open_append(Path::new(FILE)).unwrap();
        file.append(b"synced").unwrap();
        file.sync().unwrap();
        (disk, file)
    }

    fn content(disk: &FakeDisk, damage: Damage) -> Option<Vec<u8>> {
        disk.after_crash(damage).read(Path::new(FILE)).ok()
    }

    #[test]
    fn a_name_lasts_after_its_directory_and_data_after_its_file_is_synced() {
        let (disk, mut file) = disk();
        assert_eq!(content(&disk, Damage::Dropped), None);
        disk.sync_dir(Path::new("/d")).unwrap();
        file.append(b", not synced").unwrap();
        assert_eq!(content(&disk, Damage::Dropped).unwrap(), b"synced");
        assert_eq!(content(&disk, Damage::Kept).unwrap(), b"synced, not synced");
        let torn: BTreeSet<Vec<u8>> =
            (0..50).filter_map(|seed| content(&disk, Damage::Torn(seed))).collect();
        assert!(torn.iter().all(|bytes| bytes.starts_with(b"synced")));
        assert!(3 < torn.len(), "{torn:?}");
    }

    #[test]
    fn a_failed_sync_loses_its_data_even_to_a_later_sync() {
        let (disk, mut file) = disk();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.append(b"!").unwrap();
        disk.arm(Fault::Error { at: 1, kind: io::ErrorKind::Other });
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert_eq!(disk.read(Path::new(FILE)).unwrap(), b"synced!", "it stays readable");
        assert_eq!(content(&disk, Damage::Dropped).unwrap(), b"synced\0");
    }

    #[test]
    fn a_full_disk_writes_what_fits_and_a_power_cut_ends_everything() {
        let (disk, mut file) = disk();
        disk.set_capacity(Some(8));
        assert_eq!(file.append(b"abc").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.len().unwrap(), 8);
        disk.arm(Fault::PowerCut { at: 2 });
        assert!(file.sync().is_ok() && file.sync().is_err() && disk.list(Path::new("/d")).is_err());
    }
}
