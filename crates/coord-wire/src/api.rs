//! Small types of the HTTP API over the socket.

use serde::{Deserialize, Serialize};

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
    /// Violations of invariants counted so far; must read 0.
    pub invariant_violations: u64,
    /// What is wrong, in words.
    pub problems: Vec<String>,
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
}
