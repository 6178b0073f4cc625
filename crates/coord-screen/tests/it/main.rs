//! What a captured screen shows, topic by topic: one program, so that a change is compiled and linked once.

mod fixtures;
mod hostile;
mod inputs;
