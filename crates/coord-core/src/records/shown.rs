//! What a session is shown as (S0-00).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Moment, SessionState};

use super::clocks::clocks;
use super::protected::Protected;

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

impl Protected<ShownState> {
    /// The facts show this state now, by this rule.
    pub(crate) fn show(&mut self, state: SessionState, rule: &str, because: String, at: Moment) {
        let since = if self.0.state == state { self.0.since } else { at };
        self.0 = ShownState { state, since, rule: rule.into(), because };
    }
}

clocks!(struct ShownState { state, since, rule, because } until {});
