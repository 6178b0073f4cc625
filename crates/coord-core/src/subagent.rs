//! Decides which subagents a session has. They have no subagents of their own.
//!
//! Every event of a subagent names it, so that one whose start was lost is known by its first call. The end of one whose
//! stop was lost follows from the end of a turn that leaves none in the background.

use coord_model::{HookEvent, HookKind, Moment, StartSource};

use crate::records::{Session, Turn};

/// Takes in what an event says of the session's subagents.
pub(crate) fn note(session: &mut Session, event: &HookEvent, at: Moment) {
    if let Some(id) = &event.agent {
        if event.kind == HookKind::SubagentStop {
            session.subagents.end(id, at);
        } else {
            session.subagents.hear(id, event.agent_kind.as_deref().unwrap_or_default(), at);
        }
        return;
    }
    match &event.kind {
        HookKind::SessionStart(source) if *source != StartSource::Compact => {
            session.subagents.forget();
        }
        HookKind::UserPromptSubmit => session.subagents.drop_ended(),
        HookKind::Stop(background) if background.subagents == 0 => session.subagents.end_all(at),
        HookKind::SessionStart(_)
        | HookKind::Stop(_)
        | HookKind::StopFailure(_)
        | HookKind::SessionEnd(_)
        | HookKind::Tool(_)
        | HookKind::PermissionRequest
        | HookKind::PermissionDenied
        | HookKind::Notification(_)
        | HookKind::SubagentStop
        | HookKind::StatusLine(_)
        | HookKind::Other(_) => (),
    }
}

/// Whether a subagent works in the background though no Stop listed it: it was first heard of after the turn was over, and
/// has not reported its end. An interrupted turn lists none.
pub(crate) fn works_after_turn(session: &Session) -> bool {
    let over = match *session.turn {
        Turn::Closed { at } | Turn::Interrupted { at, .. } => at.awake,
        Turn::None | Turn::Open { .. } => return false,
    };
    session.subagents.iter().any(|one| one.ended.is_none() && over <= one.since.awake)
}
