//! A reason why a session needs a person (U-01).

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Moment, NeedId, NeedKind, RequestId};

use super::clocks::clocks;
use super::protected::Protected;

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

impl Protected<Vec<Need>> {
    /// Needs began or ended: these are left, the oldest first.
    pub(crate) fn update(&mut self, needs: Vec<Need>) {
        self.0 = needs;
    }

    /// A person dismissed this need. Returns it.
    pub(crate) fn dismiss(&mut self, id: NeedId) -> Option<&Need> {
        let need = self.0.iter_mut().find(|need| need.id == id)?;
        need.is_dismissed = true;
        Some(need)
    }
}

clocks!(struct Need { id, kind, request, since, reason, is_dismissed } until {});
