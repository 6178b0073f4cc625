//! Keeps one sender from delaying or outgrowing all others (H-49): heavy requests take turns, the list
//! of all sessions is built in pieces, and the memory that connections hold is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use coord_model::envelope::ENVELOPE_BYTES_MAX;
use coord_store::{Disk, now};
use mio::Token;

use super::Server;
use crate::batch::{Batch, is_array};
use crate::http::{Request, Response};
use crate::report::SessionList;
use crate::routes::{segments, unavailable};

/// Longest body, in bytes, of a request that is served at once. A longer one is no hook's, and is served
/// in a turn of its own.
const LIGHT_BODY_BYTES: usize = ENVELOPE_BYTES_MAX;
/// Unread answers and partly received requests of all connections together, in bytes (H-49).
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The same limit for the connections of one process, in bytes.
const HELD_BY_PEER_MAX: usize = 16 * 1024 * 1024;
/// A connection that holds no more than this, in bytes, is never closed for its memory.
const HELD_LITTLE: usize = 32 * 1024;
/// Bodies of heavy requests that wait for their turn, in bytes; further ones are refused.
const HEAVY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Connections with more to read that one turn continues with.
const CONNECTIONS_PER_TURN: usize = 32;
/// Connections that receive a list in one turn; each gets a copy.
const ANSWERS_PER_TURN: usize = 4;
/// Sessions added to a list in one turn.
const SESSIONS_PER_TURN: usize = 50;
/// Events of a batch that are checked or recorded in one turn.
const EVENTS_PER_TURN: usize = 20;

/// A request that takes long to answer.
#[derive(Debug)]
pub(super) struct Heavy {
    token: Token,
    request: Request,
    /// The events in the request, once work on it has begun.
    batch: Option<Batch>,
}

/// Connections that wait for a list, each with whether it is kept open.
type Waiting = Vec<(Token, bool)>;

/// The lists of all sessions that were requested.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Connections that wait for the next list.
    waiting: Waiting,
    /// The list that is being built, and the connections that wait for it.
    making: Option<(SessionList, Waiting)>,
    /// The finished list, and the connections that have not received it yet.
    made: Option<(Arc<Response>, Waiting)>,
}

impl Lists {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.making.is_none() && self.made.is_none()
    }

    pub(super) fn ask(&mut self, token: Token, keep_alive: bool) {
        self.waiting.push((token, keep_alive));
    }

    pub(super) fn forget(&mut self, token: Token) {
        let making = self.making.as_mut().map(|(_, waiting)| waiting);
        let made = self.made.as_mut().map(|(_, waiting)| waiting);
        for waiting in [Some(&mut self.waiting), making, made].into_iter().flatten() {
            waiting.retain(|(other, _)| *other != token);
        }
    }
}

impl<D: Disk> Server<D> {
    /// Whether some work was put off until the next turn.
    pub(super) fn has_more(&self) -> bool {
        self.is_accepting
            || !self.again.is_empty()
            || !self.heavy.is_empty()
            || !self.lists.is_empty()
    }

    /// Continues with work that was put off: connections with more to read, one heavy request, and a
    /// piece of a list.
    pub(super) fn go_on(&mut self) {
        if self.is_accepting {
            self.accept();
        }
        for _ in 0..self.again.len().min(CONNECTIONS_PER_TURN) {
            let Some(token) = self.again.pop_front() else { break };
            self.advance(token);
        }
        if let Some(heavy) = self.heavy.pop_front() {
            self.go_on_with_heavy(heavy);
        }
        self.go_on_with_list();
    }

    /// Puts a request off until its turn.
    pub(super) fn put_off(&mut self, token: Token, request: Request) {
        let waiting: usize = self.heavy.iter().map(|one| one.request.body.len()).sum();
        if HEAVY_BYTES_MAX < waiting.saturating_add(request.body.len()) {
            if let Some(connection) = self.connections.get_mut(&token) {
                let busy = unavailable("too many long requests at once; try again");
                connection.answer(&busy, request.keep_alive);
            }
            return;
        }
        self.heavy.push_back(Heavy { token, request, batch: None });
    }

    fn go_on_with_heavy(&mut self, mut heavy: Heavy) {
        let (token, keep_alive) = (heavy.token, heavy.request.keep_alive);
        let caller = self.connections.get(&token).map(|one| one.caller);
        let begun = match (&mut heavy.batch, caller) {
            (Some(batch), _) => batch,
            (None, Some(caller)) if caller.pid != 0 && is_batch(&heavy.request) => {
                match Batch::of(&heavy.request, caller) {
                    Ok(batch) => heavy.batch.insert(batch),
                    Err(response) => return self.answer_later(token, &response, keep_alive),
                }
            }
            (None, _) => {
                self.serve(token, &heavy.request);
                return self.advance(token);
            }
        };
        match self.coordinator.go_on_with(begun, EVENTS_PER_TURN, now()) {
            None => self.heavy.push_back(heavy),
            Some(route) => {
                self.on_route(token, route, keep_alive);
                self.advance(token);
            }
        }
    }

    /// Continues with the list of all sessions. All who had asked for it when building began get the
    /// same list.
    fn go_on_with_list(&mut self) {
        if let Some((response, waiting)) = &mut self.lists.made {
            let n = waiting.len().min(ANSWERS_PER_TURN);
            let now_answered: Waiting = waiting.drain(..n).collect();
            let response = Arc::clone(response);
            if waiting.is_empty() {
                self.lists.made = None;
            }
            for (token, keep_alive) in now_answered {
                self.answer_later(token, &response, keep_alive);
            }
            return;
        }
        if self.lists.making.is_none() && !self.lists.waiting.is_empty() {
            let list = self.coordinator.begin_list(now());
            self.lists.making = Some((list, std::mem::take(&mut self.lists.waiting)));
        }
        let Some((mut list, waiting)) = self.lists.making.take() else { return };
        if self.coordinator.add_to_list(&mut list, SESSIONS_PER_TURN) {
            self.lists.made = Some((Arc::new(list.response()), waiting));
        } else {
            self.lists.making = Some((list, waiting));
        }
    }

    /// Updates how much memory a connection holds.
    ///
    /// If one process holds too much, this connection is closed. If all connections together hold too
    /// much, the newest connection of the process that holds most is closed.
    pub(super) fn count_held(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let (held, pid) = (connection.held(), connection.caller.pid);
        self.held = self.held.saturating_sub(connection.counted).saturating_add(held);
        connection.counted = held;
        if HELD_LITTLE < held {
            let others = self.held_by(pid).saturating_sub(held);
            if 0 < others && HELD_BY_PEER_MAX < others.saturating_add(held) {
                tracing::warn!(
                    pid,
                    "a connection was closed: its process leaves too much unread or half sent"
                );
                self.close(token);
            }
        }
        while HELD_BYTES_MAX < self.held && self.close_heaviest() {}
    }

    fn held_by(&self, pid: u32) -> usize {
        let of_peer = self.connections.values().filter(|one| one.caller.pid == pid);
        of_peer.map(|one| one.counted).sum()
    }

    /// Closes the newest connection of the process that holds most. Returns false if only one connection
    /// holds a notable amount.
    fn close_heaviest(&mut self) -> bool {
        let mut by_peer: BTreeMap<u32, (usize, Token)> = BTreeMap::new();
        let holders = self.connections.iter().filter(|(_, one)| HELD_LITTLE < one.counted);
        for (token, one) in holders.clone() {
            let (held, newest) = by_peer.entry(one.caller.pid).or_insert((0, *token));
            *held = held.saturating_add(one.counted);
            *newest = (*newest).max(*token);
        }
        let heaviest = by_peer.into_iter().max_by_key(|(_, (held, _))| *held);
        let Some((pid, (_, token))) = heaviest.filter(|_| 1 < holders.count()) else {
            return false;
        };
        tracing::warn!(pid, "a connection was closed: too much is unread or half sent in all");
        self.close(token);
        true
    }
}

/// Whether a request takes long to answer: a list of messages, the metrics, a long body, or a batch of
/// events.
pub(super) fn is_heavy(request: &Request) -> bool {
    let is_read = request.method == "GET"
        && matches!(request.path.trim_matches('/'), "metrics" | "v1/messages");
    is_read || LIGHT_BODY_BYTES < request.body.len() || is_batch(request)
}

fn is_batch(request: &Request) -> bool {
    request.method == "POST"
        && segments(&request.path) == ["v1", "events"]
        && is_array(&request.body)
}

/// Whether a request reports an event, or several.
pub(super) fn is_hook_event(request: &Request) -> bool {
    request.method == "POST" && request.path.trim_matches('/') == "v1/events"
}

/// Whether a request asks for the list of all sessions.
pub(super) fn is_session_list(request: &Request) -> bool {
    request.method == "GET" && segments(&request.path) == ["v1", "sessions"]
}
