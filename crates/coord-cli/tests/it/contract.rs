//! The contract of coordinator and command line (interfaces.md), with the real programs, the real
//! hooks and raw sockets, each test in a root of its own.
//!
//! The programs beside this test are used: `cargo build --workspace` makes them.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

mod background;
mod cli;
mod control;
mod dashboard;
mod deaths;
mod demo;
mod disk;
mod fleet;
mod fleet_history;
mod flood;
mod forgery;
mod go;
mod harness;
mod history;
mod http;
mod limits;
mod metrics;
mod namespaces;
mod notice;
mod once;
mod passphrase;
mod queue;
mod recover;
mod send;
mod status_line;
mod store;
mod top;
mod usage;
mod why;
mod wire;
mod words;
mod work;
