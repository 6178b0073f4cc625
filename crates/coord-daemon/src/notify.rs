//! Notifies a service manager of the coordinator's state, with one datagram per change, as in
//! sd_notify(3).
//!
//! The loop decides when to send which notification. No send blocks: a manager that does not read misses
//! it.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends notifications to a service manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl Notifier {
    /// Creates a notifier for the value of `NOTIFY_SOCKET`: a path, or `@` and an abstract name.
    pub(crate) fn new(address: Option<&OsStr>) -> io::Result<Self> {
        let Some(address) = address else { return Ok(Self::default()) };
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(address)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { to: Some((socket, address)) })
    }

    /// Reports that the coordinator accepts events.
    pub(crate) fn ready(&self) {
        self.say("READY=1");
    }

    /// Reports that the coordinator makes progress, for the watchdog.
    pub(crate) fn progress(&self) {
        self.say("WATCHDOG=1");
    }

    /// Reports that the coordinator was asked to stop.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, word: &str) {
        if let Some((socket, to)) = &self.to
            && let Err(error) = socket.send_to_addr(word.as_bytes(), to)
        {
            tracing::warn!(%error, word, "service manager not told");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn paths_and_abstract_names_are_reached() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify sock\u{e9}t");
        let by_path = UnixDatagram::bind(&path).unwrap();
        Notifier::new(Some(path.as_os_str())).unwrap().ready();
        assert_eq!(heard(&by_path), "READY=1");
        let name = format!("coord-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        Notifier::new(Some(OsStr::new(&format!("@{name}")))).unwrap().stopping();
        assert_eq!(heard(&by_name), "STOPPING=1");
    }

    #[test]
    fn a_manager_that_is_gone_or_absent_holds_nobody_up() {
        Notifier::new(None).unwrap().ready();
        Notifier::new(Some(OsStr::new("/nowhere/notify"))).unwrap().ready();
    }
}
