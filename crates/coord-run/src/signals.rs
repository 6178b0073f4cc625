//! Handles the signals that a supervisor receives, and the terminal that it shares with its run.
//!
//! A signal that a person or a script sends to the supervisor is meant for the run, and is passed on to its
//! process group. A run that wants to read from the terminal gets it. When the run stops, its supervisor
//! stops too, so that the shell sees both as one job.
#![expect(unsafe_code, reason = "one call of the C library that sets a plain value")]

use std::io::{self, stdin};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use coord_host::process;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// Signals that are handled instead of having their default effect.
pub(crate) const TAKEN: [i32; 10] =
    [SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH];

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A child changed its state.
    Reap,
    /// The job was continued.
    Continue,
    /// The signal is to be passed on.
    PassOn(i32),
}

/// Determines what a signal asks for.
pub(crate) fn asked(signal: i32) -> Asked {
    match signal {
        SIGCHLD => Asked::Reap,
        SIGCONT => Asked::Continue,
        other => Asked::PassOn(other),
    }
}

/// Whether a signal ends a process that does not handle it.
pub(crate) fn is_end(signal: i32) -> bool {
    matches!(signal, SIGHUP | SIGINT | SIGQUIT | SIGTERM)
}

/// Sends a signal to the run's process group; a group that is gone is ignored.
pub(crate) fn pass_on(group: Pid, signal: i32) {
    let Some(signal) = Signal::from_named_raw(signal) else { return };
    if let Err(error) = kill_process_group(group, signal) {
        tracing::debug!(%error, "signal not passed on");
    }
}

/// Stops this process as its run was stopped. Returns when the process is continued.
pub(crate) fn stop_too() -> io::Result<()> {
    Ok(kill_process(rustix::process::getpid(), Signal::STOP)?)
}

/// Gives the terminal to the run, if this job has it. Returns whether it did.
pub(crate) fn hand_over(group: Pid) -> bool {
    let has_it = isatty(stdin())
        && tcgetpgrp(stdin()).is_ok_and(|front| process::own_group() == Some(front));
    has_it && set_front(group)
}

/// Takes the terminal back from a run that had it.
pub(crate) fn take_back(group: Pid) {
    let is_theirs = isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|front| front == group);
    if is_theirs && let Some(own) = process::own_group() {
        set_front(own);
    }
}

fn set_front(group: Pid) -> bool {
    // A background job that changes the foreground group would be stopped by SIGTTOU.
    let blocked = Blocked::terminal_output();
    let set = tcsetpgrp(stdin(), group);
    drop(blocked);
    if let Err(error) = set {
        tracing::debug!(%error, "the terminal was not handed over");
    }
    set.is_ok()
}

/// Blocks SIGTTOU in this thread until the value is dropped.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn terminal_output() -> Self {
        let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both sets are filled before they are read.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTTOU);
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask is the one that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}
