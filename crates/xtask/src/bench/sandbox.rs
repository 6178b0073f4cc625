//! A place of its own for each measurement: COORD_HOME in a temporary directory, and a coordinator
//! that ends with it.

use super::Bench;
use anyhow::{Context, bail};
use coord_daemon::engine::Engine;
use coord_host::here::Here;
use coord_host::state_dir;
use coord_model::{Event, Settings, Started};
use coord_store::{RealDisk, now};
use coord_wire::paths::Paths;
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// No session uses up its share of the journal here: folding would be measured instead of taking.
const SHARE: &str = "[store]\ntool_events_per_minute = 1000000000\n";

/// The directories of one coordinator.
#[derive(Debug)]
pub(super) struct Sandbox {
    dir: TempDir,
    coord: PathBuf,
    /// Where its files lie.
    pub(super) paths: Paths,
}

impl Sandbox {
    /// Makes them, as an installation would.
    pub(super) fn new(bench: &Bench) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("coord-bench-").tempdir()?;
        let here = Here::read(now().wall_ms);
        let paths = Paths::resolve(Some(dir.path()), &here.machine, here.uid, |_| None)?;
        std::fs::create_dir_all(&paths.config)?;
        // This process calls the hooks, so it is the client that they report.
        let client = std::env::current_exe()?;
        let client = client.to_str().context("the path of this program is not UTF-8")?;
        let config = format!("{SHARE}[tracking]\nclients = [{client:?}]\n");
        std::fs::write(paths.config_file(), config)?;
        state_dir::prepare(&paths)?;
        Ok(Self { dir, coord: bench.programs.coord.clone(), paths })
    }

    /// COORD_HOME.
    pub(super) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// The arguments that lead a program here.
    pub(super) fn arguments(&self) -> [OsString; 2] {
        ["--root".into(), self.root().into()]
    }

    /// Starts a coordinator; returns once it takes events.
    pub(super) fn serve(&self) -> anyhow::Result<Coordinator> {
        let mut child = self
            .command()
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("coord serve")?;
        let mut line = String::new();
        let stdout = child.stdout.take();
        let coordinator = Coordinator { child };
        BufReader::new(stdout.context("standard output of coord serve")?).read_line(&mut line)?;
        if line.is_empty() {
            bail!("coord serve ended before it took events");
        }
        Ok(coordinator)
    }

    /// Opens the store inside this process, as a coordinator that has just started.
    pub(super) fn engine(&self) -> anyhow::Result<Engine<RealDisk>> {
        let (mut engine, _) = Engine::open(&RealDisk, &self.paths.state, &self.paths.journal())?;
        let now = now();
        let started = Started {
            version: coord_wire::VERSION.to_owned(),
            host: Here::read(now.wall_ms).for_core(),
            settings: Settings::default(),
        };
        engine.record(&Event::Started(Box::new(started)), now)?;
        Ok(engine)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.coord);
        command.env_clear().env("HOME", self.root()).env("PATH", "/usr/bin:/bin");
        command.args(self.arguments()).current_dir("/");
        command
    }
}

/// A coordinator in the foreground; it is killed if it is not ended.
#[derive(Debug)]
pub(super) struct Coordinator {
    child: Child,
}

impl Coordinator {
    /// Ends it in order: it leaves a snapshot behind. By a signal, since `coord down` refuses a client's child.
    pub(super) fn down(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("coord serve ended with {status}");
        }
        Ok(())
    }

    /// Memory in use, in bytes.
    pub(super) fn resident(&self) -> anyhow::Result<usize> {
        resident(self.child.id())
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // After `down` it is gone already, and a reaped child is never signalled.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory of a process in use, in bytes.
pub(super) fn resident(pid: u32) -> anyhow::Result<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<usize>().ok());
    Ok(kilobytes.context("VmRSS")? * 1024)
}
