//! The data that coord's parts exchange, each type defined once: what happens ([`Event`]), what the core requests
//! ([`Effect`]), and what both are made of. The core, the journal and the coordinator's adapters use the same
//! types. Nothing here decides.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod command;
mod effect;
pub mod envelope;
mod event;
mod fleet;
mod hook;
mod last_words;
mod launch;
mod machine;
mod message;
mod need;
mod notice;
mod pane;
mod process;
mod proof;
mod registry;
mod reply;
mod screen;
mod session;
mod settings;
pub mod stamp;
mod time;
mod tokens;
mod usage;
mod work;

pub use command::*;
pub use effect::*;
pub use envelope::Harness;
pub use event::*;
pub use fleet::*;
pub use hook::*;
pub use last_words::*;
pub use launch::*;
pub use machine::*;
pub use message::*;
pub use need::*;
pub use notice::*;
pub use pane::*;
pub use process::*;
pub use proof::*;
pub use registry::*;
pub use reply::*;
pub use screen::*;
pub use session::*;
pub use settings::*;
pub use time::*;
pub use tokens::*;
pub use usage::*;
pub use work::*;
