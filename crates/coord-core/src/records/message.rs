//! A message, its state, and who has it (S4, G3).
//!
//! A message is in exactly one of four states, because its state is one value. Its text is in a file of its own.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{
    Address, Awake, DeliveryPath, MessageId, Moment, RemoteSession, Same, Sender, SessionKey,
};

use super::clocks::clocks;
use super::protected::Protected;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its position among all messages: they are handed out in this order.
    pub number: u64,
    /// The receiver.
    pub to: Address,
    /// The sender.
    pub from: Sender,
    /// Whether it is handed out before those that are not urgent.
    #[serde(default)]
    pub is_urgent: bool,
    /// How many messages led to it, each sent in a turn that the one before had started (H-21).
    #[serde(default)]
    pub depth: u32,
    /// Whether a person released it, however many messages led to it.
    #[serde(default)]
    pub is_released: bool,
    /// What makes a later message count as the same one (S4-26).
    pub same: Same,
    /// The length of its text, bytes.
    pub bytes: u32,
    /// When it was accepted.
    pub sent: Moment,
    /// When it expires, on both clocks.
    #[serde(default)]
    pub expires: Option<Moment>,
    /// How often the same message was sent again and folded into this one.
    #[serde(default)]
    pub folded: u32,
    /// How often it was handed out since it was sent, or since a person had it retried.
    #[serde(default)]
    pub attempts: u32,
    /// Whether somebody may have acted on it already (S4-25).
    #[serde(default)]
    pub maybe_duplicate: bool,
    /// Why the last attempt failed.
    #[serde(default)]
    pub last_failure: Option<String>,
    /// When the machine that it is for said that it is kept there (F-05).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Moment>,
    /// Its state.
    pub state: MessageState,
}

/// The one state that a message is in (G3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// It waits.
    Pending {
        /// The earliest time of the next attempt, after a failed one.
        not_before: Option<Awake>,
    },
    /// Somebody has it, under a lease.
    Processing(Lease),
    /// It is done, and kept for a while.
    Processed {
        /// When.
        at: Moment,
        /// Until when it is kept.
        until: Awake,
        /// The fence of the lease under which it was done.
        fence: u64,
    },
    /// It failed. It is not retried until a person orders it.
    Failed {
        /// When.
        at: Moment,
        /// Until when it is kept.
        until: Awake,
        /// Why, in words.
        reason: String,
    },
}

/// The right to work on a message for a limited time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The holder, by the name it gave.
    pub holder: String,
    /// Since when.
    pub since: Moment,
    /// Deadline. Without an answer by then the message goes back.
    pub until: Awake,
    /// Greater than the fence of every earlier lease: a stale fence is rejected (S4-13).
    pub fence: u64,
    /// Where the proof of arrival is looked for; none for a consumer, which reports its result itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sought: Option<Sought>,
}

/// The transcript that shows whether a message reached its agent (H-30).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sought {
    /// The delivery path by which the message left.
    #[serde(rename = "door")]
    pub delivery: DeliveryPath,
    /// The transcript.
    pub path: String,
    /// The configuration directory that the transcript must lie in (H-27).
    pub config_dir: String,
    /// Whether the lease is over and the last look is in progress.
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

    /// Whether it left by this delivery path, and may still be in transit.
    pub(crate) fn left_by(&self, delivery: DeliveryPath) -> bool {
        self.sought().is_some_and(|sought| sought.delivery == delivery)
    }

    /// The session that it is for; none for a queue.
    pub fn session(&self) -> Option<SessionKey> {
        match self.to {
            Address::Session(key) => Some(key),
            Address::Queue(_) | Address::Remote(_) => None,
        }
    }

    /// The session of another machine that it is for, if it is.
    pub fn remote(&self) -> Option<&RemoteSession> {
        match &self.to {
            Address::Remote(to) => Some(to),
            Address::Queue(_) | Address::Session(_) => None,
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

    /// Whether it is pending.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, MessageState::Pending { .. })
    }

    /// The name of its state.
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
    /// The depth of the deepest message that reached it since the last turn that its user started (H-21).
    pub chain: Option<u32>,
    /// Whether a message already made the current turn continue at its end.
    pub is_continued: bool,
    /// Whether a message was ever sent to it: a waiter is kept for such a session (H-02).
    pub was_sent: bool,
}

impl Protected<Inbox> {
    /// A prompt opened a turn. The first turn of a run carries what was given at its start.
    pub(crate) fn on_prompt(&mut self, is_ours: bool, is_first: bool) {
        self.0.is_continued = false;
        if !is_ours && !is_first {
            self.0.chain = None;
        }
    }

    /// The session's conversation began.
    pub(crate) fn on_start(&mut self) {
        self.0 = Inbox { was_sent: self.0.was_sent, ..Inbox::default() };
    }

    /// A message was sent to the session.
    pub(crate) fn note_sent(&mut self) {
        self.0.was_sent = true;
    }

    /// A message of this depth left for the session.
    pub(crate) fn note_left(&mut self, depth: u32) {
        self.0.chain = self.0.chain.max(Some(depth));
    }

    /// A message makes the current turn continue at its end.
    pub(crate) fn begin_continuation(&mut self) {
        self.0.is_continued = true;
    }

    /// The session was not told to continue.
    pub(crate) fn end_continuation(&mut self) {
        self.0.is_continued = false;
    }
}

clocks!(struct Message {
    id, number, to, from, is_urgent, depth, is_released, same, bytes, sent, folded, attempts, maybe_duplicate,
    last_failure, accepted, state,
} until { expires });

clocks!(struct Lease { holder, since, fence, sought } until { until });

clocks!(enum MessageState {
    Pending {} until { not_before: until }
    Processing { 0: lease } until {}
    Processed { at: at, fence: fence } until { until: until }
    Failed { at: at, reason: reason } until { until: until }
});

clocks!(none in Inbox, Sought);
