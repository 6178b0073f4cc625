//! A message, where it is, and who has it (S4, G3).
//!
//! It is in exactly one of four states, because its state is one value. What it says lies outside, in a file of its
//! own; here is only that it exists.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Address, Awake, DeliveryPath, MessageId, Moment, Same, Sender, SessionKey};

use super::clocks::clocks;

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
    #[serde(rename = "door")]
    pub delivery: DeliveryPath,
    /// The transcript.
    pub path: String,
    /// The configuration directory it must lie in (H-27).
    pub config_dir: String,
    /// The lease is over, and the last look is under way.
    #[serde(default)]
    pub is_last: bool,
}

impl Message {
    /// When this message changes by time alone.
    pub(crate) fn deadline(&self) -> Option<Awake> {
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
    pub(crate) fn left_by(&self, delivery: DeliveryPath) -> bool {
        self.sought().is_some_and(|sought| sought.delivery == delivery)
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

/// What a session remembers of the messages that were handed to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inbox {
    /// The deepest message that reached it since its last turn of its user's own (H-21).
    pub chain: Option<u32>,
    /// A message made its turn go on at its end already.
    pub is_continued: bool,
    /// It was ever sent one: a waiter is kept for it (H-02).
    pub was_sent: bool,
}

impl Inbox {
    /// A prompt opened a turn; the first one of a run brings what its start was given.
    pub(crate) fn on_prompt(&mut self, is_ours: bool, is_first: bool) {
        self.is_continued = false;
        if !is_ours && !is_first {
            self.chain = None;
        }
    }
}

clocks!(struct Message {
    id, number, to, from, is_urgent, depth, is_released, same, bytes, sent, folded, attempts, maybe_duplicate,
    last_failure, state,
} until { expires });

clocks!(struct Lease { holder, since, fence, sought } until { until });

clocks!(enum MessageState {
    Pending {} until { not_before: until }
    Processing { 0: lease } until {}
    Processed { at: at, fence: fence } until { until: until }
    Failed { at: at, reason: reason } until { until: until }
});

clocks!(none in Inbox, Sought);
