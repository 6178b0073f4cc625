//! Says why a person has to act, from what is shown of a session.

use coord_wire::inspect::{Need, Session, State};

/// The most urgent reason; none where nobody has to act.
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
        State::AwaitingPermission => return here("permission", None),
        State::AwaitingInput => return here("question", None),
        State::BlockedAuth => return here("login", None),
        State::BlockedBilling => return here("billing", None),
        State::Starting
        | State::Running
        | State::Idle
        | State::Background
        | State::QuotaWait
        | State::Suspended
        | State::Interrupted
        | State::Foreign
        | State::Stalled
        | State::RecoveryPending
        | State::Recovering
        | State::Crashed
        | State::Elsewhere
        | State::Stopped
        | State::Unknown => (),
    }
    if let Some(flag) = &session.needs_operator {
        let command = Some(format!("coord explain {id}"));
        return of("needs_operator", &flag.since, &flag.reason, command);
    }
    let is_owed = session.pending_recovery.is_some();
    match session.state {
        State::Crashed if session.resumable && !is_owed => {
            here("crashed", Some(format!("coordctl recover {id}")))
        }
        State::Interrupted if session.resumable && !is_owed => {
            here("interrupted", Some("coordctl restore".to_owned()))
        }
        State::Stalled => here("stalled", None),
        State::Starting
        | State::Running
        | State::Idle
        | State::Background
        | State::QuotaWait
        | State::Suspended
        | State::Interrupted
        | State::Foreign
        | State::AwaitingPermission
        | State::AwaitingInput
        | State::BlockedAuth
        | State::BlockedBilling
        | State::RecoveryPending
        | State::Recovering
        | State::Crashed
        | State::Elsewhere
        | State::Stopped
        | State::Unknown => None,
    }
}

/// So much of an id is typed.
const ID_CHARS: usize = 8;
