//! What the tests say to a coordinator: envelopes as hooks write them, and requests byte by byte.

use coord_host::here::Here;
use coord_host::process::stat;
use coord_model::stamp::rfc3339;
use coord_store::now;
use coord_tests::coord::programs;
use coord_tests::home::Home;
use coord_tests::process::copy_program;
use coord_tests::wait::PATIENCE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// An answer: status and body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless the status is this one; errors have their one form.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        if 400 <= status {
            let error = self.json();
            for field in ["code", "message"] {
                assert!(error["error"][field].as_str().is_some_and(|text| !text.is_empty()));
            }
        }
        self
    }
}

/// A connection to the coordinator.
pub(crate) struct Wire {
    stream: UnixStream,
    read: Vec<u8>,
}

impl Wire {
    #[track_caller]
    pub(crate) fn open(home: &Home) -> Self {
        let stream = UnixStream::connect(home.paths().socket()).expect("the socket takes us");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Sends bytes; a coordinator that has heard enough may have closed already.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _closed = self.stream.write_all(bytes.as_ref());
        self
    }

    /// The next answer on this connection; none when it was closed instead.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(answer) = self.whole() {
                return Some(answer);
            }
            if !self.receives() {
                return None;
            }
        }
    }

    /// The head of the next answer, which stays to be read.
    #[track_caller]
    pub(crate) fn head(&mut self) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.read);
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                return format!("{head}\r\n");
            }
            assert!(self.receives(), "an answer, not a closed connection");
        }
    }

    /// Whether more came, not the connection's end.
    #[track_caller]
    fn receives(&mut self) -> bool {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(n) => {
                self.read.extend_from_slice(&buffer[..n]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    fn whole(&mut self) -> Option<Answer> {
        let head_end = self.read.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(self.read[..head_end].to_vec()).unwrap();
        let length = head.split("Content-Length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        let body = self.read.get(head_end + 4..head_end + 4 + length)?;
        let body = String::from_utf8(body.to_vec()).unwrap();
        self.read.drain(..head_end + 4 + length);
        let status = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
        Some(Answer { status, body })
    }
}

/// The bytes of a request that keeps its connection.
pub(crate) fn request(method: &str, path: &str, body: &str) -> String {
    let n = body.len();
    format!("{method} {path} HTTP/1.1\r\nHost: coord\r\nContent-Length: {n}\r\n\r\n{body}")
}

/// One request on a connection of its own.
#[track_caller]
pub(crate) fn ask(home: &Home, method: &str, path: &str, body: &str) -> Answer {
    let mut wire = Wire::open(home);
    wire.send(request(method, path, body)).answer().expect("an answer, not a closed connection")
}

/// Posts an event; it must be taken.
#[track_caller]
pub(crate) fn post(home: &Home, event: &Value) {
    ask(home, "POST", "/v1/events", &event.to_string()).expect(204);
}

/// Where this test runs.
pub(crate) fn here() -> Here {
    Here::read(now().wall_ms)
}

/// The `n`-th event of a session, without a harness. Stamps follow `n`, whatever the order in which
/// events are made.
pub(crate) fn event(session: &str, name: &str, n: u32) -> Value {
    // An id begins with its time, to the millisecond; one session and number are one event.
    static BEGAN: OnceLock<u64> = OnceLock::new();
    let began_ms = BEGAN.get_or_init(|| now().wall_ms);
    let here = here();
    let hash = coord_wire::frame::crc32_plain(&[session.as_bytes()]);
    json!({
        "v": 1, "id": format!("{began_ms:012x}{hash:08x}{n:012x}"), "event": name, "session_id": session,
        "emitted_at": rfc3339(now().wall_ms), "mono_ns": u64::from(n) * 1_000_000,
        "boot": here.boot, "host": here.host, "machine": here.machine, "pid": 1,
        "cwd": "/home/dev/project",
    })
}

/// The same of a client that lives, so that something is behind what it tells (H-44): each session has one.
/// The hooks are none of its children.
pub(crate) fn client_event(session: &str, name: &str, n: u32) -> Value {
    with(event(session, name, n), json!({"harness": stand_in(session)}))
}

/// A process with the program of a client, which ends with these tests: the harness part of an envelope.
fn stand_in(session: &str) -> Value {
    static CLIENTS: Mutex<BTreeMap<String, Child>> = Mutex::new(BTreeMap::new());
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        // By its place it is a client (H-46).
        let dir = programs().join("claude/versions");
        fs::create_dir_all(&dir).unwrap();
        let (program, new) = (dir.join("cat"), dir.join(format!("cat-{}", std::process::id())));
        if !program.is_file() {
            copy_program("/bin/cat".as_ref(), &new);
            fs::rename(new, &program).unwrap();
        }
        program
    });
    let mut clients = CLIENTS.lock().unwrap();
    let client = clients.entry(session.to_owned()).or_insert_with(|| {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().unwrap()
    });
    let pid = client.id();
    let start_time = stat(pid).unwrap().start_time.to_string();
    json!({"pid": pid, "start_time": start_time, "pid_ns": here().pid_ns, "tty": 0})
}

/// The same event with further fields.
pub(crate) fn with(mut event: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    event.as_object_mut().unwrap().extend(fields);
    event
}
