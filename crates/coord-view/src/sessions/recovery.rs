//! Shows a session's pending recovery, and what holds it back.

use coord_core::{Ending, Hold, Obstacle, Pending, Session, State};
use coord_model::stamp::rfc3339;
use coord_model::{Awake, Now};
use coord_wire::inspect;

/// The pending recovery.
pub(super) fn pending(
    state: &State,
    session: &Session,
    now: Now,
) -> Option<inspect::PendingRecovery> {
    let pending = session.recovery.pending.as_ref()?;
    Some(inspect::PendingRecovery {
        cause: pending.cause.word().to_owned(),
        detected_at: rfc3339(pending.detected_at.wall_ms),
        attempts: pending.attempts,
        next_attempt_at: pending.next_at().map(|at| rfc3339(wall_ms(state, at, now))),
        waits_for: (!pending.waits_for.is_empty()).then(|| pending.waits_for.clone()),
        waits_for_person: waits_for_person(state, session, pending, now),
    })
}

/// Whether neither time nor the client's own work ends what the recovery waits for. An order for a living
/// session expires, or was given to wait for its user.
fn waits_for_person(state: &State, session: &Session, pending: &Pending, now: Now) -> bool {
    match pending.obstacle {
        Some(Obstacle::NeedsOperator | Obstacle::Limit | Obstacle::Breaker | Obstacle::Dialog) => {
            true
        }
        Some(Obstacle::Held) => state
            .operators_hold(session, state.moment(now).awake)
            .is_some_and(|hold| hold.until == Awake(u64::MAX)),
        Some(
            Obstacle::TaskStopped
            | Obstacle::TranscriptLocked
            | Obstacle::PaneInMode
            | Obstacle::PaneSynchronized
            | Obstacle::TypedLine,
        ) => !session.may_live(),
        // The client has not come up, and what it waits for is not known.
        Some(_) | None => session.recovery.needs_operator.is_some(),
    }
}

/// The part of the limits that was used, and how the last recovery ended.
pub(super) fn so_far(session: &Session) -> inspect::Recovery {
    let (this_turn, total) = session.recovery.budget.used();
    let last = session.recovery.last.as_ref();
    inspect::Recovery {
        this_turn,
        total,
        last_at: last.map(|last| rfc3339(last.at.wall_ms)),
        last_outcome: last.map(|last| last.outcome.word().to_owned()),
        harmed_prompts: session.recovery.harmed_prompts,
        last_reason: last.and_then(|last| match &last.outcome {
            Ending::Closed { why } | Ending::Failed { why } => Some(why.clone()),
            Ending::Verified | Ending::Observed => None,
        }),
        dropped: session.recovery.dropped,
    }
}

/// What holds a session back: its user's hold, its usage limit, or what its recovery waits for (G12).
pub(super) fn hold(state: &State, session: &Session, now: Now) -> Option<inspect::Hold> {
    let awake = state.moment(now).awake;
    if let Some(Hold { reason, since, until }) = state.operators_hold(session, awake) {
        return Some(inspect::Hold {
            reason: reason.clone(),
            since: rfc3339(since.wall_ms),
            until: (*until != Awake(u64::MAX)).then(|| rfc3339(wall_ms(state, *until, now))),
        });
    }
    if let (Some(quota), Some(until)) = (*session.quota, state.quota_at(session)) {
        return Some(inspect::Hold {
            reason: format!(
                "waits for {}; coord then wakes the session to check",
                quota.waited_for.words()
            ),
            since: rfc3339(quota.since.wall_ms),
            until: Some(rfc3339(wall_ms(state, until, now))),
        });
    }
    let pending = session.recovery.pending.as_ref().filter(|one| !one.waits_for.is_empty())?;
    Some(inspect::Hold {
        reason: pending.waits_for.clone(),
        since: rfc3339(pending.waits_since.wall_ms),
        until: pending.next_at().map(|at| rfc3339(wall_ms(state, at, now))),
    })
}

/// Converts a moment on the core's clock to wall time, provided that the clock does not stop before.
fn wall_ms(state: &State, at: Awake, now: Now) -> u64 {
    let awake = state.moment(now).awake;
    let later = at.ms_since(awake);
    now.wall_ms.saturating_add(later).saturating_sub(awake.ms_since(at))
}
