//! `coord fleet`: several machines as one (F-01).

mod admin;
mod allow;
pub(crate) mod check;
mod init;
mod join;
mod leave;
pub(crate) mod machines;
mod relay;
mod source;
pub(crate) mod status;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use coord_config::{AbsolutePath, Config, Maybe};
use coord_fleet::{EngineError, Identity, IdentityError};
use coord_relay::Settings;

use crate::context::Context;
use crate::out::Failure;

/// See and reach the sessions of several machines
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  coord fleet join tls://nats.example    join; it prints what the server and other machines need\n  coord fleet admin admin.seed           make the administrator's login, once\n  coord fleet init tls://nats.example --admin admin.seed MACHINE   set the server up\n  coord fleet allow KEY laptop --send    take messages from that machine\n  coord fleet status                     the link, and the machines\n\nThe server is NATS with JetStream. Sessions stay where they are: each machine goes on by itself\nwhen the server is gone."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make the administrator's login for a server
    Admin(admin::Args),
    /// Set the server up for machines, with an administrator's login
    Init(init::Args),
    /// Join a fleet: make this machine's keys, and name the server in config.toml
    Join(join::Args),
    /// Name a machine by its key, and say whether its messages are taken
    Allow(allow::Args),
    /// Show the link to the server, and the machines
    Status(status::Args),
    /// Check the server's copy of this machine's journal, and publish it again
    Check(check::Args),
    /// Leave the fleet: take this machine off the list, and forget its keys
    Leave(leave::Args),
    /// Carry what machines exchange; the coordinator runs it
    #[command(hide = true)]
    Relay(relay::Args),
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.verb {
        Verb::Admin(args) => admin::run(args, context),
        Verb::Init(args) => init::run(args, context),
        Verb::Join(args) => join::run(args, context),
        Verb::Allow(args) => allow::run(args, context),
        Verb::Status(args) => status::run(args, context),
        Verb::Check(args) => check::run(args, context),
        Verb::Leave(args) => leave::run(args, context),
        Verb::Relay(args) => relay::run(args, context),
    }
}

/// Files that prove who is who, where TLS does not do with what the system trusts.
#[derive(Debug, Default, clap::Args)]
struct TlsFiles {
    /// Certificate authorities that may vouch for the server, as PEM [default: those that the system trusts]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// This machine's certificate, as PEM, if the server asks for one
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's key, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl TlsFiles {
    /// The same by absolute paths, and there.
    fn absolute(&self) -> anyhow::Result<Self> {
        let absolute = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| path.canonicalize().with_context(|| path.display().to_string()))
        };
        Ok(Self {
            ca: absolute(&self.ca).transpose()?,
            cert: absolute(&self.cert).transpose()?,
            key: absolute(&self.key).transpose()?,
        })
    }

    fn settings(self, url: &str, login_seed: String) -> anyhow::Result<Settings> {
        let Self { ca, cert, key } = self;
        let settings = Settings { url: url.to_owned(), login_seed, ca, cert, key };
        settings.check()?;
        Ok(settings)
    }
}

/// This machine's keys.
fn identity(context: &Context) -> anyhow::Result<Identity> {
    let file = context.paths.fleet_identity();
    match Identity::read(&file) {
        Ok(identity) => Ok(identity),
        Err(IdentityError::Missing) => {
            bail!("This machine has joined no fleet. → coord fleet join URL")
        }
        Err(IdentityError::Open { mode }) => bail!(
            "{}: others may read it (mode {mode:03o}), so its keys may be known: move the file away, run `coord fleet join` again, and remove the old keys from the server and from other machines' lists",
            file.display()
        ),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

/// Where the server is, by the configuration.
fn settings(config: &Config, login_seed: String) -> anyhow::Result<Settings> {
    let fleet = &config.fleet;
    let Some(url) = &fleet.url.0 else {
        bail!("config.toml names no server. → coord fleet join URL")
    };
    let path =
        |path: &Maybe<AbsolutePath>| path.0.as_ref().map(|path| Path::new(&path.0).to_owned());
    let files = TlsFiles { ca: path(&fleet.ca), cert: path(&fleet.cert), key: path(&fleet.key) };
    files.settings(&url.0, login_seed)
}

/// The configuration, this machine's keys, and where the server is.
pub(crate) fn member(context: &Context) -> anyhow::Result<(Config, Identity, Settings)> {
    let file = context.paths.config_file();
    let config = Config::load(&file).with_context(|| file.display().to_string())?;
    let identity = identity(context)?;
    let settings = settings(&config, identity.login_seed.clone())?;
    Ok((config, identity, settings))
}

/// Why the server was not asked, or did not answer.
pub(crate) fn server_failed(settings: &Settings, error: &EngineError) -> Failure {
    let text = format!("{}: {error}", settings.url);
    match error {
        EngineError::Unreachable(_) => {
            Failure::NotReachable(format!("{text}. → coord fleet status"))
        }
        EngineError::Conflict
        | EngineError::Denied { .. }
        | EngineError::Full(_)
        | EngineError::Other(_) => Failure::Failed(anyhow!(text)),
    }
}

/// The name under which other machines show this one.
pub(crate) fn own_name(config: &Config) -> String {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = config.fleet.name.0.as_ref().map_or_else(host, |name| name.0.clone());
    let is_plain = |one: &char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.');
    let name: String = name.chars().filter(is_plain).take(64).collect();
    if name.is_empty() { "machine".to_owned() } else { name }
}
