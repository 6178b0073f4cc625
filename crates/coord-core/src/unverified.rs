//! Bounds how many records exist that no verified event stands behind (H-49): anybody who can run a hook
//! can open one for each name that comes to mind.
//!
//! The oldest go first. A record is not counted once anything but unproved events speaks for it: a
//! verified event, a process that was seen alive, a person's mark or hold, a pending recovery.

use alloc::vec::Vec;

use crate::effect::Effects;
use crate::operator::Marks;
use crate::session::{Session, SessionKey};
use crate::state::State;
use crate::time::Moment;

/// Records without a verified event, at most.
pub const UNVERIFIED_MAX: usize = 1000;

impl Session {
    /// Whether nothing but unproved events speaks for it.
    pub(crate) fn is_unverified(&self) -> bool {
        let owner = self.owner.as_ref();
        let was_verified = self.counts.unverified < self.counts.events
            || owner.is_some_and(|owner| owner.has_reported);
        let was_seen = self.launch.is_some()
            || owner.and_then(|owner| owner.seen_alive).is_some_and(|(is_alive, _)| is_alive);
        let is_wanted = self.marks != Marks::default()
            || self.held.is_some()
            || self.recovery.pending.is_some();
        !was_verified && !was_seen && !is_wanted
    }
}

impl State {
    /// Drops the oldest unverified records beyond the limit. Returns the other records that this changed.
    pub(crate) fn drop_unverified(&mut self, at: Moment, fx: &mut Effects) -> Vec<SessionKey> {
        let mut changed = Vec::new();
        while UNVERIFIED_MAX < self.n_unverified() {
            let Some(key) = self.oldest_unverified() else { break };
            let Some(id) = self.get(key).map(|session| session.session_id.clone()) else { break };
            let why = "its session was dropped: no verified event stood behind it, and there were too many such sessions";
            self.fail_messages_of(key, why, at, fx);
            self.remove(key);
            let dropped = &mut self.header.counters.dropped;
            *dropped = dropped.saturating_add(1);
            // What it shared its id with may have one owner again.
            for other in self.keys_of_id(&id).to_vec() {
                changed.extend(self.mark_two_owners(other));
            }
        }
        changed
    }
}
