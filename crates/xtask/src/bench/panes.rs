//! Looking at 200 panes: the adapter beside one plain chained tmux process of the same captures, and
//! what sweeps cost as a share of a core, the tmux server included.

use super::Bench;
use super::sample::{Sample, count};
use super::table::{Goal, Table};
use anyhow::{Context, bail};
use coord_host::process;
use coord_host::registry::Readable;
use coord_host::tmux::{PaneWish, Tmux};
use coord_model::{Look, PaneFound, ProcessRef, TmuxPane};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

const PANES: usize = 200;
/// Panes in which something happens between two sweeps.
const CHANGING: usize = 5;
/// As `tracking.sweep`.
const SWEEP_EVERY_S: f64 = 5.0;

/// A tmux server of its own; it ends with this.
struct Server {
    dir: TempDir,
    process: ProcessRef,
    wishes: Vec<PaneWish>,
    /// Terminals of the panes in which something happens.
    changing: Vec<File>,
}

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let mut server = Server::start()?;
    let mut tmux = Tmux::new(Vec::new(), Readable::default(), coord_screen::read);
    let (mut floor, mut full, mut sweep) =
        (Sample::default(), Sample::default(), Sample::default());
    server.look(&mut tmux, Look::Decision)?;
    for _ in 0..bench.rounds(60) {
        floor.push(timed(|| server.captures())?);
        full.push(timed(|| server.look(&mut tmux, Look::Decision))?);
        server.change()?;
        sweep.push(timed(|| server.look(&mut tmux, Look::Sweep))?);
    }
    table.ratio("all of 200 panes captured", &full, &floor, Goal::AtMost(1.3, 1.0));
    table.ratio("sweep of 200 panes, 5 changed", &sweep, &floor, Goal::AtMost(1.3, 1.0));

    let rounds = bench.rounds(100);
    let (mine, servers) = (own_cpu_s()?, cpu_s(server.process.pid)?);
    for _ in 0..rounds {
        server.change()?;
        server.look(&mut tmux, Look::Sweep)?;
    }
    let (mine, servers) = (own_cpu_s()? - mine, cpu_s(server.process.pid)? - servers);
    let share = |cpu_s: f64| 100.0 * cpu_s / (count(rounds) * SWEEP_EVERY_S);
    let detail = format!(
        "tmux server {:.2} %, one sweep in {SWEEP_EVERY_S} s, {rounds} sweeps",
        share(servers)
    );
    let goal = Goal::AtMost(0.5, 0.25);
    table.row(
        "sweeps of 200 panes, 5 changing",
        share(mine + servers),
        "% of a core",
        goal,
        detail,
    );
    Ok(())
}

fn timed(run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<std::time::Duration> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

impl Server {
    fn start() -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("coord-bench-").tempdir()?;
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700))?;
        let line = "what an agent says, in words of some length, again and again\n";
        std::fs::write(dir.path().join("screen"), line.repeat(40))?;
        let process = ProcessRef { pid: 0, start_time: 0 };
        let mut server = Self { dir, process, wishes: Vec::new(), changing: Vec::new() };
        let shows = format!("exec cat {} -", server.dir.path().join("screen").display());
        server.tell(["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", &shows])?;
        for _ in 1..PANES {
            server.tell(["new-window", "-d", &shows])?;
        }
        let list =
            server.tell(["list-panes", "-a", "-F", "#{pid} #{pane_id} #{pane_pid} #{pane_tty}"])?;
        for line in list.lines() {
            server.add(line)?;
        }
        Ok(server)
    }

    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [server, pane, first, tty] = fields[..] else { bail!("list-panes says {line}") };
        self.process = process_of(server.parse()?)?;
        let pane = TmuxPane {
            socket: self.dir.path().join("s").to_string_lossy().into_owned(),
            server: self.process,
            pane: pane.to_owned(),
        };
        let process = process_of(first.parse()?)?;
        self.wishes.push(PaneWish { process, pane, proof: None, look: Look::Sweep });
        if self.changing.len() < CHANGING {
            let no_control = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
            self.changing.push(OpenOptions::new().write(true).custom_flags(no_control).open(tty)?);
        }
        Ok(())
    }

    fn tell<const N: usize>(&self, words: [&str; N]) -> anyhow::Result<String> {
        self.run(&words.map(str::to_owned))
    }

    fn run(&self, words: &[String]) -> anyhow::Result<String> {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.dir.path().join("s")).args(words).env_remove("TMUX");
        let output = command.env("LANG", "C.UTF-8").output().context("tmux")?;
        if !output.status.success() {
            bail!("tmux: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The floor: one process, the captures chained.
    fn captures(&self) -> anyhow::Result<()> {
        let words = self
            .wishes
            .iter()
            .flat_map(|wish| ["capture-pane", "-p", "-t", &wish.pane.pane, ";"].map(str::to_owned));
        self.run(&words.collect::<Vec<_>>()).map(drop)
    }

    /// Something happens in the changing panes.
    fn change(&mut self) -> anyhow::Result<()> {
        for terminal in &mut self.changing {
            terminal.write_all(b"one more line\r\n")?;
        }
        Ok(())
    }

    fn look(&self, tmux: &mut Tmux, look: Look) -> anyhow::Result<()> {
        let wishes = self.wishes.iter().map(|wish| PaneWish { look, ..wish.clone() });
        let answers = tmux.look(wishes.collect());
        if let Some(lost) = answers.iter().find(|one| !matches!(one.pane, PaneFound::Found { .. }))
        {
            bail!("a pane was not found: {lost:?}");
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that is gone already needs no end.
        let _ = self.tell(["kill-server"]);
    }
}

fn process_of(pid: u32) -> anyhow::Result<ProcessRef> {
    let stat = process::stat(pid).context("/proc/PID/stat of a pane")?;
    Ok(ProcessRef { pid, start_time: stat.start_time })
}

/// What a process without children has used, in seconds.
fn cpu_s(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let ns: f64 = text.split(' ').next().context("schedstat")?.parse()?;
    Ok(ns / 1e9)
}

/// What this process and its reaped children have used, in seconds.
fn own_cpu_s() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = text.rsplit_once(") ").context("/proc/self/stat")?;
    // utime, stime, cutime, cstime: fields 14 to 17; the rest begins with the third.
    let fields = rest.split(' ').skip(11).take(4);
    let ticks: f64 = fields.map(|field| field.parse::<f64>().unwrap_or(0.0)).sum();
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second())?;
    Ok(ticks / f64::from(per_second))
}
