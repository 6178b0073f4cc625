//! Decides the one state that is shown for a session, and gives the reason: S0-00's order of rules, in one
//! place.
//!
//! The rules are tried in this order. The first that has an answer decides:
//! 1. provider: a session without the field counts as `claude` (S0-05), and no other is reported yet;
//! 2. elsewhere, and two owners: facts about these are not ours to judge (H-15, R-07); no known client, and so
//!    no facts at all (H-44);
//! 3. a recovery in progress or pending (S0);
//! 4. stopped by the user, or ended otherwise (S0-25f, H-10);
//! 5. process facts: dying, crashed, gone (H-05);
//! 6. foreign supervisor: a session under one that has ended still counts as ended;
//! 7. stopped by Ctrl-Z;
//! 8. silence, if there is no second source;
//! 9. open prompt, turn, background work, as `fusion` weighs hooks and registry;
//! 10. rest: quota, authentication, billing, else idle.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use coord_model::{Awake, EndReason, Kind, SessionState};

use crate::fusion::{self, Doing};
use crate::records::{HostEvent, Presence, RegistryFact, Session, Source, Stage, State, Turn};

/// What would change this state, in words for people (G9).
pub fn changes_when(state: SessionState) -> &'static str {
    match state {
        SessionState::Starting => "its first prompt or its end",
        SessionState::Running => {
            "Stop or StopFailure; the registry reporting idle (an interrupt); the end of its process; \
             or no sign of life and no second source for tracking.unknown_after"
        }
        SessionState::Idle => {
            "a prompt, a tool, the registry reporting busy or waiting, or its end"
        }
        SessionState::Stalled => "any change on its screen, a hook event, or its end",
        SessionState::Background => "a new turn, the end of that work, or its end",
        SessionState::AwaitingPermission | SessionState::AwaitingInput => {
            "the result of that call, the registry no longer reporting a wait, a new prompt, or its end"
        }
        SessionState::QuotaWait | SessionState::BlockedAuth | SessionState::BlockedBilling => {
            "a new turn or its end"
        }
        SessionState::Suspended => "its process continuing (fg) or its end",
        SessionState::Foreign => "nothing here: another supervisor runs it",
        SessionState::Interrupted | SessionState::Crashed | SessionState::Stopped => {
            "a resume of the same id in another process"
        }
        SessionState::RecoveryPending => {
            "the end of what the recovery waits for, a hold, or a resume by a person"
        }
        SessionState::Recovering => "SessionStart from the resumed client, or a failed attempt",
        SessionState::Elsewhere => "its SessionEnd; its process cannot be observed from here",
        SessionState::Unknown => {
            "an event that reports its turn, or a check that finds its process, its state or its end"
        }
    }
}

/// The answer of a rule.
pub(crate) struct Answer {
    pub(crate) state: SessionState,
    pub(crate) rule: &'static str,
    pub(crate) because: String,
    /// The source that contradicts this answer.
    pub(crate) against: Option<Source>,
}

fn answer(state: SessionState, rule: &'static str, because: impl Into<String>) -> Answer {
    Answer { state, rule, because: because.into(), against: None }
}

impl State {
    /// Derives the state of `session` at `awake`.
    pub(crate) fn state_of(&self, session: &Session, awake: Awake) -> Answer {
        self.elsewhere(session)
            .or_else(|| two_owners(session))
            .or_else(|| unowned(session))
            .or_else(|| self.recovering(session))
            .or_else(|| ended(session))
            .or_else(|| process(session))
            .or_else(|| foreign(session))
            .or_else(|| suspended(session))
            .or_else(|| self.silent(session, awake))
            .unwrap_or_else(|| self.living(session, awake))
    }

    /// The state of a recovery in progress. Once the resumed client has reported, its own hooks decide.
    fn recovering(&self, session: &Session) -> Option<Answer> {
        let pending = session.recovery.pending.as_ref()?;
        let is_dead = !session.may_live() && !matches!(*session.presence, Presence::Dying { .. });
        let is_its_users = matches!(
            *session.presence,
            Presence::Ended { reason: Some(EndReason::PromptInputExit | EndReason::Logout), .. }
        );
        match &pending.stage {
            // A late SessionEnd from the user. The client that is coming up is reported by its own hooks.
            Stage::Claimed { .. } if is_its_users => None,
            Stage::Ending { .. } => Some(answer(
                SessionState::Recovering,
                "S0-25",
                "coord is ending the client to resume the session",
            )),
            Stage::Placing { .. } => {
                Some(answer(SessionState::Recovering, "S0-25", "the resume was started"))
            }
            Stage::Claimed { .. } => Some(answer(
                SessionState::Recovering,
                "H-33",
                "the resumed client has not reported yet",
            )),
            Stage::Waiting { .. } | Stage::Grace { .. } | Stage::Proving { .. }
                if is_dead && self.is_to_come_back(session, pending) =>
            {
                let because = if pending.waits_for.is_empty() {
                    "coord checks the session before it recovers it".to_owned()
                } else {
                    format!("the recovery waits: {}", pending.waits_for)
                };
                Some(answer(SessionState::RecoveryPending, "S0-20", because))
            }
            Stage::Waiting { .. }
            | Stage::Grace { .. }
            | Stage::Proving { .. }
            | Stage::Started { .. } => None,
        }
    }

    fn elsewhere(&self, session: &Session) -> Option<Answer> {
        let owner = session.owner.as_ref()?;
        if self.is_local(session) || !session.may_live() {
            return None;
        }
        let here = self.header.host.as_ref().is_some_and(|host| host.machine == owner.id.machine);
        let place =
            if here { "it runs in another pid namespace" } else { "it runs on another machine" };
        Some(answer(SessionState::Elsewhere, "H-15", place))
    }

    /// Whether silence alone makes this session unknown. For an open turn, hooks are then the only source. For
    /// a session at rest, hooks are the only source and no process was seen alive. A watched process at rest
    /// may be silent indefinitely, and so may a turn that the client's registry confirms.
    pub(crate) fn is_judged_by_silence(&self, session: &Session) -> bool {
        session.shown.state != SessionState::Unknown
            && self.rests_on_hooks(session)
            && self.is_weighed(session)
    }

    /// Whether the sources of a living session are consulted at all. If an earlier rule decides the state, time
    /// alone changes nothing, and a deadline would stay due forever.
    pub(crate) fn is_weighed(&self, session: &Session) -> bool {
        self.elsewhere(session)
            .or_else(|| two_owners(session))
            .or_else(|| unowned(session))
            .or_else(|| self.recovering(session))
            .or_else(|| foreign(session))
            .or_else(|| suspended(session))
            .is_none()
    }

    fn rests_on_hooks(&self, session: &Session) -> bool {
        let seen = session.owner.as_ref().and_then(|owner| owner.seen_alive);
        let is_watched = self.is_local(session) && matches!(seen, Some((true, _)));
        let is_vouched = is_watched && session.registry.level().is_some();
        let is_open = matches!(*session.turn, Turn::Open { .. }) || !session.waits.is_empty();
        !is_vouched && (is_open || !is_watched)
    }

    fn silent(&self, session: &Session, awake: Awake) -> Option<Answer> {
        let settling = self.header.settling.as_ref().is_some_and(|hold| hold.lasts(awake));
        let age_ms = awake.ms_since(session.sign);
        // Settling delays a conclusion; it does not withdraw one.
        let may_conclude = !settling || session.shown.state == SessionState::Unknown;
        let is_stale = self.header.settings.unknown_after_ms <= age_ms;
        (self.rests_on_hooks(session) && may_conclude && is_stale).then(|| {
            let minutes = age_ms / 60_000;
            answer(
                SessionState::Unknown,
                "R-01",
                format!("no sign of life for {minutes} min, and no second source"),
            )
        })
    }
}

impl State {
    /// What a living session is doing, and whether it is stalled.
    fn living(&self, session: &Session, awake: Awake) -> Answer {
        let mut given = living(session, awake);
        if given.state == SessionState::Running
            && let Some(because) = self.stalled(session)
        {
            (given.state, given.rule, given.because) = (SessionState::Stalled, "S1-06", because);
        }
        given
    }
}

fn two_owners(session: &Session) -> Option<Answer> {
    let because = "two_owners: another live process holds the same session id";
    session.two_owners.then(|| answer(SessionState::Unknown, "R-07", because))
}

/// A record that only unverified events opened. Their claims about the session are not shown (H-44, S0-28b).
fn unowned(session: &Session) -> Option<Answer> {
    let because = "only unverified events report it, and no client is known to hold it";
    session.is_unowned().then(|| answer(SessionState::Unknown, "H-44", because))
}

fn ended(session: &Session) -> Option<Answer> {
    match &*session.presence {
        Presence::Ended { reason, .. } => {
            let because = match reason {
                Some(EndReason::PromptInputExit) => {
                    "a person ended it (SessionEnd prompt_input_exit)"
                }
                Some(EndReason::Logout) => "a person logged out (SessionEnd logout)",
                Some(EndReason::Clear) => "the conversation was cleared (SessionEnd clear)",
                Some(EndReason::Resume) => "its process switched to another session",
                Some(EndReason::Other) => "it exited by itself or by a signal (SessionEnd other)",
                None if matches!(*session.registry, RegistryFact::Removed { .. }) => {
                    "its process is gone and removed its registry entry: a clean exit"
                }
                None => "its process is gone and left the client's farewell on the pane",
            };
            Some(answer(SessionState::Stopped, "S0-25f", because))
        }
        Presence::Interrupted { by, .. } => {
            let because = match by {
                HostEvent::NewBoot => "the machine was restarted",
                HostEvent::TmuxServer => "its tmux server died",
                HostEvent::ManyEnds => "several sessions ended within seconds of each other",
                HostEvent::Shutdown => "the machine was shutting down",
            };
            Some(answer(SessionState::Interrupted, "H-10", because))
        }
        Presence::Alive
        | Presence::Dying { .. }
        | Presence::Crashed { .. }
        | Presence::Gone { .. } => None,
    }
}

fn process(session: &Session) -> Option<Answer> {
    let (word, because) = match *session.presence {
        Presence::Dying { .. } => {
            (SessionState::Unknown, "its process is gone; coord is checking how it ended")
        }
        Presence::Crashed { .. } => (
            SessionState::Crashed,
            if matches!(*session.registry, RegistryFact::LeftBehind { .. }) {
                "its process is gone without SessionEnd and left its registry entry behind"
            } else {
                "its process is gone during an open turn, without SessionEnd and without a farewell on the pane"
            },
        ),
        Presence::Gone { .. } if matches!(*session.registry, RegistryFact::Removed { .. }) => (
            SessionState::Unknown,
            "its registry entry is gone, and its process cannot be observed from here",
        ),
        Presence::Gone { .. } => {
            (SessionState::Unknown, "its process is gone, and nothing proves how it ended")
        }
        Presence::Alive | Presence::Ended { .. } | Presence::Interrupted { .. } => return None,
    };
    Some(answer(word, "H-05", because))
}

fn foreign(session: &Session) -> Option<Answer> {
    let because = "Claude Code's own background supervisor runs it";
    session.is_foreign.then(|| answer(SessionState::Foreign, "R-20", because))
}

fn suspended(session: &Session) -> Option<Answer> {
    let is_stopped = session.owner.as_ref().is_some_and(|owner| owner.is_stopped);
    is_stopped.then(|| answer(SessionState::Suspended, "R-10", "its process is stopped (Ctrl-Z)"))
}

/// What a living session is doing, as `fusion` weighs its sources.
fn living(session: &Session, awake: Awake) -> Answer {
    let verdict = fusion::weigh(session, awake);
    let by = said_by(verdict.by);
    let mut given = match verdict.doing {
        Doing::AwaitingPermission => answer(
            SessionState::AwaitingPermission,
            "S0-18",
            format!("a permission dialog is open, by {by}"),
        ),
        Doing::AwaitingInput => answer(
            SessionState::AwaitingInput,
            "S0-18",
            format!("a question, plan or dialog is open, by {by}"),
        ),
        Doing::Turn => answer(SessionState::Running, "R-02", running(session, by)),
        Doing::Background => answer(SessionState::Background, "R-03", background(session)),
        Doing::Rest => at_rest(session, by),
        Doing::Unclear => answer(
            SessionState::Unknown,
            "R-01",
            "the screen contradicts the hooks; coord captures it again",
        ),
        Doing::Unreported => answer(
            SessionState::Unknown,
            "R-01",
            "no source has reported yet whether a turn is open",
        ),
    };
    given.against = verdict.against;
    if verdict.against == Some(Source::Registry) {
        given.because.push_str("; the client's registry contradicts this");
    }
    given
}

fn said_by(source: Source) -> &'static str {
    match source {
        Source::Hooks => "hooks",
        Source::Registry => "the client's registry",
        Source::Pane => "the screen",
        Source::Transcript => "the transcript",
    }
}

fn running(session: &Session, by: &str) -> String {
    match *session.turn {
        Turn::Open { queued: 1.., .. } => format!("a turn is open and more prompts wait, by {by}"),
        Turn::Open { .. } | Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => {
            format!("a turn is open, by {by}")
        }
    }
}

fn background(session: &Session) -> String {
    let work = session.background;
    if !work.is_any() && session.registry.level().is_none() {
        return "a subagent reports after the turn's end, by hooks".to_owned();
    }
    if !work.is_any() {
        return "a background shell is running, by the client's registry".to_owned();
    }
    format!(
        "the turn ended with {} background tasks, {} subagents and {} wake-ups",
        work.tasks, work.subagents, work.crons
    )
}

fn at_rest(session: &Session, by: &str) -> Answer {
    match (*session.turn, session.kind, session.failure.as_deref()) {
        (Turn::None, Some(Kind::Headless), _) => {
            answer(SessionState::Starting, "R-21", "it started and has not received its prompt yet")
        }
        (Turn::None, _, _) if session.left.is_some() => {
            answer(SessionState::Idle, "R-07", "the conversation was cleared")
        }
        (Turn::None, _, _) => {
            answer(SessionState::Idle, "R-21", format!("waiting for a prompt, by {by}"))
        }
        (Turn::Interrupted { by, .. }, _, _) => {
            let by = said_by(by);
            answer(SessionState::Idle, "R-01", format!("the turn was interrupted, by {by}"))
        }
        (Turn::Open { .. }, _, _) => {
            answer(SessionState::Idle, "R-01", format!("the turn was interrupted, by {by}"))
        }
        (Turn::Closed { .. }, _, Some(error)) => {
            let word = match error {
                "rate_limit" => SessionState::QuotaWait,
                "authentication_failed"
                | "oauth_org_not_allowed"
                | "account_on_hold"
                | "verification_required"
                | "cloud_credential_error" => SessionState::BlockedAuth,
                "billing_error" => SessionState::BlockedBilling,
                _ => SessionState::Idle,
            };
            answer(word, "R-11", format!("the last turn ended with an API error ({error})"))
        }
        (Turn::Closed { .. }, _, None) => {
            answer(SessionState::Idle, "R-02", "the turn ended (Stop)")
        }
    }
}
