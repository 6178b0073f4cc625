//! Selects the records that become lines, and follows the messages of the selected sessions (U-10).

use std::collections::BTreeSet;

use coord_model::stamp::rfc3339;
use coord_model::{
    Address, Event, NeedId, NewMessage, ProcessRef, QueueEvent, Record, Sender, SessionKey,
};

use super::line::{DECISION, DUE};
use super::{Kind, Line, line};

/// Selects lines of history.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only lines from this position on.
    pub from_seq: u64,
    /// Only lines from this wall time on, in milliseconds since 1970.
    pub since_ms: u64,
    /// Only lines of this session.
    pub of: Option<Of>,
    /// With them, the lines of the messages to these records, and of those that the session sent; none leaves messages
    /// out.
    pub messages_of: Option<BTreeSet<SessionKey>>,
    /// With them, what was observed of these processes.
    pub processes: BTreeSet<ProcessRef>,
    /// Only what is about this need: how it began and ended, and what was told of it.
    pub need: Option<NeedId>,
    /// Only decisions.
    pub decisions_only: bool,
    /// How much of it.
    pub detail: Detail,
}

/// How much of the history is selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Detail {
    /// What happened to sessions: their edges, decisions, messages, orders and actions.
    Edges,
    /// The same with the work in between: tools, subagents, notifications.
    Work,
    /// Everything that was recorded, without the ticks. Programs read this.
    #[default]
    Records,
    /// Everything.
    All,
}

/// Selects lines by session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// All ids that a record has had.
    Ids(BTreeSet<String>),
    /// All ids that begin with this text, which have no record (any more) but may have history.
    Beginning(String),
}

impl Of {
    fn has(&self, id: &str) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(id),
            Self::Beginning(beginning) => id.starts_with(beginning.as_str()),
        }
    }
}

impl Detail {
    /// Whether a line is among it.
    pub fn has(self, line: &Line) -> bool {
        match self {
            Self::All => true,
            Self::Records => line.name != DUE,
            Self::Work => line.kind < Kind::Observation,
            Self::Edges => line.kind < Kind::Activity,
        }
    }
}

/// Bytes within which a record names its kind of entry.
const HEAD_BYTES: usize = 160;
/// How the entry of a message begins.
const MESSAGE_ENTRY: &[u8] = br#""entry":{"message":"#;

/// Whether a record is about a message, without parsing it.
pub(super) fn is_of_message(payload: &[u8]) -> bool {
    let head = payload.get(..HEAD_BYTES).unwrap_or(payload);
    head.windows(MESSAGE_ENTRY.len()).any(|part| part == MESSAGE_ENTRY)
}

/// What is wanted, and the messages that belong to it as far as the journal was read.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    pub(super) wanted: Wanted,
    messages: BTreeSet<String>,
}

impl Selector {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, messages: BTreeSet::new() }
    }

    /// Whether messages have to be learned before their lines can be selected.
    pub(super) fn follows_messages(&self) -> bool {
        self.wanted.of.is_some() && self.wanted.messages_of.is_some()
    }

    /// Learns from a record whether a message belongs to the selected sessions.
    pub(super) fn learn(&mut self, payload: &[u8]) {
        if let Ok(record) = serde_json::from_slice(payload) {
            self.learn_from(&record);
        }
    }

    fn learn_from(&mut self, record: &Record) {
        let Event::Message { event: QueueEvent::Sent(NewMessage { id, to, from, .. }), .. } =
            &record.entry
        else {
            return;
        };
        let (Some(of), Some(keys)) = (&self.wanted.of, &self.wanted.messages_of) else { return };
        let is_to = matches!(to, Address::Session(key) if keys.contains(key));
        let is_from = matches!(from, Sender::Session(id) if of.has(id));
        if is_to || is_from {
            self.messages.insert(id.to_string());
        }
    }

    /// Turns a record into a line, if it is selected.
    pub(super) fn line(&mut self, seq: u64, payload: &[u8]) -> Option<Line> {
        let line = match serde_json::from_slice(payload) {
            Ok(record) => {
                self.learn_from(&record);
                line(record)
            }
            Err(_) => Line::unreadable(seq, 0),
        };
        let wanted = &self.wanted;
        let of_session = match (&wanted.of, &line.session_id) {
            (None, _) => true,
            (Some(of), Some(id)) => of.has(id) || self.messages.contains(id),
            (Some(_), None) => line.process.is_some_and(|one| wanted.processes.contains(&one)),
        };
        let is_of_kind =
            wanted.detail.has(&line) && (!wanted.decisions_only || line.name == DECISION);
        let is_of_need = wanted.need.is_none_or(|need| line.needs.contains(&need));
        let is_recent = wanted.since_ms == 0 || rfc3339(wanted.since_ms) <= line.at;
        (of_session && is_of_kind && is_of_need && is_recent).then_some(line)
    }
}
