//! What coord-core decides, topic by topic: one program, so that a change is compiled and linked once.

mod clocks;
mod crashes;
mod deaths;
mod exhaustive;
mod hung;
mod identity;
mod machine;
mod nothing_to_resume;
mod orders;
mod owners;
mod panes;
mod provenance;
mod queue;
mod quota;
mod recovery;
mod reminders;
mod rest;
mod rotation;
mod runs;
mod sessions_messages;
mod sources;
mod stalls;
mod task;
mod told;
mod turns;
mod world;
