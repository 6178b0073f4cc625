//! Decides when a person is reminded that a session waits for them (H-35, S0-15): by a line on the terminals
//! that show its tmux session. Nothing else ever follows from an open prompt's age.

use alloc::format;

use crate::effect::{Deed, Effects};
use crate::session::Session;
use crate::state::State;
use crate::status::Word;
use crate::time::{Awake, Moment};

impl State {
    /// When somebody is to be reminded next that this session waits for them.
    pub(crate) fn reminder_at(&self, session: &Session) -> Option<Awake> {
        let limits = &self.header.settings.stall;
        let since = session.word.since.awake;
        if !matches!(session.word.word, Word::AwaitingPermission | Word::AwaitingInput) {
            return None;
        }
        Some(match session.reminded_at.filter(|reminded| since <= *reminded) {
            Some(reminded) => reminded.plus_ms(limits.approval_again_ms),
            None => since.plus_ms(limits.approval_after_ms),
        })
    }

    /// Reminds, if it is time.
    pub(crate) fn remind(&self, session: &mut Session, at: Moment, fx: &mut Effects) {
        if self.reminder_at(session).is_none_or(|due| at.awake < due) {
            return;
        }
        session.reminded_at = Some(at.awake);
        let minutes = at.awake.ms_since(session.word.since.awake) / 60_000;
        let saw = format!("it has waited for its user for {minutes} min");
        if let Some((pane, _)) = session.proved_pane() {
            let text = format!("coord: the session in pane {}: {saw}", pane.pane);
            fx.do_it(Deed::Notify { pane, text });
        }
        fx.decide(session, "H-35", &saw, "reminded; nothing answers for them");
    }
}
