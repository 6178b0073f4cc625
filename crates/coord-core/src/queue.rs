//! Messages: what was accepted, where each one is, and which one is next (S4, G3).
//!
//! A message is in exactly one of four states, because its state is one value. What it says lies outside,
//! in a file of its own; here is only that it exists. Does not decide how a message reaches an agent.

mod chain;
mod delivery;
mod fate;
mod flood;
mod frame;
mod lease;
mod shelf;
mod told;

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::budget::Delay;
use crate::session::SessionKey;
use crate::time::{Awake, Moment};

pub use delivery::{ANSWER_BYTES_MAX, Door, Inbox};
pub use fate::Refused;
pub use flood::{Admitted, QUEUE_NAME_CHARS_MAX, is_queue_name};
pub use frame::framed_message;
pub use lease::LEASE_MS_MAX;
pub(crate) use shelf::Shelf;
pub use shelf::{LineCounts, QueueHead};

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

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its place among all messages: they are handed out in this order.
    pub number: u64,
    /// Whom it is for.
    pub to: Address,
    /// Who sent it.
    pub from: Sender,
    /// It stands before those that are not urgent.
    #[serde(default)]
    pub is_urgent: bool,
    /// How many messages led to it, each sent in a turn that the one before had started (H-21).
    #[serde(default)]
    pub depth: u32,
    /// A person let it pass, however many led to it.
    #[serde(default)]
    pub is_released: bool,
    /// What makes a second one the same (S4-26).
    pub same: Same,
    /// The length of its text, bytes.
    pub bytes: u32,
    /// When it was accepted.
    pub sent: Moment,
    /// When it is of no use any more, on both clocks.
    #[serde(default)]
    pub expires: Option<Moment>,
    /// How often it was sent again while it was there, and folded into this one.
    #[serde(default)]
    pub folded: u32,
    /// How often it was handed out since it was sent, or tried again by a person.
    #[serde(default)]
    pub attempts: u32,
    /// Somebody may have done what it says already (S4-25).
    #[serde(default)]
    pub maybe_duplicate: bool,
    /// Why the last attempt came to nothing.
    #[serde(default)]
    pub last_failure: Option<String>,
    /// Where it is.
    pub state: MessageState,
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

/// G3: the one state that it is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// It waits.
    Pending {
        /// Not before this: the last attempt failed.
        not_before: Option<Awake>,
    },
    /// Somebody has it.
    Processing(Lease),
    /// It is done, and kept for a while.
    Processed {
        /// When.
        at: Moment,
        /// Until when it is kept.
        until: Awake,
        /// By which lease.
        fence: u64,
    },
    /// Nobody tries any more, until a person says so.
    Failed {
        /// When.
        at: Moment,
        /// Until when it is kept.
        until: Awake,
        /// Why, in words.
        reason: String,
    },
}

/// The right to work on a message, for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who has it, as they call themselves.
    pub holder: String,
    /// Since when.
    pub since: Moment,
    /// Until when; without a word by then the message goes back.
    pub until: Awake,
    /// Greater than that of every earlier lease: who comes with an older one has lost it (S4-13).
    pub fence: u64,
    /// Where the proof is looked for that it arrived; none for a consumer, which says so itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sought: Option<Sought>,
}

/// The transcript that tells whether a message reached its agent (H-30).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sought {
    /// By which way it left.
    pub door: Door,
    /// The transcript.
    pub path: String,
    /// The configuration directory it must lie in (H-27).
    pub config_dir: String,
    /// The lease is over, and the last look is under way.
    #[serde(default)]
    pub is_last: bool,
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
        door: Door,
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

/// How messages are handed out (`[queue]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueLimits {
    /// A consumer has a message for so long, unless it says otherwise (S4-11).
    pub lease_ms: u64,
    /// One that is worked on for longer is counted as slow (S4-18).
    pub slow_ms: u64,
    /// Attempts after the first one (S4-23).
    pub retries: u32,
    /// The wait before them.
    pub delay: Delay,
    /// Messages that wait for one receiver; more are refused.
    pub per_receiver: u32,
    /// How long those that are done are kept (S4-20).
    pub processed_kept_ms: u64,
    /// How long those that failed are kept (S4-20).
    pub failed_kept_ms: u64,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            lease_ms: 300_000,
            slow_ms: 120_000,
            retries: 3,
            delay: Delay { first_ms: 10_000, max_ms: 300_000 },
            per_receiver: 1_000,
            processed_kept_ms: 7 * 24 * 3_600_000,
            failed_kept_ms: 30 * 24 * 3_600_000,
        }
    }
}

impl Message {
    /// When this message changes by time alone.
    fn deadline(&self) -> Option<Awake> {
        let expires = self.expires.map(|at| at.awake);
        match &self.state {
            MessageState::Pending { not_before } => not_before.iter().copied().chain(expires).min(),
            MessageState::Processing(lease) => Some(lease.until),
            MessageState::Processed { until, .. } | MessageState::Failed { until, .. } => {
                Some(*until)
            }
        }
    }

    /// Where the proof of its arrival is looked for.
    pub fn sought(&self) -> Option<&Sought> {
        self.lease()?.sought.as_ref()
    }

    /// Whether it left by this way, and may be on its way still.
    fn left_by(&self, door: Door) -> bool {
        self.sought().is_some_and(|sought| sought.door == door)
    }

    /// The session it is for.
    pub fn session(&self) -> Option<SessionKey> {
        match self.to {
            Address::Session(key) => Some(key),
            Address::Queue(_) => None,
        }
    }

    /// Its lease, if somebody has it.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            MessageState::Processing(lease) => Some(lease),
            MessageState::Pending { .. }
            | MessageState::Processed { .. }
            | MessageState::Failed { .. } => None,
        }
    }

    /// Whether it could be handed out now.
    pub fn is_ready(&self) -> bool {
        self.state == MessageState::Pending { not_before: None }
    }

    /// Whether it waits.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, MessageState::Pending { .. })
    }

    /// The word of its state.
    pub fn word(&self) -> &'static str {
        match self.state {
            MessageState::Pending { .. } => "pending",
            MessageState::Processing(_) => "processing",
            MessageState::Processed { .. } => "processed",
            MessageState::Failed { .. } => "failed",
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
