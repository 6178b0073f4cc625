//! `coord inspect ID` with few and many sessions, with and without a coordinator.

use super::Bench;
use super::call::{Call, rotate};
use super::events::{Events, session_id, sync};
use super::sandbox::Sandbox;
use super::table::{Goal, Table};
use std::path::Path;

const SESSIONS: [usize; 3] = [10, 1_000, 10_000];

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let sandboxes: Vec<(usize, Sandbox, Sandbox)> = SESSIONS
        .into_iter()
        .map(|sessions| Ok((sessions, filled(bench, sessions)?, filled(bench, sessions)?)))
        .collect::<anyhow::Result<_>>()?;
    let mut coordinators = Vec::new();
    for (_, up, down) in &sandboxes {
        coordinators.push(up.serve()?);
        down.serve()?.down()?;
    }
    let call = |program: &Path, sessions: usize, sandbox: &Sandbox| {
        let id = session_id(sessions / 2);
        Call::new(program, b"").with(&sandbox.arguments()).with(&["inspect".into(), id.into()])
    };
    let mut calls = Vec::new();
    for (sessions, up, down) in &sandboxes {
        calls.push((format!("coord inspect ID, up, {sessions} sessions"), *sessions, up));
        calls.push((format!("coord inspect ID, down, {sessions} sessions"), *sessions, down));
    }
    let made: Vec<Call> = calls
        .iter()
        .map(|(_, sessions, sandbox)| call(&bench.programs.coord, *sessions, sandbox))
        .collect();
    let floor = Call::new(&bench.programs.floor, b"");
    let all: Vec<&Call> = std::iter::once(&floor).chain(&made).collect();
    let samples = rotate(&all, bench.rounds(2000))?;
    let Some((floor, samples)) = samples.split_first() else { return Ok(()) };
    for ((what, ..), sample) in calls.iter().zip(samples) {
        table.ratio(what, sample, floor, Goal::AtMost(4.0, 2.5));
    }
    coordinators.into_iter().try_for_each(super::sandbox::Coordinator::down)
}

/// A store with so many sessions, from which a coordinator can start.
fn filled(bench: &Bench, sessions: usize) -> anyhow::Result<Sandbox> {
    let sandbox = Sandbox::new(bench)?;
    let mut engine = sandbox.engine()?;
    Events::new(bench)?.fill(&mut engine, sessions)?;
    sync(&mut engine)?;
    Ok(sandbox)
}
