//! Messages: from sent to done over the socket of a coordinator, everything durable, against append +
//! fdatasync; and what an operation costs while very many wait, in process and unsynced, where nothing else
//! covers it.

use super::Bench;
use super::sample::{Sample, count};
use super::sandbox::Sandbox;
use super::socket::Socket;
use super::table::{Goal, Table};
use anyhow::{Context, anyhow};
use coord_daemon::engine::Engine;
use coord_model::{Address, Event, MessageId, NewMessage, QueueEvent, Same, Sender};
use coord_store::{RealDisk, now};
use coord_wire::message::Claimed;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

/// Consumers at once.
const CONSUMERS: usize = 64;
/// Messages of each in one round.
const EACH: usize = 8;
/// Messages of the only one in one round.
const ALONE: usize = 50;
/// Operations in process in one round: a third of them each is sent, claimed and done.
const MESSAGES: usize = 300;
/// What a text is here.
const TEXT_BYTES: usize = 500;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    throughput(bench, table)?;
    waiting(bench, table)
}

fn throughput(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let sandbox = Sandbox::new(bench)?;
    let coordinator = sandbox.serve()?;
    let mut plain = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(sandbox.root().join("plain"))?;
    let mut samples: [Sample; 3] = Default::default();
    let [flush, one, many] = &mut samples;
    let text = "x".repeat(TEXT_BYTES);
    for round in 0..bench.rounds(30) {
        let begun = Instant::now();
        for _ in 0..ALONE {
            plain.write_all(text.as_bytes())?;
            plain.sync_data()?;
        }
        flush.push_each(begun.elapsed(), ALONE);
        one.push_each(there_and_back(&sandbox, 1, ALONE, round)?, ALONE);
        many.push_each(there_and_back(&sandbox, CONSUMERS, EACH, round)?, CONSUMERS * EACH);
    }
    coordinator.down()?;
    let [flush, one, many] = &samples;
    for (what, sample) in [("1 consumer", one), ("64 consumers", many)] {
        let detail = format!(
            "{:.0} us a message, sent, claimed and done, each durable; append + fdatasync {:.0} us",
            sample.median(),
            flush.median()
        );
        let what = format!("queue, enqueue to done, {what}");
        table.row(what, 1e6 / sample.median(), "messages/s", Goal::None, detail);
    }
    Ok(())
}

/// So many threads, each of which sends a message, takes one and settles it, `each` times.
fn there_and_back(
    sandbox: &Sandbox,
    threads: usize,
    each: usize,
    round: usize,
) -> anyhow::Result<Duration> {
    let sockets =
        (0..threads).map(|_| Socket::open(&sandbox.paths)).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = sockets
            .into_iter()
            .enumerate()
            .map(|(at, mut socket)| {
                scope.spawn(move || {
                    (0..each).try_for_each(|n| one(&mut socket, &format!("{round} {at} {n}")))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a panic"))?)
    })?;
    Ok(begun.elapsed())
}

fn one(socket: &mut Socket, name: &str) -> anyhow::Result<()> {
    let text = format!("{name:x<TEXT_BYTES$}");
    socket.ask("/v1/messages", &json!({"queue": "bench", "text": text}))?;
    let claimed = socket.ask("/v1/queues/bench/claim", &json!({"holder": "bench"}))?;
    let claimed: Claimed = serde_json::from_str(&claimed).context("a claimed message")?;
    let path = format!("/v1/messages/{}/done", claimed.message.id);
    socket.ask(&path, &json!({"fence": claimed.fence}))?;
    Ok(())
}

fn waiting(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let mut places = Vec::new();
    let mut next = 0;
    for waiting in [100, 100_000] {
        let sandbox = Sandbox::new(bench)?;
        let mut engine = sandbox.engine()?;
        for _ in 0..waiting {
            send(&mut engine, &mut next)?;
        }
        places.push((sandbox, engine, Sample::default()));
    }
    for round in 0..bench.rounds(200) {
        for turn in 0..places.len() {
            let at = (round + turn) % places.len();
            let Some((_, engine, sample)) = places.get_mut(at) else { continue };
            let begun = Instant::now();
            for _ in 0..MESSAGES {
                send(engine, &mut next)?;
                settle(engine)?;
            }
            sample.push_each(begun.elapsed(), 3 * MESSAGES);
        }
    }
    if let [(.., few), (.., many)] = places.as_slice() {
        let detail = format!(
            "{:.2} us against {:.2} us; record, step; in process; {:.0} messages done",
            many.median(),
            few.median(),
            count(MESSAGES * many.len())
        );
        let what = "queue, cost of an operation, 100,000 waiting against 100";
        table.row(what, many.median() / few.median(), "x", Goal::AtMost(1.2, 1.05), detail);
    }
    Ok(())
}

fn send(engine: &mut Engine<RealDisk>, next: &mut u64) -> anyhow::Result<()> {
    *next += 1;
    let id = MessageId::from_random(next.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let new = NewMessage {
        id,
        to: Address::Queue("bench".to_owned()),
        from: Sender::Operator,
        is_urgent: false,
        depth: 0,
        same: Same::Text(*next),
        bytes: 500,
        ttl_ms: None,
    };
    record(engine, id, &QueueEvent::Sent(new))
}

/// Takes the next message and settles it.
fn settle(engine: &mut Engine<RealDisk>) -> anyhow::Result<()> {
    let id = engine.state().next_in_queue("bench").context("a message")?.id;
    let claimed = QueueEvent::Claimed { id, holder: "bench".to_owned(), lease_ms: 300_000 };
    record(engine, id, &claimed)?;
    let lease = engine.state().message(id).and_then(|message| message.lease());
    let fence = lease.context("a lease")?.fence;
    record(engine, id, &QueueEvent::Done { id, fence })
}

fn record(engine: &mut Engine<RealDisk>, id: MessageId, event: &QueueEvent) -> anyhow::Result<()> {
    let (id, what, event) = (id.to_string(), "bench".to_owned(), event.clone());
    let entry = Event::Message { id, what, event };
    engine.record(&entry, now())?;
    Ok(())
}
