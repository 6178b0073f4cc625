//! Decides when a person is reminded that a session waits for them (H-35, S0-15). The reminder is a line on the
//! terminals that show the session's tmux session. Nothing else ever follows from how long it has waited.

use alloc::format;

use coord_model::{Action, Awake, Moment, NeedKind};

use crate::effects::{Effects, SHOWN_MS};
use crate::records::{Need, Session, State};

impl State {
    /// When the next reminder for this session is due.
    pub(crate) fn reminder_at(&self, session: &Session) -> Option<Awake> {
        let needs = session.open_needs().filter(|need| is_reminded_of(need.kind));
        needs.map(|need| self.reminder_due(need)).min()
    }

    fn reminder_due(&self, need: &Need) -> Awake {
        let limits = &self.header.settings.stall;
        match need.reminded_at {
            Some(reminded) => reminded.plus_ms(limits.approval_again_ms),
            None => need.since.awake.plus_ms(limits.approval_after_ms),
        }
    }

    /// Shows the reminders that are due.
    pub(crate) fn remind(&self, session: &mut Session, at: Moment, fx: &mut Effects) {
        for place in 0..session.needs.len() {
            let Some(need) = session.needs.get_mut(place) else { continue };
            if need.is_dismissed || !is_reminded_of(need.kind) || at.awake < self.reminder_due(need)
            {
                continue;
            }
            need.reminded_at = Some(at.awake);
            let minutes = at.awake.ms_since(need.since.awake) / 60_000;
            let saw = format!("{} ({minutes} min)", need.reason);
            if let Some((pane, _)) = session.proved_pane() {
                let text = format!("coord: {} {saw}", session.called_or_id());
                fx.act(Action::Notify { pane, text, for_ms: SHOWN_MS });
            }
            fx.decide(
                session,
                "H-35",
                &saw,
                "a reminder was shown; nothing answers for the person",
            );
        }
    }
}

/// Whether a line on the terminal reminds of the need. A session without a client shows its end on its pane, and two
/// clients or a usage limit are shown in the list.
fn is_reminded_of(kind: NeedKind) -> bool {
    match kind {
        NeedKind::Permission
        | NeedKind::Question
        | NeedKind::Plan
        | NeedKind::Dialog
        | NeedKind::Login
        | NeedKind::Billing
        | NeedKind::NeedsOperator
        | NeedKind::Stalled => true,
        NeedKind::UsageLimit | NeedKind::Crashed | NeedKind::Interrupted | NeedKind::TwoOwners => {
            false
        }
    }
}
