//! Counts violations of the invariants: this metric must read 0.

use crate::records::{Presence, Session, State};
use coord_model::Now;

/// How late a deadline may be served before that counts as a violation, in milliseconds.
const LATE_MS: u64 = 10_000;

impl State {
    /// The number of violations in the present state.
    ///
    /// - A death is judged in time (H-05).
    /// - A record's current id is not among its previous ones, and the record is found by it.
    /// - A process holds at most one record.
    /// - A message is returned at most one sweep after its deadline (G3).
    pub fn violations(&self, now: Now) -> u64 {
        let awake = self.moment(now).awake;
        let judged_within_ms = self.header().settings.death_judged_within_ms;
        let violates = |session: &&Session| {
            let is_unjudged = match *session.presence {
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
