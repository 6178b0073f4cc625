//! Determines why a person has to act, from what is shown of a session.

use coord_model::SessionState;
use coord_wire::inspect::{Need, Session};

/// The most urgent reason; none if nobody has to act.
pub(super) fn need(session: &Session) -> Option<Need> {
    let id: String = session.session_id.chars().take(ID_CHARS).collect();
    let of = |kind: &str, since: &str, text: &str, command: Option<String>| {
        Some(Need {
            kind: kind.to_owned(),
            since: since.to_owned(),
            text: text.to_owned(),
            command,
        })
    };
    let here = |kind: &str, command| of(kind, &session.since, &session.because, command);
    match session.state {
        SessionState::AwaitingPermission => return here("permission", None),
        SessionState::AwaitingInput => return here("question", None),
        SessionState::BlockedAuth => return here("login", None),
        SessionState::BlockedBilling => return here("billing", None),
        SessionState::Starting
        | SessionState::Running
        | SessionState::Idle
        | SessionState::Background
        | SessionState::QuotaWait
        | SessionState::Suspended
        | SessionState::Interrupted
        | SessionState::Foreign
        | SessionState::Stalled
        | SessionState::RecoveryPending
        | SessionState::Recovering
        | SessionState::Crashed
        | SessionState::Elsewhere
        | SessionState::Stopped
        | SessionState::Unknown => (),
    }
    if let Some(flag) = &session.needs_operator {
        let command = Some(format!("coord explain {id}"));
        return of("needs_operator", &flag.since, &flag.reason, command);
    }
    let is_pending = session.pending_recovery.is_some();
    match session.state {
        SessionState::Crashed if session.resumable && !is_pending => {
            here("crashed", Some(format!("coordctl recover {id}")))
        }
        SessionState::Interrupted if session.resumable && !is_pending => {
            here("interrupted", Some("coordctl restore".to_owned()))
        }
        SessionState::Stalled => here("stalled", None),
        SessionState::Starting
        | SessionState::Running
        | SessionState::Idle
        | SessionState::Background
        | SessionState::QuotaWait
        | SessionState::Suspended
        | SessionState::Interrupted
        | SessionState::Foreign
        | SessionState::AwaitingPermission
        | SessionState::AwaitingInput
        | SessionState::BlockedAuth
        | SessionState::BlockedBilling
        | SessionState::RecoveryPending
        | SessionState::Recovering
        | SessionState::Crashed
        | SessionState::Elsewhere
        | SessionState::Stopped
        | SessionState::Unknown => None,
    }
}

/// Characters of an id in a suggested command.
const ID_CHARS: usize = 8;
