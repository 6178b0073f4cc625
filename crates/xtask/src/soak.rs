//! `cargo xtask soak`: what is random and takes long, by parts, with a report at the end.
//!
//! Decides only what runs and what is reported; what may fail stands in the tests and programs it
//! runs. A part whose program is missing has failed.

mod planted;
mod program;
mod rounds;

use crate::say;
use anyhow::bail;
use rustix::rand::{GetRandomFlags, getrandom};
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
  planted     bugs put in on purpose, by the names behind it or all: the simulation must find each

Examples:
  cargo xtask soak
  cargo xtask soak kills simulation --minutes 60 --seeds 100000
  cargo xtask soak simulation --session-hours 100000
  cargo xtask soak races --races 200
  cargo xtask soak planted lost-dedupe")]
pub(crate) struct Args {
    /// Parts to run; all but planted by default. What follows `planted` are names of bugs
    parts: Vec<String>,
    /// How long each part runs that takes time; a round that has begun is finished
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Prompts that are raced for
    #[arg(long, default_value_t = 1000)]
    races: u64,
    /// Seeds of the simulation
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Hours that sessions live in the simulation, in all
    #[arg(long, value_name = "HOURS", conflicts_with = "seeds")]
    session_hours: Option<u64>,
}

/// What a part did.
#[derive(Debug, Default)]
struct Report {
    /// Numbers, for the report's line.
    ran: String,
    failures: Vec<Failure>,
}

/// What went wrong, and the command that repeats it.
#[derive(Debug)]
struct Failure {
    what: String,
    again: String,
}

impl Report {
    fn failed(what: impl Into<String>, again: impl Into<String>) -> Self {
        let failure = Failure { what: what.into(), again: again.into() };
        Self { ran: String::new(), failures: vec![failure] }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_planted = |part: &String| part == "planted";
    let mut groups = args.parts.splitn(2, is_planted);
    let (parts, planted) = (groups.next().unwrap_or_default(), groups.next());
    let all = ["kills", "properties", "fuzz", "races", "simulation"].map(str::to_owned);
    let parts = if args.parts.is_empty() { &all } else { parts };
    if let Some(unknown) = parts.iter().find(|part| !all.contains(part)) {
        bail!("there is no part {unknown}; parts are {}, planted", all.join(", "));
    }
    let mut reports = Vec::new();
    for part in parts {
        let seed = seed()?;
        reports.push(timed(part, || match part.as_str() {
            "kills" => rounds::kills(args.minutes),
            "properties" => rounds::properties(args.minutes),
            "fuzz" => program::fuzz(args.minutes, seed),
            "races" => rounds::races(args.races),
            _ => program::simulation(args.seeds, args.session_hours, seed),
        })?);
    }
    if let Some(names) = planted {
        reports.push(timed("planted", || planted::run(names))?);
    }
    Ok(summary(&reports))
}

/// A part's name, its report and how many seconds it took.
type Timed = (String, Report, u64);

fn timed(part: &str, run: impl FnOnce() -> anyhow::Result<Report>) -> anyhow::Result<Timed> {
    say(&format!("{part} …"));
    let begun = Instant::now();
    let report = run()?;
    Ok((part.to_owned(), report, begun.elapsed().as_secs()))
}

fn summary(reports: &[Timed]) -> ExitCode {
    say("");
    let mut failed = false;
    for (part, report, seconds) in reports {
        let state = if report.failures.is_empty() { "passed" } else { "FAILED" };
        say(&format!("{part:<10}  {state}  {seconds} s  {}", report.ran));
        for Failure { what, again } in &report.failures {
            failed = true;
            say(&format!("    {what}"));
            say(&format!("    repeat: {again}"));
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A fresh seed; short enough to be read out.
fn seed() -> anyhow::Result<u64> {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes).into())
}

/// Shows the end of a failed run's output.
fn show_end(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default() {
        say(&format!("    {line}"));
    }
}
