//! What keeps one sender from delaying or outgrowing all others (H-49): heavy requests take turns, a
//! history is answered in pages, and what connections hold in memory is bounded.

use std::collections::{BTreeMap, VecDeque};

use coord_wire::limits::ENVELOPE_BYTES_MAX;
use mio::Token;

use super::Server;
use crate::engine::now;
use crate::history;
use crate::http::{Request, Response};
use crate::routes::Route;

/// A history is answered in pages of this many bytes, about, and lines.
const HISTORY_BYTES_MAX: usize = 8 * 1024 * 1024;
const HISTORY_LINES_MAX: usize = 10_000;
/// A request with a longer body is served by itself, one in a turn: it is no hook's.
const LIGHT_BODY_BYTES: usize = ENVELOPE_BYTES_MAX;
/// Unread answers and half-sent requests of all connections together, in bytes (H-49).
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The same of one process.
const HELD_BY_PEER_MAX: usize = 16 * 1024 * 1024;
/// A connection that holds less is not looked at more closely, in bytes.
const HELD_LITTLE: usize = 128 * 1024;

impl Server {
    /// Goes on with what was put off: connections with more to say, and one heavy request.
    pub(super) fn go_on(&mut self) {
        if self.is_accepting {
            self.accept();
        }
        for token in std::mem::take(&mut self.again) {
            self.advance(token);
        }
        let Some((token, request)) = self.heavy.pop_front() else { return };
        let is_here = |server: &Self, token: &Token| {
            server.connections.get(token).is_some_and(|one| one.caller.pid != 0)
        };
        // Who is in another pid namespace is refused, by itself.
        if !is_list(&request) || !is_here(self, &token) {
            self.serve(token, &request);
            return self.advance(token);
        }
        // Everybody who waits for the list gets the same one: it was made after each had asked.
        let Some(connection) = self.connections.get(&token) else { return };
        let Route::Answer(list) = self.coordinator.route(&request, connection.caller, now()) else {
            return self.close(token);
        };
        self.answer_later(token, &list, request.keep_alive);
        let (waiting, rest): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.heavy).into_iter().partition(|(token, other)| {
                is_here(self, token)
                    && is_list(other)
                    && (&other.path, &other.query) == (&request.path, &request.query)
            });
        self.heavy = rest;
        for (token, request) in waiting {
            self.answer_later(token, &list, request.keep_alive);
        }
    }

    /// Counts what a connection holds. When a process, or all together, hold too much, the newest
    /// connection of the heaviest process goes.
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

    /// Closes the newest connection of the process that holds most; false if only one holds anything.
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

/// Whether answering it takes long: a list of all, or a batch of events.
pub(super) fn is_heavy(request: &Request) -> bool {
    LIGHT_BODY_BYTES < request.body.len() || is_list(request)
}

fn is_list(request: &Request) -> bool {
    request.method == "GET"
        && matches!(request.path.as_str(), "/v1/sessions" | "/v1/messages" | "/metrics")
}

/// The lines of a history that fit one answer: whoever gets this many asks for what follows the last.
#[derive(Debug, Default)]
pub(super) struct Page {
    body: Vec<u8>,
    lines: usize,
    is_full: bool,
}

impl Page {
    pub(super) fn push(&mut self, line: &history::Line) {
        self.is_full |= HISTORY_BYTES_MAX <= self.body.len() || HISTORY_LINES_MAX <= self.lines;
        if self.is_full {
            return;
        }
        self.body.push(if self.lines == 0 { b'[' } else { b',' });
        self.lines += 1;
        if let Err(error) = serde_json::to_writer(&mut self.body, line) {
            tracing::error!(%error, "a line of history could not be written as JSON");
        }
    }

    pub(super) fn response(mut self) -> Response {
        if self.lines == 0 {
            self.body.push(b'[');
        }
        self.body.push(b']');
        Response { status: 200, body: self.body, content_type: "application/json" }
    }
}
