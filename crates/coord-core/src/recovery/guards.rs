//! Decides who may come back, and when (S0-00, S0-05, S0-12, S0-15 to S0-20, H-06 to H-08, H-11, H-13 to H-15,
//! H-32). The guards follow S0-00's order, before any look for an act.

use alloc::format;
use alloc::string::String;

use coord_model::{
    Awake, Delay, EndReason, Kind, Launch, Moment, ParentKind, RegistryStatus, SessionState,
    Settings,
};

use super::hung::{TURN_OPEN, in_a_turn};
use crate::opt_in::StaysAway;
use crate::records::{BudgetDecision, Limits, NEVER, Obstacle, Pending, Presence, Session, State};

/// Why a recovery does not continue now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stop {
    /// Requirement id of the rule.
    pub(crate) rule: &'static str,
    /// Why, in words.
    pub(crate) why: String,
    /// What becomes of the recovery.
    pub(crate) then: Then,
}

/// What becomes of a recovery that does not continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It waits for this obstacle, until this time or until an event removes it.
    Wait(Obstacle, Awake),
    /// It is over: there is nothing to bring back, or the session is not coord's to bring back.
    Close,
    /// A person has to look.
    Operator,
    /// A limit on repeated acts is reached. A person has to look, and a dead session stays pending until
    /// `reset-failed` (G5, S0-21).
    Limit,
}

impl Stop {
    pub(crate) fn wait(obstacle: Obstacle, why: &str, until: Awake) -> Self {
        Self { rule: obstacle.rule(), why: why.into(), then: Then::Wait(obstacle, until) }
    }

    /// A stop that only an event ends, not a time.
    pub(crate) fn until_event(obstacle: Obstacle, why: &str) -> Self {
        Self::wait(obstacle, why, NEVER)
    }

    pub(crate) fn close(rule: &'static str, why: impl Into<String>) -> Self {
        Self { rule, why: why.into(), then: Then::Close }
    }

    pub(crate) fn limit(why: impl Into<String>) -> Self {
        Self { rule: Obstacle::Limit.rule(), why: why.into(), then: Then::Limit }
    }

    pub(crate) fn operator(rule: &'static str, why: impl Into<String>) -> Self {
        Self { rule, why: why.into(), then: Then::Operator }
    }
}

impl From<StaysAway> for Stop {
    fn from(why: StaysAway) -> Self {
        match why {
            StaysAway::DiedAgain => Self::operator(
                "H-06",
                "it died again soon after its recovery, without a crash signature",
            ),
            StaysAway::NotAskedFor => Self::close(
                "H-06",
                "it is watched, shows no crash signature, and nobody asked for its recovery",
            ),
        }
    }
}

/// The condition in which a living harness may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Living {
    /// Nothing is in progress in it.
    AtRest,
    /// A turn is open, and has been for a long time.
    InTurn,
}

/// The limits of G5.
pub(super) fn limits(settings: &Settings) -> Limits {
    Limits {
        per_turn: settings.recoveries_per_turn,
        total: settings.recoveries_total,
        delay: Delay {
            first_ms: settings.cooldown_failure_ms,
            max_ms: settings.recovery_delay_max_ms,
        },
    }
}

impl State {
    /// Whether the session is one that coord may bring back at all. `pending` is its recovery, if one was opened.
    pub(crate) fn is_ours(&self, session: &Session, pending: Option<&Pending>) -> Result<(), Stop> {
        let by_us = pending.is_some_and(Pending::is_ended_by_us);
        if session.is_foreign {
            return Err(Stop::close("R-20", "Claude Code's own background supervisor runs it"));
        }
        if session.two_owners {
            return Err(Stop::operator("H-13", "two processes hold the session"));
        }
        was_ended(session, by_us)?;
        let is_asked_for = by_us || pending.is_none_or(|pending| pending.by_hand);
        if matches!(*session.presence, Presence::Gone { .. }) && !is_asked_for {
            return Err(Stop::close("H-05", "how its client ended is unknown"));
        }
        if session.is_passed_on() {
            return Err(Stop::close("H-42", "the conversation continued in another process"));
        }
        may_have_left(session, by_us)?;
        if !self.is_local(session) {
            return Err(Stop::close("H-15", "it runs elsewhere"));
        }
        match session.kind {
            Some(Kind::Interactive) => (),
            Some(Kind::Headless) => {
                return Err(Stop::close("S0-25e", "a headless run is not resumed at a terminal"));
            }
            None => {
                return Err(Stop::close("H-24", "whether the session is interactive is unknown"));
            }
        }
        let is_proved = session.owner.as_ref().is_some_and(|owner| owner.has_reported);
        if !is_proved {
            let why = "no hook of its client was verified: coord only lists it";
            return Err(Stop::close("H-14", why));
        }
        launch(session).map(drop)?;
        match self.header.config_dirs.get(&session.config_dir) {
            Some(true) => Ok(()),
            Some(false) => {
                let why = "another coordinator manages its configuration directory";
                Err(Stop::until_event(Obstacle::ConfigDir, why))
            }
            None if self.has_all_dirs() => {
                let why = "coord already manages its maximum number of configuration directories";
                Err(Stop::until_event(Obstacle::ConfigDir, why))
            }
            None => {
                let why = "its configuration directory is not locked yet";
                Err(Stop::until_event(Obstacle::ConfigDir, why))
            }
        }
    }

    /// What holds back every recovery of this session for now.
    pub(super) fn is_held(
        &self,
        session: &Session,
        pending: &Pending,
        at: Moment,
    ) -> Result<(), Stop> {
        let settings = &self.header.settings;
        if let Some(hold) = self.operators_hold(session, at.awake) {
            return Err(Stop::wait(Obstacle::Held, &hold.reason, hold.until));
        }
        if let Some(flag) = &session.recovery.needs_operator {
            let why = format!("it needs you: {}", flag.reason);
            return Err(Stop::until_event(Obstacle::NeedsOperator, &why));
        }
        if self.header.shutdown.is_some() {
            return Err(Stop::until_event(Obstacle::Shutdown, "the machine is being shut down"));
        }
        if let Some(hold) = self.header.settling.as_ref().filter(|hold| hold.lasts(at.awake)) {
            return Err(Stop::wait(Obstacle::Settling, &hold.reason, hold.until));
        }
        if let Some(hold) = session.recovery.cooldown.as_ref().filter(|hold| hold.lasts(at.awake)) {
            return Err(Stop::wait(Obstacle::Cooldown, &hold.reason, hold.until));
        }
        // An attempt is charged when it begins, and then continues to its end.
        let decision = match pending.begun {
            Some(_) => BudgetDecision::Allowed,
            None => session.recovery.budget.decide(limits(settings), at.awake),
        };
        match decision {
            BudgetDecision::Allowed => (),
            BudgetDecision::Later(until) => {
                return Err(Stop::wait(Obstacle::Failed, "the last attempt failed", until));
            }
            BudgetDecision::SpentThisTurn => {
                let n = settings.recoveries_per_turn;
                return Err(Stop::limit(format!("{n} recoveries in this turn")));
            }
            BudgetDecision::Spent => {
                let n = settings.recoveries_total;
                return Err(Stop::limit(format!("{n} recoveries in all")));
            }
        }
        self.header.machine.admits(session.key, settings, pending.by_hand, at)
    }

    /// What forbids ending a living harness, as far as the known facts tell (S0-15 to S0-20, H-08).
    pub(super) fn may_be_ended(
        &self,
        session: &Session,
        pending: &Pending,
        at: Moment,
    ) -> Result<Living, Stop> {
        if !pending.by_hand {
            self.is_corroborated(session)?;
        }
        if session.contested.is_some() {
            return Err(Stop::until_event(
                Obstacle::Contested,
                "two sources disagree about its state",
            ));
        }
        if session.registry_names_another() {
            return Err(Stop::until_event(
                Obstacle::NotKnown,
                "the client's registry names another conversation",
            ));
        }
        let word = self.state_of(session, at.awake).state;
        if matches!(word, SessionState::Running | SessionState::Stalled) {
            return in_a_turn(session, at);
        }
        if let Some((obstacle, why)) = busy(word) {
            return Err(Stop::until_event(obstacle, why));
        }
        if self.is_being_woken(session) {
            return Err(Stop::until_event(
                Obstacle::BeingWoken,
                "a message is being delivered to it",
            ));
        }
        let is_idle =
            session.registry.level().is_some_and(|level| level.status == RegistryStatus::Idle);
        if !is_idle && !pending.by_hand {
            return Err(Stop::until_event(
                Obstacle::NotIdle,
                "the client's registry does not report idle",
            ));
        }
        Ok(Living::AtRest)
    }

    /// H-07: a crash signature in a living harness counts if the session is unattended or opted in, and the
    /// signature is not content of the conversation (S0-29).
    fn is_corroborated(&self, session: &Session) -> Result<(), Stop> {
        let is_wanted = self.is_unattended(session) || self.is_opted_in(session);
        if !is_wanted {
            return Err(Stop::close("H-07", "it is watched, and nobody asked for its recovery"));
        }
        match session.signature.as_ref().map(|signature| signature.is_content) {
            Some(Some(false)) => Ok(()),
            Some(None) => Err(Stop::until_event(
                Obstacle::SignatureUnread,
                "coord is searching the transcript for the signature",
            )),
            Some(Some(true)) => {
                Err(Stop::close("S0-29", "the signature is part of the conversation"))
            }
            None => Err(Stop::close("H-07", "the signature was another process's")),
        }
    }
}

/// What a living session is doing, as an obstacle and in words; none if it is at rest.
pub(super) fn busy(word: SessionState) -> Option<(Obstacle, &'static str)> {
    match word {
        SessionState::Idle | SessionState::Starting => None,
        SessionState::AwaitingPermission | SessionState::AwaitingInput => {
            Some((Obstacle::Prompt, "a dialog waits for an answer"))
        }
        SessionState::Running | SessionState::Stalled => Some((Obstacle::TurnOpen, TURN_OPEN)),
        SessionState::Background => Some((Obstacle::Background, "background work is running")),
        SessionState::QuotaWait | SessionState::BlockedAuth | SessionState::BlockedBilling => {
            Some((Obstacle::Limited, "its account is limited or blocked"))
        }
        SessionState::Suspended => Some((Obstacle::Suspended, "it is stopped by Ctrl-Z")),
        SessionState::Unknown
        | SessionState::Foreign
        | SessionState::Interrupted
        | SessionState::Crashed
        | SessionState::Elsewhere
        | SessionState::Stopped
        | SessionState::RecoveryPending
        | SessionState::Recovering => Some((Obstacle::NotKnown, "what it is doing is unknown")),
    }
}

/// G6: a session that its user or the client itself ended is not brought back. One that coord ended is.
fn was_ended(session: &Session, by_us: bool) -> Result<(), Stop> {
    if session.left.is_some() {
        return Err(Stop::close("H-36", "the conversation was cleared or left"));
    }
    match &*session.presence {
        Presence::Ended { reason: Some(EndReason::Other) | None, .. } if by_us => Ok(()),
        Presence::Ended { reason: Some(EndReason::Other) | None, .. } => {
            Err(Stop::close("S0-25f", "it exited by itself, by a signal, or with its pane"))
        }
        Presence::Ended { .. } => Err(Stop::close("G6", "a person ended it")),
        Presence::Alive
        | Presence::Dying { .. }
        | Presence::Interrupted { .. }
        | Presence::Crashed { .. }
        | Presence::Gone { .. } => Ok(()),
    }
}

/// H-44: whether a claim that the process switched to another session stands in the way. While the process lives, its
/// next proved event decides. After its death no event does, and what nothing will end is not waited for.
fn may_have_left(session: &Session, by_us: bool) -> Result<(), Stop> {
    if !session.may_have_left() {
        return Ok(());
    }
    let why = "an unverified event says that its process switched to another session";
    let is_open = session.may_live() || matches!(*session.presence, Presence::Dying { .. });
    Err(match (is_open, by_us) {
        (true, _) => Stop::until_event(Obstacle::NotKnown, why),
        (false, true) => Stop::operator("H-44", why),
        (false, false) => Stop::close("H-44", why),
    })
}

/// How the session was started, if it can be started that way again (H-13, H-19).
pub(super) fn launch(session: &Session) -> Result<&Launch, Stop> {
    let Some(launch) = &session.launch else {
        return Err(Stop::close("S0-25d", "how the client was started is unknown"));
    };
    if let ParentKind::Other(name) = &launch.parent.kind {
        let why = format!("{name} started the client, and {name} decides about restarts");
        return Err(Stop::close("H-13", why));
    }
    match &launch.unfit {
        Some(why) => {
            Err(Stop::operator("H-19", format!("its command line cannot be reused: {why}")))
        }
        None => Ok(launch),
    }
}
