//! What `coord top` costs with 500 sessions: at 50 events a second, and while nothing happens (U-05).

use super::Bench;
use super::events::{Events, sync};
use super::place::{load, pass, until};
use super::sandbox::Sandbox;
use super::socket::Socket;
use super::standing::used;
use super::table::{Goal, Table};
use anyhow::Context;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SESSIONS: usize = 500;
const EVENTS_PER_S: u32 = 50;
/// From then on, ages are shown in minutes.
const SETTLED: Duration = Duration::from_secs(65);

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let sandbox = Sandbox::new(bench)?;
    let mut events = Events::new(bench)?;
    let mut engine = sandbox.engine()?;
    events.fill(&mut engine, SESSIONS)?;
    sync(&mut engine)?;
    drop(engine);
    let coordinator = sandbox.serve()?;
    let top = Top::start(&sandbox, &bench.programs.coord)?;
    let window = Duration::from_secs(if bench.quick { 10 } else { 60 });
    let (before, begun) = (top.cost()?, Instant::now());
    let mut socket = Socket::open(&sandbox.paths)?;
    for n in 1.. {
        let at = Duration::from_secs(1) / EVENTS_PER_S * n;
        if window < at {
            break;
        }
        let number = usize::try_from(n)?.wrapping_mul(7919) % SESSIONS;
        socket.post(&events.make("PostToolUse", number)?, true)?;
        pass(begun + at);
    }
    let busy = top.cost()?.since(&before);
    let seconds = begun.elapsed().as_secs_f64();
    let detail = format!(
        "{:.1} wake-ups/s, {:.0} bytes/s to the terminal; {seconds:.0} s; load {}",
        busy.wakes / seconds,
        busy.written / seconds,
        load()
    );
    let what = format!("coord top: {SESSIONS} sessions, {EVENTS_PER_S} events/s");
    let share = 100.0 * busy.used_s / seconds;
    table.row(what, share, "% of a core", Goal::AtMost(5.0, 2.5), detail);
    if !bench.quick {
        pass(Instant::now() + SETTLED);
        let (before, begun) = (top.cost()?, Instant::now());
        pass(begun + window);
        let idle = top.cost()?.since(&before);
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        let detail = format!("{:.3} s of a core, {:.0} bytes a minute", idle.used_s, idle.written);
        let wakes = idle.wakes / minutes;
        table.row("coord top: nothing happens", wakes, "wake-ups/min", Goal::None, detail);
    }
    drop(top);
    coordinator.down()
}

/// `coord top` in a terminal of its own; it ends with this.
struct Top {
    terminal: Child,
    pid: u32,
}

impl Top {
    fn start(sandbox: &Sandbox, coord: &Path) -> anyhow::Result<Self> {
        let line = format!("stty cols 120 rows 40; exec '{}' top", coord.display());
        let mut command = Command::new("script");
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TERM", "xterm")
            .env("LANG", "C.UTF-8");
        command.env("HOME", sandbox.root()).env("COORD_HOME", sandbox.root());
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let terminal = command.spawn().context("script")?;
        let pid = until("coord top", || {
            let children = format!("/proc/{0}/task/{0}/children", terminal.id());
            let children = std::fs::read_to_string(children)?;
            let child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
            // It is there once it has written its first screen.
            let is_drawn =
                child.is_some_and(|pid| Cost::of(pid).is_ok_and(|cost| 1_000.0 < cost.written));
            Ok(child.filter(|_| is_drawn))
        })?;
        Ok(Self { terminal, pid })
    }

    fn cost(&self) -> anyhow::Result<Cost> {
        Cost::of(self.pid)
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // Its terminal takes it along.
        let _ = self.terminal.kill();
        let _ = self.terminal.wait();
    }
}

/// What a process took so far.
pub(super) struct Cost {
    /// Seconds of a core.
    pub(super) used_s: f64,
    /// How often one of its threads waited for something and went on.
    pub(super) wakes: f64,
    /// Bytes that it wrote.
    written: f64,
}

impl Cost {
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let mut wakes = 0.0;
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let status = std::fs::read_to_string(thread?.path().join("status"))?;
            wakes += value(&status, "voluntary_ctxt_switches:")?;
        }
        let io = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
        Ok(Self { used_s: used(pid)?.own, wakes, written: value(&io, "wchar:")? })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            used_s: self.used_s - before.used_s,
            wakes: self.wakes - before.wakes,
            written: self.written - before.written,
        }
    }
}

fn value(text: &str, name: &str) -> anyhow::Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("/proc/PID")?;
    Ok(line.trim().parse()?)
}
