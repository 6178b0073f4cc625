//! Messages: how one is named, whom it is for, and what happens to it.

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::{MachineId, SessionKey};

/// Number of letters after `m_` in a message's id, five bits each.
const ID_LETTERS: u32 = 12;
/// Digits and letters, without those that are easily confused.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A message's id: `m_` and 60 random bits, so that no text can name an id that it has not seen (H-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageId(u64);

impl MessageId {
    /// The prefix of every id.
    pub const PREFIX: &'static str = "m_";

    /// Makes an id from random bits.
    pub fn from_random(bits: u64) -> Self {
        Self(bits & ((1 << (5 * ID_LETTERS)) - 1))
    }

    /// Parses an id; none if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let letters = text.strip_prefix(Self::PREFIX)?;
        let is_whole = letters.len() == usize::try_from(ID_LETTERS).ok()?;
        let [from, to] = Self::beginning(letters)?;
        (is_whole && from == to).then_some(from)
    }

    /// The first and the last id whose letters begin with these; none if no id can.
    pub fn beginning(letters: &str) -> Option<[Self; 2]> {
        let n = u32::try_from(letters.len()).ok().filter(|n| *n <= ID_LETTERS)?;
        let mut bits: u64 = 0;
        for letter in letters.bytes() {
            let digit = ALPHABET.iter().position(|one| *one == letter)?;
            bits = (bits << 5) | u64::try_from(digit).ok()?;
        }
        let rest = ID_LETTERS.saturating_sub(n).saturating_mul(5);
        let open = 1_u64.checked_shl(rest).unwrap_or(0).wrapping_sub(1);
        let from = bits.checked_shl(rest).unwrap_or(0);
        Some([Self(from), Self(from | open)])
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        write_letters(f, self.0)
    }
}

/// Writes the lowest 60 bits as letters.
pub(crate) fn write_letters(f: &mut fmt::Formatter<'_>, bits: u64) -> fmt::Result {
    for place in (0..ID_LETTERS).rev() {
        let digit = usize::try_from((bits >> place.saturating_mul(5)) & 31).unwrap_or(0);
        let letter = ALPHABET.get(digit).copied().unwrap_or(b'0');
        write!(f, "{}", char::from(letter))?;
    }
    Ok(())
}

/// The receiver of a message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// Every consumer of this queue.
    Queue(String),
    /// The agent of a session, even if the session's id has changed since.
    Session(SessionKey),
    /// The agent of a session of another machine (F-03).
    Remote(RemoteSession),
}

/// A session of another machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RemoteSession {
    /// The machine.
    pub machine: MachineId,
    /// The session's id there.
    pub session: String,
    /// The machine's name when the message was sent, for people.
    pub name: String,
}

/// The sender of a message, as the coordinator established it, not as it was claimed (H-04).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// A person at a terminal of their own.
    Operator,
    /// The agent of a session, by the session's id at that time.
    Session(String),
    /// An agent whose session is unknown.
    Agent,
    /// A program that neither a terminal nor an agent started, by its name.
    Program(String),
    /// Coord itself, with a notice of what became of a session (S4-27).
    Coord,
    /// Somebody on another machine, whose signature was proved (F-06).
    Remote(RemoteSender),
}

/// The sender of a message from another machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RemoteSender {
    /// Which message of which machine it is.
    pub origin: Origin,
    /// The machine's name on this machine's list.
    pub name: String,
    /// Who sent it there, as the coordinator there established it.
    pub who: RemoteWho,
}

/// Who sent a message on another machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteWho {
    /// A person at a terminal of their own.
    Operator,
    /// The agent of a session, by the session's id.
    Session(String),
    /// Anybody else.
    Other,
}

/// A message of another machine: its name there, and its place among all that the machine sends. By the place, a
/// message that comes again long after is known for what it is, when its id is forgotten (F-05).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The machine.
    pub machine: MachineId,
    /// The message's id there.
    pub id: MessageId,
    /// The machine's journal. Numbers begin again in another one.
    pub incarnation: String,
    /// The message's number there.
    pub number: u64,
}

/// What became of a message on the machine that it was sent to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is kept there, durably, and waits for its session.
    Accepted,
    /// It reached its session.
    Processed,
    /// It did not, for this reason.
    Failed(String),
}

/// What makes a later message count as the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Same {
    /// Its sender's key, for as long as the first message is kept, and a digest of the text.
    Key(String, u64),
    /// A keyed digest of its text, until the first message is handed out.
    Text(u64),
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMessage {
    /// Its id.
    pub id: MessageId,
    /// The receiver.
    pub to: Address,
    /// The sender.
    pub from: Sender,
    /// Whether it is handed out before those that are not urgent.
    #[serde(default)]
    pub is_urgent: bool,
    /// How many messages led to it (H-21).
    #[serde(default)]
    pub depth: u32,
    /// What makes a later message count as the same one.
    pub same: Same,
    /// The length of its text, bytes.
    pub bytes: u32,
    /// How long until it expires, milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

/// What happens to messages. Each event is checked before it is recorded, and does nothing if it no longer
/// applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueEvent {
    /// A message was accepted. Its text is in its file.
    Sent(NewMessage),
    /// The same message was sent again.
    Folded(MessageId),
    /// A consumer claimed a message.
    Claimed {
        /// The message.
        id: MessageId,
        /// The name of the consumer.
        holder: String,
        /// Length of the lease, milliseconds.
        lease_ms: u64,
    },
    /// The consumer needs more time.
    Renewed {
        /// The message.
        id: MessageId,
        /// The fence of the lease.
        fence: u64,
        /// Length of the lease from now on, milliseconds.
        lease_ms: u64,
    },
    /// The consumer is done with a message.
    Done {
        /// The message.
        id: MessageId,
        /// The fence of the lease.
        fence: u64,
    },
    /// The consumer could not do it.
    Failed {
        /// The message.
        id: MessageId,
        /// The fence of the lease.
        fence: u64,
        /// Why.
        why: String,
        /// Whether another attempt would fail as well.
        is_final: bool,
    },
    /// A message was put into the answer of a session's hook, or given to its wake hook.
    Handed {
        /// The message.
        id: MessageId,
        /// The delivery path.
        #[serde(rename = "door")]
        delivery: DeliveryPath,
        /// How long the proof of arrival may take, milliseconds.
        lease_ms: u64,
    },
    /// The transcript shows that the agent answered a request with the message (H-30).
    Proved(MessageId),
    /// The lease is over, and the transcript shows no such answer.
    Unproved(MessageId),
    /// The message did not leave, because nobody was there to receive it.
    Returned {
        /// The message.
        id: MessageId,
        /// The fence of the lease.
        fence: u64,
        /// Why, in words.
        why: String,
    },
    /// The text of a message cannot be read.
    Lost {
        /// The message.
        id: MessageId,
        /// Why, in words.
        why: String,
    },
    /// A person has it retried (S4-19).
    Retried(MessageId),
    /// A person released it, however many messages led to it (H-21).
    Released(MessageId),
    /// A person dropped it.
    Dropped(MessageId),
    /// A message from another machine will not be taken in (F-05).
    NotTaken {
        /// Which one.
        origin: Origin,
        /// Why, in words.
        why: String,
    },
    /// A message from another machine came once more: its sender may not know its fate (F-05).
    CameAgain {
        /// The machine.
        machine: MachineId,
        /// The message's id there.
        id: MessageId,
    },
    /// The fate of a message from another machine was handed to the engine.
    FateSent {
        /// The machine.
        machine: MachineId,
        /// The message's id there.
        id: MessageId,
        /// The fate that was sent.
        fate: Fate,
    },
    /// The machine that a message was sent to said what became of it.
    FateHeard {
        /// The message.
        id: MessageId,
        /// The fate.
        fate: Fate,
    },
}

/// A delivery path: how a message reaches a session's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryPath {
    /// The answer to SessionStart of a headless run, whose prompt follows at once. In a person's session the
    /// prompt may follow tomorrow, or never.
    Start,
    /// The answer to UserPromptSubmit of a closed turn.
    Prompt,
    /// The answer to PostToolUse: urgent ones only.
    Tool,
    /// The answer to Stop in a person's session, which makes the turn continue: once, and charged.
    Stop,
    /// The wake hook, which starts a turn: charged.
    Wake,
}

impl DeliveryPath {
    /// The hook event whose answer carries the message, by the client's name.
    pub fn event(self) -> &'static str {
        match self {
            Self::Start => "SessionStart",
            Self::Prompt => "UserPromptSubmit",
            Self::Tool => "PostToolUse",
            Self::Stop => "Stop",
            Self::Wake => "the wake hook",
        }
    }

    /// Whether a message on this path starts or continues a turn (H-21).
    pub fn is_charged(self) -> bool {
        match self {
            Self::Stop | Self::Wake => true,
            Self::Start | Self::Prompt | Self::Tool => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn ids_are_written_and_read() {
        for bits in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let id = MessageId::from_random(bits);
            let text = id.to_string();
            assert_eq!((text.len(), MessageId::parse(&text)), (14, Some(id)), "{text}");
            let [from, to] = MessageId::beginning(&text[2..6]).unwrap();
            assert!(from <= id && id <= to && from < to, "{text}");
        }
        let all = MessageId::beginning("").unwrap();
        assert_eq!(all, [MessageId(0), MessageId::from_random(u64::MAX)]);
        for odd in ["", "m_", "m_0123", "0123456789ab", "m_0123456789ai", "m_0123456789abc"] {
            assert_eq!(MessageId::parse(odd), None, "{odd}");
        }
    }
}
