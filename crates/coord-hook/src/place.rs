//! Finds the coord installation to which this hook belongs; without one, the hook is inert (G7).
//!
//! This module decides the directories: those in the arguments, and nothing from the environment
//! (H-48). A registration of an earlier version names no state directory. There, `COORD_HOME` takes
//! precedence if the harness was started with it, then `--root`, then the XDG directories (H-24). A
//! hook does nothing if coord is disabled, not installed, or belongs to another user (H-29). If the
//! state directory exists but cannot be used, the event is lost, which is an error.

use crate::files::{self, read_system};
use crate::process::{self, Process};
use coord_wire::paths::{Paths, machine_id};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use std::env::{var_os, vars_os};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directories in the arguments, as `coord install` wrote them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    pub(crate) root: Option<&'a OsStr>,
    pub(crate) config: Option<&'a OsStr>,
    pub(crate) state: Option<&'a OsStr>,
    pub(crate) run: Option<&'a OsStr>,
}

/// The state directory exists and cannot be used, or its name is not an absolute path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unusable;

/// coord's directories, and the identity of the hook and its harness.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) paths: Paths,
    /// The root in force; none means the XDG directories.
    pub(crate) root: Option<PathBuf>,
    /// Whether the arguments named the directories.
    pub(crate) is_named: bool,
    pub(crate) machine: String,
    pub(crate) host: Vec<u8>,
    pub(crate) uid: u32,
    pub(crate) harness: Option<Process>,
    /// The state directory of this machine, which exists and belongs to this user.
    pub(crate) state: OwnedFd,
}

impl Place {
    /// Finds where this hook reports to; none if the hook is inert.
    pub(crate) fn find(given: &Given<'_>) -> Result<Option<Self>, Unusable> {
        let harness = process::harness(var_os("CLAUDE_PID"));
        if trusted("COORD_DISABLE", harness).is_some_and(|value| value == "1") {
            return Ok(None);
        }
        let uname = rustix::system::uname();
        let host = uname.nodename().to_bytes().to_vec();
        let mut buffer = [0; 128];
        let text = core::str::from_utf8(read_system("/etc/machine-id", &mut buffer)).ok();
        let machine = machine_id(text, core::str::from_utf8(&host).unwrap_or_default());
        let uid = rustix::process::geteuid().as_raw();
        let given_root = given.root.filter(|root| !root.is_empty());
        let is_named = given.state.is_some();
        let (root, paths) = if let Some(state) = given.state {
            let config = Path::new(given.config.unwrap_or_default());
            let run = given.run.map(Path::new);
            let paths = Paths::named(config, Path::new(state), run, &machine, uid);
            (given_root.map(PathBuf::from), paths.map_err(|_| Unusable)?)
        } else {
            let root = trusted("COORD_HOME", harness).or_else(|| given_root.map(OsString::from));
            let root = root.map(PathBuf::from);
            let paths = Paths::resolve(root.as_deref(), &machine, uid, |name| var_os(name));
            let Ok(paths) = paths else { return Ok(None) };
            (root, paths)
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let state = match open(&paths.state, flags, Mode::empty()) {
            Ok(state) => state,
            Err(Errno::NOENT) => return Ok(None),
            Err(_) => return Err(Unusable),
        };
        let is_ours = fstat(&state).map_err(|_| Unusable)?.st_uid == uid;
        let place = Self { paths, root, is_named, machine, host, uid, harness, state };
        Ok(is_ours.then_some(place))
    }

    /// The key for digests, if `coord` has created one.
    pub(crate) fn digest_key(&self) -> Option<[u8; 16]> {
        let (file, _) = files::file(&self.state, "digest.key", OFlags::RDONLY, self.uid).ok()?;
        let mut key = [0; 16];
        let n = files::read_start(&file, &mut key).len();
        (n == key.len()).then_some(key)
    }

    /// The spool directory, created if it is missing.
    pub(crate) fn spool(&self) -> Result<OwnedFd, Errno> {
        files::directory(&self.state, "spool".as_ref(), self.uid)
    }
}

/// An environment variable, if a project's settings did not set it. It counts if the harness was
/// started with the same value, or if no client is involved at all (H-24).
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
