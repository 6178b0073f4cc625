//! How messages are shown: a list, and one of them. With a coordinator and without, from the state alone.

use coord_core::{
    Address, Awake, Lease, LineCounts, Message, MessageState, Now, Same, Sender, State,
};
use coord_wire::inspect::SCHEMA;
use coord_wire::message::{MessageInfo, Messages, Totals};
use coord_wire::stamp::rfc3339;

/// Which messages are listed.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Those under this name; none for all.
    pub queue: Option<String>,
    /// Those in this state, or `slow`, or `stuck`; none for all.
    pub state: Option<String>,
    /// So many at most.
    pub limit: usize,
}

/// Whom it is for, in words.
pub(super) fn receiver(to: &Address) -> String {
    match to {
        Address::Queue(name) => name.clone(),
    }
}

/// Who sent it, in words.
pub(super) fn sender(from: &Sender) -> String {
    match from {
        Sender::Operator => "operator".to_owned(),
        Sender::Session(id) => format!("session {id}"),
        Sender::Agent => "an agent".to_owned(),
        Sender::Program(name) => format!("program {name}"),
    }
}

/// Those that are wanted, newest first, and how many are where.
pub fn list(state: &State, wanted: &Wanted, now: Now) -> Messages {
    let is_wanted = |message: &&Message| {
        let Address::Queue(queue) = &message.to;
        let is_of = wanted.queue.as_ref().is_none_or(|name| name == queue);
        let is_in = |word: &String| is_in(state, message, word, now);
        is_of && wanted.state.as_ref().is_none_or(is_in)
    };
    let mut found: Vec<&Message> = state.messages().filter(is_wanted).collect();
    found.sort_unstable_by_key(|message| std::cmp::Reverse(message.number));
    let left_out = found.len().saturating_sub(wanted.limit);
    let messages = found.into_iter().take(wanted.limit).map(|one| shown(state, one, now)).collect();
    Messages { schema: SCHEMA, totals: totals(state, now), messages, left_out }
}

fn is_in(state: &State, message: &Message, word: &str, now: Now) -> bool {
    match (word, message.lease()) {
        ("stuck", lease) => lease.is_some_and(|lease| lease.until < state.moment(now).awake),
        ("slow", lease) => lease.is_some_and(|lease| is_slow(state, lease, now)),
        (word, _) => message.word() == word,
    }
}

fn is_slow(state: &State, lease: &Lease, now: Now) -> bool {
    let worked_ms = state.moment(now).awake.ms_since(lease.since.awake);
    state.header().settings.queue.slow_ms < worked_ms
}

/// How many messages are where.
pub fn totals(state: &State, now: Now) -> Totals {
    let mut totals = Totals::default();
    for (_, LineCounts { pending, processing, failed }) in state.message_lines() {
        totals.pending += pending;
        totals.processing += processing;
        totals.failed += failed;
    }
    let open = totals.pending + totals.processing + totals.failed;
    totals.processed = state.messages().len().saturating_sub(open);
    [_, totals.slow, totals.stuck] = state.worked_on(state.moment(now).awake);
    totals
}

/// One message, for people and programs.
pub fn shown(state: &State, message: &Message, now: Now) -> MessageInfo {
    let awake = state.moment(now).awake;
    let wall = |at: Awake| rfc3339(now.wall_ms.saturating_add(at.ms_since(awake)));
    let (because, since, until) = match &message.state {
        MessageState::Pending { not_before: None } => {
            ("waits for a consumer".to_owned(), None, None)
        }
        MessageState::Pending { not_before: Some(at) } => {
            let why = message.last_failure.as_deref().unwrap_or("an attempt failed");
            (format!("{why}; waits for its next attempt"), None, Some(wall(*at)))
        }
        MessageState::Processing(lease) => {
            let because = format!("{} has it", lease.holder);
            (because, Some(lease.since.wall_ms), Some(wall(lease.until)))
        }
        MessageState::Processed { at, .. } => ("done".to_owned(), Some(at.wall_ms), None),
        MessageState::Failed { at, reason, .. } => (reason.clone(), Some(at.wall_ms), None),
    };
    MessageInfo {
        id: message.id.to_string(),
        queue: receiver(&message.to),
        from: sender(&message.from),
        state: message.word().to_owned(),
        urgent: message.is_urgent,
        key: match &message.same {
            Same::Key(key, _) => Some(key.clone()),
            Same::Text(_) => None,
        },
        bytes: message.bytes,
        sent_at: rfc3339(message.sent.wall_ms),
        expires_at: message.expires.map(|at| rfc3339(at.wall_ms)),
        folded: message.folded,
        attempts: message.attempts,
        maybe_duplicate: message.maybe_duplicate,
        because,
        holder: message.lease().map(|lease| lease.holder.clone()),
        until,
        slow: message.lease().is_some_and(|lease| is_slow(state, lease, now)),
        since: since.map(rfc3339),
        text: None,
    }
}
