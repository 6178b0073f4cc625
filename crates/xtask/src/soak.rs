//! `cargo xtask soak`: what is random and takes long, by parts, with a report at the end.
//!
//! Decides only what runs and what is reported; what may fail stands in the tests and programs it
//! runs. A part whose program is missing has failed.

mod fleet;
pub(crate) mod ledger;
mod planted;
mod program;
mod rounds;

use crate::say;
use anyhow::bail;
use ledger::{Counts, Seeds};
use std::process::ExitCode;
use std::time::Instant;

/// Lines of a failed run that are shown.
const LINES_SHOWN: usize = 30;

/// Run for long what is random, and report
#[derive(Debug, clap::Args)]
#[command(after_help = "Parts:
  kills       real coordinators and hooks, killed at random moments, for --minutes
  properties  the property tests with many cases, for --minutes
  fuzz        the formats' readers on damaged input, for --minutes
  races       --races permission prompts of the real client, answered at its terminal and from elsewhere at once
  simulation  --seeds simulated worlds with faults, or as many as --session-hours take
  forgers     the same, with processes that send events in the name of clients
  fleet       --seeds lives of machines that send to each other over an engine that loses and repeats
  relay       --records of one machine, published while its coordinator, its relay and a real NATS server are killed
  planted     bugs put in on purpose, by the names behind it or all: the simulation must find each

Examples:
  cargo xtask soak
  cargo xtask soak kills simulation --minutes 60 --seeds 100000
  cargo xtask soak simulation --session-hours 100000
  cargo xtask soak races --races 200
  cargo xtask soak relay --records 10000
  cargo xtask soak planted lost-dedupe
  cargo xtask soak simulation --seeds 2000 --record   # append the figures to tests/soak.jsonl
  cargo xtask soak --ledger                           # the totals of all recorded runs")]
pub(crate) struct Args {
    /// Parts to run; all but forgers and planted by default. What follows `planted` are names of bugs
    parts: Vec<String>,
    /// How long each part runs that takes time; a round that has begun is finished
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Prompts that are raced for
    #[arg(long, default_value_t = 1000)]
    races: u64,
    /// Records that a machine of a fleet publishes; its coordinator and its relay are killed once in 200 each
    #[arg(long, default_value_t = 10_000)]
    records: u64,
    /// Seeds of the simulation
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Hours that sessions live in the simulation, in all
    #[arg(long, value_name = "HOURS", conflicts_with = "seeds")]
    session_hours: Option<u64>,
    /// Append what ran, a line for each part, to tests/soak.jsonl, and bring docs/accuracy.md up to date
    #[arg(long)]
    record: bool,
    /// Run nothing: print the totals of tests/soak.jsonl, and bring docs/accuracy.md up to date
    #[arg(long, conflicts_with_all = ["parts", "record"])]
    ledger: bool,
}

/// What a part did.
#[derive(Debug, Default)]
struct Report {
    /// The seeds that were run.
    seeds: Option<Seeds>,
    /// How much happened.
    counts: Counts,
    failures: Vec<Failure>,
}

/// What went wrong, and the command that repeats it.
#[derive(Debug)]
struct Failure {
    what: String,
    seed: Option<u64>,
    again: String,
}

impl Report {
    fn failed(what: impl Into<String>, again: impl Into<String>) -> Self {
        let failure = Failure { what: what.into(), seed: None, again: again.into() };
        Self { failures: vec![failure], ..Self::default() }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.ledger {
        ledger::write_page()?;
        say(ledger::totals(&ledger::read()?).trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let is_planted = |part: &String| part == "planted";
    let mut groups = args.parts.splitn(2, is_planted);
    let (parts, planted) = (groups.next().unwrap_or_default(), groups.next());
    let known = ["kills", "properties", "fuzz", "races", "simulation", "fleet", "relay", "forgers"]
        .map(str::to_owned);
    let parts = if args.parts.is_empty() { &known[..7] } else { parts };
    if let Some(unknown) = parts.iter().find(|part| !known.contains(part)) {
        bail!("there is no part {unknown}; parts are {}, planted", known.join(", "));
    }
    let mut reports = Vec::new();
    for part in parts {
        reports.push(timed(part, args.record, || match part.as_str() {
            "kills" => rounds::kills(args.minutes),
            "properties" => rounds::properties(args.minutes),
            "fuzz" => program::fuzz(args.minutes),
            "races" => rounds::races(args.races),
            "fleet" => fleet::run(args.seeds),
            "relay" => rounds::relay(args.records),
            _ => program::simulation(part, args.seeds, args.session_hours),
        })?);
    }
    if let Some(names) = planted {
        reports.push(timed("planted", args.record, || planted::run(names))?);
    }
    Ok(summary(&reports))
}

/// A part's name, its report and how many seconds it took.
type Timed = (String, Report, u64);

/// Runs a part, and records it if that is wanted.
fn timed(
    part: &str,
    is_recorded: bool,
    run: impl FnOnce() -> anyhow::Result<Report>,
) -> anyhow::Result<Timed> {
    let commit = if is_recorded { ledger::commit()? } else { String::new() };
    say(&format!("{part} …"));
    if commit.ends_with(ledger::DIRTY) {
        say(&format!("    the tree has changes: this is recorded as a run of {commit}"));
    }
    let begun = Instant::now();
    let report = run()?;
    let seconds = begun.elapsed().as_secs();
    if is_recorded {
        ledger::append(&ledger::entry(part, &commit, &report, seconds)?)?;
    }
    Ok((part.to_owned(), report, seconds))
}

fn summary(reports: &[Timed]) -> ExitCode {
    say("");
    let mut failed = false;
    for (part, report, seconds) in reports {
        let state = if report.failures.is_empty() { "passed" } else { "FAILED" };
        let seeds = report.seeds.map(|Seeds { first, n }| format!("{n} seeds from {first}"));
        let counts = Some(ledger::words(&report.counts)).filter(|words| !words.is_empty());
        let ran: Vec<String> = [seeds, counts].into_iter().flatten().collect();
        say(&format!("{part:<10}  {state}  {seconds} s  {}", ran.join(", ")));
        for Failure { what, seed, again } in &report.failures {
            failed = true;
            let seed = seed.map_or_else(String::new, |seed| format!("seed {seed}: "));
            say(&format!("    {seed}{what}"));
            say(&format!("    repeat: {again}"));
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Shows the end of a failed run's output.
fn show_end(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default() {
        say(&format!("    {line}"));
    }
}
