//! The texts of messages, one file each, named by the message's id (S4, G11).
//!
//! A text is written before its message is recorded, and is made durable before the record is: a
//! [`crate::SyncJob`] syncs it first. A crash may leave:
//!
//! * A file without a record: its message was never accepted. [`Bodies::keep_only`] removes it.
//! * A record without its file, or with a part of it: a power loss kept the record, which no sync
//!   had covered, so nobody was told that the message was accepted. [`Bodies::read`] fails, and so
//!   does the message.
//!
//! This module decides nothing about messages, and never examines a text.

use crate::disk::{Disk, DiskFile, is_too_long};
use coord_wire::message::TEXT_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The directory of the texts, and the texts that are not durable yet.
#[derive(Debug)]
pub struct Bodies<D: Disk> {
    disk: D,
    dir: PathBuf,
    unsynced: Vec<PathBuf>,
    /// The lengths of the existing texts, and their sum.
    sizes: BTreeMap<String, u64>,
    total: u64,
}

impl<D: Disk> Bodies<D> {
    /// The texts in `dir`, which need not exist.
    pub fn new(disk: D, dir: &Path) -> Self {
        Self { disk, dir: dir.to_owned(), unsynced: Vec::new(), sizes: BTreeMap::new(), total: 0 }
    }

    /// Bytes of all texts together, as far as known from [`Self::keep_only`] and from this value's
    /// own writes.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn note(&mut self, name: &str, len: Option<u64>) {
        let before = match len {
            Some(len) => self.sizes.insert(name.to_owned(), len),
            None => self.sizes.remove(name),
        };
        self.total =
            self.total.saturating_sub(before.unwrap_or(0)).saturating_add(len.unwrap_or(0));
    }

    /// Writes a text. It is durable after the next [`crate::SyncJob`] that was given these texts.
    ///
    /// # Errors
    /// The disk refused; no part of the text remains.
    pub fn write(&mut self, name: &str, text: &[u8]) -> io::Result<()> {
        let path = self.dir.join(name);
        let written = self.make(&path, text);
        match written {
            Ok(()) => {
                self.note(name, Some(text.len() as u64));
                self.unsynced.push(path);
            }
            // The file may never have been created.
            Err(_) => drop(self.disk.remove(&path)),
        }
        written
    }

    fn make(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        let mut file = match self.disk.open_append(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.disk.create_dir(&self.dir)?;
                self.disk.open_append(path)?
            }
            opened => opened?,
        };
        file.truncate(0)?;
        file.append(text)
    }

    /// Reads a text whose length is known.
    ///
    /// # Errors
    /// The text is missing, cannot be read, or is incomplete.
    pub fn read(&self, name: &str, len: u64) -> io::Result<Vec<u8>> {
        let path = self.dir.join(name);
        // The length is known: a longer file is not read.
        let text = match self.disk.read(&path, len) {
            Err(error) if is_too_long(&error) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
            }
            read => read?,
        };
        if u64::try_from(text.len()) == Ok(len) {
            return Ok(text);
        }
        let n = text.len();
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("{n} bytes of {len} are there")))
    }

    /// Removes a text. A missing text is no error.
    ///
    /// # Errors
    /// The disk refused.
    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        let path = self.dir.join(name);
        self.unsynced.retain(|one| *one != path);
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => self.note(name, None),
        }
        Ok(())
    }

    /// Removes all texts except these. Returns the number of removed texts.
    ///
    /// # Errors
    /// The directory cannot be read, or the disk refused.
    pub fn keep_only(&mut self, names: &BTreeSet<String>) -> io::Result<usize> {
        let found = match self.disk.list(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            found => found?,
        };
        let mut n: usize = 0;
        for name in &found {
            if names.contains(name) {
                let len = self.disk.len(&self.dir.join(name))?;
                self.note(name, Some(len));
            } else {
                self.remove(name)?;
                n = n.saturating_add(1);
            }
        }
        Ok(n)
    }

    /// The texts to sync before the records that refer to them.
    pub(crate) fn unsynced(&mut self) -> Option<BodySync<D>> {
        let paths = std::mem::take(&mut self.unsynced);
        let (disk, dir) = (self.disk.clone(), self.dir.clone());
        (!paths.is_empty()).then_some(BodySync { disk, dir, paths, is_anew: false })
    }

    /// Schedules texts whose sync failed to be synced again, before the records that refer to them.
    pub fn owe(&mut self, paths: Vec<PathBuf>) {
        self.unsynced.extend(paths);
    }
}

/// Makes texts durable; may run on another thread.
#[derive(Debug)]
pub(crate) struct BodySync<D: Disk> {
    disk: D,
    dir: PathBuf,
    paths: Vec<PathBuf>,
    /// Whether an earlier sync failed: the files are then rewritten, since no sync of the old ones
    /// would write them.
    is_anew: bool,
}

impl<D: Disk> BodySync<D> {
    /// The same sync, with new files in place of the old ones.
    pub(crate) fn anew(self) -> Self {
        Self { is_anew: true, ..self }
    }

    /// The texts to sync.
    pub(crate) fn into_paths(self) -> Vec<PathBuf> {
        self.paths
    }

    pub(crate) fn run(&self) -> io::Result<()> {
        for path in &self.paths {
            // A text that is gone needs no sync, and opening it must not recreate it.
            match self.disk.len(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => (),
                found => {
                    found?;
                    self.sync(path)?;
                }
            }
        }
        self.disk.sync_dir(&self.dir)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        if !self.is_anew {
            return self.disk.open_append(path)?.sync();
        }
        let copy = path.with_extension("tmp");
        let mut file = self.disk.open_append(&copy)?;
        file.truncate(0)?;
        // No text is longer; one that somebody lengthened is refused when it is read.
        file.append(&self.disk.read_at(path, 0, TEXT_BYTES_MAX)?)?;
        file.sync()?;
        self.disk.rename(&copy, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real_disk::RealDisk;

    fn names(dir: &Path) -> Vec<String> {
        RealDisk.list(dir).unwrap()
    }

    // S4-05, S4-22: a text without a record does not stay, and an incomplete text is not handed
    // out.
    #[test]
    fn a_text_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("messages");
        let mut bodies = Bodies::new(RealDisk, &dir);
        assert!(bodies.unsynced().is_none());
        assert_eq!(bodies.keep_only(&BTreeSet::new()).unwrap(), 0, "no directory yet");
        for (name, text) in [("a", "one"), ("b", ""), ("c", "three")] {
            bodies.write(name, text.as_bytes()).unwrap();
        }
        bodies.write("a", b"two").unwrap();
        assert_eq!(bodies.read("a", 3).unwrap(), b"two");
        assert_eq!(bodies.read("b", 0).unwrap(), b"");
        assert_eq!(bodies.read("c", 6).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(bodies.read("d", 0).unwrap_err().kind(), io::ErrorKind::NotFound);
        bodies.remove("b").unwrap();
        bodies.remove("b").unwrap();
        bodies.unsynced().unwrap().run().unwrap();
        assert!(bodies.unsynced().is_none(), "all of it is on the disk");
        assert_eq!(bodies.keep_only(&BTreeSet::from(["c".to_owned()])).unwrap(), 1);
        assert_eq!(names(&dir), ["c"]);
    }

    // H-29: the total size of all texts is known, also after a restart.
    #[test]
    fn h29_the_texts_are_counted_in_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut bodies = Bodies::new(RealDisk, dir.path());
        bodies.write("a", b"one").unwrap();
        bodies.write("b", b"three").unwrap();
        bodies.write("a", b"four").unwrap();
        assert_eq!(bodies.total(), 9);
        bodies.remove("b").unwrap();
        assert_eq!(bodies.total(), 4);
        bodies.write("b", b"three").unwrap();
        let mut again = Bodies::new(RealDisk, dir.path());
        again.keep_only(&BTreeSet::from(["b".to_owned()])).unwrap();
        assert_eq!(again.total(), 5);
    }

    // A text that was removed during its sync stays removed.
    #[test]
    fn a_sync_brings_nothing_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut bodies = Bodies::new(RealDisk, dir.path());
        bodies.write("a", b"one").unwrap();
        let sync = bodies.unsynced().unwrap();
        bodies.remove("a").unwrap();
        sync.run().unwrap();
        assert!(names(dir.path()).is_empty());
    }
}
