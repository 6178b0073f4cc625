//! Batches of records against single records, appended to a real server; and how fast a machine catches up after an outage,
//! against the rate at which its events come.

use super::{Feed, Machine, Member, Server, has_server, published, runtime, status};
use crate::bench::Bench;
use crate::bench::place::{load, until};
use crate::bench::sample::{Sample, count};
use crate::bench::socket::Socket;
use crate::bench::table::{Goal, Table};
use anyhow::anyhow;
use coord_fleet::{Batch, Engine as _, Incarnation, Writer};
use coord_relay::{Connection, NatsEngine};
use std::time::{Duration, Instant};

/// Records in a batch.
const BATCH: u64 = 64;
/// Bytes of a record as `coord events --json` prints it.
const RECORD_BYTES: usize = 500;
const ROUNDS: usize = 100;
/// Records after an outage.
const RECORDS: usize = 10_000;
const SESSIONS: usize = 50;
/// Records of a machine while it works: 50 sessions, one a second each.
const LIVE_PER_S: f64 = 50.0;

pub(in crate::bench) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if !has_server() {
        return Ok(());
    }
    batches(bench, table)?;
    catch_up(bench, table)
}

fn batches(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let mut server = Server::start()?;
    let members = [Member::new()?, Member::new()?];
    server.admit(&members.iter().collect::<Vec<_>>())?;
    let mut samples: [Sample; 2] = Default::default();
    runtime()?.block_on(async {
        let mut publishers = Vec::new();
        for (member, each) in members.into_iter().zip([1, BATCH]) {
            let settings = server.settings(member.login.seed());
            let connection = Connection::open(&settings, member.id()).await?;
            publishers.push(Publisher {
                engine: connection.engine(),
                member,
                each,
                last: 0,
                after: 0,
            });
        }
        for _ in 0..bench.rounds(ROUNDS) {
            for (publisher, sample) in publishers.iter_mut().zip(&mut samples) {
                let begun = Instant::now();
                publisher.publish().await?;
                sample.push_each(begun.elapsed(), usize::try_from(BATCH)?);
            }
        }
        anyhow::Ok(())
    })?;
    let [single, batch] = &samples;
    let detail = format!(
        "{:.0} us a record in batches of {BATCH}, {:.0} us alone; one append under way at a time; load {}",
        batch.median(),
        single.median(),
        load()
    );
    let ratio = single.median() / batch.median();
    table.row(
        "fleet: records in batches to single ones",
        ratio,
        "x",
        Goal::AtLeast(10.0, 30.0),
        detail,
    );
    Ok(())
}

/// Appends batches of so many records.
struct Publisher {
    engine: NatsEngine,
    member: Member,
    each: u64,
    last: u64,
    after: u64,
}

impl Publisher {
    /// Appends 64 records.
    async fn publish(&mut self) -> anyhow::Result<()> {
        let line = format!("{{\"text\":\"{}\"}}\n", "x".repeat(RECORD_BYTES));
        let incarnation = Incarnation(self.member.id().to_string());
        for _ in 0..BATCH / self.each {
            let batch = Batch {
                writer: Writer { incarnation: incarnation.clone(), relay: String::new() },
                edition: 0,
                first: self.last + 1,
                last: self.last + self.each,
                is_gap: false,
                lines: line.repeat(usize::try_from(self.each)?),
            };
            self.last = batch.last;
            let sealed = batch.seal(&self.member.keys);
            let place = self.engine.append(&sealed, self.after).await;
            self.after = place.map_err(|error| anyhow!(error))?;
        }
        Ok(())
    }
}

fn catch_up(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let mut server = Server::start()?;
    let machine = Machine::new(bench, "desk", &server)?;
    server.admit(&[&machine.member])?;
    let mut feed = Feed::new(bench, SESSIONS)?;
    feed.begin(&machine.sandbox, 0..SESSIONS)?;
    let coordinator = machine.sandbox.serve()?;
    let held = published(&machine.sandbox)?.durable;
    server.nats.kill();
    until("the link to be down", || {
        Ok(status(&machine.sandbox).filter(|status| !status.is_up).map(|_| ()))
    })?;
    let mut socket = Socket::open(&machine.sandbox.paths)?;
    for n in 0..RECORDS {
        // Turns end and begin: each of these is published.
        let event = if (n / SESSIONS).is_multiple_of(2) { "Stop" } else { "UserPromptSubmit" };
        socket.post(&feed.make(event, n % SESSIONS)?, n + 1 == RECORDS)?;
    }
    server.nats.start_again();
    let mut up = None;
    let begun = Instant::now();
    let through = until("the machine to catch up", || {
        let Some(status) = status(&machine.sandbox).filter(|status| status.is_up) else {
            return Ok(None);
        };
        up.get_or_insert_with(Instant::now);
        let is_done = held < status.durable && status.held_through == Some(status.durable);
        Ok(is_done.then_some(status.durable))
    })?;
    let whole = begun.elapsed();
    let records = count(usize::try_from(through - held)?);
    let linked = up.map_or(whole, |up| up.duration_since(begun));
    let detail = format!(
        "{records:.0} records in {:.1} s, {:.1} s of them until the link was up; live are {LIVE_PER_S} records/s; load {}",
        whole.as_secs_f64(),
        linked.as_secs_f64(),
        load()
    );
    // The status is written this often, so that nothing shorter is seen.
    let took = whole.saturating_sub(linked).max(Duration::from_millis(500));
    let ratio = records / took.as_secs_f64() / LIVE_PER_S;
    table.row("fleet: catch-up to live rate", ratio, "x", Goal::AtLeast(4.0, 40.0), detail);
    coordinator.down()
}
