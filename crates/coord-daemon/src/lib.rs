//! The coordinator: turns everything that happens into core events, records them, and carries out
//! what the core decides. One event loop, one adapter per file; nothing here decides about sessions.

mod background;
pub mod config;
mod config_dirs;
mod connection;
pub mod convert;
mod coordinator;
pub mod engine;
pub mod history;
pub mod host;
pub mod http;
mod intake;
mod log;
pub mod looker;
pub mod lookup;
mod notify;
mod observe;
pub mod offline;
pub mod process;
pub mod registry;
mod registry_watch;
mod report;
mod routes;
pub mod serve;
mod server;
mod share;
pub mod state_dir;
pub mod tmux;
pub mod transcript;
pub mod transcript_watch;
pub mod view;
mod watches;
