//! What a hook, a local message and the coordinator's memory cost in a fleet whose server is up, down or hangs, against
//! the same without a fleet (F-09).

use super::{Feed, Machine, Server, has_server, mib, published, status};
use crate::bench::Bench;
use crate::bench::call::Call;
use crate::bench::events::{payload, session_id};
use crate::bench::place::{load, pass, until};
use crate::bench::sample::{Sample, count};
use crate::bench::sandbox::{Coordinator, Sandbox, resident};
use crate::bench::socket::Socket;
use crate::bench::table::{Goal, Table};
use anyhow::Context as _;
use std::time::{Duration, Instant};

const SESSIONS: usize = 20;
/// Rounds, in which each place is called so often, one after the other.
const ROUNDS: usize = 400;
const HOOKS: usize = 25;
const SENDS: usize = 5;
/// The relay publishes what a block made within this time, so that the next block does not pay for it.
const PAUSE: Duration = Duration::from_millis(250);
/// Events after which memory is looked at again.
const EVENTS: usize = 20_000;
/// Neither time nor memory is more than a tenth above that without a fleet.
const GOAL: Goal = Goal::AtMost(1.1, 1.03);

pub(in crate::bench) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if !has_server() {
        return Ok(());
    }
    let mut servers = [Server::start()?, Server::start()?, Server::start()?];
    let mut feed = Feed::new(bench, SESSIONS)?;
    let mut places =
        vec![Place::open("without a fleet", Sandbox::new(bench)?, bench, &mut feed, false)?];
    for (server, what) in servers.iter_mut().zip(["server up", "server down", "server hangs"]) {
        let machine = Machine::new(bench, "desk", server)?;
        server.admit(&[&machine.member])?;
        places.push(Place::open(what, machine.sandbox, bench, &mut feed, true)?);
    }
    for place in places.iter().filter(|place| place.is_member) {
        published(&place.sandbox)?;
    }
    let [_, down, hanging] = &mut servers;
    down.nats.kill();
    hanging.nats.hang();
    for place in places.iter().skip(2) {
        until("the link to be down", || {
            Ok(status(&place.sandbox).filter(|status| !status.is_up).map(|_| ()))
        })?;
    }
    memory("", &places, table)?;
    rounds(bench, &mut places)?;
    times(&places, table)?;
    let sockets = places.iter().map(|place| Socket::open(&place.sandbox.paths));
    let mut sockets = sockets.collect::<Result<Vec<_>, _>>()?;
    for n in 0..bench.rounds(EVENTS) {
        for socket in &mut sockets {
            let event = if (n / SESSIONS).is_multiple_of(2) { "Stop" } else { "UserPromptSubmit" };
            socket.post(&feed.make(event, n % SESSIONS)?, false)?;
        }
    }
    pass(Instant::now() + Duration::from_secs(2));
    memory(&format!(" after {} events", bench.rounds(EVENTS)), &places, table)?;
    hanging.nats.go_on();
    places.into_iter().try_for_each(|place| place.coordinator.down())
}

/// A coordinator, with a fleet or without.
struct Place {
    what: &'static str,
    sandbox: Sandbox,
    is_member: bool,
    coordinator: Coordinator,
    hook: Call,
    send: Call,
    /// Times of hooks and of messages.
    samples: [Sample; 2],
}

impl Place {
    fn open(
        what: &'static str,
        sandbox: Sandbox,
        bench: &Bench,
        feed: &mut Feed,
        is_member: bool,
    ) -> anyhow::Result<Self> {
        feed.begin(&sandbox, 0..SESSIONS)?;
        let coordinator = sandbox.serve()?;
        let hook = bench.programs.hook("coord-hook-post-tool-use");
        let hook = Call::new(&hook, &payload()?).with(&sandbox.arguments());
        let send = Call::new(&bench.programs.coord, b"").with(&sandbox.arguments());
        let samples = Default::default();
        Ok(Self { what, sandbox, is_member, coordinator, hook, send, samples })
    }

    /// Calls hooks, and sends messages, one after the other.
    fn call(&mut self, round: usize) -> anyhow::Result<()> {
        let [hooks, sends] = &mut self.samples;
        for _ in 0..HOOKS {
            hooks.push(self.hook.time()?);
        }
        for n in 0..SENDS {
            let session = session_id(n % SESSIONS);
            let text = format!("message {round} {n}");
            let words = ["send", &session, &text].map(Into::into);
            sends.push(self.send.clone().with(&words).time()?);
        }
        Ok(())
    }
}

/// Calls each place in an order that is turned round each time.
fn rounds(bench: &Bench, places: &mut [Place]) -> anyhow::Result<()> {
    for round in 0..bench.rounds(ROUNDS) {
        for turn in 0..places.len() {
            let at = (round / 2 + turn) % places.len();
            let at = if round % 2 == 0 { at } else { places.len() - 1 - at };
            let Some(place) = places.get_mut(at) else { continue };
            place.call(round)?;
            pass(Instant::now() + PAUSE);
        }
    }
    Ok(())
}

/// What hooks and messages took.
fn times(places: &[Place], table: &mut Table) -> anyhow::Result<()> {
    let (floor, rest) = places.split_first().context("places")?;
    for (what, at) in [("hook", 0), ("coord send", 1)] {
        let of = |place: &Place| -> anyhow::Result<(f64, f64, usize)> {
            let sample = place.samples.get(at).context("a sample")?;
            Ok((sample.median(), sample.p99(), sample.len()))
        };
        let (without, without_p99, _) = of(floor)?;
        for place in rest {
            let (median, p99, n) = of(place)?;
            let detail = format!(
                "median {median:.0} us, p99 {p99:.0} us; without a fleet {without:.0} us, p99 {without_p99:.0} us; \
                 n {n}; load {}",
                load()
            );
            let what = format!("fleet: {what}, {}", place.what);
            table.row(what, median / without, "x", GOAL, detail);
        }
    }
    Ok(())
}

fn memory(when: &str, places: &[Place], table: &mut Table) -> anyhow::Result<()> {
    let (floor, rest) = places.split_first().context("places")?;
    let without = floor.coordinator.resident()?;
    for place in rest {
        let with = place.coordinator.resident()?;
        let status = status(&place.sandbox).context("a relay")?;
        let detail = format!(
            "{:.1} MiB against {:.1} MiB; its relay {:.1} MiB",
            mib(with),
            mib(without),
            mib(resident(status.pid)?)
        );
        let what = format!("fleet: coordinator's memory{when}, {}", place.what);
        table.row(what, count(with) / count(without), "x", GOAL, detail);
    }
    Ok(())
}
