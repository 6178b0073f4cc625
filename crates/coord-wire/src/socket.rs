//! Unix sockets that neither block, nor are inherited, nor end this process when the other end is gone.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io;
use rustix::net::{AddressFamily, SocketType};

/// A stream socket that is connected to nothing yet.
#[cfg(target_os = "linux")]
pub(crate) fn new() -> io::Result<OwnedFd> {
    use rustix::net::{SocketFlags, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Sends what the socket takes.
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
