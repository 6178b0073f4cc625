//! Holds the messages, with indexes that keep the cost of an operation independent of how many wait. The indexes
//! are derived from the messages and never stored.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Address, Awake, MessageId, Same, Sender, SessionKey};

use super::clocks::clocks;
use super::message::{Message, MessageState};

/// What is stored beside the messages: the next numbers, and counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueHead {
    /// Number of the next message.
    pub next_number: u64,
    /// Fence of the next lease.
    pub next_fence: u64,
    /// Messages accepted.
    pub sent: u64,
    /// Messages that were folded into one that was pending or kept.
    pub folded: u64,
    /// Messages done.
    pub processed: u64,
    /// Messages that failed, expired or were dropped.
    pub failed: u64,
    /// Leases that ran out.
    pub ran_out: u64,
    /// When the leases were swept last.
    pub swept: Awake,
}

/// How many messages of one receiver are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineCounts {
    /// Messages that wait.
    pub pending: usize,
    /// Messages that somebody has.
    pub processing: usize,
    /// Messages that failed.
    pub failed: usize,
}

/// The order of handing out: urgent ones first, then as they were sent.
type Rank = (bool, u64);

/// The messages of one receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Line {
    ready: BTreeMap<Rank, MessageId>,
    counts: LineCounts,
    /// For a session: messages that wait and those in transit.
    open: BTreeSet<MessageId>,
}

/// All messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Messages {
    /// Boxed: a message is large, and the map moves its neighbours when one is added or removed.
    messages: BTreeMap<MessageId, Box<Message>>,
    indexes: Indexes,
}

/// Indexes that find messages by anything but their id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Indexes {
    lines: BTreeMap<Address, Line>,
    /// If several are the same, the first one counts.
    same: BTreeMap<(Address, Sender, Alike, u64), MessageId>,
    deadlines: BTreeSet<(Awake, MessageId)>,
    leases: BTreeSet<MessageId>,
}

/// What identifies a message that is sent again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    Key(String),
    Text(u64),
}

impl Messages {
    /// The message with this id.
    pub(crate) fn get(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(&id).map(|message| &**message)
    }

    /// All messages, in the order of their ids.
    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.messages.values().map(|message| &**message)
    }

    /// The messages between two ids, both included.
    pub(crate) fn between(&self, from: MessageId, to: MessageId) -> impl Iterator<Item = &Message> {
        self.messages.range(from..=to).map(|(_, message)| &**message)
    }

    /// The messages that somebody has.
    pub(crate) fn leased(&self) -> impl Iterator<Item = &Message> {
        self.indexes.leases.iter().filter_map(|id| self.get(*id))
    }

    /// The next message of a receiver.
    pub(crate) fn next(&self, to: &Address) -> Option<&Message> {
        let (_, id) = self.indexes.lines.get(to)?.ready.first_key_value()?;
        self.get(*id)
    }

    /// The messages of a receiver that could be handed out now, in order.
    pub(crate) fn ready(&self, to: &Address) -> impl Iterator<Item = &Message> {
        let line = self.indexes.lines.get(to).into_iter();
        line.flat_map(|line| line.ready.values()).filter_map(|id| self.get(*id))
    }

    /// The messages of a session that wait or are in transit.
    pub(crate) fn open(&self, key: SessionKey) -> impl Iterator<Item = &Message> {
        let line = self.indexes.lines.get(&Address::Session(key)).into_iter();
        line.flat_map(|line| &line.open).filter_map(|id| self.get(*id))
    }

    /// The sessions for which a message could be handed out now.
    pub(crate) fn sessions_with_ready(&self) -> impl Iterator<Item = SessionKey> {
        let from = Address::Session(SessionKey(0));
        let lines = self.indexes.lines.range(from..).filter(|(_, line)| !line.ready.is_empty());
        lines.filter_map(|(to, _)| match to {
            Address::Session(key) => Some(*key),
            Address::Queue(_) | Address::Remote(_) => None,
        })
    }

    /// The messages to other machines that could be sent now, in order for each receiver.
    pub(crate) fn ready_for_machines(&self) -> impl Iterator<Item = &Message> {
        let is_remote = |to: &&Address| matches!(to, Address::Remote(_));
        let lines = self.indexes.lines.iter().rev().take_while(move |(to, _)| is_remote(to));
        lines.flat_map(|(_, line)| line.ready.values()).filter_map(|id| self.get(*id))
    }

    /// How many messages of a receiver are in which state.
    pub(crate) fn counts(&self, to: &Address) -> LineCounts {
        self.indexes.lines.get(to).map_or_else(LineCounts::default, |line| line.counts)
    }

    /// All receivers that have messages.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&Address, LineCounts)> {
        self.indexes.lines.iter().map(|(to, line)| (to, line.counts))
    }

    /// The message that counts as the same, if there is one.
    pub(crate) fn same_as(&self, to: &Address, from: &Sender, same: &Same) -> Option<&Message> {
        let all = |number| (to.clone(), from.clone(), alike(same), number);
        let (_, id) = self.indexes.same.range(all(0)..=all(u64::MAX)).next()?;
        self.get(*id)
    }

    /// When the next message changes by time alone.
    pub(crate) fn next_deadline(&self) -> Option<Awake> {
        self.indexes.deadlines.first().map(|(at, _)| *at)
    }

    /// The messages whose deadline has come.
    pub(crate) fn due(&self, now: Awake) -> Vec<MessageId> {
        self.indexes.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }

    /// Drops all deadlines, as if every timer had been lost.
    #[cfg(test)]
    pub(crate) fn lose_deadlines(&mut self) {
        self.indexes.deadlines.clear();
    }

    /// Adds a new message.
    pub(crate) fn put(&mut self, message: Message) {
        self.indexes.update(&message, Indexed::default(), Indexed::of(&message));
        self.messages.insert(message.id, Box::new(message));
    }

    /// Removes a message for good.
    pub(crate) fn remove(&mut self, id: MessageId) -> bool {
        let Some(message) = self.messages.remove(&id) else { return false };
        self.indexes.update(&message, Indexed::of(&message), Indexed::default());
        true
    }

    /// Changes a message in place. Its id, number, receiver, sender and sameness stay.
    pub(crate) fn change(&mut self, id: MessageId, change: impl FnOnce(&mut Message)) {
        let Some(message) = self.messages.get_mut(&id) else { return };
        let before = Indexed::of(message);
        change(message);
        let after = Indexed::of(message);
        if before != after {
            self.indexes.update(message, before, after);
        }
    }
}

impl Indexes {
    /// Updates the indexes after a message changed.
    fn update(&mut self, message: &Message, before: Indexed, after: Indexed) {
        let id = message.id;
        if before.deadline != after.deadline {
            before.deadline.map(|at| self.deadlines.remove(&(at, id)));
            after.deadline.map(|at| self.deadlines.insert((at, id)));
        }
        match (before.is_leased, after.is_leased) {
            (false, true) => _ = self.leases.insert(id),
            (true, false) => _ = self.leases.remove(&id),
            (false, false) | (true, true) => (),
        }
        match (before.is_found, after.is_found) {
            (false, true) => _ = self.same.insert(same_of(message), id),
            (true, false) => _ = self.same.remove(&same_of(message)),
            (false, false) | (true, true) => (),
        }
        self.update_line(message, before, after);
    }

    fn update_line(&mut self, message: &Message, before: Indexed, after: Indexed) {
        if !self.lines.contains_key(&message.to) {
            self.lines.insert(message.to.clone(), Line::default());
        }
        let Some(line) = self.lines.get_mut(&message.to) else { return };
        match (before.is_ready, after.is_ready) {
            (false, true) => _ = line.ready.insert(rank(message), message.id),
            (true, false) => _ = line.ready.remove(&rank(message)),
            (false, false) | (true, true) => (),
        }
        if let Address::Session(_) = message.to {
            let is_open = |place| matches!(place, Some(Place::Pending | Place::Processing));
            match (is_open(before.place), is_open(after.place)) {
                (false, true) => _ = line.open.insert(message.id),
                (true, false) => _ = line.open.remove(&message.id),
                (false, false) | (true, true) => (),
            }
        }
        if let Some(count) = before.place.and_then(|place| line.count(place)) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = after.place.and_then(|place| line.count(place)) {
            *count = count.saturating_add(1);
        }
        if line.counts == LineCounts::default() {
            self.lines.remove(&message.to);
        }
    }
}

/// What the indexes hold of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Indexed {
    deadline: Option<Awake>,
    is_leased: bool,
    is_found: bool,
    is_ready: bool,
    place: Option<Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Pending,
    Processing,
    Processed,
    Failed,
}

impl Indexed {
    fn of(message: &Message) -> Self {
        let place = match message.state {
            MessageState::Pending { .. } => Place::Pending,
            MessageState::Processing(_) => Place::Processing,
            MessageState::Processed { .. } => Place::Processed,
            MessageState::Failed { .. } => Place::Failed,
        };
        Self {
            deadline: message.deadline(),
            is_leased: message.lease().is_some(),
            is_found: is_found(message),
            is_ready: message.is_ready(),
            place: Some(place),
        }
    }
}

impl Line {
    fn count(&mut self, place: Place) -> Option<&mut usize> {
        match place {
            Place::Pending => Some(&mut self.counts.pending),
            Place::Processing => Some(&mut self.counts.processing),
            Place::Failed => Some(&mut self.counts.failed),
            Place::Processed => None,
        }
    }
}

fn rank(message: &Message) -> Rank {
    (!message.is_urgent, message.number)
}

/// Whether the same message is found again: one without a key only while it waits.
fn is_found(message: &Message) -> bool {
    match message.same {
        Same::Key(..) => true,
        Same::Text(_) => message.is_pending(),
    }
}

fn same_of(message: &Message) -> (Address, Sender, Alike, u64) {
    (message.to.clone(), message.from.clone(), alike(&message.same), message.number)
}

fn alike(same: &Same) -> Alike {
    match same {
        Same::Key(key, _) => Alike::Key(key.clone()),
        Same::Text(digest) => Alike::Text(*digest),
    }
}

clocks!(struct QueueHead {
    next_number, next_fence, sent, folded, processed, failed, ran_out, swept,
} until {});
