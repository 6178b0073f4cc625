//! Reads what the Linux kernel recorded when the connection was made.
//!
//! The calls are made directly, because the usual wrapper cannot represent the pid 0 that the kernel
//! reports for a process that this one cannot see.
#![expect(unsafe_code, reason = "calls of the C library that fill plain structures")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::io;

use super::Peer;

pub(super) fn of(stream: impl AsFd) -> io::Result<Peer> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    option(&stream, libc::SO_PEERCRED, &mut peer)?;
    Ok(Peer { pid: u32::try_from(peer.pid).unwrap_or(0), uid: peer.uid })
}

/// Requires Linux 6.13.
pub(super) fn parent(stream: impl AsFd) -> io::Result<u32> {
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

/// Reads a socket option into `value`.
fn option<T: Copy>(stream: &impl AsFd, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut bytes = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
    let socket = stream.as_fd().as_raw_fd();
    let place = core::ptr::from_mut(value).cast::<c_void>();
    // SAFETY: the kernel writes at most `bytes` bytes of plain numbers.
    let done = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, place, &raw mut bytes) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
