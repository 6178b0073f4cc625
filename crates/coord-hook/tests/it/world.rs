//! A root of its own for one test, a coordinator of a few lines, and a way to run a hook.
#![expect(clippy::unwrap_used, reason = "a test fails where its ground is missing")]

use coord_model::envelope::Envelope;
use coord_wire::frame::{Frame, Frames};
use coord_wire::paths::{Paths, machine_id};
use coord_wire::spool::{CURRENT, HEADER_BYTES, SOLO_PREFIX};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

pub(crate) const SESSION_START: &str = env!("CARGO_BIN_EXE_coord-hook-session-start");
pub(crate) const POST_TOOL_USE: &str = env!("CARGO_BIN_EXE_coord-hook-post-tool-use");
pub(crate) const STOP: &str = env!("CARGO_BIN_EXE_coord-hook-stop");
pub(crate) const EVENT: &str = env!("CARGO_BIN_EXE_coord-hook-event");
pub(crate) const STATUS_LINE: &str = env!("CARGO_BIN_EXE_coord-hook-statusline");
pub(crate) const HOOKS: [&str; 4] = [SESSION_START, POST_TOOL_USE, STOP, EVENT];

pub(crate) const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// A root with the directories that an installation makes.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) paths: Paths,
    pub(crate) machine: String,
}

/// What a hook did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Exit 0 and not a word.
    #[track_caller]
    pub(crate) fn assert_silent(&self) {
        let silent = Self { code: Some(0), stdout: String::new(), stderr: String::new() };
        assert_eq!(*self, silent);
    }
}

impl Ended {
    /// Exit 1 and one line that says why.
    #[track_caller]
    pub(crate) fn assert_lost(&self, why: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""));
        assert!(self.stderr.contains(why) && self.stderr.lines().count() == 1, "{}", self.stderr);
    }
}

/// How the coordinator of a test behaves.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Text(&'static str),
    /// Takes the request and never answers.
    Never,
    /// Never even accepts.
    Deaf,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string("/etc/machine-id").ok();
        let uname = rustix::system::uname();
        let machine = machine_id(text.as_deref(), uname.nodename().to_str().unwrap());
        let uid = rustix::process::geteuid().as_raw();
        let paths = Paths::resolve(Some(dir.path()), &machine, uid, |_| None).unwrap();
        for made in [&paths.state, &paths.run] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(made).unwrap();
        }
        std::fs::write(paths.digest_key(), b"0123456789abcdef").unwrap();
        Self { dir, paths, machine }
    }

    /// A hook of this root, with an empty environment.
    pub(crate) fn command(&self, hook: &str) -> Command {
        let mut command = self.bare_command(hook);
        command.args(self.arguments());
        command
    }

    /// The arguments of a hook of this root, as `coord install` writes them.
    pub(crate) fn arguments(&self) -> [OsString; 8] {
        let Paths { config, state_base, run, .. } = &self.paths;
        let [root, config, state, run] =
            [self.dir.path(), config, state_base, run].map(|path| path.as_os_str().to_owned());
        let names = ["--root", "--config", "--state", "--run"].map(OsString::from);
        let [of_root, of_config, of_state, of_run] = names;
        [of_root, root, of_config, config, of_state, state, of_run, run]
    }

    pub(crate) fn bare_command(&self, hook: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(hook);
        command.env_clear().env("HOME", self.dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, hook: &str, payload: impl AsRef<[u8]>) -> Ended {
        run(&mut self.command(hook), payload)
    }

    /// Starts a coordinator; what it was sent can be received.
    pub(crate) fn coordinator(&self, answer: Answer) -> Receiver<Vec<u8>> {
        let listener = UnixListener::bind(self.paths.socket()).unwrap();
        let (sender, receiver) = channel();
        std::thread::spawn(move || serve(&listener, answer, &sender));
        receiver
    }

    /// The payloads of all records of the spool, in the order of their files.
    pub(crate) fn spooled(&self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for (name, bytes) in self.spool_files() {
            let from = if name == CURRENT || name.starts_with("drain-") {
                HEADER_BYTES
            } else if name.starts_with(SOLO_PREFIX) {
                0
            } else {
                continue;
            };
            out.extend(records(&bytes, from));
        }
        out
    }

    pub(crate) fn spool_files(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = std::fs::read_dir(self.paths.spool()) else { return Vec::new() };
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().unwrap().is_file())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    /// The records of `malformed` or `crashes`.
    pub(crate) fn diagnoses(&self, name: &str) -> Vec<String> {
        let bytes = std::fs::read(self.paths.spool().join(name)).unwrap_or_default();
        records(&bytes, HEADER_BYTES)
            .into_iter()
            .map(|text| String::from_utf8(text).unwrap())
            .collect()
    }

    /// A counter of the header of `current`.
    pub(crate) fn counter(&self, at: u64) -> u64 {
        let bytes = std::fs::read(self.paths.spool().join(CURRENT)).unwrap();
        let at = usize::try_from(at).unwrap();
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    pub(crate) fn make_spool(&self) {
        std::fs::DirBuilder::new().mode(0o700).create(self.paths.spool()).unwrap();
    }
}

/// Runs a hook to its end.
pub(crate) fn run(command: &mut Command, payload: impl AsRef<[u8]>) -> Ended {
    let mut child = command.spawn().unwrap();
    // A hook may end without having read all of it.
    let _ended_early = child.stdin.take().unwrap().write_all(payload.as_ref());
    ended(child)
}

pub(crate) fn ended(child: std::process::Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The one envelope among these bytes.
#[track_caller]
pub(crate) fn envelope(bodies: &[Vec<u8>]) -> Envelope {
    assert_eq!(bodies.len(), 1, "{:?}", bodies.iter().map(|b| String::from_utf8_lossy(b)));
    Envelope::parse(&bodies[0]).unwrap()
}

pub(crate) fn records(bytes: &[u8], from: usize) -> Vec<Vec<u8>> {
    Frames::new(bytes, from)
        .filter_map(|frame| match frame {
            Frame::Record { payload, .. } => Some(payload.to_vec()),
            Frame::Damaged { .. } | Frame::Torn { .. } => None,
        })
        .collect()
}

fn serve(listener: &UnixListener, answer: Answer, bodies: &Sender<Vec<u8>>) {
    if matches!(answer, Answer::Deaf) {
        // Fills its own backlog and then keeps everything open for as long as the test runs.
        loop {
            std::thread::park();
        }
    }
    let mut kept_open = Vec::new();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let Some(body) = request_body(&mut stream) else { continue };
        // The test may have seen enough.
        let _test_is_over = bodies.send(body);
        match answer {
            Answer::Text(text) => {
                let _hook_is_gone = stream.write_all(text.as_bytes());
            }
            Answer::Never | Answer::Deaf => kept_open.push(stream),
        }
    }
}

pub(crate) fn request_body(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        if let Some(head_end) = bytes.windows(4).position(|w: &[u8]| w == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
            let paths = ["/v1/events", "/v1/wake"];
            let is_for = |path: &&str| head.starts_with(&format!("POST {path} HTTP/1.1\r\n"));
            assert!(paths.iter().any(is_for), "{head}");
            let length = head.split("Content-Length: ").nth(1).unwrap();
            let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
            if let Some(body) = bytes.get(head_end + 4..head_end + 4 + length) {
                return Some(body.to_vec());
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

pub(crate) fn payload_of(event: &str) -> String {
    format!(r#"{{"session_id":"s-1","hook_event_name":"{event}","cwd":"/x"}}"#)
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
