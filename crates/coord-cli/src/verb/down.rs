//! `coord down`: ends the coordinator; it stays down until `coord up`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use coord_daemon::operator::check_self;
use coord_host::{process, state_dir};
use coord_model::ProcessRef;
use coord_store::{Disk, RealDisk};
use coord_wire::exchange::{FORBIDDEN, Miss, listener_pid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, pidfd_send_signal};

use crate::client;
use crate::context::Context;
use crate::out::Failure;
use crate::verb::up;

/// An asked coordinator writes its last snapshot within this.
const PATIENCE: Duration = Duration::from_secs(30);
/// For one that does not answer; then SIGKILL, which loses nothing that was acknowledged (G1).
const GRACE: Duration = Duration::from_secs(5);

/// Stop the coordinator until `coord up`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord down\n\nHooks keep spooling events. coord refuses this command from an agent."
)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, context: &Context) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    check_self("`coord down`").map_err(|why| anyhow!(why))?;
    state_dir::prepare(&context.paths)?;
    let mark = context.paths.down();
    let was_down = mark.exists();
    drop(RealDisk.open_append(&mark).with_context(|| mark.display().to_string())?);
    let what = match ask_to_end(context) {
        Ok(Some(pid)) => format!("coordinator stopped (pid {pid})"),
        Ok(None) => "no coordinator was running".to_owned(),
        Err(failure) => {
            if !was_down {
                up::lift_down(context)?;
            }
            return Err(failure);
        }
    };
    writeln!(out, "{what}; it stays down until `coord up`")?;
    Ok(())
}

/// A coordinator that listens on our socket.
struct Coordinator {
    pid: u32,
    pidfd: OwnedFd,
}

impl Coordinator {
    fn find(context: &Context) -> anyhow::Result<Option<Self>> {
        let socket = context.paths.socket();
        let pid = match listener_pid(&socket) {
            Ok(pid) => pid,
            Err(Miss::Absent) => return Ok(None),
            Err(miss) => return Err(anyhow!("{}: {miss}", socket.display())),
        };
        let Some(stat) = process::stat(pid) else { return Ok(None) };
        match process::open_pidfd(ProcessRef { pid, start_time: stat.start_time }) {
            Ok(pidfd) => Ok(Some(Self { pid, pidfd })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("watching pid {pid}")),
        }
    }

    /// Ends it by signals; it writes its last snapshot at the first one, for which it has this time.
    fn signal(&self, patience: Duration) -> anyhow::Result<()> {
        let pid = self.pid;
        for (signal, patience) in [(Signal::TERM, patience), (Signal::KILL, GRACE)] {
            pidfd_send_signal(&self.pidfd, signal)
                .with_context(|| format!("signalling pid {pid}"))?;
            if is_gone(&self.pidfd, patience)? {
                return Ok(());
            }
        }
        bail!("pid {pid} is still there after SIGKILL");
    }
}

/// Asks the coordinator to end, which refuses an agent, and waits for its end. Returns its pid, if
/// there was one. One that does not answer is ended by signals.
fn ask_to_end(context: &Context) -> Result<Option<u32>, Failure> {
    let Some(coordinator) = Coordinator::find(context)? else { return Ok(None) };
    match client::call(context, "POST", "/v1/down") {
        Ok(answer) if answer.status == FORBIDDEN => return Err(client::failure(&answer)),
        Ok(_) if is_gone(&coordinator.pidfd, PATIENCE)? => (),
        Ok(_) | Err(_) => coordinator.signal(GRACE)?,
    }
    Ok(Some(coordinator.pid))
}

/// Ends the coordinator, which another one is to follow, and waits for its end.
pub(crate) fn end(context: &Context) -> anyhow::Result<()> {
    Coordinator::find(context)?.map_or(Ok(()), |one| one.signal(PATIENCE))
}

fn is_gone(coordinator: &OwnedFd, patience: Duration) -> anyhow::Result<bool> {
    let timeout = Timespec::try_from(patience)?;
    Ok(0 < poll(&mut [PollFd::new(coordinator, PollFlags::IN)], Some(&timeout))?)
}
