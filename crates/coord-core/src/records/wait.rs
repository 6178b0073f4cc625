//! The prompts that are open in a session, as hooks report them, and the calls that ended lately (S0-18, G2).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment, RequestId};

use super::clocks::clocks;

/// An open prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The subagent that asks; none for the main thread.
    pub agent: Option<String>,
    /// The tool; empty if only a notification reported the prompt.
    pub tool: String,
    /// Keyed digest of the tool's input.
    pub digest: Option<u64>,
    /// What is asked for.
    pub kind: WaitKind,
    /// The client's id of the call that it is about: that of its PreToolUse, since a request names none (measured).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The event that reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
    /// Since when.
    pub since: Moment,
    /// Until when its hook may wait although the client shows no dialog meanwhile (H-38); none for a prompt whose
    /// dialog is on the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_until: Option<Awake>,
}

/// How long hooks of a session waited while the client showed no dialog (H-38).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HiddenWaits {
    /// Since when one waits.
    pub since: Option<Awake>,
    /// How long earlier ones waited, milliseconds.
    pub spent_ms: u64,
}

impl HiddenWaits {
    /// How long they waited in all.
    pub(crate) fn in_all_ms(&self, awake: Awake) -> u64 {
        let now = self.since.map_or(0, |since| awake.ms_since(since));
        self.spent_ms.saturating_add(now)
    }
}

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitKind {
    /// Permission to use a tool.
    Permission,
    /// An answer: a question, a plan, a dialog.
    Input,
}

/// A call, or a whole subagent, that ended. Keys are hashes, which are enough to tell a few of them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    /// Key of the thread it belongs to.
    pub thread: u32,
    /// Key of tool and input; none if the thread itself ended.
    pub call: Option<u32>,
    /// When it ended, CLOCK_MONOTONIC nanoseconds.
    pub mono_ns: u64,
}

clocks!(struct Wait { agent, tool, digest, kind, call, request, since } until { hidden_until });

clocks!(struct HiddenWaits { since, spent_ms } until {});

clocks!(none in WaitKind, Over);
