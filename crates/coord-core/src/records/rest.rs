//! What was told to a session at rest (S1-15, S1-23).

use serde::{Deserialize, Serialize};

use coord_model::{HookEvent, HookKind, Moment};

use super::budget::Budget;
use super::clocks::clocks;

/// What was told to a session at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rest {
    /// The look that is under way: the number of its step.
    pub asked: Option<u64>,
    /// It was looked at since its last turn.
    pub is_seen: bool,
    /// The answer that is under way: the number of its step.
    pub answering: Option<u64>,
    /// Answers that reached it (S1-15); the iteration is its turn.
    pub answers: Budget,
    /// It was asked for a summary since its conversation began or was compacted.
    pub is_summary_asked: bool,
    /// Its last message speaks of a limit: it waits, and does not stall (S1-13).
    pub is_at_limit: bool,
    /// When its last turn was prompted, milliseconds since 1970.
    pub prompted_ms: u64,
}

impl Rest {
    /// A turn began.
    pub(crate) fn on_turn(&mut self, is_ours: bool, at: Moment) {
        self.prompted_ms = at.wall_ms;
        self.is_seen = false;
        self.is_at_limit = false;
        self.asked = None;
        if !is_ours {
            self.answers.next_turn();
        }
    }

    /// Whoever was to look is gone, or what it finds is too old: it is looked at anew (G10, H-32).
    pub(crate) fn forget_look(&mut self) {
        if self.asked.take().is_some() {
            self.is_seen = false;
        }
    }

    /// Another conversation, or the same compacted: what was told to it is not in it.
    pub(crate) fn on_hook(&mut self, event: &HookEvent) {
        if matches!(event.kind, HookKind::SessionStart(_)) {
            *self = Self { answers: self.answers, ..Self::default() };
        }
    }
}

clocks!(struct Rest {
    asked, is_seen, answering, answers, is_summary_asked, is_at_limit, prompted_ms,
} until {});
