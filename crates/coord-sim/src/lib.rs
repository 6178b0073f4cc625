//! The simulated world: what the product runs on in tests, with faults on demand.
//!
//! For now the disk; it decides nothing about the product.

pub mod fake_disk;

pub use fake_disk::{Damage, FakeDisk, Fault};
