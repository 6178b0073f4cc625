//! Tests the executor against real tmux servers, shells and processes. Each test has a directory of its
//! own and ends what it started. The client is a script that paints a client's screen.

mod acts;
mod looks;
mod surroundings;

use std::fs::{Permissions, set_permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use coord_model::{
    Input, PaneProof, PaneState, Place, ProcessRef, Proof, Screen, Subject, TmuxPane,
    TranscriptState,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use tempfile::TempDir;

use super::look::Look;
use super::{Tools, Transcripts};
use crate::process;
use crate::registry::Readable;
use crate::tmux::Asker;

const PROMPT: &str = "dev$ ";
/// Number of worlds created in this process.
static WORLDS: AtomicU32 = AtomicU32::new(0);
/// Longest wait of a test: a machine under load is slow, not wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tmux server with one pane, a shell in it, and a session's files.
struct World {
    dir: TempDir,
    /// A session id of its own, because the processes of other tests are seen too.
    session: String,
    server: ProcessRef,
    tools: Tools,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        for name in ["sessions", "projects/p", "work"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let session = format!("53a98082-709f-4d17-{number:04x}-{:012x}", std::process::id());
        let turn = format!("{{\"type\":\"user\",\"sessionId\":\"{session}\"}}\n");
        std::fs::write(dir.path().join("projects/p/s.jsonl"), turn).unwrap();
        let readable = Readable::default();
        let mut asker = Asker::new(Vec::new(), readable.clone());
        asker.answer_within = PATIENCE;
        let tools = Tools {
            asker,
            readable,
            state_dir: dir.path().to_owned(),
            coordctl: dir.path().join("coordctl").to_str().unwrap().to_owned(),
            root: None,
            transcripts: Transcripts::default(),
        };
        let mut world = Self { dir, session, server: ProcessRef { pid: 0, start_time: 0 }, tools };
        world.fifo("ran");
        world.script("coordctl", &format!("echo \"$@\" > {}\nexec cat", world.path("ran")));
        let shell = world.shell();
        world.tell(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "16", &shell]);
        world.server = process_of(world.ask("%0", "#{pid}").parse().unwrap());
        world.wait_prompt("%0");
        world
    }

    /// A command that becomes an interactive shell.
    fn shell(&self) -> String {
        format!("PS1='{PROMPT}' HOME={} exec bash --norc --noprofile -i", self.path(""))
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn socket(&self) -> String {
        self.path("s")
    }

    #[track_caller]
    fn tell(&self, words: &[&str]) -> String {
        let output = command().args(["tmux", "-S", &self.socket()]).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    #[track_caller]
    fn ask(&self, pane: &str, format: &str) -> String {
        self.tell(&["display-message", "-p", "-t", pane, format])
    }

    #[track_caller]
    fn type_keys(&self, pane: &str, keys: &[&str]) {
        self.tell(&[&["send-keys", "-t", pane][..], keys].concat());
    }

    fn text(&self, pane: &str) -> String {
        self.tell(&["capture-pane", "-p", "-t", pane])
    }

    /// Waits until the cursor is after a shell's prompt on the last line that is not blank, and the
    /// shell waits for its user.
    #[track_caller]
    fn wait_prompt(&self, pane: &str) {
        until("a prompt", || {
            let is_last = self.text(pane).trim_end().ends_with(PROMPT.trim_end());
            let shell: u32 = self.ask(pane, "#{pane_pid}").parse().ok()?;
            let stat = process::stat(shell)?;
            (is_last && stat.front == i64::from(stat.group)).then_some(())
        });
    }

    fn fifo(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        crate::tmux::tests::script(&path, text);
        path
    }

    /// Starts a client in the shell of a pane, which then runs `more`; the client paints `line` as its
    /// input line.
    #[track_caller]
    fn client_with(&self, pane: &str, line: &str, more: &str) -> ProcessRef {
        let rule = "─".repeat(60);
        let screen =
            format!("● Hi\n\n\n{rule}\n❯\u{a0}{line}\n\u{1b}[0m{rule}\n  ⏸ manual mode on");
        std::fs::write(self.path("screen"), screen).unwrap();
        let ready = self.path("ready");
        if !Path::new(&ready).exists() {
            self.fifo("ready");
        }
        let paint = "stty -echo; printf '\\033[2J\\033[H'; cat";
        self.script(
            "client",
            &format!("{paint} {}\necho $$ > {ready}\n{more}", self.path("screen")),
        );
        self.type_keys(pane, &[&self.path("client"), "Enter"]);
        let client = process_of(line_of(&ready).parse().unwrap());
        until("its screen", || self.text(pane).contains("manual mode on").then_some(()));
        client
    }

    /// Starts a client that is at rest, and whose registry entry says so.
    #[track_caller]
    fn client(&self) -> ProcessRef {
        let client = self.client_with("%0", "\u{1b}[7m ", "exec cat");
        until("cat, which waits for input", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", client.pid)).unwrap();
            stat.contains("(cat) S ").then_some(())
        });
        self.register(client, &self.session, "idle");
        client
    }

    /// Writes an entry of the client's registry.
    fn register(&self, process: ProcessRef, session: &str, status: &str) {
        let ProcessRef { pid, start_time } = process;
        let entry = format!(
            "{{\"pid\":{pid},\"procStart\":\"{start_time}\",\"sessionId\":\"{session}\",\
             \"status\":\"{status}\",\"statusUpdatedAt\":1700000000000}}"
        );
        std::fs::write(self.path(&format!("sessions/{pid}.json")), entry).unwrap();
    }

    fn subject(&self, harness: ProcessRef, lives: bool) -> Subject {
        self.subject_in(harness, lives, "%0")
    }

    fn subject_in(&self, harness: ProcessRef, lives: bool, pane: &str) -> Subject {
        let pane_pid = self.ask(pane, "#{pane_pid}").parse().unwrap();
        // The first process of a new pane takes its terminal only after the server has listed the pane.
        let tty = until("its terminal", || {
            let tty = u64::try_from(process::stat(pane_pid)?.tty).ok()?;
            (tty != 0).then_some(tty)
        });
        let work = std::fs::metadata(self.path("work")).unwrap();
        let pane = TmuxPane { socket: self.socket(), server: self.server, pane: pane.to_owned() };
        Subject {
            any_server: false,
            session_id: self.session.clone(),
            harness,
            lives,
            config_dir: self.path("").trim_end_matches('/').to_owned(),
            transcript_path: self.path("projects/p/s.jsonl"),
            pane: Some((pane, PaneProof { pane_pid, tty })),
            cwd: Place { path: self.path("work"), device: work.dev(), inode: work.ino() },
            program: self.path("coordctl"),
            typed: None,
            task_dir: None,
            reads_last_words: false,
        }
    }

    /// Kills a client, which leaves its shell.
    #[track_caller]
    fn crashed(&self) -> Subject {
        let client = self.client();
        let subject = self.subject(client, false);
        kill(client);
        self.wait_prompt("%0");
        subject
    }

    fn look(&mut self, subject: &Subject) -> Proof {
        self.tools.look(subject).proof
    }

    fn look_whole(&mut self, subject: &Subject) -> Look {
        self.tools.look(subject)
    }

    /// Waits until coordctl was run, and returns its arguments.
    fn ran(&self) -> String {
        line_of(&self.path("ran"))
    }

    /// Attaches a tmux client on a terminal of its own.
    #[track_caller]
    fn attach(&self) -> Attached {
        let shown = self.path("shown");
        let attach = format!("tmux -S {} attach", self.socket());
        let mut command = command();
        command.args(["script", "-qfc", &attach, &shown]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let attached = Attached { child, shown };
        until("a client", || (!self.tell(&["list-clients"]).is_empty()).then_some(()));
        attached
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}

/// A program in an empty environment.
fn command() -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.args(["-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=xterm"]);
    command
}

/// A tmux client that ends when this value is dropped.
struct Attached {
    child: Child,
    shown: String,
}

impl Attached {
    fn press(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// The output to the client's terminal so far.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.shown).unwrap_or_default()).into_owned()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A process of this user that ends when this value is dropped.
struct Other {
    child: Child,
    process: ProcessRef,
}

impl Other {
    /// Starts a shell with these words after its command, and these variables.
    fn start(words: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::running("echo; read x", words, variables)
    }

    /// Starts a shell that runs `script`, which prints a line when the shell is ready.
    fn running(script: &str, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).args(words).env_clear();
        command.envs(variables.iter().copied());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let process = process_of(child.id());
        let mut other = Self { child, process };
        // Until the shell prints a line, its command line is still that of this program.
        other.line();
        other
    }

    /// Reads one line that it prints. Lines that it printed after that one are lost.
    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn process_of(pid: u32) -> ProcessRef {
    ProcessRef { pid, start_time: process::stat(pid).unwrap().start_time }
}

fn kill(process: ProcessRef) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("its end", || (!is_alive(process)).then_some(()));
}

fn is_alive(process: ProcessRef) -> bool {
    process::is_alive(process)
}

/// Waits until somebody writes a line into the FIFO, and returns it.
#[track_caller]
fn line_of(fifo: &str) -> String {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(open(fifo, flags, Mode::empty()).unwrap());
    let mut line = String::new();
    until("a line", || {
        let mut piece = [0; 256];
        // No line was written yet, or there is no writer yet.
        let n = file.read(&mut piece).unwrap_or(0);
        line.push_str(std::str::from_utf8(&piece[..n]).unwrap());
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    })
}

/// Repeats `ask` until it returns a value.
#[track_caller]
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited for {what}");
    }
}

/// The shell's prompt in a proof.
fn prompt(proof: &Proof) -> Option<coord_model::Prompt> {
    let PaneState::Shell { prompt, .. } = &proof.pane else { panic!("{:?}", proof.pane) };
    *prompt
}

fn at_rest() -> PaneState {
    PaneState::Client { screen: Some(Screen::Prompt), input: Input::Empty, signature: None }
}
