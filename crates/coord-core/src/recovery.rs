//! Decides how a crashed session comes back (S0): which step is next, and when the recovery is over.
//!
//! A session has at most one pending recovery (S0-09). Its stage says what was decided last. A step that touches
//! the world is decided on a [`Proof`] made for it, and is stored in the state before it is performed. It is never
//! repeated blindly: after a restart, as after a lost answer, coord looks for its effect.
//!
//! `guards` decides who may come back at all, and `machine` what the whole machine allows.

mod attempt;
mod guards;
pub(crate) mod harm;
mod hung;
mod machine;
mod opening;
mod outcome;
mod resumed;
mod verdict;

pub(crate) use guards::{Stop, Then};
pub(crate) use opening::Wish;
pub use resumed::PlacedResume;
