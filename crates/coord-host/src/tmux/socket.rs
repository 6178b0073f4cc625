//! Decides which tmux sockets may be queried (H-14, H-27), and finds out which process listens there.
//!
//! A socket must belong to this user, be no link, and be in a directory of this user that nobody else can
//! enter. It is opened through that directory, which is held open, so that nothing on the path can change
//! between check and use. The kernel reports the listener. A stranger that is queried could do harm (see
//! `is_server_of`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use coord_model::ProcessRef;
use coord_wire::peer::Peer;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, statat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::process;
use crate::registry::Readable;

/// Most sockets whose listener is remembered; a user has one or two.
const DOORS_MAX: usize = 64;

/// Most processes between a pane's server and a harness; there are two or three.
const DEPTH_MAX: usize = 64;

/// A socket that may be queried.
#[derive(Debug)]
pub(crate) struct ServerSocket {
    /// The directory of the socket, held open.
    dir: OwnedFd,
    /// The file name of the socket in that directory.
    pub(super) name: OsString,
    /// The process that listens on the socket.
    pub(crate) server: ProcessRef,
}

impl ServerSocket {
    /// The directory of the socket, as a path that is valid while the directory is held open.
    pub(super) fn dir(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_raw_fd()))
    }
}

/// Identifies a socket file: device, inode, and change time.
type FileId = (u64, u64, i64, u64);

/// The listeners found so far, because finding one costs the server a connection.
#[derive(Debug, Default)]
pub(crate) struct ServerSockets {
    listeners: BTreeMap<PathBuf, (FileId, ProcessRef)>,
}

impl ServerSockets {
    /// Checks the socket, and finds the process that listens on it.
    pub(super) fn open(
        &mut self,
        readable: &Readable,
        socket: &Path,
    ) -> Result<ServerSocket, String> {
        let named = |why: &str| format!("{}: {why}", socket.display());
        if !readable.allows(socket) {
            return Err(named("outside COORD_HOME; name it in tracking.tmux_sockets"));
        }
        let (Some(parent), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(named("is no socket"));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = open(parent, flags, Mode::empty()).map_err(|error| named(&error.to_string()))?;
        let euid = rustix::process::geteuid().as_raw();
        let stat = fstat(&dir).map_err(|error| named(&error.to_string()))?;
        if stat.st_uid != euid || stat.st_mode & 0o077 != 0 {
            return Err(named("its directory is open to others"));
        }
        let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| named(&error.to_string()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || stat.st_uid != euid {
            return Err(named("is no socket of ours"));
        }
        let file = (stat.st_dev, stat.st_ino, stat.st_ctime, stat.st_ctime_nsec);
        let mut server_socket = ServerSocket {
            dir,
            name: name.to_owned(),
            server: ProcessRef { pid: 0, start_time: 0 },
        };
        server_socket.server = match self.listeners.get(socket) {
            Some((known, server)) if *known == file && process::is_alive(*server) => *server,
            Some(_) | None => listener(&server_socket).map_err(|why| named(&why))?,
        };
        if DOORS_MAX <= self.listeners.len() {
            self.listeners.clear();
        }
        self.listeners.insert(socket.to_owned(), (file, server_socket.server));
        Ok(server_socket)
    }
}

/// Finds the listener without waiting: a stopped server has no room for a connection.
fn listener(server_socket: &ServerSocket) -> Result<ProcessRef, String> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|socket| {
            connect(&socket, &SocketAddrUnix::new(server_socket.dir().join(&server_socket.name))?)?;
            Ok(socket)
        })
        .map_err(|error| error.to_string())?;
    let peer = Peer::of(&connected).map_err(|error| error.to_string())?;
    if peer.uid != rustix::process::geteuid().as_raw() {
        return Err("another user listens there".to_owned());
    }
    let stat = process::stat(peer.pid).ok_or("who listens there cannot be seen from here")?;
    Ok(ProcessRef { pid: peer.pid, start_time: stat.start_time })
}

/// Whether `ancestor` is an ancestor of `process` in the process table.
pub(super) fn descends_from(process: ProcessRef, ancestor: ProcessRef) -> bool {
    let mut next = process::stat(process.pid).filter(|stat| stat.start_time == process.start_time);
    for _ in 0..DEPTH_MAX {
        match next {
            Some(stat) if stat.ppid == ancestor.pid => return process::is_alive(ancestor),
            Some(stat) => next = process::stat(stat.ppid),
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    fn private() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        dir
    }

    fn why(readable: &Readable, socket: &Path) -> String {
        ServerSockets::default().open(readable, socket).unwrap_err()
    }

    // H-27
    #[test]
    fn only_a_socket_of_ours_in_a_closed_directory_is_asked() {
        let dir = private();
        let place = dir.path().join("s");
        let _listener = UnixListener::bind(&place).unwrap();
        let readable = Readable::default();
        let me = std::process::id();
        assert_eq!(ServerSockets::default().open(&readable, &place).unwrap().server.pid, me);

        let link = dir.path().join("link");
        symlink(&place, &link).unwrap();
        assert!(why(&readable, &link).contains("is no socket of ours"));
        let linked_dir = dir.path().join("dir");
        symlink(dir.path(), &linked_dir).unwrap();
        assert!(ServerSockets::default().open(&readable, &linked_dir.join("s")).is_err());
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(why(&readable, &file).contains("is no socket of ours"));
        assert!(why(&readable, &dir.path().join("none")).contains("No such file"));
        assert!(ServerSockets::default().open(&readable, Path::new("s")).is_err(), "relative");

        set_permissions(dir.path(), Permissions::from_mode(0o750)).unwrap();
        assert!(why(&readable, &place).contains("open to others"));
    }

    // H-14
    #[test]
    fn with_a_root_only_sockets_below_or_named_are_asked() {
        let (dir, root) = (private(), private());
        let place = dir.path().join("s");
        let _listener = UnixListener::bind(&place).unwrap();
        let mut readable = Readable { root: Some(root.path().to_owned()), named: Vec::new() };
        assert!(why(&readable, &place).contains("outside COORD_HOME"));
        let name = dir.path().file_name().unwrap();
        let around = root.path().join("..").join(name).join("s");
        assert!(why(&readable, &around).contains("outside COORD_HOME"));
        readable.named.push(place.clone());
        assert!(ServerSockets::default().open(&readable, &place).is_ok());
    }

    #[test]
    fn a_new_listener_at_the_same_place_is_found_out_anew() {
        let dir = private();
        let place = dir.path().join("s");
        let mut sockets = ServerSockets::default();
        let listener = UnixListener::bind(&place).unwrap();
        assert!(sockets.open(&Readable::default(), &place).is_ok());
        drop(listener);
        std::fs::remove_file(&place).unwrap();
        let other = UnixListener::bind(&place).unwrap();
        assert!(sockets.open(&Readable::default(), &place).is_ok());
        assert!(other.accept().is_ok(), "it was asked who listens");
    }
}
