//! The coordinator's start with ten thousand sessions in its store, and what a session takes.

use super::Bench;
use super::events::{Events, sync};
use super::sample::{Sample, count};
use super::sandbox::Sandbox;
use super::table::{Goal, Table};
use anyhow::{Context, bail};
use coord_core::Session;
use coord_daemon::engine::Engine;
use coord_store::{RealDisk, Snapshot};
use std::time::Instant;

const SESSIONS: usize = 10_000;
const FEW: usize = 10;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let (few, sandbox) = (filled(bench, FEW)?, filled(bench, SESSIONS)?);
    let mut samples: [Sample; 4] = Default::default();
    for _ in 0..bench.rounds(30) {
        let [bare, open, serve, serve_few] = &mut samples;
        let begun = Instant::now();
        let sessions = load(&sandbox)?;
        bare.push(begun.elapsed());
        if sessions.len() != SESSIONS {
            bail!("{} sessions in the snapshot instead of {SESSIONS}", sessions.len());
        }
        drop(sessions);
        let begun = Instant::now();
        let opened = Engine::open(&RealDisk, &sandbox.paths.state, &sandbox.paths.journal())?;
        open.push(begun.elapsed());
        drop(opened);
        for (sandbox, sample) in [(&sandbox, serve), (&few, serve_few)] {
            let begun = Instant::now();
            let coordinator = sandbox.serve()?;
            sample.push(begun.elapsed());
            // Ended, not killed: else the next start would have this one to replay.
            coordinator.down()?;
        }
    }
    let [bare, open, serve, serve_few] = &samples;
    let detail = |sample: &Sample| {
        format!(
            "{:.1} ms; reading the snapshot and from_slice of its sessions {:.1} ms",
            sample.median() / 1000.0,
            bare.median() / 1000.0
        )
    };
    let what = "cold start at 10,000 sessions: process";
    let ratio = serve.median() / bare.median();
    let goal = Goal::AtMost(2.0, 1.3);
    table.row(
        what,
        ratio,
        "x bare load",
        goal,
        format!("to the first event taken: {}", detail(serve)),
    );
    let what = "cold start at 10,000 sessions: store opened";
    let ratio = open.median() / bare.median();
    table.row(what, ratio, "x bare load", goal, format!("in process: {}", detail(open)));
    let detail = "spawn to the first event taken".to_owned();
    table.row("cold start at 10 sessions", serve_few.median() / 1000.0, "ms", Goal::None, detail);
    bytes(table, &few, &sandbox)
}

/// Bytes per session, on the disk and in memory.
fn bytes(table: &mut Table, few: &Sandbox, many: &Sandbox) -> anyhow::Result<()> {
    let between = count(SESSIONS - FEW);
    let on_disk = |sandbox: &Sandbox| -> anyhow::Result<usize> {
        Ok(usize::try_from(std::fs::metadata(sandbox.paths.state.join("snapshot"))?.len())?)
    };
    let disk = on_disk(many)?.saturating_sub(on_disk(few)?);
    let goal = Goal::AtMost(2.5, 2.5);
    let detail = "snapshot, with 5 remembered event ids a session".to_owned();
    table.row("KB a session: on disk", count(disk) / 1024.0 / between, "KB", goal, detail);
    let memory = many.serve()?.resident()?.saturating_sub(few.serve()?.resident()?);
    let detail = "resident after a start, above that with 10 sessions".to_owned();
    table.row("KB a session: in memory", count(memory) / 1024.0 / between, "KB", goal, detail);
    Ok(())
}

/// A store with so many sessions, all of it in its snapshot.
fn filled(bench: &Bench, sessions: usize) -> anyhow::Result<Sandbox> {
    let sandbox = Sandbox::new(bench)?;
    let mut engine = sandbox.engine()?;
    Events::new(bench)?.fill(&mut engine, sessions)?;
    sync(&mut engine)?;
    let (writer, ids) = engine.snapshot()?;
    writer.stage(&RealDisk, &sandbox.paths.state, &ids)?.publish()?;
    Ok(sandbox)
}

/// The least that a start has to do.
fn load(sandbox: &Sandbox) -> anyhow::Result<Vec<Session>> {
    let snapshot = Snapshot::load(&RealDisk, &sandbox.paths.state)?.context("no snapshot")?;
    Ok(snapshot.entries().map(serde_json::from_slice).collect::<Result<_, _>>()?)
}
