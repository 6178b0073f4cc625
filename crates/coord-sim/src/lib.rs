//! The simulated world: a machine, a disk with injected faults, and in time whole sessions on it.

pub mod fake_disk;
pub mod hooks;
pub mod machine;
mod random;
pub mod serving;

pub use fake_disk::{Damage, FakeDisk, Fault};
pub use machine::{Machine, SharedMachine};
pub use random::Random;
