//! Watches the client's registry with inotify on `sessions/` of each configuration directory, without
//! polling. Reports which entries may have changed; the core decides what they mean.
//!
//! A missing directory is tried again at every heartbeat. If the inotify queue overflows, all entries are
//! reported as changed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use crate::registry::{Change, Readable, open_config_dir};

/// The watched registries.
#[derive(Debug)]
pub struct RegistryWatch {
    fd: OwnedFd,
    /// The watch descriptor of each directory; none while the directory is not watched.
    dirs: BTreeMap<String, Option<i32>>,
}

impl RegistryWatch {
    /// Creates a watch without directories.
    pub fn new() -> io::Result<Self> {
        let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self { fd, dirs: BTreeMap::new() })
    }

    /// The descriptor, which becomes readable when something changed.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Watches the registry of `config_dir`. Returns all of its present entries.
    pub fn add(&mut self, readable: &Readable, config_dir: &str) -> Vec<Change> {
        self.dirs.entry(config_dir.to_owned()).or_insert(None);
        self.try_again(readable)
    }

    /// Tries again to watch the missing directories. Returns the entries of those that are watched now.
    pub fn try_again(&mut self, readable: &Readable) -> Vec<Change> {
        let mut changes = Vec::new();
        for (config_dir, watch) in &mut self.dirs {
            let path = Path::new(config_dir);
            if watch.is_some() || !readable.allows(path) || open_config_dir(path).is_err() {
                continue;
            }
            let flags = WatchFlags::CLOSE_WRITE
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE
                | WatchFlags::DELETE_SELF
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            if let Ok(wd) = add_watch(&self.fd, path.join("sessions"), flags) {
                *watch = Some(wd);
                changes.extend(entries(config_dir));
            }
        }
        changes
    }

    /// The directories that are not watched, because they are missing or may not be read.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.dirs.iter().filter(|(_, watch)| watch.is_none());
        missing.map(|(config_dir, _)| config_dir.clone()).collect()
    }

    /// The entries that may have changed since the last call.
    pub fn take(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut is_complete = true;
        let mut buffer = [std::mem::MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            is_complete &= !event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let dir = self.dirs.iter_mut().find(|(_, wd)| **wd == Some(event.wd()));
            let Some((config_dir, watch)) = dir else { continue };
            if event.events().intersects(ReadFlags::IGNORED | ReadFlags::DELETE_SELF) {
                *watch = None;
            }
            if let Some(pid) = event.file_name().and_then(|name| pid_of(name.to_str().ok()?)) {
                changes.push((config_dir.clone(), pid));
            }
        }
        if !is_complete {
            let watched = self.dirs.iter().filter(|(_, watch)| watch.is_some());
            changes.extend(watched.flat_map(|(config_dir, _)| entries(config_dir)));
        }
        changes
    }
}

/// The entries that exist in a registry.
fn entries(config_dir: &str) -> Vec<Change> {
    let Ok(files) = std::fs::read_dir(Path::new(config_dir).join("sessions")) else {
        return Vec::new();
    };
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter_map(|name| Some((config_dir.to_owned(), pid_of(&name)?))).collect()
}

/// The pid in a file name `PID.json`; other names are ignored, as `.key` files hold secrets.
fn pid_of(name: &str) -> Option<u32> {
    name.strip_suffix(".json")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // entries that appear, change or vanish are reported; key files never are.
    #[test]
    fn changes_are_reported_and_keys_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let config_dir = dir.path().to_str().unwrap().to_owned();
        let readable = Readable::default();
        let mut watch = RegistryWatch::new().unwrap();
        assert!(watch.add(&readable, &config_dir).is_empty());
        let sessions = dir.path().join("sessions");
        std::fs::create_dir(&sessions).unwrap();
        std::fs::write(sessions.join("7.json"), "{}").unwrap();
        assert_eq!(watch.try_again(&readable), [(config_dir.clone(), 7)]);
        std::fs::write(sessions.join("8.json"), "{}").unwrap();
        std::fs::write(sessions.join("8.key"), "secret").unwrap();
        std::fs::remove_file(sessions.join("7.json")).unwrap();
        assert_eq!(watch.take(), [(config_dir.clone(), 8), (config_dir.clone(), 7)]);
        assert!(watch.take().is_empty());
        std::fs::remove_dir_all(&sessions).unwrap();
        watch.take();
        assert_eq!(watch.missing(), std::slice::from_ref(&config_dir));
        std::fs::create_dir(&sessions).unwrap();
        std::fs::write(sessions.join("9.json"), "{}").unwrap();
        assert_eq!(watch.try_again(&readable), [(config_dir, 9)]);
    }
}
