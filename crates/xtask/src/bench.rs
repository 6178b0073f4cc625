//! `cargo xtask bench`: what things cost.
//!
//! Decides what is measured and beside which goal it is printed. Ratios hold from machine to
//! machine, microseconds do not, so each figure is a ratio to a floor measured in the same run, in
//! rotated order. A missed goal is shown and is no error: only a broken run is.

mod call;
pub(crate) mod client;
mod cold_start;
mod dashboard;
mod death;
mod events;
mod fleet;
mod hanging;
mod hooks;
mod ingest;
mod inspect;
mod notice;
mod panes;
mod place;
mod programs;
mod queue;
mod recovery;
mod run;
mod sample;
mod sandbox;
mod scale;
mod socket;
mod standing;
mod statusline;
mod table;
mod terminal;
mod tokens;
mod top;
mod waiting;
mod wake;

use crate::{root, say, say_error};
use anyhow::{Context, bail};
use coord_tests::netns;
use programs::Programs;
use std::process::ExitCode;
use table::Table;

/// Measure what things cost
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask bench                all of it, some minutes\n  cargo xtask bench hooks --quick  a first impression of the hooks"
)]
pub(crate) struct Args {
    /// Only groups whose name contains one of these: executables, hooks, parallel, statusline, tokens, ingest, scale, start, inspect, death, panes, recovery, recovery-client, run, queue, standing, waiting, hanging, top, dashboard, fleet-visible, fleet-local, fleet-log, fleet-view, fleet-notices, wake, notice
    filters: Vec<String>,
    /// Fewer calls: a first impression
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What every measurement is given.
struct Bench {
    programs: Programs,
    quick: bool,
}

impl Bench {
    /// How often something is repeated.
    fn rounds(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(10) } else { full }
    }
}

/// The groups that need the client, and a namespace without a network around it.
const REAL_CLIENT: [&str; 3] = ["recovery-client", "wake", "notice"];

type Measure = fn(&Bench, &mut Table) -> anyhow::Result<()>;

const GROUPS: [(&str, Measure); 27] = [
    ("executables", hooks::executables),
    ("hooks", hooks::one_at_a_time),
    ("parallel", hooks::parallel),
    ("statusline", statusline::measure),
    ("tokens", tokens::measure),
    ("ingest", ingest::measure),
    ("scale", scale::measure),
    ("start", cold_start::measure),
    ("inspect", inspect::measure),
    ("death", death::measure),
    ("panes", panes::measure),
    ("recovery", recovery::scripted),
    (REAL_CLIENT[0], recovery::real),
    ("run", run::measure),
    ("queue", queue::measure),
    ("standing", standing::measure),
    ("waiting", waiting::measure),
    ("hanging", hanging::measure),
    ("top", top::measure),
    ("dashboard", dashboard::measure),
    ("fleet-visible", fleet::visible),
    ("fleet-local", fleet::local),
    ("fleet-log", fleet::log),
    ("fleet-view", fleet::view),
    ("fleet-notices", fleet::notices),
    (REAL_CLIENT[1], wake::measure),
    (REAL_CLIENT[2], notice::measure),
];

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let wanted = |name: &str| {
        args.filters.is_empty() || args.filters.iter().any(|part| name.contains(part.as_str()))
    };
    if !GROUPS.iter().any(|(name, _)| wanted(name)) {
        let names: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        bail!("no group has such a name; there are {}", names.join(", "));
    }
    if cfg!(debug_assertions) {
        return run_optimised();
    }
    if REAL_CLIENT.into_iter().any(wanted)
        && coord_tests::client::find().is_ok()
        && !netns::is_isolated()
    {
        enter_namespace()?;
    }
    let scratch = tempfile::tempdir().context("making a temporary directory")?;
    let bench = Bench { programs: Programs::build(scratch.path())?, quick: args.quick };
    let mut table = Table::new(&bench.programs);
    for (name, measure) in GROUPS {
        if wanted(name) {
            say_error(&format!("measuring {name}"));
            measure(&bench, &mut table).with_context(|| format!("measuring {name}"))?;
        }
    }
    say(&if args.json { table.json()? } else { table.text() });
    Ok(ExitCode::SUCCESS)
}

/// Goes on inside; what has to be fetched for the programs under test is fetched before. Where that
/// fails, all but the client is measured.
fn enter_namespace() -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("making a temporary directory")?;
    Programs::build(scratch.path())?;
    drop(scratch);
    say_error(&netns::enter());
    Ok(())
}

/// Parts of the coordinator are measured inside this program, so it is built as the coordinator is.
fn run_optimised() -> anyhow::Result<ExitCode> {
    let status = crate::cargo()
        .args(["run", "--quiet", "--release", "--package", "xtask", "--target", programs::TARGET])
        .arg("--")
        .args(std::env::args_os().skip(1))
        .current_dir(root())
        .status()
        .context("cargo")?;
    if !status.success() {
        bail!(
            "the optimised run failed; is the target there? rustup target add {}",
            programs::TARGET
        );
    }
    Ok(ExitCode::SUCCESS)
}
