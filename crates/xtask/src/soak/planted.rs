//! Bugs put in on purpose, in a copy of the sources: the simulation must find each one, or it
//! proves nothing by finding none.
//!
//! A bug is a file `crates/coord-sim/planted/NAME.toml`: one place in one file, and what stands
//! there instead. The copy and what is built from it lie below the target directory and are kept,
//! so that the next bug builds only what it changes. The simulation must pass without any bug
//! first; else it would find all of them for a wrong reason.

use super::ledger::Counts;
use super::{Failure, Report, show_end};
use crate::{root, say};
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the bugs are, from the repository's top.
const DIR: &str = "crates/coord-sim/planted";
/// Seeds in which each bug must be found.
const SEEDS: &str = "1000";

/// A bug.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    /// What goes wrong by it.
    why: String,
    /// The file it is in.
    file: PathBuf,
    /// What stands there once.
    find: String,
    /// What takes its place.
    replace: String,
}

/// Runs the bugs of these names, or all.
pub(super) fn run(names: &[String]) -> anyhow::Result<Report> {
    let bugs = bugs()?;
    if let Some(name) = names.iter().find(|name| bugs.iter().all(|(known, _)| known != *name)) {
        bail!("there is no planted bug {name}: see {DIR}");
    }
    let chosen: Vec<_> =
        bugs.iter().filter(|(name, _)| names.is_empty() || names.contains(name)).collect();
    let copy = Copy::new()?;
    copy.refresh()?;
    let base = copy.simulate()?;
    if base.status.code() != Some(0) {
        let text = text(&base);
        show_end(&text);
        let what = "the simulation fails, or is not there, without any planted bug";
        return Ok(Report::failed(what, "cargo run --release -p coord-sim -- run --seeds 1000"));
    }
    let (mut found, mut failures) = (0, Vec::new());
    for (name, bug) in &chosen {
        copy.refresh()?;
        copy.plant(bug).with_context(|| format!("{DIR}/{name}.toml"))?;
        let output = copy.simulate()?;
        let text = text(&output);
        let what = match (output.status.code(), seed_in(&text)) {
            (Some(1), Some(seed)) => {
                say(&format!("    {name}: found by seed {seed}: {}", bug.why));
                found += 1;
                continue;
            }
            (Some(0), _) => format!("{name}: not found: {}", bug.why),
            (code, seed) => {
                show_end(&text);
                format!("{name}: ended with {code:?} at seed {seed:?}, which tells nothing")
            }
        };
        say(&format!("    {what}"));
        failures.push(Failure {
            what,
            seed: None,
            again: format!("cargo xtask soak planted {name}"),
        });
    }
    copy.refresh()?;
    let planted = u64::try_from(chosen.len())?;
    let counts = [("planted bugs".to_owned(), planted), ("bugs found".to_owned(), found)];
    Ok(Report { seeds: None, counts: Counts::from(counts), failures })
}

/// All bugs by name.
fn bugs() -> anyhow::Result<Vec<(String, Bug)>> {
    let mut bugs = Vec::new();
    for entry in fs::read_dir(root().join(DIR)).context(DIR)? {
        let path = entry.context(DIR)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let bug = toml::from_str(&text).with_context(|| path.display().to_string())?;
        bugs.push((name, bug));
    }
    bugs.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(bugs)
}

impl Bug {
    /// The file's text with the bug in it.
    fn planted_in(&self, text: &str) -> anyhow::Result<String> {
        let times = text.matches(&self.find).count();
        let file = self.file.display();
        ensure!(times == 1, "what to find is {times} times in {file}; it must be there once");
        Ok(text.replace(&self.find, &self.replace))
    }
}

/// The number behind the first word `seed` of a program's output.
fn seed_in(text: &str) -> Option<u64> {
    text.match_indices("seed").find_map(|(at, word)| {
        let rest = text.get(at + word.len()..)?.trim_start_matches([' ', ':', '=', '"']);
        let digits = rest.split(|other: char| !other.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// A copy of the tracked files, for one run of this task at a time.
#[derive(Debug)]
struct Copy {
    tree: PathBuf,
    target: PathBuf,
    _lock: fs::File,
}

impl Copy {
    fn new() -> anyhow::Result<Self> {
        let dir = target_dir()?.join("planted");
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let lock = fs::File::create(dir.join("lock")).context("the lock of the copy")?;
        lock.lock().context("the lock of the copy")?;
        Ok(Self { tree: dir.join("tree"), target: dir.join("build"), _lock: lock })
    }

    /// Makes the copy like the tracked files. Files that are the same stay untouched, so that cargo
    /// builds nothing anew for them.
    fn refresh(&self) -> anyhow::Result<()> {
        let list = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
        let list = list.context("git ls-files")?;
        ensure!(list.status.success(), "git ls-files: {}", String::from_utf8_lossy(&list.stderr));
        let list = String::from_utf8(list.stdout).context("git ls-files")?;
        let mut tracked = BTreeSet::new();
        for name in list.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (root().join(name), self.tree.join(name));
            if !from.is_file() {
                continue;
            }
            let bytes = fs::read(&from).with_context(|| from.display().to_string())?;
            if fs::read(&to).ok().as_ref() != Some(&bytes) {
                let dir = to.parent().unwrap_or(&self.tree);
                fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
                fs::write(&to, bytes).with_context(|| to.display().to_string())?;
            }
            tracked.insert(to);
        }
        remove_others(&self.tree, &tracked)
    }

    fn plant(&self, bug: &Bug) -> anyhow::Result<()> {
        let file = self.tree.join(&bug.file);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        fs::write(&file, bug.planted_in(&text)?).with_context(|| file.display().to_string())
    }

    /// Builds the simulation and runs it.
    fn simulate(&self) -> anyhow::Result<Output> {
        let mut cargo = crate::cargo();
        cargo.args(["build", "--quiet", "--release", "--package", "coord-sim", "--bin"]);
        cargo.arg("coord-sim").arg("--target-dir").arg(&self.target).current_dir(&self.tree);
        let built = cargo.output().context("cargo")?;
        if !built.status.success() {
            // Cargo's own code for a failed build is none that the simulation ends with.
            return Ok(built);
        }
        let mut simulation = Command::new(self.target.join("release/coord-sim"));
        simulation.args(["run", "--seeds", SEEDS]).current_dir(&self.tree);
        simulation.output().context("coord-sim")
    }
}

/// The target directory this task was built in.
fn target_dir() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program")?;
    let profile = own.parent().and_then(Path::parent);
    profile.map(Path::to_owned).context("this program lies in no target directory")
}

/// Removes the files below `dir` that are not among `kept`.
fn remove_others(dir: &Path, kept: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry.with_context(|| dir.display().to_string())?;
        let path = entry.path();
        if entry.file_type().with_context(|| path.display().to_string())?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
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

    #[test]
    fn every_planted_bug_has_its_place() {
        let bugs = bugs().unwrap();
        assert!(5 <= bugs.len(), "{bugs:?}");
        for (name, bug) in bugs {
            let text = fs::read_to_string(root().join(&bug.file)).unwrap();
            let planted = bug.planted_in(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(planted != text && !bug.why.is_empty(), "{name}");
        }
    }
}
