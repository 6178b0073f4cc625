//! The event loop: one thread and one poll set, which holds everything that can wake the coordinator.
//!
//! The loop reads and answers requests itself. A hook waits for its answer, and handing a request to
//! another thread would cost as much as the work. Work that waits for the disk, or reads much of it,
//! runs on other threads, whose results wake the loop.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use coord_host::process::Caller;
use coord_host::watches;
use coord_model::MessageId;
use coord_store::{Disk, now};
use coord_view::history::{self, Wanted};
use coord_wire::peer::Peer;
use mio::net::UnixListener;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::fd::OwnedFd;
use rustix::fs::inotify;

use crate::config_watch::ConfigWatch;
use crate::connection::{Connection, Progress};
use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::notify::Notifier;
use crate::real_world::RealWorld;
use crate::routes::{Route, unavailable};
use crate::waiters::WaiterId;

const LISTENER: Token = Token(0);
/// Other threads wake the loop with this token.
pub(crate) const WAKER: Token = Token(1);
const SIGNALS: Token = Token(2);
const SPOOL: Token = Token(3);
const REGISTRY: Token = Token(4);
const TRANSCRIPTS: Token = Token(5);
const FIRST_CONNECTION: usize = 16;

/// Connections open at once, not counting wake hooks that wait; the one idle for longest is closed
/// first.
const CONNECTIONS_MAX: usize = 1024;
/// Time after which an idle connection is closed, in nanoseconds.
const IDLE_NS: u64 = 60_000_000_000;
/// Lines in one answer that returns history.
const LINES_MAX: usize = 1000;
/// Histories read at once; each takes as much memory as a segment.
const HISTORIES_MAX: usize = 2;
/// Connections accepted before the others are served.
const ACCEPTED_AT_ONCE: usize = 256;
/// Events that one turn takes from the poll set; the next turn takes the rest.
const EVENTS_AT_ONCE: usize = 64;
/// Pieces read from a connection at once; a hook's event fits into the first.
const PIECES_AT_ONCE: usize = 4;
/// Requests of one connection served before those of others.
const REQUESTS_AT_ONCE: usize = 16;

mod flood;

use flood::{Heavy, Lists, is_heavy, is_hook_event, is_session_list};

#[cfg(test)]
mod tests;

/// The event loop and its state.
pub(crate) struct Server<D: Disk> {
    poll: Poll,
    coordinator: Coordinator<RealWorld<D>>,
    listener: UnixListener,
    /// Kept open, because the poll set knows only its descriptor number.
    _signals: StdStream,
    spool_watch: OwnedFd,
    connections: BTreeMap<Token, Connection>,
    next_token: usize,
    /// Bytes of memory that all connections hold.
    held: usize,
    /// Whether the listener has more connections than one turn accepts.
    is_accepting: bool,
    /// Connections that may have more to read, although the poll set will not report them again.
    again: VecDeque<Token>,
    /// Requests that take long; each is answered in a turn of its own.
    heavy: VecDeque<Heavy>,
    lists: Lists,
    /// Answers that wait until the journal is synced up to a record.
    awaiting_sync: Vec<Awaiting>,
    histories: usize,
    /// The connection that waits until its passphrase is verified, and whether it is kept open.
    verifying: Option<(Token, bool)>,
    /// Where history threads send their answers, and where the loop receives them.
    answered: Sender<Answer>,
    answers: Receiver<Answer>,
    waker: Arc<Waker>,
    notifier: Notifier,
    config_watch: ConfigWatch,
    /// The last record at the time of the last heartbeat; it must be durable by the next one.
    owed: u64,
    /// When the present turn began, in nanoseconds of CLOCK_MONOTONIC.
    woke_ns: u64,
    is_ending: bool,
}

/// An answer, the connection it is for, and whether that connection is kept open.
type Answer = (Token, Response, bool);

/// An answer that waits until the journal is synced up to a record.
struct Awaiting {
    seq: u64,
    answer: Answer,
    /// The messages in the answer, each with the fence of its lease.
    handed: Vec<(MessageId, u64)>,
    /// If it is for a hook's event: when the turn began that took the event in.
    hook_since_ns: Option<u64>,
}

/// What the loop gets from its caller.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// The bound socket.
    pub(crate) listener: std::os::unix::net::UnixListener,
    /// Becomes readable when the process is asked to stop.
    pub(crate) signals: StdStream,
    /// Reports writes in the spool directory.
    pub(crate) spool_watch: OwnedFd,
    /// Wakes the loop.
    pub(crate) waker: Arc<Waker>,
    /// Notifies the service manager.
    pub(crate) notifier: Notifier,
    /// Reads the configuration again when its file changes.
    pub(crate) config_watch: ConfigWatch,
}

impl<D: Disk> Server<D> {
    /// Registers all inputs with the poll set.
    pub(crate) fn new(
        poll: Poll,
        coordinator: Coordinator<RealWorld<D>>,
        inputs: Inputs,
    ) -> io::Result<Self> {
        let Inputs { listener, signals, spool_watch, waker, notifier, config_watch } = inputs;
        let mut listener = UnixListener::from_std(listener);
        let registry = poll.registry();
        registry.register(&mut listener, LISTENER, Interest::READABLE)?;
        registry.register(&mut SourceFd(&signals.as_raw_fd()), SIGNALS, Interest::READABLE)?;
        registry.register(&mut SourceFd(&spool_watch.as_raw_fd()), SPOOL, Interest::READABLE)?;
        let watch = coordinator.world.registry_watch.fd().as_raw_fd();
        registry.register(&mut SourceFd(&watch), REGISTRY, Interest::READABLE)?;
        let watch = coordinator.world.transcript_watch.fd().as_raw_fd();
        registry.register(&mut SourceFd(&watch), TRANSCRIPTS, Interest::READABLE)?;
        let (answered, answers) = channel();
        Ok(Self {
            poll,
            coordinator,
            listener,
            _signals: signals,
            spool_watch,
            connections: BTreeMap::new(),
            next_token: FIRST_CONNECTION,
            held: 0,
            is_accepting: false,
            again: VecDeque::new(),
            heavy: VecDeque::new(),
            lists: Lists::default(),
            awaiting_sync: Vec::new(),
            histories: 0,
            verifying: None,
            answered,
            answers,
            waker,
            notifier,
            config_watch,
            owed: 0,
            woke_ns: 0,
            is_ending: false,
        })
    }

    /// Runs the loop until it is asked to stop, and returns the coordinator for its final sync.
    pub(crate) fn run(mut self) -> io::Result<Coordinator<RealWorld<D>>> {
        let mut events = Events::with_capacity(EVENTS_AT_ONCE);
        self.notifier.ready();
        while !self.is_ending {
            self.turn(&mut events)?;
        }
        self.notifier.stopping();
        Ok(self.coordinator)
    }

    /// Waits for events, and handles them.
    fn turn(&mut self, events: &mut Events) -> io::Result<()> {
        let wake_at = if self.has_more() { 0 } else { self.coordinator.wake_at() };
        let timeout = Duration::from_nanos(wake_at.saturating_sub(now().mono_ns));
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => result?,
        }
        // H-52: after a worker is lost, nothing more is accepted or answered.
        if let Some(name) = self.coordinator.world.supervisor().lost() {
            let what = format!("the worker thread {name} ended; the coordinator ends with it");
            tracing::error!("{what}");
            return Err(io::Error::other(what));
        }
        let woke = now();
        self.woke_ns = woke.mono_ns;
        self.coordinator.begin_turn(woke);
        for event in &*events {
            self.on_event(event.token());
        }
        self.go_on();
        self.after_events();
        Ok(())
    }

    fn on_event(&mut self, token: Token) {
        match token {
            LISTENER => self.accept(),
            WAKER => (),
            SIGNALS => self.is_ending = true,
            REGISTRY => self.coordinator.on_registry_changes(),
            TRANSCRIPTS => self.coordinator.on_transcript_changes(now()),
            SPOOL => {
                self.forget_spool_events();
                self.coordinator.on_spool();
            }
            Token(number) if watches::FIRST_TOKEN <= number => {
                if let Some(process) = self.coordinator.world.take_exit(token) {
                    self.coordinator.on_exit(process, now());
                }
            }
            token => self.advance(token),
        }
    }

    /// Does what follows a round of events: results, answers, deadlines and the heartbeat.
    fn after_events(&mut self) {
        self.coordinator.take_results(now());
        while let Some(loaded) = self.config_watch.take() {
            self.coordinator.on_config(loaded, now());
        }
        self.answer_synced();
        self.answer_histories();
        self.answer_verified();
        if self.coordinator.is_judging() {
            // H-05: events that were sent before the death count for its judgement.
            for _ in 0..CONNECTIONS_MAX / ACCEPTED_AT_ONCE {
                self.accept();
            }
            let tokens: Vec<Token> = self.connections.keys().copied().collect();
            tokens.into_iter().for_each(|token| self.advance(token));
        }
        if self.coordinator.end_turn(!self.awaiting_sync.is_empty(), now()) {
            self.close_idle();
            self.report_progress();
        }
        let answers = self.coordinator.take_wake_answers(now());
        self.answer_waiters(answers);
        let answers = self.coordinator.take_request_answers(now());
        self.answer_waiters(answers);
    }

    fn close_idle(&mut self) {
        let turn = now();
        let idle: Vec<Token> = self
            .connections
            .iter()
            .filter(|(_, one)| {
                !one.is_parked() && IDLE_NS < turn.mono_ns.saturating_sub(one.used_ns)
            })
            .map(|(token, _)| *token)
            .collect();
        idle.into_iter().for_each(|token| self.close(token));
    }

    /// Notifies the watchdog if the coordinator makes progress.
    ///
    /// A running loop is not enough: the records of the last heartbeat must be durable by now, or the
    /// journal must be being reopened. If the disk hangs, the watchdog restarts the coordinator, as it
    /// should.
    fn report_progress(&mut self) {
        if self.coordinator.makes_progress(self.owed, now()) {
            self.notifier.progress();
        }
        self.owed = self.coordinator.engine.journal().next_seq().saturating_sub(1);
    }

    fn forget_spool_events(&self) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.spool_watch, &mut buffer);
        while reader.next().is_ok() {}
    }

    fn accept(&mut self) {
        self.is_accepting = false;
        for _ in 0..ACCEPTED_AT_ONCE {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors: the connection that is idle for longest makes room.
                Err(error) if is_out_of_files(&error) && !self.connections.is_empty() => {
                    self.close_idlest();
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "accept");
                    return;
                }
            };
            // G11: only the user who runs the coordinator may connect.
            let euid = rustix::process::geteuid().as_raw();
            let Some(peer) = Peer::of(&stream).ok().filter(|peer| peer.uid == euid) else {
                tracing::warn!("a connection of another user was refused");
                continue;
            };
            if CONNECTIONS_MAX
                <= self.connections.len().saturating_sub(self.coordinator.waiters.len())
            {
                self.close_idlest();
            }
            let token = Token(self.next_token);
            self.next_token += 1;
            let caller = Caller::of(&stream, peer.pid);
            let connection = Connection::new(stream, caller, now().mono_ns);
            self.connections.insert(token, connection);
            // Most requests have already arrived, so a hook's exchange ends without a second poll.
            self.advance_by(token, 1);
        }
        self.is_accepting = true;
    }

    fn advance(&mut self, token: Token) {
        self.advance_by(token, PIECES_AT_ONCE);
    }

    fn advance_by(&mut self, token: Token, pieces_max: usize) {
        for _ in 0..REQUESTS_AT_ONCE {
            let turn = now();
            let Some(connection) = self.connections.get_mut(&token) else { return };
            match connection.advance(pieces_max, turn.mono_ns) {
                Progress::Closed => return self.close(token),
                Progress::Waiting => {
                    self.count_held(token);
                    return self.listen_to(token);
                }
                Progress::More => break,
                // A caller in another pid namespace is refused at once, in `route`.
                Progress::Request(request)
                    if connection.caller.pid != 0 && is_session_list(&request) =>
                {
                    self.lists.ask(token, request.keep_alive);
                }
                Progress::Request(request) if is_heavy(&request) => {
                    self.put_off(token, request);
                }
                Progress::Request(request) => self.serve(token, &request),
            }
        }
        self.count_held(token);
        if !self.again.contains(&token) {
            self.again.push_back(token);
        }
    }

    fn serve(&mut self, token: Token, request: &Request) {
        let Some(connection) = self.connections.get(&token) else { return };
        let route = self.coordinator.route(request, connection.caller, now());
        let waits = matches!(route, Route::Handed(..) | Route::AfterSync(..));
        self.on_route(token, route, request.keep_alive);
        if !is_hook_event(request) {
            return;
        }
        match self.awaiting_sync.last_mut().filter(|_| waits) {
            Some(awaiting) => awaiting.hook_since_ns = Some(self.woke_ns),
            None => self.note_exchange(self.woke_ns),
        }
    }

    /// Counts a hook's event that was answered. The time begins with the turn, because the hook has waited for what
    /// the turn did before.
    fn note_exchange(&mut self, since_ns: u64) {
        let took_ns = now().mono_ns.saturating_sub(since_ns);
        self.coordinator.timings.hook_exchange.observe(took_ns);
    }

    fn on_route(&mut self, token: Token, route: Route, keep_alive: bool) {
        let response = match route {
            Route::Answer(response) => response,
            Route::AfterSync(seq, response) => {
                return self.answer_after_sync(seq, (token, response, keep_alive), Vec::new());
            }
            Route::Handed(seq, response, handed) => {
                // Parked, so that the loop notices if the hook leaves before the sync.
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.park();
                }
                return self.answer_after_sync(seq, (token, response, keep_alive), handed);
            }
            Route::History(_) if HISTORIES_MAX <= self.histories => {
                unavailable("too many histories at once; try again")
            }
            Route::History(wanted) => {
                self.read_history(token, wanted, keep_alive);
                return;
            }
            Route::Wait(ask) => {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.park();
                    self.coordinator.begin_wait(WaiterId(token.0), ask, now());
                }
                return;
            }
            Route::WaitForReply(ask) => {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.park();
                    self.coordinator.begin_request(WaiterId(token.0), ask, now());
                }
                return;
            }
            Route::Verified => {
                self.verifying = Some((token, keep_alive));
                return;
            }
            Route::Down => {
                self.is_ending = true;
                Response::no_content()
            }
        };
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.answer(&response, keep_alive && !self.is_ending);
        }
    }

    fn answer_after_sync(&mut self, seq: u64, answer: Answer, handed: Vec<(MessageId, u64)>) {
        self.awaiting_sync.push(Awaiting { seq, answer, handed, hook_since_ns: None });
    }

    /// Registers a connection with the poll set, unless it already is.
    fn listen_to(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if connection.is_registered {
            return;
        }
        connection.is_registered = true;
        let both = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(connection.stream_mut(), token, both) {
            tracing::warn!(%error, "connection not registered");
            self.close(token);
        }
    }

    fn close(&mut self, token: Token) {
        let gone = self.awaiting_sync.extract_if(.., |one| one.answer.0 == token);
        for Awaiting { handed, .. } in gone.collect::<Vec<_>>() {
            self.coordinator.take_back(&handed, now());
        }
        self.coordinator.end_wait(WaiterId(token.0));
        self.lists.forget(token);
        let Some(mut connection) = self.connections.remove(&token) else { return };
        self.held = self.held.saturating_sub(connection.counted);
        if connection.is_registered
            && let Err(error) = self.poll.registry().deregister(connection.stream_mut())
        {
            tracing::debug!(%error, "connection not deregistered");
        }
    }

    /// Closes the connection that is idle for longest. Connections that wait for an answer come after
    /// idle ones, and wake hooks come last, because closing one costs its session a wake.
    fn close_idlest(&mut self) {
        let rank = |one: &Connection| (one.is_parked(), one.is_owed(), one.used_ns);
        let idlest = self.connections.iter().min_by_key(|(_, one)| rank(one));
        if let Some(token) = idlest.map(|(token, _)| *token) {
            self.close(token);
        }
    }

    fn answer_later(&mut self, token: Token, response: &Response, keep_alive: bool) {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.answer(response, keep_alive);
            self.advance(token);
        }
    }

    fn answer_waiters(&mut self, answers: Vec<(WaiterId, Option<String>)>) {
        for (id, text) in answers {
            let response = text.map_or_else(Response::no_content, Response::text);
            self.answer_later(Token(id.0), &response, false);
        }
    }

    fn answer_synced(&mut self) {
        let journal = self.coordinator.engine.journal();
        let (synced, is_over) = (journal.synced_through(), journal.is_read_only());
        let (done, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.awaiting_sync)
            .into_iter()
            .partition(|one| one.seq <= synced || is_over);
        self.awaiting_sync = waiting;
        for Awaiting { seq, answer: (token, response, keep_alive), handed, hook_since_ns } in done {
            if !handed.is_empty() && self.is_gone(token) {
                self.coordinator.take_back(&handed, now());
                self.close(token);
                continue;
            }
            let response = if seq <= synced {
                response
            } else {
                unavailable("the journal could not be synced")
            };
            self.answer_later(token, &response, keep_alive);
            hook_since_ns.into_iter().for_each(|since_ns| self.note_exchange(since_ns));
        }
    }

    /// Whether the peer of this connection has left.
    fn is_gone(&mut self, token: Token) -> bool {
        self.connections.get_mut(&token).is_none_or(|connection| !connection.is_quiet())
    }

    fn read_history(&mut self, token: Token, wanted: Wanted, keep_alive: bool) {
        self.histories += 1;
        let (answers, waker) = (self.answered.clone(), Arc::clone(&self.waker));
        let disk = self.coordinator.disk.clone();
        let dir = self.coordinator.paths.journal();
        let thread = std::thread::Builder::new().name("coord-history".to_owned());
        let spawned = thread.spawn(move || {
            let lines = if wanted.decisions_only {
                history::newest(&disk, &dir, &wanted, LINES_MAX)
            } else {
                history::page(&disk, &dir, &wanted, LINES_MAX)
            };
            let response = match lines {
                Ok(lines) => Response::json(&lines),
                Err(error) => Response::error(500, "store", &error.to_string()),
            };
            if answers.send((token, response, keep_alive)).is_ok() {
                // If the wake-up fails, the loop still turns within its heartbeat interval.
                drop(waker.wake());
            }
        });
        if let Err(error) = spawned {
            self.histories -= 1;
            self.answer_later(token, &unavailable(&error.to_string()), false);
        }
    }

    fn answer_verified(&mut self) {
        if let Some(response) = self.coordinator.unlocks.take_answer()
            && let Some((token, keep_alive)) = self.verifying.take()
        {
            self.answer_later(token, &response, keep_alive);
        }
    }

    fn answer_histories(&mut self) {
        while let Ok((token, response, keep_alive)) = self.answers.try_recv() {
            self.histories = self.histories.saturating_sub(1);
            self.answer_later(token, &response, keep_alive);
        }
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| code == Some(errno.raw_os_error()))
}
