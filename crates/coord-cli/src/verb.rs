//! The verbs, one file each.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod go;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod man;
pub(crate) mod metrics;
pub(crate) mod notice;
pub(crate) mod queue;
pub(crate) mod resume_exec;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod status;
pub(crate) mod task_loop;
pub(crate) mod tmux;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod wait;
