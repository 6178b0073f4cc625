//! The answer of `coord inspect --json`, schema 1. Objects that do not apply are null.
//!
//! Whether a person has to act is in one field, [`Session::need`]: an open dialog, a refused login, a
//! crash that waits for an order, or a recovery that coord has given up. `status` says only whether a
//! turn is open: it is `running` during a dialog, since the turn continues after the answer.
//! `needs_operator` is only the last of these reasons.

use crate::message::Totals;
use crate::run::Run;
use crate::usage::{Account, Usage};
use coord_model::{
    Background, Kind, MachineId, NameSource, SessionKey, SessionState, Status, Work,
};
use serde::{Deserialize, Serialize};

/// Schema number of [`Inspect`].
pub const SCHEMA: u32 = 1;

/// The whole answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Inspect {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The coordinator that answered, or that none did.
    pub coordinator: Coordinator,
    /// The sessions, the most recently changed first.
    pub sessions: Vec<Session>,
    /// What the accounts have left, by configuration directory.
    #[serde(default)]
    pub accounts: Vec<Account>,
    /// The headless runs that `coord run` and `coord loop` supervise, the newest first. The command line
    /// reads them from their own files; the coordinator's answer contains none.
    #[serde(default)]
    pub runs: Vec<Run>,
}

/// The coordinator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Coordinator {
    /// Whether a coordinator answered.
    pub running: bool,
    /// Its pid; 0 if none answered.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Seconds since the coordinator started.
    pub uptime_s: u64,
    /// Events in the spool that are not in the journal yet.
    pub spool_pending: u64,
    /// Violations of invariants so far; 0 unless coord has a bug.
    pub invariant_violations: u64,
    /// What the coordinator may do: `observe`, `signature` or `act`.
    #[serde(default)]
    pub mode: String,
    /// Problems of the store or the reporting channel, in words; empty if there are none.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Numbers of messages by state (S4-18); none if only a part of the store was read.
    #[serde(default)]
    pub messages: Option<Totals>,
}

/// How a session of another machine is known. Empty for a session of this one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Elsewhere {
    /// Its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineId>,
    /// How long ago that machine was heard, milliseconds; null if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_age_ms: Option<u64>,
    /// The state that was known last, if the machine is silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_known: Option<SessionState>,
}

/// One session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    /// The id with which the session can be resumed now.
    pub session_id: String,
    /// The number of its record, which stays while the id changes; messages in the history name it.
    #[serde(default)]
    pub key: Option<SessionKey>,
    /// The session's earlier ids, oldest first.
    pub previous_ids: Vec<String>,
    /// The session from which it was forked.
    pub forked_from: Option<String>,
    /// The host on which it runs.
    pub host: String,
    /// Of a session of another machine of the fleet: how it is known (F-02).
    #[serde(flatten)]
    pub elsewhere: Elsewhere,
    /// The client's configuration directory.
    pub config_dir: String,
    /// Whether there is anything to resume.
    pub resumable: bool,
    /// The name that its user gave it; null if nobody gave one.
    pub name: Option<String>,
    /// The name that is shown: the given one, else the client's own, else that of the directory. A session of
    /// which only unverified events tell has none.
    #[serde(default)]
    pub display_name: Option<String>,
    /// Where `display_name` comes from.
    #[serde(default)]
    pub name_source: Option<NameSource>,
    /// The client: `claude`.
    pub provider: String,
    /// Interactive or headless; null if unknown.
    pub kind: Option<Kind>,
    /// Whether a turn is open, as the hooks report it.
    pub status: Status,
    /// The state in one word, for people.
    pub state: SessionState,
    /// Since when, in the format of RFC 3339.
    pub since: String,
    /// Why the session is in this state, in words.
    #[serde(default)]
    pub because: String,
    /// Requirement id of the rule that determined the state.
    #[serde(default)]
    pub rule: String,
    /// What would change the state, in words.
    #[serde(default)]
    pub changes_when: String,
    /// The open permission dialog.
    pub awaiting_permission: Option<AwaitingPermission>,
    /// The pending recovery.
    pub pending_recovery: Option<PendingRecovery>,
    /// The recoveries so far.
    pub recovery: Recovery,
    /// The usage limit that the session waits for.
    pub quota: Option<Quota>,
    /// What the session uses: model, context, cost, and its account's limits; null if nothing is known.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Work that continues without a turn.
    pub background: Option<Background>,
    /// Unchanged captures in a row.
    pub stall_count: u32,
    /// Whether the session is marked as unattended.
    pub unattended: bool,
    /// Answers that were given to the agent's prompts; none if none are given.
    #[serde(default)]
    pub answers: Option<Answers>,
    /// The session's task; none without a task directory.
    #[serde(default)]
    pub task: Option<Task>,
    /// The session that started this one.
    pub parent: Option<String>,
    /// Why a person has to act now: the oldest of `needs`; null if nobody has to.
    #[serde(default)]
    pub need: Option<Need>,
    /// All reasons why a person has to act, the oldest first. Dismissed ones are left out.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// What coord has given up until a person runs `coordctl reset-failed`.
    pub needs_operator: Option<NeedsOperator>,
    /// What suspends all actions on the session.
    pub hold: Option<Hold>,
    /// Sources that contradict each other.
    pub disagreement: Option<Disagreement>,
    /// The process that holds the session.
    pub owner: Option<Owner>,
    /// The session's pane.
    pub tmux: Option<Tmux>,
    /// Where the session is, for people.
    #[serde(default, rename = "where")]
    pub place: Option<Where>,
    /// The tool call of the main thread that is open; null if none is known.
    #[serde(default)]
    pub open_tool: Option<OpenTool>,
    /// The subagents of its newest turn and those in the background, the oldest first.
    #[serde(default)]
    pub subagents: Vec<Subagent>,
    /// The working directory.
    pub cwd: String,
    /// The repository that it works in; only where one session is asked for, and null without one.
    #[serde(default)]
    pub git: Option<Git>,
    /// The path of the transcript.
    pub transcript_path: String,
    /// The permission mode as last seen.
    pub permission_mode: Option<String>,
    /// The newest event.
    pub last_event: Option<LastEvent>,
    /// The facts on which the state is based.
    pub evidence: Vec<Evidence>,
    /// Numbers of messages to the session.
    pub messages: Messages,
}

/// The repository of a session's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Git {
    /// When it was looked at, in the format of RFC 3339.
    pub at: String,
    /// What the look found.
    #[serde(flatten)]
    pub work: Work,
}

/// A subagent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Subagent {
    /// Its type, such as `Explore`; empty if unknown.
    pub name: String,
    /// The client's id of it.
    pub id: String,
    /// What it does.
    pub state: SubagentState,
    /// When it was first heard of.
    pub since: String,
}

/// What a subagent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentState {
    /// It works.
    Running,
    /// It ended.
    Done,
    /// No hook told of its end, and nothing shows that it works.
    Unknown,
}

/// Answers to an agent's prompts (S1-09 to S1-11, S1-15).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answers {
    /// Answers in this iteration.
    pub this_iteration: u32,
    /// Answers in all.
    pub total: u32,
    /// Whether the agent's questions are answered too, and not only prompts to continue.
    pub questions: bool,
}

/// A session's task (S1-15, S1-16).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The task directory.
    pub dir: String,
    /// Whether the directory contains an `.auto-stop`.
    pub stopped: bool,
}

/// An open permission dialog.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AwaitingPermission {
    /// Since when the dialog is open.
    pub since: String,
    /// The tool that needs permission.
    pub tool: String,
}

/// A pending recovery.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PendingRecovery {
    /// What was detected.
    pub cause: String,
    /// When it was detected.
    pub detected_at: String,
    /// Attempts so far.
    pub attempts: u32,
    /// When the next attempt is due.
    pub next_attempt_at: Option<String>,
    /// What the recovery waits for, in words; null while a step is in progress.
    #[serde(default)]
    pub waits_for: Option<String>,
    /// Whether it waits until a person acts: releases a hold, resets a limit, or goes to the terminal.
    #[serde(default)]
    pub waits_for_person: bool,
}

/// Recoveries so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// Recoveries in this turn.
    pub this_turn: u32,
    /// Recoveries in all.
    pub total: u32,
    /// When the last recovery was.
    pub last_at: Option<String>,
    /// How the last recovery ended: `verified`, `closed`, `failed` or `observed`.
    pub last_outcome: Option<String>,
    /// Prompts that arrived while coord ended the session's process, and that may be lost (H-53).
    #[serde(default)]
    pub harmed_prompts: u32,
    /// Why the last recovery was closed or failed, in words.
    #[serde(default)]
    pub last_reason: Option<String>,
    /// Detections that were dropped because the last attempt was a moment earlier (S0-14).
    #[serde(default)]
    pub dropped: u32,
}

/// A wait for a usage limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Quota {
    /// Which limit.
    pub kind: String,
    /// Since when the session waits.
    pub since: String,
    /// When the limit resets, if known.
    pub until: Option<String>,
    /// The source of the reset time.
    pub source: String,
}

/// Why a person has to act (U-01).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The id of the need, as `coordctl dismiss` takes it.
    #[serde(default)]
    pub id: String,
    /// `permission`, `question`, `plan`, `dialog`, `login`, `billing`, `usage_limit`, `crashed`, `interrupted`,
    /// `needs_operator`, `stalled` or `two_owners`.
    pub kind: String,
    /// Since when.
    pub since: String,
    /// Why, in words that follow the session's name.
    pub text: String,
    /// The command that helps; null if the person has to act in the session itself.
    pub command: Option<String>,
    /// The prompt's request, `r_…`, if it can be answered from elsewhere now; else null.
    #[serde(default)]
    pub request: Option<String>,
}

/// Where a session is, for people (U-04).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Where {
    /// `tmux`, `headless`, `elsewhere` or `directory`.
    pub kind: String,
    /// tmux's `session:window.pane`, `headless`, the host, or the directory.
    pub text: String,
    /// The socket of the tmux server; null if the session is not in tmux.
    pub server: Option<String>,
}

/// A tool call that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTool {
    /// The tool.
    pub name: String,
    /// Since when.
    pub since: String,
}

/// What coord has given up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NeedsOperator {
    /// Why coord gave up.
    pub reason: String,
    /// Since when.
    pub since: String,
}

/// What suspends all actions on a session (G12).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hold {
    /// Why actions are suspended.
    pub reason: String,
    /// Since when.
    pub since: String,
    /// The hard cap, or when it is checked again; null if it lasts until something happens.
    pub until: Option<String>,
}

/// Sources that contradict each other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Disagreement {
    /// The contradicting sources.
    pub sources: Vec<String>,
    /// Since when.
    pub since: String,
}

/// The process that holds a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Owner {
    /// The pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    #[serde(with = "coord_model::ticks")]
    pub start_time: u64,
    /// Whether the process is alive; null if unknown.
    pub alive: Option<bool>,
}

/// A tmux pane.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tmux {
    /// The socket of the tmux server.
    pub socket: String,
    /// The pane id.
    pub pane: String,
    /// The pid of the server; 0 if unknown.
    #[serde(default)]
    pub server_pid: u32,
}

/// The newest event of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LastEvent {
    /// The name of the event.
    pub name: String,
    /// When the event happened.
    pub at: String,
    /// The source: hook, registry, process, pane, transcript, stream or operator.
    pub source: String,
}

/// A fact on which the state is based.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evidence {
    /// The fact.
    pub fact: String,
    /// The source of the fact.
    pub source: String,
    /// When the fact was observed.
    pub at: String,
    /// The age of the fact at the time of the answer, in seconds.
    pub age_s: u64,
}

/// Numbers of messages to a session.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Messages {
    /// Messages that were not handed out yet.
    pub pending: u64,
    /// Messages that were handed out and whose result is not known yet.
    pub processing: u64,
    /// Messages that were given up.
    pub failed: u64,
}
