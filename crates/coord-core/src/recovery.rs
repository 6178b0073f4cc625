//! Decides how a crashed session comes back (S0): which step is next, and when it has come to its end.
//!
//! A session has at most one pending recovery (S0-09). Its stage says what was decided last; a step
//! that touches the world is decided on a [`Proof`] made for it, stands in the state before it is done,
//! and is never repeated blindly: after a restart its effect is looked for, as after a lost answer.
//!
//! Who may come back at all is `guards`; what the whole machine allows is `machine`.

mod attempt;
mod guards;
pub(crate) mod harm;
mod hung;
mod machine;
mod opening;
mod outcome;
mod resumed;
mod verdict;

pub(crate) use attempt::{intent, subject};
pub(crate) use opening::Wish;
pub use resumed::PlacedResume;
