//! The screen that is compared with the next one, and the tools that run (S1-04, S1-05).

use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment, StallLimits};

use super::clocks::clocks;

/// A screen that was captured for the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// What stood on it, without what moves by itself (S1-04).
    pub digest: u64,
    /// When it was found first, or a hook told of change.
    pub since: Moment,
    /// When it was counted last.
    pub at: Awake,
    /// Heartbeats in a row that found it again (S1-05).
    pub count: u32,
}

/// What an open turn is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
    /// The model answers.
    Thinking,
    /// A tool runs.
    Tool,
    /// An MCP server is asked.
    Mcp,
    /// A subagent works.
    Subagent,
    /// A request is tried again.
    Retry,
}

impl Activity {
    pub(crate) fn of_tool(name: &str) -> Self {
        match name {
            "Task" | "Agent" => Self::Subagent,
            _ if name.starts_with("mcp__") => Self::Mcp,
            _ => Self::Tool,
        }
    }

    pub(crate) fn after_ms(self, limits: &StallLimits) -> u64 {
        match self {
            Self::Thinking => limits.thinking_after_ms,
            Self::Tool => limits.tool_after_ms,
            Self::Mcp => limits.mcp_after_ms,
            Self::Subagent => limits.subagent_after_ms,
            Self::Retry => limits.retry_after_ms,
        }
    }

    /// In words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Thinking => "it waits for the model",
            Self::Tool => "a tool runs",
            Self::Mcp => "an MCP server is asked",
            Self::Subagent => "a subagent works",
            Self::Retry => "its request is tried again",
        }
    }
}

/// A call of a tool by the main thread that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// What kind of tool it is.
    pub activity: Activity,
    /// Which call, by its input, where an event named it.
    pub digest: Option<u64>,
}

clocks!(struct Stall { digest, since, at, count } until {});

clocks!(none in UnderWay);
