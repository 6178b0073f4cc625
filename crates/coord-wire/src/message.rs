//! Types for messages over the socket: how they are sent, claimed, settled and shown.

use coord_model::RemoteSession;
use serde::{Deserialize, Serialize};

/// Longest text of a message, in bytes (interfaces.md, Limits).
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Longest key, consumer name or reason, in bytes.
pub const WORD_BYTES_MAX: usize = 256;

/// The body of `POST /v1/messages`. A request with an unknown field is refused, so that a message is not
/// sent without a limit that the field would have set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The queue from which programs take the message; either this or a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The session whose agent reads the message: its id, the beginning of its id, or its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session of another machine whose agent reads the message, instead of either (F-03).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteSession>,
    /// The text of the message.
    pub text: String,
    /// A key: a message that is sent again with the same key is the same message (S4-26).
    #[serde(default)]
    pub key: Option<String>,
    /// Whether the message is delivered before those that are not urgent.
    #[serde(default)]
    pub urgent: bool,
    /// Time in milliseconds after which the message expires.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

/// The answer to [`Send`], once the message is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The id of the message.
    pub id: String,
    /// The state of the message: `pending`, or that of the existing message that is the same.
    pub state: String,
    /// Whether the message is the same as an existing one, so that nothing was added.
    pub folded: bool,
    /// What the message waits for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// The body of `POST /v1/queues/{name}/claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name of the consumer, as shown to people.
    pub holder: String,
    /// Duration of the lease, in milliseconds; `queue.lease` if left out.
    #[serde(default)]
    pub lease_ms: Option<u64>,
}

/// The answer to [`Claim`] if there is a message, once the lease is durable; otherwise the status is
/// 204.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The message.
    pub message: MessageInfo,
    /// The text of the message.
    pub text: String,
    /// The fence of this lease (S4-13).
    pub fence: u64,
}

/// The body of `POST /v1/messages/{id}/done`, `/fail` and `/renew`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settle {
    /// The fence of the lease.
    pub fence: u64,
    /// `fail`: the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `fail`: whether another attempt would fail as well.
    #[serde(rename = "final", skip_serializing_if = "core::ops::Not::not")]
    pub is_final: bool,
    /// `renew`: the new duration from now, in milliseconds; `queue.lease` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// The answer to `GET /v1/messages` (schema 1), newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// The schema number: 1.
    pub schema: u32,
    /// Numbers of all messages by state.
    pub totals: Totals,
    /// The requested messages.
    pub messages: Vec<MessageInfo>,
    /// Number of requested messages that are left out.
    pub left_out: usize,
}

/// Numbers of messages by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Messages that wait.
    pub pending: usize,
    /// Messages that a consumer has claimed.
    pub processing: usize,
    /// Messages that failed, and wait for a person.
    pub failed: usize,
    /// Messages that are done, and are kept for a while.
    pub processed: usize,
    /// Messages that a consumer has had for longer than `queue.slow_after` (S4-18).
    pub slow: usize,
    /// Messages whose consumer exceeded the lease (S4-18); at most for a moment.
    pub stuck: usize,
}

/// One message.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageInfo {
    /// The id of the message.
    pub id: String,
    /// The queue from which programs take the message; none for a message to a session.
    pub queue: Option<String>,
    /// The session whose agent reads the message, by its present id; none for a message to programs.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The sender, as the coordinator established it (H-04): `operator`, `session ID`, `an agent`,
    /// `program NAME`, `coord`.
    pub from: String,
    /// `pending`, `processing`, `processed` or `failed`.
    pub state: String,
    /// Whether the message is delivered before those that are not urgent.
    pub urgent: bool,
    /// The sender's key.
    pub key: Option<String>,
    /// Length of the text, in bytes.
    pub bytes: u32,
    /// When the message was accepted.
    pub sent_at: String,
    /// When the message expires.
    pub expires_at: Option<String>,
    /// How often the same message was sent again, and folded into this one.
    pub folded: u32,
    /// How often the message was handed out.
    pub attempts: u32,
    /// Whether somebody may already have acted on the message (S4-25).
    pub maybe_duplicate: bool,
    /// Why the message is in its state, in words: what it waits for, or why it failed.
    pub because: String,
    /// The consumer that has the message.
    pub holder: Option<String>,
    /// When the lease ends, or when the next attempt is due.
    pub until: Option<String>,
    /// Whether a consumer has had the message for longer than `queue.slow_after`.
    pub slow: bool,
    /// When the message entered its state, if that is known.
    pub since: Option<String>,
    /// The text; only if a single message was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the text is kept from the caller: an agent that neither sent the message nor is to read it (U-13).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text_withheld: bool,
}
