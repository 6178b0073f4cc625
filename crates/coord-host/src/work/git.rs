//! Runs git: with an environment of ours, a deadline, and a bounded answer.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// git's environment besides the repository. No file outside of the repository says anything, and nothing is found
/// that it could start.
const VARIABLES: [(&str, &str); 12] = [
    ("LC_ALL", "C"),
    ("PATH", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_EXEC_PATH", "/dev/null"),
    // An object that is missing in a partial clone is not asked for.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// How git is run.
#[derive(Debug)]
pub(super) struct Git<'a> {
    pub(super) program: &'a Path,
    /// What git takes for the repository's directory.
    pub(super) dir: &'a Path,
    /// Root of the work tree.
    pub(super) root: &'a Path,
    /// When it is killed.
    pub(super) until: Instant,
}

/// How git ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself, successfully.
    Complete,
    /// By itself, with an error.
    Failed(ExitStatus),
    /// It was killed, since the answer was too long.
    TooLong,
}

impl Ending {
    /// Whether the answer is complete; the error says why not.
    pub(super) fn complete(self, command: &str) -> Result<(), String> {
        match self {
            Self::Complete => Ok(()),
            Self::Failed(status) => Err(format!("git {command} failed ({status})")),
            Self::TooLong => Err(format!("git {command}: too long an answer")),
        }
    }

    /// Whether what was counted is "at least".
    pub(super) fn counted(self, command: &str) -> Result<bool, String> {
        if self == Self::TooLong { Ok(true) } else { self.complete(command).map(|()| false) }
    }
}

impl Git<'_> {
    /// Runs a command, and collects its answer.
    pub(super) fn ask(
        &self,
        words: &[&str],
        stdin: Stdio,
        bytes_max: usize,
    ) -> Result<(Ending, Vec<u8>), String> {
        let mut answer = Vec::new();
        let ending = self.run(words, stdin, bytes_max, &mut |piece| answer.extend(piece))?;
        Ok((ending, answer))
    }

    /// Runs a command. `take` gets the pieces of its answer, `bytes_max` bytes or a little more in all.
    pub(super) fn run(
        &self,
        words: &[&str],
        stdin: Stdio,
        bytes_max: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Ending, String> {
        let name = words.first().copied().unwrap_or_default();
        let child = Command::new(self.program)
            .args(["--no-optional-locks", "--no-pager", "--literal-pathspecs"])
            .args(words)
            .current_dir(self.root)
            .env_clear()
            .envs(VARIABLES)
            .env("GIT_DIR", self.dir)
            .env("GIT_WORK_TREE", self.root)
            .process_group(0)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("git {name}: {error}"))?;
        self.follow(Running { child, is_reaped: false }, bytes_max, take)
            .map_err(|error| format!("git {name}: {error}"))
    }

    fn follow(
        &self,
        mut running: Running,
        bytes_max: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Ending> {
        let exit = pidfd_open(Pid::from_child(&running.child), PidfdFlags::empty())?;
        let stdout = running.child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let mut stdout = Some(File::from(OwnedFd::from(stdout)));
        if let Some(stdout) = &stdout {
            fcntl_setfl(stdout, OFlags::NONBLOCK)?;
        }
        let mut left = bytes_max;
        loop {
            let has_ended = self.wait(&exit, stdout.as_ref())?;
            // Once it has ended, all of its answer is in the pipe.
            while let Some(from) = &mut stdout {
                let mut piece = [0; 16 * 1024];
                match from.read(&mut piece) {
                    Ok(0) => stdout = None,
                    Ok(n) => {
                        take(piece.get(..n).unwrap_or_default());
                        let Some(rest) = left.checked_sub(n) else { return Ok(Ending::TooLong) };
                        left = rest;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                    Err(error) => return Err(error),
                }
            }
            if has_ended {
                let status = running.end()?;
                return Ok(if status.success() {
                    Ending::Complete
                } else {
                    Ending::Failed(status)
                });
            }
        }
    }

    /// Waits until there is output or git has ended. Returns whether it has ended.
    fn wait(&self, exit: &OwnedFd, stdout: Option<&File>) -> io::Result<bool> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::other("it took too long"));
        }
        let mut fds = vec![PollFd::from_borrowed_fd(exit.as_fd(), PollFlags::IN)];
        fds.extend(stdout.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        let limit = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {
                Ok(fds.first().is_some_and(|exit| exit.revents().contains(PollFlags::IN)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A process that is killed with its group and reaped when this value is dropped.
struct Running {
    child: Child,
    is_reaped: bool,
}

impl Running {
    /// Kills what is left of the group, then reaps the process.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.is_reaped {
            // Until it is reaped, its number is no other group's.
            let _gone = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.is_reaped = true;
        }
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _reaped = self.end();
    }
}
