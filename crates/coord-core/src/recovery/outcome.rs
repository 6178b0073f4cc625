//! Decides what becomes of a recovery that does not continue: it waits, fails, or is over; and who is notified
//! (S0-21 to S0-23, G5, H-35).

use alloc::format;
use alloc::string::String;

use coord_model::{Action, Awake, Moment};

use super::guards::{Stop, Then};
use crate::effects::{Effects, TOLD_AFTER_MS};
use crate::records::{Ending, Flag, NEVER, Obstacle, Session, Stage, State};

/// Delay of the next proof after a change between proof and act, in milliseconds. It doubles after each change in
/// a row.
pub(super) const AGAIN_MS: u64 = 1_000;
/// Maximum number of doublings.
const AGAIN_DOUBLED: u32 = 6;

impl State {
    /// Ends a failed attempt. The next one waits, within the limits of G5 (S0-21 to S0-23).
    pub(super) fn fail(&mut self, session: &mut Session, why: &str, at: Moment, fx: &mut Effects) {
        let settings = self.header.settings.clone();
        let harness = session.owner.as_ref().map(|owner| owner.id.process);
        session.recovery.fail(why, harness, at);
        self.header.machine.end(session.key);
        self.header.machine.on_failure(why, &settings, at);
        fx.decide(session, "S0-21", why, "the attempt failed; the recovery stays pending");
        self.try_now(session, at.awake, at, fx);
    }

    pub(super) fn stop(&mut self, session: &mut Session, stop: Stop, at: Moment, fx: &mut Effects) {
        match stop.then {
            Then::Wait(obstacle, until) => {
                // A deadline that has passed must not come due again by time alone.
                let until = until.max(at.awake.plus_ms(1));
                self.header.machine.end(session.key);
                wait(session, obstacle, &stop.why, until, at, fx);
            }
            Then::Close => {
                let why = stop.why;
                self.close(session, stop.rule, Ending::Closed { why }, at, fx);
            }
            // Only a reset lifts the limit; then the pending recovery is tried again.
            Then::Limit if !session.may_live() => {
                self.header.machine.end(session.key);
                flag(session, stop.rule, &stop.why, at, fx);
                session.recovery.mark_flag_as_limit();
                wait(session, Obstacle::Limit, &stop.why, NEVER, at, fx);
            }
            then @ (Then::Limit | Then::Operator) => {
                flag(session, stop.rule, &stop.why, at, fx);
                if then == Then::Limit {
                    session.recovery.mark_flag_as_limit();
                }
                self.close(session, stop.rule, Ending::Failed { why: stop.why }, at, fx);
            }
        }
    }

    /// Ends a recovery: the machine has room for another one, and the transcript is unlocked.
    pub(super) fn close(
        &mut self,
        session: &mut Session,
        rule: &'static str,
        ending: Ending,
        at: Moment,
        fx: &mut Effects,
    ) {
        self.header.machine.end(session.key);
        let locked = session.recovery.pending.as_ref().map(|pending| pending.session_id.clone());
        session.close_recovery(rule, ending, at, fx);
        fx.act(Action::Release { session_id: session.session_id.clone() });
        if let Some(locked) = locked.filter(|id| !id.is_empty() && *id != session.session_id) {
            fx.act(Action::Release { session_id: locked });
        }
    }
}

/// Delay of the next look, if something changes between each proof and its act. It grows each time.
pub(super) fn again_ms(session: &mut Session) -> u64 {
    let doublings = session.recovery.count_change().min(AGAIN_DOUBLED);
    AGAIN_MS.saturating_mul(1_u64.checked_shl(doublings).unwrap_or(1))
}

/// When the user is notified that a recovery still waits (H-35).
pub(super) fn notice_at(session: &Session) -> Option<Awake> {
    let pending = session.recovery.pending.as_ref().filter(|pending| !pending.is_notified)?;
    let is_waiting = matches!(pending.stage, Stage::Waiting { .. });
    let has_reason = is_waiting && pending.obstacle.is_some();
    has_reason.then(|| pending.waits_since.awake.plus_ms(TOLD_AFTER_MS))
}

/// H-35: notifies the user of a recovery that has waited for half an hour.
pub(super) fn notify_of_wait(session: &mut Session, at: Moment, fx: &mut Effects) {
    if notice_at(session).is_none_or(|due| at.awake < due) {
        return;
    }
    let Some(pending) = &session.recovery.pending else { return };
    let saw = format!("the recovery has waited for half an hour: {}", pending.waits_for);
    session.recovery.note_notified();
    fx.notify(session, "H-35", &saw);
}

/// Has the recovery wait. A new obstacle is recorded as a decision.
pub(super) fn wait(
    session: &mut Session,
    obstacle: Obstacle,
    why: &str,
    until: Awake,
    at: Moment,
    fx: &mut Effects,
) {
    if session.recovery.wait(obstacle, why, until, at) {
        fx.decide(session, obstacle.rule(), why, "the recovery waits");
    }
}

/// Flags the session: a person has to look (G5, H-35).
pub(super) fn flag(
    session: &mut Session,
    rule: &'static str,
    why: &str,
    at: Moment,
    fx: &mut Effects,
) {
    session.recovery.raise_flag(Flag { reason: why.into(), since: at, is_limit: false });
    let did = format!("needs you; to resume by hand: {}", by_hand(session));
    fx.decide(session, rule, why, &did);
}

/// The command that a person would type.
fn by_hand(session: &Session) -> String {
    format!("claude --resume {}", session.session_id)
}
