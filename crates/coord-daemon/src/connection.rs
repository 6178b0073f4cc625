//! One connection to the socket: bytes in, requests out; responses in, bytes out. Never blocks.

use std::io::{ErrorKind, Read, Write};

use coord_host::process::Caller;
use mio::net::UnixStream;

use crate::http::{Parsed, Request, Response, parse};

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    /// The peer.
    pub(crate) caller: Caller,
    /// When it was last of use, CLOCK_MONOTONIC.
    pub(crate) used_ns: u64,
    /// Whether the poll set has it.
    pub(crate) is_registered: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    is_closing: bool,
    owed: Owed,
    /// What [`Self::held`] was when it was counted last.
    pub(crate) counted: usize,
}

/// Buffers that are empty keep no more room than this.
const ROOM_KEPT: usize = 64 * 1024;

/// What the peer has to get before its next request counts, so that answers keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    /// Nothing: a request may come.
    Nothing,
    /// An answer, which is being worked on.
    Answer,
    /// An answer whose time is not in sight: the wait for it ends with the peer too.
    LateAnswer,
}

/// What a connection is up to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A request is there; answer it, then ask again.
    Request(Request),
    /// It waits for its peer.
    Waiting,
    /// There is more to read: go on after others had their turn.
    More,
    /// It is over.
    Closed,
}

impl Connection {
    /// Takes over an accepted stream.
    pub(crate) fn new(stream: UnixStream, caller: Caller, now_ns: u64) -> Self {
        Self {
            stream,
            caller,
            used_ns: now_ns,
            is_registered: false,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            is_closing: false,
            owed: Owed::Nothing,
            counted: 0,
        }
    }

    /// Bytes of memory that it takes: what was half sent, and what is unread.
    pub(crate) fn held(&self) -> usize {
        self.input.capacity().saturating_add(self.output.capacity())
    }

    /// The stream, to register it.
    pub(crate) fn stream_mut(&mut self) -> &mut UnixStream {
        &mut self.stream
    }

    /// Reads and writes as far as it goes without waiting, and reads at most so many pieces.
    pub(crate) fn advance(&mut self, pieces_max: usize, now_ns: u64) -> Progress {
        let written_before = self.written;
        if !self.flush() {
            return Progress::Closed;
        }
        if self.written != written_before {
            self.used_ns = now_ns;
        }
        if self.is_parked() {
            return if self.is_quiet() { Progress::Waiting } else { Progress::Closed };
        }
        if self.owed == Owed::Answer || self.written < self.output.len() {
            return Progress::Waiting;
        }
        if self.is_closing {
            return Progress::Closed;
        }
        let mut pieces = 0;
        loop {
            match parse(&self.input) {
                Parsed::Whole(request, used) => {
                    self.input.drain(..used);
                    if self.input.is_empty() {
                        self.input.shrink_to(ROOM_KEPT);
                    }
                    self.owed = Owed::Answer;
                    return Progress::Request(request);
                }
                Parsed::Bad(response) => {
                    self.answer(&response, false);
                    return if self.flush() { Progress::Waiting } else { Progress::Closed };
                }
                Parsed::Partial if pieces_max <= pieces => return Progress::More,
                Parsed::Partial => match self.read() {
                    Ok(0) => return Progress::Closed,
                    Ok(_) => {
                        self.used_ns = now_ns;
                        pieces += 1;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Progress::Waiting;
                    }
                    Err(_) => return Progress::Closed,
                },
            }
        }
    }

    /// The answer will come much later, or never: until then the connection is neither idle nor in
    /// the way of others.
    pub(crate) fn park(&mut self) {
        self.owed = Owed::LateAnswer;
    }

    /// Whether it was parked and not answered since.
    pub(crate) fn is_parked(&self) -> bool {
        self.owed == Owed::LateAnswer
    }

    /// Whether its request is not answered yet.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed != Owed::Nothing
    }

    /// Queues an answer; [`Self::advance`] sends it.
    pub(crate) fn answer(&mut self, response: &Response, keep_alive: bool) {
        self.owed = Owed::Nothing;
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        response.write(&mut self.output, keep_alive);
        self.is_closing = !keep_alive;
    }

    /// Whether the peer still waits: it neither left nor sent more, which nobody would read.
    pub(crate) fn is_quiet(&mut self) -> bool {
        matches!(self.read(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    fn read(&mut self) -> std::io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(n) => {
                    self.input.extend_from_slice(buffer.get(..n).unwrap_or_default());
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes what is queued; false when the peer is gone.
    fn flush(&mut self) -> bool {
        while let Some(rest) = self.output.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(n) => self.written += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        if ROOM_KEPT < self.output.capacity() {
            self.output = Vec::new();
            self.written = 0;
        }
        true
    }
}
