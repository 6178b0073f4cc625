//! Starts a tmux server anew where one was that is gone, at the socket that its sessions knew.
//!
//! It is done here and not by the coordinator: the server lives on as a child of the operator's login,
//! with the environment that a terminal has, and not inside a service.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use coord_config::Config;
use coord_host::registry::Readable;
use coord_store::read_small_file;
use coord_wire::api::InstallRecord;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::context::{Context, variable};

/// Name of the session that a new server begins with.
const SESSION: &str = "coord";

/// The sockets that may be reached: with COORD_HOME only those below it, and the named ones (H-14).
pub(super) fn readable(context: &Context) -> anyhow::Result<Readable> {
    let file = context.paths.config_file();
    let config = Config::load(&file).with_context(|| file.display().to_string())?;
    let named = config.tracking.tmux_sockets.0;
    Ok(Readable { root: context.root.clone(), named })
}

/// Whether nobody listens there. One that does and hangs is not gone.
pub(super) fn is_gone(socket: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let tried = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|stream| connect(&stream, &SocketAddrUnix::new(socket)?));
    matches!(tried, Err(Errno::NOENT | Errno::CONNREFUSED))
}

/// Starts a server that listens there, with one session.
pub(super) fn start(socket: &Path, context: &Context) -> anyhow::Result<()> {
    let shown = || format!("tmux server {}", socket.display());
    check(socket, context.here.uid).with_context(shown)?;
    let tmux = program(context)?;
    let mut command = Command::new(&tmux);
    command.arg("-S").arg(socket).args(["new-session", "-d", "-s", SESSION]);
    command.env_remove("TMUX").env_remove("TMUX_PANE").stdin(Stdio::null());
    command.current_dir(variable("HOME").as_deref().unwrap_or(OsStr::new("/")));
    let output = command.output().with_context(|| tmux.clone())?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{}: {why}", shown());
    }
    Ok(())
}

/// The tmux of the one who installed (H-24): a PATH from elsewhere does not choose it.
fn program(context: &Context) -> anyhow::Result<String> {
    let file = context.paths.install_record();
    let record: Option<InstallRecord> = read_small_file(&file, SMALL_FILE_BYTES_MAX)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    record
        .and_then(|record| record.tmux)
        .context("coord does not know where tmux is: put it on PATH and run `coord install`")
}

/// A session named this path, and tmux removes what lies there: only a socket of ours may, in a
/// directory of ours that nobody else can enter (H-14, H-27).
fn check(socket: &Path, uid: u32) -> anyhow::Result<()> {
    let directory = socket.parent().context("is no socket")?;
    // tmux's own directory is gone after a restart of the machine, and made for its own default only.
    let is_default = directory.file_name() == Some(OsStr::new(&format!("tmux-{uid}")));
    if is_default && !directory.exists() {
        DirBuilder::new().mode(0o700).create(directory).context("its directory")?;
    }
    let found = fs::symlink_metadata(directory).context("its directory")?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        bail!("its directory belongs to another user, or others can enter it");
    }
    match fs::symlink_metadata(socket) {
        Ok(found) if found.file_type().is_socket() && found.uid() == uid => Ok(()),
        Ok(_) => bail!("another file, or another user's socket, is in its place"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}
