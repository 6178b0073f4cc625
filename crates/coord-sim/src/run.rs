//! `coord-sim run`: many seeds, each a simulated life with its own faults; reports what they came to.

mod report;

use std::io::{BufRead, IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, bail};

use crate::{Meter, Outcome, Simulation, Violation, run_lives};

/// Simulate the life of a machine, its clients and their coordinator, with faults, once for each seed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coord-sim run --seeds 1000
  coord-sim run --session-hours 100000      # as many as that takes
  coord-sim run --seeds 1 --from 276        # one seed again
  coord-sim run --replay coord-sim-276.log  # step through a failure, Enter for the next line

Exit code 1: something happened that must not. The faults are listed in crates/coord-sim/src/faults.rs.")]
pub struct Run {
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// As many seeds as it takes to simulate living sessions for so many hours in all
    #[arg(long, value_name = "HOURS", conflicts_with = "seeds")]
    session_hours: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Where the log of a failure goes; the directory for temporary files otherwise
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Print one object of JSON
    #[arg(long)]
    json: bool,
    /// Step through the log of a failure: the seed runs again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "session_hours", "from", "logs", "json"])]
    replay: Option<PathBuf>,
}

/// In so many seeds messages leave by every way.
const MANY: u64 = 100;

/// The first line of a log begins with this; the seed follows.
const HEAD: &str = "coord-sim seed ";

impl Run {
    /// Runs them; 1 if something happened that must not, 2 if it could not be run.
    pub fn run(&self) -> ExitCode {
        let result = match &self.replay {
            Some(file) => replay(file, &mut std::io::stdout()),
            None => self.seeds(),
        };
        result.unwrap_or_else(|error| {
            let _unseen = writeln!(std::io::stderr(), "coord-sim: {error:#}");
            ExitCode::from(2)
        })
    }

    fn seeds(&self) -> anyhow::Result<ExitCode> {
        let (next, is_over) = (AtomicU64::new(self.from), AtomicBool::new(false));
        let (end, hours) = match self.session_hours {
            Some(hours) => (u64::MAX, hours),
            None => (self.from.saturating_add(self.seeds), u64::MAX),
        };
        let results = Mutex::new((0_u64, Meter::default(), None::<(u64, Violation)>));
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if end <= seed {
                    return;
                }
                let outcome = one(seed);
                let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                results.0 += 1;
                results.1 += &outcome.meter;
                if hours <= results.1.sessions / report::HOUR {
                    is_over.store(true, Ordering::Relaxed);
                }
                if let Some(violation) = outcome.violation {
                    is_over.store(true, Ordering::Relaxed);
                    // Several threads may find one: the lowest seed is shown, whichever was first.
                    if results.2.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                        results.2 = Some((seed, violation));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let jobs = std::thread::available_parallelism().map_or(1, usize::from);
            (1..jobs).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (seeds, meter, found) = results;
        let mut out = std::io::stdout();
        if !self.json {
            report::text(&mut out, seeds, &meter)?;
        }
        let missing = meter.messages.missing().filter(|_| MANY <= seeds && found.is_none());
        if let Some(missing) = missing {
            bail!("in {seeds} seeds {missing}: nothing is proved of that");
        }
        let Some((seed, violation)) = found else {
            if self.json {
                writeln!(out, "{}", report::json(seeds, &meter, None))?;
                return Ok(ExitCode::SUCCESS);
            }
            let (hours, acts) = (meter.sessions / report::HOUR, meter.tried + meter.signals);
            writeln!(out, "{seeds} seeds, {hours} session-hours, {acts} acts, none of them wrong")?;
            return Ok(ExitCode::SUCCESS);
        };
        let dir = self.logs.clone().unwrap_or_else(std::env::temp_dir);
        let log = write_log(&dir, seed)?;
        if self.json {
            writeln!(out, "{}", report::json(seeds, &meter, Some((seed, &violation))))?;
            return Ok(ExitCode::from(1));
        }
        writeln!(out, "violation: seed {seed}: {violation}")?;
        writeln!(out, "at commit {}", commit())?;
        writeln!(out, "again:    coord-sim run --seeds 1 --from {seed}")?;
        writeln!(out, "stepwise: coord-sim run --replay {}", log.display())?;
        Ok(ExitCode::from(1))
    }
}

fn write_log(dir: &Path, seed: u64) -> anyhow::Result<PathBuf> {
    let path = dir.join(format!("coord-sim-{seed}.log"));
    let text = [vec![format!("{HEAD}{seed}, commit {}", commit())], lines(seed)].concat();
    std::fs::write(&path, text.join("\n") + "\n").with_context(|| path.display().to_string())?;
    Ok(path)
}

/// One seed; a panic is a violation like any other.
fn one(seed: u64) -> Outcome {
    let run = || {
        let mut outcome = Simulation::new(seed, false).run().0;
        let runs = run_lives::of_seed(seed, false);
        outcome.meter.runs = runs.ended;
        Outcome { violation: outcome.violation.or(runs.wrong), meter: outcome.meter }
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Outcome {
        violation: Some(Violation::panic()),
        meter: Meter::default(),
    })
}

fn lines(seed: u64) -> Vec<String> {
    let run = || {
        let (outcome, mut lines) = Simulation::new(seed, true).run();
        lines.extend(outcome.violation.map(|violation| format!("VIOLATION {violation}")));
        let runs = run_lives::of_seed(seed, true);
        lines.extend(runs.lines);
        lines.extend(runs.wrong.map(|violation| format!("VIOLATION {violation}")));
        lines
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| vec!["PANIC".to_owned()])
}

/// Runs a log's seed again, and shows its lines, one at a time where somebody waits for them.
fn replay(file: &Path, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut wanted = text.lines();
    let head = wanted.next().and_then(|line| line.strip_prefix(HEAD));
    let seed = head.and_then(|head| head.split(',').next()?.parse().ok());
    let seed: u64 = seed.with_context(|| format!("{}: no log of a seed", file.display()))?;
    let stdin = std::io::stdin();
    let is_stepwise = stdin.is_terminal();
    for (n, line) in lines(seed).iter().enumerate() {
        // What was found may stand in several lines.
        let is_same = line.lines().all(|part| wanted.next() == Some(part));
        if !is_same {
            bail!(
                "line {} is another one now: the log is of another version ({line})",
                n.saturating_add(2)
            );
        }
        writeln!(out, "{line}")?;
        if is_stepwise && stdin.lock().read_line(&mut String::new())? == 0 {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn commit() -> String {
    let asked = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short", "HEAD"])
        .output();
    let told = asked.ok().filter(|output| output.status.success());
    told.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // One seed decides everything: its log can be stepped through, line by line.
    #[test]
    fn a_log_is_replayed_by_its_seed() {
        let dir = tempfile::tempdir().unwrap();
        let log = write_log(dir.path(), 3).unwrap();
        let mut shown = Vec::new();
        replay(&log, &mut shown).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        let (_, lines) = text.split_once('\n').unwrap();
        assert_eq!(String::from_utf8(shown).unwrap(), lines);
        std::fs::write(&log, text.replacen("starts as pid", "starts as", 1)).unwrap();
        let error = replay(&log, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("another one now"), "{error}");
        std::fs::write(&log, "something else").unwrap();
        let error = replay(&log, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("no log of a seed"), "{error}");
    }

    #[test]
    fn a_few_seeds_are_without_violation() {
        for seed in 0..6 {
            assert_eq!(one(seed).violation, None, "seed {seed}");
        }
    }
}
