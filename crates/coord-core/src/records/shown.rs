//! What a session is shown as (S0-00).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Moment, SessionState};

use super::clocks::clocks;

/// What a session is shown as, since when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownState {
    /// Its state.
    #[serde(rename = "word")]
    pub state: SessionState,
    /// Since when.
    pub since: Moment,
    /// Requirement id of the rule that gave it.
    pub rule: String,
    /// Why, in words.
    pub because: String,
}

impl ShownState {
    pub(crate) fn unknown(at: Moment) -> Self {
        Self {
            state: SessionState::Unknown,
            since: at,
            rule: String::new(),
            because: String::new(),
        }
    }
}

clocks!(struct ShownState { state, since, rule, because } until {});
