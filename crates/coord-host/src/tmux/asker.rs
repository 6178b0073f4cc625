//! Has a tmux server run commands: finds the program, checks the socket, and does not wait again for
//! a server that hung.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coord_store::clock::{Clock, RealClock};

use super::program::{self, Output};
use super::socket::{ServerSocket, ServerSockets};
use crate::registry::Readable;

/// A tmux process that has not answered by then is ended.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// A server that hung is asked again after this.
const HUNG_NS: u64 = 30_000_000_000;

/// Asks tmux servers.
#[derive(Debug)]
pub struct Asker {
    /// Where the program may be, before the usual places.
    places: Vec<PathBuf>,
    readable: Readable,
    pub(crate) answer_within: Duration,
    /// Servers that did not answer in time, and when they are asked again, CLOCK_MONOTONIC: a look that
    /// waits for them costs a process each time, and who shares this asker waits too.
    hung: BTreeMap<String, u64>,
    sockets: ServerSockets,
}

impl Asker {
    /// `places` are tried before the usual ones; `readable` says which sockets may be asked (H-14).
    pub fn new(places: Vec<PathBuf>, readable: Readable) -> Self {
        Self {
            places,
            readable,
            answer_within: ANSWER_WITHIN,
            hung: BTreeMap::new(),
            sockets: ServerSockets::default(),
        }
    }

    /// Another one with the same program and rights.
    pub(crate) fn another(&self) -> Self {
        let new = Self::new(self.places.clone(), self.readable.clone());
        Self { answer_within: self.answer_within, ..new }
    }

    /// Has the server behind `socket` run these commands, if `may_ask` allows it.
    pub(crate) fn ask(
        &mut self,
        socket: &str,
        may_ask: impl FnOnce(&ServerSocket) -> Result<(), String>,
        script: &str,
    ) -> Result<(ServerSocket, Output), String> {
        if self.hung.get(socket).is_some_and(|until| RealClock.mono_ns() < *until) {
            return Err(format!("{socket}: its server did not answer; it is asked again soon"));
        }
        let server_socket = self.sockets.open(&self.readable, Path::new(socket))?;
        may_ask(&server_socket).map_err(|why| format!("{socket}: {why}"))?;
        let program = program::find(&self.places)?;
        let began = RealClock.mono_ns();
        let output = program::run(&program, &server_socket, script, self.answer_within);
        self.hung.remove(socket);
        let now_ns = RealClock.mono_ns();
        if output.is_err()
            && self.answer_within.as_nanos() <= u128::from(now_ns.saturating_sub(began))
        {
            self.hung.insert(socket.to_owned(), now_ns.saturating_add(HUNG_NS));
        }
        Ok((server_socket, output?))
    }
}
