//! `cargo xtask check`: the loop beside an editor. Format, lints, and the tests of what everything rests on.
//!
//! Decides only what is run. It stops at the first step that fails; `tests/run` is the whole.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;

use crate::{root, say};

/// What is linted and tested: small enough to be done within a minute, once built.
const CRATES: [&str; 8] = [
    "-pcoord-model",
    "-pcoord-core",
    "-pcoord-wire",
    "-pcoord-store",
    "-pcoord-testkit",
    "-pcoord-screen",
    "-pcoord-config",
    "-pcoord-hook",
];

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let lint =
        [&["clippy", "--locked", "--all-targets"][..], &CRATES, &["--", "-Dwarnings"]].concat();
    let test =
        [&["test", "--locked", "--quiet", "--lib", "--bins", "--tests"][..], &CRATES].concat();
    for (name, arguments) in
        [("format", vec!["fmt", "--all", "--check"]), ("lints", lint), ("tests", test)]
    {
        let step = Instant::now();
        let status = crate::cargo().args(&arguments).current_dir(root()).status();
        let status = status.with_context(|| format!("cannot run cargo {}", arguments.join(" ")))?;
        if !status.success() {
            say(&format!("{name}: failed; again: cargo {}", arguments.join(" ")));
            return Ok(ExitCode::FAILURE);
        }
        say(&format!("{name}: ok, {:.0} s", step.elapsed().as_secs_f64()));
    }
    say(&format!("all in {:.0} s", began.elapsed().as_secs_f64()));
    Ok(ExitCode::SUCCESS)
}
