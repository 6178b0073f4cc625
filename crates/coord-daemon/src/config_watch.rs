//! Reads the configuration again when its file changes (U-06).
//!
//! The directory is watched with inotify, since editors replace a file by renaming another one
//! over it. This runs on a thread of its own, because a home directory may be slow.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

use coord_config::{Config, ConfigError};
use coord_host::worker::{Supervisor, Worker};

/// The configuration in the file, or what is wrong with it.
pub(crate) type Loaded = Result<Config, ConfigError>;

/// The loop's handle of the thread that watches the configuration.
#[derive(Debug)]
pub(crate) struct ConfigWatch {
    /// Closed when the thread is asked to end.
    end: Option<UnixStream>,
    worker: Worker,
    loaded: Receiver<Loaded>,
}

impl ConfigWatch {
    /// Starts the thread, which wakes the loop after each change.
    pub(crate) fn start(file: PathBuf, supervisor: &Supervisor) -> io::Result<Self> {
        let (end, ended) = UnixStream::pair()?;
        let (answers, loaded) = channel();
        let worker = supervisor.start("coord-config", move |waker| {
            let tell = |one| answers.send(one).is_ok() && waker.wake().is_ok();
            if let Err(error) = watch(&file, &ended, tell) {
                tracing::error!(%error, "the configuration cannot be watched");
            }
        })?;
        Ok(Self { end: Some(end), worker, loaded })
    }

    /// The configuration after a change, if there was one.
    pub(crate) fn take(&self) -> Option<Loaded> {
        self.loaded.try_recv().ok()
    }
}

impl Drop for ConfigWatch {
    fn drop(&mut self) {
        self.worker.expect_end();
        self.end = None;
        self.worker.join();
    }
}

/// Passes the configuration to `tell`, now and after each change, until `tell` returns false or `ended`
/// is closed.
fn watch(file: &Path, ended: &UnixStream, tell: impl Fn(Loaded) -> bool) -> io::Result<()> {
    loop {
        // The watch is set before the file is read, so that a write in between is noticed.
        let fd = watched(file)?;
        if !tell(Config::load(file)) {
            return Ok(());
        }
        let mut both = [PollFd::new(&fd, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        while let Err(error) = poll(&mut both, None) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let [_, end] = both;
        if !end.revents().is_empty() {
            return Ok(());
        }
    }
}

/// Watches the directory of the file, or while that is missing, the nearest existing one above it. If
/// the file is a symbolic link, the directory of its target is watched too.
fn watched(file: &Path) -> io::Result<OwnedFd> {
    let changes = WatchFlags::CLOSE_WRITE
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    let arrivals = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
    let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let target = file.canonicalize().ok();
    if let Some(dir) = target.as_deref().and_then(Path::parent) {
        add_watch(&fd, dir, changes)?;
    }
    for (above, dir) in file.ancestors().skip(1).enumerate() {
        let flags = if above == 0 { changes | WatchFlags::CREATE } else { arrivals };
        if add_watch(&fd, dir, flags).is_ok() {
            return Ok(fd);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "no directory above it can be watched"))
}
