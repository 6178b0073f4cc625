//! Starts the coordinator for an interactive session that found no listener.
//!
//! This module decides when: not after `coord down`, and only on the machine, as the user, and in
//! the pid namespace of the install record (H-15, R-16). It decides which program: the one that
//! the record names. Nobody but the user and root may be able to change the program, the record
//! or the state directory, and the record must have been made for this hook's directories (H-48).
//! It decides how: detached, from `/`, with an environment built from lists, so that nothing of
//! the client's leaks into it (H-41, R-15).

use crate::files;
use crate::place::Place;
use coord_wire::api::InstallRecord;
use coord_wire::trust::{is_private, is_trusted_program};
use rustix::fs::{AtFlags, FileType, OFlags, fstat, statat};
use std::env::vars_os;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that the coordinator gets unchanged: language and user name, no locations.
const KEPT: [&str; 4] = ["USER", "LOGNAME", "LANG", "TZ"];
const KEPT_PREFIX: &[u8] = b"LC_";
/// Further variables that it gets if the hook was registered without directories.
const KEPT_UNNAMED: [&str; 3] = ["HOME", "TMUX_TMPDIR", "COORD_LOG"];
const KEPT_UNNAMED_PREFIX: &[u8] = b"XDG_";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Longest install record, in bytes; it is one short object.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// Starts the coordinator, if it may be started from here.
pub fn start_coordinator(place: &Context<'_>) {
    let Context(place, pid_ns) = place;
    if statat(&place.state, "down", AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return;
    }
    let Some(record) = install_record(place) else { return };
    let matches = record.machine == place.machine
        && record.uid == place.uid
        && record.pid_ns == *pid_ns
        && rustix::process::getuid().as_raw() == place.uid
        && is_of_here(&record, place);
    if matches && is_trusted_program(Path::new(&record.coord), place.uid) {
        spawn(place, &record);
    }
}

/// The input of [`start_coordinator`]: the hook's place, and the inode number of this process's pid
/// namespace.
#[derive(Debug)]
pub struct Context<'a>(pub(crate) &'a Place, pub(crate) u64);

/// Reads the install record, if nobody else can have written it.
fn install_record(place: &Place) -> Option<InstallRecord> {
    let directory = fstat(&place.state).ok()?;
    let (file, found) =
        files::file(&place.state, "install.json", OFlags::RDONLY, place.uid).ok()?;
    let is_ours = is_private(&directory, FileType::Directory, place.uid)
        && is_private(&found, FileType::RegularFile, place.uid);
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    let text = files::read_start(&file, &mut buffer);
    if is_ours { serde_json::from_slice(text).ok() } else { None }
}

/// Whether the record was made for the directories that this hook was given.
fn is_of_here(record: &InstallRecord, place: &Place) -> bool {
    let root = record.root.as_deref().map(Path::new);
    !place.is_named
        || (root == place.root.as_deref() && record.paths().as_ref() == Some(&place.paths))
}

fn spawn(place: &Place, record: &InstallRecord) {
    let mut command = Command::new(&record.coord);
    command.arg("up").arg("--from-hook");
    if let Some(root) = &place.root {
        command.arg("--root").arg(root);
    }
    command.env_clear().env("PATH", PATH);
    for (name, value) in vars_os().filter(|(name, _)| is_kept(name, place.is_named)) {
        command.env(name, value);
    }
    if place.is_named {
        command.envs(&record.environment);
    }
    command.current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The event is already spooled; without a coordinator it stays there.
    let _starts_next_time = command.spawn();
}

fn is_kept(name: &OsStr, is_named: bool) -> bool {
    let is_one_of = |kept: &[&str], prefix: &[u8]| {
        kept.iter().any(|kept| *kept == name) || name.as_bytes().starts_with(prefix)
    };
    is_one_of(&KEPT, KEPT_PREFIX) || (!is_named && is_one_of(&KEPT_UNNAMED, KEPT_UNNAMED_PREFIX))
}
