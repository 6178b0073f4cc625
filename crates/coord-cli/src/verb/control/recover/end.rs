//! How the wait for a recovery ended, and what a person can do then.

use coord_model::Status;
use coord_wire::inspect::Session;
use serde::Serialize;

use crate::out::{escape, shell_quoted};

/// How the wait for a recovery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// The session is back, and the client works.
    Recovered,
    /// The recovery ended, and the session is not back.
    NotRecovered,
    /// The recovery waits until a person acts.
    WaitsForPerson,
    /// Nobody waits for the end any more.
    Pending,
}

/// How the wait for a recovery ended, with what `--json` prints of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct End {
    pub(super) outcome: Outcome,
    /// Why the session is not back, in words; none if it is.
    reason: Option<String>,
    /// The command that helps.
    command: Option<String>,
    /// The pid of the client that came up.
    pid: Option<u32>,
    /// The time from the order to this end, in milliseconds.
    after_ms: u64,
}

impl End {
    /// The end of a session's recovery; none if it continues by itself. `is_patient` says whether the order
    /// waits until the session is idle.
    pub(super) fn of(session: &Session, is_patient: bool, after_ms: u64) -> Option<Self> {
        if let Some(pending) = &session.pending_recovery {
            let flag = session.needs_operator.as_ref().map(|flag| flag.reason.clone());
            let is_stuck = pending.waits_for_person || flag.is_some();
            let reason = flag.or_else(|| pending.waits_for.clone());
            return is_stuck.then(|| Self {
                outcome: Outcome::WaitsForPerson,
                reason,
                command: Some(command_to_go_on(session)),
                pid: None,
                after_ms,
            });
        }
        let recovery = &session.recovery;
        let reason = match recovery.last_outcome.as_deref() {
            Some("verified") => {
                let pid = session.owner.as_ref().map(|owner| owner.pid);
                let (outcome, reason, command) = (Outcome::Recovered, None, None);
                return Some(Self { outcome, reason, command, pid, after_ms });
            }
            Some("observed") => "coord only observes (recovery.mode is \"observe\")".to_owned(),
            Some(_) | None => {
                recovery.last_reason.clone().unwrap_or_else(|| session.because.clone())
            }
        };
        let has_expired = reason.starts_with("the order expired");
        let command = command_by_hand(session, has_expired && !is_patient);
        Some(Self {
            outcome: Outcome::NotRecovered,
            reason: Some(reason),
            command: Some(command),
            pid: None,
            after_ms,
        })
    }

    /// The wait ended before the recovery.
    pub(super) fn pending(name: &str, after_ms: u64) -> Self {
        Self {
            outcome: Outcome::Pending,
            reason: None,
            command: Some(format!("coord explain {name}")),
            pid: None,
            after_ms,
        }
    }

    /// One line for people, without the session's name.
    pub(super) fn line(&self) -> String {
        let command = self
            .command
            .as_deref()
            .map_or_else(String::new, |command| format!(" → {}", escape(command)));
        let reason = escape(self.reason.as_deref().unwrap_or_default());
        match self.outcome {
            Outcome::Recovered => format!("recovered in {}", seconds(self.after_ms)),
            Outcome::NotRecovered => format!("not recovered: {reason}.{command}"),
            Outcome::WaitsForPerson => {
                format!("waits until a person acts: {reason}. The order stays.{command}")
            }
            Outcome::Pending => format!("the recovery goes on.{command}"),
        }
    }
}

/// The command that lets a recovery continue that waits for a person.
fn command_to_go_on(session: &Session) -> String {
    let name = called(session);
    match (&session.needs_operator, &session.hold, &session.task) {
        (Some(_), ..) => format!("coordctl reset-failed {name}"),
        (None, Some(_), Some(task)) if task.stopped => {
            format!("rm {}", shell_quoted(&format!("{}/.auto-stop", task.dir)))
        }
        (None, Some(hold), _) if hold.reason == "a person holds the session" => {
            format!("coordctl release {name}")
        }
        (None, ..) => format!("coord go {name}"),
    }
}

/// The command that brings back, or shows, a session that coord did not bring back. `may_wait` says whether an
/// order that waits until a living session is idle would help.
fn command_by_hand(session: &Session, may_wait: bool) -> String {
    let name = called(session);
    let lives = session.state.status() != Status::Stopped
        || session.owner.as_ref().is_some_and(|owner| owner.alive == Some(true));
    match (lives, session.resumable) {
        (true, _) if may_wait => format!("coordctl recover {name} --restart --when-idle"),
        (true, _) => format!("coord go {name}"),
        (false, true) => format!("claude --resume {}", shell_quoted(&session.session_id)),
        (false, false) => format!("coord explain {name}"),
    }
}

/// The name by which commands find the session.
pub(super) fn called(session: &Session) -> &str {
    session.display_name.as_deref().unwrap_or(&session.session_id)
}

/// A time in seconds, with one digit after the point.
fn seconds(ms: u64) -> String {
    let tenths = ms.saturating_add(50) / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
}
