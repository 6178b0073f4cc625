//! How long a change of a session takes until the other machines show it: from the event that is posted to the
//! coordinator of one machine to the files that `coord inspect --fleet` reads on the others.

use super::{Feed, Machine, Server, has_server, published};
use crate::bench::Bench;
use crate::bench::events::session_id;
use crate::bench::place::load;
use crate::bench::sample::Sample;
use crate::bench::sandbox::Coordinator;
use crate::bench::socket::Socket;
use crate::bench::table::{Goal, Table};
use anyhow::bail;
use coord_relay::PeerFile;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["desk", "laptop", "server"];
/// Sessions of each machine.
const SESSIONS: usize = 20;
/// Between two looks at the files.
const PAUSE: Duration = Duration::from_millis(4);
/// No change takes so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// States that follow each other in a session, and the events that lead to them.
const TURNS: [(&str, &str); 2] = [("Stop", "idle"), ("UserPromptSubmit", "running")];

pub(in crate::bench) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if !has_server() {
        return Ok(());
    }
    let mut server = Server::start()?;
    let machines = NAMES.map(|name| Machine::new(bench, name, &server));
    let machines = machines.into_iter().collect::<Result<Vec<Machine>, _>>()?;
    let members: Vec<_> = machines.iter().map(|one| &one.member).collect();
    server.admit(&members)?;
    let mut feed = Feed::new(bench, SESSIONS * machines.len())?;
    for (at, one) in machines.iter().enumerate() {
        feed.begin(&one.sandbox, at * SESSIONS..(at + 1) * SESSIONS)?;
    }
    let coordinators = machines.iter().map(|one| one.sandbox.serve());
    let coordinators = coordinators.collect::<Result<Vec<_>, _>>()?;
    let mut fleet = Watched::new(feed, &machines)?;
    for one in &machines {
        published(&one.sandbox)?;
    }
    fleet.wait_for_all()?;
    let counts = if bench.quick { [50, 200] } else { [200, 1_000] };
    for ((what, per_s), n) in [("1 change", 1.0), ("10 changes", 10.0)].into_iter().zip(counts) {
        let sample = fleet.change(n, Duration::from_secs_f64(1.0 / per_s))?;
        let detail = format!(
            "median {:.2} s; {n} changes on {} machines of {SESSIONS} sessions, {} seen; load {}",
            sample.median() / 1e6,
            NAMES.len(),
            sample.len(),
            load()
        );
        let what = format!("fleet: {what} a second, seen elsewhere, p99");
        table.row(what, sample.p99() / 1e6, "s", Goal::AtMost(1.0, 0.5), detail);
    }
    coordinators.into_iter().try_for_each(Coordinator::down)
}

/// The sessions of all machines, and what each machine shows of the others.
struct Watched {
    feed: Feed,
    sockets: Vec<Socket>,
    shown: Vec<Shown>,
    /// Changes so far.
    changes: usize,
}

/// What a machine shows of another one.
struct Shown {
    of: usize,
    file: PathBuf,
    text: Vec<u8>,
    states: BTreeMap<String, String>,
}

/// A change that a machine does not show yet.
struct Pending {
    session: String,
    state: &'static str,
    posted: Instant,
}

#[derive(Deserialize)]
struct State {
    state: String,
}

impl Watched {
    fn new(feed: Feed, machines: &[Machine]) -> anyhow::Result<Self> {
        let (mut sockets, mut shown) = (Vec::new(), Vec::new());
        for (of, machine) in machines.iter().enumerate() {
            sockets.push(Socket::open(&machine.sandbox.paths)?);
            for (_, other) in machines.iter().enumerate().filter(|(at, _)| *at != of) {
                let dir = other.sandbox.paths.fleet_machines();
                let file = dir.join(format!("{}.json", machine.member.id()));
                shown.push(Shown { of, file, text: Vec::new(), states: BTreeMap::new() });
            }
        }
        Ok(Self { feed, sockets, shown, changes: 0 })
    }

    /// Waits until each machine shows a turn in each session of the others.
    fn wait_for_all(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        for shown in &mut self.shown {
            let is_running = |shown: &Shown| {
                let running = shown.states.values().filter(|state| *state == "running");
                running.count() == SESSIONS
            };
            while !is_running(shown) {
                if PATIENCE < begun.elapsed() {
                    bail!("not all sessions are shown as running: {:?}", shown.states);
                }
                shown.look()?;
                std::thread::park_timeout(PAUSE);
            }
        }
        Ok(())
    }

    /// Changes sessions of all machines in turn, and notes how long each change took until each other machine showed it.
    fn change(&mut self, n: usize, each: Duration) -> anyhow::Result<Sample> {
        let mut sample = Sample::default();
        let mut pending: Vec<Vec<Pending>> = self.shown.iter().map(|_| Vec::new()).collect();
        let mut due = Instant::now();
        let mut sent = 0;
        while sent < n || pending.iter().any(|list| !list.is_empty()) {
            if sent < n && due <= Instant::now() {
                self.post(&mut pending)?;
                sent += 1;
                due += each;
            }
            for (shown, list) in self.shown.iter_mut().zip(&mut pending) {
                if list.is_empty() || !shown.look()? {
                    continue;
                }
                let now = Instant::now();
                list.retain(|one| {
                    let is_there = shown.states.get(&one.session).is_some_and(|s| s == one.state);
                    if is_there {
                        sample.push(now.duration_since(one.posted));
                    }
                    !is_there
                });
            }
            let late = pending.iter().flatten().find(|one| PATIENCE < one.posted.elapsed());
            if let Some(Pending { session, state, .. }) = late {
                bail!("{session} is not shown as {state} within {PATIENCE:?}");
            }
            std::thread::park_timeout(PAUSE);
        }
        Ok(sample)
    }

    fn post(&mut self, pending: &mut [Vec<Pending>]) -> anyhow::Result<()> {
        let all = SESSIONS * self.sockets.len();
        // Each machine in turn, and of each its sessions in turn.
        let at = self.changes % self.sockets.len();
        let number = at * SESSIONS + (self.changes / self.sockets.len()) % SESSIONS;
        let (event, state) = TURNS[(self.changes / all) % TURNS.len()];
        self.changes += 1;
        let text = self.feed.make(event, number)?;
        let posted = Instant::now();
        if let Some(socket) = self.sockets.get_mut(at) {
            socket.post(&text, false)?;
        }
        for (shown, list) in self.shown.iter().zip(pending) {
            if shown.of == at {
                list.push(Pending { session: session_id(number), state, posted });
            }
        }
        Ok(())
    }
}

impl Shown {
    /// Reads the file; whether it has changed.
    fn look(&mut self) -> anyhow::Result<bool> {
        let Ok(text) = fs::read(&self.file) else { return Ok(false) };
        if text == self.text {
            return Ok(false);
        }
        let file: PeerFile = serde_json::from_slice(&text)?;
        self.states = file
            .peer
            .sessions
            .iter()
            .map(|(id, one)| {
                let State { state } = serde_json::from_str(one.session.get())?;
                Ok((id.clone(), state))
            })
            .collect::<anyhow::Result<_>>()?;
        self.text = text;
        Ok(true)
    }
}
