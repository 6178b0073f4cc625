//! A person's reply to a request, from the order to what became of it.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Moment, NeedId, ProcessRef, ReplyKind, ReplyOutcome, RequestId};

use super::clocks::clocks;
use super::protected::Protected;

/// Replies that are remembered for each session, the newest.
const REPLIES_MAX: usize = 8;

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

impl Protected<Vec<Reply>> {
    /// A person replied.
    pub(crate) fn remember(&mut self, reply: Reply) {
        if self.0.len() == REPLIES_MAX {
            self.0.remove(0);
        }
        self.0.push(reply);
    }

    /// What became of the reply to this request is known.
    pub(crate) fn note_outcome(&mut self, request: RequestId, outcome: ReplyOutcome) {
        if let Some(reply) = self.0.iter_mut().find(|one| one.request == request) {
            reply.outcome = Some(outcome);
        }
    }
}

clocks!(none in ReplyKind, ReplyOutcome);

clocks!(struct Reply { request, need, hook, kind, tool, call, at, outcome } until {});
