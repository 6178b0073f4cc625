//! One connection to the socket: turns bytes into requests, and responses into bytes. Never blocks.

use std::io::{ErrorKind, Read, Write};

use coord_host::process::Caller;
use mio::net::UnixStream;

use crate::http::{Parsed, Request, Response, parse};

/// A connection, its buffers, and what it owes its peer. It cannot be printed: a request may hold a passphrase.
pub(crate) struct Connection {
    stream: UnixStream,
    /// The peer's process.
    pub(crate) caller: Caller,
    /// When bytes last moved in either direction, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) used_ns: u64,
    /// Whether the connection is registered with the poll set.
    pub(crate) is_registered: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    is_closing: bool,
    owed: Owed,
    /// The value of [`Self::held`] when it was last counted.
    pub(crate) counted: usize,
}

/// Largest capacity, in bytes, that an empty buffer keeps.
const ROOM_KEPT: usize = 64 * 1024;

/// What the peer must receive before its next request is read, so that answers keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    /// Nothing: a request may come.
    Nothing,
    /// An answer that is being prepared.
    Answer,
    /// An answer that may take any time. The wait for it also ends when the peer leaves.
    LateAnswer,
}

/// What [`Connection::advance`] came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A request was read; answer it, then call `advance` again.
    Request(Request),
    /// The connection waits for its peer.
    Waiting,
    /// There is more to read; continue after the other connections.
    More,
    /// The connection is finished.
    Closed,
}

impl Connection {
    /// Wraps an accepted stream.
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

    /// Bytes of memory that the connection's buffers hold: partly received requests and unread answers.
    pub(crate) fn held(&self) -> usize {
        self.input.capacity().saturating_add(self.output.capacity())
    }

    /// The stream, to register it with the poll set.
    pub(crate) fn stream_mut(&mut self) -> &mut UnixStream {
        &mut self.stream
    }

    /// Reads and writes as far as possible without waiting, and reads at most `pieces_max` pieces.
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

    /// Marks the connection as one whose answer comes much later, or never. Until then it is neither
    /// idle nor in the way of others.
    pub(crate) fn park(&mut self) {
        self.owed = Owed::LateAnswer;
    }

    /// Whether the connection was parked and has not been answered since.
    pub(crate) fn is_parked(&self) -> bool {
        self.owed == Owed::LateAnswer
    }

    /// Whether a request of the connection has not been answered yet.
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

    /// Whether the peer still waits. It does not if it left, or if it sent more, which nobody would
    /// read.
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

    /// Writes the queued bytes. Returns false if the peer is gone.
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
