//! Hook events: what a session reported, and how far it is believed.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::{Kind, ProcessRef, TmuxPane};

/// Id of a hook's event: 128 bit, ordered by time of emission.
pub type EventId = u128;

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

impl HookEvent {
    /// Whether its sender was verified.
    pub fn is_verified(&self) -> bool {
        self.provenance == Provenance::Verified
    }

    /// Whether something besides the event itself shows that its harness holds its session.
    pub fn is_proved(&self) -> bool {
        match &self.provenance {
            Provenance::Verified => true,
            Provenance::Corroborated { registry_dir, .. } => registry_dir.is_some(),
            Provenance::Claimed => false,
        }
    }

    /// Whether its harness was found to be a living client, though its session is only claimed.
    pub fn has_living_client(&self) -> bool {
        matches!(self.provenance, Provenance::Corroborated { is_client: true, .. })
    }
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
