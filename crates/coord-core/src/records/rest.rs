//! What coord told a session at rest (S1-15, S1-23).

use serde::{Deserialize, Serialize};

use coord_model::{HookEvent, HookKind, Moment};

use super::budget::Budget;
use super::clocks::clocks;

/// What coord told a session at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rest {
    /// The step number of the look in progress.
    pub asked: Option<u64>,
    /// Whether the session was looked at since its last turn.
    pub is_seen: bool,
    /// The step number of the answer in progress.
    pub answering: Option<u64>,
    /// Answers that reached it (S1-15). Their budget per turn is the iteration.
    pub answers: Budget,
    /// Whether it was asked for a summary since its conversation began or was compacted.
    pub is_summary_asked: bool,
    /// Whether its last message mentions a usage limit: it then waits, and is not stalled (S1-13).
    pub is_at_limit: bool,
    /// When its last turn was prompted, milliseconds since 1970.
    pub prompted_ms: u64,
}

impl Rest {
    /// Notes that a turn began.
    pub(crate) fn on_turn(&mut self, is_ours: bool, at: Moment) {
        self.prompted_ms = at.wall_ms;
        self.is_seen = false;
        self.is_at_limit = false;
        self.asked = None;
        if !is_ours {
            self.answers.next_turn();
        }
    }

    /// Drops a look whose observer is gone, or whose result is too old. A new one is requested (G10, H-32).
    pub(crate) fn forget_look(&mut self) {
        if self.asked.take().is_some() {
            self.is_seen = false;
        }
    }

    /// Resets on a new or compacted conversation: what coord told the session is no longer in it.
    pub(crate) fn on_hook(&mut self, event: &HookEvent) {
        if matches!(event.kind, HookKind::SessionStart(_)) {
            *self = Self { answers: self.answers, ..Self::default() };
        }
    }
}

clocks!(struct Rest {
    asked, is_seen, answering, answers, is_summary_asked, is_at_limit, prompted_ms,
} until {});
