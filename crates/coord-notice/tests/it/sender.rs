//! Runs the program, and keeps everything that it said.

use coord_tests::process::Running;
use coord_wire::notice::{Channel, Notice, NoticeEvent, SendAct, SendAnswer, SendRequest};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The line of [`notice`].
pub(crate) const LINE: &str = "coord: parser asks to run Bash (work:api.1, 20s)";

/// What the program did.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Sent {
    /// The answer. It agrees with the exit code, and nothing else was said.
    #[track_caller]
    pub(crate) fn answer(&self) -> SendAnswer {
        let answer: SendAnswer = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no answer: {error}: {self:?}"));
        assert_eq!(self.code, Some(i32::from(!answer.is_sent)), "{self:?}");
        assert_eq!((self.stderr.as_str(), self.stdout.matches('\n').count()), ("", 1), "{self:?}");
        answer
    }

    /// The answer to what was sent.
    #[track_caller]
    pub(crate) fn sent(&self) -> SendAnswer {
        let answer = self.answer();
        assert!(answer.is_sent, "{answer:?}");
        answer
    }

    /// The answer to what was not sent.
    #[track_caller]
    pub(crate) fn failed(&self) -> SendAnswer {
        let answer = self.answer();
        assert!(!answer.is_sent, "{answer:?}");
        answer
    }

    /// A text that must be nowhere in what was said.
    #[track_caller]
    pub(crate) fn never_says(&self, secret: &str) -> &Self {
        assert!(!self.stdout.contains(secret) && !self.stderr.contains(secret), "{self:?}");
        self
    }
}

/// A notice of a permission.
pub(crate) fn notice() -> Notice {
    serde_json::from_str(
        r#"{"schema":1,"event":"need","id":"a_4.2","kind":"permission","session":"parser",
        "session_id":"3a408b2c","text":"parser asks to run Bash","directory":"~/src/parser",
        "where":"work:api.1","since":"2026-11-23T14:08:00.000Z","age_s":20,"repeat":0,"host":"dev"}"#,
    )
    .unwrap()
}

/// The end of that need.
pub(crate) fn withdrawal() -> Notice {
    let how = Some("answered at the terminal".to_owned());
    Notice { event: NoticeEvent::Withdrawn, how, ..notice() }
}

/// Tells a notice.
pub(crate) fn tell(notice: Notice, line: &str, handle: Option<&str>) -> SendAct {
    let handle = handle.map(str::to_owned);
    SendAct::Tell { notice: Box::new(notice), line: line.to_owned(), handle }
}

/// A request with so much time that only a deadline under test ends it.
pub(crate) fn request(channel: Channel, act: SendAct) -> SendRequest {
    SendRequest { channel, act, within_ms: 60_000 }
}

/// Runs the program with nothing in its environment.
#[track_caller]
pub(crate) fn send(request: &SendRequest) -> Sent {
    send_with(request, &[])
}

/// Runs the program with these variables alone.
#[track_caller]
pub(crate) fn send_with(request: &SendRequest, variables: &[(&str, &str)]) -> Sent {
    send_bytes(&serde_json::to_vec(request).unwrap(), variables)
}

/// Runs the program with these bytes on its standard input.
#[track_caller]
pub(crate) fn send_bytes(bytes: &[u8], variables: &[(&str, &str)]) -> Sent {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command();
    command.envs(variables.iter().copied()).stdin(Stdio::piped());
    let mut running = Running::start(command, dir.path(), "sender");
    // A program that refuses a request may stop reading.
    let _ = running.take_stdin().unwrap().write_all(bytes);
    let finished = running.finish();
    Sent { code: finished.code(), stdout: finished.stdout, stderr: finished.stderr }
}

/// The program, without any environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coord-notice-send"));
    command.env_clear().current_dir("/");
    command
}

/// A directory that nobody else can enter.
pub(crate) fn directory() -> tempfile::TempDir {
    let permissions = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("coord-").permissions(permissions).tempdir().unwrap()
}

/// A path as a text.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The absolute path of a program of the system.
#[track_caller]
pub(crate) fn program(name: &str) -> String {
    let places = ["/usr/local/bin", "/usr/bin", "/bin"].map(|place| Path::new(place).join(name));
    let found = places.iter().find(|file| file.is_file());
    text(found.unwrap_or_else(|| panic!("{name} is not installed; see tests/run")))
}
