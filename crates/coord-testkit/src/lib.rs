//! What tests of several crates share, and no product: a disk that loses and fails (`fake_disk`), and chance that a
//! seed repeats (`random`).

pub mod fake_disk;
pub mod random;

pub use fake_disk::{Damage, FakeDisk, Fault};
pub use random::Random;
