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
//!   since it was synced, but for the last [`WAITING_MAX`] changes of names on the disk: older ones
//!   were written back. A single rename is never half done.
//! * A sync that fails loses its data for good although it stays readable: a later sync succeeds
//!   and makes zeros durable (Linux counts the pages as clean).
//!
//! Excluded: bits that rot in synced data (tests flip them by [`FakeDisk::write_synced`]), writes
//! that reach other files, synced data lost, directories that vanish (their making is durable).
//!
//! It is made for simulations of hours: a sync copies nothing, and files that no name and no
//! program holds are gone with their bytes.

use crate::random::Random;
use coord_model::stamp::WallMs;
use coord_store::disk::{Disk, DiskFile, too_long};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a power loss writes or does not, in bytes; small, so that it falls inside records.
pub const SECTOR: usize = 16;

/// Changes of names that wait for a sync; a kernel writes back by itself in time.
pub const WAITING_MAX: usize = 256;

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
    /// Every sync of a file fails.
    Sync,
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
    file: File,
    holds_lock: Mutex<bool>,
}

/// A file, whatever its name; it lasts as long as a name, a waiting change or a program has it.
type File = Arc<Mutex<Content>>;

type Names = BTreeMap<PathBuf, File>;

#[derive(Debug, Default)]
struct World {
    /// Names as the running programs see them.
    names: Names,
    /// Names as of the last sync of their directory.
    durable_names: Names,
    /// Changes of names since then, in order.
    changes: VecDeque<Change>,
    dirs: BTreeSet<PathBuf>,
    operations: u64,
    fault: Option<(u64, Fault)>,
    capacity: Option<u64>,
    now: WallMs,
}

/// A file's bytes as programs read them, and in what the durable ones differ.
#[derive(Debug, Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    /// The shortest the file has been since its last sync: what is below has not changed.
    low: usize,
    /// The durable bytes from there on.
    old: Vec<u8>,
    /// Ranges that a failed sync has lost: in durable bytes they are zero.
    lost: Vec<Range<usize>>,
    modified: WallMs,
    locked: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Made { path: PathBuf, file: File },
    Renamed { from: PathBuf, to: PathBuf, file: File },
    Removed { path: PathBuf },
}

impl Change {
    fn is_in(&self, dir: &Path) -> bool {
        match self {
            Self::Made { path, .. } | Self::Removed { path } => path.parent() == Some(dir),
            Self::Renamed { to, .. } => to.parent() == Some(dir),
        }
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Self::Made { path, file } => {
                names.insert(path.clone(), Arc::clone(file));
            }
            Self::Renamed { from, to, file } => {
                if names.get(from).is_some_and(|named| Arc::ptr_eq(named, file)) {
                    names.remove(from);
                }
                names.insert(to.clone(), Arc::clone(file));
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
        let content = Content::durable(bytes.to_vec(), world.now);
        let file = Arc::new(Mutex::new(content));
        world.names.insert(path.to_path_buf(), Arc::clone(&file));
        world.durable_names.insert(path.to_path_buf(), file);
    }

    /// The power goes and comes back: makes this disk what the next boot finds, with no fault armed.
    /// Whoever had files open must have dropped them. After a mere `kill -9` go on without this.
    pub fn crash(&self, damage: Damage) {
        let mut world = self.world();
        let mut random = damage.random();
        let names = world.surviving(damage, &mut random);
        let mut settled: Vec<&File> = Vec::new();
        for file in names.values() {
            if !settled.iter().any(|other| Arc::ptr_eq(other, file)) {
                lock(file).settle(damage, &mut random);
                settled.push(file);
            }
        }
        world.durable_names.clone_from(&names);
        world.names = names;
        world.changes.clear();
        world.fault = None;
    }

    /// The disk as the next boot finds it; this one is not changed.
    #[must_use]
    pub fn after_crash(&self, damage: Damage) -> Self {
        let world = self.world();
        let mut random = damage.random();
        let mut names = world.surviving(damage, &mut random);
        let mut copies: Vec<(File, File)> = Vec::new();
        for file in names.values_mut() {
            let known = copies.iter().find(|(original, _)| Arc::ptr_eq(original, file));
            let copy = if let Some((_, copy)) = known {
                Arc::clone(copy)
            } else {
                let mut content = lock(file).clone();
                content.settle(damage, &mut random);
                content.locked = false;
                Arc::new(Mutex::new(content))
            };
            copies.push((std::mem::replace(file, Arc::clone(&copy)), copy));
        }
        let after = World {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Damage {
    fn random(self) -> Random {
        Random::new(match self {
            Self::Torn(seed) => seed,
            Self::Kept | Self::Dropped => 0,
        })
    }
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
        self.names.values().map(|file| lock(file).bytes.len() as u64).sum()
    }

    fn find(&self, path: &Path) -> io::Result<&File> {
        self.names.get(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push_back(change);
        if WAITING_MAX < self.changes.len()
            && let Some(oldest) = self.changes.pop_front()
        {
            oldest.apply(&mut self.durable_names);
        }
    }

    /// The names that a crash leaves.
    fn surviving(&self, damage: Damage, random: &mut Random) -> Names {
        if damage == Damage::Kept {
            return self.names.clone();
        }
        let mut names = self.durable_names.clone();
        for change in &self.changes {
            if matches!(damage, Damage::Torn(_)) && random.coin() {
                change.apply(&mut names);
            }
        }
        names
    }

    fn append(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
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
        let mut content = lock(file);
        content.bytes.extend(bytes.iter().take(fits));
        content.modified = self.now;
        failed?;
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        let is_refused = matches!(self.fault, Some((_, Fault::Sync)));
        let refused = || io::Error::other("injected: not synced");
        let result = self.operate().and_then(|()| (!is_refused).then_some(()).ok_or_else(refused));
        let mut content = lock(file);
        if result.is_ok() {
            content.sync();
        } else if !self.is_cut() {
            let lost = content.low..content.bytes.len();
            content.lost.push(lost);
        }
        result
    }
}

impl Content {
    fn durable(bytes: Vec<u8>, modified: WallMs) -> Self {
        Self { low: bytes.len(), bytes, modified, ..Self::default() }
    }

    /// The durable bytes from `from` on, which is not above `low`.
    fn durable_from(&self, from: usize) -> Vec<u8> {
        let mut part = self.bytes.get(from..self.low).unwrap_or_default().to_vec();
        for lost in &self.lost {
            let (start, end) = (lost.start.max(from), lost.end.min(self.low));
            part.get_mut(start - from..end.max(start) - from).unwrap_or_default().fill(0);
        }
        part.extend_from_slice(&self.old);
        part
    }

    fn truncate(&mut self, len: usize) {
        if len < self.low {
            self.old = self.durable_from(len);
            self.low = len;
        }
        self.bytes.resize(len, 0);
        // What is written there from now on is new to the next sync.
        self.lost.retain(|lost| lost.start < len);
        for lost in &mut self.lost {
            lost.end = lost.end.min(len);
        }
    }

    /// All that can be read is durable, but for what a failed sync has lost.
    fn sync(&mut self) {
        self.low = self.bytes.len();
        self.old.clear();
    }

    /// What a crash leaves is durable, and all there is to read.
    fn settle(&mut self, damage: Damage, random: &mut Random) {
        if damage == Damage::Kept {
            self.lost.clear();
            return self.sync();
        }
        for lost in self.lost.drain(..) {
            let range = lost.start..lost.end.min(self.low);
            self.bytes.get_mut(range).unwrap_or_default().fill(0);
        }
        let tail = match damage {
            Damage::Torn(_) => self.torn_tail(random),
            Damage::Kept | Damage::Dropped => std::mem::take(&mut self.old),
        };
        self.bytes.truncate(self.low);
        self.bytes.extend(tail);
        self.sync();
    }

    /// What a torn write leaves from `low` on: each sector new or old.
    fn torn_tail(&self, random: &mut Random) -> Vec<u8> {
        let (new, old) = (self.bytes.get(self.low..).unwrap_or_default(), &self.old);
        let len = match random.index(3) {
            0 => new.len(),
            1 => old.len(),
            _ => random.index(new.len().max(old.len()) + 1),
        };
        let mut tail = Vec::with_capacity(len);
        while tail.len() < len {
            let end = len.min(((self.low + tail.len()) / SECTOR + 1) * SECTOR - self.low);
            let source = if random.coin() { new } else { old };
            let written = source.get(tail.len()..end.min(source.len())).unwrap_or_default();
            tail.extend_from_slice(written);
            tail.resize(end, 0);
        }
        tail
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
        let file = if let Some(file) = world.names.get(path) {
            Arc::clone(file)
        } else {
            let file = Arc::new(Mutex::new(Content::durable(Vec::new(), world.now)));
            world.change(Change::Made { path: path.to_path_buf(), file: Arc::clone(&file) });
            file
        };
        Ok(FakeFile { world: Arc::clone(&self.world), file, holds_lock: Mutex::new(false) })
    }

    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut world = self.world();
        world.operate()?;
        let content = lock(world.find(path)?);
        let len = content.bytes.len() as u64;
        if bytes_max < len {
            Err(too_long(path, len, bytes_max))
        } else {
            Ok(content.bytes.clone())
        }
    }

    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut world = self.world();
        world.operate()?;
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(lock(world.find(path)?).bytes.iter().skip(skip).take(len).copied().collect())
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let mut world = self.world();
        world.operate()?;
        Ok(lock(world.find(path)?).bytes.len() as u64)
    }

    fn modified(&self, path: &Path) -> io::Result<WallMs> {
        let mut world = self.world();
        world.operate()?;
        Ok(lock(world.find(path)?).modified)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.operate()?;
        let file = Arc::clone(world.find(from)?);
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
        let below = world.names.range(dir.to_path_buf()..).map(|(path, _)| path);
        let inside = below
            .take_while(|path| path.starts_with(dir))
            .filter(|path| path.parent() == Some(dir));
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
                world.changes.push_back(change);
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
        lock(&self.world).append(&self.file, bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut world = lock(&self.world);
        world.operate()?;
        let mut content = lock(&self.file);
        content.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        content.modified = world.now;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut world = lock(&self.world);
        world.operate()?;
        Ok(lock(&self.file).bytes.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        lock(&self.world).sync(&self.file)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut world = lock(&self.world);
        world.operate()?;
        let mut content = lock(&self.file);
        let mut holds = lock(&self.holds_lock);
        let is_free = *holds || !content.locked;
        content.locked = true;
        *holds |= is_free;
        Ok(is_free)
    }

    fn try_clone(&self) -> io::Result<Self> {
        let holds_lock = Mutex::new(false);
        Ok(Self { world: Arc::clone(&self.world), file: Arc::clone(&self.file), holds_lock })
    }
}

impl Drop for FakeFile {
    fn drop(&mut self) {
        if *lock(&self.holds_lock) {
            lock(&self.file).locked = false;
        }
    }
}

#[cfg(test)]
mod tests;
