//! What supports a record without a verified event (H-49).

use super::marks::Marks;
use super::owner::{Owner, OwnerProof};
use super::session::Session;

/// What supports a record without a verified event, in the order in which such records are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Support {
    /// Only claims.
    Claimed,
    /// The coordinator saw its process, or read its registry entry.
    Corroborated,
}

impl Session {
    /// What supports it; none if the record counts as verified.
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
