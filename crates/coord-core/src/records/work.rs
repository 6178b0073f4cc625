//! The repository of a session's work, as it was after its client died.

use serde::{Deserialize, Serialize};

use coord_model::{Moment, Work};

use super::clocks::clocks;
use super::protected::Protected;

/// The look at the repository of a session's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkLook {
    /// It was requested, and has not been answered.
    Requested,
    /// It was answered.
    Seen {
        /// What it found.
        work: Work,
        /// When.
        at: Moment,
    },
}

impl Protected<Option<WorkLook>> {
    /// A look is requested.
    pub(crate) fn request(&mut self) {
        self.0 = Some(WorkLook::Requested);
    }

    /// Whether the look was requested, and has not been answered.
    pub fn is_requested(&self) -> bool {
        self.0 == Some(WorkLook::Requested)
    }

    /// The look was answered.
    pub(crate) fn see(&mut self, work: Work, at: Moment) {
        self.0 = Some(WorkLook::Seen { work, at });
    }

    /// The session goes on, or the look has to be requested again.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

clocks!(enum WorkLook {
    Requested {} until {}
    Seen { work: work, at: at } until {}
});

clocks!(none in Work);
