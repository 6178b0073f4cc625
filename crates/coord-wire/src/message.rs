//! Messages over the socket: what is sent, taken and settled, and how they are shown.

use serde::{Deserialize, Serialize};

/// Longest text of a message, in bytes (interfaces.md, Limits).
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Longest key, consumer's name or reason, in bytes.
pub const WORD_BYTES_MAX: usize = 256;

/// `POST /v1/messages`. A field that is not known here is refused: what it would have limited is not sent
/// unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The name under which programs take it; this, or a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The session whose agent reads it: its id, the beginning of one, or its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it says.
    pub text: String,
    /// Sent again with the same key, it is the same message (S4-26).
    #[serde(default)]
    pub key: Option<String>,
    /// It goes before those that are not urgent.
    #[serde(default)]
    pub urgent: bool,
    /// It is of no use after this, milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

/// The answer to [`Send`], once the message is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The message.
    pub id: String,
    /// Its state: `pending`, or that of the same message that is there already.
    pub state: String,
    /// It is the same as one that is there already: nothing was added.
    pub folded: bool,
    /// What it waits for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// `POST /v1/queues/{name}/claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Who takes it, as people are told.
    pub holder: String,
    /// For how long, milliseconds; `queue.lease` where left out.
    #[serde(default)]
    pub lease_ms: Option<u64>,
}

/// The answer to [`Claim`] if there is a message, once the lease is durable; else 204.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The message.
    pub message: MessageInfo,
    /// What it says.
    pub text: String,
    /// Names this lease (S4-13).
    pub fence: u64,
}

/// `POST /v1/messages/{id}/done`, `/fail` and `/renew`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settle {
    /// Of which lease.
    pub fence: u64,
    /// `fail`: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `fail`: another attempt would fail as well.
    #[serde(rename = "final", skip_serializing_if = "core::ops::Not::not")]
    pub is_final: bool,
    /// `renew`: from now on, milliseconds; `queue.lease` where left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// `GET /v1/messages` (schema 1): newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// 1.
    pub schema: u32,
    /// How many are where.
    pub totals: Totals,
    /// Those that were asked for.
    pub messages: Vec<MessageInfo>,
    /// How many more there are.
    pub left_out: usize,
}

/// How many messages are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// They wait.
    pub pending: usize,
    /// Somebody has them.
    pub processing: usize,
    /// They failed, and wait for a person.
    pub failed: usize,
    /// They are done, and are kept for a while.
    pub processed: usize,
    /// Somebody has them for longer than `queue.slow_after` (S4-18).
    pub slow: usize,
    /// Somebody has them beyond the lease's deadline (S4-18); for a moment at most.
    pub stuck: usize,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageInfo {
    /// Its id.
    pub id: String,
    /// The name under which programs take it; none for one to a session.
    pub queue: Option<String>,
    /// The session whose agent reads it, by today's id; none for one to programs.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Who sent it, as the coordinator established it (H-04): `operator`, `session ID`, `an agent`,
    /// `program NAME`, `coord`.
    pub from: String,
    /// `pending`, `processing`, `processed` or `failed`.
    pub state: String,
    /// It goes before those that are not urgent.
    pub urgent: bool,
    /// Its sender's key.
    pub key: Option<String>,
    /// Length of its text, bytes.
    pub bytes: u32,
    /// When it was accepted.
    pub sent_at: String,
    /// When it is of no use any more.
    pub expires_at: Option<String>,
    /// How often the same was sent again, and folded into it.
    pub folded: u32,
    /// How often it was handed out.
    pub attempts: u32,
    /// Somebody may have done what it says already (S4-25).
    pub maybe_duplicate: bool,
    /// Why it is where it is, in words: what it waits for, or why it failed.
    pub because: String,
    /// Who has it.
    pub holder: Option<String>,
    /// Until when, or until when it waits for its next attempt.
    pub until: Option<String>,
    /// Somebody has it for longer than `queue.slow_after`.
    pub slow: bool,
    /// When it came into its state, where that is known.
    pub since: Option<String>,
    /// What it says; only where one message was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
