//! What the repository of a session's work shows: branch, commit, operation in progress and counts.
//!
//! This module decides nothing, and changes nothing: git is run to read, takes no lock and writes no index. A
//! repository may be hostile, and its configuration names programs that git would run (filters, fsmonitor, hooks,
//! helpers, transports). So git never reads that configuration: it is given a directory of ours in place of the
//! repository's own (`shadow`), with links to what is data and with those settings alone that say how files are
//! compared (`settings`). What is not on that list does not exist for git, whatever a later version adds. Only a
//! repository of this user is read, and everything ends within a budget.

mod git;
mod repository;
mod settings;
mod shadow;
mod status;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use coord_model::{PathCount, Work, WorkFacts};
use rustix::fs::{Access, access};

use git::{Ending, Git};
use repository::{Repository, Search};
use settings::Settings;
use shadow::Shadow;
use status::{Names, Status};

/// The usual places, in the order in which they are searched.
const USUAL: [&str; 5] =
    ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];
/// How much of git's answer is read, in bytes; what it counts beyond is "at least".
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest list of settings that is read, in bytes.
const SETTINGS_BYTES_MAX: usize = 1024 * 1024;
/// Longest answer of one line that is read, in bytes.
const LINE_BYTES_MAX: usize = 8192;

/// Finds git without PATH, which others may have set (H-24): the first executable one of `places`, which are files or
/// their directories, and of the usual places.
///
/// # Errors
/// There is none.
pub fn find_git(places: &[PathBuf]) -> Result<PathBuf, String> {
    let places = places.iter().map(PathBuf::as_path).chain(USUAL.iter().map(Path::new));
    let programs = places
        .filter(|place| place.is_absolute())
        .map(|place| if place.is_dir() { place.join("git") } else { place.to_owned() });
    let mut usable =
        programs.filter(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok());
    usable.next().ok_or_else(|| format!("no git in {}", USUAL.join(", ")))
}

/// Looks at the repository that `cwd` is in, with the first git that is found (as in [`find_git`]), for at most about
/// `budget`. A path that is not absolute means no directory.
pub fn look_at(places: &[PathBuf], cwd: &Path, budget: Duration) -> Work {
    if !cwd.is_absolute() {
        return Work::NoRepository;
    }
    match find_git(places) {
        Ok(git) => look(&git, cwd, budget),
        Err(why) => Work::Unknown { why },
    }
}

/// Looks at the repository that `cwd` is in, with the program `git`, for at most about `budget`.
///
/// A file system that does not answer can hold up the caller longer: no signal ends such a wait.
pub fn look(git: &Path, cwd: &Path, budget: Duration) -> Work {
    let until = Instant::now() + budget;
    let found =
        repository::find(cwd, rustix::process::geteuid().as_raw()).and_then(
            |search| match search {
                Search::Found(repository) => facts(git, &repository, until).map(Work::Facts),
                Search::Nothing => Ok(Work::NoRepository),
                Search::NotOurs => Ok(Work::NotOurs),
            },
        );
    found.unwrap_or_else(|why| Work::Unknown { why })
}

fn facts(program: &Path, repository: &Repository, until: Instant) -> Result<WorkFacts, String> {
    let shadow =
        Shadow::make(repository).map_err(|error| format!("a directory of ours: {error}"))?;
    let git = Git { program, dir: shadow.dir(), root: &repository.root, until };
    let settings = settings(&git, repository)?;
    shadow.configure(&settings).map_err(|error| format!("a directory of ours: {error}"))?;
    let mut facts = WorkFacts {
        root: bounded(&repository.root.to_string_lossy(), WorkFacts::ROOT_CHARS_MAX),
        branch: branch(&git, repository, &settings)?,
        head: head(&git)?,
        operation: repository.operation(),
        staged: None,
        changed: None,
        conflicted: None,
        untracked: None,
        why_unknown: None,
    };
    // What could be counted is told, whatever became of the rest.
    facts.why_unknown = count(&git, &mut facts).err();
    Ok(facts)
}

/// The settings of the repository that say how files are compared.
fn settings(git: &Git<'_>, repository: &Repository) -> Result<Settings, String> {
    let mut settings = Settings::default();
    read_settings(git, &repository.common_dir.join("config"), &mut settings)?;
    if settings.has_worktree_config() {
        read_settings(git, &repository.git_dir.join("config.worktree"), &mut settings)?;
    }
    settings.check(repository)?;
    Ok(settings)
}

/// Adds the settings of a file. It may not exist.
fn read_settings(git: &Git<'_>, file: &Path, settings: &mut Settings) -> Result<(), String> {
    let Some(file) = repository::open_config(file)? else { return Ok(()) };
    let words = ["config", "--file", "-", "--no-includes", "--list", "-z"];
    let (ending, list) = git.ask(&words, file.into(), SETTINGS_BYTES_MAX)?;
    ending.complete("config")?;
    settings.take(&list);
    Ok(())
}

/// The branch that is checked out.
fn branch(
    git: &Git<'_>,
    repository: &Repository,
    settings: &Settings,
) -> Result<Option<String>, String> {
    let name = if settings.has_reftable() {
        let (ending, answer) =
            git.ask(&["symbolic-ref", "--quiet", "HEAD"], Stdio::null(), LINE_BYTES_MAX)?;
        if ending == Ending::Complete { answer } else { Vec::new() }
    } else {
        repository.head.strip_prefix(b"ref:").unwrap_or_default().to_owned()
    };
    let name = String::from_utf8_lossy(name.trim_ascii());
    let short = name.strip_prefix("refs/heads/").unwrap_or(&name);
    Ok((!short.is_empty()).then(|| bounded(short, WorkFacts::BRANCH_CHARS_MAX)))
}

/// The commit that is checked out.
fn head(git: &Git<'_>) -> Result<Option<String>, String> {
    let words = ["rev-parse", "--quiet", "--verify", "HEAD"];
    let (ending, answer) = git.ask(&words, Stdio::null(), LINE_BYTES_MAX)?;
    let id = answer.trim_ascii();
    let is_id = ending == Ending::Complete
        && matches!(id.len(), 40 | 64)
        && id.iter().all(u8::is_ascii_hexdigit);
    Ok(is_id.then(|| String::from_utf8_lossy(id).into_owned()))
}

/// Counts paths. The error says why not all counts are known.
fn count(git: &Git<'_>, facts: &mut WorkFacts) -> Result<(), String> {
    // Without renames: to find them, git would compare the contents of files.
    let words = [
        "status",
        "--porcelain=v2",
        "-z",
        "--no-renames",
        "--ignore-submodules=dirty",
        "--untracked-files=no",
    ];
    let mut status = Status::default();
    let ending =
        git.run(&words, Stdio::null(), ANSWER_BYTES_MAX, &mut |piece| status.feed(piece))?;
    let is_at_least = ending.counted("status")?;
    let number = |n| Some(PathCount { n, is_at_least });
    facts.staged = number(status.staged);
    facts.changed = number(status.changed);
    facts.conflicted = number(status.conflicted);

    let words =
        ["ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z"];
    let mut names = Names::default();
    let ending =
        git.run(&words, Stdio::null(), ANSWER_BYTES_MAX, &mut |piece| names.feed(piece))?;
    facts.untracked = Some(PathCount { n: names.n, is_at_least: ending.counted("ls-files")? });
    Ok(())
}

fn bounded(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

#[cfg(test)]
mod tests;
