//! What must hold of needs after each of the coordinator's turns (U-01).
//!
//! * A need begins once and ends once: none that ended is open again, but for a power cut, which may take back what
//!   was not durable.
//! * Each prompt, crash and block that is shown is a need; what is at work or at rest has none of those.
//! * None survives its session: its number is that of its record.

use std::collections::BTreeSet;

use coord_core::{Session, State};
use coord_model::{Kind, NeedId, NeedKind, SessionState};

use crate::act_checks::violation;
use crate::checks::Violation;
use crate::simulation::Simulation;

/// The needs that were seen.
#[derive(Debug, Default)]
pub(crate) struct NeedWatch {
    open: BTreeSet<NeedId>,
    ended: BTreeSet<NeedId>,
}

impl NeedWatch {
    /// After a power cut an older state may be shown again.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Simulation {
    /// Looks at all needs after a turn.
    pub(crate) fn check_needs(&mut self) -> Result<(), Violation> {
        let Some(serving) = &self.serving else { return Ok(()) };
        let mut open = BTreeSet::new();
        let state: &State = serving.coordinator().state();
        for session in state.sessions() {
            for need in &session.needs {
                if need.id.session != session.key {
                    return violation("U-01", format!("{} is another session's", need.id));
                }
                if self.needs.ended.contains(&need.id) {
                    return violation("U-01", format!("{} began twice", need.id));
                }
                open.insert(need.id);
            }
            check_kinds(session)?;
        }
        let before = std::mem::replace(&mut self.needs.open, open);
        let ended = before.into_iter().filter(|id| !self.needs.open.contains(id));
        self.needs.ended.extend(ended);
        Ok(())
    }
}

/// Whether the needs of a session are those that its state says.
fn check_kinds(session: &Session) -> Result<(), Violation> {
    let state = session.shown.state;
    let has = |of: fn(NeedKind) -> bool| session.needs.iter().any(|need| of(need.kind));
    let is_prompted =
        matches!(state, SessionState::AwaitingPermission | SessionState::AwaitingInput);
    let is_at_work =
        matches!(state, SessionState::Running | SessionState::Idle | SessionState::Background);
    let is_gone = matches!(state, SessionState::Crashed | SessionState::Interrupted);
    let has_prompt = has(NeedKind::is_prompt);
    let is_wrong = (is_prompted && !has_prompt)
        || ((is_at_work || is_gone) && has_prompt)
        || (state == SessionState::BlockedAuth && !has(|kind| kind == NeedKind::Login))
        || (state == SessionState::Stalled && !has(|kind| kind == NeedKind::Stalled))
        || (session.two_owners != has(|kind| kind == NeedKind::TwoOwners))
        || (session.recovery.needs_operator.is_some()
            != has(|kind| kind == NeedKind::NeedsOperator));
    let is_left = is_gone
        && session.is_resumable()
        && !session.is_passed_on()
        && session.kind != Some(Kind::Headless)
        && session.recovery.pending.is_none()
        && session.needs.is_empty();
    if is_wrong || is_left {
        let id = &session.session_id;
        let kinds: Vec<NeedKind> = session.needs.iter().map(|need| need.kind).collect();
        return violation("U-01", format!("{id}: {state:?} needs {kinds:?}"));
    }
    let mut requests: Vec<_> = session.needs.iter().filter_map(|need| need.request).collect();
    let n = requests.len();
    requests.sort_unstable_by_key(|request| request.0);
    requests.dedup();
    if requests.len() < n {
        return violation("U-01", format!("{}: one request is two needs", session.session_id));
    }
    Ok(())
}
