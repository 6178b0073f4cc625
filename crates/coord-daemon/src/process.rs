//! What the process table says: identity, parentage, kind of run, and deaths by pidfd.
//!
//! Every question is asked for pid *and* start time, so a reused pid is never taken for the process
//! that had it (architecture 7).

use std::io::{self, Read};

use coord_wire::envelope::Kind;
use coord_wire::journal::ProcessSeen;
use coord_wire::peer;
use coord_wire::stamp::ProcessRef;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Who sends a request, as the kernel tells of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its pid; 0 if it is not visible from here, and so in another pid namespace (H-15).
    pub pid: u32,
    /// Its parent when it was accepted, where that could be told.
    pub parent: Option<u32>,
}

impl Caller {
    /// The peer `pid` of an accepted connection.
    pub fn of(stream: impl AsFd, pid: u32) -> Self {
        // Its entry in the process table would have to be made, and unmade again at its end.
        let parent = peer::parent(stream).ok().or_else(|| stat(pid).map(|stat| stat.ppid));
        Self { pid, parent }
    }
}

/// A harness's command line is read up to here, in bytes.
const CMDLINE_BYTES_MAX: usize = 64 * 1024;

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Parent.
    pub ppid: u32,
    /// Controlling terminal's device number; 0 without one.
    pub tty: i64,
    /// Clock ticks since boot.
    pub start_time: u64,
    /// Dead, waiting to be reaped.
    pub is_zombie: bool,
    /// Stopped by a signal or a tracer (Ctrl-Z).
    pub is_stopped: bool,
}

/// Reads `/proc/PID/stat`.
pub fn stat(pid: u32) -> Option<Stat> {
    // The kernel writes it whole into one read: the name is 64 bytes at most, the rest numbers.
    let mut buffer = [0; 1024];
    let n = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut buffer).ok()?;
    parse_stat(&String::from_utf8_lossy(buffer.get(..n)?))
}

/// The name in parentheses may hold anything, parentheses and spaces included: fields are counted
/// from the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
    Some(Stat {
        is_zombie: matches!(field(3)?, "Z" | "X"),
        is_stopped: matches!(field(3)?, "T" | "t"),
        ppid: field(4)?.parse().ok()?,
        tty: field(7)?.parse().ok()?,
        start_time: field(22)?.parse().ok()?,
    })
}

/// Whether exactly this process is alive.
pub fn is_alive(process: ProcessRef) -> bool {
    stat(process.pid).is_some_and(|stat| stat.start_time == process.start_time && !stat.is_zombie)
}

/// What its command line and its terminal say of a process that is alive, or was.
pub fn seen(process: ProcessRef, alive: bool) -> ProcessSeen {
    let told = if alive { told(process) } else { None };
    let (kind, forked_from) = told.map_or((None, None), |(kind, forked)| (Some(kind), forked));
    ProcessSeen { process, alive, kind, stopped: false, forked_from }
}

/// Interactive or headless (H-24), and the session it forks; none where unreadable.
fn told(process: ProcessRef) -> Option<(Kind, Option<String>)> {
    let stat = stat(process.pid).filter(|stat| stat.start_time == process.start_time)?;
    let file = std::fs::File::open(format!("/proc/{}/cmdline", process.pid)).ok()?;
    let mut cmdline = Vec::new();
    file.take(CMDLINE_BYTES_MAX as u64).read_to_end(&mut cmdline).ok()?;
    if cmdline.is_empty() {
        return None;
    }
    Some((kind_of(&cmdline, stat.tty), forked_from(&cmdline)))
}

/// The client's options; behind `--` there are none.
fn options(cmdline: &[u8]) -> impl Iterator<Item = &[u8]> {
    cmdline.split(|byte| *byte == 0).skip(1).take_while(|word| *word != b"--".as_slice())
}

fn kind_of(cmdline: &[u8], tty: i64) -> Kind {
    let mut words = options(cmdline);
    if tty == 0 || words.any(|word| word == b"-p" || word == b"--print") {
        Kind::Headless
    } else {
        Kind::Interactive
    }
}

/// The id of `--resume ID` beside `--fork-session` (H-42); a name or a search text is no id.
fn forked_from(cmdline: &[u8]) -> Option<String> {
    if !options(cmdline).any(|word| word == b"--fork-session") {
        return None;
    }
    let mut words = options(cmdline);
    let id = words.find_map(|word| match word.strip_prefix(b"--resume=") {
        Some(id) => Some(Some(id)),
        None => (word == b"--resume" || word == b"-r").then_some(None),
    })?;
    let id = std::str::from_utf8(id.or_else(|| words.next())?).ok()?;
    let is_id = id.len() == 36 && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

/// A pidfd of exactly this process: it becomes readable when the process is gone.
///
/// # Errors
/// `NotFound` if the process is gone, or its pid is another process by now.
pub fn open_pidfd(process: ProcessRef) -> io::Result<OwnedFd> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        rustix::io::Errno::SRCH => gone(),
        error => error.into(),
    })?;
    // The pidfd was opened by number: only now that it is held does the check bind.
    if is_alive(process) { Ok(fd) } else { Err(gone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> ProcessRef {
        let pid = std::process::id();
        ProcessRef { pid, start_time: stat(pid).unwrap().start_time }
    }

    #[test]
    fn names_with_parentheses_do_not_shift_fields() {
        let text = "7 (a) b (c)) S 1 7 7 34816 7 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.ppid, stat.tty, stat.start_time, stat.is_zombie), (1, 34816, 4711, false));
        assert_eq!(parse_stat("7 (x) S 1"), None);
    }

    // R-09: a reused pid is another process.
    #[test]
    fn a_process_is_its_pid_and_its_start_time() {
        let me = me();
        assert!(is_alive(me));
        let other = ProcessRef { start_time: me.start_time + 1, ..me };
        assert!(!is_alive(other));
        assert_eq!(open_pidfd(other).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(open_pidfd(me).is_ok());
    }

    // H-25
    #[test]
    fn the_process_table_says_what_the_connection_says() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let parent = Some(std::os::unix::process::parent_id());
        let own = std::process::id();
        assert_eq!(Caller::of(&one, own), Caller { pid: own, parent });
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(Caller::of(&null, own), Caller { pid: own, parent });
        assert_eq!(Caller::of(&null, 0), Caller { pid: 0, parent: None });
    }

    #[test]
    fn a_dead_process_is_not_alive() {
        let mut child = std::process::Command::new("/bin/cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let process = ProcessRef { pid, start_time: stat(pid).unwrap().start_time };
        assert!(is_alive(process));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(process));
    }

    // H-24
    #[test]
    fn kind_is_judged_from_argv_and_terminal() {
        for (cmdline, tty, kind) in [
            (&b"claude\0"[..], 34816, Kind::Interactive),
            (b"claude\0-p\0hi\0", 34816, Kind::Headless),
            (b"claude\0--print\0hi\0", 34816, Kind::Headless),
            (b"claude\0--\0-p\0", 34816, Kind::Interactive),
            (b"claude\0", 0, Kind::Headless),
        ] {
            assert_eq!(kind_of(cmdline, tty), kind, "{}", String::from_utf8_lossy(cmdline));
        }
    }

    // H-42
    #[test]
    fn a_fork_is_told_by_the_command_line() {
        let id = "957877fb-b0ac-40c5-9e5e-238cd1474e63";
        for (words, is_fork) in [
            (format!("claude\0--resume\0{id}\0--fork-session\0"), true),
            (format!("claude\0--fork-session\0-r\0{id}\0"), true),
            (format!("claude\0--fork-session\0--resume={id}\0"), true),
            (format!("claude\0--resume\0{id}\0"), false),
            (format!("claude\0--resume\0{id}\0--\0--fork-session\0"), false),
            ("claude\0--resume\0my talk\0--fork-session\0".to_owned(), false),
            ("claude\0--fork-session\0--resume\0".to_owned(), false),
        ] {
            let forked = forked_from(words.as_bytes());
            assert_eq!(forked, is_fork.then(|| id.to_owned()), "{words:?}");
        }
    }
}
