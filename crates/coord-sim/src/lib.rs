//! The simulated world: a machine, a disk with injected faults, and in time whole sessions on it.

mod checks;
mod client;
pub mod fake_disk;
mod faults;
mod hook_runs;
pub mod hooks;
mod host_events;
pub mod machine;
mod meter;
mod random;
pub mod run;
pub mod serving;
mod simulation;

pub use checks::Violation;
pub use fake_disk::{Damage, FakeDisk, Fault};
pub use machine::{Machine, SharedMachine};
pub use meter::{Conditions, Meter, Shown};
pub use random::Random;
pub use simulation::{Outcome, Simulation};
