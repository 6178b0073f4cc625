//! `coord fleet relay`: carries what machines exchange. The coordinator runs it, and ends it by closing its standard input.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::Context as _;
use coord_fleet::Writer;
use coord_relay::{Options, Watch, run as relay};
use tokio::sync::watch;

use super::source::{FleetSource, random};
use super::{member, own_name};
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::Failure;

/// Carry what machines exchange
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord fleet relay   ends with its standard input\n\nThe coordinator runs it when config.toml names a server."
)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, context: &Context) -> Result<(), Failure> {
    let (config, identity, settings) = member(context)?;
    let dir = context.paths.fleet();
    coord_relay::private_dir(&dir).with_context(|| dir.display().to_string())?;
    let path = context.paths.fleet_lock();
    let mut lock = OpenOptions::new();
    let lock = lock.create(true).truncate(false).write(true).mode(0o600).open(&path)?;
    // One before this may still be ending.
    lock.lock().with_context(|| path.display().to_string())?;
    let source = FleetSource::open(context)?;
    let journal = NewsOf(JournalWatch::new(context)?);
    let options = Options {
        settings,
        identity,
        name: own_name(&config),
        version: coord_wire::VERSION.to_owned(),
        writer: Writer { incarnation: source.incarnation(), relay: random()? },
        boot: context.here.boot.clone(),
        machines: context.paths.fleet_machines(),
        status: context.paths.fleet_status(),
    };
    Ok(relay(options, source, journal, end_of_input()?)?)
}

/// Becomes true at the end of the standard input.
fn end_of_input() -> std::io::Result<watch::Receiver<bool>> {
    let (ended, heard) = watch::channel(false);
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        let mut buffer = [0; 64];
        while std::io::stdin().read(&mut buffer).is_ok_and(|n| 0 < n) {}
        ended.send_replace(true);
    })?;
    Ok(heard)
}

struct NewsOf(JournalWatch);

impl Watch for NewsOf {
    fn wait(&mut self) -> std::io::Result<()> {
        self.0.await_news().map_err(std::io::Error::other)
    }
}
