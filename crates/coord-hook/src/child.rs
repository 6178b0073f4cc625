//! Starts the user's command and passes signals on to it.
//!
//! This module decides how the command is started: with the environment, the signals and the group of this process, so
//! that it cannot tell the difference, and with a pipe as its standard input. It decides that the command does not
//! outlive this process, whatever ends it: signals are passed on, and SIGKILL is.
#![expect(
    unsafe_code,
    reason = "a child that shares memory until its exec, and the signals of a process"
)]

use crate::system::Args;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, waitid};

/// The signals that are passed on: those that ask a program to end.
const PASSED_ON: [c_int; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];
/// Stack of the child until its exec, in bytes; `execvp` builds paths and argument lists there.
const STACK_BYTES: usize = 256 * 1024;

/// A command that was started.
#[derive(Debug)]
pub(crate) struct Child {
    /// Readable once it has ended.
    pub(crate) end: OwnedFd,
    /// Readable once this process was sent a signal that is to be passed on.
    pub(crate) signals: OwnedFd,
    /// What it reads, until all of it was written or nobody reads it.
    pub(crate) stdin: Option<OwnedFd>,
    /// The signals that were blocked before.
    mask: libc::sigset_t,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
}

/// What the child finds in the memory that it shares.
struct Start {
    command: Args,
    stdin: c_int,
    parent: c_int,
    mask: libc::sigset_t,
    /// Why there was no exec.
    errno: c_int,
}

impl Child {
    /// Starts a command, which is looked for as a shell does.
    pub(crate) fn start(command: Args) -> Result<Self, Errno> {
        let (stdin, own_end) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&own_end, OFlags::NONBLOCK)?;
        let mask = block();
        let signals = signal_fd()?;
        // SAFETY: getpid has no precondition, and SIGCHLD may have its default; with another one its end could be lost.
        let parent = unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::getpid()
        };
        let mut start = Start { command, stdin: stdin.as_raw_fd(), parent, mask, errno: 0 };
        let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK_BYTES / 16);
        // SAFETY: the end of the stack's memory is one past its last element.
        let top = unsafe { stack.as_mut_ptr().add(stack.capacity()) };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: this process stands still until the child has ended or become another program, so stack and `start`
        // outlive its use of them; the child makes only calls that are safe there.
        let pid = unsafe { libc::clone(enter, top.cast(), flags, (&raw mut start).cast()) };
        let pid = Pid::from_raw(pid).filter(|_| 0 < pid).ok_or(Errno::AGAIN)?;
        let end = pidfd_open(pid, PidfdFlags::empty())?;
        let child = Self { end, signals, stdin: Some(own_end), mask };
        if start.errno != 0 {
            child.wait();
            child.unblock();
            return Err(Errno::from_raw_os_error(start.errno));
        }
        Ok(child)
    }

    /// Waits for its end.
    pub(crate) fn wait(&self) -> End {
        loop {
            match waitid(WaitId::PidFd(self.end.as_fd()), WaitIdOptions::EXITED) {
                Ok(Some(status)) => return end_of(&status),
                Err(Errno::INTR) => (),
                Ok(None) | Err(_) => return End::Code(0),
            }
        }
    }

    /// Lets signals end this process again; one that came meanwhile does so at once.
    pub(crate) fn unblock(&self) {
        // SAFETY: the mask is the one that was in force.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, null_mut()) };
    }
}

fn end_of(status: &WaitIdStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Code(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Code(0),
    }
}

/// Ends this process as its command ended. Returns the exit code if the signal did not end it.
pub(crate) fn end_like(end: End) -> i32 {
    let signal = match end {
        End::Code(code) => return code,
        End::Signal(signal) => signal,
    };
    // SAFETY: the signal has its default, and the set is filled before it is used. The command has left its memory dump
    // already, so there is no second one.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut only = MaybeUninit::uninit();
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, only.as_ptr(), null_mut());
        libc::raise(signal);
    }
    128_i32.saturating_add(signal)
}

/// The set of [`PASSED_ON`].
fn passed_on() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is emptied, which fills it, before it is used; all signals exist.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in PASSED_ON {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Blocks what is passed on. Returns the signals that were blocked before.
fn block() -> libc::sigset_t {
    let (set, mut before) = (passed_on(), passed_on());
    // SAFETY: both sets are filled.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
    before
}

fn signal_fd() -> Result<OwnedFd, Errno> {
    let set = passed_on();
    // SAFETY: the set is filled; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(Errno::MFILE);
    }
    // SAFETY: it was opened just now, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the child does: it becomes the command.
extern "C" fn enter(start: *mut c_void) -> c_int {
    // SAFETY: the parent passes its `Start` and stands still meanwhile.
    let start = unsafe { &mut *start.cast::<Start>() };
    // SAFETY: the arguments end in a null pointer, as those of `main`; all other values are plain.
    unsafe {
        // With SIGKILL, nothing of it stays when this process is killed.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid() != start.parent {
            return 1;
        }
        libc::dup2(start.stdin, 0);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const start.mask, null_mut());
        let words = start.command.words();
        libc::execvp(*words, words);
        start.errno = *libc::__errno_location();
    }
    127
}
