//! Handles the signals that end a program that runs one thing after another: the program ends between two
//! things, and the running one learns of the signal from its own supervisor.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// Becomes readable once such a signal has arrived, and stays so. While this value exists, these signals end
/// nothing else.
#[derive(Debug)]
pub struct EndSignals {
    came: UnixStream,
    ids: Vec<SigId>,
}

impl EndSignals {
    /// Takes over the signals.
    ///
    /// # Errors
    /// The signals cannot be handled.
    pub fn take() -> std::io::Result<Self> {
        let (came, send) = UnixStream::pair()?;
        let mut taken = Self { came, ids: Vec::new() };
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            taken.ids.push(pipe::register(signal, send.try_clone()?)?);
        }
        Ok(taken)
    }

    /// Waits `ms` milliseconds for a signal. Returns whether one has arrived.
    pub fn wait(&self, ms: u64) -> bool {
        let timeout = Timespec {
            tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
        };
        let mut fds = [PollFd::new(&self.came, PollFlags::IN)];
        // Any signal may interrupt the wait; only the pipe shows that one of these arrived.
        poll(&mut fds, Some(&timeout)).is_ok_and(|ready| 0 < ready)
    }
}

impl AsFd for EndSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }
}

impl Drop for EndSignals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
    }
}
