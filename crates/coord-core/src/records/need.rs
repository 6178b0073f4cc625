//! A reason why a session needs a person (U-01).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Moment, NeedId, NeedKind, RequestId};

use super::clocks::clocks;

/// A reason why a session needs a person, from its first evidence to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Its id.
    pub id: NeedId,
    /// What is needed.
    pub kind: NeedKind,
    /// For a prompt: the event that reported it; none if no hook has. Two identical requests are two needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
    /// Since when.
    pub since: Moment,
    /// Why, in words.
    pub reason: String,
    /// Whether a person dismissed it. It is still open, and no longer shown as a need.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_dismissed: bool,
}

clocks!(struct Need { id, kind, request, since, reason, is_dismissed } until {});
