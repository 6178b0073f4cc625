//! The hooks, run from outside, topic by topic: one program, so that a change is compiled and linked once.

mod input;
mod payloads;
mod spool;
mod statusline;
mod trust;
mod wake;
mod world;
