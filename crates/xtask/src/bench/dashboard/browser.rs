//! What a browser takes to show the page: the processor time of all its processes, as a share of one core.
//!
//! The browser draws with the processor alone, as it does on a machine without a graphics card, so what is measured is the
//! most that it takes. What it takes for an empty page is measured beside it.

use super::super::place::{load, pass};
use super::super::standing::used;
use super::super::table::{Goal, Table};
use super::{EVENTS_PER_S, SESSIONS, What};
use crate::pictures::packages;
use crate::{root, say_error};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const NAMES: [&str; 2] = ["chromium", "firefox"];
const CORE: &str = "% of a core";
/// From then on, ages are shown in minutes.
const SETTLED: Duration = Duration::from_secs(65);

/// Measures one browser; `send` sends events during the window.
pub(super) fn measure(
    name: &str,
    url: &str,
    window: Duration,
    send: &mut dyn FnMut(What) -> anyhow::Result<()>,
    table: &mut Table,
) -> anyhow::Result<()> {
    let Some(mut browser) = Browser::start(name, url)? else { return Ok(()) };
    // Until its start is over.
    rest(window / 2);
    let empty = browser.idle(window / 2)?;
    browser.reaches("shown")?;
    let turns = browser.share(|| send(What::Turns))?;
    browser.reaches("hidden")?;
    let hidden = browser.share(|| send(What::Turns))?;
    send(What::Prompts)?;
    rest(SETTLED);
    browser.reaches("shown")?;
    let quiet = browser.idle(window)?;
    let tools = browser.share(|| send(What::Tools))?;
    browser.ends()?;
    let mut row = |what: &str, (measured, unit), goal, detail: &str| {
        let detail = format!("{detail}; {} s; load {}", window.as_secs(), load());
        table.row(format!("dashboard in {name}: {what}"), measured, unit, goal, detail);
    };
    let detail = format!("an empty page takes {empty:.2} %");
    row("nothing happens", (quiet, CORE), Goal::None, &detail);
    for (share, what) in [(tools, What::Tools), (turns, What::Turns)] {
        let detail = format!("{:.1} x what it takes while nothing happens", share / quiet);
        row(&format!("{EVENTS_PER_S} {}/s", what.name()), (share, CORE), Goal::None, &detail);
    }
    // A browser has work of its own, which differs more than what a hidden page takes.
    let detail = format!(
        "{hidden:.2} %, {:.2} x what it takes while shown, less the {empty:.2} % of an empty page",
        hidden / turns
    );
    let added = (hidden - empty).max(0.0);
    row("hidden, with the same events", (added, CORE), Goal::AtMost(1.0, 0.5), &detail);
    Ok(())
}

fn rest(time: Duration) {
    pass(Instant::now() + time);
}

/// A browser, led from step to step. It ends with this.
struct Browser {
    node: Child,
    /// None once it is told to go on no more.
    go: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
    process: u32,
}

impl Browser {
    /// None without the browser, or without what drives it.
    fn start(name: &str, url: &str) -> anyhow::Result<Option<Self>> {
        let packages = match packages() {
            Ok(packages) => packages,
            Err(why) => {
                say_error(&format!("not measured: {name}: {why}"));
                return Ok(None);
            }
        };
        let mut command = Command::new("node");
        command.arg(root().join("tests/browser/cost.js")).args([name, url]);
        command.arg(SESSIONS.to_string()).env("COORD_TEST_BROWSER", packages);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut node = command.spawn().context("node; Debian: nodejs")?;
        let go = node.stdin.take();
        let mut says = BufReader::new(node.stdout.take().context("its output")?);
        let mut line = String::new();
        says.read_line(&mut line)?;
        let process = line.strip_prefix("process ").and_then(|pid| pid.trim().parse().ok());
        let process = process.with_context(|| format!("{name} has not started: {line:?}"))?;
        Ok(Some(Self { node, go, says, process }))
    }

    /// Lets it go on, and waits until it has come to this step.
    fn reaches(&mut self, step: &str) -> anyhow::Result<()> {
        self.goes_on()?;
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        if line.trim() != step {
            bail!("the browser has not come to {step:?}: {line:?}");
        }
        Ok(())
    }

    fn goes_on(&mut self) -> anyhow::Result<()> {
        Ok(writeln!(self.go.as_mut().context("its input")?, "go")?)
    }

    fn ends(mut self) -> anyhow::Result<()> {
        self.goes_on()?;
        let status = self.node.wait()?;
        if !status.success() {
            bail!("tests/browser/cost.js ended with {status}");
        }
        Ok(())
    }

    /// What all its processes use meanwhile, in percent of a core.
    fn share(&self, meanwhile: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
        let (before, begun) = (self.used()?, Instant::now());
        meanwhile()?;
        Ok(100.0 * (self.used()? - before) / begun.elapsed().as_secs_f64())
    }

    fn idle(&self, time: Duration) -> anyhow::Result<f64> {
        self.share(|| {
            rest(time);
            Ok(())
        })
    }

    /// What they have used, in seconds. Those that have ended count with the process that waited for them.
    fn used(&self) -> anyhow::Result<f64> {
        let own = used(self.process).context("the browser has ended")?;
        let mut sum = own.own + own.children;
        let mut left = children(self.process);
        while let Some(pid) = left.pop() {
            // One that ends meanwhile has just been counted, or is counted next time.
            if let Ok(used) = used(pid) {
                sum += used.own + used.children;
            }
            left.extend(children(pid));
        }
        Ok(sum)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends its browser when there is nobody to go on with.
        self.go = None;
        let _ = self.node.wait();
    }
}

/// The children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let lists = tasks.into_iter().flatten().flatten();
    let lists = lists.filter_map(|one| std::fs::read_to_string(one.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split(' ').filter_map(|pid| pid.trim().parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}
