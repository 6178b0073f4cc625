//! The parts that are programs of their own: the fuzzer and the simulation.

use super::{Report, show_end};
use crate::root;
use anyhow::Context;
use std::process::Command;

/// The fuzzer, built with coverage, for some minutes.
pub(super) fn fuzz(minutes: u64, seed: u64) -> anyhow::Result<Report> {
    let (minutes, seed) = (minutes.to_string(), seed.to_string());
    run("coord-fuzz", &["fuzz-guided"], &["--minutes", &minutes, "--seed", &seed])
}

/// The simulation from a fresh seed on, with some seeds or until sessions have lived for so long.
pub(super) fn simulation(
    seeds: u64,
    session_hours: Option<u64>,
    from: u64,
) -> anyhow::Result<Report> {
    let (option, n) = match session_hours {
        Some(hours) => ("--session-hours", hours),
        None => ("--seeds", seeds),
    };
    let cargo =
        ["run", "--quiet", "--release", "--package", "coord-sim", "--bin", "coord-sim", "--"];
    run("coord-sim", &cargo, &["run", option, &n.to_string(), "--from", &from.to_string()])
}

/// Builds and runs a program, by these words of cargo.
fn run(name: &str, cargo: &[&str], arguments: &[&str]) -> anyhow::Result<Report> {
    let mut command = Command::new(env!("CARGO"));
    let output =
        command.args(cargo).args(arguments).current_dir(root()).output().context("cargo")?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let ran = [arguments.join(" ").as_str(), last.trim()].join(": ");
    if output.status.success() {
        return Ok(Report { ran, failures: Vec::new() });
    }
    show_end(&text);
    let seed = seed_in(&text).map_or_else(String::new, |seed| format!(", seed {seed}"));
    let what = format!("{name}: {}{seed}", output.status);
    let mut report =
        Report::failed(what, format!("cargo {} {}", cargo.join(" "), arguments.join(" ")));
    report.ran = ran;
    Ok(report)
}

/// The number behind the first word `seed` of a program's output.
pub(super) fn seed_in(text: &str) -> Option<u64> {
    text.match_indices("seed").find_map(|(at, word)| {
        let rest = text.get(at + word.len()..)?.trim_start_matches([' ', ':', '=', '"']);
        let digits = rest.split(|other: char| !other.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_of_a_violation_is_read() {
        assert_eq!(seed_in("run 1000 seeds from 0\nseed 17: a record is lost"), Some(17));
        assert_eq!(seed_in("violation at seed=93, --seeds 1"), Some(93));
        assert_eq!(seed_in("1000 seeds, all well"), None);
    }
}
