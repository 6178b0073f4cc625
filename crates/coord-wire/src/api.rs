//! Small types of the HTTP API over the socket.

use crate::paths::Paths;
use coord_model::{MarkChange, Place, ProcessRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// `GET /healthz`: progress, not only liveness.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Health {
    /// `ok`, or `degraded` with the reasons in `problems`.
    pub status: String,
    /// The coordinator's pid.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// `observe`, `signature` or `act`.
    pub mode: String,
    /// Last position of the journal.
    pub seq: u64,
    /// Milliseconds since the journal was last synced while something waited for it; 0 when all is.
    pub unsynced_ms: u64,
    /// Milliseconds by which the oldest due timer is late; 0 when none is.
    pub timer_late_ms: u64,
    /// Events in the spool that are not in the journal yet.
    pub spool_pending: u64,
    /// Sessions known.
    pub sessions: u64,
    /// Sessions among them that live and that nobody watches.
    #[serde(default)]
    pub unattended: u64,
    /// Records of unverified sessions that were dropped because there were too many.
    #[serde(default)]
    pub records_dropped: u64,
    /// Events of which only the count was kept.
    #[serde(default)]
    pub events_counted: u64,
    /// Violations of invariants counted so far; must read 0.
    pub invariant_violations: u64,
    /// What is wrong, in words.
    pub problems: Vec<String>,
    /// When the configuration was last changed while it ran, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_changed_at: Option<String>,
    /// What was changed then: key, old value, new value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_changes: Vec<String>,
}

/// The one form of every error answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// The error.
    pub error: ErrorBody,
}

/// What went wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    /// A stable word for programs.
    pub code: String,
    /// One line for people.
    pub message: String,
}

/// `POST /v1/operator`: what a person asks for by `coordctl` (H-22).
///
/// A field that is not known here is refused: what it would have limited is not done unlimited.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRequest {
    /// What is asked for.
    pub verb: OperatorVerb,
    /// The sessions it is about, by their ids or the beginnings of these; in this order.
    #[serde(default)]
    pub sessions: Vec<String>,
    /// It is about all sessions: `hold`, `release` and `reset_failed`.
    #[serde(default)]
    pub all: bool,
    /// `hold`: for so long, milliseconds; until it is released where left out.
    #[serde(default)]
    pub for_ms: Option<u64>,
    /// `recover`: a living session's process is ended for it (H-53).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub restart: bool,
    /// `recover` with `restart`: the order waits until the session is idle. Otherwise it expires after 10 s.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub when_idle: bool,
    /// `attend`: what is changed.
    #[serde(default)]
    pub marks: MarkChange,
    /// `attend`: it is about every session started in this directory, now and later; absolute.
    #[serde(default)]
    pub directory: Option<String>,
    /// Nothing is changed nor recorded; the answer says what would be.
    #[serde(default)]
    pub dry_run: bool,
}

impl OperatorRequest {
    /// A request that names nothing yet.
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
    /// Nothing acts on it.
    Hold,
    /// The end of a hold.
    Release,
    /// Marks of a session, or of a directory.
    Attend,
    /// Bring it back now.
    Recover,
    /// Bring back what a host event interrupted, one after the other (S0-25f).
    Restore,
    /// Lift `needs_operator` and the limits that led to it (G5).
    ResetFailed,
}

/// The answer to [`OperatorRequest`], once the request is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorAnswer {
    /// What was asked for, in one line for people.
    pub what: String,
    /// One for each session that it names; one for all of them, or for a directory.
    pub results: Vec<OperatorResult>,
}

/// [`OperatorResult::outcome`]: it is recorded, and what follows stands in `coord explain`.
pub const ACCEPTED: &str = "accepted";
/// [`OperatorResult::outcome`]: a guard stands against it, in a dry run too; nothing is done.
pub const REFUSED: &str = "refused";
/// [`OperatorResult::outcome`]: nothing stands against it, and nothing was changed.
pub const DRY_RUN: &str = "dry_run";

/// What a request came to for one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorResult {
    /// The session; none where it is about all of them, or a directory.
    pub session_id: Option<String>,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// [`ACCEPTED`], [`REFUSED`] or [`DRY_RUN`].
    pub outcome: String,
    /// What follows, or would follow, in words.
    pub would: String,
}

/// `install.json`: who installed coord here. A hook starts a coordinator only where all of it
/// still holds (H-15), and by these absolute paths (H-41).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallRecord {
    /// 1.
    pub v: u32,
    /// Absolute path of `coord`.
    pub coord: String,
    /// Machine id.
    pub machine: String,
    /// User id.
    pub uid: u32,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
    /// The root the hooks were registered with; none means the XDG directories.
    pub root: Option<String>,
    /// Absolute path of tmux, as the PATH of who installed had it (H-24); none if it had none.
    #[serde(default)]
    pub tmux: Option<String>,
    /// [`RECORDED_VARIABLES`] as they were at the installation. A coordinator that a hook starts gets
    /// these and not those of the session (H-48). Empty in the record of an earlier version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The executable or script of the client that a shell would start, links resolved (H-46); none if there
    /// was none.
    #[serde(default)]
    pub client: Option<String>,
}

/// The variables that decide where coord's files lie, and where it looks for those of others.
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
    /// The directories that were in force at the installation; none in the record of an earlier
    /// version.
    pub fn paths(&self) -> Option<Paths> {
        if self.environment.is_empty() {
            return None;
        }
        let root = self.root.as_deref().map(Path::new);
        let variable = |name: &str| self.environment.get(name).map(OsString::from);
        Paths::resolve(root, &self.machine, self.uid, variable).ok()
    }
}

/// `POST /v1/resume/NONCE`: who becomes the session's client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeClaim {
    /// Its pid.
    pub pid: u32,
    /// Its start time, clock ticks since boot.
    pub start_time: u64,
}

impl ResumeClaim {
    /// The process.
    pub fn process(&self) -> ProcessRef {
        ProcessRef { pid: self.pid, start_time: self.start_time }
    }
}

/// The answer: how it becomes that (S0-25a, S0-25d).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeOrder {
    /// The session.
    pub session_id: String,
    /// What to execute.
    pub argv: Vec<String>,
    /// Where.
    pub cwd: Place,
    /// CLAUDE_CONFIG_DIR; none: unset.
    pub config_dir: Option<String>,
    /// The configuration directory that the client will use.
    pub config_dir_in_use: String,
    /// Names of the variables that choose account, endpoint or configuration, as the session had them.
    pub variables: Vec<String>,
}
