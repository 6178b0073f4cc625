//! Runs a program: by its absolute path, with an environment from a list, a deadline and bounded output (H-24).

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::answer::Failure;
use crate::budget::Budget;
use crate::text;

/// How a notification reaches the desktop of the user.
const DESKTOP: [&str; 4] =
    ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"];
/// What a program of the user's may need beside that.
const USER: [&str; 4] = ["HOME", "LANG", "LOGNAME", "USER"];
/// Where a program of the user's finds others. The PATH of whoever started the coordinator is not used.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Longest error output that is kept, in bytes.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// The environment of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surroundings {
    /// Nothing but the locale.
    Bare,
    /// What reaches the desktop.
    Desktop,
    /// What a program of the user's may need.
    User,
}

/// A program to run.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// An absolute path.
    pub(crate) program: &'a str,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// What it reads on standard input.
    pub(crate) input: &'a [u8],
    /// Its environment.
    pub(crate) surroundings: Surroundings,
    /// Its directory, if not the root.
    pub(crate) directory: Option<PathBuf>,
    /// Longest output, in bytes; 0 if nobody reads it.
    pub(crate) output_bytes_max: usize,
}

/// What a program did.
#[derive(Debug)]
pub(crate) struct Output {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// Its output.
    pub(crate) stdout: Vec<u8>,
    /// The beginning of its error output.
    pub(crate) stderr: Vec<u8>,
}

/// The value of a variable that stands in one of the lists.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// Runs a program to its end. It is killed with its process group if it is not done within the budget.
pub(crate) fn run(call: &Call<'_>, budget: Budget) -> Result<Output, Failure> {
    let name = call.program;
    if !Path::new(name).is_absolute() {
        return Err(Failure::refused(format!("{name}: not an absolute path")));
    }
    let limit = budget.left();
    let mut input = File::from(memfd_create("input", MemfdFlags::CLOEXEC).map_err(system(name))?);
    input.write_all(call.input).and_then(|()| input.rewind()).map_err(other(name))?;
    let mut command = Command::new(name);
    command.args(&call.arguments).env_clear().envs(environment(call.surroundings));
    command.current_dir(call.directory.as_deref().unwrap_or(Path::new("/")));
    command.stdin(input).stderr(Stdio::piped()).process_group(0);
    command.stdout(if call.output_bytes_max == 0 { Stdio::null() } else { Stdio::piped() });
    let mut running = Running { child: command.spawn().map_err(unstarted(name))?, is_over: false };
    let output =
        gather(&mut running, call.output_bytes_max, budget).map_err(|fault| match fault {
            Fault::Late => {
                Failure::new(format!("{name}: not done within {}", text::duration(limit)))
            }
            Fault::Long => Failure::new(format!("{name}: its output is too long")),
            Fault::System(error) => Failure::new(format!("{name}: {error}")),
        })?;
    running.is_over = true;
    Ok(output)
}

fn environment(surroundings: Surroundings) -> Vec<(&'static str, std::ffi::OsString)> {
    let names: &[&[&str]] = match surroundings {
        Surroundings::Bare => &[],
        Surroundings::Desktop => &[&DESKTOP],
        Surroundings::User => &[&DESKTOP, &USER],
    };
    let mut variables = vec![("LANG", "C.UTF-8".into())];
    if surroundings == Surroundings::User {
        variables.push(("PATH", PATH.into()));
    }
    let listed = names.concat();
    variables.extend(listed.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    variables
}

fn system(name: &str) -> impl Fn(Errno) -> Failure {
    move |error| Failure::new(format!("{name}: {error}"))
}

fn other(name: &str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::new(format!("{name}: {error}"))
}

/// A program that is not there or cannot be run is a matter of the configuration.
fn unstarted(name: &str) -> impl Fn(std::io::Error) -> Failure {
    move |error| {
        let kind = error.kind();
        let is_refused =
            matches!(kind, std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied);
        let why = if is_refused { kind.to_string() } else { error.to_string() };
        Failure { is_refused, ..Failure::new(format!("{name}: {why}")) }
    }
}

/// A process whose group is killed, and that is reaped, when this value is dropped before its end.
struct Running {
    child: Child,
    is_over: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A child that is not reaped keeps its pid, so the group is its own.
        if !self.is_over {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Why there is no output.
enum Fault {
    Late,
    Long,
    System(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

fn gather(running: &mut Running, bytes_max: usize, budget: Budget) -> Result<Output, Fault> {
    let child = &mut running.child;
    let exit = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let mut answer = child.stdout.take().map(|pipe| Pipe::new(pipe, bytes_max)).transpose()?;
    let mut complaints =
        child.stderr.take().map(|pipe| Pipe::new(pipe, COMPLAINT_BYTES_MAX)).transpose()?;
    let mut has_ended = false;
    while !has_ended {
        let left = budget.left();
        if left.is_zero() {
            return Err(Fault::Late);
        }
        let answer_fd = answer.as_ref().and_then(Pipe::fd);
        let complaints_fd = complaints.as_ref().and_then(Pipe::fd);
        has_ended = wait(exit.as_fd(), [answer_fd, complaints_fd], left)?;
        // After the process has ended, all of its output is in the pipes.
        if let Some(answer) = &mut answer {
            answer.drain()?;
        }
        if let Some(complaints) = &mut complaints {
            complaints.drain()?;
        }
    }
    let status = child.wait()?;
    if answer.as_ref().is_some_and(|answer| answer.is_cut) {
        return Err(Fault::Long);
    }
    let stdout = answer.map(|answer| answer.bytes).unwrap_or_default();
    let stderr = complaints.map(|complaints| complaints.bytes).unwrap_or_default();
    Ok(Output { status, stdout, stderr })
}

/// Waits until there is output or the process has ended. Returns whether it has ended.
fn wait(
    exit: BorrowedFd<'_>,
    pipes: [Option<BorrowedFd<'_>>; 2],
    left: Duration,
) -> Result<bool, Fault> {
    let mut fds = vec![PollFd::from_borrowed_fd(exit, PollFlags::IN)];
    let open = pipes.into_iter().flatten();
    fds.extend(open.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let left = Timespec::try_from(left).map_err(std::io::Error::other)?;
    match poll(&mut fds, Some(&left)) {
        Ok(_) | Err(Errno::INTR) => {
            Ok(fds.first().is_some_and(|exit| exit.revents().contains(PollFlags::IN)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The reading end of a pipe, and the first bytes read from it.
struct Pipe<F> {
    /// None after the end of the output.
    from: Option<F>,
    bytes: Vec<u8>,
    bytes_max: usize,
    is_cut: bool,
}

impl<F: Read + AsFd> Pipe<F> {
    fn new(from: F, bytes_max: usize) -> Result<Self, Fault> {
        fcntl_setfl(&from, OFlags::NONBLOCK)?;
        Ok(Self { from: Some(from), bytes: Vec::new(), bytes_max, is_cut: false })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there. What is more than is kept is dropped, so that its writer is not held up. Reads one
    /// pipe's worth at most, so that an endless writer does not hold up the deadline.
    fn drain(&mut self) -> Result<(), Fault> {
        let Some(from) = &mut self.from else { return Ok(()) };
        let mut piece = [0; 4096];
        for _ in 0..16 {
            let n = match from.read(&mut piece) {
                Ok(0) => {
                    self.from = None;
                    return Ok(());
                }
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let room = self.bytes_max.saturating_sub(self.bytes.len());
            self.is_cut |= room < n;
            self.bytes.extend_from_slice(piece.get(..n.min(room)).unwrap_or_default());
        }
        Ok(())
    }
}
