//! Locks on the client's configuration directories (H-14): a coordinator acts in a directory only while it
//! holds an exclusive flock on it.
//!
//! Nothing is written into the directory. The lock is visible to coordinators with any root, and to
//! containers that mount the directory.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};

use crate::registry::{Readable, open_config_dir};

/// The locks that are held; they last until the coordinator ends.
#[derive(Debug, Default)]
pub struct ConfigDirs {
    held: BTreeMap<String, OwnedFd>,
}

impl ConfigDirs {
    /// Tries to lock `config_dir`. Returns whether the lock is held now.
    pub fn lock(&mut self, readable: &Readable, config_dir: &str) -> bool {
        if self.held.contains_key(config_dir) {
            return true;
        }
        let path = Path::new(config_dir);
        if !readable.allows(path) {
            return false;
        }
        let Ok(dir) = open_config_dir(path) else { return false };
        let is_held = flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_held {
            self.held.insert(config_dir.to_owned(), dir);
        }
        is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_tests::wait::wait_until;

    // H-14: of two coordinators, only one may act in a directory.
    #[test]
    fn only_one_holds_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let (mut first, mut second) = (ConfigDirs::default(), ConfigDirs::default());
        let readable = Readable::default();
        assert!(first.lock(&readable, path));
        assert!(first.lock(&readable, path));
        assert!(!second.lock(&readable, path));
        drop(first);
        // A process that another test starts meanwhile has the lock, too, until it runs its program.
        wait_until("the other one has it", || second.lock(&readable, path).then_some(()).ok_or(()));
        assert!(!second.lock(&readable, "/nonexistent/claude"));
    }
}
