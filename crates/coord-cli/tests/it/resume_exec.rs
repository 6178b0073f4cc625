//! `resume-exec NONCE` against a coordinator that gives a fixed answer: what it becomes, and when it
//! refuses. The client is a script that writes down what it was given.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_host::process;
use coord_model::Place;
use coord_tests::coord::programs;
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running, run};
use coord_tests::wait::wait_until;
use coord_wire::api::ResumeOrder;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const NONCE: &str = "0123456789abcdef0123456789abcdef";
/// Writes down its words, its environment and its state, and says last that it has.
const CLIENT: &str = r#"out=$(dirname "$0")/given
mkdir "$out"
for word; do printf '%s\n' "$word"; done >"$out/words"
env -0 >"$out/env"
pwd -P >"$out/cwd"
# Not by a program: a shell blocks all signals for the moment in which it starts one.
while IFS= read -r line; do printf '%s\n' "$line"; done </proc/$$/status >"$out/status"
stty -a </dev/tty >"$out/stty" 2>/dev/null
echo $$ >"$out/pid"
if [ -n "$STAY" ]; then cat; fi
"#;

/// What a coordinator was asked: path and body.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A home with a session's directory and its client.
struct Case {
    home: Home,
    /// Of this case alone: a client of another case that runs meanwhile is no owner of it.
    session: String,
    asked: Asked,
}

impl Case {
    fn new() -> Self {
        static CASES: AtomicU32 = AtomicU32::new(0);
        let home = Home::new();
        fs::write(home.dir().join("client"), CLIENT).unwrap();
        let number = CASES.fetch_add(1, Ordering::Relaxed);
        let session = format!("{number:08x}-b0ac-40c5-9e5e-{:012x}", std::process::id());
        Self { home, session, asked: Asked::default() }
    }

    /// The order that fits.
    fn order(&self) -> ResumeOrder {
        let project = fs::canonicalize(self.home.project()).unwrap();
        let seen = fs::metadata(&project).unwrap();
        let client = self.home.dir().join("client").display().to_string();
        let words = ["/bin/sh", &client, "--add-dir", "/a b", "--resume", &self.session];
        ResumeOrder {
            session_id: self.session.clone(),
            argv: words.map(str::to_owned).to_vec(),
            cwd: Place {
                path: project.display().to_string(),
                device: seen.dev(),
                inode: seen.ino(),
            },
            config_dir: Some(self.home.config_dir().display().to_string()),
            config_dir_in_use: self.home.config_dir().display().to_string(),
            variables: vec!["ANTHROPIC_API_KEY".to_owned(), "CLAUDE_CONFIG_DIR".to_owned()],
        }
    }

    /// A coordinator that answers every claim so.
    fn coordinator(&self, status: u16, answer: &impl serde::Serialize) {
        let socket = self.home.paths().socket();
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let (asked, answer) = (Arc::clone(&self.asked), serde_json::to_string(answer).unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let request = read_request(stream.as_ref().unwrap());
                let is_claim = !request.0.ends_with("/failed");
                asked.lock().unwrap().push(request);
                let (status, body) = if is_claim { (status, &*answer) } else { (204, "") };
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}", body.len());
                write!(stream.unwrap(), "{head}\r\n\r\n{body}").unwrap();
            }
        });
    }

    /// Runs it behind `before`, in a shell's environment with the marks of a session.
    fn command(&self, before: &[&str], nonce: &str) -> Command {
        let coord = programs().join("coordctl").display().to_string();
        let root = self.home.root().display().to_string();
        let words = [before, &[&coord, "--root", &root, "resume-exec", nonce]].concat();
        let mut command = self.home.command(words[0]);
        command.args(&words[1..]).current_dir(self.home.dir()).stdin(Stdio::null());
        command.env("ANTHROPIC_API_KEY", "sk-a").env("ANTHROPIC_MODEL", "other").env("KEPT", "k");
        command.env("AWS_PROFILE", "other").env("https_proxy", "other");
        for mark in ["CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_MESSAGING_TOKEN"] {
            command.env(mark, "1");
        }
        command.env("CLAUDE_CODE_TMPDIR", "/tmp").env("CLAUDE_PID", "1");
        command
    }

    #[track_caller]
    fn run(&self) -> Finished {
        run(self.command(&[], NONCE), &self.home.tmp(), "resume")
    }

    fn given(&self, name: &str) -> String {
        fs::read_to_string(self.home.dir().join("given").join(name)).unwrap()
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    /// Refused after the claim: said here and to the coordinator, and no client was started.
    #[track_caller]
    fn expect_refused(&self, named: &str) {
        let finished = self.run();
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        assert!(finished.stderr.contains(named), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
        let asked = self.asked();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert_eq!(asked[1].0, format!("/v1/resume/{NONCE}/failed"));
        assert!(asked[1].1["why"].as_str().unwrap().contains(named), "{asked:?}");
        assert!(!self.home.dir().join("given").exists());
    }
}

fn read_request(stream: &UnixStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut path, mut length) = (String::new(), 0);
    for line in reader.by_ref().lines() {
        let line = line.unwrap();
        if let Some(rest) = line.strip_prefix("POST ") {
            rest.split(' ').next().unwrap().clone_into(&mut path);
        } else if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.parse().unwrap();
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (path, serde_json::from_slice(&body).unwrap())
}

// S0-25a, S0-25d, H-18: the same words, directory and account, and no mark of a session.
#[test]
fn it_becomes_the_client() {
    let case = Case::new();
    case.coordinator(200, &case.order());
    let signals = ["env", "--ignore-signal=HUP,INT,PIPE", "--block-signal=USR1,TERM"];
    let started = Running::start(case.command(&signals, NONCE), &case.home.tmp(), "resume");
    let pid = started.pid();
    started.finish().expect_success();

    assert_eq!(case.given("words"), format!("--add-dir\n/a b\n--resume\n{}\n", case.session));
    assert_eq!(case.given("cwd").trim(), case.order().cwd.path);
    let env = case.given("env");
    let value = |name: &str| {
        env.split('\0')
            .find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
            .map(str::to_owned)
    };
    assert_eq!(value("ANTHROPIC_API_KEY").as_deref(), Some("sk-a"));
    assert_eq!(value("CLAUDE_CONFIG_DIR"), case.order().config_dir);
    assert_eq!(value("PWD"), Some(case.order().cwd.path));
    assert_eq!(value("KEPT").as_deref(), Some("k"));
    assert_eq!(value("CLAUDE_CODE_TMPDIR").as_deref(), Some("/tmp"));
    for gone in [
        "ANTHROPIC_MODEL",
        "AWS_PROFILE",
        "https_proxy",
        "CLAUDECODE",
        "CLAUDE_PID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_MESSAGING_TOKEN",
    ] {
        assert_eq!(value(gone), None, "{gone}");
    }
    let status = case.given("status");
    for field in ["SigIgn:", "SigBlk:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        let set = u64::from_str_radix(line.trim(), 16).unwrap();
        // The C library keeps the signals 32 and 33 to itself.
        assert_eq!(set & !(0b11 << 31), 0, "{field} {line}");
    }
    // H-33: the process that claimed the resume is the client.
    assert_eq!(case.given("pid").trim(), pid.to_string());
    let asked = case.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].0, format!("/v1/resume/{NONCE}"));
    assert_eq!(asked[0].1["pid"], json!(pid));
    assert!(asked[0].1["start_time"].as_u64().is_some_and(|ticks| 0 < ticks));
}

// H-18: without a configuration directory of its own the session had none set.
#[test]
fn an_inherited_configuration_directory_is_removed() {
    let case = Case::new();
    let variables = vec!["ANTHROPIC_API_KEY".to_owned()];
    case.coordinator(200, &ResumeOrder { config_dir: None, variables, ..case.order() });
    let mut command = case.command(&[], NONCE);
    command.env("CLAUDE_CONFIG_DIR", "/other");
    run(command, &case.home.tmp(), "resume").expect_success();
    assert!(!case.given("env").contains("CLAUDE_CONFIG_DIR="));
}

// H-18: with a variable of its account missing the session would talk to another one.
#[test]
fn a_missing_variable_is_named() {
    let case = Case::new();
    let variables = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"].map(str::to_owned).to_vec();
    case.coordinator(200, &ResumeOrder { variables, ..case.order() });
    case.expect_refused("ANTHROPIC_BASE_URL");
}

// H-18: a directory of the same name is not the session's.
#[test]
fn another_directory_is_refused() {
    let case = Case::new();
    case.coordinator(200, &case.order());
    fs::rename(case.home.project(), case.home.dir().join("moved")).unwrap();
    fs::create_dir(case.home.project()).unwrap();
    case.expect_refused("not the directory that the session worked in");
}

// H-18
#[test]
fn a_directory_that_is_gone_is_refused() {
    let case = Case::new();
    case.coordinator(200, &case.order());
    fs::rename(case.home.project(), case.home.dir().join("moved")).unwrap();
    case.expect_refused("the session's directory");
}

// H-19: the program is the recorded one, and not one of that name in the PATH.
#[test]
fn a_program_without_its_path_is_refused() {
    let case = Case::new();
    let argv = vec!["sh".to_owned()];
    case.coordinator(200, &ResumeOrder { argv, ..case.order() });
    case.expect_refused("absolute path");
}

// S0-25a
#[test]
fn a_program_that_is_gone_is_told() {
    let case = Case::new();
    let argv = vec![case.home.dir().join("none").display().to_string()];
    case.coordinator(200, &ResumeOrder { argv, ..case.order() });
    case.expect_refused("/none");
}

// H-13: a client that was started with the session holds it.
#[test]
fn an_owner_by_command_line_is_respected() {
    for words in [&["--resume", "ID"][..], &["--session-id=ID"]] {
        let case = Case::new();
        case.coordinator(200, &case.order());
        let words: Vec<String> =
            words.iter().map(|word| word.replace("ID", &case.session)).collect();
        let _owner = owner(&case.home, &words);
        case.expect_refused("another client");
    }
}

// H-13: a client that came to the session later says so in the registry.
#[test]
fn an_owner_by_registry_is_respected() {
    let case = Case::new();
    case.coordinator(200, &case.order());
    let owner = owner(&case.home, &[]);
    let start = process::stat(owner.pid()).unwrap().start_time.to_string();
    let entry = json!({"pid": owner.pid(), "procStart": start, "sessionId": case.session, "status": "idle"});
    let sessions = case.home.config_dir().join("sessions");
    fs::create_dir_all(&sessions).unwrap();
    fs::write(sessions.join(format!("{}.json", owner.pid())), entry.to_string()).unwrap();
    case.expect_refused("another client");
}

/// A living process with these words.
fn owner(home: &Home, words: &[String]) -> Running {
    let script = home.dir().join("owner");
    fs::write(&script, "echo ready; cat; :\n").unwrap();
    let mut command = home.command("/bin/sh");
    command.arg(script).args(words).stdin(Stdio::piped());
    let owner = Running::start(command, &home.tmp(), "owner");
    wait_until("the owner runs", || {
        let [stdout, _] = owner.output();
        if stdout.contains("ready") { Ok(()) } else { Err(stdout) }
    });
    owner
}

// S0-25a: a nonce that is no longer good starts nothing, and is not told a second time.
#[test]
fn a_refused_nonce_is_said_in_one_line() {
    let case = Case::new();
    case.coordinator(
        409,
        &json!({"error": {"code": "void", "message": "no longer\u{1b}[2J good"}}),
    );
    let finished = case.run();
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("no longer\u{fffd}[2J good"), "{finished:?}");
    assert_eq!((finished.stderr.lines().count(), case.asked().len()), (1, 1), "{finished:?}");
}

#[test]
fn an_order_that_cannot_be_read_is_refused() {
    let case = Case::new();
    case.coordinator(200, &json!({"session_id": case.session}));
    let finished = case.run();
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("order"), "{finished:?}");
}

#[test]
fn a_coordinator_that_is_away_is_said_in_one_line() {
    let case = Case::new();
    let finished = case.run();
    assert_eq!(finished.status.code(), Some(4), "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
}

// H-18: nothing but a nonce reaches the coordinator.
#[test]
fn what_is_no_nonce_is_not_asked_for() {
    let case = Case::new();
    case.coordinator(200, &case.order());
    for nonce in ["", "../down", &NONCE[1..], &NONCE.to_uppercase()] {
        let finished = run(case.command(&[], nonce), &case.home.tmp(), "resume");
        assert_eq!(finished.status.code(), Some(2), "{nonce:?}: {finished:?}");
    }
    assert_eq!(case.asked(), []);
}

/// A tmux server of this test alone.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    #[track_caller]
    fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words).env_remove("TMUX");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let socket: &Path = &self.socket;
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").status();
    }
}

// H-18: alternate screen, mouse and paste modes off, lines edited again, and nothing of the screen
// is lost.
#[test]
fn the_terminal_of_a_crashed_client_is_put_right() {
    let case = Case::new();
    case.coordinator(200, &case.order());
    let coord = programs().join("coordctl").display().to_string();
    let root = case.home.root().display().to_string();
    let left_on = r"\033[?1049h\033[?1000h\033[?1006h\033[?1h\033[?25l\033[4l\033[3;9r\033[>1u";
    let line = format!(
        "echo before; printf '{left_on}'; stty raw -echo; exec {coord} --root {root} resume-exec {NONCE}"
    );
    let tmux = Tmux { socket: case.home.tmp().join("tmux") };
    let head = ["-f", "/dev/null", "new-session", "-d", "-e", "STAY=1", "-e"];
    tmux.ask(&[&head[..], &["ANTHROPIC_API_KEY=sk-a", "--", "/bin/sh", "-c", &line]].concat());
    wait_until("the client runs", || {
        let pid = case.home.dir().join("given/pid");
        if fs::read_to_string(pid).is_ok_and(|pid| pid.ends_with('\n')) {
            Ok(())
        } else {
            Err(tmux.ask(&["capture-pane", "-p"]))
        }
    });
    let modes = "#{alternate_on} #{mouse_any_flag} #{keypad_cursor_flag} #{cursor_flag} \
                 #{scroll_region_upper}";
    assert_eq!(tmux.ask(&["display-message", "-p", modes]), "0 0 0 1 0\n");
    let stty = case.given("stty");
    let words: Vec<&str> = stty.split([' ', ';', '\n']).collect();
    for on in ["icanon", "echo", "isig", "icrnl", "opost", "onlcr", "ixon"] {
        assert!(words.contains(&on), "{on}: {stty}");
    }
    assert!(tmux.ask(&["capture-pane", "-p", "-S", "-"]).contains("before"));
}
