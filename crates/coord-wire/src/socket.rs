//! Unix sockets that do not block, are not inherited, and raise no signal when the other end is gone.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io;
use rustix::net::{AddressFamily, SocketType};

/// Creates a stream socket that is not connected yet.
#[cfg(target_os = "linux")]
pub(crate) fn new() -> io::Result<OwnedFd> {
    use rustix::net::{SocketFlags, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Sends as much as the socket accepts.
#[cfg(target_os = "linux")]
pub(crate) fn send(stream: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    rustix::net::send(stream, bytes, rustix::net::SendFlags::NOSIGNAL)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn new() -> io::Result<OwnedFd> {
    let stream = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    io::fcntl_setfd(&stream, io::FdFlags::CLOEXEC)?;
    io::ioctl_fionbio(&stream, true)?;
    #[cfg(target_vendor = "apple")]
    rustix::net::sockopt::set_socket_nosigpipe(&stream, true)?;
    Ok(stream)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn send(stream: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    rustix::net::send(stream, bytes, rustix::net::SendFlags::empty())
}
