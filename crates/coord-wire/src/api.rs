//! Small types of the HTTP API over the socket.

use crate::inspect::Where;
use crate::paths::Paths;
use crate::question::QuestionAnswer;
use coord_model::{
    MarkChange, NeedId, NeedKind, Place, ProcessRef, ReplyKind, ReplyOutcome, RequestId,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// The answer to `GET /healthz`, which shows progress and not only that the process is alive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Health {
    /// `ok`, or `degraded` with the reasons in `problems`.
    pub status: String,
    /// The coordinator's pid.
    pub pid: u32,
    /// The coordinator's version.
    pub version: String,
    /// Seconds since the coordinator started.
    pub uptime_s: u64,
    /// `observe`, `signature` or `act`.
    pub mode: String,
    /// The last position of the journal.
    pub seq: u64,
    /// Milliseconds since the last sync of the journal while something waits for one; 0 when everything
    /// is synced.
    pub unsynced_ms: u64,
    /// Milliseconds by which the oldest due timer is late; 0 when none is due.
    pub timer_late_ms: u64,
    /// Events in the spool that are not in the journal yet.
    pub spool_pending: u64,
    /// Known sessions.
    pub sessions: u64,
    /// Living sessions that nobody watches.
    #[serde(default)]
    pub unattended: u64,
    /// Records of unverified sessions that were dropped because there were too many.
    #[serde(default)]
    pub records_dropped: u64,
    /// Events of which only the number was recorded.
    #[serde(default)]
    pub events_counted: u64,
    /// Violations of invariants so far; 0 unless coord has a bug.
    pub invariant_violations: u64,
    /// Present problems, in words.
    pub problems: Vec<String>,
    /// The channels through which people are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<ChannelHealth>,
    /// When the configuration last changed while the coordinator ran, in the format of RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_changed_at: Option<String>,
    /// What changed then: key, old value and new value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_changes: Vec<String>,
}

/// How a channel works through which people are told (N-03).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChannelHealth {
    /// Its name in the configuration.
    pub channel: String,
    /// Notices that stand in it, or wait to be told.
    pub open: u32,
    /// Why nobody is told through it; none while it works, or was not used yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
    /// Since when, in the format of RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<String>,
}

/// The body of every error answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// The error.
    pub error: ErrorBody,
}

/// What went wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    /// A stable code for programs.
    pub code: String,
    /// One line for people.
    pub message: String,
}

/// The body of `POST /v1/passphrase`, which unlocks the caller's terminal (H-22, A-08). It cannot be printed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassphraseTry<'a> {
    /// The passphrase in clear text.
    #[serde(borrow)]
    pub passphrase: Cow<'a, str>,
}

/// The answer to `GET /v1/passphrase`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassphraseStatus {
    /// Whether a passphrase is set, in a file that can be used.
    pub is_set: bool,
    /// Whether the caller's terminal is unlocked.
    pub is_unlocked: bool,
    /// Wrong passphrases that were given since the coordinator started.
    pub wrong_tries: u64,
    /// Why the file of the passphrase cannot be used, and what to do, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The body of `POST /v1/operator`: what a person asks for with `coordctl` (H-22).
///
/// A request with an unknown field is refused, so that an order is not carried out without a limit that
/// the field would have set.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRequest {
    /// What is asked for.
    pub verb: OperatorVerb,
    /// The sessions that it is about, by ids or beginnings of ids, in this order.
    #[serde(default)]
    pub sessions: Vec<String>,
    /// Whether it is about all sessions: `hold`, `release` and `reset_failed`.
    #[serde(default)]
    pub all: bool,
    /// `hold`: duration in milliseconds; without it, the hold lasts until it is released.
    #[serde(default)]
    pub for_ms: Option<u64>,
    /// `recover`: whether the process of a living session is ended for it (H-53).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub restart: bool,
    /// `recover` with `restart`: whether the order waits until the session is idle. Otherwise it expires
    /// after 10 s.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub when_idle: bool,
    /// `attend`: the marks to change.
    #[serde(default)]
    pub marks: MarkChange,
    /// `attend`: the absolute path of a directory; it is about every session started there, now and
    /// later.
    #[serde(default)]
    pub directory: Option<String>,
    /// Whether nothing is changed or recorded; the answer then says what would happen.
    #[serde(default)]
    pub dry_run: bool,
}

impl OperatorRequest {
    /// Creates a request that names no sessions yet.
    pub fn new(verb: OperatorVerb) -> Self {
        Self {
            verb,
            sessions: Vec::new(),
            all: false,
            for_ms: None,
            restart: false,
            when_idle: false,
            marks: MarkChange::default(),
            directory: None,
            dry_run: false,
        }
    }
}

/// The verbs of [`OperatorRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorVerb {
    /// Suspends all actions on a session.
    Hold,
    /// Ends a hold.
    Release,
    /// Changes the marks of a session or a directory.
    Attend,
    /// Recovers a session now.
    Recover,
    /// Recovers the sessions that a host event interrupted, one after the other (S0-25f).
    Restore,
    /// Hides a need until it ends; the one session is the id of the need, or a session with one need (U-01).
    Dismiss,
    /// Clears `needs_operator`, and the limits that led to it (G5).
    ResetFailed,
}

/// The answer to [`OperatorRequest`], once the request is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorAnswer {
    /// What was asked for, in one line for people.
    pub what: String,
    /// One result for each session that the request names, or one for all sessions or a directory.
    pub results: Vec<OperatorResult>,
}

/// [`OperatorResult::outcome`]: the request is recorded; `coord explain` shows what follows.
pub const ACCEPTED: &str = "accepted";
/// [`OperatorResult::outcome`]: a guard prevents it, also in a dry run; nothing is done.
pub const REFUSED: &str = "refused";
/// [`OperatorResult::outcome`]: nothing prevents it, and nothing was changed.
pub const DRY_RUN: &str = "dry_run";

/// The result of a request for one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorResult {
    /// The session; none if the request is about all sessions or a directory.
    pub session_id: Option<String>,
    /// The name of the session, if it has one.
    pub name: Option<String>,
    /// [`ACCEPTED`], [`REFUSED`] or [`DRY_RUN`].
    pub outcome: String,
    /// What follows, or would follow, in words.
    pub would: String,
    /// The requirement id of the rule that refuses it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// The content of `install.json`: how and for whom coord was installed. A hook starts a coordinator only
/// where all of it still applies (H-15), and with these absolute paths (H-41).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallRecord {
    /// The version of the record: 1.
    pub v: u32,
    /// Absolute path of `coord`.
    pub coord: String,
    /// Machine id.
    pub machine: String,
    /// User id.
    pub uid: u32,
    /// Inode number of the pid namespace.
    pub pid_ns: u64,
    /// The root with which the hooks were registered; none means the XDG directories.
    pub root: Option<String>,
    /// Absolute path of tmux, as found in the PATH of the installing user (H-24); none if there was
    /// none.
    #[serde(default)]
    pub tmux: Option<String>,
    /// Absolute path of `notify-send`, found in the same way.
    #[serde(default)]
    pub notify_send: Option<String>,
    /// Absolute path of git, found in the same way.
    #[serde(default)]
    pub git: Option<String>,
    /// The values of [`RECORDED_VARIABLES`] at the installation. A coordinator that a hook starts gets
    /// these instead of the session's (H-48). Empty in the record of an earlier version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The executable or script of the client that a shell would start, with links resolved (H-46); none
    /// if there was none.
    #[serde(default)]
    pub client: Option<String>,
}

/// The variables that decide where coord's files are, and where it looks for those of other programs.
pub const RECORDED_VARIABLES: [&str; 7] = [
    "HOME",
    "TMUX_TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

impl InstallRecord {
    /// The directories in force at the installation; none in the record of an earlier version.
    pub fn paths(&self) -> Option<Paths> {
        if self.environment.is_empty() {
            return None;
        }
        let root = self.root.as_deref().map(Path::new);
        let variable = |name: &str| self.environment.get(name).map(OsString::from);
        Paths::resolve(root, &self.machine, self.uid, variable).ok()
    }
}

/// The body of `POST /v1/resume/NONCE`: the process that becomes the session's client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeClaim {
    /// The process's pid.
    pub pid: u32,
    /// The process's start time, in clock ticks since boot.
    pub start_time: u64,
}

impl ResumeClaim {
    /// The process.
    pub fn process(&self) -> ProcessRef {
        ProcessRef { pid: self.pid, start_time: self.start_time }
    }
}

/// The answer: how the process becomes the client (S0-25a, S0-25d).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeOrder {
    /// The session to resume.
    pub session_id: String,
    /// The program and arguments to execute.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: Place,
    /// The value of CLAUDE_CONFIG_DIR; none if it must be unset.
    pub config_dir: Option<String>,
    /// The configuration directory that the client will use.
    pub config_dir_in_use: String,
    /// Names of the variables with which the session chose its account, endpoint or configuration.
    pub variables: Vec<String>,
}

/// The code of an answer with status 401: the passphrase has to be given on the caller's terminal first.
pub const PASSPHRASE_NEEDED: &str = "passphrase_needed";

/// The body of `POST /v1/requests`: a hook asks to wait for a person's reply.
#[derive(Debug, Clone, Deserialize)]
pub struct RequestAsk {
    /// The request: the id of the event that the hook reported.
    pub request: RequestId,
    /// The session.
    pub session_id: String,
    /// The client that started the hook.
    pub harness: ProcessRef,
    /// The hook.
    pub hook: ProcessRef,
    /// Whether the client shows a dialog while the hook waits (H-38).
    pub has_dialog: bool,
    /// The tool's input as the client gave it; none if it is too long to be shown whole. It is in memory only.
    #[serde(default)]
    pub input: Option<Box<RawValue>>,
}

/// The answer to `GET /v1/requests`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenRequests {
    /// When it was answered, milliseconds since 1970.
    pub now_ms: u64,
    /// The open prompts.
    pub requests: Vec<OpenRequest>,
}

/// An open prompt of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Its id, `r_…`; none if no hook reported it.
    pub id: Option<String>,
    /// The need that it is.
    pub need: NeedId,
    /// What is asked for.
    pub kind: NeedKind,
    /// The session.
    pub session_id: String,
    /// The session's name, or the beginning of its id.
    pub name: String,
    /// The session's directory.
    pub cwd: String,
    /// The tool; empty if it is not known.
    pub tool: String,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// The hook that waits for a reply; none if none does.
    pub hook: Option<ProcessRef>,
    /// The tool's exact input; none if no hook waits, or if it is too long to be shown whole.
    pub input: Option<Box<RawValue>>,
    /// Why only its terminal can answer it; none if a reply can be sent.
    pub why_not: Option<String>,
    /// Where the session is; none from an older coordinator.
    #[serde(rename = "where", default)]
    pub place: Option<Where>,
    /// The subagent that asks: its type, else its id; none for the main agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// For how long the hook goes on to wait, in milliseconds; none if none waits.
    #[serde(default)]
    pub left_ms: Option<u64>,
}

/// The body of `POST /v1/needs/{id}/decision`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// The hook whose input was shown: a reply is for it alone (H-23).
    pub hook: ProcessRef,
    /// The reply.
    pub reply: ReplyKind,
    /// What the agent reads of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// One for each question of the request, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<QuestionAnswer>,
}

/// The answer to `GET /v1/needs/{id}/decision`: what became of the newest reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyShown {
    /// Whether the prompt is still open.
    pub is_open: bool,
    /// Whether the transcript can show how the call was decided.
    pub can_be_proved: bool,
    /// What became of it; none while that is not known.
    pub outcome: Option<ReplyOutcome>,
}
