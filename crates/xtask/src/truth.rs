//! `cargo xtask truth`: how much of what `coord inspect` says of real sessions at a terminal is true,
//! and how late the truth comes.
//!
//! Decides what is added up and which figures fail: with all sources, no session may be called
//! idle, running or waiting for a permission while it is not, for more than a second after the
//! change. Beside that stands how true stalls are (`stalls`): no recorded run may be told wrongly. What is
//! true at a moment is decided where it is measured, in the cases.

mod stalls;

use self::stalls::{Recorded, Stalls};
use crate::{root, say, say_error};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Measure how true the states of real sessions are
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask truth          all recorded cases, some minutes\n  cargo xtask truth --quick  without those that kill the coordinator\n\nWants the client under test: export COORD_TEST_CLAUDE=$(tests/install-claude)"
)]
pub(crate) struct Args {
    /// Only the cases whose coordinator stays up
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One line of what real cases measured.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Measured {
    /// `{"stall": {"case": "...", "hangs": true, "shown": true}}`: of a client that was left alone.
    Stall { stall: Recorded },
    /// What was stated after one mark of a terminal case.
    State(Box<Line>),
}

/// One line of the terminal cases: what was stated after one mark.
#[derive(Debug, Deserialize)]
struct Line {
    run: Run,
    mark: String,
    truth: String,
    delay_ms: Option<u64>,
    shown: BTreeMap<String, Times>,
}

#[derive(Debug, Deserialize)]
struct Run {
    case: String,
    sources: String,
    killed: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Times {
    #[serde(rename = "shown_ms")]
    shown: u64,
    #[serde(rename = "false_ms")]
    wrong: u64,
    #[serde(rename = "late_ms")]
    late: u64,
}

/// The sources with which nothing may be false for long.
const ALL_SOURCES: &str = "all sources";
/// The states on which somebody acts.
const STRICT: [&str; 3] = ["idle", "running", "awaiting_permission"];

/// The report.
#[derive(Debug, Default, Serialize)]
struct Truth {
    states: Vec<StateRow>,
    delays: Vec<DelayRow>,
    /// Each place where something was false for more than a second.
    late: Vec<Late>,
    stalls: Stalls,
}

/// How long one state was shown in one configuration, in milliseconds.
#[derive(Debug, Serialize)]
struct StateRow {
    configuration: String,
    state: String,
    shown_ms: u64,
    false_ms: u64,
    false_percent: f64,
    false_beyond_1_s_ms: u64,
    unknown_ms: u64,
}

#[derive(Debug, Serialize)]
struct DelayRow {
    configuration: String,
    n: usize,
    median_ms: u64,
    p99_ms: u64,
    longest_ms: u64,
    /// Case and step of the longest.
    longest_in: String,
}

#[derive(Debug, Serialize)]
struct Late {
    configuration: String,
    case: String,
    mark: String,
    shown: String,
    truth: String,
    ms: u64,
    is_miss: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let scratch = tempfile::tempdir().context("making a temporary directory")?;
    let file = scratch.path().join("truth.jsonl");
    let has_passed = run_cases(args.quick, &file)?;
    let text = std::fs::read_to_string(&file).context("the cases measured nothing")?;
    let (lines, recorded) = read(&text).context("reading what the cases measured")?;
    let stalls = Stalls::measure(&recorded)?;
    let truth = Truth { stalls, ..Truth::of(&lines) };
    say(&if args.json { serde_json::to_string_pretty(&truth)? } else { truth.text() });
    if !has_passed {
        say_error("some cases failed, see above; what they measured may be missing");
    }
    let has_missed = truth.late.iter().any(|late| late.is_miss) || truth.stalls.is_wrong();
    Ok(if has_passed && !has_missed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(text: &str) -> serde_json::Result<(Vec<Line>, Vec<Recorded>)> {
    let (mut lines, mut recorded) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match serde_json::from_str(line)? {
            Measured::Stall { stall } => recorded.push(stall),
            Measured::State(line) => lines.push(*line),
        }
    }
    Ok((lines, recorded))
}

/// Runs the terminal cases, and those that are left alone; whether they passed.
fn run_cases(quick: bool, file: &Path) -> anyhow::Result<bool> {
    let cargo = |arguments: &[&str]| {
        let mut command = crate::cargo();
        command.args(arguments).current_dir(root()).env("COORD_TRUTH", file);
        // The report has standard output for itself.
        command.stdout(std::io::stderr());
        command.status().context("cargo")
    };
    // The cases run the programs that stand beside them.
    if !cargo(&["build", "--quiet", "--workspace"])?.success() {
        bail!("cargo build --workspace failed");
    }
    let cases = ["test", "--quiet", "--package", "coord-tests", "--test"];
    let skip = ["--", "--skip", "_killed"];
    let skip = if quick { &skip[..] } else { &[] };
    let has_passed = cargo(&[&cases[..], &["interactive"], skip].concat())?.success();
    let stalls = cargo(&[&cases[..], &["recovery", "--", "stalls::"]].concat())?.success();
    Ok(has_passed && stalls)
}

impl Truth {
    fn of(lines: &[Line]) -> Self {
        let mut states: BTreeMap<(String, &str), Times> = BTreeMap::new();
        let mut delays: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
        let mut late = Vec::new();
        for line in lines {
            let configuration = line.run.configuration();
            let place = || format!("{}, {:?}", line.run.case, line.mark);
            let delay = line.delay_ms.map(|ms| (ms, place()));
            delays.entry(configuration.clone()).or_default().extend(delay);
            for (state, times) in &line.shown {
                for state in [state, "all"] {
                    states.entry((configuration.clone(), state)).or_default().add(times);
                }
                if state == "unknown" {
                    let all = states.entry((configuration.clone(), "all, unknown")).or_default();
                    all.add(times);
                }
                late.extend(line.late(state, times.late));
            }
        }
        let unknown = |configuration: &str| {
            let times = states.get(&(configuration.to_owned(), "all, unknown"));
            times.map_or(0, |times| times.shown)
        };
        let rows = states.iter().filter(|((_, state), _)| *state != "all, unknown");
        let row = |((configuration, state), times): (&(String, &str), &Times)| StateRow {
            configuration: configuration.clone(),
            state: (*state).to_owned(),
            shown_ms: times.shown,
            false_ms: times.wrong,
            false_percent: percent(times.wrong, times.shown),
            false_beyond_1_s_ms: times.late,
            unknown_ms: match *state {
                "all" => unknown(configuration),
                "unknown" => times.shown,
                _ => 0,
            },
        };
        let states = rows.map(row).collect();
        let delays = delays.into_iter().filter_map(delay_row).collect();
        Self { states, delays, late, stalls: Stalls::default() }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:<26}{:<20}{:>10}{:>10}{:>9}{:>13}{:>11}",
            "configuration", "state", "shown s", "false s", "share", "> 1 s late", "unknown s"
        );
        for row in &self.states {
            let _ = writeln!(
                text,
                "{:<26}{:<20}{:>10}{:>10}{:>7.3} %{:>13}{:>11}",
                row.configuration,
                row.state,
                seconds(row.shown_ms),
                seconds(row.false_ms),
                row.false_percent,
                seconds(row.false_beyond_1_s_ms),
                seconds(row.unknown_ms),
            );
        }
        let _ = writeln!(
            text,
            "\n{:<26}{:>10}{:>14}{:>10}{:>14}  in",
            "transitions", "n", "median ms", "p99 ms", "longest ms"
        );
        for row in &self.delays {
            let _ = writeln!(
                text,
                "{:<26}{:>10}{:>14}{:>10}{:>14}  {}",
                row.configuration, row.n, row.median_ms, row.p99_ms, row.longest_ms, row.longest_in
            );
        }
        for late in &self.late {
            let Late { configuration, case, mark, shown, truth, ms, is_miss } = late;
            let verdict = if *is_miss { "MISSED" } else { "known" };
            let _ = write!(
                text,
                "\n{verdict}: {shown} for {} s too long, {truth} was true: {case} ({configuration}), after {mark:?}",
                seconds(*ms),
            );
        }
        let _ = write!(text, "\n{}", self.stalls.text());
        text
    }
}

impl Line {
    /// Something false for more than a second.
    fn late(&self, shown: &str, ms: u64) -> Option<Late> {
        let Run { case, sources, .. } = &self.run;
        (ms != 0).then(|| Late {
            configuration: self.run.configuration(),
            case: case.clone(),
            mark: self.mark.clone(),
            shown: shown.to_owned(),
            truth: self.truth.clone(),
            ms,
            is_miss: sources == ALL_SOURCES && STRICT.contains(&shown),
        })
    }
}

impl Run {
    fn configuration(&self) -> String {
        format!("{}{}", self.sources, if self.killed { ", killed" } else { "" })
    }
}

impl Times {
    fn add(&mut self, other: &Self) {
        self.shown += other.shown;
        self.wrong += other.wrong;
        self.late += other.late;
    }
}

fn delay_row((configuration, mut delays): (String, Vec<(u64, String)>)) -> Option<DelayRow> {
    delays.sort_unstable();
    let at = |percent: usize| delays.get(delays.len() * percent / 100).map(|(ms, _)| *ms);
    let (median_ms, p99_ms) = (at(50)?, at(99)?);
    let (longest_ms, longest_in) = delays.last().cloned()?;
    Some(DelayRow { configuration, n: delays.len(), median_ms, p99_ms, longest_ms, longest_in })
}

#[expect(clippy::cast_precision_loss, reason = "these are minutes in milliseconds")]
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_stand_beside_states_in_one_file() {
        let text = concat!(
            r#"{"run": {"case": "a", "sources": "all sources", "killed": false}, "mark": "m", "truth": "idle", "delay_ms": 3, "shown": {"idle": {"shown_ms": 5, "false_ms": 0, "late_ms": 0}}}"#,
            "\n",
            r#"{"stall": {"case": "b", "hangs": true, "shown": false}}"#,
        );
        let (lines, recorded) = read(text).unwrap();
        assert_eq!((lines.len(), recorded.len()), (1, 1));
        assert_eq!(Truth::of(&lines).states.len(), 2);
        assert!(read(r#"{"stall": {"case": "b"}}"#).is_err());
    }
}
