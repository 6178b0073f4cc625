//! How true `stalled` is: in the simulation, and in real runs.
//!
//! Decides what is added up. A stall is false where the client did not hang, and missed where it hung
//! for long enough and nobody was told; what was so is decided where it is measured.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::percent;
use crate::root;

/// The simulation's seeds are always the same ones, so that its figures can be compared.
const SEEDS: u64 = 300;

/// A line of a real case: a client that hung, or that only looked as if it did.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Recorded {
    /// The case.
    case: String,
    /// Whether its main thread really hung, for longer than the clock of what it was at.
    hangs: bool,
    /// Whether it was shown `stalled` meanwhile.
    shown: bool,
}

/// Both, beside each other.
#[derive(Debug, Default, Serialize)]
pub(super) struct Stalls {
    simulated: Vec<Simulated>,
    /// What must not be and was found there, which ended it: the figures are those up to then.
    violation: Option<Violation>,
    recorded: Option<Real>,
}

/// What the simulation says of itself, of one kind of time.
#[derive(Debug, Serialize, Deserialize)]
struct Simulated {
    registry: bool,
    faults: bool,
    unattended_s: u64,
    /// Stalls that were said, and those of them that were false.
    said: u64,
    #[serde(rename = "false")]
    not_true: u64,
    /// Hangs that were to be said, and those of them that were not.
    due: u64,
    missed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Violation {
    seed: u64,
    rule: String,
    what: String,
}

/// Real runs.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Real {
    cases: usize,
    said: u64,
    #[serde(rename = "false")]
    not_true: u64,
    due: u64,
    missed: u64,
    /// The cases that were false or missed, and which of both.
    wrong: Vec<String>,
}

impl Stalls {
    /// Runs the simulation, and adds what real cases recorded.
    pub(super) fn measure(recorded: &[Recorded]) -> anyhow::Result<Self> {
        let Report { stalls, violation } = simulate()?;
        Ok(Self { simulated: stalls, violation, recorded: Real::of(recorded) })
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let head = ["Stalls, simulated", "unattended h", "said", "false", "share"];
        let [what, hours, said, not_true, share] = head;
        let _ = writeln!(
            text,
            "{what:<34}{hours:>13}{said:>7}{not_true:>7}{share:>10}{:>8}{:>8}{share:>10}",
            "hangs", "missed"
        );
        for one in &self.simulated {
            let with = |has: bool| if has { "with" } else { "without" };
            let what = format!("{} registry, {} faults", with(one.registry), with(one.faults));
            let _ = writeln!(
                text,
                "{what:<34}{:>13}{:>7}{:>7}{:>8.2} %{:>8}{:>8}{:>8.2} %",
                one.unattended_s / 3600,
                one.said,
                one.not_true,
                percent(one.not_true, one.said),
                one.due,
                one.missed,
                percent(one.missed, one.due),
            );
        }
        if let Some(Violation { seed, rule, what }) = &self.violation {
            let _ = writeln!(text, "MISSED: the simulation ended at seed {seed}: {rule}: {what}");
        }
        match &self.recorded {
            None => text.push_str("Stalls, recorded real runs: none"),
            Some(real) => real.write(&mut text),
        }
        text
    }

    /// Whether a real run was told wrongly, or the simulation failed.
    pub(super) fn is_wrong(&self) -> bool {
        self.violation.is_some()
            || self.recorded.as_ref().is_some_and(|real| !real.wrong.is_empty())
    }
}

impl Real {
    fn write(&self, text: &mut String) {
        let Self { cases, said, not_true, due, missed, wrong } = self;
        let (what, share) = ("Stalls, recorded real runs", "share");
        let _ = writeln!(
            text,
            "{what:<34}{:>13}{:>7}{:>7}{share:>10}{:>8}{:>8}{share:>10}",
            "cases", "said", "false", "hangs", "missed"
        );
        let _ = write!(
            text,
            "{:<34}{cases:>13}{said:>7}{not_true:>7}{:>8.2} %{due:>8}{missed:>8}{:>8.2} %",
            "the client at a terminal",
            percent(*not_true, *said),
            percent(*missed, *due),
        );
        for case in wrong {
            let _ = write!(text, "\nMISSED: {case}");
        }
    }

    fn of(recorded: &[Recorded]) -> Option<Self> {
        let count = |is: fn(&Recorded) -> bool| {
            recorded.iter().fold(0, |sum, one| sum + u64::from(is(one)))
        };
        let wrong = recorded.iter().filter(|one| one.hangs != one.shown);
        let verdict = |one: &Recorded| if one.shown { "a false stall" } else { "a missed stall" };
        let names: BTreeSet<&str> = recorded.iter().map(|one| one.case.as_str()).collect();
        (!recorded.is_empty()).then(|| Self {
            cases: names.len(),
            said: count(|one| one.shown),
            not_true: count(|one| one.shown && !one.hangs),
            due: count(|one| one.hangs),
            missed: count(|one| one.hangs && !one.shown),
            wrong: wrong.map(|one| format!("{}, {}", verdict(one), one.case)).collect(),
        })
    }
}

/// What the simulation prints, also where it failed.
#[derive(Debug, Deserialize)]
struct Report {
    stalls: Vec<Simulated>,
    violation: Option<Violation>,
}

fn simulate() -> anyhow::Result<Report> {
    let seeds = SEEDS.to_string();
    let cargo = ["run", "--quiet", "--release", "--package", "coord-sim", "--bin", "coord-sim"];
    let output = crate::cargo()
        .args(cargo)
        .args(["--", "run", "--json", "--seeds", &seeds])
        .current_dir(root())
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cargo")?;
    let report = read(&output.stdout)?;
    if !output.status.success() && report.violation.is_none() {
        bail!("the simulation failed, see above");
    }
    Ok(report)
}

fn read(report: &[u8]) -> anyhow::Result<Report> {
    serde_json::from_slice(report).context("the simulation's report")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(case: &str, hangs: bool, shown: bool) -> Recorded {
        Recorded { case: case.to_owned(), hangs, shown }
    }

    #[test]
    fn a_hang_that_is_not_shown_is_missed_and_a_stall_without_one_is_false() {
        assert_eq!(Real::of(&[]), None);
        let all = [
            recorded("a", true, true),
            recorded("b", true, false),
            recorded("c", false, true),
            recorded("d", false, false),
        ];
        let real = Real::of(&all).unwrap();
        assert_eq!((real.cases, real.said, real.not_true), (4, 2, 1));
        assert_eq!((real.due, real.missed), (2, 1));
        assert_eq!(real.wrong, ["a missed stall, b", "a false stall, c"]);
        let mut text = String::new();
        real.write(&mut text);
        assert!(text.contains("50.00 %") && text.ends_with("MISSED: a false stall, c"), "{text}");
    }

    #[test]
    fn the_simulation_s_report_is_read() {
        let text = r#"{"seeds": 1, "stalls": [{"registry": true, "faults": false, "unattended_s": 7200,
            "said": 4, "false": 1, "due": 5, "missed": 2}], "violation": null}"#;
        let Report { stalls, violation } = read(text.as_bytes()).unwrap();
        let stalls = Stalls { simulated: stalls, violation, recorded: None };
        let shown = stalls.text();
        assert!(shown.contains("25.00 %") && shown.contains("40.00 %"), "{shown}");
        assert!(shown.ends_with("recorded real runs: none") && !stalls.is_wrong(), "{shown}");
        let failed =
            r#"{"stalls": [], "violation": {"seed": 7, "rule": "G3", "what": "two clients"}}"#;
        let Report { stalls, violation } = read(failed.as_bytes()).unwrap();
        let failed = Stalls { simulated: stalls, violation, recorded: None };
        assert!(failed.is_wrong() && failed.text().contains("seed 7: G3"), "{}", failed.text());
        assert!(read(b"{}").is_err());
    }
}
