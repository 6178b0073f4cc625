//! Derives when a record changes, or needs a look, by time alone. Deadlines are derived from the state and never
//! stored, so a restart loses no timer (G10).

use alloc::vec::Vec;

use coord_model::{Awake, Now, SessionKey};

use crate::fusion;
use crate::pane;
use crate::records::{Header, Message, Presence, SeenIds, Session, State};
use crate::registry;
use crate::request;

impl State {
    /// Rebuilds the state from its stored parts.
    pub fn from_parts(
        header: Header,
        sessions: Vec<Session>,
        messages: Vec<Message>,
        seen: SeenIds,
    ) -> Self {
        let mut state = Self::without_records(header, seen);
        messages.into_iter().for_each(|message| state.messages.put(message));
        sessions.into_iter().for_each(|session| state.put(session.into()));
        state.derive_deadlines();
        state
    }

    /// The CLOCK_MONOTONIC time, in nanoseconds, at which [`crate::step`] has to be called with a tick.
    pub fn next_deadline(&self) -> Option<u64> {
        let deadlines = [self.first_deadline(), self.message_deadline(), self.notice_deadline()];
        let awake = deadlines.into_iter().flatten().min()?;
        Some(awake.0.saturating_add(self.header.paused_ns))
    }

    /// Whether time alone has changed something by `now`, so that [`coord_model::Event::Due`] has to be recorded.
    pub fn is_due(&self, now: Now) -> bool {
        let awake = self.moment(now).awake;
        let others = [self.message_deadline(), self.notice_deadline()];
        let is_other_due = others.into_iter().flatten().any(|at| at <= awake);
        is_other_due || !self.due(awake, Self::changes_at).is_empty()
    }

    /// Derives the deadlines of all records that changed.
    pub(crate) fn derive_deadlines(&mut self) {
        for key in self.take_stale() {
            let Some(session) = self.get(key) else { continue };
            let deadline =
                self.changes_at(session).into_iter().chain(self.next_look(session)).min();
            self.set_deadline(key, deadline);
        }
    }

    /// The records that time alone has changed by `awake`.
    pub(crate) fn due_changes(&mut self, awake: Awake) -> Vec<SessionKey> {
        self.derive_deadlines();
        self.due(awake, Self::changes_at)
    }

    /// The records whose look is due by `awake`.
    pub(crate) fn due_looks(&mut self, awake: Awake) -> Vec<SessionKey> {
        self.derive_deadlines();
        self.due(awake, Self::next_look)
    }

    fn due(&self, awake: Awake, of: fn(&Self, &Session) -> Option<Awake>) -> Vec<SessionKey> {
        let is_due = |session: &&Session| of(self, session).is_some_and(|at| at <= awake);
        let due = self.behind_deadline(awake).filter(is_due);
        let mut due: Vec<SessionKey> = due.map(|session| session.key).collect();
        // Looks are not recorded and move deadlines, so their order may differ from that of a replay (G10).
        due.sort_unstable();
        due
    }

    /// When this record changes by time alone.
    fn changes_at(&self, session: &Session) -> Option<Awake> {
        self.fact_changes_at(session).into_iter().chain(self.recovery_at(session)).min()
    }

    fn fact_changes_at(&self, session: &Session) -> Option<Awake> {
        let settings = &self.header.settings;
        match *session.presence {
            Presence::Dying { since, .. } => {
                Some(since.awake.plus_ms(settings.death_judged_within_ms))
            }
            Presence::Alive => {
                let silence = self.is_judged_by_silence(session).then(|| {
                    let due = session.sign.plus_ms(settings.unknown_after_ms);
                    let settled = self.header.settling.as_ref().map_or(due, |hold| hold.until);
                    due.max(settled)
                });
                let is_open = self.is_weighed(session)
                    && fusion::is_behind(session)
                    && session.contested.is_none();
                let lag = is_open.then(|| fusion::lag_is_over(session));
                silence
                    .into_iter()
                    .chain(lag)
                    .chain(pane::stale_at(session))
                    .chain(registry::interrupted_at(session))
                    .chain(self.removed_elsewhere(session))
                    .chain(self.quota_at(session))
                    .chain(self.near_limit_until(session))
                    .chain(self.rest_at(session))
                    .chain(self.hold_told_at(session))
                    .chain(request::hidden_until(session))
                    .min()
            }
            Presence::Ended { .. }
            | Presence::Interrupted { .. }
            | Presence::Crashed { .. }
            | Presence::Gone { .. } => None,
        }
    }
}
