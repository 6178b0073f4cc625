//! Decides when a person is reminded that a session waits for them (H-35, S0-15). The reminder is a line on the
//! terminals that show the session's tmux session. Nothing else ever follows from how long it has waited.

use alloc::format;
use alloc::string::String;

use coord_model::{Action, Awake, Moment, SessionState};

use crate::effects::{Effects, SHOWN_MS};
use crate::records::{Session, State};

/// What only a person can end, in words, and since when it lasts; none if nothing waits for a person.
fn waits_for_a_person(session: &Session) -> Option<(String, Moment)> {
    let what = match session.shown.state {
        SessionState::AwaitingPermission | SessionState::AwaitingInput => {
            "the session has waited for you"
        }
        SessionState::BlockedAuth => "the session has waited for you to log in",
        SessionState::BlockedBilling => "the session has waited for its account to be paid",
        SessionState::Stalled => "the session has been stalled",
        SessionState::Starting
        | SessionState::Running
        | SessionState::Idle
        | SessionState::Background
        | SessionState::QuotaWait
        | SessionState::Suspended
        | SessionState::Foreign
        | SessionState::Interrupted
        | SessionState::Crashed
        | SessionState::Elsewhere
        | SessionState::RecoveryPending
        | SessionState::Recovering
        | SessionState::Stopped
        | SessionState::Unknown => {
            let flag = session.recovery.needs_operator.as_ref()?;
            return Some((format!("the session has needed you ({})", flag.reason), flag.since));
        }
    };
    Some((what.into(), session.shown.since))
}

impl State {
    /// When the next reminder for this session is due.
    pub(crate) fn reminder_at(&self, session: &Session) -> Option<Awake> {
        let limits = &self.header.settings.stall;
        let since = waits_for_a_person(session)?.1.awake;
        Some(match session.reminded_at.filter(|reminded| since <= *reminded) {
            Some(reminded) => reminded.plus_ms(limits.approval_again_ms),
            None => since.plus_ms(limits.approval_after_ms),
        })
    }

    /// Shows a reminder, if one is due.
    pub(crate) fn remind(&self, session: &mut Session, at: Moment, fx: &mut Effects) {
        if self.reminder_at(session).is_none_or(|due| at.awake < due) {
            return;
        }
        let Some((what, since)) = waits_for_a_person(session) else { return };
        session.reminded_at = Some(at.awake);
        let saw = format!("{what} for {} min", at.awake.ms_since(since.awake) / 60_000);
        if let Some((pane, _)) = session.proved_pane() {
            let text = format!("coord: {saw} (pane {})", pane.pane);
            fx.act(Action::Notify { pane, text, for_ms: SHOWN_MS });
        }
        fx.decide(session, "H-35", &saw, "reminder shown; coord does not answer");
    }
}
