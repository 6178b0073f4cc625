//! Runs one thread for each tmux server, so that a server that does not answer delays no capture on another
//! one.
//!
//! Requests that arrive during a capture are queued and handled together. Of several queued requests for one
//! process, the most urgent one is kept. Threads are kept as long as the servers are few.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use coord_model::ProcessRef;
use coord_store::clock::{Clock, RealClock};

use super::{PaneAnswer, PaneWish, Tmux, answer_to, unreadable};
use crate::worker::{QueueWorker, Supervisor, Waiting};

/// Most threads at once; a person has one or two servers. Beyond this, the thread that was idle for longest
/// ends.
const SERVERS_MAX: usize = 16;

/// The threads, by socket.
#[derive(Debug)]
pub(crate) struct Servers {
    /// The adapter that each thread gets a copy of.
    tmux: Tmux,
    supervisor: Supervisor,
    by_socket: BTreeMap<String, Server>,
    answers: Sender<PaneAnswer>,
    seen: Receiver<PaneAnswer>,
    n_requests: u64,
}

#[derive(Debug)]
struct Server {
    worker: QueueWorker<Wishes>,
    /// The number of requests so far when this thread got its last one.
    used: u64,
}

/// Queued requests, the most urgent one of each process.
#[derive(Debug, Default)]
struct Wishes(BTreeMap<ProcessRef, PaneWish>);

impl Wishes {
    fn add(&mut self, wish: PaneWish) {
        match self.0.get(&wish.process) {
            Some(waiting) if wish.look < waiting.look => (),
            Some(_) | None => drop(self.0.insert(wish.process, wish)),
        }
    }
}

impl Waiting for Wishes {
    /// All queued requests at once.
    type Task = Vec<PaneWish>;

    fn next(&mut self) -> Option<Vec<PaneWish>> {
        (!self.is_empty()).then(|| std::mem::take(&mut self.0).into_values().collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Servers {
    /// Starts without threads; each one will use the settings of `tmux`.
    pub(crate) fn new(tmux: Tmux, supervisor: Supervisor) -> Self {
        let (answers, seen) = channel();
        Self { tmux, supervisor, by_socket: BTreeMap::new(), answers, seen, n_requests: 0 }
    }

    /// Queues requests for captures. Each is answered once, and the loop is woken. Those for one server are queued
    /// together, so that they cost one process.
    pub(crate) fn look_at(&mut self, wishes: Vec<PaneWish>) {
        let mut by_socket: BTreeMap<String, Vec<PaneWish>> = BTreeMap::new();
        for wish in wishes {
            by_socket.entry(wish.pane.socket.clone()).or_default().push(wish);
        }
        for (socket, wishes) in by_socket {
            self.n_requests += 1;
            match self.server(&socket) {
                Ok(server) => server.worker.put(|queue| {
                    for wish in wishes {
                        queue.add(wish);
                    }
                }),
                Err(why) => wishes.iter().for_each(|wish| self.refuse(wish, &why)),
            }
        }
    }

    /// The next answer, if there is one.
    pub(crate) fn take(&self) -> Option<PaneAnswer> {
        self.seen.try_recv().ok()
    }

    fn server(&mut self, socket: &str) -> Result<&Server, String> {
        if !self.by_socket.contains_key(socket) {
            self.make_room()?;
            let server = self.start().map_err(|error| format!("no thread for it: {error}"))?;
            self.by_socket.insert(socket.to_owned(), server);
        }
        let used = self.n_requests;
        let server = self.by_socket.get_mut(socket).ok_or("it has no thread")?;
        server.used = used;
        Ok(server)
    }

    /// Ends the thread that was idle for longest, if there are too many.
    fn make_room(&mut self) -> Result<(), String> {
        if self.by_socket.len() < SERVERS_MAX {
            return Ok(());
        }
        let idle = self.by_socket.iter().filter(|(_, server)| server.worker.is_idle());
        let oldest = idle.min_by_key(|(_, server)| server.used).map(|(socket, _)| socket.clone());
        let oldest = oldest.ok_or("too many tmux servers do not answer")?;
        drop(self.by_socket.remove(&oldest));
        Ok(())
    }

    fn start(&self) -> std::io::Result<Server> {
        let mut tmux = self.tmux.another();
        let look = move |wishes| tmux.look(wishes);
        let answers = self.answers.clone();
        let worker = QueueWorker::start(&self.supervisor, "coord-panes", answers, look)?;
        Ok(Server { worker, used: 0 })
    }

    /// Answers a request that no thread can handle.
    fn refuse(&self, wish: &PaneWish, why: &str) {
        let answer = answer_to(wish, *unreadable(why), RealClock.mono_ns());
        // The loop holds the receiver, and reads answers after each request.
        let _it_is_there = self.answers.send(answer);
        self.supervisor.wake();
    }
}

impl Drop for Servers {
    /// Asks all threads to end at once, since each may be waiting for a server that hangs.
    fn drop(&mut self) {
        for server in self.by_socket.values() {
            server.worker.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tmux::tests as real;
    use coord_model::{Look, PaneFound, PaneProof, TmuxPane};
    use mio::{Events, Poll, Token, Waker};
    use std::sync::Arc;

    const PROCESS: ProcessRef = ProcessRef { pid: 7, start_time: 1 };

    fn servers(tmux: Tmux) -> (Poll, Servers) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        (poll, Servers::new(tmux, Supervisor::new(waker)))
    }

    fn next(poll: &mut Poll, servers: &Servers) -> PaneAnswer {
        let mut events = Events::with_capacity(4);
        loop {
            if let Some(answer) = servers.take() {
                return answer;
            }
            poll.poll(&mut events, None).unwrap();
        }
    }

    /// A request for a pane of a tmux server that does not exist.
    fn nowhere(process: ProcessRef, socket: &str, look: Look) -> PaneWish {
        let server = ProcessRef { pid: 1, start_time: 1 };
        let pane = TmuxPane { socket: socket.to_owned(), server, pane: "%0".to_owned() };
        PaneWish { process, pane, proof: None, look }
    }

    // The thread is woken once for all captures that are requested together.
    #[test]
    fn requests_for_one_server_cost_one_process() {
        const MANY: u64 = 5_000;
        let server = real::Server::new("exec cat");
        let (tmux, count) = real::counted(&server);
        let process = server.first("%0");
        let wish = |n| {
            let process = ProcessRef { pid: process.pid, start_time: process.start_time + n };
            // Each of them alone would be reason enough to ask the server.
            let proof = Some(PaneProof { pane_pid: process.pid, tty: 1 });
            PaneWish { proof, ..server.wish(process, "%0", Look::Sweep) }
        };
        let (mut poll, mut servers) = servers(tmux);
        // From here on its thread waits, and would take the first of many requests at once.
        servers.look_at(vec![wish(0)]);
        next(&mut poll, &servers);
        servers.look_at((0..MANY).map(wish).collect());
        let found = (0..MANY).map(|_| next(&mut poll, &servers).pane);
        assert_eq!(found.filter(|pane| matches!(pane, PaneFound::Found(_))).count(), 1);
        assert_eq!(real::starts(&count), 2);
    }

    // H-32, R-10: a server that is stopped does not delay captures on the others.
    #[test]
    fn a_server_that_hangs_holds_up_no_other() {
        let [hung, well] = [real::Server::new("exec cat"), real::Server::new("exec cat")];
        let (mut poll, mut servers) = servers(real::tmux());
        let wish = |server: &real::Server| server.wish(server.first("%0"), "%0", Look::Decision);
        let (of_hung, of_well) = (wish(&hung), wish(&well));
        let stopped = hung.stop();
        servers.look_at(vec![of_hung.clone()]);
        for _ in 0..3 {
            servers.look_at(vec![of_well.clone()]);
            let PaneAnswer { process, pane, .. } = next(&mut poll, &servers);
            assert_eq!(process, of_well.process);
            assert!(matches!(pane, PaneFound::Found { .. }), "{pane:?}");
        }
        drop(stopped);
        let PaneAnswer { process, pane, .. } = next(&mut poll, &servers);
        assert_eq!(process, of_hung.process);
        assert!(matches!(pane, PaneFound::Found { .. }), "{pane:?}");
    }

    #[test]
    fn every_wish_is_answered_and_threads_are_bounded() {
        let (mut poll, mut servers) = servers(real::tmux());
        for n in 0..3 * SERVERS_MAX {
            servers.look_at(vec![nowhere(PROCESS, &format!("nowhere-{n}"), Look::AfterDeath)]);
            let PaneAnswer { process, pane, after_death, .. } = next(&mut poll, &servers);
            assert_eq!((process, after_death), (PROCESS, true));
            assert!(matches!(pane, PaneFound::Unreadable { .. }));
            assert!(servers.by_socket.len() <= SERVERS_MAX);
        }
    }

    #[test]
    fn with_too_many_servers_at_work_a_wish_is_refused_in_words() {
        let (mut poll, mut servers) = servers(real::tmux());
        for n in 0..SERVERS_MAX {
            servers.look_at(vec![nowhere(PROCESS, &format!("nowhere-{n}"), Look::Sweep)]);
            next(&mut poll, &servers);
        }
        // Makes all threads appear to wait for a server that does not answer.
        for server in servers.by_socket.values() {
            while !server.worker.is_idle() {
                std::thread::yield_now();
            }
            server.worker.seem_busy();
        }
        servers.look_at(vec![nowhere(PROCESS, "one more", Look::Sweep)]);
        let PaneFound::Unreadable { why } = next(&mut poll, &servers).pane else {
            panic!("a pane")
        };
        assert!(why.contains("too many tmux servers"), "{why}");
    }

    #[test]
    fn who_waits_already_does_not_wait_twice() {
        let mut wishes = Wishes::default();
        let other = ProcessRef { pid: 8, start_time: 1 };
        wishes.add(nowhere(PROCESS, "s", Look::Sweep));
        wishes.add(nowhere(other, "s", Look::AfterDeath));
        wishes.add(nowhere(PROCESS, "s", Look::Decision));
        wishes.add(nowhere(other, "s", Look::Sweep));
        let looks: Vec<Look> = wishes.next().unwrap().into_iter().map(|wish| wish.look).collect();
        assert_eq!(looks, [Look::Decision, Look::AfterDeath]);
        assert!(wishes.next().is_none());
    }
}
