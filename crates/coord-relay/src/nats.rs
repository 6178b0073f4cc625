//! The connection of a machine to the server: one, which comes back by itself.

use core::error::Error;
use core::fmt;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use coord_fleet::EngineError;
use coord_model::MachineId;
use tokio::sync::{broadcast, watch};

use crate::nats_engine::NatsEngine;
use crate::nats_error::{Refusal, refusal};
use crate::nats_names;
use crate::settings::Settings;

/// An answer that takes longer does not come: a request that was under way when a connection broke is not answered.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Two pings that are not answered end a connection.
const PING_INTERVAL: Duration = Duration::from_secs(3);
/// Refusals that wait to be joined to their requests.
const REFUSALS_MAX: usize = 256;

/// A connection to the server, which comes back by itself. Dropping it and its engines ends it.
#[derive(Debug, Clone)]
pub struct Connection {
    link: Link,
    machine: MachineId,
}

/// How the connection is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether it is up.
    pub is_up: bool,
    /// How often it came up.
    pub connects: u64,
    /// The server's version, once it was up.
    pub server_version: Option<String>,
    /// The last error that the server reported, or that kept the connection from coming back.
    pub last_error: Option<ServerError>,
}

/// An error that the server reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The subject that it is about, if it names one.
    pub subject: Option<String>,
    /// Its words.
    pub text: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Connection {
    /// Connects a machine.
    ///
    /// # Errors
    /// The settings are wrong, the server is not reached, or it does not take the login. Once connected, it reconnects
    /// by itself.
    pub async fn open(settings: &Settings, machine: MachineId) -> Result<Self, EngineError> {
        let link = Link::open(settings, &machine.to_string()).await?;
        Ok(Self { link, machine })
    }

    /// An engine on this connection. Several may be used at once.
    pub fn engine(&self) -> NatsEngine {
        NatsEngine::new(self.link.clone(), self.machine)
    }

    /// How it is now.
    pub fn status(&self) -> Status {
        self.link.status()
    }

    /// Changes whenever the connection breaks or comes back, and with every error that the server reports. The server's
    /// version in it is that of the first connection; [`Connection::status`] has the newest one.
    pub fn changes(&self) -> watch::Receiver<Status> {
        self.link.shared.status.subscribe()
    }
}

/// The connection, without a say whose it is.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) client: Client,
    shared: Arc<Shared>,
}

/// What the server's events change.
#[derive(Debug)]
struct Shared {
    status: watch::Sender<Status>,
    refusals: broadcast::Sender<Refusal>,
    /// The inbox that the server refused to this connection, if it did: no answer will ever come.
    refused_inbox: Mutex<Option<String>>,
}

impl Link {
    /// Connects, with an inbox prefix of this owner.
    pub(crate) async fn open(settings: &Settings, owner: &str) -> Result<Self, EngineError> {
        let addresses = settings.check().map_err(|error| EngineError::Other(error.to_string()))?;
        let is_encrypted = Settings::is_encrypted(&addresses);
        // The client's own errors do not say which file it is.
        for path in [&settings.ca, &settings.cert, &settings.key].into_iter().flatten() {
            let failed = |error| EngineError::Other(format!("{}: {error}", path.display()));
            File::open(path).map_err(failed)?;
        }
        let shared = Arc::new(Shared {
            status: watch::Sender::default(),
            refusals: broadcast::Sender::new(REFUSALS_MAX),
            refused_inbox: Mutex::default(),
        });
        let told = Arc::clone(&shared);
        let mut options = ConnectOptions::with_nkey(settings.login_seed.clone())
            .name("coord")
            .require_tls(is_encrypted)
            .custom_inbox_prefix(nats_names::inbox(owner))
            .ping_interval(PING_INTERVAL)
            .connection_timeout(ANSWER_WITHIN)
            .request_timeout(Some(ANSWER_WITHIN))
            .event_callback(move |event| {
                told.take(event);
                core::future::ready(())
            });
        if let Some(ca) = &settings.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let (Some(cert), Some(key)) = (&settings.cert, &settings.key) {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        if !is_encrypted {
            // These would be reached without encryption too, wherever they are.
            options = options.ignore_discovered_servers();
        }
        let client =
            options.connect(addresses.as_slice()).await.map_err(|error| unopened(&error))?;
        let link = Self { client, shared };
        link.shared.is_up();
        link.shared.status.send_modify(|status| status.server_version = link.version());
        Ok(link)
    }

    pub(crate) fn status(&self) -> Status {
        Status { server_version: self.version(), ..self.shared.status.borrow().clone() }
    }

    fn version(&self) -> Option<String> {
        self.client.try_server_info().map(|info| info.version).filter(|version| !version.is_empty())
    }

    /// How often the connection came up, once it is up. Waits a moment for that: what is sent while it is down would be sent
    /// once it comes back, when nobody knows of it any more.
    pub(crate) async fn up(&self) -> Result<u64, EngineError> {
        let mut changes = self.shared.status.subscribe();
        let up = changes.wait_for(|status| status.is_up);
        match tokio::time::timeout(ANSWER_WITHIN, up).await {
            Ok(Ok(status)) => Ok(status.connects),
            Ok(Err(_)) | Err(_) => Err(EngineError::Unreachable(self.why_down())),
        }
    }

    fn why_down(&self) -> String {
        // An error about a subject is one of a connection that was up.
        match &self.shared.status.borrow().last_error {
            Some(ServerError { subject: None, text }) => format!("not connected: {text}"),
            Some(ServerError { subject: Some(_), .. }) | None => "not connected".to_owned(),
        }
    }

    /// Waits until the connection that came up as this one is no more.
    pub(crate) async fn lost(&self, connects: u64) -> EngineError {
        let mut changes = self.shared.status.subscribe();
        let lost = changes.wait_for(|status| !status.is_up || status.connects != connects);
        // An error says that nobody changes it any more, which is no connection either.
        _ = lost.await;
        EngineError::Unreachable("the connection broke".to_owned())
    }

    /// Whether the connection is still the one that came up as this one.
    pub(crate) fn is_still(&self, connects: u64) -> bool {
        let status = self.shared.status.borrow();
        status.is_up && status.connects == connects
    }

    /// What the server refuses from now on.
    pub(crate) fn refusals(&self) -> broadcast::Receiver<Refusal> {
        self.shared.refusals.subscribe()
    }

    /// Why no answer came.
    pub(crate) fn unanswered(&self, subject: &str) -> EngineError {
        let inbox = self.shared.refused_inbox.lock().unwrap_or_else(PoisonError::into_inner);
        match &*inbox {
            Some(inbox) => EngineError::Denied { subject: inbox.clone(), what: "subscribe" },
            None => EngineError::Unreachable(format!(
                "no answer to {subject} within {} s",
                ANSWER_WITHIN.as_secs()
            )),
        }
    }
}

impl Shared {
    fn is_up(&self) {
        self.status.send_if_modified(|status| {
            if status.is_up {
                return false;
            }
            status.is_up = true;
            status.connects = status.connects.saturating_add(1);
            true
        });
    }

    fn take(&self, event: Event) {
        match event {
            Event::Connected => self.is_up(),
            Event::Disconnected | Event::Closed => {
                *self.refused_inbox.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.status.send_modify(|status| status.is_up = false);
            }
            Event::ServerError(error) => {
                let text = error.to_string();
                let refusal = refusal(&text);
                let subject = refusal.as_ref().map(|refusal| refusal.subject.clone());
                self.failed(ServerError { subject, text });
                let Some(refusal) = refusal else { return };
                if refusal.what == "subscribe" {
                    let inbox = Some(refusal.subject.clone());
                    *self.refused_inbox.lock().unwrap_or_else(PoisonError::into_inner) = inbox;
                }
                // Nobody may be waiting for anything.
                _ = self.refusals.send(refusal);
            }
            Event::ClientError(error) => {
                self.failed(ServerError { subject: None, text: error.to_string() });
            }
            Event::LameDuckMode | Event::Draining | Event::SlowConsumer(_) => (),
        }
    }

    fn failed(&self, error: ServerError) {
        self.status.send_modify(|status| status.last_error = Some(error));
    }
}

/// Why there is no connection.
fn unopened(error: &ConnectError) -> EngineError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            EngineError::Other(format!("the server does not accept this login: {text}"))
        }
        ConnectErrorKind::ServerParse => EngineError::Other(text),
        ConnectErrorKind::Tls
        | ConnectErrorKind::Dns
        | ConnectErrorKind::TimedOut
        | ConnectErrorKind::Io
        | ConnectErrorKind::MaxReconnects => EngineError::Unreachable(text),
    }
}
