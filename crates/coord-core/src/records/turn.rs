//! The turn of a session's main thread, who started it, and the events that were counted.

use serde::{Deserialize, Serialize};

use coord_model::Moment;

use super::clocks::clocks;
use super::facts::Source;
use super::protected::Protected;

/// The turn of the main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Turn {
    /// This process has sent no prompt. Without a turn edge from it, nothing shows whether a turn is open.
    None,
    /// A turn is open.
    Open {
        /// Since when.
        since: Moment,
        /// Prompts that were typed during the turn and are not answered yet.
        queued: u32,
    },
    /// The last turn ended.
    Closed {
        /// When.
        at: Moment,
    },
    /// The last turn was interrupted. No hook reports that; another source did.
    Interrupted {
        /// When.
        at: Moment,
        /// The source.
        by: Source,
        /// Whether prompts were queued, and no event of their turn had come. A registry says idle before such a turn too
        ///
        #[serde(default)]
        had_queued: bool,
    },
}

/// Who started a turn (H-35, S1-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Starter {
    /// The session's user, as far as is known.
    #[default]
    User,
    /// A wake from coord was sent, and no prompt has followed yet. The next prompt is not the user's.
    Awaited,
    /// Coord, by a wake.
    Coord,
}

/// Counts of a session's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Events applied.
    pub events: u64,
    /// Turns opened.
    pub turns: u64,
    /// Events that came too late to change anything (G2).
    pub late: u64,
    /// Events that were only counted (H-29).
    pub folded: u64,
    /// Events whose sender could not be proved (H-25).
    pub unverified: u64,
}

impl Protected<Turn> {
    /// A turn begins. So many prompts that were typed during the last one are not answered by it.
    pub(crate) fn begin(&mut self, queued: u32, at: Moment) {
        self.0 = Turn::Open { since: at, queued };
    }

    /// A prompt was typed during the open turn.
    pub(crate) fn queue(&mut self) {
        if let Turn::Open { queued, .. } = &mut self.0 {
            *queued = queued.saturating_add(1);
        }
    }

    /// A Stop that came too late answered one of the queued prompts.
    pub(crate) fn answer_queued(&mut self) {
        if let Turn::Open { queued, .. } = &mut self.0 {
            *queued = queued.saturating_sub(1);
        }
    }

    /// The turn ended.
    pub(crate) fn end(&mut self, at: Moment) {
        self.0 = Turn::Closed { at };
    }

    /// The open turn does not continue with a message after all. A prompt that arrived meanwhile has a turn of its own.
    pub(crate) fn end_continuation(&mut self, at: Moment) {
        let Turn::Open { queued, .. } = &mut self.0 else { return };
        match queued.checked_sub(1) {
            Some(left) => *queued = left,
            None => self.end(at),
        }
    }

    /// The turn was interrupted, by the report of this source.
    pub(crate) fn interrupt(&mut self, by: Source, had_queued: bool, at: Moment) {
        self.0 = Turn::Interrupted { at, by, had_queued };
    }

    /// The conversation begins, or is over, or another process has it.
    pub(crate) fn forget(&mut self) {
        self.0 = Turn::None;
    }
}

impl Protected<Starter> {
    /// A wake was sent: the next prompt is coord's.
    pub(crate) fn expect_ours(&mut self) {
        self.0 = Starter::Awaited;
    }

    /// The next prompt is the user's, as far as is known.
    pub(crate) fn expect_user(&mut self) {
        self.0 = Starter::User;
    }

    /// A prompt opened a turn. Returns whether it is coord's.
    pub(crate) fn on_prompt(&mut self) -> bool {
        let is_ours = self.0 == Starter::Awaited;
        self.0 = if is_ours { Starter::Coord } else { Starter::User };
        is_ours
    }
}

impl Protected<Counts> {
    /// An event was applied.
    pub(crate) fn count(&mut self, is_verified: bool) {
        self.0.events = self.0.events.saturating_add(1);
        if !is_verified {
            self.0.unverified = self.0.unverified.saturating_add(1);
        }
    }

    /// That event came too late to change anything.
    pub(crate) fn count_late(&mut self) {
        self.0.late = self.0.late.saturating_add(1);
    }

    /// An event was only counted.
    pub(crate) fn count_folded(&mut self) {
        self.0.folded = self.0.folded.saturating_add(1);
    }

    /// A turn was opened.
    pub(crate) fn count_turn(&mut self) {
        self.0.turns = self.0.turns.saturating_add(1);
    }
}

clocks!(enum Turn {
    None {} until {}
    Open { since: since, queued: queued } until {}
    Closed { at: at } until {}
    Interrupted { at: at, by: by, had_queued: had_queued } until {}
});

clocks!(none in Counts, Starter);
