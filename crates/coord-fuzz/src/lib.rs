//! Hostile input for every parser of coord.
//!
//! Each [`Target`] is one parser with what must hold whatever it is handed: it does not panic, hang
//! or take memory without bound, and more, said in its file. libFuzzer mutates fixtures of this repository and
//! keeps what reaches something new. A target gives back an outcome (which error, which fields, which class),
//! which is something new as well: a build without instrumentation knows nothing else of an input. Decides
//! nothing about the product. Holds the random half of S4-07, G7, G8, G11 and H-26.

mod inputs;
mod memory;
mod target;

pub use memory::Counting;
pub use target::{TARGETS, Target};
