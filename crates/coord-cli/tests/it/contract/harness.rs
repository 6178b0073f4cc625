//! A stand-in for the client: a real process whose children are the real hooks, with or without a
//! terminal, in or out of tmux, and with the registry entry that the client would keep.

use coord_host::process;
use coord_model::ProcessRef;
use coord_tests::coord::{events, programs};
use coord_tests::home::Home;
use coord_tests::process::{Running, copy_program, run, write_program};
use coord_tests::wait::{PATIENCE, readable, wait_until};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs each line it is sent, and says how that ended.
const SCRIPT: &str = r#"
CLAUDECODE=1 CLAUDE_PID=$$
export CLAUDECODE CLAUDE_PID
exec 3<"$1/in" 4>"$1/out"
echo "$$" >&4
while IFS= read -r line <&3; do
    eval "$line" 3<&- 4>&-
    echo "$?" >&4
done
"#;

/// A harness under way; it goes with its home.
pub(crate) struct Harness {
    dir: PathBuf,
    root: PathBuf,
    config_dir: PathBuf,
    session: String,
    pub(crate) process: ProcessRef,
    pidfd: OwnedFd,
    commands: File,
    answers: File,
    /// What started it, where that waits for it; else tmux has it.
    starter: Option<Running>,
}

/// Its own tmux server; dropping it ends the server.
pub(crate) struct Tmux<'a> {
    home: &'a Home,
    name: &'static str,
    pub(crate) server: u32,
}

impl Harness {
    /// A headless run (`-p`).
    #[track_caller]
    pub(crate) fn headless(home: &Home, session: &str) -> Self {
        Self::start(home, session, |dir| {
            let mut command = home.command(client(dir));
            command.arg(dir.join("script")).arg(dir).arg("-p").stdin(Stdio::null());
            command.env("CLAUDE_CONFIG_DIR", home.config_dir());
            Some(Running::start(command, &home.tmp(), "harness"))
        })
    }

    /// A session at a terminal of its own.
    #[track_caller]
    pub(crate) fn at_terminal(home: &Home, session: &str) -> Self {
        Self::start(home, session, |dir| {
            let mut command = home.command("script");
            command.args(["-qec", &shell_line(dir), "/dev/null"]).stdin(Stdio::null());
            command.env("CLAUDE_CONFIG_DIR", home.config_dir());
            Some(Running::start(command, &home.tmp(), "harness"))
        })
    }

    /// A session in a pane.
    #[track_caller]
    pub(crate) fn in_tmux(tmux: &Tmux<'_>, session: &str) -> Self {
        Self::start(tmux.home, session, |dir| {
            tmux.run(&["new-window", "-d", &shell_line(dir)]);
            None
        })
    }

    /// A session that a shell in a pane started, as its user would. The shell shows `dev$ ` when it is over.
    #[track_caller]
    pub(crate) fn in_shell(tmux: &Tmux<'_>, session: &str) -> (Self, String) {
        let shell = "PS1='dev$ ' exec bash --norc --noprofile -i";
        let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", shell]);
        let pane = pane.trim().to_owned();
        tmux.shows_prompt(&pane);
        let harness = Self::start(tmux.home, session, |dir| {
            let client = client(dir);
            let line =
                format!("'{}' '{dir}/script' '{dir}'", client.display(), dir = dir.display());
            tmux.run(&["send-keys", "-t", &pane, &line, "Enter"]);
            None
        });
        (harness, pane)
    }

    /// Replaces the program: when coord resumes the session, it runs these lines of shell as the client does,
    /// below a process that reports its start.
    pub(crate) fn resumes_as(&self, lines: &str) {
        let (program, shell) = (client(&self.dir), self.dir.join("claude/versions/sh2"));
        fs::rename(&program, &shell).unwrap();
        write_program(&program, &format!("#!{}\n{lines}\n", shell.display()));
    }

    /// Lines of shell for [`Harness::resumes_as`]: a client that comes up idle, and stays.
    pub(crate) fn comes_up(&self) -> String {
        let start = json!({
            "session_id": self.session, "hook_event_name": "SessionStart", "cwd": self.dir,
            "transcript_path": self.transcript(), "source": "resume",
        });
        let payload = self.dir.join("start");
        fs::write(&payload, start.to_string()).unwrap();
        let hook = programs().join("coord-hook-session-start");
        format!(
            "export CLAUDECODE=1 CLAUDE_PID=$$\n\
             start=$(cut -d' ' -f22 /proc/$$/stat)\n\
             echo '{{\"pid\": '$$', \"procStart\": \"'$start'\", \"sessionId\": \"{}\", \"status\": \"idle\"}}' >'{}'/$$.json\n\
             '{}' --root '{}' <'{}'\n\
             read -r line",
            self.session,
            self.config_dir.join("sessions").display(),
            hook.display(),
            self.root.display(),
            payload.display(),
        )
    }

    /// The transcript that its events name.
    pub(crate) fn transcript(&self) -> PathBuf {
        self.config_dir.join(format!("projects/p/{}.jsonl", self.session))
    }

    /// A transcript with one turn.
    pub(crate) fn write_transcript(&self) {
        let turn = json!({"type": "user", "sessionId": self.session});
        fs::create_dir_all(self.config_dir.join("projects/p")).unwrap();
        fs::write(self.transcript(), format!("{turn}\n")).unwrap();
    }

    #[track_caller]
    fn start(home: &Home, session: &str, spawn: impl FnOnce(&PathBuf) -> Option<Running>) -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = home.dir().join(format!("harness-{number}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("script"), SCRIPT).unwrap();
        fs::create_dir_all(dir.join("claude/versions")).unwrap();
        copy_program("/bin/sh".as_ref(), &client(&dir));
        // Opened for both directions, so that neither side waits for the other to open.
        let [commands, mut answers] = ["in", "out"].map(|name| {
            let path = dir.join(name);
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
            fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
        });
        let starter = spawn(&dir);
        let pid: u32 = line(&mut answers).parse().unwrap();
        let pidfd =
            pidfd_open(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), PidfdFlags::empty());
        let start_time = process::stat(pid).unwrap().start_time;
        Self {
            dir,
            root: home.root(),
            config_dir: home.config_dir(),
            session: session.to_owned(),
            process: ProcessRef { pid, start_time },
            pidfd: pidfd.unwrap(),
            commands,
            answers,
            starter,
        }
    }

    /// Has the hook of an event run as the client does; its exit code.
    #[track_caller]
    pub(crate) fn report(&mut self, event: &str, fields: &Value) -> i32 {
        let line = self.hook(event, fields);
        self.run(&line)
    }

    /// The same; what the hook prints.
    #[track_caller]
    pub(crate) fn answer(&mut self, event: &str, fields: &Value) -> String {
        let (line, printed) = (self.hook(event, fields), self.dir.join("answered"));
        assert_eq!(self.run(&format!("{line} >'{}'", printed.display())), 0);
        fs::read_to_string(printed).unwrap()
    }

    /// The same of a hook that may wait: what it prints is [`Self::background`].
    #[track_caller]
    pub(crate) fn report_in_background(&mut self, event: &str, fields: &Value) {
        let line = self.hook(event, fields);
        let (file, kept) = (self.dir.join("payload"), self.dir.join("payload-kept"));
        fs::copy(file, &kept).unwrap();
        let line = line.replace("/payload'", "/payload-kept'");
        let [printed, pid] = ["printed", "background"].map(|name| self.dir.join(name));
        self.run(&format!("{line} >'{}' & echo $! >'{}'", printed.display(), pid.display()));
    }

    /// Whether the hook in the background has ended.
    pub(crate) fn background_has_ended(&self) -> bool {
        let pid = fs::read_to_string(self.dir.join("background")).unwrap();
        // Of one that its parent has not waited for yet nothing is left.
        fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default().is_empty()
    }

    /// The id of its session.
    pub(crate) fn session_id(&self) -> &str {
        &self.session
    }

    /// What the hook in the background has printed so far.
    pub(crate) fn background(&self) -> String {
        fs::read_to_string(self.dir.join("printed")).unwrap_or_default()
    }

    /// The line of shell that runs the hook of an event.
    fn hook(&self, event: &str, fields: &Value) -> String {
        let mut payload = json!({
            "session_id": self.session, "hook_event_name": event, "cwd": self.dir,
            "transcript_path": self.transcript(),
        });
        payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let file = self.dir.join("payload");
        fs::write(&file, payload.to_string()).unwrap();
        let hook = programs().join(match event {
            "SessionStart" => "coord-hook-session-start",
            "PostToolUse" => "coord-hook-post-tool-use",
            "PermissionRequest" => "coord-hook-permission-request",
            "Stop" => "coord-hook-stop",
            _ => "coord-hook-event",
        });
        let (hook, root, file) = (hook.display(), self.root.display(), file.display());
        format!("'{hook}' --root '{root}' <'{file}'")
    }

    /// Starts the wake hook, as the client does at the start and after each turn, with the payload of the
    /// last event; what it says goes to a file.
    #[track_caller]
    pub(crate) fn wait_for_messages(&mut self, out: &Path) {
        let hook = programs().join("coord-hook-wake");
        let (root, file) = (self.root.display(), self.dir.join("payload"));
        let (hook, file, out) = (hook.display(), file.display(), out.display());
        self.run(&format!("'{hook}' --root '{root}' <'{file}' 2>'{out}' &"));
    }

    /// Has a child of the harness run one line of shell; its exit code.
    #[track_caller]
    pub(crate) fn run(&mut self, command: &str) -> i32 {
        writeln!(self.commands, "{command}").unwrap();
        line(&mut self.answers).parse().unwrap()
    }

    /// Reports the session's start and a prompt: a turn is open.
    #[track_caller]
    pub(crate) fn begin_turn(&mut self) {
        assert_eq!(self.report("SessionStart", &json!({"source": "startup"})), 0);
        assert_eq!(self.report("UserPromptSubmit", &json!({"prompt": "x"})), 0);
    }

    /// The same; coord knows that the harness sent both.
    #[track_caller]
    pub(crate) fn begin_verified_turn(&mut self, home: &Home) {
        self.report_verified(home, "SessionStart", &json!({"source": "startup"}));
        self.report_verified(home, "UserPromptSubmit", &json!({"prompt": "x"}));
    }

    /// Reports an event, again until coord knows that the harness sent it: on a slow machine it goes to the spool, and
    /// what comes that way could be anybody's.
    #[track_caller]
    pub(crate) fn report_verified(&mut self, home: &Home, event: &str, fields: &Value) {
        wait_until(&format!("{event} is verified"), || {
            assert_eq!(self.report(event, fields), 0);
            let seen = events(home, Some(&self.session));
            let is_it = |line: &Value| line["name"] == event && line["verified"] == true;
            if seen.iter().any(is_it) { Ok(()) } else { Err(seen) }
        });
    }

    /// Reports a SessionEnd and leaves.
    #[track_caller]
    pub(crate) fn end(mut self, reason: &str) {
        assert_eq!(self.report("SessionEnd", &json!({"reason": reason})), 0);
        writeln!(self.commands, "exit").unwrap();
        self.wait();
    }

    /// The client's own registry entry, with the status it writes.
    fn entry(&self) -> PathBuf {
        self.config_dir.join(format!("sessions/{}.json", self.process.pid))
    }

    /// Makes the registry entry.
    pub(crate) fn register(&self) {
        self.register_with("busy");
    }

    /// The same, of a client at its prompt.
    pub(crate) fn register_as_idle(&self) {
        self.register_with("idle");
    }

    /// The same, of a client that waits for an answer.
    pub(crate) fn register_as_waiting(&self) {
        self.register_with("waiting");
    }

    fn register_with(&self, status: &str) {
        let entry = json!({
            "pid": self.process.pid, "procStart": self.process.start_time.to_string(),
            "sessionId": self.session, "status": status,
        });
        self.register_as(&entry.to_string());
    }

    /// Paints the client's screen, with nothing in its input line.
    #[track_caller]
    pub(crate) fn shows_an_empty_prompt(&mut self) {
        let (rule, screen) = ("─".repeat(60), self.dir.join("screen"));
        let text = format!(
            "\u{1b}[2J\u{1b}[H● Hi\n\n\n{rule}\n❯\u{a0}\u{1b}[7m \u{1b}[0m\n{rule}\n  ⏸ manual mode on"
        );
        fs::write(&screen, text).unwrap();
        assert_eq!(self.run(&format!("cat '{}'", screen.display())), 0);
    }

    /// Makes a registry entry of any text.
    pub(crate) fn register_as(&self, text: &str) {
        fs::create_dir_all(self.config_dir.join("sessions")).unwrap();
        fs::write(self.entry(), text).unwrap();
    }

    /// Removes the registry entry, as a clean end does.
    pub(crate) fn unregister(&self) {
        fs::remove_file(self.entry()).unwrap();
    }

    /// `kill -STOP`.
    #[track_caller]
    pub(crate) fn stop(&self) {
        pidfd_send_signal(&self.pidfd, Signal::STOP).unwrap();
    }

    /// `kill -9`, and waits for its end.
    #[track_caller]
    pub(crate) fn kill(self) {
        pidfd_send_signal(&self.pidfd, Signal::KILL).unwrap();
        self.wait();
    }

    #[track_caller]
    fn wait(self) {
        assert!(readable(&self.pidfd, PATIENCE), "the harness has not ended");
        if let Some(starter) = self.starter {
            starter.finish();
        }
    }
}

fn shell_line(dir: &Path) -> String {
    format!("exec '{}' '{}/script' '{}'", client(dir).display(), dir.display(), dir.display())
}

/// The program of the harness: a shell in the place of the client's own programs, which makes it a client
/// (H-46).
fn client(dir: &Path) -> PathBuf {
    dir.join("claude/versions/sh")
}

/// One line from a FIFO.
#[track_caller]
fn line(from: &mut File) -> String {
    let mut text = String::new();
    loop {
        assert!(readable(&*from, PATIENCE), "the harness says nothing");
        let mut byte = [0];
        from.read_exact(&mut byte).unwrap();
        if byte == *b"\n" {
            return text;
        }
        text.push(char::from(byte[0]));
    }
}

impl<'a> Tmux<'a> {
    /// Starts a server that reads nobody's configuration.
    #[track_caller]
    pub(crate) fn start(home: &'a Home) -> Self {
        Self::named(home, "contract")
    }

    /// The same beside another one.
    #[track_caller]
    pub(crate) fn named(home: &'a Home, name: &'static str) -> Self {
        let mut tmux = Self { home, name, server: 0 };
        tmux.run(&["new-session", "-d", "-s", "first", "exec cat"]);
        tmux.server = tmux.run(&["display-message", "-p", "#{pid}"]).trim().parse().unwrap();
        tmux
    }

    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.home.command("tmux");
        command.args(["-L", self.name, "-f", "/dev/null"]).args(arguments);
        command
            .env("TMUX_TMPDIR", self.home.tmp())
            .env("CLAUDE_CONFIG_DIR", self.home.config_dir());
        run(command, &self.home.tmp(), "tmux").expect_success().stdout
    }

    /// Waits until the shell in a pane shows its prompt.
    #[track_caller]
    pub(crate) fn shows_prompt(&self, pane: &str) {
        wait_until("the shell shows its prompt", || {
            let text = self.run(&["capture-pane", "-p", "-t", pane]);
            let is_there = text.trim_end().lines().last().is_some_and(|line| line == "dev$");
            if is_there { Ok(()) } else { Err(text) }
        });
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        let uid = rustix::process::geteuid().as_raw();
        self.home.tmp().join(format!("tmux-{uid}")).join(self.name)
    }

    /// `kill -9` of the server.
    #[track_caller]
    pub(crate) fn kill(self) {
        let pid = Pid::from_raw(i32::try_from(self.server).unwrap()).unwrap();
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        pidfd_send_signal(&pidfd, Signal::KILL).unwrap();
        assert!(readable(&pidfd, PATIENCE), "the tmux server has not ended");
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let mut command = self.home.command("tmux");
        command.args(["-L", self.name, "kill-server"]).env("TMUX_TMPDIR", self.home.tmp());
        let _is_gone_already = run(command, &self.home.tmp(), "tmux");
    }
}

/// Runs a line of shell in a pane, where a person could be; its exit code and output.
#[track_caller]
pub(crate) fn by_person(
    home: &Home,
    tmux: &Tmux<'_>,
    program: &str,
    arguments: &str,
) -> (i32, String) {
    let (root, program) = (home.root(), programs().join(program));
    let file = home.tmp().join(format!("said-{}", arguments.replace([' ', '/'], "_")));
    let (out, root, program) = (file.display(), root.display(), program.display());
    let line = format!(
        "{{ COORD_HOME='{root}' '{program}' {arguments}; echo $?; }} >'{out}.new' 2>&1; mv '{out}.new' '{out}'"
    );
    tmux.run(&["new-window", "-d", &line]);
    let text = wait_until("the command has ended", || fs::read_to_string(&file));
    let (text, code) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
    (code.parse().unwrap(), text.to_owned())
}

/// The processes of coord's programs that run with this home.
#[track_caller]
pub(crate) fn programs_of(home: &Home) -> Vec<u32> {
    let variable = format!("HOME={}", home.home().display());
    let dir = programs();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let exe = fs::read_link(entry.path().join("exe")).ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let is_ours =
                environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes());
            (is_ours && exe.parent() == Some(&dir)).then_some(pid)
        })
        .collect()
}

/// Waits until the spool is empty.
#[track_caller]
pub(crate) fn spool_is_empty(home: &Home) {
    wait_until("the spool is taken in", || match coord_tests::coord::health(home) {
        Some(health) if health.spool_pending == 0 => Ok(()),
        other => Err(format!("{other:?}")),
    });
}
