//! The coordinator, topic by topic: one program, so that a change is compiled and linked once.

mod failing_disk;
mod fleet;
mod messages;
mod operator;
mod requests;
mod restarts;
mod workers;
