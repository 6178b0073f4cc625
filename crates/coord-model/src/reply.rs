//! A person's reply to an open request of a client, given elsewhere than at its terminal.

use core::fmt;
use serde::{Deserialize, Serialize};

use crate::message::write_letters;
use crate::{EventId, hook};

/// A request for an answer: the hook event that reported its prompt. The id is as unique as the hook process, so a
/// reply that names it is for that process alone (H-23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(#[serde(with = "hook::id_digits")] pub EventId);

impl RequestId {
    /// The prefix of every id that people read.
    pub const PREFIX: &'static str = "r_";
}

/// `r_` and 60 of the random bits.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        write_letters(f, u64::try_from(self.0 & u128::from(u64::MAX)).unwrap_or(0))
    }
}

/// What a person replied. The texts of a denial and of answers are not included (G11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// The call may run, once.
    Allow,
    /// The call may not run.
    Deny,
}

impl ReplyKind {
    /// What the reply did, in the past tense.
    pub fn did(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::Deny => "denied",
        }
    }
}

/// How a call was decided, as the client's transcript shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// The client notes that a hook allowed it.
    ByHook(ReplyKind),
    /// The call has a result, and no such note: nobody else but the terminal decided.
    AtTerminal,
}

/// What became of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyOutcome {
    /// The client decided as replied.
    Taken,
    /// The terminal answered first: the reply changed nothing.
    TerminalFirst,
    /// The client decided otherwise, although no hook but coord's is known to have replied.
    Refused,
    /// Nothing shows that the reply reached the client.
    NotSeen,
}
