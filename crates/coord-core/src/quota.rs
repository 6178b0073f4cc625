//! Decides how long a session waits for its quota or for the API, and how coord finds out that the wait is over
//! (R-11, S1-13, S1-18, S1-20 to S1-22, H-21).
//!
//! No hook says when a limit ends; for a subscription the transcript does. In an unattended session, a wake probes
//! whether work continues: at that time, else after a delay that doubles each time. Each session has a moment of
//! its own, so that the sessions of one account do not probe together. Only the end of a turn proves that it
//! continued. After a few failed probes a person is asked. An attended session gets no probe.

use alloc::format;
use alloc::string::String;

use coord_model::{
    Awake, Effect, Failure, HookEvent, HookKind, Moment, PaneState, Proof, Screen, SessionState,
    StartSource,
};

use crate::effects::Effects;
use crate::fusion;
use crate::records::{
    Flag, QuotaWait, ResetSource, Session, Source, State, Turn, WaitedFor, WakeDecision,
};

use crate::wake;

/// Delay after which something that holds back a probe is checked again, in milliseconds.
const AGAIN_MS: u64 = 60_000;
/// Probes are spread over this fraction of their delay: one part in five.
const SPREAD_PART: u64 = 5;
/// Maximum distance of a believable reset, in milliseconds: the longest limit is weekly.
const RESET_WITHIN_MS: u64 = 8 * 24 * 3_600_000;
/// How long the client may take to write an error that it has reported, in milliseconds.
const WRITTEN_WITHIN_MS: u64 = 60_000;

/// Whether the transcript may still show when the limit ends that ended this session's turn, or that a turn
/// without a reported end failed.
pub fn is_failure_open(session: &Session, awake: Awake) -> bool {
    let is_new = |at: Moment| awake.ms_since(at.awake) < WRITTEN_WITHIN_MS;
    match *session.turn {
        Turn::Closed { at } => session.quota.is_some_and(|quota| {
            // The session's own transcript knows better than a status line of its account.
            let is_open =
                quota.resets_ms.is_none() || quota.reset_source == ResetSource::StatusLine;
            is_new(at) && quota.waited_for == WaitedFor::Quota && is_open
        }),
        Turn::Interrupted { at, by, .. } => by != Source::Transcript && is_new(at),
        Turn::None | Turn::Open { .. } => false,
    }
}

impl State {
    /// Opens or ends the wait on a hook of the main thread. What only begins proves nothing (S1-21).
    pub(crate) fn note_quota(
        &self,
        session: &mut Session,
        event: &HookEvent,
        at: Moment,
        fx: &mut Effects,
    ) {
        if event.agent.is_some() {
            return;
        }
        match &event.kind {
            HookKind::StopFailure(error) if let Some(waited_for) = WaitedFor::after(error) => {
                self.open_quota(session, waited_for, at);
                self.note_reset_of_account(session, at, fx);
                ask_for_failure(session, fx);
            }
            // A turn that compacts its conversation has not ended.
            HookKind::SessionStart(source) if *source == StartSource::Compact => (),
            HookKind::Stop(_) | HookKind::StopFailure(_) | HookKind::SessionStart(_) => {
                let Some(quota) = session.quota.end() else { return };
                let minutes = at.awake.ms_since(quota.since.awake) / 60_000;
                let what = quota.waited_for.words();
                let saw = format!("waited {minutes} min for {what}, {} probes", quota.probes);
                fx.decide(session, "S1-21", &saw, "the wait is over");
            }
            HookKind::SessionEnd(_)
            | HookKind::UserPromptSubmit
            | HookKind::Tool(_)
            | HookKind::PermissionRequest
            | HookKind::PermissionDenied
            | HookKind::Notification(_)
            | HookKind::SubagentStop
            | HookKind::StatusLine(_)
            | HookKind::Other(_) => (),
        }
    }

    fn open_quota(&self, session: &mut Session, waited_for: WaitedFor, at: Moment) {
        let probes = session.quota.map_or(0, |quota| quota.probes);
        let until = self.probe_at(session, waited_for, probes, at);
        session.quota.open(waited_for, until, at);
    }

    /// Applies the error from the transcript with which the last turn ended, and the end of its limit if known.
    /// This makes up for a lost hook (S1-13).
    pub(crate) fn note_failure(
        &self,
        session: &mut Session,
        failure: &Failure,
        at: Moment,
        fx: &mut Effects,
    ) {
        if session.failure.is_none() {
            let is_over = matches!(*session.turn, Turn::Closed { .. } | Turn::Interrupted { .. });
            // If a turn was interrupted before it wrote anything, the transcript still ends with an older error.
            let is_its = fusion::newest_edge(session).wall_ms <= failure.written_ms;
            if !(is_over && is_its) || self.may_be_written_by_another(session) {
                return;
            }
            session.failure = Some(failure.error.clone());
            session.turn.end(at);
            session.stall.forget();
            let saw = format!("the transcript ends with an API error ({})", failure.error);
            fx.decide(session, "S1-13", &saw, "the last turn failed; no hook reported it");
            if let Some(waited_for) = WaitedFor::after(&failure.error) {
                self.open_quota(session, waited_for, at);
            }
        }
        let is_it = session.failure.as_ref() == Some(&failure.error);
        let Some(quota) = session.quota.filter(|_| is_it) else { return };
        if let Some(resets_ms) = failure.resets_ms
            && quota.resets_ms != Some(resets_ms)
        {
            self.await_reset(session, resets_ms, ResetSource::Transcript, at, fx);
        }
    }

    /// Applies what the account's status lines say, where the transcript does not say when the limit resets.
    pub(crate) fn note_reset_of_account(
        &self,
        session: &mut Session,
        at: Moment,
        fx: &mut Effects,
    ) {
        let is_asking = session.quota.as_ref().is_some_and(QuotaWait::asks_for_reset);
        let until = self.header.accounts.used_up_until(&session.config_dir, at);
        let is_near = |resets_ms: &u64| resets_ms.saturating_sub(at.wall_ms) < RESET_WITHIN_MS;
        if let Some(resets_ms) = until.filter(|resets_ms| is_asking && is_near(resets_ms)) {
            self.await_reset(session, resets_ms, ResetSource::StatusLine, at, fx);
        }
    }

    fn await_reset(
        &self,
        session: &mut Session,
        resets_ms: u64,
        source: ResetSource,
        at: Moment,
        fx: &mut Effects,
    ) {
        let source_words = source.words();
        let left_ms = resets_ms.checked_sub(at.wall_ms);
        let Some(left_ms) = left_ms.filter(|left_ms| *left_ms < RESET_WITHIN_MS) else {
            let saw = format!("the {source_words} names an impossible reset time");
            return fx.decide(session, "S1-22", &saw, "ignored");
        };
        let until = self.spread(session, at.awake.plus_ms(left_ms));
        session.quota.note_reset(resets_ms, source, until);
        let minutes = left_ms / 60_000;
        let saw = format!("the {source_words} says that the limit resets in {minutes} min");
        fx.decide(session, "S1-22", &saw, "coord waits until then");
    }

    /// Recomputes the waits after the machine slept or its clock was set: a limit ends by the wall clock (H-32).
    pub(crate) fn rearm_quotas(&mut self, at: Moment) {
        for key in
            self.keys_of(|session| session.quota.is_some_and(|quota| quota.resets_ms.is_some()))
        {
            let Some(mut session) = self.take(key) else { continue };
            if let Some(resets_ms) = session.quota.and_then(|quota| quota.resets_ms) {
                let left_ms = resets_ms.saturating_sub(at.wall_ms).min(RESET_WITHIN_MS);
                let until = self.spread(&session, at.awake.plus_ms(left_ms));
                session.quota.put_off(until);
            }
            self.put(session);
        }
    }

    /// When the next probe is sent, after `probes` earlier ones.
    fn probe_at(&self, session: &Session, waited_for: WaitedFor, probes: u32, at: Moment) -> Awake {
        let limits = &self.header.settings.quota;
        let first_ms = match waited_for {
            WaitedFor::Quota => limits.probe_after_ms,
            WaitedFor::Service => limits.service_after_ms,
        };
        let doubled = first_ms.saturating_mul(1_u64.wrapping_shl(probes.min(16)));
        let delay_ms = doubled.min(limits.probe_delay_max_ms);
        at.awake.plus_ms(delay_ms.saturating_add(own_ms(session, delay_ms)))
    }

    /// The session's own moment soon after a limit ended.
    fn spread(&self, session: &Session, end: Awake) -> Awake {
        let limits = &self.header.settings.quota;
        end.plus_ms(limits.reset_margin_ms).plus_ms(own_ms(session, limits.probe_after_ms))
    }

    /// When time alone wakes a session that waits for its quota; none if nothing does.
    pub fn quota_at(&self, session: &Session) -> Option<Awake> {
        let quota = waiting(session)?;
        let settled = self.header.settling.as_ref().map_or(quota.until, |hold| hold.until);
        self.is_ours_to_wake(session).then(|| quota.until.max(settled))
    }

    /// Sends a probe, if one is due.
    pub(crate) fn probe_quota(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        if self.quota_at(session).is_none_or(|due| at.awake < due) {
            return;
        }
        let Some(quota) = *session.quota else { return };
        let limits = self.header.settings.quota.clone();
        let what = quota.waited_for.words();
        let saw = format!("waits for {what}, {} probes so far", quota.probes);
        let later = at.awake.plus_ms(AGAIN_MS);
        if limits.probes <= quota.probes {
            let reason = String::from(match quota.waited_for {
                WaitedFor::Quota => "the usage limit does not reset",
                WaitedFor::Service => "the API still does not answer",
            });
            session.recovery.raise_flag(Flag { reason, since: at, is_limit: false });
            fx.decide(session, "S1-22", &saw, "needs you; no more probes");
        } else if let Some(hold) = self.operators_hold(session, at.awake) {
            let latest = at.awake.plus_ms(limits.probe_delay_max_ms);
            session.quota.put_off(hold.until.max(later).min(latest));
            fx.decide(session, "H-06", &saw, "no probe: the session is held");
        } else if self.look_at_last_words(session, fx) {
            // Hooks may have been lost since the limit was met. Without an answer, the look is repeated.
            session.quota.put_off(later);
        } else {
            self.send_probe(session, quota, at, fx);
        }
    }

    /// Decides on a look whether to probe. If the conversation has gone on after its error, there is nothing to wait for.
    pub(crate) fn judge_probe(
        &mut self,
        session: &mut Session,
        proof: &Proof,
        at: Moment,
        fx: &mut Effects,
    ) {
        if self.quota_at(session).is_none() || self.operators_hold(session, at.awake).is_some() {
            return;
        }
        let Some(quota) = *session.quota else { return };
        let are_its = !self.may_be_written_by_another(session);
        let words = proof.last_words.as_ref().filter(|_| are_its);
        if let Some(failure) = words.and_then(|words| words.failure.as_ref()) {
            self.note_failure(session, failure, at, fx);
        } else if let Turn::Closed { at: failed } = *session.turn
            && words.and_then(|words| words.written_ms).is_some_and(|ms| failed.wall_ms < ms)
        {
            session.failure = None;
            _ = session.quota.end();
            let saw = "the agent has written more after the error; no hook reported it";
            return fx.decide(session, "S1-21", saw, "the wait is over");
        }
        if is_dialog_open(&proof.pane) {
            return fx.decide(
                session,
                "S1-22",
                "a dialog is open",
                "no probe; checked again in a minute",
            );
        }
        let is_dated = session.quota.is_some_and(|now| now.resets_ms != quota.resets_ms);
        if !is_dated {
            self.send_probe(session, quota, at, fx);
        }
    }

    fn send_probe(
        &mut self,
        session: &mut Session,
        quota: QuotaWait,
        at: Moment,
        fx: &mut Effects,
    ) {
        let saw = format!("waits for {}, {} probes so far", quota.waited_for.words(), quota.probes);
        let budget = self.header.settings.wakes;
        if let WakeDecision::Held { until } = session.wakes.charge(budget, at.awake) {
            session.quota.put_off(until.max(at.awake.plus_ms(AGAIN_MS)));
            return fx.decide(session, "H-21", &saw, "no probe: the wake budget is used up");
        }
        let probes = quota.probes.saturating_add(1);
        let until = self.probe_at(session, quota.waited_for, probes, at);
        session.quota.count_probe(until);
        fx.decide(session, "S1-22", &saw, "woken to check whether work continues");
        self.wake(session, words(quota.waited_for), fx);
    }
}

/// The wait of a session that waits now: its last turn failed, and no other has begun.
pub(crate) fn waiting(session: &Session) -> Option<&QuotaWait> {
    let waits_for = session.failure.as_deref().and_then(WaitedFor::after);
    let is_shown = matches!(session.shown.state, SessionState::QuotaWait | SessionState::Idle);
    let is_closed = matches!(*session.turn, Turn::Closed { .. });
    let is_waiting = waits_for.is_some() && is_shown && is_closed;
    session.quota.as_ref().filter(|_| is_waiting)
}

/// Whether the client shows a dialog. No hook reports one of its own.
fn is_dialog_open(pane: &PaneState) -> bool {
    let PaneState::Client { screen: Some(screen), .. } = pane else { return false };
    match screen {
        Screen::Permission | Screen::Question | Screen::Plan | Screen::Dialog | Screen::Trust => {
            true
        }
        Screen::Prompt
        | Screen::Error
        | Screen::Working
        | Screen::Retry
        | Screen::Shell
        | Screen::Suspended => false,
    }
}

/// What each session adds to a delay. Neighbouring records get very different values.
fn own_ms(session: &Session, delay_ms: u64) -> u64 {
    let own = session.key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    own.checked_rem(delay_ms / SPREAD_PART).unwrap_or(0)
}

pub(crate) fn ask_for_failure(session: &Session, fx: &mut Effects) {
    let Some(owner) = session.owner.as_ref().filter(|_| !session.transcript_path.is_empty()) else {
        return;
    };
    fx.ask(Effect::ReadTranscript {
        process: owner.id.process,
        path: session.transcript_path.clone(),
        config_dir: session.config_dir.clone(),
    });
}

/// The text that a waiting session is woken with.
fn words(waited_for: WaitedFor) -> String {
    let why = match waited_for {
        WaitedFor::Quota => "at a usage limit",
        WaitedFor::Service => "because the API did not answer",
    };
    wake::framed(&format!(
        "The last turn of this session ended {why}, which may be over by now. You may go on with what you \
         were doing."
    ))
}
