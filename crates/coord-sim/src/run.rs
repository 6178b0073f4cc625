//! `coord-sim run`: many seeds, each a simulated life with its own faults; reports what they came to.

mod report;

use std::io::{BufRead, IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, bail};

use crate::forgers::Forgers;
use crate::{Meter, Outcome, Simulation, Violation, run_lives};

/// Simulate the life of a machine, its clients and their coordinator, with faults, once for each seed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coord-sim run --seeds 1000
  coord-sim run --session-hours 100000      # as many as that takes
  coord-sim run --seeds 1 --from 276        # one seed again
  coord-sim run --seeds 2000 --forgers      # with processes that say what only clients may say
  coord-sim run --fresh 100                 # seeds that the commit's hash draws; a finding is no failure
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
    /// So many seeds in a row that were never run before: the hash of a commit draws the first. A finding is
    /// printed and logged, and the exit code stays 0
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "session_hours", "from"])]
    fresh: Option<u64>,
    /// The hash that draws fresh seeds; that of the checked out commit otherwise
    #[arg(long, value_name = "HASH", requires = "fresh")]
    of: Option<String>,
    /// With forgers in the world: processes that are no clients and say what only a client's hooks may say. What
    /// they claim may move turns, so the shares of false states say nothing then
    #[arg(long)]
    forgers: bool,
    /// Where the log of a failure goes, created if need be; the directory for temporary files otherwise
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Print one object of JSON
    #[arg(long)]
    json: bool,
    /// Step through the log of a failure: the seed runs again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "session_hours", "from", "fresh", "logs", "json"])]
    replay: Option<PathBuf>,
}

/// In so many seeds messages leave by every way.
const MANY: u64 = 100;

/// The first line of a log begins with this; the seed follows.
const HEAD: &str = "coord-sim seed ";
/// Then this, if there were forgers.
const FORGED: &str = " with forgers";

/// One simulated life.
#[derive(Debug, Clone, Copy)]
struct Life {
    seed: u64,
    has_forgers: bool,
}

impl Life {
    fn simulation(self, has_log: bool) -> Simulation {
        let forgers = if self.has_forgers { Forgers::draw(self.seed) } else { Forgers::none() };
        Simulation::new(self.seed, forgers, has_log)
    }
}

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

    /// The first seed, and how many.
    fn range(&self) -> anyhow::Result<(u64, u64)> {
        let Some(n) = self.fresh else { return Ok((self.from, self.seeds)) };
        let hash = match &self.of {
            Some(hash) => hash.clone(),
            None => commit().context("no commit is checked out here: name a hash with --of")?,
        };
        Ok((fresh_from(&hash)?, n))
    }

    fn life(&self, seed: u64) -> Life {
        Life { seed, has_forgers: self.forgers }
    }

    fn seeds(&self) -> anyhow::Result<ExitCode> {
        let dir = self.logs.clone().unwrap_or_else(std::env::temp_dir);
        std::fs::create_dir_all(&dir).with_context(|| format!("--logs {}", dir.display()))?;
        let (first, n) = self.range()?;
        let mut out = std::io::stdout();
        if self.fresh.is_some() && !self.json {
            writeln!(out, "{n} fresh seeds, the first is {first}")?;
        }
        let (next, is_over) = (AtomicU64::new(first), AtomicBool::new(false));
        let (end, hours) = match self.session_hours {
            Some(hours) => (u64::MAX, hours),
            None => (first.saturating_add(n), u64::MAX),
        };
        let results = Mutex::new((0_u64, Meter::default(), None::<(u64, Violation)>));
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if end <= seed {
                    return;
                }
                let outcome = one(self.life(seed));
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
        if !self.json {
            report::text(&mut out, seeds, &meter)?;
        }
        let is_many = MANY <= seeds && self.fresh.is_none();
        let missing = meter.missing().filter(|_| is_many && found.is_none());
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
        self.tell(&mut out, &dir, (seed, violation), (seeds, &meter))
    }

    /// Tells of a violation, and where its log is.
    fn tell(
        &self,
        out: &mut impl Write,
        dir: &Path,
        (seed, violation): (u64, Violation),
        (seeds, meter): (u64, &Meter),
    ) -> anyhow::Result<ExitCode> {
        // What a fresh seed finds is the next thing to mend, and no change for the worse.
        let code = if self.fresh.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) };
        if self.json {
            writeln!(out, "{}", report::json(seeds, meter, Some((seed, &violation))))?;
            write_log(dir, self.life(seed))?;
            return Ok(code);
        }
        writeln!(out, "violation: seed {seed}: {violation}")?;
        writeln!(out, "at commit {}", commit_name())?;
        let forgers = if self.forgers { " --forgers" } else { "" };
        writeln!(out, "again:    coord-sim run --seeds 1 --from {seed}{forgers}")?;
        let log = write_log(dir, self.life(seed))?;
        writeln!(out, "stepwise: coord-sim run --replay {}", log.display())?;
        Ok(code)
    }
}

fn write_log(dir: &Path, life: Life) -> anyhow::Result<PathBuf> {
    let path = dir.join(format!("coord-sim-{}.log", life.seed));
    let forged = if life.has_forgers { FORGED } else { "" };
    let head = format!("{HEAD}{}{forged}, commit {}", life.seed, commit_name());
    let text = [vec![head], lines(life)].concat();
    std::fs::write(&path, text.join("\n") + "\n").with_context(|| path.display().to_string())?;
    Ok(path)
}

/// One seed; a panic is a violation like any other.
fn one(life: Life) -> Outcome {
    let run = || {
        let mut outcome = life.simulation(false).run().0;
        let runs = run_lives::of_seed(life.seed, false);
        outcome.meter.runs = runs.ended;
        Outcome { violation: outcome.violation.or(runs.wrong), meter: outcome.meter }
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Outcome {
        violation: Some(Violation::panic()),
        meter: Meter::default(),
    })
}

fn lines(life: Life) -> Vec<String> {
    let run = || {
        let (outcome, mut lines) = life.simulation(true).run();
        lines.extend(outcome.violation.map(|violation| format!("VIOLATION {violation}")));
        let runs = run_lives::of_seed(life.seed, true);
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
    let drawn = head.and_then(|head| head.split(',').next());
    let has_forgers = drawn.is_some_and(|drawn| drawn.ends_with(FORGED));
    let seed = drawn.and_then(|drawn| drawn.trim_end_matches(FORGED).parse().ok());
    let seed: u64 = seed.with_context(|| format!("{}: no log of a seed", file.display()))?;
    let stdin = std::io::stdin();
    let is_stepwise = stdin.is_terminal();
    for (n, line) in lines(Life { seed, has_forgers }).iter().enumerate() {
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

/// Fresh seeds lie above this: nobody has come here by counting.
const FRESH_FROM: u64 = 1 << 40;

/// The first of the seeds that a commit draws.
fn fresh_from(hash: &str) -> anyhow::Result<u64> {
    let digits: String = hash.chars().take(7).collect();
    let drawn = u64::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 7);
    let drawn = drawn.with_context(|| format!("--of {hash}: no hash of a commit"))?;
    // Those of two commits do not overlap, unless there are a thousand of each.
    Ok(FRESH_FROM + drawn * 1_000)
}

/// The hash of the commit that is checked out.
fn commit() -> Option<String> {
    let asked =
        Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"]).output();
    let told = asked.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&told.stdout).trim().to_owned())
}

fn commit_name() -> String {
    let name = commit().map(|hash| hash.chars().take(9).collect());
    name.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // One seed decides everything: its log can be stepped through, line by line.
    #[test]
    fn a_log_is_replayed_by_its_seed() {
        let dir = tempfile::tempdir().unwrap();
        let log_of = |has_forgers| write_log(dir.path(), Life { seed: 3, has_forgers }).unwrap();
        for has_forgers in [true, false] {
            let mut shown = Vec::new();
            replay(&log_of(has_forgers), &mut shown).unwrap();
            let text = std::fs::read_to_string(log_of(has_forgers)).unwrap();
            let (_, lines) = text.split_once('\n').unwrap();
            assert_eq!(String::from_utf8(shown).unwrap(), lines);
            assert_eq!(lines.contains("FORGED"), has_forgers);
        }
        let log = log_of(false);
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::write(&log, text.replacen("starts as pid", "starts as", 1)).unwrap();
        let error = replay(&log, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("another one now"), "{error}");
        std::fs::write(&log, "something else").unwrap();
        let error = replay(&log, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("no log of a seed"), "{error}");
    }

    // A finding is never hidden by the place of its log: a directory is made, and what cannot be one is refused
    // before anything runs.
    #[test]
    fn the_directory_of_logs_is_made_or_refused_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, file) = (dir.path().join("a/b"), dir.path().join("file"));
        std::fs::write(&file, "").unwrap();
        let of = |logs: PathBuf| Run {
            seeds: 1,
            session_hours: None,
            from: 0,
            fresh: None,
            of: None,
            forgers: false,
            logs: Some(logs),
            json: true,
            replay: None,
        };
        of(logs.clone()).seeds().unwrap();
        assert!(logs.is_dir());
        let error = of(file).seeds().unwrap_err();
        assert!(error.to_string().contains("--logs"), "{error}");
    }

    // Fresh seeds follow from the commit alone, and no two commits draw the same.
    #[test]
    fn a_commit_draws_its_seeds() {
        let first = fresh_from("78d0841deadbeef").unwrap();
        assert_eq!(first, fresh_from("78d0841").unwrap());
        assert!(FRESH_FROM <= first);
        assert_ne!(first, fresh_from("55cd493eadbeef").unwrap());
        for odd in ["", "main", "78d", "78d084x"] {
            assert!(fresh_from(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_few_seeds_are_without_violation() {
        for (seed, has_forgers) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
            let violation = one(Life { seed, has_forgers }).violation;
            assert_eq!(violation, None, "seed {seed}, forgers: {has_forgers}");
        }
    }
}
