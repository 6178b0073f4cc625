//! A person's reply to an open request of a client, given elsewhere than at its terminal.

use core::fmt;
use serde::{Deserialize, Serialize};

use crate::message::write_letters;
use crate::{EventId, NeedKind, hook};

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
    /// A question is answered.
    Answer,
    /// A plan is approved, and the session goes on in this mode.
    Approve(PlanMode),
}

impl ReplyKind {
    /// What the reply did, in the past tense.
    pub fn did(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::Deny => "denied",
            Self::Answer => "answered",
            Self::Approve(PlanMode::Default) => "approved, asking before each edit",
            Self::Approve(PlanMode::AcceptEdits) => "approved, with edits accepted",
        }
    }

    /// The verb of `coordctl` that sends it.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Allow | Self::Approve(_) => "approve",
            Self::Deny => "deny",
            Self::Answer => "answer",
        }
    }

    /// What the client notes of a call that was decided so.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Allow | Self::Answer | Self::Approve(_) => Verdict::Allow,
            Self::Deny => Verdict::Deny,
        }
    }

    /// Whether a prompt of this kind takes such a reply: a bare "allow" is not one to a question or a plan.
    pub fn answers(self, prompt: NeedKind) -> bool {
        match self {
            Self::Allow => prompt == NeedKind::Permission,
            Self::Answer => prompt == NeedKind::Question,
            Self::Approve(_) => prompt == NeedKind::Plan,
            Self::Deny => {
                matches!(prompt, NeedKind::Permission | NeedKind::Question | NeedKind::Plan)
            }
        }
    }
}

/// The permission mode in which a session goes on after its plan was approved. Without it the client returns to
/// the mode that it had before, which nobody was shown (measured).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PlanMode {
    /// Asks before each edit.
    #[serde(rename = "default")]
    Default,
    /// Edits files of the project without asking.
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
}

impl PlanMode {
    /// The client's own name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
        }
    }
}

/// What the client notes in its transcript of a call that a hook decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call was let through.
    Allow,
    /// It was not.
    Deny,
}

/// How a call was decided, as the client's transcript shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// The client notes that a hook decided it.
    ByHook(Verdict),
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
    /// The hook had ended before it could be handed the reply: nothing was sent.
    NotSent,
}
