//! The simulated world: a machine, a disk with injected faults, and scenarios played on them.

pub mod fake_disk;
pub mod hooks;
pub mod machine;
pub mod play;
mod random;
mod scenario;
pub mod serving;

pub use fake_disk::{Damage, FakeDisk, Fault};
pub use machine::{Machine, SharedMachine};
pub use random::Random;
