//! The parts that are programs of their own: the fuzzer and the simulation.

use super::ledger::{self, Counts, SESSION_SECONDS, Seeds};
use super::{Failure, Report, show_end};
use crate::root;
use anyhow::Context;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::process::{Command, Output};

/// The words of cargo that build and run the simulation.
const SIMULATION: [&str; 8] =
    ["run", "--quiet", "--profile", "soak", "--package", "coord-sim", "--bin", "coord-sim"];
/// It runs where it is built.
const FOR_THIS_MACHINE: (&str, &str) = ("RUSTFLAGS", "-C target-cpu=native");

/// The fuzzer, built with coverage, for some minutes.
pub(super) fn fuzz(minutes: u64) -> anyhow::Result<Report> {
    let seed = ledger::fresh("fuzz", 1)?;
    let words = format!("fuzz-guided --minutes {minutes} --seed {seed} -- -print_final_stats=1");
    let (output, text) = output(&mut cargo(words.split(' ')))?;
    let mut report = if output.status.success() {
        Report::default()
    } else {
        show_end(&text);
        Report::failed(format!("coord-fuzz: {}", output.status), format!("cargo {words}"))
    };
    for failure in &mut report.failures {
        failure.seed = Some(seed);
    }
    report.seeds = Some(Seeds { first: seed, n: 1 });
    report.counts = executions(&text);
    Ok(report)
}

/// What libFuzzer says at the end of each process: how many inputs it ran.
fn executions(text: &str) -> Counts {
    let said = text.lines().filter_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executions = said.filter_map(|n| n.trim().parse::<u64>().ok()).sum();
    [("fuzz executions".to_owned(), executions)].into()
}

/// The simulation from a fresh seed on, with some seeds or until sessions have lived for so long.
pub(super) fn simulation(
    part: &str,
    seeds: u64,
    session_hours: Option<u64>,
) -> anyhow::Result<Report> {
    // Sessions live for several hours in each seed.
    let (option, n) = session_hours.map_or(("--seeds", seeds), |hours| ("--session-hours", hours));
    let (first, forgers) = (ledger::fresh(part, n)?, part == "forgers");
    let option_forgers = if forgers { " --forgers" } else { "" };
    let words = format!("run {option} {n} --from {first}{option_forgers} --json");
    let one = |seed: u64| format!("run --seeds 1 --from {seed}{option_forgers}");
    lives(first, &words, one, Ran::report)
}

/// Runs the simulation with these words, and reads the line of JSON that it prints. `one` are the words for a seed alone.
pub(super) fn lives<R: DeserializeOwned>(
    first: u64,
    words: &str,
    one: impl Fn(u64) -> String,
    report: impl Fn(R, u64) -> Report,
) -> anyhow::Result<Report> {
    let again = |words: &str| format!("cargo {} -- {words}", SIMULATION.join(" "));
    let mut command = cargo(SIMULATION.into_iter().chain(["--"]).chain(words.split(' ')));
    command.env(FOR_THIS_MACHINE.0, FOR_THIS_MACHINE.1);
    let (output, text) = output(&mut command)?;
    let Some(ran) = text.lines().find_map(|line| serde_json::from_str::<R>(line).ok()) else {
        show_end(&text);
        return Ok(Report::failed(format!("coord-sim: {}", output.status), again(words)));
    };
    let mut report = report(ran, first);
    for failure in &mut report.failures {
        failure.again = again(&one(failure.seed.unwrap_or(first)));
    }
    if report.failures.is_empty() && !output.status.success() {
        report.failures = Report::failed(output.status.to_string(), again(words)).failures;
    }
    Ok(report)
}

/// What `coord-sim run --json` prints, as far as it is recorded.
#[derive(Debug, Deserialize)]
struct Ran {
    seeds: u64,
    session_s: u64,
    violation: Option<Violation>,
    acts: u64,
    recoveries: BTreeMap<String, u64>,
    messages: Messages,
    notices: u64,
    requests: BTreeMap<String, u64>,
    forged: u64,
    runs: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
struct Violation {
    seed: u64,
    rule: String,
    what: String,
}

#[derive(Debug, Deserialize)]
struct Messages {
    accepted: u64,
}

impl Ran {
    fn report(self, first: u64) -> Report {
        let answers = self.requests.iter().filter(|(situation, _)| {
            // Those are counted as what they were, and where they came to.
            situation.ends_with(" from elsewhere") && !situation.starts_with("hidden")
        });
        let counts = [
            (SESSION_SECONDS, self.session_s),
            ("acts", self.acts),
            ("recoveries", self.recoveries.values().sum()),
            ("messages", self.messages.accepted),
            ("notices", self.notices),
            ("answers", answers.map(|(_, n)| n).sum()),
            ("forged events", self.forged),
            ("headless runs", self.runs.values().sum()),
        ];
        let failures = self.violation.map(|Violation { seed, rule, what }| {
            // What is behind it is the whole record of a session.
            let what = what.split(';').next().unwrap_or(&what);
            Failure { what: format!("{rule}: {what}"), seed: Some(seed), again: String::new() }
        });
        Report {
            seeds: Some(Seeds { first, n: self.seeds }),
            counts: counts.map(|(what, n)| (what.to_owned(), n)).into(),
            failures: failures.into_iter().collect(),
        }
    }
}

/// Cargo with these words.
fn cargo<'a>(words: impl Iterator<Item = &'a str>) -> Command {
    let mut command = crate::cargo();
    command.args(words).current_dir(root());
    command
}

/// Runs it; also what it printed.
fn output(command: &mut Command) -> anyhow::Result<(Output, String)> {
    let output = command.output().context("cargo")?;
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((output, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_of_all_parsers_are_summed() {
        let text = "Done 7 runs in 1 second(s)\nstat::number_of_executed_units: 7\nstat::average_exec_per_sec:     7\n\
                    ==1== ERROR: libFuzzer: deadly signal\nstat::number_of_executed_units: 35\n";
        assert_eq!(ledger::words(&executions(text)), "42 fuzz executions");
    }

    #[test]
    fn a_violation_is_recorded_with_its_seed_and_what_ran_before() {
        let text = r#"{"seeds":41,"session_s":7300,"violation":{"seed":38,"rule":"R-01","what":"one: idle, in truth ended; Life { x }"},
            "acts":5,"recoveries":{"closed":1,"verified":2},"messages":{"accepted":9,"read":1},"notices":6,
            "requests":{"refused":50,"allowed from elsewhere":3,"denied from elsewhere":1,"hidden: decided from elsewhere":7},
            "forged":0,"runs":{"exited":4},"wakes":{}}"#;
        let report = serde_json::from_str::<Ran>(text).unwrap().report(10);
        assert_eq!(report.seeds, Some(Seeds { first: 10, n: 41 }));
        assert_eq!(
            ledger::words(&report.counts),
            "2 session-hours, 5 acts, 3 recoveries, 9 messages, 6 notices, 4 answers, 4 headless runs"
        );
        let failure = report.failures.first().unwrap();
        assert_eq!(
            (failure.seed, failure.what.as_str()),
            (Some(38), "R-01: one: idle, in truth ended")
        );
    }
}
