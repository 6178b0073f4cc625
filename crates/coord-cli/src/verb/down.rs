//! `coord down`: ends the coordinator; it stays down until `coord up`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use coord_daemon::{process, state_dir};
use coord_store::{Disk, RealDisk};
use coord_wire::exchange::{Miss, listener_pid};
use coord_wire::stamp::ProcessRef;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, pidfd_send_signal};

use crate::client;
use crate::context::Context;
use crate::out::Failure;

/// An asked coordinator writes its last snapshot within this.
const PATIENCE: Duration = Duration::from_secs(30);
/// After SIGTERM; then SIGKILL, which loses nothing that was acknowledged (G1).
const GRACE: Duration = Duration::from_secs(5);

/// End the coordinator; it stays down until `coord up`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord down\n\nHooks go on: what they report waits in the spool."
)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, context: &Context) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    state_dir::prepare(&context.paths)?;
    let mark = context.paths.down();
    drop(RealDisk.open_append(&mark).with_context(|| mark.display().to_string())?);
    let what = match end(context)? {
        Some(pid) => format!("coordinator ended (pid {pid})"),
        None => "no coordinator was running".to_owned(),
    };
    writeln!(out, "{what}; it stays down until `coord up`")?;
    Ok(())
}

/// Ends the coordinator and waits for its end. Returns its pid, if there was one.
pub(crate) fn end(context: &Context) -> anyhow::Result<Option<u32>> {
    let socket = context.paths.socket();
    let pid = match listener_pid(&socket) {
        Ok(pid) => pid,
        Err(Miss::Absent) => return Ok(None),
        Err(miss) => return Err(anyhow!("{}: {miss}", socket.display())),
    };
    let Some(stat) = process::stat(pid) else { return Ok(None) };
    let coordinator = match process::open_pidfd(ProcessRef { pid, start_time: stat.start_time }) {
        Ok(pidfd) => pidfd,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("watching pid {pid}")),
    };
    if client::call(context, "POST", "/v1/down").is_ok() && is_gone(&coordinator, PATIENCE)? {
        return Ok(Some(pid));
    }
    for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, GRACE)] {
        pidfd_send_signal(&coordinator, signal).with_context(|| format!("signalling pid {pid}"))?;
        if is_gone(&coordinator, patience)? {
            return Ok(Some(pid));
        }
    }
    bail!("pid {pid} is still there after SIGKILL");
}

fn is_gone(coordinator: &OwnedFd, patience: Duration) -> anyhow::Result<bool> {
    let timeout = Timespec::try_from(patience)?;
    Ok(0 < poll(&mut [PollFd::new(coordinator, PollFlags::IN)], Some(&timeout))?)
}
