//! What a hook costs: its executable, one call at a time, and eight at once.

use super::Bench;
use super::call::{Call, rotate};
use super::events::payload;
use super::programs::{HOOKS, Programs};
use super::sample::{Sample, count};
use super::sandbox::Sandbox;
use super::table::{Goal, Table};
use anyhow::{Context, bail};
use coord_model::Via;
use coord_store::{RealDisk, Spool};
use coord_view::history::{self, Wanted};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// The hook that is called most.
const HOOK: &str = "coord-hook-post-tool-use";
/// Hooks at once.
const AT_ONCE: usize = 8;

/// Size, linking and page faults.
pub(super) fn executables(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    for name in HOOKS {
        let path = bench.programs.hook(name);
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let linked = if is_static(&bytes) { "static" } else { "NOT STATIC" };
        let kilobytes = count(bytes.len()) / 1024.0;
        table.row(name, kilobytes, "KB", Goal::AtMost(600.0, 600.0), linked.to_owned());
    }
    let (up, down) = (Sandbox::new(bench)?, Sandbox::new(bench)?);
    let _coordinator = up.serve()?;
    let faults = |call: &Call| -> anyhow::Result<f64> {
        let mut counts =
            (0..bench.rounds(200)).map(|_| call.page_faults()).collect::<Result<Vec<u64>, _>>()?;
        counts.sort_unstable();
        let middle = counts.get(counts.len() / 2).context("no call")?;
        Ok(f64::from(u32::try_from(*middle)?))
    };
    let calls = Calls::new(bench, &up, &down)?;
    let detail = "median, from /proc/PID/stat of the ended process".to_owned();
    table.row("page faults: floor", faults(&calls.floor)?, "", Goal::None, detail.clone());
    let goal = Goal::AtMost(30.0, 12.0);
    let native = faults(&calls.native_floor)?;
    table.row("page faults: floor with cc's own libc", native, "", Goal::None, detail.clone());
    table.row("page faults: hook, up", faults(&calls.up)?, "", goal, detail.clone());
    table.row("page faults: hook, down", faults(&calls.down)?, "", goal, detail);
    Ok(())
}

/// One call after the other.
pub(super) fn one_at_a_time(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let (up, down) = (Sandbox::new(bench)?, Sandbox::new(bench)?);
    let coordinator = up.serve()?;
    down.serve()?.down()?;
    let calls = Calls::new(bench, &up, &down)?;
    let samples =
        rotate(&[&calls.floor, &calls.native_floor, &calls.up, &calls.down], bench.rounds(3000))?;
    let [floor, native, with, without] = samples.as_slice() else {
        bail!("four calls, four samples")
    };
    table.ratio("floor with cc's own libc", native, floor, Goal::None);
    table.ratio("hook, coordinator up", with, floor, Goal::AtMost(2.0, 1.25));
    tail(table, "hook, coordinator up: p99", with, floor, Goal::AtMost(3.0, 3.0));
    table.ratio("hook, coordinator down (spool)", without, floor, Goal::AtMost(1.7, 1.0));
    tail(table, "hook, coordinator down: p99", without, floor, Goal::None);
    coordinator.down()
}

/// Eight writers, each one call after the other.
pub(super) fn parallel(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let (up, down) = (Sandbox::new(bench)?, Sandbox::new(bench)?);
    let coordinator = up.serve()?;
    let calls = Calls::new(bench, &up, &down)?;
    let (mut floor, mut hook) = (Sample::default(), Sample::default());
    let (rounds, each) = (bench.rounds(20), 50);
    for round in 0..rounds {
        // The order turns round.
        if round % 2 == 0 {
            floor.push_each(at_once(&calls.floor, each)?, AT_ONCE * each);
        }
        hook.push_each(at_once(&calls.up, each)?, AT_ONCE * each);
        if round % 2 == 1 {
            floor.push_each(at_once(&calls.floor, each)?, AT_ONCE * each);
        }
    }
    let sent = rounds * AT_ONCE * each;
    coordinator.down()?;
    let kept = Kept::read(&up)?;
    let detail =
        format!("{:.0} of {:.0} calls a second", 1e6 / hook.median(), 1e6 / floor.median());
    let rate = 100.0 * floor.median() / hook.median();
    table.row("8 hooks at once: rate", rate, "% of floor", Goal::AtLeast(60.0, 75.0), detail);
    let wrong = sent.abs_diff(kept.events) + kept.doubled;
    let detail = format!(
        "{sent} sent, {} kept, {} of them by the spool, {} doubled",
        kept.events, kept.spooled, kept.doubled
    );
    table.row("8 hooks at once: lost or doubled", count(wrong), "", Goal::AtMost(0.0, 0.0), detail);
    Ok(())
}

fn tail(table: &mut Table, what: &str, sample: &Sample, floor: &Sample, goal: Goal) {
    let detail = format!("{:.0} us against {:.0} us", sample.p99(), floor.p99());
    table.row(what, sample.p99() / floor.p99(), "x floor p99", goal, detail);
}

/// The floor, and the hook in both situations.
struct Calls {
    floor: Call,
    native_floor: Call,
    up: Call,
    down: Call,
}

impl Calls {
    fn new(bench: &Bench, up: &Sandbox, down: &Sandbox) -> anyhow::Result<Self> {
        let input = payload()?;
        let Programs { floor, native_floor, .. } = &bench.programs;
        let hook = bench.programs.hook(HOOK);
        let call = |program: &Path, sandbox: &Sandbox| {
            Call::new(program, &input).with(&sandbox.arguments())
        };
        Ok(Self {
            floor: call(floor, up),
            native_floor: call(native_floor, up),
            up: call(&hook, up),
            down: call(&hook, down),
        })
    }
}

fn at_once(call: &Call, each: usize) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..AT_ONCE)
            .map(|_| scope.spawn(|| (0..each).try_for_each(|_| call.time().map(|_| ()))))
            .collect();
        writers.into_iter().try_for_each(|writer| match writer.join() {
            Ok(result) => result,
            Err(_) => bail!("a writer panicked"),
        })
    })?;
    Ok(begun.elapsed())
}

/// What of the hooks' events is in a store that nobody writes to.
#[derive(Debug, Default)]
struct Kept {
    events: usize,
    spooled: usize,
    doubled: usize,
}

impl Kept {
    fn read(sandbox: &Sandbox) -> anyhow::Result<Self> {
        let mut kept = Self::default();
        let mut ids = BTreeSet::new();
        history::read(&RealDisk, &sandbox.paths.journal(), &Wanted::default(), |line| {
            let Some(id) = line.id else { return };
            kept.events += 1;
            kept.spooled += usize::from(line.via == Some(Via::Spool));
            kept.doubled += usize::from(!ids.insert(id));
        })?;
        let pending = Spool::new(RealDisk, &sandbox.paths.spool()).pending()?;
        kept.spooled += usize::try_from(pending)?;
        kept.events += usize::try_from(pending)?;
        Ok(kept)
    }
}

/// Whether an ELF file of 64 bits asks for no dynamic linker.
fn is_static(elf: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let short = |at: usize| {
        elf.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)
    };
    let long = elf.get(32..40).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let (Some(table), Some(size), Some(entries)) = (long, short(54), short(56)) else {
        return false;
    };
    let table = usize::try_from(table).unwrap_or(usize::MAX);
    (0..usize::from(entries)).all(|entry| {
        let at = table.saturating_add(entry * usize::from(size));
        let kind = elf.get(at..at.saturating_add(4)).and_then(|bytes| bytes.try_into().ok());
        kind.map(u32::from_le_bytes).is_some_and(|kind| kind != INTERPRETER)
    })
}
