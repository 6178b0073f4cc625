//! Decides when the people at a session are told that a hold on it lasts (H-35).
//!
//! Each hold is told once: a person's, that of a stop file, and the wait for a usage limit or for the API. Of the holds of a
//! recovery tells the recovery itself.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coord_model::{Awake, Moment};

use crate::effects::Effects;
use crate::records::{Session, State};

/// Age at which a hold is told, in milliseconds.
pub(crate) const TOLD_AFTER_MS: u64 = 1_800_000;

impl State {
    /// When the people at the session are told of a hold next.
    pub(crate) fn hold_told_at(&self, session: &Session) -> Option<Awake> {
        self.untold_holds(session).into_iter().map(|(since, _)| since.plus_ms(TOLD_AFTER_MS)).min()
    }

    /// Tells the people at the session of each hold on it that has lasted for half an hour.
    pub(crate) fn tell_of_holds(&self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let mut due = self.untold_holds(session);
        due.retain(|(since, _)| since.plus_ms(TOLD_AFTER_MS) <= at.awake);
        for (since, reason) in due {
            session.told_hold = session.told_hold.max(Some(since));
            let saw = format!("on hold for half an hour: {reason}");
            fx.notify(session, "H-35", &saw);
        }
    }

    /// The holds on the session that last for so long, and that nobody was told of: since when, and why.
    fn untold_holds(&self, session: &Session) -> Vec<(Awake, String)> {
        let is_ours = session.may_live() && self.is_local(session) && !session.is_foreign;
        if !is_ours || session.recovery.pending.is_some() {
            return Vec::new();
        }
        let holds = [&*session.held, &session.task.stop, &self.header.machine.held];
        let holds = holds.into_iter().flatten().filter_map(|hold| {
            let since = hold.since.awake;
            hold.lasts(since.plus_ms(TOLD_AFTER_MS)).then(|| (since, hold.reason.clone()))
        });
        let quota = session
            .quota
            .iter()
            .map(|quota| (quota.since.awake, format!("waits for {}", quota.waited_for.words())));
        holds.chain(quota).filter(|(since, _)| session.told_hold < Some(*since)).collect()
    }
}
