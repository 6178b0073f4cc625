//! What stands at the end of a conversation, as its transcript tells. Decides nothing; no text is kept
//! (G11, H-40).

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// What was read there.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LastWords {
    /// The API error that is its newest word.
    pub failure: Option<Failure>,
    /// What the agent's last message asks for, where that is the newest word and has the shape of a
    /// prompt.
    pub question: Option<Question>,
    /// Tokens that the newest request held, the answer to it included.
    pub context_tokens: Option<u64>,
    /// When the agent's last message was written, milliseconds since 1970; none where it does not say.
    #[serde(default)]
    pub written_ms: Option<u64>,
}

/// An API error that ended a turn, as the client wrote it down itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// The client's typed name: the one that StopFailure has.
    pub error: String,
    /// When the client wrote it down, milliseconds since 1970; 0 where it does not say.
    #[serde(default)]
    pub written_ms: u64,
    /// When a usage limit ends, milliseconds since 1970, where the API said so (S1-22).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_ms: Option<u64>,
}

/// What a message of the agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Question {
    /// It speaks of a limit: no question, whatever else stands there (S1-13).
    Limit,
    /// To be told to continue (S1-09).
    Continue,
    /// `(y/n)`, in one of its four spellings (S1-10).
    YesNo,
    /// Whether to proceed (S1-11).
    Proceed,
}
