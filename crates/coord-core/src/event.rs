//! Everything that can wake the core, as one closed enum.

use alloc::boxed::Box;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::last_words::Failure;
use crate::launch::Launch;
use crate::operator::Command;
use crate::proof::{Intent, Proof};
use crate::queue::QueueEvent;
use crate::screen::Screen;
use crate::session::SessionKey;
use crate::settings::Settings;
use crate::task::TaskFound;

/// Id of a hook's event: 128 bit, ordered by time of emission.
pub type EventId = u128;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A coordinator opened the store.
    Started(Host, Box<Settings>),
    /// The configuration was changed: these settings hold from now on (U-06).
    Settings(Box<Settings>),
    /// The loop did not turn, or the wall clock jumped, for this many nanoseconds (H-32).
    Gap {
        /// Awake time that passed without the loop turning; 0 for a clock step or a suspend.
        ns: u64,
    },
    /// A hook reported.
    Hook(Box<HookEvent>),
    /// A hook's event of which only the fact is kept (H-29).
    Folded {
        /// Its id.
        id: EventId,
        /// The session.
        session_id: String,
    },
    /// Events that hooks only counted, the spool being full (H-29).
    SpoolFolded {
        /// How many.
        events: u64,
    },
    /// Something arrived that was no event.
    Malformed,
    /// A process was looked at.
    ProcessSeen {
        /// Which.
        process: ProcessRef,
        /// Whether it is alive.
        alive: bool,
        /// Judged from argv and terminal.
        kind: Option<Kind>,
        /// Stopped by a signal (Ctrl-Z).
        is_stopped: bool,
        /// The session that its command line forks.
        forked_from: Option<String>,
        /// How it was started, where that could be read.
        launch: Option<Box<Launch>>,
    },
    /// A watched process is gone.
    ProcessExited {
        /// Which.
        process: ProcessRef,
    },
    /// The client's registry entry of a process was looked for.
    RegistryRead {
        /// The process.
        process: ProcessRef,
        /// What was there.
        found: Registry,
        /// Looked for after the death, socket and spool having been emptied first (H-05).
        after_death: bool,
        /// Where the process lives, if not where the coordinator does (H-15).
        domain: Option<Domain>,
    },
    /// The pane of a process was looked at (H-16).
    PaneSeen {
        /// The process.
        process: ProcessRef,
        /// What was there.
        found: PaneFound,
        /// CLOCK_MONOTONIC when the look began: what happened later is not on it.
        looked_ns: u64,
        /// The look followed its death (H-05).
        after_death: bool,
    },
    /// The end of a process's transcript was read.
    TranscriptRead {
        /// The process.
        process: ProcessRef,
        /// When its newest entry, an interrupt, was written, milliseconds since 1970.
        interrupted_ms: Option<u64>,
        /// Whether the crash signature that was seen on the pane stands in it as content (S0-29).
        has_signature: Option<bool>,
        /// The API error that is its newest word (S1-22).
        failure: Option<Failure>,
    },
    /// A session's task directory was read.
    TaskRead {
        /// Which.
        dir: String,
        /// What was in it.
        found: TaskFound,
    },
    /// Something happened to a message (S4).
    Queue(QueueEvent),
    /// A person asked for something by `coordctl`.
    Operator(Command),
    /// A look made for an act was answered (G4).
    Proved {
        /// For which step.
        intent: Intent,
        /// What was found.
        proof: Box<Proof>,
    },
    /// An act was carried out, or not.
    Acted {
        /// Which.
        intent: Intent,
        /// What came of it.
        outcome: Outcome,
    },
    /// A process took the line that resumes a session, and becomes its client.
    ResumeClaimed {
        /// The record.
        session: SessionKey,
        /// The nonce on that line.
        nonce: String,
        /// The process.
        process: ProcessRef,
    },
    /// The process that took the line gave up before it became a client.
    ResumeFailed {
        /// The record.
        session: SessionKey,
        /// Why, in words.
        why: String,
    },
    /// Whether the machine is being shut down (H-10).
    Shutdown(bool),
    /// The lock on a configuration directory was tried (H-14).
    ConfigDirLock {
        /// The directory.
        config_dir: String,
        /// Whether this coordinator holds it.
        held: bool,
    },
    /// Time alone changes something: [`crate::State::is_due`]. Recorded, so that a replay changes it at
    /// the same moment.
    Due,
    /// Looks may be due. They change nothing that is shown, and are not recorded.
    Tick,
}

/// What came of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// It was not: something was no longer as it was decided on. Nothing was touched.
    Changed {
        /// What, in words.
        what: String,
    },
    /// It was tried and failed.
    Failed {
        /// Why, in words.
        why: String,
    },
    /// It was not carried out: nothing is, in this mode.
    Observed,
}

/// Where the coordinator runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Machine id.
    pub machine: String,
    /// Kernel boot id.
    pub boot: String,
    /// Wall time of that boot.
    pub boot_at_ms: u64,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
}

/// A process, named so that a reused pid is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessRef {
    /// Pid in its own namespace.
    pub pid: u32,
    /// Clock ticks since boot.
    pub start_time: u64,
}

/// Where a pid means something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Machine id.
    pub machine: String,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
}

/// Kind of run (H-24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A person's session at a terminal.
    Interactive,
    /// A run with `-p` or without a terminal.
    Headless,
}

/// How a hook's event came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Via {
    /// By the coordinator's socket.
    Socket,
    /// By the spool.
    Spool,
}

/// One hook event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookEvent {
    /// Unique id.
    pub id: EventId,
    /// What the hook was called for.
    pub kind: HookKind,
    /// The session.
    pub session_id: String,
    /// Kernel boot id at emission.
    pub boot: String,
    /// CLOCK_MONOTONIC at emission.
    pub mono_ns: u64,
    /// Wall time at emission.
    pub wall_ms: u64,
    /// Machine id.
    pub machine: String,
    /// Host name.
    pub host: String,
    /// The client's process, where established.
    pub harness: Option<Harness>,
    /// What the environment said of tmux.
    pub tmux: Option<TmuxPane>,
    /// Working directory; empty where unknown.
    pub cwd: String,
    /// Transcript; empty where unknown.
    pub transcript_path: String,
    /// Permission mode, where the event says it.
    pub permission_mode: Option<String>,
    /// The client's configuration directory; empty where unknown.
    pub config_dir: String,
    /// The subagent it came from; none for the main thread.
    pub agent: Option<String>,
    /// The prompt it belongs to.
    pub prompt_id: Option<String>,
    /// The tool, for tool and permission events.
    pub tool: Option<String>,
    /// Keyed digest of the tool's input.
    pub digest: Option<u64>,
    /// Stop: a hook made this turn go on before.
    pub stop_hook_active: bool,
    /// How far it is believed.
    pub provenance: Provenance,
    /// How it came.
    pub via: Via,
}

/// How far an event is believed (H-44).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// The socket's peer was a child of the client that it names (H-25).
    Verified,
    /// The sender is not verified; some of what it says was confirmed.
    Corroborated {
        /// The process that it names lives and is a recognized client.
        is_client: bool,
        /// The configuration directory in whose registry the entry of that process names this session.
        registry_dir: Option<String>,
    },
    /// Nothing confirms it.
    Claimed,
}

impl HookEvent {
    /// Whether its sender was verified.
    pub fn is_verified(&self) -> bool {
        self.provenance == Provenance::Verified
    }

    /// Whether something besides the event itself shows that its harness holds its session.
    pub(crate) fn is_proved(&self) -> bool {
        match &self.provenance {
            Provenance::Verified => true,
            Provenance::Corroborated { registry_dir, .. } => registry_dir.is_some(),
            Provenance::Claimed => false,
        }
    }

    /// Whether its harness was found to be a living client, though its session is only claimed.
    pub(crate) fn has_living_client(&self) -> bool {
        matches!(self.provenance, Provenance::Corroborated { is_client: true, .. })
    }
}

/// The client's process as the hook saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Harness {
    /// The process.
    pub process: ProcessRef,
    /// Inode of its pid namespace.
    pub pid_ns: u64,
    /// Interactive or headless, where judged.
    pub kind: Option<Kind>,
}

/// A pane as the environment named it; a claim until the terminal proves it (H-16).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TmuxPane {
    /// Socket of the server.
    pub socket: String,
    /// The server; start time 0 where it could not be read.
    pub server: ProcessRef,
    /// Pane id.
    pub pane: String,
}

/// The hook events that the rules tell apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookKind {
    /// A session begins or goes on.
    SessionStart(StartSource),
    /// A session ends.
    SessionEnd(EndReason),
    /// A prompt was submitted.
    UserPromptSubmit,
    /// A tool is about to run, ran, or failed.
    Tool(ToolPhase),
    /// A turn ended.
    Stop(Background),
    /// A turn ended with an API error: its typed name.
    StopFailure(String),
    /// A permission, question or plan dialog is about to be shown.
    PermissionRequest,
    /// Auto mode refused a call.
    PermissionDenied,
    /// A notification: its type.
    Notification(String),
    /// A subagent ended.
    SubagentStop,
    /// Anything else: a sign of life, with its name.
    Other(String),
}

/// Which tool event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolPhase {
    /// PreToolUse.
    Before,
    /// PostToolUse.
    After,
    /// PostToolUseFailure.
    Failed,
}

/// SessionStart's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartSource {
    /// A new conversation.
    Startup,
    /// An old conversation goes on.
    Resume,
    /// The conversation was cleared: a new id in the same process.
    Clear,
    /// The conversation was compacted: same id, perhaps in the middle of a turn.
    Compact,
    /// A copy of a conversation under a new id.
    Fork,
    /// A word this version does not know.
    Unknown,
}

/// SessionEnd's reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// /exit, Ctrl-C twice, Ctrl-D twice.
    PromptInputExit,
    /// Logged out.
    Logout,
    /// Cleared; the same process goes on under a new id.
    Clear,
    /// The process went over to another conversation.
    Resume,
    /// End of a `-p` run, SIGTERM, SIGHUP, a closed pane.
    Other,
}

/// Work that outlives its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Background {
    /// Background tasks other than subagents.
    pub tasks: u32,
    /// Background subagents.
    pub subagents: u32,
    /// Scheduled wake-ups.
    pub crons: u32,
}

impl Background {
    /// Whether there is any.
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// What a look at a process's registry entry found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registry {
    /// The entry of exactly this process.
    Present(RegistryEntry),
    /// The directory is there, the entry is not.
    Absent,
    /// No registry, or not to be read, or of an unknown shape.
    Unreadable,
}

/// One entry of the client's registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryEntry {
    /// The session it names.
    pub session_id: String,
    /// The client's own status, if its word is a known one (H-35: another word is no source).
    pub status: Option<RegistryStatus>,
    /// When the client last changed the status, milliseconds since 1970; 0 where it does not say.
    pub changed_ms: u64,
    /// Owned by the client's own background supervisor.
    pub is_foreign: bool,
    /// Its process lives, and its program is not recognized as a client (H-46).
    pub is_unrecognized: bool,
    /// Its working directory.
    pub cwd: String,
    /// The configuration directory whose registry has it.
    pub config_dir: String,
}

/// The client's own status words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistryStatus {
    /// At its prompt.
    Idle,
    /// A turn, a tool, a retry, a compaction, or a background subagent.
    Busy,
    /// A background shell after the turn.
    Shell,
    /// A permission dialog is open.
    WaitingPermission,
    /// A question, a plan, or a dialog of the client's own is open.
    WaitingInput,
}

/// What a look at a process's pane found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaneFound {
    /// The pane whose terminal is the process's own.
    Its(PaneSeen),
    /// Its server has no pane on the process's terminal.
    NotThere,
    /// No answer, or one that may not be asked for.
    Unreadable {
        /// Why, in words.
        why: String,
    },
}

/// A proved pane and what stands on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneSeen {
    /// Which pane, proved by its terminal and not by what an environment claims.
    pub pane: TmuxPane,
    /// What stays the same while it is the same pane.
    pub proof: PaneProof,
    /// The class of its screen, if it fits one.
    pub screen: Option<Screen>,
    /// The session id of the client's farewell, if that is the last thing on it.
    pub farewell: Option<String>,
    /// The name of a crash signature on it (S0-01).
    pub signature: Option<String>,
    /// A hash of its text without what moves by itself (S1-04); none where there is no text.
    pub digest: Option<u64>,
}

/// What makes a pane the same pane (H-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PaneProof {
    /// Its first process.
    pub pane_pid: u32,
    /// Its terminal's device number.
    pub tty: u64,
}

impl HookKind {
    /// The client's own name of the event.
    pub fn name(&self) -> &str {
        match self {
            Self::SessionStart(_) => "SessionStart",
            Self::SessionEnd(_) => "SessionEnd",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Tool(ToolPhase::Before) => "PreToolUse",
            Self::Tool(ToolPhase::After) => "PostToolUse",
            Self::Tool(ToolPhase::Failed) => "PostToolUseFailure",
            Self::Stop(_) => "Stop",
            Self::StopFailure(_) => "StopFailure",
            Self::PermissionRequest => "PermissionRequest",
            Self::PermissionDenied => "PermissionDenied",
            Self::Notification(_) => "Notification",
            Self::SubagentStop => "SubagentStop",
            Self::Other(name) => name,
        }
    }
}
