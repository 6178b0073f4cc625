//! Bounds the number of records that no verified event supports (H-49): anybody who can run a hook can open a
//! record for every name they invent.
//!
//! Records that only claims support are dropped first, then those of dead processes that the coordinator itself
//! had seen or found in a registry; the oldest first. The record of a living client is never dropped, nor is one
//! that a person marked or holds, or that waits for its recovery.

use alloc::vec::Vec;

use coord_model::{Moment, SessionKey};

use crate::effects::Effects;
use crate::records::State;

/// Maximum number of records without a verified event.
pub const UNVERIFIED_MAX: usize = 1000;

impl State {
    /// Drops unverified records beyond the limit, but none of `touched`: whether the client of a new record lives
    /// is not known before the next step. Returns the other records that this changed.
    pub(crate) fn drop_unverified(
        &mut self,
        touched: &[SessionKey],
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let mut changed = Vec::new();
        while UNVERIFIED_MAX < self.n_unverified() {
            let Some(key) = self.unverified().find(|key| !touched.contains(key)) else { break };
            let Some(id) = self.get(key).map(|session| session.session_id.clone()) else { break };
            let why = "the session was dropped: no verified event supported it, and there were too many such sessions";
            self.fail_messages_of(key, why, at, fx);
            self.drop_record(key, "its session was dropped", fx);
            let dropped = &mut self.header.counters.dropped;
            *dropped = dropped.saturating_add(1);
            // A record with the same id may have one owner again.
            for other in self.keys_of_id(&id).to_vec() {
                changed.extend(self.mark_two_owners(other));
            }
        }
        changed
    }
}
