//! Shows messages, as a list or one by one, from the state alone: with a coordinator and without.

use coord_core::{Lease, LineCounts, Message, MessageState, State};
use coord_model::stamp::rfc3339;
use coord_model::{Address, Awake, Now, RemoteSender, RemoteWho, Same, Sender, SessionKey};
use coord_wire::inspect::SCHEMA;
use coord_wire::message::{MessageInfo, Messages, Totals};

/// Selects messages for a list.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only messages in this queue; none selects all.
    pub queue: Option<String>,
    /// Only messages to this session; none selects all.
    pub session: Option<SessionKey>,
    /// Only messages in this state, or `slow` or `stuck` ones; none selects all.
    pub state: Option<String>,
    /// Most messages listed.
    pub limit: usize,
}

/// The receiver of a message, in words.
pub fn receiver(state: &State, to: &Address) -> String {
    match to {
        Address::Queue(name) => name.clone(),
        Address::Session(key) => format!("session {}", session_id(state, *key)),
        Address::Remote(to) => format!("session {}/{}", to.name, to.session),
    }
}

/// The present id of a session.
fn session_id(state: &State, key: SessionKey) -> String {
    state.session(key).map_or_else(|| "that is gone".to_owned(), |one| one.session_id.clone())
}

/// The sender of a message, in words.
pub fn sender(from: &Sender) -> String {
    match from {
        Sender::Operator => "operator".to_owned(),
        Sender::Session(id) => format!("session {id}"),
        Sender::Agent => "an agent".to_owned(),
        Sender::Program(name) => format!("program {name}"),
        Sender::Coord => "coord".to_owned(),
        Sender::Remote(RemoteSender { name, who, .. }) => match who {
            RemoteWho::Operator => format!("operator on {name}"),
            RemoteWho::Session(id) => format!("session {name}/{id}"),
            RemoteWho::Other => format!("machine {name}"),
        },
    }
}

/// Lists the selected messages, newest first, and counts all messages by state.
pub fn list(state: &State, wanted: &Wanted, now: Now) -> Messages {
    let is_wanted = |message: &&Message| {
        let is_queue = |name: &String| message.to == Address::Queue(name.clone());
        let is_of = wanted.queue.as_ref().is_none_or(is_queue)
            && wanted.session.is_none_or(|key| message.session() == Some(key));
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

/// Counts all messages by state.
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

/// Shows one message, for people and programs.
pub fn shown(state: &State, message: &Message, now: Now) -> MessageInfo {
    let awake = state.moment(now).awake;
    let wall = |at: Awake| rfc3339(now.wall_ms.saturating_add(at.ms_since(awake)));
    let (because, since, until) = match &message.state {
        MessageState::Pending { not_before: None } => {
            let waits = state.waits_for(message, state.moment(now));
            let waits = waits.unwrap_or_else(|| match message.remote() {
                Some(to) => format!("to be sent to {}", to.name),
                None => "waits for a consumer".to_owned(),
            });
            (waits, None, None)
        }
        MessageState::Pending { not_before: Some(at) } => {
            let why = message.last_failure.as_deref().unwrap_or("an attempt failed");
            (format!("{why}; waits for its next attempt"), None, Some(wall(*at)))
        }
        MessageState::Processing(lease) => {
            let because = match lease.sought {
                None if message.accepted.is_some() => {
                    format!("kept on {}, where it waits for its session", lease.holder)
                }
                None if message.remote().is_some() => {
                    format!("on its way to {}", lease.holder)
                }
                None => format!("claimed by {}", lease.holder),
                Some(_) => format!("handed over by {}, not proved yet", lease.holder),
            };
            (because, Some(lease.since.wall_ms), Some(wall(lease.until)))
        }
        MessageState::Processed { at, .. } => {
            let done = if message.session().is_some() { "delivered" } else { "done" };
            (done.to_owned(), Some(at.wall_ms), None)
        }
        MessageState::Failed { at, reason, .. } => (reason.clone(), Some(at.wall_ms), None),
    };
    MessageInfo {
        id: message.id.to_string(),
        queue: match &message.to {
            Address::Queue(name) => Some(name.clone()),
            Address::Session(_) | Address::Remote(_) => None,
        },
        session_id: message
            .session()
            .map(|key| session_id(state, key))
            .or_else(|| message.remote().map(|to| format!("{}/{}", to.name, to.session))),
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
        text_withheld: false,
    }
}
