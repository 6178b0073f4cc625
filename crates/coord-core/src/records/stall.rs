//! The screen that the next heartbeat is compared with, and the tools that run (S1-04, S1-05).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment, StallLimits};

use super::clocks::clocks;

/// A captured screen, and the heartbeats that found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Digest of the screen, without what moves by itself (S1-04).
    pub digest: u64,
    /// When the screen was found first, or a hook last reported a change.
    pub since: Moment,
    /// When the last heartbeat was counted.
    pub at: Awake,
    /// Heartbeats in a row that found it again (S1-05).
    pub count: u32,
}

/// What happens in an open turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
    /// The model answers.
    Thinking,
    /// A tool runs.
    Tool,
    /// A call to an MCP server is in progress.
    Mcp,
    /// A subagent works.
    Subagent,
    /// A request to the API is being retried.
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
            Self::Thinking => "the client waits for the model",
            Self::Tool => "a tool runs",
            Self::Mcp => "an MCP server is called",
            Self::Subagent => "a subagent works",
            Self::Retry => "a request is retried",
        }
    }
}

/// A tool call of the main thread that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// The kind of tool.
    pub activity: Activity,
    /// The tool; empty if no event named it.
    #[serde(default)]
    pub tool: String,
    /// Since when; none in records of version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Moment>,
    /// Digest of the call's input; none if no event named it.
    pub digest: Option<u64>,
    /// The client's id of the call; none if no event named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// A permission request is known to be about this call. Another request is about another one, also after this call
    /// was denied, which no hook reports.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub has_asked: bool,
}

clocks!(struct Stall { digest, since, at, count } until {});

clocks!(struct UnderWay { activity, tool, since, digest, call, has_asked } until {});

clocks!(none in Activity);
