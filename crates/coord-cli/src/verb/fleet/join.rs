//! `coord fleet join URL`: makes this machine's keys, and names the server in config.toml (F-01).

use std::io::Write as _;

use anyhow::{Context as _, anyhow};
use coord_config::Config;
use coord_daemon::operator::check_process;
use coord_fleet::{Identity, IdentityError, is_name};
use coord_relay::login::Login;
use coord_relay::permissions;

use super::{TlsFiles, own_name};
use crate::config_edit;
use crate::context::Context;
use crate::out::Failure;

/// Join a fleet: make this machine's keys, and name the server in config.toml
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord fleet join tls://nats.example\n  coord fleet join tls://nats.example --name desk --ca /etc/ssl/fleet-ca.pem\n\nIt prints the entry that the server needs to let this machine in, and the key that other machines\nallow. Run again, it prints both again. Joining shows your sessions to the fleet's other machines;\nit lets nobody send messages here."
)]
pub(super) struct Args {
    /// The server: tls://HOST:PORT, or nats:// on this machine itself
    url: String,
    /// The name under which other machines show this one [default: the host name]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    files: TlsFiles,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    check_process(std::process::id(), "`coord fleet join`", &[]).map_err(|why| anyhow!(why))?;
    if let Some(name) = args.name.as_ref().filter(|name| !is_name(name)) {
        return Err(anyhow!(
            "{name:?} is no name for a machine: use up to 64 letters, digits, `-`, `_` and `.`"
        )
        .into());
    }
    let login = Login::new().map_err(|error| anyhow!(error))?;
    let files = args.files.absolute()?;
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let written = [path(&files.ca), path(&files.cert), path(&files.key)];
    // Before anything is written: what is wrong with the address is said now.
    files.settings(&args.url, login.seed().to_owned())?;
    let identity = made(&login, context)?;
    let mut keys = vec![("fleet", "url", args.url.as_str())];
    let named = args.name.as_deref().map(|name| ("fleet", "name", name));
    keys.extend(named);
    for (name, value) in ["ca", "cert", "key"].into_iter().zip(&written) {
        keys.extend(value.as_deref().map(|value| ("fleet", name, value)));
    }
    let file = context.paths.config_file();
    config_edit::set(&file, &keys)?;
    let config = Config::load(&file).with_context(|| file.display().to_string())?;
    tell(&identity, &own_name(&config), &args.url)
}

/// This machine's keys, made if there are none.
fn made(login: &Login, context: &Context) -> anyhow::Result<Identity> {
    let file = context.paths.fleet_identity();
    let shown = || file.display().to_string();
    match Identity::read(&file) {
        Err(IdentityError::Missing) => (),
        read => return read.with_context(shown),
    }
    let dir = context.paths.fleet();
    coord_relay::private_dir(&dir).with_context(|| dir.display().to_string())?;
    let mut seed = [0; 32];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(std::io::Error::from)?;
    Identity::create(&file, &seed, login.seed()).with_context(shown)
}

fn tell(identity: &Identity, name: &str, url: &str) -> Result<(), Failure> {
    let login = Login::from_seed(&identity.login_seed).map_err(|error| anyhow!(error))?;
    let (machine, key) = (identity.keys.machine(), identity.keys.public());
    let mut out = std::io::stdout().lock();
    writeln!(out, "This machine is {name}, {machine}.")?;
    writeln!(out)?;
    writeln!(out, "1. Add this entry to the users in the server's configuration:")?;
    writeln!(out)?;
    for line in permissions::block(machine, login.public_key()).lines() {
        writeln!(out, "   {line}")?;
    }
    writeln!(out)?;
    writeln!(out, "2. Run this once, with the administrator's login:")?;
    writeln!(out)?;
    writeln!(out, "   coord fleet init {url} --admin FILE {machine}")?;
    writeln!(out)?;
    writeln!(out, "3. Run this on each machine that should accept messages from this one:")?;
    writeln!(out)?;
    writeln!(out, "   coord fleet allow {key} {name} --send")?;
    writeln!(out)?;
    Ok(writeln!(out, "coord fleet status shows whether the link is up.")?)
}
