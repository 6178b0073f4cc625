//! Decides which subagents a session has. They have no subagents of their own.
//!
//! Every event of a subagent names it, so that one whose start was lost is known by its first call. The end of one whose
//! stop was lost follows from the end of a turn that leaves none in the background.

use coord_model::{HookEvent, HookKind, Moment, StartSource};

use crate::records::{Session, Subagent, Turn};

/// Takes in what an event that was emitted at `at` says of the session's subagents.
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

/// Whether a subagent works: in its session's turn, in the background as the last Stop listed, or though no Stop listed it.
pub fn is_at_work(session: &Session, subagent: &Subagent) -> bool {
    let is_listed = matches!(*session.turn, Turn::Open { .. }) || 0 < session.background.subagents;
    subagent.ended.is_none() && (is_listed || is_after_turn(session, subagent))
}

/// Whether a subagent works in the background though no Stop listed it. An interrupted turn lists none.
pub(crate) fn works_after_turn(session: &Session) -> bool {
    session.subagents.iter().any(|one| one.ended.is_none() && is_after_turn(session, one))
}

/// Whether a subagent reported something after the turn was over.
fn is_after_turn(session: &Session, subagent: &Subagent) -> bool {
    match *session.turn {
        Turn::Closed { at } | Turn::Interrupted { at, .. } => at.awake <= subagent.heard.awake,
        Turn::None | Turn::Open { .. } => false,
    }
}

/// Whether a subagent may work in the background. An interrupt leaves those (measured with 2.1.328), and ends the others
/// without a hook, so nothing tells which of them is left.
pub(crate) fn may_work(session: &Session) -> bool {
    session.subagents.iter().any(|one| one.ended.is_none())
}
