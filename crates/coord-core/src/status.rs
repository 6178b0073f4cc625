//! Decides the one word for a session, and says why: S0-00's order of rules, in one place.
//!
//! The rules are asked in this order, and the first that knows an answer gives it:
//! 1. provider: a session without the field counts as `claude` (S0-05), and no other is reported yet;
//! 2. elsewhere and two owners: whose facts are not ours to judge (H-15, R-07);
//! 3. stopped by its user, or ended otherwise (S0-25f, H-10);
//! 4. process facts: dying, crashed, gone (H-05);
//! 5. the turn, as long as the last sign is fresh (R-01, C4);
//! 6. background work, then rest.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::event::{EndReason, Kind};
use crate::host_event::HostEvent;
use crate::session::{Presence, RegistryFact, Session, Turn};
use crate::state::State;
use crate::time::{Awake, Moment};

/// The words there are so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Word {
    /// There, no prompt yet.
    Starting,
    /// A turn is open.
    Running,
    /// At its prompt.
    Idle,
    /// The turn ended, background work goes on.
    Background,
    /// A host event ended it.
    Interrupted,
    /// It died.
    Crashed,
    /// On another machine or in another pid namespace.
    Elsewhere,
    /// It ended.
    Stopped,
    /// Nobody knows.
    Unknown,
}

/// A word with its time and reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordOf {
    /// The word.
    pub word: Word,
    /// Since when.
    pub since: Moment,
    /// Why, in words.
    pub because: String,
}

impl WordOf {
    pub(crate) fn unknown(at: Moment) -> Self {
        Self { word: Word::Unknown, since: at, because: String::new() }
    }
}

type Answer = Option<(Word, String)>;

impl State {
    /// Decides the word of `session` at `awake`.
    pub(crate) fn word(&self, session: &Session, awake: Awake) -> (Word, String) {
        self.elsewhere(session)
            .or_else(|| two_owners(session))
            .or_else(|| ended(session))
            .or_else(|| process(session))
            .or_else(|| self.silent(session, awake))
            .or_else(|| turn(session))
            .unwrap_or_else(|| at_rest(session))
    }

    /// Whether the owner is a process that this coordinator can see.
    pub(crate) fn is_local(&self, session: &Session) -> bool {
        match (&self.header.host, &session.owner) {
            (Some(host), Some(owner)) => {
                owner.id.machine == host.machine && owner.id.pid_ns == host.pid_ns
            }
            (Some(_) | None, _) => false,
        }
    }

    fn elsewhere(&self, session: &Session) -> Answer {
        let owner = session.owner.as_ref()?;
        if self.is_local(session) || !session.may_live() {
            return None;
        }
        let here = self.header.host.as_ref().is_some_and(|host| host.machine == owner.id.machine);
        let place = if here { "in another pid namespace" } else { "on another machine" };
        Some((Word::Elsewhere, place.to_owned()))
    }

    /// Whether silence alone makes this session unknown: an open turn, or rest without a process
    /// that was seen alive. A watched process at rest may be silent for ever.
    pub(crate) fn is_told_by_silence(&self, session: &Session) -> bool {
        let seen = session.owner.as_ref().and_then(|owner| owner.seen_alive);
        let is_watched = self.is_local(session) && matches!(seen, Some((true, _)));
        session.word.word != Word::Unknown
            && (matches!(session.turn, Turn::Open { .. }) || !is_watched)
            && self.elsewhere(session).is_none()
    }

    fn silent(&self, session: &Session, awake: Awake) -> Answer {
        let settling = self.header.settling.as_ref().is_some_and(|hold| hold.lasts(awake));
        let age_ms = awake.ms_since(session.sign);
        let limit_ms = self.header.settings.unknown_after_ms;
        let counts = matches!(session.turn, Turn::Open { .. })
            || !matches!(
                session.owner.as_ref().and_then(|owner| owner.seen_alive),
                Some((true, _))
            );
        // Settling delays a conclusion; it does not take one back.
        let may_conclude = !settling || session.word.word == Word::Unknown;
        (counts && may_conclude && limit_ms <= age_ms).then(|| {
            let minutes = age_ms / 60_000;
            (Word::Unknown, format!("no sign for {minutes} min and no second source"))
        })
    }
}

fn two_owners(session: &Session) -> Answer {
    session.two_owners.then(|| {
        (Word::Unknown, "two_owners: another live process holds the same session id".to_owned())
    })
}

fn ended(session: &Session) -> Answer {
    match &session.presence {
        Presence::Ended { reason, .. } => {
            let because = match reason {
                Some(EndReason::PromptInputExit) => {
                    "its user left it (SessionEnd prompt_input_exit)"
                }
                Some(EndReason::Logout) => "its user logged out (SessionEnd logout)",
                Some(EndReason::Clear) => "its conversation was cleared (SessionEnd clear)",
                Some(EndReason::Resume) => "its process went over to another session",
                Some(EndReason::Other) => "it ended by itself or by a signal (SessionEnd other)",
                None => "its process is gone and removed its registry entry, as a clean end does",
            };
            Some((Word::Stopped, because.to_owned()))
        }
        Presence::Interrupted { by, .. } => {
            let because = match by {
                HostEvent::NewBoot => "the machine was restarted",
                HostEvent::TmuxServer => "its tmux server died",
                HostEvent::ManyEnds => "several sessions ended within seconds of each other",
            };
            Some((Word::Interrupted, because.to_owned()))
        }
        Presence::Alive
        | Presence::Dying { .. }
        | Presence::Crashed { .. }
        | Presence::Gone { .. } => None,
    }
}

fn process(session: &Session) -> Answer {
    match session.presence {
        Presence::Dying { .. } => {
            Some((Word::Unknown, "its process is gone, how it ended is being read".to_owned()))
        }
        Presence::Crashed { .. } => {
            let why = match session.registry {
                RegistryFact::LeftBehind { .. } => {
                    "its process is gone without SessionEnd and left its registry entry behind"
                }
                RegistryFact::Unknown
                | RegistryFact::Present { .. }
                | RegistryFact::Removed { .. } => "its process is gone without SessionEnd",
            };
            Some((Word::Crashed, why.to_owned()))
        }
        Presence::Gone { .. } => {
            Some((Word::Unknown, "its process is gone and nothing proves how it ended".to_owned()))
        }
        Presence::Alive | Presence::Ended { .. } | Presence::Interrupted { .. } => None,
    }
}

fn turn(session: &Session) -> Answer {
    match session.turn {
        Turn::Open { queued: 0, .. } => Some((Word::Running, "a turn is open".to_owned())),
        Turn::Open { queued, .. } => {
            Some((Word::Running, format!("a turn is open, {queued} more prompts wait")))
        }
        Turn::Closed { .. } | Turn::None => None,
    }
}

fn at_rest(session: &Session) -> (Word, String) {
    let background = session.background;
    if background.is_any() {
        let because = format!(
            "the turn ended with {} background tasks, {} subagents and {} wake-ups",
            background.tasks, background.subagents, background.crons
        );
        return (Word::Background, because);
    }
    match (session.turn, session.kind, &session.failure) {
        (Turn::None, Some(Kind::Headless), _) => {
            (Word::Starting, "it started and has not taken its prompt yet".to_owned())
        }
        (Turn::None, Some(Kind::Interactive) | None, _) => {
            (Word::Idle, "it started and waits for a prompt".to_owned())
        }
        (Turn::Open { .. } | Turn::Closed { .. }, _, Some(error)) => {
            (Word::Idle, format!("the turn ended with an API error ({error})"))
        }
        (Turn::Open { .. } | Turn::Closed { .. }, _, None) => {
            (Word::Idle, "the turn ended (Stop)".to_owned())
        }
    }
}
