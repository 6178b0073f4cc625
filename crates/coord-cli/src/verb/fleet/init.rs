//! `coord fleet init URL`: sets the server up, with an administrator's login (F-01).

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use coord_model::MachineId;
use coord_relay::init::{self, Limits};

use super::{TlsFiles, admin};
use crate::context::Context;
use crate::out::Failure;

/// Set the server up for machines, with an administrator's login
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord fleet init tls://nats.example --admin admin.seed            the streams\n  coord fleet init tls://nats.example --admin admin.seed MACHINE    also for this machine\n\nMACHINE is the id that `coord fleet join` printed. Everything is read back and compared: a field\nthat the server ignored is named. What is there already is not changed, so run it again for each\nnew machine."
)]
pub(super) struct Args {
    /// The server
    url: String,
    /// File with the administrator's login, as `coord fleet admin` made it, or another NATS user seed (SU…)
    #[arg(long, value_name = "FILE")]
    admin: PathBuf,
    /// Ids of machines
    #[arg(value_name = "MACHINE")]
    machines: Vec<String>,
    #[command(flatten)]
    files: TlsFiles,
}

pub(super) fn run(args: &Args, _: &Context) -> Result<(), Failure> {
    let shown = || args.admin.display().to_string();
    let seed = admin::read(&args.admin).with_context(shown)?;
    let settings = args.files.absolute()?.settings(&args.url, seed).with_context(shown)?;
    let mut machines = Vec::new();
    for word in &args.machines {
        let Some(machine) = MachineId::parse(word) else {
            return Err(bad_machine(word).into());
        };
        machines.push(machine);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime
        .block_on(init::init(&settings, &machines, &Limits::default()))
        .map_err(|error| anyhow!("{}: {error}", args.url))?;
    let mut out = std::io::stdout().lock();
    for one in &report.created {
        writeln!(out, "created   {one}")?;
    }
    for one in &report.unchanged {
        writeln!(out, "unchanged {one}")?;
    }
    let version = report.server_version.as_deref().unwrap_or("of an unknown version");
    Ok(writeln!(out, "The server ({version}) is set up.")?)
}

fn bad_machine(word: &str) -> anyhow::Error {
    anyhow!("{word:?} is no machine: `coord fleet join` prints its id there, 32 digits of 0-9a-f")
}
