//! One tmux server: which sockets may be asked (H-27), and how.
//!
//! A socket must belong to this user, be no link, and be in a directory of this user that nobody else can enter.
//! It is reached through that directory, which is held open. Commands go through standard input: there each line
//! is run although an earlier one failed, and no text is in an argument list.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, statat};
use rustix::io::Errno;

use super::script;
use crate::answer::Failure;
use crate::budget::Budget;
use crate::program::{self, Call, Surroundings};
use crate::text;

/// Longest answer, in bytes: lists of clients and windows.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// What tmux says where there is a socket and no server.
const NO_SERVER: &str = "no server running on ";

/// A server that may be asked.
pub(super) struct Server<'a> {
    program: &'a str,
    directory: OwnedFd,
    socket: String,
}

/// What a server answered.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The lines that commands printed.
    pub(super) lines: Vec<String>,
    /// The lines of errors, one for each command that failed.
    pub(super) complaints: Vec<String>,
}

impl<'a> Server<'a> {
    /// Checks the socket. None if it does not exist: then no server runs there.
    pub(super) fn open(program: &'a str, socket: &str) -> Result<Option<Self>, Failure> {
        let path = Path::new(socket);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Failure::refused("is no socket"));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match open(parent, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(Failure::new(error.to_string())),
        };
        let fault = |error: Errno| Failure::new(error.to_string());
        let user = rustix::process::geteuid().as_raw();
        let stat = fstat(&directory).map_err(fault)?;
        if stat.st_uid != user || stat.st_mode & 0o077 != 0 {
            return Err(Failure::refused("its directory is open to others"));
        }
        let stat = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(fault(error)),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || stat.st_uid != user {
            return Err(Failure::refused("is no socket of this user"));
        }
        let socket = name.to_str().ok_or_else(|| Failure::refused("its name is no text"))?;
        Ok(Some(Self { program, directory, socket: socket.to_owned() }))
    }

    /// Runs commands, one a line. Where no server runs, nothing is said.
    pub(super) fn ask(&self, commands: &str, budget: Budget) -> Result<Said, Failure> {
        let input = format!("{commands}display-message -p {}\n", script::END);
        let directory = PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()));
        let arguments = ["-S", &self.socket, "source-file", "-"].map(str::to_owned);
        let call = Call {
            program: self.program,
            arguments: arguments.to_vec(),
            input: input.as_bytes(),
            surroundings: Surroundings::Bare,
            directory: Some(directory),
            output_bytes_max: ANSWER_BYTES_MAX,
        };
        let output = program::run(&call, budget)?;
        let complaints = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let mut lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
        // tmux stopped in the middle, or answers in another way.
        if lines.pop().as_deref() != Some(script::END) {
            if complaints.starts_with(NO_SERVER) {
                return Ok(Said::default());
            }
            let why = text::first_line(&output.stderr, text::SAYING_CHARS_MAX);
            return Err(Failure::new(if why.is_empty() {
                "tmux gave no answer".into()
            } else {
                why
            }));
        }
        let complaints = complaints.lines().map(str::to_owned).collect();
        Ok(Said { lines, complaints })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    // H-27
    #[test]
    fn only_a_socket_of_the_user_in_a_closed_directory_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        let _listener = UnixListener::bind(path("s")).unwrap();
        let open =
            |name: &str| Server::open("/usr/bin/tmux", &path(name)).map(|server| server.is_some());
        assert_eq!(open("s"), Ok(true));
        assert_eq!(open("none"), Ok(false));
        assert_eq!(open("none/s"), Ok(false));
        symlink(path("s"), path("link")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        for name in ["link", "file"] {
            assert_eq!(open(name).unwrap_err().why, "is no socket of this user", "{name}");
        }
        symlink(dir.path(), path("directory")).unwrap();
        assert!(open("directory/s").is_err());
        set_permissions(dir.path(), Permissions::from_mode(0o750)).unwrap();
        assert_eq!(open("s").unwrap_err().why, "its directory is open to others");
    }
}
