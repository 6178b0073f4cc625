//! The command line, topic by topic: one program, so that a change is compiled and linked once.

mod compat;
mod contract;
mod doctor;
mod documentation;
mod install;
mod install_script;
mod resume_exec;
mod service;
mod task_loop;
mod upgrade;
