//! Hostile input for every parser of coord, on the stable toolchain.
//!
//! Each [`Target`] is one parser with what must hold whatever it is handed: it does not panic, hang
//! or take memory without bound, and more, said in its file. Inputs are fixtures of this repository,
//! mutated. Without instrumentation nothing is known of the code that an input reached, so a target
//! gives back an outcome (which error, which fields, which class), and an input with a new outcome
//! is kept and mutated further. Decides nothing about the product. Holds the random half of S4-07,
//! G7, G8, G11 and H-26.

mod corpus;
mod memory;
mod mutate;
mod random;
mod run;
mod target;
mod watchdog;

pub use memory::Counting;
pub use run::{Budget, Failure, Report, fuzz, replay};
pub use target::{TARGETS, Target};
