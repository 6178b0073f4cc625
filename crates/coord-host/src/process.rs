//! Reads the process table: identity, parent, kind of run, and deaths by pidfd.
//!
//! Every question names a pid *and* a start time, so that a process that reuses a pid is never taken for the
//! earlier one (architecture 7).

use std::cell::Cell;
use std::io::{self, Read};

use coord_model::{Kind, ProcessRef, ProcessSeen};
use coord_wire::peer;
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, major, minor, open};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::launch;

/// The sender of a request, as the kernel reports it for the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Pid of the sender; 0 if the process is invisible from here because it is in another pid namespace
    /// (H-15).
    pub pid: u32,
    /// Parent of the sender when the connection was accepted; none if unknown.
    pub parent: Option<u32>,
}

impl Caller {
    /// The peer `pid` of an accepted connection.
    pub fn of(stream: impl AsFd, pid: u32) -> Self {
        // Asking the connection is cheaper: a `/proc` entry of the peer would have to be created and
        // released.
        let parent = peer::parent(stream).ok().or_else(|| stat(pid).map(|stat| stat.ppid));
        Self { pid, parent }
    }
}

/// Longest part of a harness's command line that is read, in bytes.
pub(crate) const CMDLINE_BYTES_MAX: usize = 64 * 1024;

/// The fields of `/proc/PID/stat` that coord uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Pid of the parent.
    pub ppid: u32,
    /// Process group.
    pub group: u32,
    /// Session.
    pub session: u32,
    /// Processor time used in user and kernel mode, in clock ticks.
    pub cpu_ticks: u64,
    /// Foreground process group of the controlling terminal; -1 without a terminal.
    pub front: i64,
    /// Device number of the controlling terminal; 0 without a terminal.
    pub tty: i64,
    /// Start time, in clock ticks since boot.
    pub start_time: u64,
    /// Whether the process is dead and waits to be reaped.
    pub is_zombie: bool,
    /// Whether the process is stopped by a signal or a tracer (Ctrl-Z).
    pub is_stopped: bool,
    /// Whether the process was forked and has not called exec yet. Its command line is still its parent's.
    pub is_before_exec: bool,
}

/// The kernel's flag for a process that was forked and has not called exec, in the ninth field of `stat`.
const PF_FORKNOEXEC: u32 = 0x40;

/// Longest `stat` file, in bytes. The kernel writes it whole into one read: the name has at most 64 bytes,
/// and the rest are numbers.
const STAT_BYTES_MAX: usize = 1024;

/// Reads `/proc/PID/stat`; none if the process is gone.
pub fn stat(pid: u32) -> Option<Stat> {
    let mut buffer = [0; STAT_BYTES_MAX];
    let n = rustix::io::read(open_proc(&format!("/proc/{pid}/stat"))?, &mut buffer).ok()?;
    parse_stat(&String::from_utf8_lossy(buffer.get(..n)?))
}

/// The process group of this process; none if the group was created outside this pid namespace.
pub fn own_group() -> Option<Pid> {
    let group = stat(std::process::id())?.group;
    Pid::from_raw(i32::try_from(group).ok()?)
}

/// Opens a file of the process table. Hundreds of them are read, and the C library would make two calls where
/// one is enough.
fn open_proc(path: &str) -> Option<OwnedFd> {
    open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// An open `stat` file of one process, to read its state repeatedly. It belongs to exactly that process: when
/// another process gets the pid, reads fail.
#[derive(Debug)]
pub(crate) struct StateFile {
    stat: OwnedFd,
    runs: Option<OwnedFd>,
    last: Cell<(Option<Runs>, Option<bool>)>,
}

/// The raw text of a thread's `/proc/PID/schedstat`: how long it ran and waited, and how often it ran.
/// Reading it costs a fraction of reading `stat`.
type Runs = [u8; 64];

impl StateFile {
    /// Opens the state of a process; none if the process is gone.
    pub(crate) fn open(process: ProcessRef) -> Option<Self> {
        let pid = process.pid;
        // These are the files of the main thread; for the process, the kernel would sum over all threads.
        let stat = open_proc(&format!("/proc/{pid}/task/{pid}/stat"))?;
        let runs = open_proc(&format!("/proc/{pid}/task/{pid}/schedstat"));
        let file = Self { stat, runs, last: Cell::default() };
        // The file was opened by number, so the start time is reliable only now that the file is held.
        file.read().filter(|stat| stat.start_time == process.start_time).map(|_| file)
    }

    /// Whether the process is stopped by a signal or a tracer; none if it is gone.
    ///
    /// A process that ran since the last call is reported as not stopped. If that is wrong, it will not have
    /// run by the next call, which then reads the state.
    pub(crate) fn is_stopped(&self) -> Option<bool> {
        let runs = self.runs();
        match self.last.get() {
            // A thread has to run both to be stopped and to continue.
            (before @ Some(_), Some(is_stopped)) if before == runs => Some(is_stopped),
            (Some(before), _) if runs.is_some_and(|runs| runs != before) => {
                self.last.set((runs, None));
                Some(false)
            }
            _ => {
                let is_stopped = self.read()?.is_stopped;
                self.last.set((runs, Some(is_stopped)));
                Some(is_stopped)
            }
        }
    }

    /// Reads the scheduling counters; none if the kernel does not keep them and reports only zeros.
    fn runs(&self) -> Option<Runs> {
        let mut runs: Runs = [0; 64];
        let n = rustix::io::pread(self.runs.as_ref()?, &mut runs, 0).ok()?;
        (0 < n && !runs.starts_with(b"0 0 0")).then_some(runs)
    }

    fn read(&self) -> Option<Stat> {
        let mut buffer = [0; STAT_BYTES_MAX];
        let n = rustix::io::pread(&self.stat, &mut buffer, 0).ok()?;
        parse_stat(&String::from_utf8_lossy(buffer.get(..n)?))
    }
}

/// Parses the text of a `stat` file. The name in parentheses may contain anything, even parentheses and
/// spaces, so the fields are counted from the last parenthesis.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
    Some(Stat {
        is_zombie: matches!(field(3)?, "Z" | "X"),
        is_stopped: matches!(field(3)?, "T" | "t"),
        is_before_exec: field(9)?.parse::<u32>().ok()? & PF_FORKNOEXEC != 0,
        ppid: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        cpu_ticks: cpu_ticks(field(14)?, field(15)?)?,
        front: field(8)?.parse().ok()?,
        tty: field(7)?.parse().ok()?,
        start_time: field(22)?.parse().ok()?,
    })
}

/// Sums the clock ticks in user and in kernel mode.
fn cpu_ticks(user: &str, kernel: &str) -> Option<u64> {
    user.parse::<u64>().ok()?.checked_add(kernel.parse().ok()?)
}

/// Whether exactly this process is alive.
pub fn is_alive(process: ProcessRef) -> bool {
    stat(process.pid).is_some_and(|stat| stat.start_time == process.start_time && !stat.is_zombie)
}

/// What the command line and the terminal of a process show, whether it is alive or has ended.
pub fn seen(process: ProcessRef, alive: bool) -> ProcessSeen {
    let told = if alive { told(process) } else { None };
    let (kind, forked_from) = told.map_or((None, None), |(kind, forked)| (Some(kind), forked));
    // coord does not resume headless runs.
    let is_interactive = kind == Some(Kind::Interactive);
    let launch = if is_interactive { launch::of(process).map(Box::new) } else { None };
    ProcessSeen { process, alive, kind, is_stopped: false, forked_from, launch }
}

/// Whether the process is interactive or headless (H-24), and the session that it forks; none if its command
/// line is unreadable.
fn told(process: ProcessRef) -> Option<(Kind, Option<String>)> {
    let stat = stat(process.pid).filter(|stat| stat.start_time == process.start_time)?;
    let cmdline = cmdline(process.pid)?;
    let is_elsewhere = writes_to_terminal(process.pid, stat.tty) == Some(false);
    Some((kind_of(&cmdline, stat.tty, is_elsewhere), forked_from(&cmdline)))
}

/// Whether the standard output of a process is a terminal, its own or another one; none if that cannot be
/// read.
fn writes_to_terminal(pid: u32, tty: i64) -> Option<bool> {
    let stdout = rustix::fs::stat(format!("/proc/{pid}/fd/1")).ok()?;
    let is_device = FileType::from_raw_mode(stdout.st_mode) == FileType::CharacterDevice;
    let device = (major(stdout.st_rdev), minor(stdout.st_rdev));
    Some(is_device && (is_terminal(device.0) || Some(device) == device_of(tty)))
}

/// Whether character devices with this major number are terminals: a console, a serial line, `/dev/tty`, or a
/// pseudoterminal. Rarer kinds are recognized only as the process's own terminal.
fn is_terminal(major: u32) -> bool {
    matches!(major, 4 | 5 | 136..=143)
}

/// Splits the terminal number in `/proc/PID/stat`, `mmmMMMmm` in hex digits, into major and minor number.
fn device_of(tty: i64) -> Option<(u32, u32)> {
    let tty = u32::try_from(tty).ok()?;
    Some(((tty >> 8) & 0xfff, (tty & 0xff) | ((tty >> 12) & 0xf_ff00)))
}

/// The name of the terminal with this number in `/proc/PID/stat`, for people.
pub fn terminal_name(tty: i64) -> String {
    match device_of(tty) {
        Some((PTY_MAJOR, minor)) => format!("/dev/pts/{minor}"),
        Some((major, minor)) => format!("{major}:{minor}"),
        None => "unknown".to_owned(),
    }
}

/// The major number of pseudoterminals.
const PTY_MAJOR: u32 = 136;

/// The command line of a process, each word followed by a zero byte; none if it is empty or unreadable.
pub(crate) fn cmdline(pid: u32) -> Option<Vec<u8>> {
    let file = open_proc(&format!("/proc/{pid}/cmdline"))?;
    // Most command lines are short: the first read returns all of it, the second one reports the end.
    let mut cmdline = Vec::with_capacity(4096);
    while cmdline.len() < CMDLINE_BYTES_MAX {
        cmdline.reserve(1);
        match rustix::io::read(&file, spare_capacity(&mut cmdline)) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => (),
            Err(_) => return None,
        }
    }
    cmdline.truncate(CMDLINE_BYTES_MAX);
    (!cmdline.is_empty()).then_some(cmdline)
}

/// The words of a process's command line; none if it is empty or unreadable.
pub fn words(pid: u32) -> Option<Vec<Vec<u8>>> {
    let cmdline = cmdline(pid)?;
    let text = cmdline.strip_suffix(b"\0").unwrap_or(&cmdline);
    Some(text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

/// The file name of a process's program, from its command line; empty if unreadable.
pub fn program(pid: u32) -> String {
    // The path of the program comes first, and its length is bounded.
    let mut buffer = [0; 4096];
    let read = std::fs::File::open(format!("/proc/{pid}/cmdline"))
        .and_then(|mut file| file.read(&mut buffer));
    let text = buffer.get(..read.unwrap_or(0)).unwrap_or_default();
    let path = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Longest part of an environment that is read, in bytes: more than the kernel allows at the start of a
/// program.
const ENVIRONMENT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The environment with which a process was started, each variable followed by a zero byte. Empty if it is
/// unreadable, such as another user's.
pub fn environment(pid: u32) -> Vec<u8> {
    let mut environment = Vec::new();
    let Some(file) = open_proc(&format!("/proc/{pid}/environ")) else { return environment };
    // What was read before an error counts.
    let _ = std::fs::File::from(file).take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment);
    environment
}

/// The client's options, up to `--`.
pub(crate) fn options(cmdline: &[u8]) -> impl Iterator<Item = &[u8]> {
    cmdline.split(|byte| *byte == 0).skip(1).take_while(|word| *word != b"--".as_slice())
}

/// The options that make the client run without a person at its terminal (measured). A `-p` after `--` is a
/// prompt.
const HEADLESS: [&[u8]; 3] = [b"-p", b"--print", b"--init-only"];

/// The kind of run. It is headless with `-p`, without a terminal, or if its output is no terminal (`claude
/// 'prompt' | cat`): the client then behaves as with `-p` (measured).
fn kind_of(cmdline: &[u8], tty: i64, is_elsewhere: bool) -> Kind {
    let mut words = options(cmdline);
    if tty == 0 || is_elsewhere || words.any(|word| HEADLESS.contains(&word)) {
        Kind::Headless
    } else {
        Kind::Interactive
    }
}

/// The id in `--resume ID` together with `--fork-session` (H-42); none if the argument is a name or a search
/// text.
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

/// Opens a pidfd of exactly this process. It becomes readable when the process exits.
///
/// # Errors
/// `NotFound` if the process is gone, or if another process has its pid.
pub fn open_pidfd(process: ProcessRef) -> io::Result<OwnedFd> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => gone(),
        error => error.into(),
    })?;
    // The pidfd was opened by number, so the check is reliable only now that the pidfd is held.
    if is_alive(process) { Ok(fd) } else { Err(gone()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, waitid};
    use std::process::{Command, Stdio};

    fn me() -> ProcessRef {
        let pid = std::process::id();
        ProcessRef { pid, start_time: stat(pid).unwrap().start_time }
    }

    #[test]
    fn names_with_parentheses_do_not_shift_fields() {
        let text = "7 (a) b (c)) S 1 7 9 34816 8 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.ppid, stat.tty, stat.start_time, stat.is_zombie), (1, 34816, 4711, false));
        assert_eq!((stat.group, stat.session, stat.front), (7, 9, 8));
        assert_eq!(parse_stat("7 (x) S 1"), None);
    }

    // R-09: a process with a reused pid is another process.
    #[test]
    fn a_process_is_its_pid_and_its_start_time() {
        let me = me();
        assert!(is_alive(me));
        let other = ProcessRef { start_time: me.start_time + 1, ..me };
        assert!(!is_alive(other));
        assert_eq!(open_pidfd(other).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(open_pidfd(me).is_ok());
    }

    // R-10: that a waiting process was stopped is reported once the stop is complete, with the kernel's
    // scheduling counters and without them.
    #[test]
    fn a_state_is_that_of_one_process_while_it_lives() {
        for has_runs in [true, false] {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let (pid, id) = (child.id(), Pid::from_child(&child));
            let process = ProcessRef { pid, start_time: stat(pid).unwrap().start_time };
            assert!(StateFile::open(ProcessRef { start_time: 1, ..process }).is_none());
            let mut state = StateFile::open(process).unwrap();
            state.runs = state.runs.filter(|_| has_runs);
            let is_told = |signal, wanted, is_stopped| {
                kill_process(id, signal).unwrap();
                waitid(WaitId::Pid(id), wanted).unwrap();
                (0..100_000).any(|_| {
                    std::thread::yield_now();
                    state.is_stopped() == Some(is_stopped)
                })
            };
            let told = [
                is_told(Signal::STOP, WaitIdOptions::STOPPED, true),
                is_told(Signal::CONT, WaitIdOptions::CONTINUED, false),
                is_told(Signal::STOP, WaitIdOptions::STOPPED, true),
            ];
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(told, [true; 3], "{has_runs}");
            assert_eq!(state.is_stopped(), None);
            assert!(StateFile::open(process).is_none());
        }
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
        let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
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
        for (cmdline, tty, is_elsewhere, kind) in [
            (&b"claude\0"[..], 34816, false, Kind::Interactive),
            (b"claude\0-p\0hi\0", 34816, false, Kind::Headless),
            (b"claude\0--print\0hi\0", 34816, false, Kind::Headless),
            (b"claude\0--\0-p\0", 34816, false, Kind::Interactive),
            (b"claude\0", 0, false, Kind::Headless),
            (b"claude\0hi\0", 34816, true, Kind::Headless),
            (b"claude\0--init-only\0", 34816, false, Kind::Headless),
        ] {
            let judged = kind_of(cmdline, tty, is_elsewhere);
            assert_eq!(judged, kind, "{}", String::from_utf8_lossy(cmdline));
        }
    }

    // H-24: outputs connected as a shell does it. Another terminal counts too; `/dev/null` is a device, but
    // no terminal.
    #[test]
    fn output_that_goes_elsewhere_is_seen() {
        let (own, no_terminal) = (34_816, 0);
        let (_reader, pipe) = io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let terminal = std::fs::File::options().write(true).open("/dev/ptmx").unwrap();
        for (stdout, is_there) in [
            (OwnedFd::from(pipe), false),
            (file.into(), false),
            (null.into(), false),
            (terminal.into(), true),
        ] {
            let mut child = cat(stdout.into());
            for tty in [own, no_terminal] {
                assert_eq!(writes_to_terminal(child.id(), tty), Some(is_there));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(
                writes_to_terminal(child.id(), own),
                None,
                "nobody knows of one that is gone"
            );
        }
    }

    fn cat(stdout: Stdio) -> std::process::Child {
        let mut command = Command::new("/bin/cat");
        command.stdin(Stdio::piped()).stdout(stdout).spawn().unwrap()
    }

    // H-24: a terminal of a rarer kind is recognized as the process's own.
    #[test]
    fn a_terminal_s_number_is_taken_apart() {
        assert_eq!(device_of(34_816), Some((136, 0)));
        assert_eq!(device_of(0x0010_88ff), Some((136, 511)));
        let terminals = [4, 5, 136, 143].map(is_terminal);
        let others = [1, 3, 10, 135, 144].map(is_terminal);
        assert_eq!((terminals, others), ([true; 4], [false; 5]));
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
