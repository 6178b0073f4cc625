//! The store, topic by topic: one program, so that a change is compiled and linked once.

mod cases;
mod crash_images;
mod faults;
mod pieces;
mod real;
mod workload;
