//! The state as people and programs see it: read from the files, and shown. Changes nothing.
//!
//! `replay` makes the state from the store, for the coordinator and for `offline`, which needs none. What is shown
//! follows from the state and the journal alone, so it is the same with a coordinator and without.

pub mod history;
pub mod json;
pub mod lookup;
pub mod messages;
pub mod offline;
pub mod replay;
pub mod sessions;
