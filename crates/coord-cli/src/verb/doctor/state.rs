//! The state directory and what must hold for it: owner, modes, a local file system with working
//! locks, room, the install record, the configuration, and the clock (G11, H-15, H-29).

use std::fs::{Metadata, symlink_metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coord_store::read_small_file;
use coord_store::{CoordinatorLock, Disk, LockError, PlaceError, RealDisk, check_place};
use coord_wire::api::InstallRecord;
use coord_wire::limits::RESERVE_FILE_BYTES;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use coord_wire::trust::is_trusted_program;

use super::finding::quoted;
use super::fix::Fix;
use super::{Finding, Setup};
use crate::context::Context;
use crate::verb::install::shown;

/// With less room than this, events are soon refused.
const FREE_BYTES_LEAST: u64 = 2 * RESERVE_FILE_BYTES;
/// With less room than this, the journal cannot grow to its usual size.
const FREE_BYTES_WANTED: u64 = 256 * 1024 * 1024;
/// Names of files that are looked at one by one; a journal has at most 32 segments.
const FILES_MAX: usize = 1000;

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let context = setup.context;
    let mut findings: Vec<Finding> = config(setup).into_iter().collect();
    let state = &context.paths.state;
    match symlink_metadata(state) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let found = format!("{} does not exist: hooks do nothing", shown(state));
            findings.push(Finding::error("state.directory", found, "coord install"));
            return findings;
        }
        Err(error) => {
            let found = format!("{}: {error}", shown(state));
            findings.push(Finding::error("state.directory", found, "coord install"));
            return findings;
        }
        Ok(metadata) => findings.extend(directory(state, &metadata, context.here.uid)),
    }
    findings.extend(private_files(context));
    findings.extend(place(check_place(state)));
    findings.extend(locks(try_lock(state), state));
    findings.extend(room(RealDisk.free(state).ok(), state));
    findings.extend(key(context));
    findings.extend(record(
        read_small_file(&context.paths.install_record(), SMALL_FILE_BYTES_MAX),
        context,
    ));
    findings.extend(clock(context.now.wall_ms));
    if findings.is_empty() {
        findings
            .push(Finding::ok("state.directory", format!("{} is private and works", shown(state))));
    }
    findings
}

fn config(setup: &Setup<'_>) -> Option<Finding> {
    let why = setup.config_error.as_ref()?;
    let path = setup.context.paths.config_file();
    let file = shown(&path);
    Some(Finding::error(
        "state.config",
        format!("{file}: {why}; the coordinator does not start with it"),
        format!("correct it, then: coord config check {}", quoted(&path)),
    ))
}

fn directory(state: &Path, metadata: &Metadata, uid: u32) -> Option<Finding> {
    let name = shown(state);
    if !metadata.is_dir() {
        let found = format!("{name} is not a directory");
        return Some(Finding::error("state.directory", found, "move it away, then coord install"));
    }
    if metadata.uid() != uid {
        let found = format!("{name} belongs to user {}: hooks do nothing", metadata.uid());
        let remedy = format!(
            "chown -R it to yourself (it was made by sudo?): sudo chown -R {uid} {}",
            quoted(state)
        );
        return Some(Finding::error("state.owner", found, remedy));
    }
    None
}

/// Everything of ours is for its owner alone.
fn private_files(context: &Context) -> Vec<Finding> {
    let paths = &context.paths;
    let dirs = [&paths.state, &paths.spool(), &paths.journal(), &paths.logs(), &paths.run];
    let names = |dir: &PathBuf| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.take(FILES_MAX).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let files = dirs.into_iter().flat_map(names).chain([paths.state.clone(), paths.run.clone()]);
    let mut open: Vec<Finding> = files
        .filter_map(|path| {
            let metadata = symlink_metadata(&path).ok()?;
            let mode = metadata.permissions().mode() & 0o777;
            let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
            let is_wrong = mode & 0o077 != 0 || mode & wanted != wanted;
            (is_wrong && !metadata.is_symlink()).then(|| {
                let name = shown(&path);
                let found = format!("{name} has mode {mode:o} instead of {wanted:o}");
                Finding::warning("state.mode", found, format!("chmod {wanted:o} {}", quoted(&path)))
                    .fixed_by(Fix::Mode { path, mode: wanted })
            })
        })
        .collect();
    open.sort_by(|one, other| one.found.cmp(&other.found));
    open.dedup_by(|one, other| one.found == other.found);
    open
}

/// H-15: a lock on a network file system may be held twice.
fn place(checked: Result<(), PlaceError>) -> Option<Finding> {
    let error = checked.err()?;
    let remedy = "set COORD_HOME or XDG_STATE_HOME to a local directory, then coord install";
    Some(Finding::error("state.network", error.to_string(), remedy))
}

/// Tries both sides of a lock on a file that goes again.
fn try_lock(state: &Path) -> Result<(), LockError> {
    let io = |source| LockError::Io { path: state.to_owned(), source };
    let file = tempfile::Builder::new().prefix(".doctor-").tempfile_in(state).map_err(io)?;
    CoordinatorLock::acquire(&RealDisk, file.path()).map(drop)
}

fn locks(tried: Result<(), LockError>, state: &Path) -> Option<Finding> {
    let error = tried.err()?;
    if let LockError::Io { source, .. } = &error {
        return Some(unwritable(&source.to_string(), state));
    }
    let remedy = "set COORD_HOME or XDG_STATE_HOME to a local directory, then coord install";
    Some(Finding::error("state.locks", error.to_string(), remedy))
}

fn unwritable(why: &str, state: &Path) -> Finding {
    let name = shown(state);
    Finding::error(
        "state.writable",
        format!("coord cannot write in {name}: {why}; events are lost"),
        format!(
            "make {name} writable (mount it read-write, free space), or set COORD_HOME to another directory"
        ),
    )
}

/// H-29: room for what is accepted.
fn room(free: Option<u64>, state: &Path) -> Option<Finding> {
    let (free, name) = (free?, shown(state));
    let mib = free / (1024 * 1024);
    let remedy = format!("free space on the file system of {name}");
    match free {
        0..FREE_BYTES_LEAST => {
            let found = format!("only {mib} MiB are free below {name}: soon events will be lost");
            Some(Finding::error("state.disk", found, remedy))
        }
        FREE_BYTES_LEAST..FREE_BYTES_WANTED => {
            let found = format!("only {mib} MiB are free below {name}");
            Some(Finding::warning("state.disk", found, remedy))
        }
        FREE_BYTES_WANTED.. => None,
    }
}

fn key(context: &Context) -> Option<Finding> {
    let path = context.paths.digest_key();
    let name = shown(&path);
    let found = match std::fs::metadata(&path) {
        Ok(metadata) if metadata.len() == 16 => return None,
        Ok(metadata) => format!("{name} has {} bytes instead of 16", metadata.len()),
        Err(error) => format!("{name}: {error}"),
    };
    Some(Finding::error(
        "state.key",
        found,
        format!("move {name} away if it exists, then coord install"),
    ))
}

/// H-15, H-41: a hook starts a coordinator only where all of this holds.
fn record(text: std::io::Result<Vec<u8>>, context: &Context) -> Option<Finding> {
    let name = shown(&context.paths.install_record());
    let read = text.map_err(|error| error.to_string()).and_then(|text| {
        serde_json::from_slice::<InstallRecord>(&text).map_err(|error| error.to_string())
    });
    let remedy = "coord install";
    let record = match read {
        Ok(record) => record,
        Err(why) => {
            let found = format!("{name}: {why}; hooks cannot start a coordinator");
            return Some(Finding::warning("state.record", found, remedy));
        }
    };
    let here = &context.here;
    let other = [
        ("machine", record.machine == here.machine),
        ("user", record.uid == here.uid),
        ("pid namespace", record.pid_ns == here.pid_ns),
        ("root", record.root.as_deref().map(Path::new) == context.root.as_deref()),
    ]
    .into_iter()
    .find(|(_, holds)| !holds);
    if let Some((what, _)) = other {
        let found =
            format!("{name} was written for another {what}: hooks start no coordinator here");
        return Some(Finding::warning("state.record", found, remedy));
    }
    let program = Path::new(&record.coord);
    if !program.is_file() {
        let found = format!("{name} names {}, which does not exist", record.coord);
        return Some(Finding::warning("state.record", found, remedy));
    }
    if record.paths().as_ref() != Some(&context.paths) {
        let found = format!(
            "{name} names other directories than this coord uses: hooks start no coordinator"
        );
        return Some(Finding::warning("state.record", found, remedy));
    }
    (!is_trusted_program(program, here.uid)).then(|| {
        let found = format!(
            "others can change {} or its directory: hooks start no coordinator",
            shown(program)
        );
        let directory = program.parent().unwrap_or(program);
        let remedy = format!("chmod go-w {} {}", quoted(directory), quoted(program));
        Finding::warning("state.record", found, remedy)
    })
}

/// A clock before this program was written orders events wrongly across boots.
fn clock(wall_ms: u64) -> Option<Finding> {
    const WRITTEN_MS: u64 = 1_760_000_000_000;
    (wall_ms < WRITTEN_MS).then(|| {
        let found = format!("the clock says {}", coord_model::stamp::rfc3339(wall_ms));
        Finding::error("state.clock", found, "set the clock: timedatectl set-ntp true")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::doctor::Level;

    #[track_caller]
    fn is(finding: Option<Finding>, check: &str, level: Level, remedy: &str) {
        let finding = finding.expect("a finding");
        assert_eq!((finding.check, finding.level), (check, level), "{finding:?}");
        assert!(finding.remedy.as_ref().unwrap().contains(remedy), "{finding:?}");
    }

    // H-15: set-ups that a test cannot make are judged by what the system would have said.
    #[test]
    fn file_systems_that_will_not_do_are_named_h15() {
        let state = Path::new("/s");
        let network = PlaceError::Network { dir: "/s".into(), kind: "NFS".into() };
        is(place(Err(network)), "state.network", Level::Error, "COORD_HOME");
        let no_locks = LockError::NoLocks { path: "/s/lock".into() };
        is(locks(Err(no_locks), state), "state.locks", Level::Error, "COORD_HOME");
        let read_only = LockError::Io {
            path: "/s".into(),
            source: std::io::Error::from(ErrorKind::ReadOnlyFilesystem),
        };
        is(locks(Err(read_only), state), "state.writable", Level::Error, "writable");
        assert!(place(Ok(())).is_none() && locks(Ok(()), state).is_none());
    }

    // H-29
    #[test]
    fn a_disk_that_is_nearly_full_is_named_h29() {
        let state = Path::new("/s");
        is(room(Some(1024), state), "state.disk", Level::Error, "free space");
        is(room(Some(FREE_BYTES_LEAST), state), "state.disk", Level::Warning, "free space");
        assert!(room(Some(FREE_BYTES_WANTED), state).is_none());
    }

    #[test]
    fn a_clock_of_the_past_is_named() {
        is(clock(1000), "state.clock", Level::Error, "timedatectl");
        assert!(clock(Context::from_environment(None).unwrap().now.wall_ms).is_none());
    }

    #[test]
    fn a_state_directory_of_another_user_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let metadata = symlink_metadata(dir.path()).unwrap();
        is(
            directory(dir.path(), &metadata, metadata.uid() + 1),
            "state.owner",
            Level::Error,
            "chown",
        );
        assert!(directory(dir.path(), &metadata, metadata.uid()).is_none());
    }
}
