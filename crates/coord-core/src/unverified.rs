//! Bounds how many records exist that no verified event supports (H-49): anybody who can run a hook can open
//! one for each name that comes to mind.
//!
//! Records that only claims support go first, then those of dead processes that the coordinator itself
//! had seen or found in a registry; the oldest first. The record of a living client is never one of them,
//! nor is one that a person marked or holds, or that waits for its recovery.

use alloc::vec::Vec;

use coord_model::{Moment, SessionKey};

use crate::effects::Effects;
use crate::operator::Marks;
use crate::owner::{Owner, OwnerProof};
use crate::session::Session;
use crate::state::State;

/// Records without a verified event, at most.
pub const UNVERIFIED_MAX: usize = 1000;

/// What supports a record without a verified event, in the order in which such records are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Support {
    /// Only claims.
    Claimed,
    /// The coordinator saw its process, or read its registry entry.
    Corroborated,
}

impl Session {
    /// What supports it; none where it counts as verified.
    pub(crate) fn unverified_support(&self) -> Option<Support> {
        let owner = self.owner.as_ref();
        let was_seen = |owner: &Owner| owner.seen_alive.is_some();
        let is_alive = |owner: &Owner| matches!(owner.seen_alive, Some((true, _)));
        let is_verified = self.counts.unverified < self.counts.events
            || owner.is_some_and(|owner| owner.has_reported);
        let lives = self.may_live() && owner.is_some_and(is_alive);
        let is_wanted = self.marks != Marks::default()
            || self.held.is_some()
            || self.recovery.pending.is_some();
        if is_verified || lives || is_wanted {
            return None;
        }
        let is_corroborated =
            owner.is_some_and(|owner| was_seen(owner) || owner.proof != OwnerProof::Claimed);
        Some(if is_corroborated { Support::Corroborated } else { Support::Claimed })
    }
}

impl State {
    /// Drops unverified records beyond the limit, but none of `touched`: whether the client of a new one
    /// lives is not known before the next step. Returns the other records that this changed.
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
            let why = "its session was dropped: no verified event supported it, and there were too many such sessions";
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
