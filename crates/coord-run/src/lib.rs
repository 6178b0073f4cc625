//! Headless runs: supervises the run that `coord run` starts.
//!
//! Each run has a supervisor of its own, and works without a coordinator. `coord_core::Run` decides, and this
//! crate observes and acts. The streams pass through byte for byte (`pump`), and what they say is read
//! alongside (`stream`). The process tree is read from the process table (`tree`). Everything that was
//! decided is written to the run's own file, under a lock (`record`).

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
