//! The history of a loop: one line per run, without a word of what it was asked or answered (S2-12).

use serde::{Deserialize, Serialize};

/// The form of these lines.
const SCHEMA: u32 = 1;

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The form of the line.
    pub schema: u32,
    /// The iteration.
    pub iteration: u32,
    /// Who.
    pub agent: String,
    /// The id of its run, if it had one.
    pub run_id: Option<String>,
    /// When it began, RFC 3339; nothing where that is not known.
    pub started: Option<String>,
    /// How long it took, milliseconds.
    pub took_ms: Option<u64>,
    /// What it came to.
    pub outcome: String,
    /// How its process ended.
    pub exit: String,
    /// Why.
    pub exit_reason: String,
    /// From what it was judged.
    pub because: String,
    /// The status word.
    pub status: Option<String>,
    /// When its used-up limit ends, RFC 3339.
    pub resets_at: Option<String>,
    /// The conversation.
    pub session_id: Option<String>,
}

impl Line {
    /// A line of which nothing is known yet but who ran.
    pub fn of(iteration: u32, agent: &str) -> Self {
        Self {
            schema: SCHEMA,
            iteration,
            agent: agent.to_owned(),
            run_id: None,
            started: None,
            took_ms: None,
            outcome: "unknown".to_owned(),
            exit: "unknown".to_owned(),
            exit_reason: "unknown".to_owned(),
            because: "the loop itself was interrupted".to_owned(),
            status: None,
            resets_at: None,
            session_id: None,
        }
    }
}
