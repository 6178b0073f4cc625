//! A person's reply to a request, from the order to what became of it.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Moment, NeedId, ProcessRef, ReplyKind, ReplyOutcome, RequestId};

use super::clocks::clocks;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The request.
    pub request: RequestId,
    /// The need that it answers.
    pub need: NeedId,
    /// The hook process that it was handed to.
    pub hook: ProcessRef,
    /// What was replied.
    pub kind: ReplyKind,
    /// The tool.
    pub tool: String,
    /// The client's id of the call; none if no event named it, and nothing then proves the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// When it was ordered.
    pub at: Moment,
    /// What became of it; none while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ReplyOutcome>,
}

clocks!(none in ReplyKind, ReplyOutcome);

clocks!(struct Reply { request, need, hook, kind, tool, call, at, outcome } until {});
