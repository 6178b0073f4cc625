//! From SIGKILL of a harness to the record of its death, both on the same monotonic clock.

use super::Bench;
use super::events::Events;
use super::sample::Sample;
use super::sandbox::Sandbox;
use super::socket::Socket;
use super::table::{Goal, Table};
use anyhow::{Context, bail};
use coord_host::process;
use coord_model::{Event, ProcessRef, Record};
use coord_store::RealDisk;
use coord_store::journal::read_segments;
use coord_wire::exchange::mono_ns;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let mut events = Events::new(bench)?;
    let sandbox = Sandbox::new(bench)?;
    let coordinator = sandbox.serve()?;
    let mut socket = Socket::open(&sandbox.paths)?;
    let mut killed = BTreeMap::new();
    // By the client's name: no other program's end is watched.
    let client = sandbox.paths.state.join("claude");
    std::fs::copy(&bench.programs.floor, &client)?;
    for session in 0..bench.rounds(200) {
        // It reads its standard input, which stays open, and so lives until it is killed.
        let mut harness = Command::new(&client).stdin(Stdio::piped()).spawn()?;
        let stat = process::stat(harness.id()).context("/proc/PID/stat of a child")?;
        let process = ProcessRef { pid: harness.id(), start_time: stat.start_time };
        socket.post(&events.make_of("SessionStart", session, process)?, false)?;
        let at = mono_ns();
        harness.kill()?;
        harness.wait()?;
        killed.insert(process, at);
        // The next request is answered behind the death, or with it in the same turn of the loop.
        socket.post(&events.make("PostToolUse", 1_000_000)?, true)?;
    }
    coordinator.down()?;
    let mut sample = Sample::default();
    for segment in read_segments(&RealDisk, &sandbox.paths.journal(), 0)? {
        for (_, payload) in segment?.records() {
            let record: Record = serde_json::from_slice(payload)?;
            if let Event::ProcessExited { process } = record.entry
                && let Some(at) = killed.remove(&process)
            {
                sample.push(Duration::from_nanos(record.mono_ns.saturating_sub(at)));
            }
        }
    }
    if !killed.is_empty() {
        bail!("{} of {} deaths were not recorded", killed.len(), bench.rounds(200));
    }
    let detail = format!("p99 {:.2} ms, {} deaths", sample.p99() / 1000.0, sample.len());
    let goal = Goal::AtMost(100.0, 10.0);
    table.row("harness death noticed", sample.median() / 1000.0, "ms", goal, detail);
    Ok(())
}
