//! Whether a session's harness is there, and if not, how it ended.

use serde::{Deserialize, Serialize};

use coord_model::{EndReason, Moment};

use super::clocks::clocks;
use super::host_event::HostEvent;
use super::protected::Protected;

/// Whether the harness is there, and if not, how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// It is there, as far as is known.
    Alive,
    /// Its process is gone. What the process left behind is being read (H-05).
    Dying {
        /// Since when.
        since: Moment,
        /// Whether the pane is being captured, because the registry did not decide.
        asks_pane: bool,
        /// Whether its end was reported as it happened. Else it was found dead, and may have been dead for a long
        /// time.
        #[serde(default)]
        is_fresh: bool,
    },
    /// The client ended its session.
    Ended {
        /// The client's reason; none if only the removed registry entry shows the end.
        reason: Option<EndReason>,
        /// When.
        at: Moment,
    },
    /// A host event ended it (H-10).
    Interrupted {
        /// The host event.
        by: HostEvent,
        /// When.
        at: Moment,
    },
    /// It died without ending its session, and there is positive evidence for that (H-05).
    Crashed {
        /// When.
        at: Moment,
    },
    /// Its process is gone, and there is no evidence of how it ended (H-05).
    Gone {
        /// When.
        at: Moment,
    },
}

impl Protected<Presence> {
    /// A harness holds the session, or reports that it goes on.
    pub(crate) fn live(&mut self) {
        self.0 = Presence::Alive;
    }

    /// The harness is gone. `is_fresh`: its end was reported as it happened.
    pub(crate) fn die(&mut self, is_fresh: bool, at: Moment) {
        self.0 = Presence::Dying { since: at, asks_pane: false, is_fresh };
    }

    /// The registry did not decide how it died: its pane is captured.
    pub(crate) fn ask_pane(&mut self) {
        if let Presence::Dying { asks_pane, .. } = &mut self.0 {
            *asks_pane = true;
        }
    }

    /// What the harness left behind shows how it ended, or shows nothing.
    pub(crate) fn judge(&mut self, end: Presence) {
        self.0 = end;
    }

    /// The client ended its session.
    pub(crate) fn end(&mut self, reason: EndReason, at: Moment) {
        self.0 = Presence::Ended { reason: Some(reason), at };
    }

    /// A host event ended the session (H-10).
    pub(crate) fn interrupt(&mut self, by: HostEvent, at: Moment) {
        self.0 = Presence::Interrupted { by, at };
    }

    /// No harness is known, or nothing tells what became of it.
    pub(crate) fn lose(&mut self, at: Moment) {
        self.0 = Presence::Gone { at };
    }
}

clocks!(enum Presence {
    Alive {} until {}
    Dying { since: since, asks_pane: asks, is_fresh: fresh } until {}
    Ended { reason: reason, at: at } until {}
    Interrupted { by: by, at: at } until {}
    Crashed { at: at } until {}
    Gone { at: at } until {}
});
