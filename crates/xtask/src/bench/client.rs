//! A scripted client: what the real one shows to hooks, registry, transcript and terminal, and no
//! more, so that what coord itself takes can be told from what a client takes to start.
//!
//! This program under another name, in a pane. It runs the hooks of the settings file as its children,
//! keeps its registry entry, writes turns to its transcript and paints an input line. A line typed into
//! it is a prompt; words in it, [`HANG`] and the like, say what becomes of the turn.

use crate::say_error;
use anyhow::{Context, bail};
use coord_host::process;
use coord_store::clock::{Clock, RealClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// The name it is called by.
pub(super) const NAME: &str = "claude";
/// In a prompt: its turn stays open, and a clock is painted each second.
pub(super) const HANG: &str = "hang";
/// In a prompt: words of a crash come to stand on the screen, and a draft in the input line.
pub(super) const DAMAGE: &str = "damage";
/// In a prompt: a permission dialog opens, and its hooks run beside it.
pub(super) const ASK: &str = "ask";
/// Typed as a line: the open turn ends.
pub(super) const DONE: &str = "/done";
/// Typed as a line: its user ends it.
pub(super) const EXIT: &str = "/exit";

/// Between two paintings of the clock.
const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Whether this program was called as the client.
pub(crate) fn is_called() -> bool {
    let program = std::env::args_os().next().map(PathBuf::from);
    program.is_some_and(|program| program.file_name() == Some(OsStr::new(NAME)))
}

/// The client's life.
pub(crate) fn run() -> ExitCode {
    match Client::start().and_then(Client::live) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug)]
struct Client {
    id: String,
    /// `hooks` of the settings file.
    hooks: Value,
    entry: PathBuf,
    transcript: PathBuf,
    /// Fields that every entry of the registry has.
    registered: Value,
    is_resumed: bool,
    is_open: bool,
    is_damaged: bool,
    prompts: u32,
    seconds: u32,
    /// Hooks that nobody waits for.
    beside: Vec<Child>,
}

impl Client {
    fn start() -> anyhow::Result<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let behind = |option: &str| {
            let at = arguments.iter().position(|word| word == option)?;
            arguments.get(at + 1).cloned()
        };
        let (new, old) = (behind("--session-id"), behind("--resume"));
        let is_resumed = old.is_some();
        let id = old.or(new).context("wants --session-id ID or --resume ID")?;
        let config_dir = std::env::var_os("CLAUDE_CONFIG_DIR").context("CLAUDE_CONFIG_DIR")?;
        let config_dir = PathBuf::from(config_dir);
        let settings = std::fs::read(config_dir.join("settings.json")).context("settings.json")?;
        let settings: Value = serde_json::from_slice(&settings)?;
        let cwd = std::env::current_dir()?.to_string_lossy().into_owned();
        let pid = std::process::id();
        let start_time = process::stat(pid).context("/proc/self/stat")?.start_time;
        let folder = config_dir.join("projects").join(cwd.replace('/', "-"));
        let entries = config_dir.join("sessions");
        for dir in [&folder, &entries] {
            std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        }
        let registered = json!({
            "pid": pid, "procStart": start_time.to_string(), "sessionId": id, "cwd": cwd,
            "kind": "interactive", "entrypoint": "cli",
        });
        Ok(Self {
            entry: entries.join(format!("{pid}.json")),
            transcript: folder.join(format!("{id}.jsonl")),
            hooks: settings.get("hooks").cloned().unwrap_or_default(),
            id,
            registered,
            is_resumed,
            is_open: false,
            is_damaged: false,
            prompts: 0,
            seconds: 0,
            beside: Vec::new(),
        })
    }

    fn live(mut self) -> anyhow::Result<()> {
        if self.is_resumed && !self.transcript.exists() {
            bail!("No conversation found with session ID: {}", self.id);
        }
        self.register("idle")?;
        // The alternate screen, which a killed client leaves on.
        write_out("\u{1b}[?1049h")?;
        self.paint()?;
        let source = if self.is_resumed { "resume" } else { "startup" };
        self.fire("SessionStart", &json!({"source": source, "model": "scripted"}))?;
        let mut typed = Vec::new();
        loop {
            self.wait()?;
            let mut buffer = [0; 1024];
            let n = rustix::io::read(rustix::stdio::stdin(), &mut buffer)?;
            typed.extend_from_slice(buffer.get(..n).unwrap_or_default());
            if n == 0 {
                return self.end();
            }
            while let Some(at) = typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = typed.drain(..=at).collect();
                match String::from_utf8_lossy(&line).trim() {
                    EXIT => return self.end(),
                    DONE => self.end_turn()?,
                    "" => (),
                    prompt => self.begin_turn(prompt)?,
                }
                self.paint()?;
            }
        }
    }

    /// Waits for a key; while a turn is open, its clock runs.
    fn wait(&mut self) -> anyhow::Result<()> {
        let stdin = rustix::stdio::stdin();
        loop {
            self.beside.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            let clock = self.is_open.then_some(&SECOND);
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], clock) {
                Ok(0) => {
                    self.seconds += 1;
                    self.paint()?;
                }
                Err(rustix::io::Errno::INTR) => (),
                result => return result.map(drop).context("poll"),
            }
        }
    }

    fn begin_turn(&mut self, prompt: &str) -> anyhow::Result<()> {
        self.prompts += 1;
        self.is_open = true;
        self.is_damaged |= prompt.contains(DAMAGE);
        self.register("busy")?;
        self.say("user", prompt)?;
        self.fire("UserPromptSubmit", &json!({"prompt": prompt}))?;
        if prompt.contains(ASK) {
            let input = json!({"command": "touch f", "description": "Make a file"});
            self.register("waiting")?;
            return self
                .fire("PermissionRequest", &json!({"tool_name": "Bash", "tool_input": input}));
        }
        if prompt.contains(HANG) { Ok(()) } else { self.end_turn() }
    }

    fn end_turn(&mut self) -> anyhow::Result<()> {
        self.is_open = false;
        self.say("assistant", "Done.")?;
        self.register("idle")?;
        let more = json!({"stop_hook_active": false, "background_tasks": [], "session_crons": []});
        self.fire("Stop", &more)
    }

    fn end(mut self) -> anyhow::Result<()> {
        self.fire("SessionEnd", &json!({"reason": "prompt_input_exit"}))?;
        std::fs::remove_file(&self.entry)?;
        write_out("\u{1b}[?1049l")
    }

    /// Writes its entry of the registry anew, in place.
    fn register(&self, status: &str) -> anyhow::Result<()> {
        let now_ms = RealClock.wall_ms();
        let mut entry = self.registered.clone();
        entry["status"] = status.into();
        if status == "waiting" {
            entry["waitingFor"] = "permission prompt".into();
        }
        entry["statusUpdatedAt"] = now_ms.into();
        entry["updatedAt"] = now_ms.into();
        std::fs::write(&self.entry, entry.to_string())?;
        Ok(())
    }

    /// Writes a line of its transcript.
    fn say(&self, who: &str, text: &str) -> anyhow::Result<()> {
        let message = json!({"role": who, "content": [{"type": "text", "text": text}]});
        let line = json!({"type": who, "sessionId": self.id, "message": message});
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(&self.transcript)?;
        writeln!(file, "{line}")?;
        Ok(())
    }

    /// Runs the hooks of an event to their end, but those that are asynchronous or beside a dialog.
    fn fire(&mut self, event: &str, more: &Value) -> anyhow::Result<()> {
        let mut payload = json!({
            "hook_event_name": event, "session_id": self.id, "cwd": self.registered["cwd"],
            "transcript_path": self.transcript, "permission_mode": "default",
        });
        if 0 < self.prompts {
            payload["prompt_id"] =
                format!("{:08x}-0000-4000-8000-000000000000", self.prompts).into();
        }
        for (name, value) in more.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        let groups = self.hooks[event].as_array().cloned().unwrap_or_default();
        let entries = groups.iter().filter_map(|group| group["hooks"].as_array()).flatten();
        let mut awaited = Vec::new();
        for entry in entries {
            let mut child = self.hook(entry)?;
            let mut stdin = child.stdin.take().context("standard input of a hook")?;
            writeln!(stdin, "{payload}")?;
            let is_beside = entry["async"] == true || event == "PermissionRequest";
            if is_beside { self.beside.push(child) } else { awaited.push(child) }
        }
        awaited.iter_mut().try_for_each(|child| child.wait().map(drop)).context("a hook")
    }

    fn hook(&self, entry: &Value) -> anyhow::Result<Child> {
        let program = entry["command"].as_str().context("a hook without a command")?;
        let words = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut command = Command::new(program);
        command
            .args(words)
            .env("CLAUDECODE", "1")
            .env("CLAUDE_CODE_ENTRYPOINT", "cli")
            .env("CLAUDE_CODE_SESSION_ID", &self.id)
            .env("CLAUDE_PID", std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().with_context(|| Path::new(program).display().to_string())
    }

    /// The screen, as the real client draws it.
    fn paint(&self) -> anyhow::Result<()> {
        let rule = "─".repeat(60);
        let mut above = vec!["● What an agent says".to_owned(), String::new()];
        if self.is_damaged {
            above.push("RangeError: Maximum call stack size exceeded".to_owned());
        }
        if self.is_open {
            above.push(format!("✻ Working… ({}s)", self.seconds));
        }
        above.push(String::new());
        let typed = if self.is_damaged { "half a thought" } else { "" };
        let footer = if self.is_open { " · esc to interrupt" } else { "" };
        let row = above.len() + 2;
        let column = 3 + typed.len();
        write_out(&format!(
            "\u{1b}[2J\u{1b}[H{}\r\n{rule}\r\n❯\u{a0}{typed}\u{1b}[7m \u{1b}[0m\r\n{rule}\r\n  ⏸ manual mode on{footer}\u{1b}[{row};{column}H",
            above.join("\r\n"),
        ))
    }
}

fn write_out(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush().context("the terminal")
}
