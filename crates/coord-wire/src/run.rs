//! The file of a headless run: JSON lines, written by its supervisor alone, which holds it locked for
//! life. And what `inspect` shows of it.
//!
//! `state/runs/RUN_ID.jsonl`. The first line is `begin`; a `state` line stands wherever what is shown
//! changed, a `note` wherever something was seen or decided (S3-09, S3-15, S3-16, G9), a `forced` line
//! before the first signal of a forced end (S3-23), and `ended` last. What the run printed is in none.

use serde::{Deserialize, Serialize};

use coord_model::ProcessRef;

/// Version number of the lines.
pub const RUN_VERSION: u32 = 1;

/// How the id of a run begins.
pub const RUN_ID_PREFIX: &str = "run_";

/// One line. Unknown kinds are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunLine {
    /// What was started.
    Begin(RunBegin),
    /// What is shown of it from here on.
    State(RunShown),
    /// Something that was seen or decided.
    Note {
        /// RFC 3339.
        at: String,
        /// The event's name.
        name: String,
        /// Whether somebody should read it.
        warning: bool,
        /// What was seen, and what was decided on it.
        because: String,
    },
    /// It is about to be ended.
    Forced {
        /// RFC 3339.
        at: String,
        /// The exit reason to come.
        reason: String,
        /// The conversation whose next resume has to prove itself.
        quarantine: Option<String>,
    },
    /// It is over.
    Ended(RunEnded),
    /// A line of another version.
    #[serde(other)]
    Unknown,
}

/// What was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBegin {
    /// [`RUN_VERSION`].
    pub v: u32,
    /// `run_` and 20 hexadecimal digits, ordered by time.
    pub run_id: String,
    /// RFC 3339.
    pub at: String,
    /// A name that its user gave it.
    pub name: Option<String>,
    /// The file name of the program; its arguments may hold a prompt.
    pub program: String,
    /// `claude` or `other`.
    pub provider: String,
    /// Where it runs.
    pub cwd: String,
    /// Its process; none if it could not be started.
    pub process: Option<ProcessRef>,
    /// Its supervisor.
    pub supervisor: ProcessRef,
}

/// What is shown of a run that is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunShown {
    /// The lifecycle state (S3-15).
    pub state: String,
    /// When it was entered, RFC 3339.
    pub since: String,
    /// The conversation, once the client named it.
    pub session_id: Option<String>,
    /// Result lines so far.
    pub results: u32,
    /// What it waits for, if anything (G12).
    pub hold: Option<RunHold>,
    /// The background work that it lists.
    pub background: RunBackground,
}

/// Background work of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBackground {
    /// Shells and others.
    pub tasks: u32,
    /// Subagents.
    pub subagents: u32,
}

/// Why a run is not ended yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHold {
    /// Why.
    pub reason: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// Its hard cap, RFC 3339.
    pub until: String,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// RFC 3339.
    pub at: String,
    /// Why it is over (S3-08).
    pub reason: String,
    /// How its process ended: `exit code 0`, `signal 9`.
    pub status: String,
    /// What it came to (S2-18).
    pub outcome: String,
    /// What that was judged from.
    pub because: String,
    /// When a used-up limit ends, RFC 3339, where the stream said so.
    pub resets_at: Option<String>,
    /// Bytes on its standard output.
    pub stdout_bytes: u64,
    /// Bytes on its standard error.
    pub stderr_bytes: u64,
    /// Milliseconds.
    pub took_ms: u64,
    /// What came from it and was left alone: pid and program (H-20).
    pub left: Vec<String>,
}

/// A run as `inspect` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// What was started.
    #[serde(flatten)]
    pub begin: RunBegin,
    /// What is shown of it: `state` is `unknown` where its supervisor is gone without having said how it ended.
    #[serde(flatten)]
    pub shown: RunShown,
    /// Whether its supervisor is there.
    pub supervised: bool,
    /// How it ended; none while it runs.
    pub exit: Option<RunEnded>,
}
