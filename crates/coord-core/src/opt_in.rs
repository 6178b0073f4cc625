//! Decides whether a dead session comes back by itself (H-06).

use crate::records::{Cause, Pending, Session, Stage, State};

/// Why a dead session does not come back by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaysAway {
    /// It died again soon after a recovery: a person has to look.
    DiedAgain,
    /// Nobody asked for it.
    NotAskedFor,
}

impl State {
    /// Whether it comes back. `has_signature` says that its screen shows a crash signature of its own.
    pub(crate) fn comes_back(
        &self,
        session: &Session,
        pending: &Pending,
        has_signature: bool,
    ) -> Result<(), StaysAway> {
        if pending.by_hand || pending.cause == Cause::Signature {
            return Ok(());
        }
        let died = pending.died_at.map(|at| at.awake).unwrap_or_default();
        let again_ms = self.header.settings.dies_again_within_ms;
        let is_again = session.recovery.verified_at.is_some_and(|at| died.ms_since(at) < again_ms);
        if is_again && !has_signature {
            return Err(StaysAway::DiedAgain);
        }
        if has_signature || self.is_unattended(session) || self.is_opted_in(session) {
            return Ok(());
        }
        Err(StaysAway::NotAskedFor)
    }

    /// Whether it comes back by the known facts, before any look.
    pub(crate) fn is_to_come_back(&self, session: &Session, pending: &Pending) -> bool {
        let is_decided = pending.is_graced || matches!(pending.stage, Stage::Grace { .. });
        is_decided || self.comes_back(session, pending, session.has_own_signature()).is_ok()
    }
}
