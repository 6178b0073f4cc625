//! `coord inspect --json`, schema 1. Objects that do not apply are null.
//!
//! Whether a person has to act is told by one field, [`Session::need`]: an open dialog, a refused login, a
//! crash that waits for an order, a recovery that coord has given up. `status` says only whether a turn
//! is open: it is `running` while a dialog is, since the turn goes on after the answer.
//! `needs_operator` is the last of these reasons alone.

use crate::message::Totals;
use crate::run::Run;
use coord_model::{Background, Kind, SessionState, Status};
use serde::{Deserialize, Serialize};

/// Schema number of [`Inspect`].
pub const SCHEMA: u32 = 1;

/// The whole answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inspect {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The coordinator that answered, or that none did.
    pub coordinator: Coordinator,
    /// The sessions, the most recently changed first.
    pub sessions: Vec<Session>,
    /// The headless runs that `coord run` and `coord loop` supervise, the youngest first. The command line
    /// reads them from their own files; the coordinator's answer has none.
    #[serde(default)]
    pub runs: Vec<Run>,
}

/// The coordinator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Coordinator {
    /// Whether one answered.
    pub running: bool,
    /// Its pid; 0 where none answered.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// Events in the spool that are not in the journal yet.
    pub spool_pending: u64,
    /// Violations of invariants counted so far; must read 0.
    pub invariant_violations: u64,
    /// What it may do: `observe`, `signature` or `act`.
    #[serde(default)]
    pub mode: String,
    /// What is wrong with the store or the reporting channel, in words; empty when all is well.
    #[serde(default)]
    pub problems: Vec<String>,
    /// How many messages are where (S4-18); none where only a part of the store was read.
    #[serde(default)]
    pub messages: Option<Totals>,
}

/// One session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    /// The id that resumes it now.
    pub session_id: String,
    /// Ids it had before, oldest first.
    pub previous_ids: Vec<String>,
    /// The session it was forked from.
    pub forked_from: Option<String>,
    /// Host it runs on.
    pub host: String,
    /// Claude Code's configuration directory.
    pub config_dir: String,
    /// Whether a resume has something to resume.
    pub resumable: bool,
    /// Name given by its operator.
    pub name: Option<String>,
    /// `claude`.
    pub provider: String,
    /// Interactive or headless; null where nothing tells.
    pub kind: Option<Kind>,
    /// The hook-level fact.
    pub status: Status,
    /// The one word for people.
    pub state: SessionState,
    /// Since when, RFC 3339.
    pub since: String,
    /// Why this state, in words.
    #[serde(default)]
    pub because: String,
    /// Requirement id of the rule that gave it.
    #[serde(default)]
    pub rule: String,
    /// What would change it, in words.
    #[serde(default)]
    pub changes_when: String,
    /// The open permission dialog.
    pub awaiting_permission: Option<AwaitingPermission>,
    /// The recovery that waits.
    pub pending_recovery: Option<PendingRecovery>,
    /// Recoveries so far.
    pub recovery: Recovery,
    /// The quota it waits for.
    pub quota: Option<Quota>,
    /// Work that goes on without a turn.
    pub background: Option<Background>,
    /// Unchanged captures in a row.
    pub stall_count: u32,
    /// Marked as unattended.
    pub unattended: bool,
    /// Answers that were given to its agent's prompts; none where none are.
    #[serde(default)]
    pub answers: Option<Answers>,
    /// Its task; none without a task directory.
    #[serde(default)]
    pub task: Option<Task>,
    /// The session that started it.
    pub parent: Option<String>,
    /// Why a person has to act now; null where nobody has to.
    #[serde(default)]
    pub need: Option<Need>,
    /// What coord has given up until a person says `coordctl reset-failed`.
    pub needs_operator: Option<NeedsOperator>,
    /// Nothing acts while this holds.
    pub hold: Option<Hold>,
    /// Sources that contradict each other.
    pub disagreement: Option<Disagreement>,
    /// The process that holds the session.
    pub owner: Option<Owner>,
    /// Its pane.
    pub tmux: Option<Tmux>,
    /// Working directory.
    pub cwd: String,
    /// Transcript file.
    pub transcript_path: String,
    /// Permission mode last seen.
    pub permission_mode: Option<String>,
    /// The newest event.
    pub last_event: Option<LastEvent>,
    /// What the state rests on.
    pub evidence: Vec<Evidence>,
    /// Messages to it.
    pub messages: Messages,
}

/// Answers to an agent's prompts (S1-09 to S1-11, S1-15).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answers {
    /// In this iteration.
    pub this_iteration: u32,
    /// In all.
    pub total: u32,
    /// Whether its questions are answered too, and not only prompts to continue.
    pub questions: bool,
}

/// A session's task (S1-15, S1-16).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Its directory.
    pub dir: String,
    /// Whether an `.auto-stop` stands there.
    pub stopped: bool,
}

/// An open permission dialog.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AwaitingPermission {
    /// Since when.
    pub since: String,
    /// For which tool.
    pub tool: String,
}

/// A recovery that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PendingRecovery {
    /// What was detected.
    pub cause: String,
    /// When.
    pub detected_at: String,
    /// Attempts so far.
    pub attempts: u32,
    /// When the next attempt is due.
    pub next_attempt_at: Option<String>,
}

/// Recoveries so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// In this turn.
    pub this_turn: u32,
    /// In all.
    pub total: u32,
    /// When the last one was.
    pub last_at: Option<String>,
    /// How it ended: `verified`, `closed`, `failed` or `observed`.
    pub last_outcome: Option<String>,
    /// Prompts that arrived while coord ended its process, and may be lost (H-53).
    #[serde(default)]
    pub harmed_prompts: u32,
    /// Why it was closed or failed, in words.
    #[serde(default)]
    pub last_reason: Option<String>,
    /// Detections that were dropped because the last attempt was a moment before (S0-14).
    #[serde(default)]
    pub dropped: u32,
}

/// A quota wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Quota {
    /// Which limit.
    pub kind: String,
    /// Since when.
    pub since: String,
    /// Until when, where known.
    pub until: Option<String>,
    /// Who said so.
    pub source: String,
}

/// Why a person has to act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// `permission`, `question`, `login`, `billing`, `crashed`, `interrupted`, `stalled` or
    /// `needs_operator`.
    pub kind: String,
    /// Since when.
    pub since: String,
    /// Why, in words.
    pub text: String,
    /// The command that helps; null where the answer is given in the session itself.
    pub command: Option<String>,
}

/// What coord has given up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NeedsOperator {
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: String,
}

/// Nothing acts while this holds (G12).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hold {
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: String,
    /// The hard cap, or when it is looked at again; null: until something happens.
    pub until: Option<String>,
}

/// Sources that contradict each other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Disagreement {
    /// Which.
    pub sources: Vec<String>,
    /// Since when.
    pub since: String,
}

/// The process that holds a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Owner {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    #[serde(with = "coord_model::ticks")]
    pub start_time: u64,
    /// Whether it is alive; null where that is not known.
    pub alive: Option<bool>,
}

/// A pane.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tmux {
    /// The server's socket.
    pub socket: String,
    /// Pane id.
    pub pane: String,
}

/// The newest event of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LastEvent {
    /// Its name.
    pub name: String,
    /// When.
    pub at: String,
    /// hook, registry, process, pane, transcript, stream or operator.
    pub source: String,
}

/// A fact the state rests on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evidence {
    /// The fact.
    pub fact: String,
    /// Who said so.
    pub source: String,
    /// When.
    pub at: String,
    /// Its age in seconds at the time of the answer.
    pub age_s: u64,
}

/// Messages to a session.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Messages {
    /// Not handed out yet.
    pub pending: u64,
    /// Handed out, fate not known yet.
    pub processing: u64,
    /// Given up.
    pub failed: u64,
}
