//! Watches processes with a pidfd each in the loop's poll set, so that a death is known when it happens.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

use coord_model::ProcessRef;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::fd::OwnedFd;

use crate::process::{self, StateFile};

/// First token of the watches; all other tokens of the loop are below it.
pub const FIRST_TOKEN: usize = 1 << 40;

/// The watched processes.
#[derive(Debug, Default)]
pub struct Watches {
    by_token: BTreeMap<Token, (ProcessRef, OwnedFd)>,
    tokens: BTreeMap<ProcessRef, Token>,
    states: BTreeMap<ProcessRef, StateFile>,
    opened: usize,
}

impl Watches {
    /// Whether this process is watched.
    pub fn has(&self, process: ProcessRef) -> bool {
        self.tokens.contains_key(&process)
    }

    /// Watches a process. Returns false if the process is already gone.
    pub fn add(&mut self, registry: &Registry, process: ProcessRef) -> io::Result<bool> {
        if self.has(process) {
            return Ok(true);
        }
        let fd = match process::open_pidfd(process) {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let token = Token(FIRST_TOKEN + self.opened);
        self.opened += 1;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        self.by_token.insert(token, (process, fd));
        self.tokens.insert(process, token);
        if let Some(state) = StateFile::open(process) {
            self.states.insert(process, state);
        }
        Ok(true)
    }

    /// Whether a watched process is stopped by a signal; none if the process is not watched or is gone.
    pub fn is_stopped(&self, process: ProcessRef) -> Option<bool> {
        self.states.get(&process)?.is_stopped()
    }

    /// Removes the watch of the process whose pidfd became readable, and returns that process.
    pub fn take(&mut self, registry: &Registry, token: Token) -> Option<ProcessRef> {
        let (process, fd) = self.by_token.remove(&token)?;
        self.tokens.remove(&process);
        self.states.remove(&process);
        if let Err(error) = registry.deregister(&mut SourceFd(&fd.as_raw_fd())) {
            tracing::debug!(%error, "pidfd not deregistered");
        }
        Some(process)
    }
}
