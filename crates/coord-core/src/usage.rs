//! Decides which numbers of a status line count, and for whom (Q-01, Q-02, N-08).
//!
//! A status line is believed only from a verified child of the client that holds the session (H-44). It is no sign of
//! work and changes no state: the client draws it by a timer too. Only a usage limit that is used up tells a session
//! that waits for it when the limit resets.

use alloc::vec;
use alloc::vec::Vec;

use coord_model::{
    Awake, HookEvent, HookKind, Moment, NeedKind, Now, SessionKey, SessionState, Usage,
};

use crate::effects::Effects;
use crate::identity::owner_of;
use crate::records::{QuotaWait, Session, State};

/// A usage limit that a session has almost reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NearLimit {
    /// `5-hour` or `7-day`.
    pub(crate) name: &'static str,
    /// How much of it is used.
    pub(crate) percent: u64,
    /// Since when that is known.
    pub(crate) since: Moment,
    /// When it resets.
    pub(crate) until: Awake,
}

/// Numbers that did not change are recorded again after so many milliseconds, so that their age says how fresh they are.
const AGAIN_MS: u64 = 60_000;

impl State {
    /// Whether an event tells nothing that is worth a record: numbers of a status line that are known, or that nobody
    /// believes.
    pub fn is_old_usage(&self, event: &HookEvent, now: Now) -> bool {
        let HookKind::StatusLine(numbers) = &event.kind else { return false };
        let Some(said) = self.session_of_status_line(event).map(|session| &*session.usage) else {
            return true;
        };
        let at = self.moment(now);
        said.as_ref().is_some_and(|said| {
            said.numbers == **numbers && at.awake.ms_since(said.said.awake) < AGAIN_MS
        })
    }

    /// Takes in the numbers of a status line. Returns the records that changed.
    pub(crate) fn note_usage(
        &mut self,
        event: &HookEvent,
        numbers: &Usage,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let key = self.session_of_status_line(event).map(|session| session.key);
        let Some(mut session) = key.and_then(|key| self.take(key)) else { return Vec::new() };
        let key = session.key;
        session.usage.say(numbers.clone(), at);
        let config_dir = session.config_dir.clone();
        self.put(session);
        self.header.accounts.say(&config_dir, numbers, at);
        let mut changed = vec![key];
        changed.extend(self.tell_reset(&config_dir, at, fx));
        changed
    }

    /// The limit that a session has almost reached, as its own status line said, if people want to be told; and when it
    /// resets.
    pub(crate) fn near_limit(&self, session: &Session) -> Option<NearLimit> {
        let at_least = self.header.settings.quota.need_at_percent?;
        // One that has reached it waits; what is unknown begins nothing.
        let is_open =
            !matches!(session.shown.state, SessionState::QuotaWait | SessionState::Unknown);
        let said = session.usage.as_ref().filter(|_| session.may_live() && is_open)?;
        let limits = [("5-hour", said.numbers.five_hour()), ("7-day", said.numbers.seven_day())];
        let near = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
        let near = near.filter(|(_, limit)| u64::from(at_least) <= limit.percent.whole());
        // The limit that lasts longest.
        let (name, limit) = near.max_by_key(|(_, limit)| limit.resets_ms)?;
        let left_ms = limit.resets_ms.saturating_sub(said.said.wall_ms);
        let until = said.said.awake.plus_ms(left_ms);
        Some(NearLimit { name, percent: limit.percent.whole(), since: said.said, until })
    }

    /// When it is over that a session has almost reached a limit.
    pub(crate) fn near_limit_until(&self, session: &Session) -> Option<Awake> {
        let is_shown = session.needs.iter().any(|need| need.kind == NeedKind::UsageLimit);
        self.near_limit(session).filter(|_| is_shown).map(|near| near.until)
    }

    /// The session that a status line is about, if it is believed.
    fn session_of_status_line(&self, event: &HookEvent) -> Option<&Session> {
        let owner = owner_of(event).filter(|_| event.is_verified())?;
        let session = self.get(self.key_of_owner(&owner)?)?;
        (session.session_id == event.session_id && session.may_live()).then_some(session)
    }

    /// Tells the sessions of an account that wait for a usage limit when it resets.
    fn tell_reset(&mut self, config_dir: &str, at: Moment, fx: &mut Effects) -> Vec<SessionKey> {
        let is_asking = |session: &Session| {
            session.config_dir == config_dir
                && session.quota.as_ref().is_some_and(QuotaWait::asks_for_reset)
        };
        let mut changed = Vec::new();
        let is_used_up = self.header.accounts.used_up_until(config_dir, at).is_some();
        for key in if is_used_up { self.keys_of(is_asking) } else { Vec::new() } {
            let Some(mut session) = self.take(key) else { continue };
            self.note_reset_of_account(&mut session, at, fx);
            self.put(session);
            changed.push(key);
        }
        changed
    }
}
