//! What the program of the status line adds to the user's own command (N-08). The command is the floor: it reads its input
//! and ends.

use super::Bench;
use super::call::{Call, rotate};
use super::programs::STATUS_LINE;
use super::sandbox::Sandbox;
use super::table::{Goal, Table};
use crate::root;
use anyhow::{Context, bail};
use std::ffi::OsString;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let (up, down) = (Sandbox::new(bench)?, Sandbox::new(bench)?);
    let coordinator = up.serve()?;
    down.serve()?.down()?;
    let file = root().join("tests/fixtures/statusline.json");
    let input = std::fs::read(&file).with_context(|| file.display().to_string())?;
    let command = [OsString::from("--"), bench.programs.floor.clone().into()];
    let program = bench.programs.hook(STATUS_LINE);
    let wrapped =
        |sandbox: &Sandbox| Call::new(&program, &input).with(&sandbox.arguments()).with(&command);
    let (own, up, down) = (Call::new(&bench.programs.floor, &input), wrapped(&up), wrapped(&down));
    let samples = rotate(&[&own, &up, &down], bench.rounds(3000))?;
    let [own, up, down] = samples.as_slice() else { bail!("three calls, three samples") };
    for (what, sample) in [("up", up), ("down", down)] {
        let added = (sample.median() - own.median()) / own.median();
        let detail = format!(
            "median {:.0} us, p99 {:.0} us; the command alone {:.0} us, p99 {:.0} us; n {}",
            sample.median(),
            sample.p99(),
            own.median(),
            own.p99(),
            own.len()
        );
        let what = format!("status line, coordinator {what}: added delay");
        table.row(what, added, "x floor", Goal::AtMost(1.5, 1.0), detail);
    }
    coordinator.down()
}
