//! The simulated world: what the product runs on in tests, with faults on demand.
//!
//! For now the disk and chance; it decides nothing about the product.

pub mod fake_disk;
pub mod random;

pub use fake_disk::{Damage, FakeDisk, Fault};
pub use random::Random;
