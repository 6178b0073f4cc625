//! The adapter for NATS JetStream: it carries what machines of a fleet exchange.
//!
//! [`Connection`] is the link of a machine to the server, [`NatsEngine`] the six calls of [`coord_fleet::Engine`] on it.
//! [`init`] sets a server up, and [`permissions`] writes down what the server allows a machine. The adapter decides
//! nothing and believes nothing: everything it carries is sealed, and `coord-fleet` says whose word counts.
//!
//! It speaks the requests of JetStream itself, on `async-nats`'s plain client: every request goes one way, which joins
//! the server's refusals to the requests that they refuse, and every answer is read the same from all versions of the server.

mod check;
mod fleet_history;
mod history;
pub mod init;
pub mod login;
mod nats;
mod nats_engine;
mod nats_error;
mod nats_inbox;
mod nats_names;
mod nats_request;
mod nats_watch;
pub mod permissions;
mod relay;
mod settings;
mod source;
mod state_schedule;
mod views;

pub use check::{Checked, Own, check};
pub use fleet_history::{FleetHistory, Told};
pub use history::{Selected, Selection};
pub use nats::{Connection, ServerError, Status};
pub use nats_engine::NatsEngine;
pub use relay::{Options, boottime_ms, run};
pub use settings::{Settings, SettingsError};
pub use source::{Source, Watch};
pub use views::{PeerFile, private_dir, write_durably};
