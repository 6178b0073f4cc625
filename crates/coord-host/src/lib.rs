//! Observes this machine and acts on it. Decides nothing.
//!
//! This crate reads processes, the client's registry, panes, transcripts, task directories and the state
//! directory, and its `executor` carries out what was decided. What may wait for the outside world runs on
//! threads of its own (`worker`).

pub mod clients;
pub mod config_dirs;
pub mod executor;
pub mod here;
pub mod launch;
pub mod local_clock;
pub mod notices;
pub mod observer;
pub mod passphrase;
pub mod process;
pub mod registry;
pub mod registry_reader;
pub mod registry_watch;
pub mod relay;
pub mod room;
pub mod shutdown;
pub mod state_dir;
pub mod task_dir;
pub mod tmux;
pub mod transcript;
pub mod transcript_watch;
pub mod watches;
pub mod work;
pub mod worker;
