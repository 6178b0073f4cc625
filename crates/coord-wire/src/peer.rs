//! Who is at the other end of a Unix socket.
//!
//! Decides nothing: it says what the kernel recorded when the connection was made (H-15, H-25). The
//! two calls are made directly, because the usual wrapper cannot hold the pid 0 that the kernel
//! gives for a process that this one cannot see.
#![expect(unsafe_code, reason = "two calls of the C library that fill plain structures")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::io;

/// The process at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its pid as seen from here; 0 if its pid namespace is neither this process's nor below it.
    ///
    /// Two processes that see each other's pid are in one namespace.
    pub pid: u32,
    /// Its effective user id.
    pub uid: u32,
}

impl Peer {
    /// The peer of a connected stream: who connected, or who called `listen`.
    pub fn of(stream: impl AsFd) -> io::Result<Self> {
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        option(&stream, libc::SO_PEERCRED, &mut peer)?;
        Ok(Self { pid: u32::try_from(peer.pid).unwrap_or(0), uid: peer.uid })
    }
}

/// The parent of the process that connected, as seen from here; 0 if it is not visible.
///
/// The kernel tells it of the connection itself, so a reused pid is never taken for the peer. Linux
/// 6.13 is needed; before that the process table has to be asked.
pub fn parent(stream: impl AsFd) -> io::Result<u32> {
    let mut number: libc::c_int = -1;
    option(&stream, libc::SO_PEERPIDFD, &mut number)?;
    // SAFETY: the kernel has just made this descriptor for the caller.
    let pidfd = unsafe { OwnedFd::from_raw_fd(number) };
    let mut info = MaybeUninit::<libc::pidfd_info>::zeroed();
    // SAFETY: the structure holds plain numbers, for which zero is a value.
    let info = unsafe { info.assume_init_mut() };
    info.mask = libc::PIDFD_INFO_PID.into();
    // SAFETY: the request's number holds the structure's size, and the kernel writes no more.
    let done =
        unsafe { libc::ioctl(pidfd.as_raw_fd(), libc::PIDFD_GET_INFO, core::ptr::from_mut(info)) };
    if done == 0 { Ok(info.ppid) } else { Err(io::Error::last_os_error()) }
}

/// Fills `value` with a socket's option.
fn option<T: Copy>(stream: &impl AsFd, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut bytes = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
    let socket = stream.as_fd().as_raw_fd();
    let place = core::ptr::from_mut(value).cast::<c_void>();
    // SAFETY: the kernel writes at most `bytes` bytes of plain numbers.
    let done = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, place, &raw mut bytes) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
        // Kernels before 6.13 cannot tell.
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
