//! `coord serve`: the coordinator in the foreground.

use std::io::Write;

use coord_daemon::serve::{Options, serve};
use coord_store::check_owner;

use crate::context::{Context, variable};
use crate::out::Failure;

/// Run the coordinator in the foreground
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  COORD_LOG=debug coord serve")]
pub(crate) struct Args {
    /// Leave the terminal and report readiness on standard output (used by `coord up`)
    #[arg(long, hide = true)]
    detached: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    check_owner(&context.paths, None).map_err(anyhow::Error::from)?;
    if args.detached {
        // Fails only for the leader of a group, which `coord up` does not make of it.
        rustix::process::setsid().map_err(std::io::Error::from)?;
    }
    let options = Options {
        paths: context.paths.clone(),
        root: context.root.clone(),
        log_filter: variable("COORD_LOG").and_then(|filter| filter.into_string().ok()),
        notify_socket: variable("NOTIFY_SOCKET"),
    };
    let socket = context.paths.socket();
    let detached = args.detached;
    serve(options, || {
        // Nobody may be reading; the coordinator runs all the same.
        drop(writeln!(std::io::stdout(), "coord: serving on {}", socket.display()));
        if detached && let Err(error) = leave_streams() {
            drop(writeln!(std::io::stderr(), "coord: {error}"));
        }
    })?;
    Ok(())
}

/// all three streams redirected, so that no caller waits for them.
fn leave_streams() -> std::io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
