//! The file of a headless run, and what `inspect` shows of it. The file consists of JSON lines. Only the
//! run's supervisor writes it, and holds it locked for life.
//!
//! The file is `state/runs/RUN_ID.jsonl`. The first line is `begin`. A `state` line follows whenever the
//! shown state changed, and a `note` whenever something was observed or decided (S3-09, S3-15, S3-16,
//! G9). A `forced` line precedes the first signal of a forced end (S3-23), and `ended` is last. No line
//! contains what the run printed.

use serde::{Deserialize, Serialize};

use coord_model::ProcessRef;

use crate::usage::{Cost, Tokens};

/// Version number of the lines.
pub const RUN_VERSION: u32 = 1;

/// Prefix of a run's id.
pub const RUN_ID_PREFIX: &str = "run_";

/// One line of the file. Unknown kinds are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunLine {
    /// What was started.
    Begin(RunBegin),
    /// The state shown from here on.
    State(RunShown),
    /// Something that was observed or decided.
    Note {
        /// When, in the format of RFC 3339.
        at: String,
        /// The name of the event.
        name: String,
        /// Whether a person should read it.
        warning: bool,
        /// What was observed, and what was decided on it.
        because: String,
    },
    /// The run is about to be ended by force.
    Forced {
        /// When, in the format of RFC 3339.
        at: String,
        /// The exit reason that will follow.
        reason: String,
        /// The conversation whose next resume has to prove itself.
        quarantine: Option<String>,
    },
    /// The run has ended.
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
    /// When the run started, in the format of RFC 3339.
    pub at: String,
    /// The name that the user gave the run.
    pub name: Option<String>,
    /// The file name of the program; its arguments may contain a prompt.
    pub program: String,
    /// `claude` or `other`.
    pub provider: String,
    /// The working directory.
    pub cwd: String,
    /// The process of the run; none if it could not be started.
    pub process: Option<ProcessRef>,
    /// The supervisor of the run.
    pub supervisor: ProcessRef,
}

/// What is shown of a run in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunShown {
    /// The lifecycle state (S3-15).
    pub state: String,
    /// When that state was entered, in the format of RFC 3339.
    pub since: String,
    /// The conversation, once the client named it.
    pub session_id: Option<String>,
    /// Result lines so far.
    pub results: u32,
    /// What the run waits for, if anything (G12).
    pub hold: Option<RunHold>,
    /// The background work that the run lists.
    pub background: RunBackground,
    /// The cost so far, as its newest result says it; none before the first result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The tokens so far, as its newest result says them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// Background work of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBackground {
    /// Number of shells and other tasks.
    pub tasks: u32,
    /// Number of subagents.
    pub subagents: u32,
}

/// Why a run has not been ended yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHold {
    /// Why.
    pub reason: String,
    /// Since when, in the format of RFC 3339.
    pub since: String,
    /// The hard cap, in the format of RFC 3339.
    pub until: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// When the run ended, in the format of RFC 3339.
    pub at: String,
    /// Why the run ended (S3-08).
    pub reason: String,
    /// How the process ended: `exit code 0`, `signal 9`.
    pub status: String,
    /// The outcome of the run (S2-18).
    pub outcome: String,
    /// The reason for the outcome.
    pub because: String,
    /// When a used-up limit resets, in the format of RFC 3339, if the stream named it.
    pub resets_at: Option<String>,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Duration of the run, in milliseconds.
    pub took_ms: u64,
    /// Processes that the run started and that were spared: pid and program (H-20).
    pub left: Vec<String>,
}

/// A run as `inspect` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// What was started.
    #[serde(flatten)]
    pub begin: RunBegin,
    /// The shown state: `state` is `unknown` if the supervisor is gone without having recorded an end.
    #[serde(flatten)]
    pub shown: RunShown,
    /// Whether the run has a supervisor.
    pub supervised: bool,
    /// How the run ended; none while it runs.
    pub exit: Option<RunEnded>,
}
