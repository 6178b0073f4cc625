//! The coordinator: turns everything that happens into events for the core, records them, and performs
//! the effects that the core returns.
//!
//! There is one event loop, and one adapter per file. Nothing in this crate decides about sessions.

mod actions;
pub mod background;
mod batch;
mod conditions;
mod config_change;
mod config_watch;
mod connection;
pub mod coordinator;
mod counted;
pub mod engine;
pub mod fleet;
mod fleet_notices;
pub mod http;
mod intake;
mod log;
pub mod messages;
pub mod metrics;
mod notices;
mod notify;
mod observe;
pub mod operator;
mod passphrase;
mod provenance;
mod real_world;
mod reopen;
mod report;
pub mod request_error;
pub mod requests;
pub mod routes;
mod schedule;
pub mod serve;
mod server;
mod share;
mod status_line;
mod sync;
pub mod waiters;
pub mod world;
