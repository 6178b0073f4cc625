//! What tests of several crates share, and no product: a disk that loses and fails (`fake_disk`), an engine of a fleet
//! that does (`fake_engine`), and chance that a seed repeats (`random`).

pub mod fake_disk;
pub mod fake_engine;
pub mod random;

pub use fake_disk::{Damage, FakeDisk, Fault};
pub use fake_engine::{EngineFaults, FakeEngine, FakeServer, ready};
pub use random::Random;
