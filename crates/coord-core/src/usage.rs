//! Decides which numbers of a status line count, and for whom (Q-01, Q-02, N-08).
//!
//! A status line is believed only from a verified child of the client that holds the session (H-44). It is no sign of
//! work and changes no state: the client draws it by a timer too. Only a usage limit that is used up tells a session
//! that waits for it when the limit resets.

use alloc::vec;
use alloc::vec::Vec;

use coord_model::{HookEvent, HookKind, Moment, Now, SessionKey, Usage};

use crate::effects::Effects;
use crate::identity::owner_of;
use crate::records::{QuotaWait, Session, State};

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
