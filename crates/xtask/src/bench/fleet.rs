//! What a fleet costs (F-09, F-12): real coordinators and relays on a real server with TLS, all on this machine.

mod local;
mod log;
mod notices;
mod view;
mod visible;

pub(super) use local::measure as local;
pub(super) use log::measure as log;
pub(super) use notices::measure as notices;
pub(super) use view::measure as view;
pub(super) use visible::measure as visible;

use super::Bench;
use super::dashboard::Clients;
use super::events::{Events, sync, take};
use super::place::until;
use super::sandbox::Sandbox;
use crate::say;
use anyhow::anyhow;
use coord_fleet::{Identity, Keys};
use coord_model::MachineId;
use coord_relay::init::{Limits, init};
use coord_relay::login::Login;
use coord_relay::{Settings, permissions, private_dir};
use coord_store::now;
use coord_tests::nats::{Encryption, NatsServer, Users};
use coord_wire::fleet::RelayStatus;
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::value::RawValue;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use tokio::runtime::{Builder, Runtime};

/// Whether there is a server to measure with; says so if there is none.
fn has_server() -> bool {
    let named = std::env::var_os("COORD_TEST_NATS").filter(|path| !path.is_empty());
    let program = named.unwrap_or_else(|| "nats-server".into());
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        say("    the fleet is not measured: it needs nats-server; tests/install-nats brings it");
    }
    is_there
}

fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// A server, and its administrator.
struct Server {
    nats: NatsServer,
    admin: Login,
}

impl Server {
    fn start() -> anyhow::Result<Self> {
        let admin = Login::new().map_err(|error| anyhow!(error))?;
        let administrator = admin.public_key().to_owned();
        let nats = NatsServer::start(Encryption::Tls, Users { administrator, others: Vec::new() });
        Ok(Self { nats, admin })
    }

    /// How the owner of a login reaches it.
    fn settings(&self, login_seed: &str) -> Settings {
        let login_seed = login_seed.to_owned();
        Settings {
            url: self.nats.url(),
            login_seed,
            ca: Some(self.nats.ca()),
            cert: None,
            key: None,
        }
    }

    /// Lets machines in, and is set up for them.
    fn admit(&mut self, machines: &[&Member]) -> anyhow::Result<()> {
        let administrator = self.admin.public_key().to_owned();
        let others = machines.iter().map(|one| one.block.clone()).collect();
        self.nats.set_users(Users { administrator, others });
        let ids: Vec<MachineId> = machines.iter().map(|one| one.id()).collect();
        let settings = self.settings(self.admin.seed());
        let done = runtime()?.block_on(init(&settings, &ids, &Limits::default()));
        done.map(|_| ()).map_err(|error| anyhow!(error))
    }
}

/// The keys of a machine, and what the server needs to let it in.
struct Member {
    seed: [u8; 32],
    keys: Keys,
    login: Login,
    block: String,
}

impl Member {
    fn new() -> anyhow::Result<Self> {
        let mut seed = [0; 32];
        getrandom(&mut seed, GetRandomFlags::empty())?;
        let keys = Keys::from_seed(&seed).map_err(|error| anyhow!(error))?;
        let login = Login::new().map_err(|error| anyhow!(error))?;
        let block = permissions::block(keys.machine(), login.public_key());
        Ok(Self { seed, keys, login, block })
    }

    fn id(&self) -> MachineId {
        self.keys.machine()
    }
}

/// A machine with a coordinator and a relay.
struct Machine {
    sandbox: Sandbox,
    member: Member,
}

impl Machine {
    /// As `coord fleet join` makes one, which refuses to run below a client.
    fn new(bench: &Bench, name: &str, server: &Server) -> anyhow::Result<Self> {
        let (sandbox, member) = (Sandbox::new(bench)?, Member::new()?);
        let paths = &sandbox.paths;
        private_dir(&paths.fleet())?;
        Identity::create(&paths.fleet_identity(), &member.seed, member.login.seed())?;
        let mut config = fs::read_to_string(paths.config_file())?;
        let (url, ca) = (server.nats.url(), server.nats.ca().display().to_string());
        write!(config, "[fleet]\nurl = {url:?}\nca = {ca:?}\nname = {name:?}\n")?;
        fs::write(paths.config_file(), config)?;
        Ok(Self { sandbox, member })
    }
}

/// What the relay of a machine says of itself.
fn status(sandbox: &Sandbox) -> Option<RelayStatus> {
    let text = fs::read(sandbox.paths.fleet_status()).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Waits until the link of a machine is up and its whole journal published.
fn published(sandbox: &Sandbox) -> anyhow::Result<RelayStatus> {
    until("a machine to publish its journal", || {
        let is_done = |status: &RelayStatus| {
            status.is_up && status.durable != 0 && status.held_through == Some(status.durable)
        };
        Ok(status(sandbox).filter(is_done))
    })
}

/// Sends events of sessions that have living processes.
struct Feed {
    events: Events,
    clients: Clients,
}

impl Feed {
    fn new(bench: &Bench, sessions: usize) -> anyhow::Result<Self> {
        Ok(Self { events: Events::new(bench)?, clients: Clients::start(sessions)? })
    }

    fn make(&mut self, event: &str, session: usize) -> anyhow::Result<Box<RawValue>> {
        self.events.make_of(event, session, self.clients.process(session)?)
    }

    /// Begins a turn in each of these sessions, before the coordinator starts: what a measurement posts itself is not verified.
    fn begin(
        &mut self,
        sandbox: &Sandbox,
        sessions: core::ops::Range<usize>,
    ) -> anyhow::Result<()> {
        let mut engine = sandbox.engine()?;
        for session in sessions {
            for event in ["SessionStart", "UserPromptSubmit", "PostToolUse"] {
                take(&mut engine, self.make(event, session)?, now())?;
            }
        }
        sync(&mut engine)
    }
}

/// Bytes in MiB.
fn mib(bytes: usize) -> f64 {
    super::sample::count(bytes) / 1024.0 / 1024.0
}
