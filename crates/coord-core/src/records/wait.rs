//! The prompts that are open in a session, as hooks tell, and what was over lately (S0-18, G2).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::Moment;

use super::clocks::clocks;

/// An open prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The subagent that asks; none for the main thread.
    pub agent: Option<String>,
    /// For which tool; empty where only a notification told.
    pub tool: String,
    /// Keyed digest of the tool's input.
    pub digest: Option<u64>,
    /// What is asked for.
    pub kind: WaitKind,
    /// Since when.
    pub since: Moment,
}

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitKind {
    /// Leave to use a tool.
    Permission,
    /// An answer: a question, a plan, a dialog.
    Input,
}

/// A call, or a whole subagent, that is over. Keys are hashes: enough to tell a few from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    /// Key of the thread it belongs to.
    pub thread: u32,
    /// Key of tool and input; none where the thread itself ended.
    pub call: Option<u32>,
    /// When it was over, CLOCK_MONOTONIC.
    pub mono_ns: u64,
}

clocks!(struct Wait { agent, tool, digest, kind, since } until {});

clocks!(none in WaitKind, Over);
