//! Looks at repositories of many shapes. Whatever the shape, nothing in it is changed and no program of it is run.

use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Output};
use std::time::SystemTime;
use tempfile::TempDir;

mod bounds;
mod hostile;
mod odd;
mod owners;
mod shapes;

/// Longer than any look may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// For looks that cannot end by themselves.
const SHORT: Duration = Duration::from_millis(700);

/// A directory with a repository in `repo`.
struct Place {
    dir: TempDir,
}

impl Place {
    /// A repository with the committed files `a` and `b`.
    fn new() -> Self {
        let place = Self::empty();
        place.git(&["init", "--quiet", "repo"]);
        place.write("repo/a", "a\n");
        place.write("repo/b", "b\n");
        place.commit("first");
        place
    }

    /// No repository.
    fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Gives a file another time than the one in the index.
    fn touch(&self, name: &str) {
        let file = File::options().append(true).open(self.path(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }

    fn fifo(&self, name: &str) {
        mknodat(CWD, self.path(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Runs the real git as its user would, in the directory of the place. It may fail.
    fn try_git(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.current_dir(self.dir.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "dev");
            command.env(format!("GIT_{who}_EMAIL"), "dev@example.com");
        }
        command.args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]);
        command.args(["-c", "advice.detachedHead=false", "-c", "gc.auto=0"]);
        command.args(words).output().unwrap()
    }

    #[track_caller]
    fn git(&self, words: &[&str]) {
        let output = self.try_git(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs git in the repository.
    #[track_caller]
    fn repo(&self, words: &[&str]) {
        self.git(&[&["-C", "repo"], words].concat());
    }

    #[track_caller]
    fn commit(&self, what: &str) {
        self.repo(&["add", "--all"]);
        self.repo(&["commit", "--quiet", "--message", what]);
    }

    /// A branch `side` and the branch `main`, each with a change of the same line.
    fn diverged(&self) {
        self.repo(&["checkout", "--quiet", "-b", "side"]);
        self.write("repo/a", "side\n");
        self.commit("side");
        self.repo(&["checkout", "--quiet", "main"]);
        self.write("repo/a", "main\n");
        self.commit("main");
    }

    /// Looks from a directory. Nothing may have changed afterwards.
    #[track_caller]
    fn look_within(&self, cwd: &str, budget: Duration) -> Work {
        let before = snapshot(self.dir.path());
        let work = look(&program(), &self.path(cwd), budget);
        let after = snapshot(self.dir.path());
        let changed: Vec<_> = before
            .iter()
            .filter(|(path, one)| after.get(*path) != Some(one))
            .map(|(path, _)| path)
            .chain(after.keys().filter(|path| !before.contains_key(*path)))
            .collect();
        assert_eq!(changed, Vec::<&PathBuf>::new(), "{cwd}");
        work
    }

    #[track_caller]
    fn look(&self, cwd: &str) -> String {
        shown(&self.look_within(cwd, PATIENCE))
    }
}

fn program() -> PathBuf {
    find_git(&[]).unwrap()
}

/// Kind, length, time and content of everything below a directory.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, u64, i64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let of = fs::symlink_metadata(&path).unwrap();
            let text = if of.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if of.is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path, (of.mode(), of.len(), of.mtime(), of.mtime_nsec(), text));
        }
    }
    found
}

/// A result in a line: branch, whether there is a commit, operation; then staged, changed, conflicted, untracked.
fn shown(work: &Work) -> String {
    let facts = match work {
        Work::Facts(facts) => facts,
        Work::NoRepository => return "none".to_owned(),
        Work::NotOurs => return "not ours".to_owned(),
        Work::Unknown { why } => return format!("unknown: {why}"),
    };
    let branch = facts.branch.as_deref().unwrap_or("detached");
    let commit = if facts.head.is_some() { "commit" } else { "no-commit" };
    let operation = facts.operation.map_or("-".to_owned(), |one| format!("{one:?}"));
    let counts = [facts.staged, facts.changed, facts.conflicted, facts.untracked].map(|count| {
        count.map_or("?".to_owned(), |count| {
            format!("{}{}", count.n, if count.is_at_least { "+" } else { "" })
        })
    });
    let why = facts.why_unknown.as_ref().map_or(String::new(), |why| format!(" {why}"));
    format!("{branch} {commit} {operation} {}{why}", counts.join("/"))
}

/// A name, what makes the shape, the directory to look from, and the expected line.
type Shape = (&'static str, fn(&Place), &'static str, &'static str);

#[track_caller]
fn check(shapes: &[Shape]) {
    let wrong = shapes.iter().filter_map(|(name, make, cwd, expected)| {
        let place = Place::new();
        make(&place);
        let found = place.look(cwd);
        (found != *expected).then(|| format!("{name}: {found}, and not: {expected}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new());
}

// H-24: PATH is ignored.
#[test]
fn q_04_git_is_found_at_its_usual_places() {
    let place = Place::empty();
    let elsewhere = find_git(&[]);
    place.write("bin/git", "");
    let file = place.path("bin/git");
    assert_eq!(find_git(std::slice::from_ref(&file)), elsewhere, "not executable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(find_git(&["bin/git".into(), file.clone()]), Ok(file.clone()));
    assert_eq!(find_git(&[place.path("bin")]), Ok(file));
}
