//! Holds the messages, and the indexes that keep the cost of an operation independent of how many wait.
//! The indexes follow from the messages and are never stored.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::{Address, Message, MessageId, MessageState, Same, Sender};
use crate::time::Awake;

/// What is kept beside the messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueHead {
    /// Number of the next message.
    pub next_number: u64,
    /// Fence of the next lease.
    pub next_fence: u64,
    /// Messages accepted.
    pub sent: u64,
    /// Messages that were folded into one that was there.
    pub folded: u64,
    /// Messages done.
    pub processed: u64,
    /// Messages that failed, expired or were dropped.
    pub failed: u64,
    /// Leases that ran out.
    pub ran_out: u64,
    /// When leases were swept last.
    pub swept: Awake,
}

/// How many messages of one receiver are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineCounts {
    /// They wait.
    pub pending: usize,
    /// Somebody has them.
    pub processing: usize,
    /// They failed.
    pub failed: usize,
}

/// Urgent ones first, then in the order in which they were sent.
type Rank = (bool, u64);

/// The messages of one receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Line {
    ready: BTreeMap<Rank, MessageId>,
    counts: LineCounts,
}

/// All messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shelf {
    messages: BTreeMap<MessageId, Message>,
    lines: BTreeMap<Address, Line>,
    /// The first of those that are the same counts.
    same: BTreeMap<(Address, Sender, Alike, u64), MessageId>,
    deadlines: BTreeSet<(Awake, MessageId)>,
    leases: BTreeSet<MessageId>,
}

/// What is looked for when the same comes again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    Key(String),
    Text(u64),
}

impl Shelf {
    /// A message.
    pub(crate) fn get(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(&id)
    }

    /// All of them, in the order of their ids.
    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.messages.values()
    }

    /// Those between two ids.
    pub(crate) fn between(&self, from: MessageId, to: MessageId) -> impl Iterator<Item = &Message> {
        self.messages.range(from..=to).map(|(_, message)| message)
    }

    /// Those that somebody has.
    pub(crate) fn leased(&self) -> impl Iterator<Item = &Message> {
        self.leases.iter().filter_map(|id| self.messages.get(id))
    }

    /// The next message of a receiver.
    pub(crate) fn next(&self, to: &Address) -> Option<&Message> {
        let (_, id) = self.lines.get(to)?.ready.first_key_value()?;
        self.messages.get(id)
    }

    /// How many of a receiver's are where.
    pub(crate) fn counts(&self, to: &Address) -> LineCounts {
        self.lines.get(to).map_or_else(LineCounts::default, |line| line.counts)
    }

    /// All receivers that have messages.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&Address, LineCounts)> {
        self.lines.iter().map(|(to, line)| (to, line.counts))
    }

    /// The one that is the same, if one is there.
    pub(crate) fn same_as(&self, to: &Address, from: &Sender, same: &Same) -> Option<&Message> {
        let all = |number| (to.clone(), from.clone(), alike(same), number);
        let (_, id) = self.same.range(all(0)..=all(u64::MAX)).next()?;
        self.messages.get(id)
    }

    /// When the next one changes by time alone.
    pub(crate) fn next_deadline(&self) -> Option<Awake> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Those that time alone has changed by now.
    pub(crate) fn due(&self, now: Awake) -> Vec<MessageId> {
        self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }

    /// As if all timers had been lost.
    #[cfg(test)]
    pub(super) fn lose_deadlines(&mut self) {
        self.deadlines.clear();
    }

    /// Puts a message in.
    pub(crate) fn put(&mut self, message: Message) {
        let id = message.id;
        if let Some(deadline) = message.deadline() {
            self.deadlines.insert((deadline, id));
        }
        if message.lease().is_some() {
            self.leases.insert(id);
        }
        if is_found(&message) {
            self.same.insert(same_of(&message), id);
        }
        let line = self.lines.entry(message.to.clone()).or_default();
        if message.is_ready() {
            line.ready.insert(rank(&message), id);
        }
        if let Some(count) = line.count(&message) {
            *count = count.saturating_add(1);
        }
        self.messages.insert(id, message);
    }

    /// Takes a message out; [`Self::put`] brings it back.
    pub(crate) fn take(&mut self, id: MessageId) -> Option<Message> {
        let message = self.messages.remove(&id)?;
        if let Some(deadline) = message.deadline() {
            self.deadlines.remove(&(deadline, id));
        }
        self.leases.remove(&id);
        if is_found(&message) {
            self.same.remove(&same_of(&message));
        }
        if let Some(line) = self.lines.get_mut(&message.to) {
            line.ready.remove(&rank(&message));
            if let Some(count) = line.count(&message) {
                *count = count.saturating_sub(1);
            }
            if line.counts == LineCounts::default() {
                self.lines.remove(&message.to);
            }
        }
        Some(message)
    }
}

impl Line {
    fn count(&mut self, message: &Message) -> Option<&mut usize> {
        match message.state {
            MessageState::Pending { .. } => Some(&mut self.counts.pending),
            MessageState::Processing(_) => Some(&mut self.counts.processing),
            MessageState::Failed { .. } => Some(&mut self.counts.failed),
            MessageState::Processed { .. } => None,
        }
    }
}

fn rank(message: &Message) -> Rank {
    (!message.is_urgent, message.number)
}

/// One without a key is found only while it waits.
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
