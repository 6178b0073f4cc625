//! Starts the coordinator for an interactive session that found nobody listening.
//!
//! Decides when: not after `coord down`, and only on the machine, as the user and in the pid
//! namespace of the install record (H-15, R-16). Decides how: detached, from `/`, with an
//! environment built from a list, so that nothing of the client's leaks into it (H-41, R-15).

use crate::files;
use crate::place::Place;
use coord_wire::api::InstallRecord;
use rustix::fs::{AtFlags, FileType, OFlags, stat, statat};
use std::env::vars_os;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Variables that the coordinator gets as they are.
const KEPT: [&str; 7] = ["HOME", "USER", "LOGNAME", "LANG", "TZ", "TMUX_TMPDIR", "COORD_LOG"];
const KEPT_PREFIXES: [&[u8]; 2] = [b"LC_", b"XDG_"];
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The install record is one short object.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// Starts it, if it may be started from here. `pid_ns` is this process's.
pub fn start_coordinator(place: &Context<'_>) {
    let Context(place, pid_ns) = place;
    if statat(&place.state, "down", AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return;
    }
    let Some(record) = install_record(place) else { return };
    let matches = record.machine == place.machine
        && record.uid == place.uid
        && record.pid_ns == *pid_ns
        && rustix::process::getuid().as_raw() == place.uid;
    if matches && is_trustworthy(&record.coord, place.uid) {
        spawn(place, &record.coord);
    }
}

/// What [`start_coordinator`] needs to know.
#[derive(Debug)]
pub struct Context<'a>(pub(crate) &'a Place, pub(crate) u64);

fn install_record(place: &Place) -> Option<InstallRecord> {
    let (file, _) = files::file(&place.state, "install.json", OFlags::RDONLY, place.uid).ok()?;
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    serde_json::from_slice(files::read_start(&file, &mut buffer)).ok()
}

/// Whether a program of this path was put there by us or by root, and nobody else can change it.
fn is_trustworthy(program: &str, uid: u32) -> bool {
    program.starts_with('/')
        && stat(program).is_ok_and(|found| {
            [uid, 0]
                .into_iter()
                .any(|owner| files::is_private(&found, FileType::RegularFile, owner))
        })
}

fn spawn(place: &Place, program: &str) {
    let mut command = Command::new(program);
    command.arg("up").arg("--from-hook");
    if let Some(root) = &place.root {
        command.arg("--root").arg(root);
    }
    command.env_clear().env("PATH", PATH);
    for (name, value) in vars_os().filter(|(name, _)| is_kept(name)) {
        command.env(name, value);
    }
    command.current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The event is spooled already; without a coordinator it waits there.
    let _starts_next_time = command.spawn();
}

fn is_kept(name: &OsStr) -> bool {
    KEPT.iter().any(|kept| *kept == name)
        || KEPT_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix))
}
