//! Which settings files a scope means, and what stands in the way of using them.
//!
//! Decides paths, and refuses files that git tracks: the entries hold one person's path. Changes
//! nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::ValueEnum;

/// Whose sessions report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// All of yours.
    User,
    /// Those in a project, by its `.claude/settings.json`.
    Project,
    /// Those in a project, by its `.claude/settings.local.json`.
    Local,
}

/// The settings files of a scope. `config_dirs` stands for the user's configuration directories
/// where they are named; `project` for the current directory.
pub(super) fn files(
    scope: Scope,
    config_dirs: &[PathBuf],
    project: Option<&Path>,
) -> anyhow::Result<Vec<PathBuf>> {
    if scope != Scope::User && !config_dirs.is_empty() {
        bail!("--config-dir works only with --scope user");
    }
    if scope == Scope::User && project.is_some() {
        bail!("--project works only with --scope project or local");
    }
    let name = match scope {
        Scope::User if config_dirs.is_empty() => {
            return Ok(vec![user_directory()?.join("settings.json")]);
        }
        Scope::User => {
            let path = |dir: &PathBuf| Ok(std::path::absolute(dir)?.join("settings.json"));
            return config_dirs.iter().map(path).collect();
        }
        Scope::Project => ".claude/settings.json",
        Scope::Local => ".claude/settings.local.json",
    };
    let project = match project {
        Some(project) => std::path::absolute(project)?,
        None => std::env::current_dir().context("cannot tell the current directory")?,
    };
    if !project.is_dir() {
        bail!("{} is not a directory", project.display());
    }
    Ok(vec![project.join(name)])
}

/// Refuses a configuration directory that was named and is not there: a client that reads another one
/// would never call the hooks. The client's own need not be there yet.
pub(super) fn refuse_missing(config_dirs: &[PathBuf]) -> anyhow::Result<()> {
    let own = user_directory().ok();
    for dir in config_dirs {
        let path = std::path::absolute(dir)?;
        if !path.is_dir() && own.as_ref() != Some(&path) {
            bail!(
                "--config-dir {}: no such directory; correct the path, or create the \
                 directory first. Nothing was changed",
                path.display()
            );
        }
    }
    Ok(())
}

/// The client's own configuration directory.
pub(crate) fn user_directory() -> anyhow::Result<PathBuf> {
    if let Some(dir) = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()) {
        return Ok(std::path::absolute(dir)?);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.context("HOME is not set to an absolute path; set it or CLAUDE_CONFIG_DIR")?;
    Ok(home.join(".claude"))
}

/// The settings files that a session reads whose hooks stand in one of `files`: what is set in any of
/// them counts.
pub(super) fn read_beside(scope: Scope, files: &[PathBuf]) -> Vec<PathBuf> {
    let mut beside = files.to_vec();
    if scope != Scope::User {
        beside.extend(user_directory().ok().map(|dir| dir.join("settings.json")));
        for name in ["settings.json", "settings.local.json"] {
            beside.extend(files.iter().map(|file| file.with_file_name(name)));
        }
    }
    beside
}

/// Refuses a file that git tracks, and one of which that cannot be told.
pub(super) fn refuse_tracked(path: &Path) -> anyhow::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_in_repository = path.ancestors().any(|dir| dir.join(".git").exists());
    // In a directory that is not there nothing is tracked that could be shared by accident now.
    let directory = path.ancestors().skip(1).find(|dir| dir.is_dir());
    let (Some(directory), true) = (directory, is_in_repository) else { return Ok(()) };
    let unknown = || format!("cannot tell whether git tracks {}", path.display());
    let git = find_program("git").with_context(|| {
        format!("{}: git is not on PATH; use --scope user or install git", unknown())
    })?;
    let status = Command::new(git)
        .arg("-C")
        .arg(directory)
        .args(["ls-files", "--error-unmatch", "--"])
        .arg(&path)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(unknown)?;
    match status.code() {
        Some(1) => Ok(()),
        Some(0) => bail!(
            "git tracks {}, and the hooks' path is yours alone: use --scope user or --scope local",
            path.display()
        ),
        Some(_) | None => bail!("{}: git ended with {status}; use --scope user", unknown()),
    }
}

/// The absolute path of a program on PATH.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| {
        program.is_absolute()
            && program.is_file()
            && rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok()
    })
}

/// A path with the home directory as `~`, as people write it.
pub(crate) fn shown(path: &Path) -> String {
    let home = std::env::var_os("HOME").unwrap_or_default();
    match path.strip_prefix(&home) {
        Ok(rest) if home != *OsStr::new("") => format!("~/{}", rest.display()),
        Ok(_) | Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_take_only_the_options_that_mean_something() {
        assert!(files(Scope::Project, &[PathBuf::from("/x")], None).is_err());
        assert!(files(Scope::User, &[], Some(Path::new("/"))).is_err());
        let two = files(Scope::User, &["/x".into(), "/y".into()], None).unwrap();
        assert_eq!(two, [Path::new("/x/settings.json"), Path::new("/y/settings.json")]);
        let local = files(Scope::Local, &[], Some(Path::new("/"))).unwrap();
        assert_eq!(local, [Path::new("/.claude/settings.local.json")]);
    }
}
