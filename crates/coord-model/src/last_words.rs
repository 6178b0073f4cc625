//! What the end of a conversation says, according to its transcript. Decides nothing, and keeps no text (G11,
//! H-40).

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// The end of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LastWords {
    /// The API error, if that is the newest entry.
    pub failure: Option<Failure>,
    /// What the agent's last message asks for, if that is the newest entry and has the shape of a prompt.
    pub question: Option<Question>,
    /// Number of tokens in the newest request, including the answer to it.
    pub context_tokens: Option<u64>,
    /// When the agent's last message was written, milliseconds since 1970, also if entries of its user follow; none if
    /// an API error ends it, or the entry does not say.
    #[serde(default)]
    pub written_ms: Option<u64>,
}

/// An API error that ended a turn, as the client itself wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// The client's typed name, the same as in StopFailure.
    pub error: String,
    /// When the client wrote it, milliseconds since 1970; 0 if the entry does not say.
    #[serde(default)]
    pub written_ms: u64,
    /// When a usage limit ends, milliseconds since 1970; none if the API did not say (S1-22).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_ms: Option<u64>,
}

/// What a message of the agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Question {
    /// It mentions a usage limit. That is no question, whatever else the message says (S1-13).
    Limit,
    /// The word to continue (S1-09).
    Continue,
    /// `(y/n)`, in one of its four spellings (S1-10).
    YesNo,
    /// Whether to proceed (S1-11).
    Proceed,
}
