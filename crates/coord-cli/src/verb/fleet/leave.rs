//! `coord fleet leave`: takes this machine off the fleet's list, and forgets its keys (F-01).

use std::fs::File;
use std::io::Write as _;

use anyhow::{Context as _, anyhow};
use coord_config::Config;
use coord_daemon::operator::check_self;
use coord_fleet::{Engine as _, EngineError, Identity, StateKey};
use coord_relay::{Connection, Settings};

use super::{identity, settings};
use crate::config_edit;
use crate::context::Context;
use crate::out::Failure;

/// Leave the fleet: take this machine off the list, and forget its keys
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord fleet leave\n\nMessages that wait for another machine stay here, and fail when their time is over."
)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, context: &Context) -> Result<(), Failure> {
    check_self("`coord fleet leave`").map_err(|why| anyhow!(why))?;
    let identity = identity(context)?;
    let file = context.paths.config_file();
    let config = Config::load(&file).with_context(|| file.display().to_string())?;
    let settings = settings(&config, identity.login_seed.clone());
    config_edit::set(&file, &[("fleet", "url", "")])?;
    // The coordinator ends the relay as soon as it has read the file. It would put back what is removed here.
    if let Ok(lock) = File::open(context.paths.fleet_lock()) {
        lock.lock()?;
    }
    let removed = settings.and_then(|settings| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(remove(&settings, &identity))?)
    });
    let dir = context.paths.fleet();
    std::fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let mut out = std::io::stdout().lock();
    match removed {
        Ok(()) => writeln!(out, "This machine has left the fleet, and its keys are gone.")?,
        Err(error) => writeln!(
            out,
            "This machine has left the fleet, and its keys are gone. Other machines show it as silent: {error:#}."
        )?,
    }
    let key = identity.keys.public();
    Ok(writeln!(
        out,
        "Now remove its entry from the server, and the key {key} from other machines: coord fleet allow --remove."
    )?)
}

/// Removes this machine and its sessions from the list.
async fn remove(settings: &Settings, identity: &Identity) -> Result<(), EngineError> {
    let machine = identity.keys.machine();
    let connection = Connection::open(settings, machine).await?;
    let mut engine = connection.engine();
    let known = engine.watch().await?;
    let own = known.changes.into_iter().map(|change| change.key);
    for key in own.filter(|key| key.machine == machine && key.session.is_some()) {
        engine.put_state(&key, None).await?;
    }
    engine.put_state(&StateKey { machine, session: None }, None).await
}
