//! Decides when the repository of a session's work is looked at: once after each death that may have left work
//! unfinished.

use coord_model::{Effect, Moment, SessionKey, Work};

use crate::effects::Effects;
use crate::records::{Presence, Session, State};

impl State {
    /// Requests the look, or forgets it if the session goes on.
    pub(crate) fn follow_work(&mut self, key: SessionKey, fx: &mut Effects) {
        let Some(session) = self.get(key) else { return };
        match (has_left_work(session), &*session.work) {
            (true, Some(_)) | (false, None) => return,
            (true, None) if session.cwd.is_empty() || !self.is_local(session) => return,
            (true, None) | (false, Some(_)) => (),
        }
        let Some(mut session) = self.take(key) else { return };
        if session.work.is_some() {
            session.work.forget();
        } else {
            session.work.request();
            fx.ask(Effect::LookAtWork { session: key, dir: session.cwd.clone() });
        }
        self.put(session);
    }

    /// Looks that were in progress when the coordinator ended are requested again (G10).
    pub(crate) fn forget_work_looks(&mut self) {
        for key in self.keys_of(|session| session.work.is_requested()) {
            if let Some(mut session) = self.take(key) {
                session.work.forget();
                self.put(session);
            }
        }
    }

    /// A look was answered. An answer that nothing waits for changes nothing.
    pub(crate) fn on_work(
        &mut self,
        key: SessionKey,
        work: &Work,
        at: Moment,
    ) -> Option<SessionKey> {
        self.get(key).filter(|session| session.work.is_requested())?;
        let mut session = self.take(key)?;
        session.work.see(work.clone(), at);
        self.put(session);
        self.tell_of_work(key);
        Some(key)
    }
}

fn has_left_work(session: &Session) -> bool {
    match *session.presence {
        Presence::Crashed { .. } | Presence::Interrupted { .. } => true,
        Presence::Alive
        | Presence::Dying { .. }
        | Presence::Ended { .. }
        | Presence::Gone { .. } => false,
    }
}
