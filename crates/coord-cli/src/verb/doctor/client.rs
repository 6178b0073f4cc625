//! Claude Code and tmux: whether they are there, and new enough.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use coord_host::registry::Readable;
use coord_host::tmux::{check_socket, find_program};
use coord_store::read_small_file;
use coord_wire::api::InstallRecord;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;

use super::{Finding, Setup, child};
use crate::context::variable;
use crate::verb::install::shown;

/// Of the client.
type Version = (u32, u32, u32);

/// The oldest client whose hooks are known.
const OLDEST: Version = (2, 1, 0);
/// The newest client that coord was tried with; a test compares it with tests/client-versions.toml.
const NEWEST_TRIED: Version = (2, 1, 332);
/// The client says its version within this.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let mut findings = vec![claude(find_claude().map(|path| (version_of(&path), path)))];
    let sockets: Vec<PathBuf> = setup
        .sessions()
        .iter()
        .filter_map(|one| Some(one.tmux.as_ref()?.socket.clone().into()))
        .collect();
    findings.push(tmux(find_program(&tmux_places(setup)), !sockets.is_empty()));
    let named = setup.config.tracking.tmux_sockets.0.clone();
    findings.extend(tmux_sockets(&Readable { named, ..setup.readable() }, sockets));
    findings
}

/// Judges what was found of the client: its version, or why it does not say it.
fn claude(found: Option<(Result<String, String>, PathBuf)>) -> Finding {
    let Some((version, path)) = found else {
        return Finding::warning(
            "client.claude",
            "claude is not on PATH",
            "install Claude Code, or run coord doctor with the PATH of the shell it runs in",
        );
    };
    let path = shown(&path);
    match version {
        Err(why) => Finding::warning(
            "client.claude",
            format!("{path} --version failed: {why}"),
            format!("run `{path} --version` and read its output"),
        ),
        Ok(text) => match parse(&text) {
            None => Finding::warning(
                "client.version",
                format!("coord does not understand the version that {path} prints"),
                "update Claude Code: claude update",
            ),
            Some(version) => judge(&path, version),
        },
    }
}

/// Judges a version. One that nobody tried is no fault, and never goes unsaid (P-05).
fn judge(path: &str, version: Version) -> Finding {
    let number = number_of(version);
    if version < OLDEST {
        Finding::error(
            "client.version",
            format!("{path} is {number}, too old for these hooks"),
            "update Claude Code to 2.1 or newer: claude update",
        )
    } else if NEWEST_TRIED < version {
        let tried = number_of(NEWEST_TRIED);
        Finding::note(
            "client.untried",
            format!(
                "{path} is {number}; the newest version that this coord was tried with is {tried}"
            ),
            "upgrade coord if there is a newer one; where this client behaves differently, states may be wrong, and `coord explain NAME` shows the evidence for them",
        )
    } else {
        Finding::ok("client.version", format!("claude {number}"))
    }
}

fn number_of((major, minor, patch): Version) -> String {
    format!("{major}.{minor}.{patch}")
}

/// The version at the beginning of what `claude --version` prints.
fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split_whitespace().next()?.splitn(3, '.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part.get(..digits)?.parse().ok()
    });
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

fn find_claude() -> Option<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    let home = variable("HOME").map(PathBuf::from);
    let own =
        home.iter().flat_map(|home| [".local/bin", ".claude/local"].map(|dir| home.join(dir)));
    let mut places = std::env::split_paths(&path).chain(own).map(|dir| dir.join("claude"));
    places.find(|file| {
        file.is_absolute()
            && file.is_file()
            && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
    })
}

fn version_of(claude: &Path) -> Result<String, String> {
    let ended = child::run(Command::new(claude).arg("--version"), b"", PATIENCE)?;
    if ended.code == Some(0) { Ok(ended.stdout) } else { Err("it failed".to_owned()) }
}

/// Where tmux may be, as the coordinator looks for it.
fn tmux_places(setup: &Setup<'_>) -> Vec<PathBuf> {
    let record = read_small_file(&setup.context.paths.install_record(), SMALL_FILE_BYTES_MAX).ok();
    let record = record.and_then(|text| serde_json::from_slice::<InstallRecord>(&text).ok());
    let recorded = record.and_then(|record| record.tmux).map(PathBuf::from);
    setup.config.tracking.tmux.0.iter().cloned().chain(recorded).collect()
}

/// Judges where tmux is; without a session in a pane it is not missed.
fn tmux(found: Result<PathBuf, String>, has_panes: bool) -> Finding {
    let remedy = "install tmux, then coord install; or name it in tracking.tmux of config.toml";
    match found {
        Ok(path) => Finding::ok("client.tmux", format!("tmux is {}", path.display())),
        Err(why) if has_panes => Finding::warning(
            "client.tmux",
            format!("{why}: coord cannot read the screens of panes"),
            remedy,
        ),
        Err(why) => Finding::note("client.tmux", why, remedy),
    }
}

/// Judges the tmux servers that sessions name.
fn tmux_sockets(readable: &Readable, mut sockets: Vec<PathBuf>) -> Vec<Finding> {
    sockets.sort();
    sockets.dedup();
    let judge = |socket: &PathBuf| {
        // A server that has gone took its sessions along: that is no fault of the set-up.
        let why = check_socket(readable, socket).err().filter(|_| socket.exists())?;
        Some(Finding::warning(
            "client.tmux_socket",
            format!("{why}: coord does not read its panes"),
            "make its directory private (chmod 700), or start that tmux server as yourself",
        ))
    };
    sockets.iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::doctor::Level;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_client_that_is_missing_old_or_strange_is_named() {
        let at = |text: &str| Some((Ok(text.to_owned()), PathBuf::from("/c/claude")));
        assert_eq!(claude(at("2.1.328 (Claude Code)\n")).level, Level::Ok);
        for (found, check, level, remedy) in [
            (None, "client.claude", Level::Warning, "install Claude Code"),
            (at("1.0.99 (Claude Code)"), "client.version", Level::Error, "claude update"),
            (at("hello"), "client.version", Level::Warning, "claude update"),
            (at("2.2.0 (Claude Code)"), "client.untried", Level::Note, "coord explain"),
            (
                Some((Err("no end within 10 s".to_owned()), PathBuf::from("/c/claude"))),
                "client.claude",
                Level::Warning,
                "/c/claude --version",
            ),
        ] {
            let finding = claude(found);
            assert_eq!((finding.check, finding.level), (check, level), "{finding:?}");
            assert!(finding.remedy.unwrap().contains(remedy));
        }
    }

    // P-05
    #[test]
    fn the_newest_version_that_was_tried_is_the_last_of_the_list() {
        let list = include_str!("../../../../../tests/client-versions.toml");
        let numbers = list.lines().filter_map(|line| line.strip_prefix("number = \""));
        let versions: Vec<Version> = numbers.map(|number| parse(number).unwrap()).collect();
        assert!(versions.is_sorted(), "{versions:?}");
        assert_eq!(versions.last(), Some(&NEWEST_TRIED), "set NEWEST_TRIED");
        let at = |version| judge("claude", version).level;
        assert_eq!(at(NEWEST_TRIED), Level::Ok);
        assert_eq!(at((NEWEST_TRIED.0, NEWEST_TRIED.1, NEWEST_TRIED.2 + 1)), Level::Note);
    }

    #[test]
    fn tmux_is_missed_only_by_sessions_in_panes() {
        let missing = || Err("no tmux in /usr/bin".to_owned());
        assert_eq!(tmux(missing(), true).level, Level::Warning);
        assert_eq!(tmux(missing(), false).level, Level::Note);
        assert_eq!(tmux(Ok("/usr/bin/tmux".into()), true).level, Level::Ok);
    }

    // H-27
    #[test]
    fn a_tmux_socket_that_others_reach_is_named_h27() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let socket = dir.path().join("default");
        let _server = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let found = tmux_sockets(&Readable::default(), vec![socket.clone(), socket]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].check, "client.tmux_socket");
        assert!(found[0].remedy.as_ref().unwrap().contains("chmod 700"));
    }
}
