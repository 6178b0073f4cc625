//! Identifies the process at the other end of a Unix socket, as the kernel recorded it when the
//! connection was made (H-15, H-25). Decides nothing.

use rustix::fd::AsFd;
use std::io;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unsupported as system;

/// The process at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The pid as seen from here; 0 if the process's pid namespace is neither this process's nor below
    /// it.
    ///
    /// Two processes that see each other's pid are in the same namespace.
    pub pid: u32,
    /// The effective user id.
    pub uid: u32,
}

impl Peer {
    /// The peer of a connected stream: the process that connected, or that called `listen`.
    pub fn of(stream: impl AsFd) -> io::Result<Self> {
        system::of(stream)
    }
}

/// The parent of the process that connected, as seen from here; 0 if it is not visible.
///
/// The kernel reports it for the connection itself, so a process with a reused pid is never taken for
/// the peer. Not every kernel supports this; the caller then has to read the process table.
pub fn parent(stream: impl AsFd) -> io::Result<u32> {
    system::parent(stream)
}

/// Other systems: nothing is known about peers, so none is trusted.
#[cfg(not(target_os = "linux"))]
mod unsupported {
    use super::{AsFd, Peer, io};

    pub(super) fn of(_: impl AsFd) -> io::Result<Peer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn parent(_: impl AsFd) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_ends_of_a_pair_are_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(Peer::of(&one).unwrap(), Peer { pid: std::process::id(), uid });
        // Kernels before 6.13 cannot report it.
        if let Ok(parent) = parent(&one) {
            assert_eq!(parent, std::os::unix::process::parent_id());
        }
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(Peer::of(&null).is_err() && parent(&null).is_err());
    }
}
