//! The run that an ended loop left, as that run's own file tells of it.

use coord_core::{ExitReason, IterationEnd, RunOutcome, StatusWord};
use coord_model::stamp::parse_rfc3339;
use coord_wire::run::Run;

use super::Line;
use super::prompt::is_session_id;

/// Its line of the history; without a file it is known by who ran only.
pub(super) fn line_of(iteration: u32, agent: &str, run: Option<&Run>) -> Line {
    let line = Line::of(iteration, agent);
    let Some(run) = run else { return line };
    let line = Line {
        run_id: Some(run.begin.run_id.clone()),
        started: Some(run.begin.at.clone()),
        session_id: run.shown.session_id.clone(),
        ..line
    };
    let Some(exit) = run.exit.clone() else { return line };
    Line {
        took_ms: Some(exit.took_ms),
        outcome: exit.outcome,
        exit: exit.status,
        exit_reason: exit.reason,
        because: exit.because,
        resets_at: exit.resets_at,
        ..line
    }
}

/// What it came to, if it ended before its loop did: the loop was ended before it could take that down.
pub(super) fn end_of(run: &Run, status: Option<StatusWord>) -> Option<IterationEnd<'_>> {
    let exit = run.exit.as_ref()?;
    let reason = ExitReason::ALL.into_iter().find(|reason| reason.word() == exit.reason)?;
    Some(IterationEnd {
        outcome: RunOutcome::ALL.into_iter().find(|outcome| outcome.word() == exit.outcome)?,
        is_ours: reason.is_forced(),
        resets_ms: exit.resets_at.as_deref().and_then(parse_rfc3339),
        status,
        session: run.shown.session_id.as_deref().filter(|session| is_session_id(session)),
        summary: &exit.because,
        error_line: None,
    })
}
