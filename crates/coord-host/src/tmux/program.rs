//! Runs the tmux program: found without PATH (H-24), with an empty environment, a deadline, and a bounded
//! answer.
//!
//! Commands are passed on standard input and not as arguments. Arguments are limited to 16 KB, are readable
//! by everybody, and stop at the first command that fails. Passing them on standard input requires tmux 3.1.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, MemfdFlags, OFlags, access, fcntl_setfl, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::socket::ServerSocket;

/// The usual places, in the order in which they are searched.
const USUAL: [&str; 5] =
    ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];
/// Longest answer that is read, in bytes: 200 panes of 50 lines of 200 characters have 2 MB.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest error output that is kept, in bytes.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// Finds the program: the first executable one of `places`, which are files or their directories, and of the
/// usual places.
pub(super) fn find(places: &[PathBuf]) -> Result<PathBuf, String> {
    let places = places.iter().map(PathBuf::as_path).chain(USUAL.iter().map(Path::new));
    let programs = places
        .filter(|place| place.is_absolute())
        .map(|place| if place.is_dir() { place.join("tmux") } else { place.to_owned() });
    let mut usable =
        programs.filter(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok());
    usable
        .next()
        .ok_or_else(|| format!("no tmux in {}; name it in tracking.tmux", USUAL.join(", ")))
}

/// The output of a tmux process.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Output {
    /// The first line of the error output, without control characters.
    pub(crate) fn complaint(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stderr);
        text.lines().next().map(|line| line.chars().filter(|one| !one.is_control()).collect())
    }
}

/// Runs commands on the server at `server_socket`, and never starts a server. The tmux process is killed if
/// it does not answer within `limit`.
pub(super) fn run(
    program: &Path,
    server_socket: &ServerSocket,
    script: &str,
    limit: Duration,
) -> Result<Output, String> {
    let name = program.display();
    let mut stdin = File::from(
        memfd_create("commands", MemfdFlags::CLOEXEC)
            .map_err(|error| format!("{name}: {error}"))?,
    );
    stdin
        .write_all(script.as_bytes())
        .and_then(|()| stdin.rewind())
        .map_err(|error| format!("{name}: {error}"))?;
    let child = Command::new(program)
        .arg("-S")
        .arg(&server_socket.name)
        .args(["source-file", "-"])
        .current_dir(server_socket.dir())
        .env_clear()
        .env("LANG", "C.UTF-8")
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name}: {error}"))?;
    gather(&mut Running(child), limit).map_err(|why| format!("{name}: {why}"))
}

/// A process that is killed and reaped when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A child that was already reaped is never signalled.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn gather(running: &mut Running, limit: Duration) -> Result<Output, String> {
    let child = &mut running.0;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("no pipes".to_owned());
    };
    let exit = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(text)?;
    let mut answer = Pipe::new(stdout)?;
    let mut complaints = Pipe::new(stderr)?;
    let until = Instant::now() + limit;
    let mut has_ended = false;
    while !has_ended {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("no answer within {} ms", limit.as_millis()));
        }
        has_ended = wait(exit.as_fd(), [answer.fd(), complaints.fd()], left)?;
        // After the process has ended, all of its output is in the pipes.
        answer.drain()?;
        complaints.drain()?;
        complaints.bytes.truncate(COMPLAINT_BYTES_MAX);
        if ANSWER_BYTES_MAX < answer.bytes.len() {
            return Err(format!("an answer of over {ANSWER_BYTES_MAX} bytes"));
        }
    }
    Ok(Output { stdout: answer.bytes, stderr: complaints.bytes })
}

/// Waits until there is output or the process has ended. Returns whether it has ended.
fn wait(
    exit: BorrowedFd<'_>,
    pipes: [Option<BorrowedFd<'_>>; 2],
    left: Duration,
) -> Result<bool, String> {
    let mut fds = vec![PollFd::from_borrowed_fd(exit, PollFlags::IN)];
    let open = pipes.into_iter().flatten();
    fds.extend(open.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    match poll(&mut fds, Some(&Timespec::try_from(left).map_err(|error| error.to_string())?)) {
        Ok(_) | Err(Errno::INTR) => {
            Ok(fds.first().is_some_and(|exit| exit.revents().contains(PollFlags::IN)))
        }
        Err(error) => Err(text(error)),
    }
}

/// The reading end of a pipe, and the bytes read from it.
struct Pipe<F> {
    /// None after the end of the output.
    from: Option<F>,
    bytes: Vec<u8>,
}

impl<F: Read + AsFd> Pipe<F> {
    fn new(from: F) -> Result<Self, String> {
        fcntl_setfl(&from, OFlags::NONBLOCK).map_err(text)?;
        Ok(Self { from: Some(from), bytes: Vec::new() })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is available, up to a bound.
    fn drain(&mut self) -> Result<(), String> {
        let Some(from) = &mut self.from else { return Ok(()) };
        match from.take(ANSWER_BYTES_MAX as u64 + 1).read_to_end(&mut self.bytes) {
            Ok(_) => self.from = None,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => (),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }
}

fn text(error: Errno) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    // H-24: PATH is ignored.
    #[test]
    fn the_program_is_the_first_that_can_be_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tmux");
        std::fs::write(&file, "").unwrap();
        let elsewhere = find(&[]);
        assert_eq!(find(std::slice::from_ref(&file)), elsewhere, "not executable");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(find(&["tmux".into(), file.clone()]), Ok(file.clone()));
        assert_eq!(find(&[dir.path().to_owned()]), Ok(file));
        assert_eq!(find(&["/nowhere/tmux".into()]), elsewhere);
    }
}
