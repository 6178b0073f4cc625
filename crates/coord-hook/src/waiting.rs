//! Waits beside the client that started this process, for the coordinator's answer to a connection that stays open.
//!
//! This module decides whose child may wait, and what ends a wait. Both hooks that wait use it: the wake hook (H-02) and
//! the hook of a permission request.

use crate::process::{self, Process};
use coord_wire::exchange::{Answer, whole_answer};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// A client that started this process.
pub(crate) struct Harness {
    pub(crate) process: Process,
    /// Readable once the client is gone.
    end: OwnedFd,
}

impl Harness {
    /// The harness, if it is this process's parent. A process between the two could pass on neither
    /// the message nor the exit code.
    pub(crate) fn of_parent(process: Process) -> Option<Self> {
        let parent = getppid().filter(|parent| is_pid(*parent, process.pid))?;
        let end = pidfd_open(parent, PidfdFlags::empty()).ok()?;
        // The pidfd was opened by number, so the checks are reliable only now that it is held.
        let is_still = getppid() == Some(parent) && Process::read(process.pid) == Some(process);
        is_still.then_some(Self { process, end })
    }

    /// Whether a person may be at it.
    pub(crate) fn is_at_terminal(&self) -> bool {
        process::is_at_terminal(self.process)
    }
}

fn is_pid(pid: Pid, number: u32) -> bool {
    u32::try_from(pid.as_raw_nonzero().get()) == Ok(number)
}

/// Releases what others may wait for while the hook waits: the terminal, whose users would be taken
/// for work of the harness (H-08), and the directory.
pub(crate) fn leave_terminal() {
    let _has_no_terminal_already = rustix::process::setsid();
    let _stays_where_it_is = rustix::process::chdir("/");
}

/// What ended a wait.
pub(crate) enum Wait {
    Answered(Answer),
    /// The coordinator ended, and had not begun to answer.
    CoordinatorGone,
    /// The harness ended, or the answer is none.
    Over,
}

/// Waits for the answer without limit.
pub(crate) fn wait(coordinator: &OwnedFd, harness: &Harness, bytes_max: usize) -> Wait {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if !is_ready(coordinator.as_fd(), PollFlags::IN, harness) {
            return Wait::Over;
        }
        bytes.reserve(1024);
        match recv(coordinator, spare_capacity(&mut bytes), RecvFlags::empty()) {
            Ok((_, 0)) | Err(Errno::CONNRESET) if bytes.is_empty() => return Wait::CoordinatorGone,
            Ok((_, 0)) => return Wait::Over,
            Ok(_) => (),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => return Wait::Over,
        }
        match whole_answer(&bytes, bytes_max) {
            Ok(Some(answer)) => return Wait::Answered(answer),
            Ok(None) => (),
            Err(_) => return Wait::Over,
        }
    }
}

/// Waits until `fd` is ready. Returns false if the harness is gone.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags, harness: &Harness) -> bool {
    loop {
        let mut both =
            [PollFd::from_borrowed_fd(fd, flags), PollFd::new(&harness.end, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => return both[1].revents().is_empty(),
            Err(Errno::INTR) => (),
            Err(_) => return false,
        }
    }
}
