//! Whether the client that will read the entries can.
//!
//! Decides which versions may have them, and finds out the versions: those of the clients that run
//! now, which read their settings anew at once, and that of the `claude` that a shell would start.
//! A version that cannot be told is taken for a current one. Holds R-17: an event that the client
//! does not know is not registered.
//!
//! One limit serves for all entries. Hooks without a shell came with 2.1.139; before it `args` are
//! ignored and the line goes to a shell, and before 2.1.101 one unknown event name made the client
//! drop the whole file, permissions included. What the wake hook needs is older than that too:
//! `async` came with 2.1.0, and `asyncRewake` was documented three weeks before 2.1.139. A client that
//! knew neither would wait for it at every start. All events of the list are older than the limit; an
//! event that is newer would have to be left out for the clients in between.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::bail;
use coord_host::process;
use coord_model::ProcessRef;
use coord_wire::exchange::mono_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::scope::{find_program, shown};
use crate::context::variable;

/// The first version that runs a hook without a shell.
const OLDEST: Version = Version(2, 1, 139);

/// `claude --version` has this long to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// An entry of the client's registry, and an answer to `--version`, are read up to here, in bytes.
const BYTES_MAX: u64 = 64 * 1024;

/// A release of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| {
            let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
            number[..digits].parse().ok()
        });
        let mut next = || numbers.next().flatten();
        Some(Self(next()?, next()?, next()?))
    }
}

/// Refuses where a client would misread the entries.
pub(super) fn refuse_too_old(config_dirs: &[PathBuf]) -> anyhow::Result<()> {
    for dir in config_dirs {
        for (pid, version) in running(dir) {
            if version < OLDEST {
                bail!(
                    "the running Claude Code {version} (pid {pid}, {}) is older than {OLDEST} and \
                     would misread the hooks: end it and update it first; nothing was changed",
                    shown(dir)
                );
            }
        }
    }
    match installed() {
        Some((program, version)) if version < OLDEST => bail!(
            "{} is Claude Code {version}, which would misread the hooks: update it to {OLDEST} or \
             later first; nothing was changed",
            shown(&program)
        ),
        Some(_) | None => Ok(()),
    }
}

/// The clients that the registry of a configuration directory names and that are alive.
fn running(config_dir: &Path) -> Vec<(u32, Version)> {
    let Ok(entries) = std::fs::read_dir(config_dir.join("sessions")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| running_client(&entry.path())).collect()
}

fn running_client(path: &Path) -> Option<(u32, Version)> {
    let is_entry = path.extension() == Some("json".as_ref());
    if !is_entry || !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    std::fs::File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut text).ok()?;
    let entry: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let number = |name: &str| {
        let value = entry.get(name)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let pid = u32::try_from(number("pid")?).ok()?;
    let version = Version::parse(entry.get("version")?.as_str()?)?;
    let process = ProcessRef { pid, start_time: number("procStart")? };
    process::is_alive(process).then_some((pid, version))
}

/// The client that a shell would start, else the one where its own installer puts it.
fn program() -> Option<PathBuf> {
    let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let own_place = || home.map(|home| home.join(".local/bin/claude"));
    find_program("claude").or_else(|| own_place().filter(|path| path.is_file()))
}

/// Its executable or script, links resolved.
pub(super) fn executable() -> Option<PathBuf> {
    program()?.canonicalize().ok()
}

fn installed() -> Option<(PathBuf, Version)> {
    let program = program()?;
    let version = ask(&program)?;
    Some((program, version))
}

/// What `claude --version` says, if it is Claude Code that answers in time.
fn ask(program: &Path) -> Option<Version> {
    let mut child = Command::new(program)
        .arg("--version")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let line = child.stdout.take().and_then(|mut stdout| first_line(&mut stdout));
    // It has answered, or never will.
    drop(child.kill());
    drop(child.wait());
    version_of(&line?)
}

fn version_of(line: &str) -> Option<Version> {
    let (version, name) = line.trim().split_once(' ')?;
    (name == "(Claude Code)").then(|| Version::parse(version)).flatten()
}

fn first_line(stdout: &mut std::process::ChildStdout) -> Option<String> {
    let patience_ns = u64::try_from(PATIENCE.as_nanos()).ok()?;
    let deadline_ns = mono_ns().saturating_add(patience_ns);
    let mut text = Vec::new();
    loop {
        let left = Duration::from_nanos(deadline_ns.saturating_sub(mono_ns()));
        let timeout = Timespec::try_from(left).ok()?;
        if poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&timeout)).ok()? == 0 {
            return None;
        }
        let mut buffer = [0; 256];
        let n = stdout.read(&mut buffer).ok()?;
        text.extend_from_slice(&buffer[..n]);
        if n == 0 || text.contains(&b'\n') || BYTES_MAX < text.len() as u64 {
            return String::from_utf8(text).ok()?.lines().next().map(str::to_owned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_client_writes_them() {
        assert_eq!(version_of("2.1.328 (Claude Code)\n"), Some(Version(2, 1, 328)));
        assert_eq!(version_of("2.2.0-beta.1 (Claude Code)"), Some(Version(2, 2, 0)));
        for other in ["", "2.1.328", "2.1 (Claude Code)", "claude 1.0.0", "x.y.z (Claude Code)"] {
            assert_eq!(version_of(other), None, "{other}");
        }
        assert!(Version(2, 1, 99) < OLDEST && OLDEST < Version(2, 1, 328));
    }

    #[test]
    fn only_a_client_that_is_alive_counts() {
        let dir = tempfile::tempdir().unwrap();
        let sessions = dir.path().join("sessions");
        std::fs::create_dir(&sessions).unwrap();
        let pid = std::process::id();
        let start_time = process::stat(pid).unwrap().start_time;
        let entry = |start_time: u64| {
            let entry = serde_json::json!({
                "pid": pid, "procStart": start_time.to_string(), "version": "2.1.90",
            });
            std::fs::write(sessions.join(format!("{pid}.json")), entry.to_string()).unwrap();
        };
        entry(start_time + 1);
        std::fs::write(sessions.join("7.json"), "{").unwrap();
        assert_eq!(running(dir.path()), []);
        entry(start_time);
        assert_eq!(running(dir.path()), [(pid, Version(2, 1, 90))]);
        let error = refuse_too_old(&[dir.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("Claude Code 2.1.90") && error.contains("update it"), "{error}");
    }
}
