//! A stand-in for the client of a recorded session: a process that does nothing, its entry in the client's registry, and
//! what a look at it finds.

use std::fmt::Debug;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use coord_host::process::stat;
use coord_model::envelope::{Envelope, Harness, TmuxClaim};
use coord_model::{
    Input, Intent, Kind, Launch, Now, PaneFound, PaneProof, PaneSeen, PaneState, Parent,
    ParentKind, Place, ProcessRef, Prompt, Proof, Screen, SessionKey, TmuxPane, TranscriptState,
};
use serde_json::json;

/// The terminals of the recorded panes: numbers that no device has.
const TTY: u64 = u32::MAX as u64;
/// The shells of the recorded panes: larger than any pid.
const SHELL: u32 = 5_000_000;
/// What coord writes on the line that resumes a session.
const NONCE: &str = "demo";

/// A recorded session and its client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: String,
    /// Its record, once a hook has reported it.
    pub(super) key: Option<SessionKey>,
    pub(super) directory: String,
    pane: TmuxPane,
    place: String,
    proof: PaneProof,
    running: Running,
    /// The registry's word for what the client does.
    status: Status,
    /// The look that coord asked for, and whether it expects the client to be alive.
    pub(super) look: Option<(Intent, bool)>,
}

/// The client's status: its word in the registry, what it waits for, and its screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Status(&'static str, Option<&'static str>, Screen);

const IDLE: Status = Status("idle", None, Screen::Prompt);
const BUSY: Status = Status("busy", None, Screen::Working);
const SHELL_RUNS: Status = Status("shell", None, Screen::Prompt);
const ASKS: Status = Status("waiting", Some("input needed"), Screen::Question);
const WAITS: Status = Status("waiting", Some("permission prompt"), Screen::Permission);

impl Status {
    /// The client's status after an event.
    fn after(envelope: &Envelope) -> Self {
        match (envelope.event.as_str(), envelope.tool_name.as_deref()) {
            ("PermissionRequest", Some("AskUserQuestion")) => ASKS,
            ("PermissionRequest", _) => WAITS,
            ("UserPromptSubmit" | "PreToolUse" | "PostToolUse", _) => BUSY,
            ("Stop", _) if envelope.background_tasks.is_some_and(|n| 0 < n) => SHELL_RUNS,
            _ => IDLE,
        }
    }
}

/// A process that lives until it is dropped. It ends by itself if this program is killed: its input is closed then.
#[derive(Debug)]
struct Running {
    child: Child,
    process: ProcessRef,
}

impl Running {
    fn start() -> anyhow::Result<Self> {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals of the terminal are for the demo, which then ends it.
        let child =
            command.current_dir("/").process_group(0).spawn().context("cannot start cat")?;
        let mut running = Self { child, process: ProcessRef { pid: 0, start_time: 0 } };
        running.process = process(running.child.id())?;
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A child that ended is not signalled, and one that is not reaped keeps its pid.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A living process.
pub(super) fn process(pid: u32) -> anyhow::Result<ProcessRef> {
    let start_time = stat(pid).context("the process table cannot be read")?.start_time;
    Ok(ProcessRef { pid, start_time })
}

/// The socket of the recorded tmux server; there is none.
pub(super) fn server(root: &Path) -> String {
    root.join("tmux").display().to_string()
}

/// The client's configuration directory.
pub(super) fn config_dir(root: &Path) -> PathBuf {
    root.join("claude")
}

impl Client {
    /// Starts a client. `server` stands for the tmux server of its pane.
    pub(super) fn start(
        id: &str,
        directory: String,
        (pane, place): (&str, &str),
        number: u32,
        (root, own): (&Path, ProcessRef),
    ) -> anyhow::Result<Self> {
        let pane = TmuxPane { socket: server(root), server: own, pane: pane.to_owned() };
        let proof = PaneProof { pane_pid: SHELL + number, tty: TTY - u64::from(number) };
        Ok(Self {
            id: id.to_owned(),
            key: None,
            directory,
            pane,
            place: place.to_owned(),
            proof,
            running: Running::start()?,
            status: SHELL_RUNS,
            look: None,
        })
    }

    /// Kills the process. Its registry entry stays.
    pub(super) fn crash(&mut self) -> anyhow::Result<ProcessRef> {
        self.running.child.kill()?;
        self.running.child.wait()?;
        Ok(self.process())
    }

    /// Ends the process as a clean exit does.
    pub(super) fn exit(&mut self, root: &Path) -> anyhow::Result<ProcessRef> {
        std::fs::remove_file(self.registry_file(root))?;
        self.crash()
    }

    /// Starts another process for the same session.
    pub(super) fn resume(&mut self) -> anyhow::Result<ProcessRef> {
        self.running = Running::start()?;
        self.status = SHELL_RUNS;
        Ok(self.process())
    }

    pub(super) fn process(&self) -> ProcessRef {
        self.running.process
    }

    /// Its part of an envelope.
    pub(super) fn sign(&self, envelope: &mut Envelope, pid_ns: u64) {
        let (TmuxPane { socket, server, pane }, process) = (self.pane.clone(), self.process());
        envelope.session_id.clone_from(&self.id);
        envelope.cwd.clone_from(&self.directory);
        envelope.pid = process.pid;
        envelope.harness = Some(Harness {
            pid: process.pid,
            start_time: process.start_time,
            pid_ns,
            tty: self.proof.tty,
            kind: Some(Kind::Interactive),
        });
        envelope.tmux = Some(TmuxClaim {
            socket,
            server_pid: server.pid,
            server_start: server.start_time,
            pane,
        });
    }

    /// Writes what the client's registry says after an event. Returns whether that has changed.
    pub(super) fn report(&mut self, envelope: &Envelope, root: &Path) -> anyhow::Result<bool> {
        let status = Status::after(envelope);
        if envelope.event == "SessionEnd" || status == self.status {
            return Ok(false);
        }
        self.status = status;
        let Status(word, waiting_for, _) = status;
        let entry = json!({
            "pid": self.process().pid,
            "procStart": self.process().start_time.to_string(),
            "sessionId": self.id,
            "status": word,
            "waitingFor": waiting_for,
            "statusUpdatedAt": envelope.wall_ms(),
            "kind": "interactive",
            "cwd": self.directory,
        });
        let file = self.registry_file(root);
        std::fs::write(&file, entry.to_string()).with_context(|| file.display().to_string())?;
        Ok(true)
    }

    fn registry_file(&self, root: &Path) -> PathBuf {
        config_dir(root).join(format!("sessions/{}.json", self.process().pid))
    }

    /// What a capture of its pane finds.
    pub(super) fn pane(&self) -> PaneFound {
        PaneFound::Found(PaneSeen {
            pane: self.pane.clone(),
            proof: self.proof,
            screen: Some(self.status.2),
            farewell: None,
            signature: None,
            digest: None,
            place: Some(self.place.clone()),
        })
    }

    /// How it was started: at a shell in its pane.
    pub(super) fn launch(&self) -> Launch {
        let shell = ProcessRef { pid: self.proof.pane_pid, start_time: 1 };
        Launch {
            parent: Parent { process: shell, kind: ParentKind::Shell },
            program: vec!["claude".to_owned()],
            flags: Vec::new(),
            unfit: None,
            cwd: Place { path: self.directory.clone(), device: 0, inode: 0 },
            variables: Vec::new(),
            config_dir: None,
        }
    }

    /// What the look finds that coord asks for before it acts: a shell at its prompt, or the resumed client at its own.
    pub(super) fn proof(lives: bool, now: Now) -> Proof {
        let prompt = Some(Prompt { column: 2, digest: 0 });
        let (screen, input) = (Some(Screen::Prompt), Input::Empty);
        Proof {
            looked_ns: now.mono_ns,
            is_alive: lives,
            idle_since_ms: lives.then_some(now.wall_ms),
            ran_ns: None,
            owners: Vec::new(),
            children: Vec::new(),
            pane: if lives {
                PaneState::Client { screen, input, signature: None }
            } else {
                PaneState::Shell { prompt, signature: None, has_typed: false }
            },
            key_ms: None,
            any_key_ms: None,
            is_in_mode: false,
            is_synchronized: false,
            transcript: TranscriptState::Held,
            has_cwd: true,
            has_program: true,
            want: None,
            nonce: NONCE.to_owned(),
            is_line_plain: true,
            is_task_stopped: false,
            last_words: None,
        }
    }
}

/// What the line that resumes a session names.
pub(super) fn nonce() -> String {
    NONCE.to_owned()
}
