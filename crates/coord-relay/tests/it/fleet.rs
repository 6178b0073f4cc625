//! A server, and machines with logins.

use coord_fleet::{EngineError, Keys};
use coord_model::MachineId;
use coord_relay::init::{self, InitError, Limits, Report};
use coord_relay::login::Login;
use coord_relay::{Connection, NatsEngine, Settings, permissions};
use coord_tests::nats::{Encryption, NatsServer, Users};
use coord_tests::wait::wait_until;
use std::fmt::Debug;
use tokio::runtime::{Builder, Runtime};

/// A server, and machines with logins.
pub(crate) struct Fleet {
    pub(crate) server: NatsServer,
    pub(crate) administrator: Login,
    pub(crate) machines: Vec<(MachineId, Login)>,
    /// Everything runs on one thread, as in the relay.
    pub(crate) runtime: Runtime,
}

/// The keys that a machine signs with.
pub(crate) fn keys(n: usize) -> Keys {
    let number = u8::try_from(n).expect("few machines");
    Keys::from_seed(&[number; 32]).expect("a key")
}

/// Limits that a test reaches soon.
pub(crate) fn limits() -> Limits {
    Limits {
        journal_bytes: 4 << 20,
        message_bytes: 64 << 10,
        fate_bytes: 64 << 10,
        state_bytes: 1 << 20,
        settle_within: core::time::Duration::from_secs(2),
        ..Limits::default()
    }
}

impl Fleet {
    /// A server that is set up for so many machines.
    pub(crate) fn start(machines: usize) -> Self {
        let fleet = Self::bare(machines);
        fleet.set_up();
        fleet
    }

    /// A server that lets so many machines in, and has nothing yet.
    pub(crate) fn bare(machines: usize) -> Self {
        let administrator = Login::new().expect("a login");
        let machines = (0..machines).map(|n| (keys(n).machine(), Login::new().expect("a login")));
        let machines: Vec<_> = machines.collect();
        let users = Users {
            administrator: administrator.public_key().to_owned(),
            others: machines.iter().map(|(id, login)| block(*id, login)).collect(),
        };
        let server = NatsServer::start(Encryption::MutualTls, users);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { server, administrator, machines, runtime }
    }

    pub(crate) fn set_up(&self) {
        self.init(&self.administrator, &self.ids(), &limits()).expect("the server is set up");
    }

    /// Sets the server up with a login.
    pub(crate) fn init(
        &self,
        login: &Login,
        machines: &[MachineId],
        limits: &Limits,
    ) -> Result<Report, InitError> {
        let settings = self.settings(login);
        self.runtime.block_on(init::init(&settings, machines, limits))
    }

    /// The machines.
    pub(crate) fn ids(&self) -> Vec<MachineId> {
        self.machines.iter().map(|(id, _)| *id).collect()
    }

    /// The settings that a login connects with.
    pub(crate) fn settings(&self, login: &Login) -> Settings {
        let (cert, key) = self.server.client_certificate();
        Settings {
            url: self.server.url(),
            login_seed: login.seed().to_owned(),
            ca: Some(self.server.ca()),
            cert: Some(cert),
            key: Some(key),
        }
    }

    pub(crate) fn machine(&self, n: usize) -> MachineId {
        self.machines[n].0
    }

    pub(crate) fn connection(&self, n: usize) -> Connection {
        let (machine, login) = &self.machines[n];
        let settings = self.settings(login);
        self.runtime.block_on(Connection::open(&settings, *machine)).expect("it connects")
    }

    /// An engine of a machine, on a connection of its own.
    pub(crate) fn engine(&self, n: usize) -> NatsEngine {
        self.connection(n).engine()
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Asks until an answer is as it is waited for.
    #[track_caller]
    pub(crate) fn until<T: Debug>(
        &self,
        what: &str,
        mut ask: impl AsyncFnMut() -> Result<T, EngineError>,
        is_right: impl Fn(&T) -> bool,
    ) -> T {
        wait_until(what, || match self.runtime.block_on(ask()) {
            Ok(answer) if is_right(&answer) => Ok(answer),
            other => Err(other),
        })
    }

    /// A client of a login that knows nothing of the adapter, and the errors that the server reports to it.
    pub(crate) fn client(&self, login: &Login) -> Client {
        let (reports, errors) = tokio::sync::mpsc::unbounded_channel();
        let (cert, key) = self.server.client_certificate();
        let options = async_nats::ConnectOptions::with_nkey(login.seed().to_owned())
            .add_root_certificates(self.server.ca())
            .add_client_certificate(cert, key)
            .event_callback(move |event| {
                if let async_nats::Event::ServerError(error) = event {
                    reports.send(error.to_string()).expect("somebody listens");
                }
                core::future::ready(())
            });
        let client =
            self.runtime.block_on(options.connect(self.server.url())).expect("it connects");
        Client { client, errors }
    }

    /// Asks the server's JetStream as the administrator.
    pub(crate) fn api(&self, subject: &str, body: &serde_json::Value) -> serde_json::Value {
        let client = self.client(&self.administrator).client;
        let subject = format!("$JS.API.{subject}");
        let answer = self.run(client.request(subject, body.to_string().into())).expect("an answer");
        serde_json::from_slice(&answer.payload).expect("JSON")
    }
}

/// A client that knows nothing of the adapter.
pub(crate) struct Client {
    pub(crate) client: async_nats::Client,
    /// What the server reported.
    pub(crate) errors: tokio::sync::mpsc::UnboundedReceiver<String>,
}

/// What the server allows a machine.
pub(crate) fn block(machine: MachineId, login: &Login) -> String {
    permissions::block(machine, login.public_key())
}
