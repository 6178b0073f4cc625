//! What the relay and the coordinator say to each other over the socket (F-05).

use coord_model::{Fate, MachineId, MessageId, NeedElsewhere, NeedId, RemoteSession, RemoteWho};
use serde::{Deserialize, Serialize};

/// The body of `POST /v1/fleet/outbox`: the relay asks for what is to be sent. It asks only while it can send.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutboxAsk {
    /// The fates that were sent since it asked last.
    pub sent: Vec<SentFate>,
    /// Whether it takes messages and fates now; otherwise it only wants to know how far the journal is durable.
    pub takes: bool,
}

/// The answer to [`OutboxAsk`], once the leases of its messages are durable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// The newest record of the journal that is durable.
    pub durable: u64,
    /// The newest record of the journal.
    #[serde(default)]
    pub newest: u64,
    /// Messages to send.
    pub messages: Vec<OutgoingMessage>,
    /// Fates to send.
    pub fates: Vec<SentFate>,
}

/// A message to another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutgoingMessage {
    /// Its id.
    pub id: MessageId,
    /// The session that it is for.
    pub to: RemoteSession,
    /// Its number among all messages of this machine.
    pub number: u64,
    /// Who sent it.
    pub who: RemoteWho,
    /// Whether it is delivered before those that are not urgent.
    pub urgent: bool,
    /// How many messages led to it (H-21).
    pub depth: u32,
    /// How long it lives from now on, milliseconds.
    pub ttl_ms: u64,
    /// The fence of the relay's lease.
    pub fence: u64,
    /// Its text.
    pub text: String,
}

/// The fate of a message that came from another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFate {
    /// The machine that it came from.
    pub machine: MachineId,
    /// The message's id there.
    pub id: MessageId,
    /// What became of it.
    pub fate: Fate,
}

/// The body of `POST /v1/fleet/inbox`: an item that arrived, sealed as it came. The coordinator believes the seal alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InboxItem {
    /// What it is.
    pub kind: ItemKind,
    /// The sealed item.
    pub sealed: String,
    /// How long ago the engine stored it, milliseconds, by the engine's clock.
    pub age_ms: u64,
}

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A message to a session of this machine.
    Message,
    /// The fate of a message that this machine sent.
    Fate,
}

/// The answer to [`InboxItem`], once what it says is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxAnswer {
    /// What becomes of the item.
    pub verdict: ItemVerdict,
    /// Why, if it is not kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What becomes of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemVerdict {
    /// It is known here, durably.
    Kept,
    /// It will never be taken.
    Refused,
    /// It cannot be taken now.
    Later,
}

/// The body of `POST /v1/fleet/notices`: what the relay heard of needs and of who tells of them (F-02). The coordinator
/// believes it of the machines alone that are on its list for that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetNotices {
    /// The machines that are heard and tell of the needs of others.
    pub notifiers: Vec<HeardNotifier>,
    /// Machines of which something changed since the relay asked last.
    pub machines: Vec<MachineNeeds>,
}

/// A machine that tells of the needs of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeardNotifier {
    /// The machine.
    pub machine: MachineId,
    /// The open needs of this machine of which it has told.
    pub told: Vec<NeedId>,
    /// Those that it has taken on, told or not.
    pub taken: Vec<NeedId>,
}

/// The open needs of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineNeeds {
    /// The machine.
    pub machine: MachineId,
    /// All of its open needs; none if it does not leave telling of them to this machine, or is silent.
    pub needs: Option<Vec<NeedElsewhere>>,
}

/// The answer to [`FleetNotices`], once what follows from them is durable: what this machine lets the others know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticesAnswer {
    /// Whether this machine tells of the needs of others.
    pub notifies: bool,
    /// The machine that tells of the needs of this one.
    pub notifier: Option<MachineId>,
    /// The open needs of other machines that this one has taken on, and its own of which it has told people.
    pub taken: Vec<TakenNeed>,
    /// The machines whose needs are told here.
    pub tells_for: Vec<MachineId>,
}

/// A need of which a machine tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TakenNeed {
    /// The machine whose need it is.
    pub machine: MachineId,
    /// Its id there.
    pub need: NeedId,
    /// Whether it has told people of it, or is just telling them.
    pub told: bool,
}

/// What the relay says of itself, in a file that people's commands read (F-01, F-07).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayStatus {
    /// The relay's process.
    pub pid: u32,
    /// When this was written, milliseconds since 1970.
    pub at_ms: u64,
    /// The server's address.
    pub url: String,
    /// Whether the link is up.
    pub is_up: bool,
    /// Since when it is up, or down, milliseconds since 1970.
    pub since_ms: u64,
    /// The server's version.
    pub server_version: Option<String>,
    /// The last error that the server reported, or that kept the link down.
    pub last_error: Option<String>,
    /// The last record that the server holds of this machine's journal.
    pub held_through: Option<u64>,
    /// The newest record that is durable here.
    pub durable: u64,
    /// How often publishing continued at an earlier record, because the server had lost some.
    pub rewinds: u64,
    /// Another machine publishes under this one's identity: why that is known. Nothing is published any more (F-07).
    pub duplicate: Option<String>,
    /// What is not done at the moment, and why: the server's limits and permissions.
    pub troubles: Vec<String>,
    /// Items that were refused, and why the last one was.
    pub refused: u64,
    /// Why the last one was refused.
    pub last_refusal: Option<String>,
    /// How far this machine's clock is ahead of the server's, milliseconds.
    pub skew_ms: Option<i64>,
    /// The machine that tells of this one's needs.
    pub notifier: Option<MachineId>,
    /// The machines whose needs are told here.
    pub tells_for: Vec<MachineId>,
}
