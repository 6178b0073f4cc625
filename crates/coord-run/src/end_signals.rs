//! The signals that end what runs one thing after another: they end it between two things, and the thing
//! that runs hears of them from its own supervisor.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// A pipe that stays readable once one has come. While it is there they end nothing else.
#[derive(Debug)]
pub struct EndSignals {
    came: UnixStream,
    ids: Vec<SigId>,
}

impl EndSignals {
    /// Takes them over.
    ///
    /// # Errors
    /// They cannot be taken.
    pub fn take() -> std::io::Result<Self> {
        let (came, send) = UnixStream::pair()?;
        let mut taken = Self { came, ids: Vec::new() };
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            taken.ids.push(pipe::register(signal, send.try_clone()?)?);
        }
        Ok(taken)
    }

    /// Waits for one, for so many milliseconds. Whether one has come.
    pub fn wait(&self, ms: u64) -> bool {
        let timeout = Timespec {
            tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
        };
        let mut fds = [PollFd::new(&self.came, PollFlags::IN)];
        // A wait that a signal cuts short is no wait that ends it all: the pipe says which it was.
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
