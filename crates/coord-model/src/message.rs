//! Messages: how one is named, whom it is for, and what happens to it.

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::SessionKey;

/// Letters of a message's id behind `m_`, five bits each.
const ID_LETTERS: u32 = 12;
/// Digits and letters without those that are taken for each other.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A message's id: `m_` and 60 random bits, so that no text can name one that was not seen (H-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageId(u64);

impl MessageId {
    /// What every id begins with.
    pub const PREFIX: &'static str = "m_";

    /// An id of random bits.
    pub fn from_random(bits: u64) -> Self {
        Self(bits & ((1 << (5 * ID_LETTERS)) - 1))
    }

    /// The id that is written so; none if none is.
    pub fn parse(text: &str) -> Option<Self> {
        let letters = text.strip_prefix(Self::PREFIX)?;
        let is_whole = letters.len() == usize::try_from(ID_LETTERS).ok()?;
        let [from, to] = Self::beginning(letters)?;
        (is_whole && from == to).then_some(from)
    }

    /// The first and the last id whose letters begin with these; none for letters that no id has.
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
        for place in (0..ID_LETTERS).rev() {
            let digit = usize::try_from((self.0 >> place.saturating_mul(5)) & 31).unwrap_or(0);
            let letter = ALPHABET.get(digit).copied().unwrap_or(b'0');
            write!(f, "{}", char::from(letter))?;
        }
        Ok(())
    }
}

/// Whom a message is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// Whoever takes messages under this name.
    Queue(String),
    /// The agent of a session, whatever its id is by now.
    Session(SessionKey),
}

/// Who sent it, as the coordinator established it, not as it was claimed (H-04).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// A person at a terminal of their own.
    Operator,
    /// The agent of a session; its id then.
    Session(String),
    /// An agent whose session is not known.
    Agent,
    /// A program that no terminal and no agent started, by its name.
    Program(String),
    /// Coord itself: what became of a session (S4-27).
    Coord,
}

/// What makes a second message the same as the first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Same {
    /// Its sender's key, for as long as the first is kept, and a digest of the text.
    Key(String, u64),
    /// Its text, by a keyed digest, for as long as the first is not handed out.
    Text(u64),
}

/// What is to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMessage {
    /// Its id.
    pub id: MessageId,
    /// Whom it is for.
    pub to: Address,
    /// Who sends it.
    pub from: Sender,
    /// It stands before those that are not urgent.
    #[serde(default)]
    pub is_urgent: bool,
    /// How many messages led to it (H-21).
    #[serde(default)]
    pub depth: u32,
    /// What makes a second one the same.
    pub same: Same,
    /// The length of its text, bytes.
    pub bytes: u32,
    /// It is of no use after this, milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

/// What happens to messages. Each is checked before it is recorded, and does nothing where it does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueEvent {
    /// One was accepted; its text is in its file.
    Sent(NewMessage),
    /// The same was sent again.
    Folded(MessageId),
    /// A consumer took it.
    Claimed {
        /// Which.
        id: MessageId,
        /// Who.
        holder: String,
        /// For how long, milliseconds.
        lease_ms: u64,
    },
    /// Its consumer needs longer.
    Renewed {
        /// Which.
        id: MessageId,
        /// Of which lease.
        fence: u64,
        /// From now on, milliseconds.
        lease_ms: u64,
    },
    /// Its consumer is done with it.
    Done {
        /// Which.
        id: MessageId,
        /// Of which lease.
        fence: u64,
    },
    /// Its consumer could not do it.
    Failed {
        /// Which.
        id: MessageId,
        /// Of which lease.
        fence: u64,
        /// Why.
        why: String,
        /// Another attempt would fail as well.
        is_final: bool,
    },
    /// It was put into the answer of a session's hook, or given to its wake hook.
    Handed {
        /// Which.
        id: MessageId,
        /// By which way.
        #[serde(rename = "door")]
        delivery: DeliveryPath,
        /// So long its proof may take, milliseconds.
        lease_ms: u64,
    },
    /// Its transcript shows that its agent answered a request with it (H-30).
    Proved(MessageId),
    /// Its lease is over, and its transcript does not.
    Unproved(MessageId),
    /// It did not leave: nobody was there to take it.
    Returned {
        /// Which.
        id: MessageId,
        /// Of which lease.
        fence: u64,
        /// Why, in words.
        why: String,
    },
    /// Its text cannot be read.
    Lost {
        /// Which.
        id: MessageId,
        /// Why, in words.
        why: String,
    },
    /// A person wants it tried again (S4-19).
    Retried(MessageId),
    /// A person lets it pass, however many messages led to it (H-21).
    Released(MessageId),
    /// A person wants it gone.
    Dropped(MessageId),
}

/// A way by which a message reaches a session's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryPath {
    /// The answer to SessionStart, of a headless run: its prompt follows at once. A person's may follow
    /// tomorrow, or never.
    Start,
    /// The answer to UserPromptSubmit of a closed turn.
    Prompt,
    /// The answer to PostToolUse: urgent ones only.
    Tool,
    /// The answer to a person's session's Stop, which makes the turn go on: once, and charged.
    Stop,
    /// The wake hook, which starts a turn: charged.
    Wake,
}

impl DeliveryPath {
    /// The hook event in whose answer it lies, as the client names it.
    pub fn event(self) -> &'static str {
        match self {
            Self::Start => "SessionStart",
            Self::Prompt => "UserPromptSubmit",
            Self::Tool => "PostToolUse",
            Self::Stop => "Stop",
            Self::Wake => "the wake hook",
        }
    }

    /// Whether what leaves by it starts a turn, or makes one go on (H-21).
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
