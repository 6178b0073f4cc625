//! Headless runs: `coord run` supervises one.
//!
//! A run has a supervisor of its own, and works without a coordinator: `coord_core::Run` decides, and
//! this crate sees and does. The streams pass through byte for byte (`pump`), what they say is read
//! beside (`stream`), the tree is read from the process table (`tree`), and everything that was
//! decided stands in the run's own file under a lock (`record`).

mod clock;
pub mod end_signals;
pub mod lines;
mod only_line;
pub mod pump;
pub mod quarantine;
mod record;
pub mod runs;
mod signals;
pub mod spec;
pub mod standard_error;
pub mod stream;
pub mod supervisor;
mod tree;

pub use end_signals::EndSignals;
pub use spec::{Output, Passes, RunEnd, RunSpec, Stdin, output_of, provider_of};
pub use supervisor::supervise;
