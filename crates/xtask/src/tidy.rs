//! `cargo xtask tidy`: what the compiler and clippy do not see.
//!
//! Decides by reading the tracked files only. Each finding is one line that names the place and the
//! remedy; the same checks run as a test of this crate.

mod arrows;
mod guarantees;
mod layout;
mod ledger;
mod links;
mod manifests;
mod proofs;
mod purity;
mod topics;
mod words;

use crate::{root, say};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Lines allowed in one file of source.
const LINES_MAX: usize = 600;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let report = check(root())?;
    for note in &report.notes {
        say(note);
    }
    for finding in &report.findings {
        say(finding);
    }
    if report.findings.is_empty() {
        say("tidy: nothing to complain about");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

/// What a check came to.
#[derive(Debug, Default)]
struct Report {
    findings: Vec<String>,
    /// What to know beside them: how far the guarantees are.
    notes: Vec<String>,
}

/// One tracked file.
#[derive(Debug)]
struct Text {
    /// Relative to the repository's top.
    path: String,
    /// Empty if it is no text.
    text: String,
}

impl Text {
    fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    fn has_extension(&self, wanted: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == wanted)
    }

    /// Its lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}

fn check(root: &Path) -> anyhow::Result<Report> {
    let files = tracked(root)?;
    let mut report = Report::default();
    long_files(&files, &mut report);
    words::check(&files, &mut report);
    purity::check(&files, &mut report);
    topics::check(&files, &mut report);
    manifests::check(&files, &mut report);
    arrows::check(&files, &mut report);
    layout::check(&files, &mut report);
    proofs::check(&files, &mut report);
    links::check(&files, &mut report);
    ledger::check(&files, &mut report);
    Ok(report)
}

/// All tracked files.
fn tracked(root: &Path) -> anyhow::Result<Vec<Text>> {
    let output =
        Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().context("git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file name that is not UTF-8")?;
    let mut files = Vec::new();
    for path in names.split('\0').filter(|name| !name.is_empty()) {
        match std::fs::read(root.join(PathBuf::from(path))) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes).unwrap_or_default();
                files.push(Text { path: path.to_owned(), text });
            }
            // Removed, and not yet from the index.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (),
            Err(error) => return Err(error).with_context(|| path.to_owned()),
        }
    }
    Ok(files)
}

fn long_files(files: &[Text], report: &mut Report) {
    let own = |file: &&Text| {
        file.is_rust() && (file.path.starts_with("crates/") || file.path.starts_with("tests/"))
    };
    for file in files.iter().filter(own) {
        let lines = file.text.lines().count();
        if LINES_MAX < lines {
            let path = &file.path;
            report.findings.push(format!("{path}: {lines} lines, {LINES_MAX} allowed: split it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings of one check on one file.
    pub(super) fn findings(check: fn(&[Text], &mut Report), path: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        check(&[Text { path: path.to_owned(), text: text.to_owned() }], &mut report);
        report.findings
    }

    #[test]
    fn the_repository_is_tidy() {
        let report = check(root()).unwrap();
        assert!(report.findings.is_empty(), "{}", report.findings.join("\n"));
    }

    #[test]
    fn a_long_file_is_found() {
        let found = |lines| findings(long_files, "crates/x/src/lib.rs", &"//\n".repeat(lines));
        assert_eq!(found(LINES_MAX).len(), 0);
        assert_eq!(found(LINES_MAX + 1).len(), 1);
    }
}
