//! The simulated world: a machine and a disk that fail on demand, scenarios played on them, and whole
//! lives of clients and coordinators drawn from a seed.

mod act_checks;
mod checks;
mod client;
mod faults;
pub mod fleet;
mod forger_checks;
mod forgers;
mod habits;
mod hook_runs;
pub mod hooks;
mod host_events;
mod living;
pub mod machine;
mod messages;
mod meter;
mod need_checks;
mod notice_checks;
mod people;
mod places;
pub mod play;
mod quota_checks;
mod requests;
mod rest_checks;
mod resumes;
pub mod run;
mod run_lives;
mod said;
mod scenario;
pub mod serving;
mod simulation;
mod stalls;
mod traces;
mod turn_checks;
mod wakes;

pub use checks::Violation;
pub use machine::{Machine, SharedMachine};
pub use meter::{Conditions, Meter, Sent, Shown, Stalls};
pub use simulation::{Outcome, Simulation};
