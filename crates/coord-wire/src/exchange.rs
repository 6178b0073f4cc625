//! One small HTTP exchange over the coordinator's socket, shared by hooks and the command line.
//!
//! The exchange never blocks beyond its deadline, not even in `connect` (a full backlog is a miss). It
//! raises no SIGPIPE, talks only to a coordinator of the same user and pid namespace (H-15), and
//! resolves no names.

use crate::peer::Peer;
use crate::socket;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketAddrUnix, connect, recv};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::Duration;

/// Why there was no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// Nobody listens at the socket.
    Absent,
    /// A listener did not answer in time (H-37).
    Late,
    /// The listener belongs to another user, or is in another pid namespace.
    Foreign,
    /// The answer was no HTTP answer, or was too long.
    Broken,
}

impl core::fmt::Display for Miss {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Absent => "no coordinator listens",
            Self::Late => "the coordinator did not answer in time",
            Self::Foreign => "the socket belongs to another user or pid namespace",
            Self::Broken => "the coordinator's answer was cut or malformed",
        })
    }
}

impl core::error::Error for Miss {}

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The HTTP status of a refusal.
pub const FORBIDDEN: u16 = 403;

/// The error code for a process that the coordinator cannot see, because it is in another pid namespace.
pub const ELSEWHERE: &str = "elsewhere";

/// The time on CLOCK_MONOTONIC, in nanoseconds: the time for which the machine was awake since its boot.
pub fn mono_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// Sends `request` (head and body in one piece) and reads one answer of at most `bytes_max`.
///
/// `deadline_ns` is on the clock of [`mono_ns`].
pub fn exchange(
    socket: &Path,
    request: &[u8],
    bytes_max: usize,
    deadline_ns: u64,
) -> Result<Answer, Miss> {
    let stream = begin(socket, request, deadline_ns)?;
    match read_answer(&stream, bytes_max, deadline_ns)? {
        // The coordinator does not see this process.
        Answer { status: FORBIDDEN, body } if says_elsewhere(&body) => Err(Miss::Foreign),
        answer => Ok(answer),
    }
}

/// Sends `request`, and leaves the answer to the caller: read it from the non-blocking stream, until
/// [`whole_answer`] has it.
pub fn begin(path: &Path, request: &[u8], deadline_ns: u64) -> Result<OwnedFd, Miss> {
    let stream = open(path)?;
    let mut rest = request;
    while !rest.is_empty() {
        match socket::send(&stream, rest) {
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => wait(&stream, PollFlags::OUT, deadline_ns)?,
            Err(_) => return Err(Miss::Broken),
        }
    }
    Ok(stream)
}

/// Whether an error has the code [`ELSEWHERE`]. The code cannot occur in a message, whose quotes are
/// escaped.
fn says_elsewhere(body: &[u8]) -> bool {
    let code = ["\"code\":\"", ELSEWHERE, "\""].concat();
    body.windows(code.len()).any(|window| window == code.as_bytes())
}

/// The pid of the coordinator that listens at `socket`, even if it does not answer.
pub fn listener_pid(socket: &Path) -> Result<u32, Miss> {
    let stream = open(socket)?;
    let pid = Peer::of(&stream).map_err(|_| Miss::Foreign)?.pid;
    // Without an exchange, the listener cannot report that it does not see this process.
    let theirs = namespace(&format!("/proc/{pid}/ns/pid"));
    if theirs.is_some() && theirs == pid_namespace() { Ok(pid) } else { Err(Miss::Foreign) }
}

/// Builds a request with a body for [`exchange`].
pub fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: coord\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut out = head.into_bytes();
    out.extend_from_slice(body);
    out
}

/// Connects without blocking, and checks the listener.
fn open(path: &Path) -> Result<OwnedFd, Miss> {
    let address = SocketAddrUnix::new(path).map_err(|_| Miss::Absent)?;
    let stream = socket::new().map_err(|_| Miss::Absent)?;
    match connect(&stream, &address) {
        Ok(()) => (),
        // A Unix socket reports AGAIN when the backlog is full: a listener exists, but does not accept.
        Err(Errno::AGAIN | Errno::INPROGRESS) => return Err(Miss::Late),
        Err(_) => return Err(Miss::Absent),
    }
    if is_ours(&stream) { Ok(stream) } else { Err(Miss::Foreign) }
}

/// Whether the listener belongs to this user and is visible from here. The listener answers only
/// processes that it sees, and two processes that see each other share their pid namespace (H-15).
fn is_ours(stream: &OwnedFd) -> bool {
    let euid = rustix::process::geteuid().as_raw();
    Peer::of(stream).is_ok_and(|peer| peer.uid == euid && peer.pid != 0)
}

/// Inode number of this process's pid namespace.
pub fn pid_namespace() -> Option<u64> {
    namespace("/proc/self/ns/pid")
}

/// Inode number of the namespace that an entry of `/proc/PID/ns` represents.
pub fn namespace(path: &str) -> Option<u64> {
    // The text of the link, `pid:[4026531836]`, costs half as much as creating its inode for `stat`.
    let mut rest = [core::mem::MaybeUninit::uninit(); 32];
    let (text, _) = rustix::fs::readlinkat_raw(rustix::fs::CWD, path, &mut rest).ok()?;
    let digits = text.strip_prefix(b"pid:[")?.strip_suffix(b"]")?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

fn wait(stream: &OwnedFd, flags: PollFlags, deadline_ns: u64) -> Result<(), Miss> {
    loop {
        let left = deadline_ns.saturating_sub(mono_ns());
        if left == 0 {
            return Err(Miss::Late);
        }
        let timeout = Timespec::try_from(Duration::from_nanos(left)).map_err(|_| Miss::Late)?;
        match poll(&mut [PollFd::new(stream, flags)], Some(&timeout)) {
            Ok(0) => return Err(Miss::Late),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => (),
            Err(_) => return Err(Miss::Broken),
        }
    }
}

fn read_answer(stream: &OwnedFd, bytes_max: usize, deadline_ns: u64) -> Result<Answer, Miss> {
    let mut bytes = Vec::with_capacity(512);
    loop {
        // The answer is rarely there at once, so waiting first saves a read.
        wait(stream, PollFlags::IN, deadline_ns)?;
        bytes.reserve(512);
        match recv(stream, spare_capacity(&mut bytes), RecvFlags::empty()) {
            Ok((_, 0)) => return Err(Miss::Broken),
            Ok(_) => (),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => return Err(Miss::Broken),
        }
        if let Some(answer) = whole_answer(&bytes, bytes_max)? {
            return Ok(answer);
        }
    }
}

/// Parses the answer, once it is complete. Answers have a Content-Length, and are never chunked.
pub fn whole_answer(bytes: &[u8], bytes_max: usize) -> Result<Option<Answer>, Miss> {
    let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        let too_long = crate::limits::HEAD_BYTES_MAX < bytes.len();
        return if too_long { Err(Miss::Broken) } else { Ok(None) };
    };
    let head = core::str::from_utf8(&bytes[..head_end]).map_err(|_| Miss::Broken)?;
    let status = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|digits| digits.parse().ok())
        .ok_or(Miss::Broken)?;
    let length = head
        .split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, value)| value.trim().parse::<usize>())
        .map_err(|_| Miss::Broken)?;
    if bytes_max < length {
        return Err(Miss::Broken);
    }
    let body = bytes.get(head_end + 4..).unwrap_or_default();
    Ok(body.get(..length).map(|body| Answer { status, body: body.to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    fn soon() -> u64 {
        mono_ns() + 200_000_000
    }

    fn served(name: &str, answer: &'static [u8]) -> Result<Answer, Miss> {
        let dir =
            std::env::temp_dir().join(format!("coord-exchange-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let n = stream.read(&mut request).unwrap();
            assert!(request[..n].ends_with(b"\r\n\r\nbody"));
            stream.write_all(answer).unwrap();
        });
        let result = exchange(&path, &request("POST", "/v1/x", b"body"), 100, soon());
        server.join().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        result
    }

    #[test]
    fn an_answer_is_read_by_its_length() {
        let answer = served("ok", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        assert_eq!(answer, Answer { status: 200, body: b"hi".to_vec() });
        let answer = served("none", b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        assert_eq!(answer, Answer { status: 204, body: Vec::new() });
    }

    #[test]
    fn half_answers_and_long_ones_are_broken() {
        for (name, bad) in [
            ("half", &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"[..]),
            ("long", b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n"),
            ("noise", b"hello\r\n\r\n"),
            ("empty", b""),
        ] {
            assert_eq!(served(name, bad), Err(Miss::Broken), "{name}");
        }
    }

    #[test]
    fn silence_is_late_and_a_missing_socket_absent() {
        let dir = std::env::temp_dir().join(format!("coord-exchange-{}-hung", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("s");
        assert_eq!(exchange(&path, b"x", 10, soon()), Err(Miss::Absent));
        let _hung = UnixListener::bind(&path).unwrap();
        assert_eq!(exchange(&path, b"x", 10, soon()), Err(Miss::Late));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
