//! The steps of a fleet against an engine that loses, repeats and refuses.

mod carrier;
mod needs;
mod outbox;
mod peers;
