//! `cargo xtask client-check`: whether a version of Claude Code can be trusted with coord, and coord with it.
//!
//! Decides which cases count and what a difference is: a failed case that tests/client-versions.toml does not explain
//! for that version fails the check, and so does an explained one that passes.

use crate::{root, say};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The programs whose cases run the client.
const PROGRAMS: [&str; 7] =
    ["client", "interactive", "messages", "recovery", "run", "spine", "wake"];

/// Try coord with a version of Claude Code
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask client-check 2.1.330\n  cargo xtask client-check 2.1.250 --only recovery\n\nThe client comes from npm. All cases take about half an hour on two cores. Record the result in\ntests/client-versions.toml and docs/client-versions.md."
)]
pub(crate) struct Args {
    /// The version, such as 2.1.330
    version: String,
    /// Only the cases of this test program; may be given several times
    #[arg(long, value_name = "PROGRAM", value_parser = PROGRAMS)]
    only: Vec<String>,
}

/// What tests/client-versions.toml says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    #[serde(default)]
    version: Vec<Known>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    number: String,
    #[serde(default)]
    difference: Vec<Difference>,
}

/// What a version does otherwise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// Names of cases, alone or with their program; one that ends in `*` stands for all that begin so.
    cases: Vec<String>,
    /// What the client does.
    client: String,
    /// What coord shows then.
    shown: String,
}

impl Difference {
    fn explains(&self, case: &str) -> bool {
        self.cases.iter().any(|named| match named.strip_suffix('*') {
            Some(beginning) => case.starts_with(beginning),
            None => named == case,
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let known = known(&args.version)?;
    let client = install(&args.version)?;
    let began = Instant::now();
    let log = root().join(format!("target/client-check-{}.log", args.version));
    let (cases, cut_off) = cases(&client, &args.only, &log)?;
    let (mut report, mut is_good) = judge(&cases, &known);
    for program in cut_off {
        is_good = false;
        let _ = writeln!(report, "failed: {program} ended before all of its cases were run");
    }
    say(&format!(
        "{report}{} cases with {} in {:.0} min; all that they said: {}",
        cases.len(),
        args.version,
        began.elapsed().as_secs_f64() / 60.0,
        log.display()
    ));
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The differences of this version.
fn known(version: &str) -> anyhow::Result<Vec<Difference>> {
    let file = root().join("tests/client-versions.toml");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let data: Data = toml::from_str(&text).with_context(|| file.display().to_string())?;
    let known = data.version.into_iter().find(|one| one.number == version);
    Ok(known.map_or_else(Vec::new, |one| one.difference))
}

/// The path of the client's executable.
fn install(version: &str) -> anyhow::Result<String> {
    let script = root().join("tests/install-claude");
    let out = Command::new(&script).arg(version).stderr(Stdio::inherit()).output();
    let out = out.with_context(|| script.display().to_string())?;
    if !out.status.success() {
        bail!("Claude Code {version} could not be installed; is it a version that npm has?");
    }
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}

/// Whether each case passed, by its program and name, and the programs that ended before all of their cases were run.
type Outcomes = (BTreeMap<String, bool>, Vec<String>);

/// Runs the cases, and writes all that they say to `log`.
fn cases(client: &str, only: &[String], log: &Path) -> anyhow::Result<Outcomes> {
    let mut cargo = crate::cargo();
    cargo.args(["build", "--locked", "--workspace"]).current_dir(root());
    if !cargo.status()?.success() {
        bail!("the programs could not be built");
    }
    let mut cargo = crate::cargo();
    cargo.args(["test", "--locked", "--no-fail-fast", "--package", "coord-tests"]);
    let is_named = |name: &&str| only.is_empty() || only.iter().any(|one| one == name);
    let named: Vec<&str> = PROGRAMS.into_iter().filter(is_named).collect();
    cargo.args(named.iter().flat_map(|name| ["--test", name]));
    // The one case that says which version the tests are written for.
    cargo.args(["--", "--skip", "the_client_is_the_pinned_one"]);
    cargo.env("COORD_TEST_CLAUDE", client).current_dir(root());
    // Both streams in one: the headings of cargo come on standard error.
    let (reader, writer) = std::io::pipe()?;
    cargo.stdout(writer.try_clone()?).stderr(writer);
    let mut child = cargo.spawn()?;
    drop(cargo);
    let mut log = File::create(log).with_context(|| log.display().to_string())?;
    let mut lines = Vec::new();
    for line in BufReader::new(reader).lines() {
        let line = line?;
        writeln!(log, "{line}")?;
        if program_of(&line).is_some() || case_of(&line).is_some_and(|(_, passed)| !passed) {
            say(line.trim());
        }
        lines.push(line);
    }
    child.wait()?;
    Ok(read(&lines, &named))
}

/// What the lines of a run say of these programs.
fn read(lines: &[String], programs: &[&str]) -> Outcomes {
    let (mut program, mut cases) = ("", BTreeMap::new());
    let mut cut_off: Vec<String> = programs.iter().map(|&name| name.to_owned()).collect();
    for line in lines {
        if let Some(name) = program_of(line) {
            program = name;
        } else if let Some((case, passed)) = case_of(line) {
            cases.insert(format!("{program}::{case}"), passed);
        } else if line.starts_with("test result: ") {
            cut_off.retain(|name| name != program);
        }
    }
    (cases, cut_off)
}

/// The test program that cargo begins to run: `Running tests/wake.rs (target/debug/deps/wake-0123)`.
fn program_of(line: &str) -> Option<&str> {
    let path = line.trim_start().strip_prefix("Running ")?.split_once('(')?.1;
    path.rsplit_once('/')?.1.split_once('-').map(|(name, _)| name)
}

/// A case and whether it passed: `test a_name   ... ok`.
fn case_of(line: &str) -> Option<(&str, bool)> {
    let (case, fate) = line.strip_prefix("test ")?.rsplit_once("...")?;
    match fate.trim() {
        "ok" => Some((case.trim(), true)),
        "FAILED" => Some((case.trim(), false)),
        _ => None,
    }
}

/// What is told of the cases, and whether all that is otherwise is explained.
fn judge(cases: &BTreeMap<String, bool>, known: &[Difference]) -> (String, bool) {
    let (mut report, mut is_good) = (String::new(), !cases.is_empty());
    let mut n_explained = 0_u32;
    for (case, passed) in cases {
        let name = case.rsplit("::").next().unwrap_or(case);
        let explained = known.iter().find(|one| one.explains(name) || one.explains(case));
        match (passed, explained) {
            (true, None) => (),
            (false, Some(Difference { client, shown, .. })) => {
                n_explained += 1;
                let _ = writeln!(report, "differs: {case}: {client} coord: {shown}");
            }
            (false, None) => {
                is_good = false;
                let _ = writeln!(report, "failed: {case}");
            }
            (true, Some(_)) => {
                is_good = false;
                let _ = writeln!(report, "passed, although a difference is listed: {case}");
            }
        }
    }
    if cases.is_empty() {
        report.push_str("no case ran\n");
    }
    let _ = writeln!(
        report,
        "{} passed, {n_explained} differ as tests/client-versions.toml says",
        cases.values().filter(|passed| **passed).count()
    );
    (report, is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(cases: &[&str]) -> Difference {
        let cases = cases.iter().map(|&case| case.to_owned()).collect();
        Difference { cases, client: String::new(), shown: String::new() }
    }

    #[test]
    fn lines_of_a_run_are_understood() {
        let line = "     Running tests/wake.rs (target/debug/deps/wake-0123456789abcdef)";
        assert_eq!(program_of(line), Some("wake"));
        assert_eq!(program_of("test a ... ok"), None);
        assert_eq!(case_of("test a_name         ... ok"), Some(("a_name", true)));
        assert_eq!(case_of("test a_name ... FAILED"), Some(("a_name", false)));
        assert_eq!(case_of("test result: ok. 3 passed"), None);
    }

    #[test]
    fn a_program_that_is_killed_is_no_success() {
        let said = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let whole =
            "Running tests/wake.rs (deps/wake-01)\ntest a ... ok\ntest result: ok. 1 passed";
        let cases = BTreeMap::from([("wake::a".to_owned(), true)]);
        assert_eq!(read(&said(whole), &["wake"]), (cases.clone(), Vec::new()));
        let killed = "Running tests/wake.rs (deps/wake-01)\ntest a ... ok\nerror: test failed";
        assert_eq!(read(&said(killed), &["wake"]), (cases, vec!["wake".to_owned()]));
    }

    // P-05
    #[test]
    fn only_what_is_explained_may_differ() {
        let cases = |list: &[(&str, bool)]| {
            list.iter().map(|(case, passed)| (format!("p::{case}"), *passed)).collect()
        };
        let known = [difference(&["a_*", "b"])];
        let of = |list| judge(&cases(list), &known).1;
        assert!(of(&[("a_one", false), ("b", false), ("c", true)]));
        assert!(!of(&[("c", false)]), "nothing explains it");
        assert!(judge(&cases(&[("c", false)]), &[difference(&["p::c"])]).1, "by its full name");
        assert!(!of(&[("a_one", true)]), "it does not differ");
        assert!(!of(&[]), "nothing ran");
    }

    #[test]
    fn the_list_of_versions_can_be_read() {
        assert!(known("0.0.0").unwrap().is_empty());
    }
}
