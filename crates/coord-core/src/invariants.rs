//! Counts what must never be: the metric of these must read 0.

use crate::records::{Presence, Session, State};
use coord_model::Now;

/// A deadline may be served this much late before it counts.
const LATE_MS: u64 = 10_000;

impl State {
    /// Violations in the present state.
    ///
    /// - A death is judged in time (H-05).
    /// - A record's current id is not among its previous ones, and the record is found by it.
    /// - A process holds at most one record.
    /// - A message is given back one sweep behind its deadline at the latest (G3).
    pub fn violations(&self, now: Now) -> u64 {
        let awake = self.moment(now).awake;
        let judged_within_ms = self.header().settings.death_judged_within_ms;
        let violates = |session: &&Session| {
            let is_unjudged = match session.presence {
                Presence::Dying { since, .. } => {
                    judged_within_ms.saturating_add(LATE_MS) < awake.ms_since(since.awake)
                }
                Presence::Alive
                | Presence::Ended { .. }
                | Presence::Interrupted { .. }
                | Presence::Crashed { .. }
                | Presence::Gone { .. } => false,
            };
            let is_lost = session.previous_ids.contains(&session.session_id)
                || !self.keys_of_id(&session.session_id).contains(&session.key);
            let is_robbed = session
                .owner
                .as_ref()
                .is_some_and(|owner| self.key_of_owner(&owner.id) != Some(session.key));
            is_unjudged || is_lost || is_robbed
        };
        let violations = self.sessions().filter(violates).count();
        let violations = u64::try_from(violations).unwrap_or(u64::MAX);
        violations.saturating_add(self.overdue_leases(awake))
    }
}
