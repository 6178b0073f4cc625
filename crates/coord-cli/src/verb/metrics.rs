//! `coord metrics`: the coordinator's metrics for a monitoring system, printed, in a file or over HTTP.

mod listen;
mod text;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use coord_wire::exchange::Miss;

use crate::client;
use crate::context::Context;
use crate::out::{Failure, escape};
use crate::verb::status::not_reachable;
use listen::Address;

/// Print metrics for Prometheus, or serve them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord metrics\n  coord metrics --textfile /var/lib/node_exporter/coord.prom\n  coord metrics --listen 127.0.0.1:9469\n\nWithout an option: OpenMetrics text.\nExit code 4: no coordinator answers. --textfile then writes coord_up 0, and --listen serves it."
)]
pub(crate) struct Args {
    /// Replace FILE by the metrics, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    textfile: Option<PathBuf>,
    /// Serve the metrics over HTTP to this machine, until a signal
    #[arg(long, value_name = "LOOPBACK-ADDRESS", value_parser = listen::address)]
    listen: Option<Address>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if let Some(Address(address)) = args.listen {
        return listen::serve(address, context);
    }
    let (text, failure) = match read(context) {
        Ok(text) => (text, None),
        Err(miss) => {
            let line = not_reachable(miss, context);
            (coord_daemon::metrics::down(), Some(Failure::NotReachable(line)))
        }
    };
    if let Some(file) = &args.textfile {
        let text = text::for_prometheus(&text);
        replace(file, &text).with_context(|| escape(&file.display().to_string()))?;
    } else if failure.is_none() {
        std::io::stdout().lock().write_all(text.as_bytes())?;
    }
    failure.map_or(Ok(()), Err)
}

/// What the coordinator says.
fn read(context: &Context) -> Result<String, Miss> {
    let answer = client::call(context, "GET", "/metrics")?;
    let text = if answer.status == 200 { String::from_utf8(answer.body).ok() } else { None };
    text.ok_or(Miss::Broken)
}

/// Replaces the file at once, so that no reader finds half of it. The collector runs as another user, so everybody may
/// read it.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    // The collector reads every file that ends in .prom.
    let mut new = tempfile::Builder::new()
        .prefix(".coord-metrics-")
        .suffix(".tmp")
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(dir.unwrap_or(Path::new(".")))?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    new.persist(file)?;
    Ok(())
}
