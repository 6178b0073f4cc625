//! What coord told a session at rest (S1-15, S1-23).

use serde::{Deserialize, Serialize};

use coord_model::{Awake, HookEvent, HookKind, Moment};

use super::budget::Budget;
use super::clocks::clocks;
use super::protected::Protected;

/// What coord told a session at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rest {
    /// The step number of the look in progress.
    pub asked: Option<u64>,
    /// Whether the session was looked at since its last turn.
    pub is_seen: bool,
    /// Looks since its last turn that found its transcript behind.
    #[serde(skip_serializing_if = "is_zero")]
    pub late_looks: u32,
    /// The newest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_at: Option<Awake>,
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

/// Looks after a turn that may find the transcript behind. A client writes it within moments, but for a busy disk.
const LATE_LOOKS_MAX: u32 = 5;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Protected<Rest> {
    /// A turn began.
    pub(crate) fn on_turn(&mut self, is_ours: bool, at: Moment) {
        self.0.prompted_ms = at.wall_ms;
        self.0.is_seen = false;
        (self.0.late_looks, self.0.late_at) = (0, None);
        self.0.is_at_limit = false;
        self.0.asked = None;
        if !is_ours {
            self.0.answers.next_turn();
        }
    }

    /// The transcript was behind. Returns whether it is looked at again, with the next heartbeat.
    pub(crate) fn look_again(&mut self, at: Moment) -> bool {
        let is_again = self.0.late_looks < LATE_LOOKS_MAX;
        if is_again {
            self.0.late_looks = self.0.late_looks.saturating_add(1);
            self.0.late_at = Some(at.awake);
            self.0.is_seen = false;
        }
        is_again
    }

    /// The look is due: there is one for each turn.
    pub(crate) fn note_seen(&mut self) {
        self.0.is_seen = true;
    }

    /// The look was requested.
    pub(crate) fn begin_look(&mut self, number: u64) {
        self.0.asked = Some(number);
    }

    /// The look was answered.
    pub(crate) fn end_look(&mut self) {
        self.0.asked = None;
    }

    /// Drops a look whose observer is gone, or whose result is too old. A new one is requested (G10, H-32).
    pub(crate) fn forget_look(&mut self) {
        if self.0.asked.take().is_some() {
            self.0.is_seen = false;
        }
    }

    /// The last message mentions a usage limit (S1-13).
    pub(crate) fn note_limit(&mut self) {
        self.0.is_at_limit = true;
    }

    /// The session was woken with an answer, in this step; none if it could not be.
    pub(crate) fn begin_answer(&mut self, number: Option<u64>) {
        self.0.answering = number;
    }

    /// The outcome of this step is known. Returns whether the step was an answer.
    pub(crate) fn end_answer(&mut self, number: u64) -> bool {
        let is_it = self.0.answering == Some(number);
        if is_it {
            self.0.answering = None;
        }
        is_it
    }

    /// An answer reached the session.
    pub(crate) fn charge_answer(&mut self, at: Moment) {
        self.0.answers.charge(at.awake);
    }

    /// The session was asked for a summary, if it could be woken.
    pub(crate) fn note_summary(&mut self, is_asked: bool) {
        self.0.is_summary_asked = is_asked;
    }

    /// The task signalled a new iteration (S1-16). The total that was used stays.
    pub(crate) fn begin_iteration(&mut self) {
        self.0.answers.next_turn();
    }

    /// A person resets what was used up.
    pub(crate) fn reset(&mut self) {
        self.0.answers.reset();
    }

    /// Resets on a new or compacted conversation: what coord told the session is no longer in it.
    pub(crate) fn on_hook(&mut self, event: &HookEvent) {
        if matches!(event.kind, HookKind::SessionStart(_)) {
            self.0 = Rest { answers: self.0.answers, ..Rest::default() };
        }
    }
}

clocks!(struct Rest {
    asked, is_seen, late_looks, late_at, answering, answers, is_summary_asked, is_at_limit, prompted_ms,
} until {});
