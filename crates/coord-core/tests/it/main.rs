//! What coord-core decides, topic by topic: one program, so that a change is compiled and linked once.

mod attempts;
mod clocks;
mod crashes;
mod deaths;
mod end_notices;
mod exhaustive;
mod guards;
mod hung;
mod identity;
mod machine;
mod names;
mod needs;
mod nothing_to_resume;
mod notices;
mod orders;
mod owners;
mod panes;
mod provenance;
mod queue;
mod quota;
mod recovery;

mod requests;
mod rest;
mod resumes;
mod rotation;
mod runs;
mod sessions_messages;
mod sources;
mod stalls;
mod subagents;
mod task;
mod turns;
mod usage;
mod waits;
mod world;
