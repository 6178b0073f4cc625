//! Which coord this hook belongs to, or none: then it is inert (G7).
//!
//! Decides the root: `COORD_HOME`, where the harness was started with it, before `--root`, before
//! the XDG directories (H-24). Decides that a hook does nothing where coord is switched off, is not
//! installed, or belongs to another user (H-29).

use crate::files::{self, read_system};
use crate::process::{self, Process};
use coord_wire::paths::{Paths, machine_id};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fstat, open};
use std::env::{var_os, vars_os};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// coord's directories, and who is asking.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) paths: Paths,
    /// The root in force; none means the XDG directories.
    pub(crate) root: Option<PathBuf>,
    pub(crate) machine: String,
    pub(crate) host: Vec<u8>,
    pub(crate) uid: u32,
    pub(crate) harness: Option<Process>,
    /// The state directory of this machine: it exists and is ours.
    pub(crate) state: OwnedFd,
}

impl Place {
    /// Where this hook reports to. None: it is inert.
    pub(crate) fn find(root: Option<&OsStr>) -> Option<Self> {
        let harness = process::harness(var_os("CLAUDE_PID"));
        if trusted("COORD_DISABLE", harness).is_some_and(|value| value == "1") {
            return None;
        }
        let root = trusted("COORD_HOME", harness)
            .or_else(|| root.filter(|root| !root.is_empty()).map(OsString::from))
            .map(PathBuf::from);
        let uname = rustix::system::uname();
        let host = uname.nodename().to_bytes().to_vec();
        let mut buffer = [0; 128];
        let text = core::str::from_utf8(read_system("/etc/machine-id", &mut buffer)).ok();
        let machine = machine_id(text, core::str::from_utf8(&host).unwrap_or_default());
        let uid = rustix::process::geteuid().as_raw();
        let paths = Paths::resolve(root.as_deref(), &machine, uid, |name| var_os(name)).ok()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let state = open(&paths.state, flags, Mode::empty()).ok()?;
        let is_ours = fstat(&state).ok()?.st_uid == uid;
        is_ours.then_some(Self { paths, root, machine, host, uid, harness, state })
    }

    /// The key of digests, where `coord` has made one.
    pub(crate) fn digest_key(&self) -> Option<[u8; 16]> {
        let (file, _) = files::file(&self.state, "digest.key", OFlags::RDONLY, self.uid).ok()?;
        let mut key = [0; 16];
        let n = files::read_start(&file, &mut key).len();
        (n == key.len()).then_some(key)
    }

    /// The spool's directory, made where it is missing.
    pub(crate) fn spool(&self) -> Result<OwnedFd, rustix::io::Errno> {
        files::directory(&self.state, "spool".as_ref(), self.uid)
    }
}

/// A variable of the environment, if it was not put there by a project's settings: it counts if the
/// harness was started with the same value, or if no client is involved at all (H-24).
fn trusted(name: &str, harness: Option<Process>) -> Option<OsString> {
    let value = var_os(name).filter(|value| !value.is_empty())?;
    let counts = match harness {
        Some(harness) => {
            let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
            process::was_started_with(harness.pid, &entry)
        }
        None => !vars_os().any(|(name, _)| is_of_client(name.as_bytes())),
    };
    counts.then_some(value)
}

fn is_of_client(name: &[u8]) -> bool {
    matches!(name, b"CLAUDE_PID" | b"CLAUDECODE") || name.starts_with(b"CLAUDE_CODE_")
}
