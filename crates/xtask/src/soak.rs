//! `cargo xtask soak`: the random tests for long, each round with a fresh seed.
//!
//! Decides only what runs and what is reported; what may fail stands in the tests.

use crate::{root, say};
use anyhow::{Context, bail};
use rustix::rand::{GetRandomFlags, getrandom};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Cases of each property in one round.
const CASES: &str = "5000";
/// Lines of a failed run that are shown.
const LINES_SHOWN: usize = 30;

/// Run the random tests for long
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cargo xtask soak --minutes 60")]
pub(crate) struct Args {
    /// How long; a round that has begun is finished
    #[arg(long, default_value_t = 10)]
    minutes: u64,
}

/// A run of tests with a seed, or with more cases.
struct Suite {
    arguments: &'static [&'static str],
    variable: &'static str,
}

const SUITES: [Suite; 2] = [
    Suite {
        arguments: &["--package", "coord-tests", "--test", "kills"],
        variable: "COORD_TEST_SEED",
    },
    Suite {
        arguments: &[
            "--package",
            "coord-wire",
            "--package",
            "coord-hook",
            "--package",
            "coord-cli",
        ],
        variable: "PROPTEST_CASES",
    },
];

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let end = Duration::from_secs(args.minutes.saturating_mul(60));
    let begun = Instant::now();
    // The tests run the programs that stand beside them.
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace"])
        .current_dir(root())
        .status()
        .context("cargo")?;
    if !built.success() {
        bail!("cargo build --workspace failed");
    }
    let (mut rounds, mut failures) = (0_u64, Vec::new());
    while rounds == 0 || begun.elapsed() < end {
        rounds += 1;
        for suite in &SUITES {
            failures.extend(suite.run()?);
        }
        say(&format!(
            "{} s: {rounds} rounds, {} failures",
            begun.elapsed().as_secs(),
            failures.len()
        ));
    }
    for failure in &failures {
        say(failure);
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Suite {
    /// Runs it once; how to run it again if it failed.
    fn run(&self) -> anyhow::Result<Option<String>> {
        let value = match self.variable {
            "COORD_TEST_SEED" => seed()?.to_string(),
            _ => CASES.to_owned(),
        };
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--quiet"]).args(self.arguments).current_dir(root());
        let output = command.env(self.variable, &value).output().context("cargo")?;
        if output.status.success() {
            return Ok(None);
        }
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default() {
            say(&format!("    {line}"));
        }
        let again = format!("{}={value} cargo test {}", self.variable, self.arguments.join(" "));
        say(&format!("failed: {again}"));
        Ok(Some(format!("failed: {again}")))
    }
}

fn seed() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
