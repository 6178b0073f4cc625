//! Reads the state from the files, and shows it to people and programs. Changes nothing.
//!
//! `replay` builds the state from the store, for the coordinator and for `offline`, which needs no
//! coordinator. What is shown follows from the state and the journal alone, so it is the same with a
//! coordinator and without.

pub mod history;
pub mod json;
pub mod list;
pub mod lookup;
pub mod messages;
pub mod notice;
pub mod offline;
pub mod replay;
pub mod sessions;
pub mod steps;
pub mod text;
pub mod usage;
pub mod work;
