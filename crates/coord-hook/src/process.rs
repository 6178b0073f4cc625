//! Determines which process started this hook, from the process table and not from what the
//! environment says.
//!
//! This module decides which process is the harness, whether it is interactive (H-24), and what the
//! environment claims about tmux. It reads no secret: only the variables named here are examined
//! . It holds R-09, and the envelope's part of H-15 and H-16.

use crate::files::read_system;
use crate::text::push_number;
use coord_wire::exchange;
use core::mem::MaybeUninit;
use rustix::fs::{CWD, FileType, Mode, OFlags, major, minor, open, readlinkat_raw, stat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Levels above the hook at which the harness may be: a shell or wrapper may be between them.
const LEVELS: u32 = 5;

/// The fields of `/proc/PID/stat` that a hook uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    parent: u32,
    /// Device number of the controlling terminal; 0 without one.
    pub(crate) tty: u64,
    pub(crate) start_time: u64,
}

impl Process {
    /// Reads the living process `pid`.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let mut path = [0; 32];
        let mut buffer = [0; 512];
        Self::parse(pid, read_system(proc_path(&mut path, pid, b"/stat")?, &mut buffer))
    }

    /// Parses a `stat` line. The name in field 2 may contain anything, brackets and blanks too;
    /// what follows may not.
    fn parse(pid: u32, stat: &[u8]) -> Option<Self> {
        let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
        // The first of these fields has number 3.
        let mut fields = stat.get(behind_name..)?.split(|byte| *byte == b' ');
        let parent = number(fields.nth(1)?)?;
        let tty = number(fields.nth(2)?)?;
        let start_time = number(fields.nth(14)?)?;
        Some(Self { pid, parent: u32::try_from(parent).ok()?, tty, start_time })
    }
}

/// The harness: the process that the client names, if it is an ancestor of this one.
pub(crate) fn harness(claude_pid: Option<OsString>) -> Option<Process> {
    let claimed = u32::try_from(number(&claude_pid?.into_vec())?).ok()?;
    let mut pid = u32::try_from(rustix::process::getppid()?.as_raw_nonzero().get()).ok()?;
    for _ in 0..LEVELS {
        let process = Process::read(pid)?;
        if pid == claimed {
            return Some(process);
        }
        pid = process.parent;
    }
    None
}

/// Inode number of this process's pid namespace.
///
/// A visible parent shares the namespace, and its entries in `/proc` exist already. Creating this
/// process's own entries, and removing them when it exits, costs more than everything else that a
/// hook looks up.
pub(crate) fn pid_namespace() -> Option<u64> {
    let of_parent = || {
        let parent = rustix::process::getppid().filter(|_| is_proc_ours())?;
        let parent = u32::try_from(parent.as_raw_nonzero().get()).ok()?;
        let mut path = [0; 32];
        exchange::namespace(proc_path(&mut path, parent, b"/ns/pid")?)
    };
    of_parent().or_else(exchange::pid_namespace)
}

/// Whether `/proc` shows the processes of this namespace, and not of one above.
fn is_proc_ours() -> bool {
    let mut digits = Vec::with_capacity(20);
    push_number(&mut digits, std::process::id().into());
    let mut rest = [MaybeUninit::uninit(); 20];
    readlinkat_raw(CWD, "/proc/self", &mut rest).is_ok_and(|(own, _)| *own == *digits)
}

/// Whether the harness runs without a person at a terminal: with `-p`, without a terminal, or with
/// output that is no terminal (`claude 'prompt' | cat`), where the client behaves as with `-p`
/// (measured). None if its arguments cannot be read.
pub(crate) fn is_headless(harness: Process) -> Option<bool> {
    let is_headless = is_print(harness)? || harness.tty == 0;
    Some(is_headless || output(harness) == Some(Output::Elsewhere))
}

/// The options that make the client run without a person at its terminal (measured). A `-p` after
/// `--` is a prompt.
const HEADLESS: [&[u8]; 3] = [b"-p", b"--print", b"--init-only"];
/// Length of the longest of these options, in bytes.
const OPTION_BYTES_MAX: usize = 11;

/// Whether a process was started with one of [`HEADLESS`]. None if its arguments cannot be read.
fn is_print(harness: Process) -> Option<bool> {
    let mut print = false;
    let mut options_ended = false;
    let mut argument = Vec::new();
    let whole = each_piece(harness.pid, b"/cmdline", |piece| {
        for byte in piece {
            if *byte != 0 {
                // Only short arguments are compared.
                if argument.len() <= OPTION_BYTES_MAX {
                    argument.push(*byte);
                }
                continue;
            }
            print |= !options_ended && HEADLESS.contains(&argument.as_slice());
            options_ended |= argument == b"--";
            argument.clear();
        }
    });
    whole.then_some(print)
}

/// Whether a person may be at the harness: it has a terminal, writes to it, and runs without `-p`.
pub(crate) fn is_at_terminal(harness: Process) -> bool {
    is_headless(harness) == Some(false) && output(harness) == Some(Output::ItsTerminal)
}

/// Where a process writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Its controlling terminal.
    ItsTerminal,
    /// Another terminal.
    Terminal,
    /// A pipe, a file, or another device.
    Elsewhere,
}

/// Where the standard output of a process goes. None if that cannot be read.
fn output(process: Process) -> Option<Output> {
    /// `/dev/tty`.
    const OWN: (u32, u32) = (5, 0);
    let mut path = [0; 32];
    let stdout = stat(proc_path(&mut path, process.pid, b"/fd/1")?).ok()?;
    let is_device = FileType::from_raw_mode(stdout.st_mode) == FileType::CharacterDevice;
    let device = (major(stdout.st_rdev), minor(stdout.st_rdev));
    Some(match device {
        _ if !is_device => Output::Elsewhere,
        OWN => Output::ItsTerminal,
        device if Some(device) == device_of(process.tty) => Output::ItsTerminal,
        // Consoles, serial lines and pseudoterminals.
        (4 | 5 | 136..=143, _) => Output::Terminal,
        _ => Output::Elsewhere,
    })
}

/// Splits the terminal number in `/proc/PID/stat`, `mmmMMMmm` in hex digits, into major and minor
/// number.
fn device_of(tty: u64) -> Option<(u32, u32)> {
    let tty = u32::try_from(tty).ok()?;
    Some(((tty >> 8) & 0xfff, (tty & 0xff) | ((tty >> 12) & 0xf_ff00)))
}

/// Whether `NAME=value` is in the environment with which a process was started.
pub(crate) fn was_started_with(pid: u32, entry: &[u8]) -> bool {
    let mut found = false;
    let mut matched = Some(0);
    let whole = each_piece(pid, b"/environ", |piece| {
        for byte in piece {
            if *byte == 0 {
                found |= matched == Some(entry.len());
                matched = Some(0);
            } else {
                matched = matched.filter(|n| entry.get(*n) == Some(byte)).map(|n| n + 1);
            }
        }
    });
    whole && found
}

/// Reads a file of `/proc/PID` to its end. Returns false if it cannot be read.
fn each_piece(pid: u32, name: &[u8], mut take: impl FnMut(&[u8])) -> bool {
    let mut path = [0; 32];
    let Some(path) = proc_path(&mut path, pid, name) else { return false };
    let Ok(file) = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    let mut buffer = [0; 1024];
    loop {
        match rustix::io::read(&file, &mut buffer) {
            Ok(0) => return true,
            Ok(n) => take(buffer.get(..n).unwrap_or_default()),
            Err(Errno::INTR) => (),
            Err(_) => return false,
        }
    }
}

/// Splits `TMUX` into the socket and the pid of the server. The session number after them is not
/// used.
pub(crate) fn tmux_server(tmux: &[u8]) -> Option<(&[u8], u32)> {
    let mut parts = tmux.rsplitn(3, |byte| *byte == b',');
    let (_session, server, socket) = (parts.next()?, parts.next()?, parts.next()?);
    Some((socket, u32::try_from(number(server)?).ok()?))
}

/// Builds `/proc/PID` + `name`, without the formatting machinery.
fn proc_path<'a>(buffer: &'a mut [u8; 32], pid: u32, name: &[u8]) -> Option<&'a str> {
    let mut path = Vec::with_capacity(32);
    path.extend_from_slice(b"/proc/");
    push_number(&mut path, pid.into());
    path.extend_from_slice(name);
    let place = buffer.get_mut(..path.len())?;
    place.copy_from_slice(&path);
    core::str::from_utf8(place).ok()
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_confuse_the_reader() {
        let stat = b"7 (a) b ) S 3 7 7 34816 7 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
        let process = Process::parse(7, stat).unwrap();
        assert_eq!(process, Process { pid: 7, parent: 3, tty: 34816, start_time: 4242 });
        assert_eq!(Process::parse(7, b"7 (a) S 3"), None);
        assert_eq!(Process::parse(7, b""), None);
    }

    #[test]
    fn this_process_is_found() {
        let me = Process::read(std::process::id()).unwrap();
        assert_eq!(me.parent, std::os::unix::process::parent_id());
        assert_ne!(me.start_time, 0);
    }

    // H-02
    #[test]
    fn a_terminal_s_number_is_taken_apart() {
        assert_eq!(device_of(34_816), Some((136, 0)));
        assert_eq!(device_of(0x0010_88ff), Some((136, 511)));
        assert_eq!(device_of(1025), Some((4, 1)));
    }

    #[test]
    fn tmux_sockets_may_have_commas() {
        assert_eq!(tmux_server(b"/tmp/a,b/default,812,0"), Some((&b"/tmp/a,b/default"[..], 812)));
        for bad in [&b""[..], b"/tmp/x", b"/tmp/x,y,0"] {
            assert_eq!(tmux_server(bad), None);
        }
    }

    // only an ancestor can be the harness.
    #[test]
    fn a_stranger_is_no_harness() {
        assert_eq!(harness(None), None);
        assert_eq!(harness(Some("4194305".into())), None);
        let parent = std::os::unix::process::parent_id();
        assert_eq!(harness(Some(parent.to_string().into())).map(|found| found.pid), Some(parent));
    }
}
