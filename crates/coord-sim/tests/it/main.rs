//! The simulation and what it proves of the coordinator, topic by topic: one program, so that a change is
//! compiled and linked once.

mod alerts;
mod end_of_a_harness;
mod gaps;
mod marks;
mod quota;
mod reopen;
mod scenarios;
