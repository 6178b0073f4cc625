//! What the machines of a fleet exchange, and the steps that exchange it: nothing is lost or doubled, and nothing
//! that is unsigned is believed (F-04 to F-06).
//!
//! Each machine's journal is the only truth about its sessions. An [`Engine`] holds signed copies that any machine
//! can rebuild; it is trusted with nothing but availability. This crate decides what is published next
//! ([`Outbox`]), whose word counts ([`sealed`]), what is known of other machines ([`Peers`]), and which of their needs are told here
//! ([`NeedsHeard`]). It opens no
//! connection: `coord-relay` has the adapter for NATS, and the simulation has an engine that loses and repeats.

mod allowed;
mod batch;
mod carrier;
mod engine;
mod history;
mod identity;
mod keys;
mod message;
mod needs;
mod outbox;
mod peers;
pub mod sealed;

pub use allowed::{Allowed, AllowedError, AllowedMachine, is_name};
pub use batch::{Batch, Incarnation, Writer};
pub use carrier::{Carrier, CarryError, Local, Sending};
pub use engine::{
    Change, Delivery, Engine, EngineError, Held, Item, Parcel, Settled, StateKey, Verdict, Watched,
};
pub use history::{History, Logged, Trouble};
pub use identity::{Identity, IdentityError};
pub use keys::{KeyError, Keys, PublicKey};
pub use message::{FateReport, RemoteMessage};
pub use needs::NeedsHeard;
pub use outbox::{Duplicate, Extent, Journal, Outbox, Piece, Turn, TurnError};
pub use peers::{BEAT_MS, Beat, Peer, Peers, Refused, SILENT_MS, SKEW_SHOWN_MS, SessionState};
