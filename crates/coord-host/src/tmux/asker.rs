//! Runs commands on a tmux server: finds the program, checks the socket, and does not wait again for a server
//! that did not answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coord_store::clock::{Clock, RealClock};

use super::program::{self, Output};
use super::socket::{ServerSocket, ServerSockets};
use crate::registry::Readable;

/// Time after which a tmux process that has not answered is killed.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Time after which a server that did not answer is queried again, in nanoseconds.
const HUNG_NS: u64 = 30_000_000_000;

/// Queries tmux servers.
#[derive(Debug)]
pub struct Asker {
    /// Where to look for the program before the usual places.
    places: Vec<PathBuf>,
    readable: Readable,
    pub(crate) answer_within: Duration,
    /// Servers that did not answer in time, and when each is queried again, in nanoseconds of
    /// CLOCK_MONOTONIC. Each attempt costs a process, and delays all other users of this asker.
    hung: BTreeMap<String, u64>,
    sockets: ServerSockets,
}

impl Asker {
    /// `places` are tried before the usual places; `readable` says which sockets may be queried (H-14).
    pub fn new(places: Vec<PathBuf>, readable: Readable) -> Self {
        Self {
            places,
            readable,
            answer_within: ANSWER_WITHIN,
            hung: BTreeMap::new(),
            sockets: ServerSockets::default(),
        }
    }

    /// Creates an asker with the same program and rights.
    #[must_use]
    pub fn another(&self) -> Self {
        let new = Self::new(self.places.clone(), self.readable.clone());
        Self { answer_within: self.answer_within, ..new }
    }

    /// Runs commands on the server at `socket`, if `may_ask` allows it.
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
