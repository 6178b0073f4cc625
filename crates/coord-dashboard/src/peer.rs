//! Decides whose connections are taken (H-28). The kernel says which user and which process the other end of a loopback
//! connection belongs to; other users are refused, and so is what comes from a Claude Code client.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::source::Source;

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this user that no client started.
    Own,
    /// A process of root, such as a tunnel's. It has to name the public origin.
    Root,
}

/// Where connections are found.
const TABLE: &str = "/proc/net/tcp";
/// The user id of root.
const ROOT: u32 = 0;
/// The first process.
const INIT: u32 = 1;

/// Decides about connections; remembers which process had the last one, since a browser's come from one.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    last: AtomicU32,
}

impl Peers {
    /// Whose connection this is, from `there` to `here`.
    ///
    /// # Errors
    /// Why it is not taken, in one line.
    pub(crate) fn check(
        &self,
        (there, here): (SocketAddr, SocketAddr),
        takes_root: bool,
        source: &dyn Source,
    ) -> Result<Peer, String> {
        let table = fs::read_to_string(TABLE).map_err(|error| format!("{TABLE}: {error}"))?;
        let gone = || "Refused: the connection's other end cannot be found.".to_owned();
        let Socket { uid, inode } = find(&table, there, here).ok_or_else(gone)?;
        let own = rustix::process::geteuid().as_raw();
        if uid != own {
            return if uid == ROOT && takes_root {
                Ok(Peer::Root)
            } else {
                Err("Refused: this page belongs to another user.".to_owned())
            };
        }
        match self.owner(inode) {
            Owner::Process(pid) => source.check_peer(pid)?,
            // ssh's own process is such one: what it starts and reads is hidden even from its user.
            Owner::AmongHidden(pids) => {
                for pid in pids {
                    if parent(pid).is_none_or(|parent| parent == INIT) {
                        return Err("Refused: nothing shows which process connects.".to_owned());
                    }
                    source.check_peer(pid)?;
                }
            }
            Owner::Nobody => return Err(gone()),
        }
        Ok(Peer::Own)
    }

    fn owner(&self, inode: u64) -> Owner {
        let last = self.last.load(Ordering::Relaxed);
        if last != 0 && holds(last, inode) == Some(true) {
            return Owner::Process(last);
        }
        let own = rustix::process::geteuid().as_raw();
        let mut hidden = Vec::new();
        for pid in processes() {
            match holds(pid, inode) {
                Some(true) => {
                    self.last.store(pid, Ordering::Relaxed);
                    return Owner::Process(pid);
                }
                None if uid_of(pid) == Some(own) => hidden.push(pid),
                Some(false) | None => (),
            }
        }
        if hidden.is_empty() { Owner::Nobody } else { Owner::AmongHidden(hidden) }
    }
}

/// Who holds a socket.
enum Owner {
    Process(u32),
    /// One of these, whose files cannot be seen.
    AmongHidden(Vec<u32>),
    Nobody,
}

/// A line of the kernel's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    uid: u32,
    inode: u64,
}

/// The socket of `there` that is connected to `here`.
fn find(table: &str, there: SocketAddr, here: SocketAddr) -> Option<Socket> {
    let (there, here) = (written(there)?, written(here)?);
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != there || fields.next()? != here {
            return None;
        }
        let uid = fields.nth(4)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok().filter(|inode| *inode != 0)?;
        Some(Socket { uid, inode })
    })
}

/// An address as the kernel writes it: the four bytes as a number of this machine.
fn written(address: SocketAddr) -> Option<String> {
    match address.ip() {
        IpAddr::V4(ip) => {
            Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port()))
        }
        IpAddr::V6(_) => None,
    }
}

/// The pids of all processes that can be seen.
fn processes() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process holds the socket; none if its files cannot be seen.
fn holds(pid: u32, inode: u64) -> Option<bool> {
    let wanted = format!("socket:[{inode}]");
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let is_it = |path: std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_str() == Some(wanted.as_str()))
    };
    Some(files.flatten().any(|file| is_it(file.path())))
}

/// The user of a process, also where its files are hidden.
fn uid_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    // The effective one.
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    // The kernel's own table, of a connection that is there.
    #[test]
    fn h_28_the_other_end_of_a_connection_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let stream = TcpStream::connect_timeout(&here, Duration::from_secs(20)).unwrap();
        let there = stream.local_addr().unwrap();
        let table = fs::read_to_string(TABLE).unwrap();
        let found = find(&table, there, here).unwrap();
        assert_eq!(found.uid, rustix::process::geteuid().as_raw());
        assert!(
            matches!(Peers::default().owner(found.inode), Owner::Process(pid) if pid == std::process::id())
        );
        assert_eq!(uid_of(std::process::id()), Some(found.uid));
        assert_eq!(find(&table, here, SocketAddr::from(([127, 0, 0, 1], 1))), None);
        // The listening end is not the peer's.
        assert_ne!(find(&table, there, here), find(&table, here, there));
        assert_eq!(written("[::1]:80".parse().unwrap()), None);
    }

    #[test]
    fn a_line_of_the_table_is_read_by_its_fields() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:A391 0100007F:C8F6 01 00000000:00000000 00:00000000 00000000  1000        0 44117 1 0 20 4 30 10 -1\n   1: 0100007F:A392 0100007F:C8F6 06 00000000:00000000 03:00000AAA 00000000     0        0 0 3 0\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            let found = find(table, at(0xA391), at(0xC8F6));
            assert_eq!(found, Some(Socket { uid: 1000, inode: 44117 }));
            assert_eq!(find(table, at(0xA392), at(0xC8F6)), None, "closed already");
        }
    }
}
