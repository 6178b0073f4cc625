//! The screen that the next heartbeat is compared with, and the tools that run (S1-04, S1-05).

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment, StallLimits};

use super::clocks::clocks;
use super::protected::Protected;

/// Maximum number of tool calls remembered as in progress.
const UNDER_WAY_MAX: usize = 16;

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
    /// When its hook was emitted, CLOCK_MONOTONIC nanoseconds.
    #[serde(default)]
    pub mono_ns: u64,
    /// Whether a prompt was about it. Each call is asked about once, and no hook reports the end of one that was refused
    /// at its terminal (measured), so the next prompt for the same input is about another.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_asked: bool,
}

impl Protected<Option<Stall>> {
    /// A look found another screen, or the first one: the count begins.
    pub(crate) fn begin_count(&mut self, digest: u64, at: Moment) {
        self.0 = Some(Stall { digest, since: at, at: at.awake, count: 0 });
    }

    /// A look found the same screen, so many heartbeats after the last one.
    pub(crate) fn count(&mut self, beats: u32, at: Moment) {
        let Some(stall) = &mut self.0 else { return };
        stall.at = at.awake;
        stall.count = stall.count.saturating_add(beats);
    }

    /// A hook reported change, whatever the screen shows.
    pub(crate) fn note_change(&mut self, at: Moment) {
        if let Some(Stall { digest, .. }) = self.0 {
            self.begin_count(digest, at);
        }
    }

    /// Its stillness is explained, or was not observed for a while.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

impl Protected<Vec<UnderWay>> {
    /// A call began. If there are too many, the oldest may be one of whose end no hook told.
    pub(crate) fn begin(&mut self, call: UnderWay) {
        if self.0.len() == UNDER_WAY_MAX {
            self.0.remove(0);
        }
        self.0.push(call);
    }

    /// A prompt is about the only one of these calls. Returns the client's id of it; none if there are several.
    pub(crate) fn ask_about(&mut self, is_it: impl Fn(&UnderWay) -> bool) -> Option<String> {
        let mut found = self.0.iter_mut().filter(|one| is_it(one));
        let (one, None) = (found.next()?, found.next()) else { return None };
        one.is_asked = true;
        one.call.clone()
    }

    /// A call ended. It is known by its id, or by its input where no id is given.
    pub(crate) fn end(&mut self, call: Option<&String>, digest: Option<u64>) {
        let is_it = |one: &UnderWay| match (&one.call, call) {
            (Some(one), Some(call)) => one == call,
            (None, _) | (_, None) => one.digest == digest,
        };
        if let Some(at) = self.0.iter().position(is_it) {
            self.0.remove(at);
        }
    }

    /// The transcript says how the call was decided, which no hook reports of a denial.
    pub(crate) fn end_decided(&mut self, call: &str) {
        self.0.retain(|one| one.call.as_deref() != Some(call));
    }

    /// The turn is over, or another one begins.
    pub(crate) fn end_all(&mut self) {
        self.0.clear();
    }
}

clocks!(struct Stall { digest, since, at, count } until {});

clocks!(struct UnderWay { activity, tool, since, digest, call, mono_ns, is_asked } until {});

clocks!(none in Activity);
