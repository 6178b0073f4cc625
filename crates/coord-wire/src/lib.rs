//! The formats that cross process borders: hooks, coordinator, store, command line and scripts agree on
//! them. This crate decides nothing.
//!
//! Hooks link only [`frame`], [`paths`], [`limits`], [`exchange`] and constants from here; the serde
//! types are for the coordinator and the command line.

pub mod api;
pub mod exchange;
pub mod fleet;
pub mod frame;
pub mod inspect;
pub mod limits;
pub mod message;
pub mod notice;
pub mod paths;
pub mod peer;
pub mod question;
pub mod run;
mod socket;
pub mod spool;
pub mod trust;
pub mod usage;

/// The version of programs and files, as `coord --version` prints it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
