//! Events taken in: applied to the state and durable, against append + fdatasync of as many bytes.
//!
//! Measured twice: with the coordinator's engine and journal inside this process (what the store
//! can do; 64 writers are 64 events to a flush), and over the socket of a coordinator (what programs
//! get; 64 writers are 64 threads, each waiting for its own event).

use super::Bench;
use super::events::{Events, sync, take};
use super::sample::Sample;
use super::sandbox::Sandbox;
use super::socket::Socket;
use super::table::{Goal, Table};
use anyhow::{Context, anyhow};
use coord_daemon::engine::Engine;
use coord_store::{RealDisk, now};
use serde_json::value::RawValue;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

/// Writers at once.
const WRITERS: usize = 64;
/// Events of one writer in one round.
const EACH: usize = 16;
/// Events of the only writer in one round.
const ALONE: usize = 100;
/// Sessions that the events go round.
const SESSIONS: usize = 100;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let mut events = Events::new(bench)?;
    let (inside, outside) = (Sandbox::new(bench)?, Sandbox::new(bench)?);
    let mut engine = inside.engine()?;
    let coordinator = outside.serve()?;
    let mut plain = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(inside.root().join("plain"))?;
    let mut samples: [Sample; 5] = Default::default();
    let [flush, one, many, socket_one, socket_many] = &mut samples;
    for _ in 0..bench.rounds(30) {
        // All of them take turns, so that the disk's moods meet each alike.
        let texts = events.many("PostToolUse", SESSIONS, ALONE)?;
        let begun = Instant::now();
        for text in &texts {
            plain.write_all(text.get().as_bytes())?;
            plain.sync_data()?;
        }
        flush.push_each(begun.elapsed(), ALONE);
        one.push_each(alone(&mut engine, texts)?, ALONE);
        let texts = events.many("PostToolUse", SESSIONS, WRITERS * EACH)?;
        many.push_each(together(&mut engine, texts)?, WRITERS * EACH);
        let texts = events.many("PostToolUse", SESSIONS, ALONE)?;
        socket_one.push_each(over_sockets(&outside, &texts, 1)?, ALONE);
        let texts = events.many("PostToolUse", SESSIONS, WRITERS * EACH)?;
        socket_many.push_each(over_sockets(&outside, &texts, WRITERS)?, WRITERS * EACH);
    }
    coordinator.down()?;
    let [flush, one, many, socket_one, socket_many] = &samples;
    for (what, sample, goal) in [
        ("ingest, 1 writer, in process", one, Goal::AtLeast(0.9, 1.3)),
        ("ingest, 64 writers, in process", many, Goal::AtLeast(10.0, 17.0)),
        ("ingest, 1 writer, socket", socket_one, Goal::AtLeast(0.9, 1.3)),
        ("ingest, 64 writers, socket", socket_many, Goal::AtLeast(10.0, 17.0)),
    ] {
        let detail = format!(
            "{:.1} us an event; append + fdatasync {:.0} us; median of {} rounds",
            sample.median(),
            flush.median(),
            sample.len()
        );
        table.row(what, flush.median() / sample.median(), "x flush", goal, detail);
    }
    Ok(())
}

fn alone(engine: &mut Engine<RealDisk>, texts: Vec<Box<RawValue>>) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    for text in texts {
        take(engine, text, now())?;
        sync(engine)?;
    }
    Ok(begun.elapsed())
}

/// Group commit as the loop does it: what all writers sent while a flush was under way is recorded,
/// then flushed together.
fn together(engine: &mut Engine<RealDisk>, texts: Vec<Box<RawValue>>) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    for (at, text) in texts.into_iter().enumerate() {
        take(engine, text, now())?;
        if (at + 1) % WRITERS == 0 {
            sync(engine)?;
        }
    }
    Ok(begun.elapsed())
}

/// So many connections, each one event after the other.
fn over_sockets(
    sandbox: &Sandbox,
    texts: &[Box<RawValue>],
    writers: usize,
) -> anyhow::Result<Duration> {
    let sockets =
        (0..writers).map(|_| Socket::open(&sandbox.paths)).collect::<Result<Vec<_>, _>>()?;
    let share = texts.len().checked_div(writers).context("no writers")?;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let writers: Vec<_> = sockets
            .into_iter()
            .zip(texts.chunks(share))
            .map(|(mut socket, texts)| {
                scope.spawn(move || texts.iter().try_for_each(|text| socket.post(text, true)))
            })
            .collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().map_err(|_| anyhow!("a writer panicked"))?)
    })?;
    Ok(begun.elapsed())
}
