//! Decides what becomes of a resume that was started: who owns it, whether it proved itself, and what its session
//! is told then (S0-25a, S0-25b, H-13, H-21, H-33, H-43).

use alloc::format;

use coord_model::{
    Action, Awake, Effect, EndReason, HookEvent, HookKind, Input, Moment, NoticeKind, PaneState,
    ProcessRef, Proof, Screen, SessionKey, SessionState, Signal, TmuxPane,
};

use super::attempt::{SOLE_MS, intent, subject};
use super::guards::Stop;
use super::harm;
use super::outcome::flag;
use crate::effects::{Effects, SHOWN_MS};
use crate::launch;
use crate::records::{
    Cause, Ending, Hold, Obstacle, Presence, Session, Stage, State, Turn, WakeDecision, Way,
};

use crate::wake;

/// A resume whose line was placed, and that no process has claimed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedResume<'a> {
    /// The session to resume.
    pub session: &'a Session,
    /// Where the line was placed.
    pub way: Way,
    /// The session's pane, whose server runs the line of a new pane or window.
    pub pane: Option<TmuxPane>,
    /// Whether that server was gone. The server that listens at the socket now then runs the line (S0-25f).
    pub any_server: bool,
}

impl State {
    /// The resume that was placed with this nonce; none if newer facts forbid it, such as a late SessionEnd or
    /// another owner.
    pub fn resume_placed(&self, nonce: &str) -> Option<PlacedResume<'_>> {
        let mut of_nonce = self.header.machine.under_way.iter().filter_map(|key| {
            let session = self.get(*key)?;
            let pending = session.recovery.pending.as_ref()?;
            match &pending.stage {
                Stage::Placing { nonce: placed, way, .. }
                    if placed == nonce && pending.session_id == session.session_id =>
                {
                    Some((session, pending, *way))
                }
                Stage::Waiting { .. }
                | Stage::Grace { .. }
                | Stage::Proving { .. }
                | Stage::Ending { .. }
                | Stage::Placing { .. }
                | Stage::Claimed { .. }
                | Stage::Started { .. } => None,
            }
        });
        let (session, pending, way) = of_nonce.next()?;
        self.is_ours(session, Some(pending)).ok()?;
        Some(PlacedResume {
            session,
            way,
            pane: session.proved_pane().map(|(pane, _)| pane),
            any_server: pending.cause == Cause::Interrupted,
        })
    }

    /// The session whose resume the process with this pid claimed.
    pub fn resume_claimed_by(&self, pid: u32) -> Option<&Session> {
        let keys = &self.header.machine.under_way;
        keys.iter()
            .filter_map(|key| self.get(*key))
            .find(|session| session.recovery.claimer().is_some_and(|process| process.pid == pid))
    }

    /// Notes that a process claimed the line and becomes the client. Whether it may was decided before.
    pub(crate) fn on_resume_claimed(
        &mut self,
        key: SessionKey,
        nonce: &str,
        process: ProcessRef,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let mut session = self.take(key)?;
        if let Some(pending) = &session.recovery.pending
            && matches!(&pending.stage, Stage::Placing { nonce: placed, .. } if placed == nonce)
        {
            session.recovery.claim(process, at);
            fx.ask(Effect::WatchProcess { process });
        }
        self.put(session);
        Some(key)
    }

    /// Notes an unproved event of the process that claimed the resume of a record.
    pub(crate) fn note_claimed_start(&mut self, key: SessionKey, event: &HookEvent) {
        let process = event.harness.as_ref().map(coord_model::Harness::process);
        let is_start = matches!(event.kind, HookKind::SessionStart(_));
        let Some(process) = process.filter(|_| is_start) else { return };
        let is_its = self.get(key).is_some_and(|session| {
            session.recovery.claimer() == Some(process) && session.session_id == event.session_id
        });
        if is_its && let Some(mut session) = self.take(key) {
            session.recovery.note_start_heard();
            self.put(session);
        }
    }

    /// Notes that the process that claimed the line gave up.
    pub(crate) fn on_resume_failed(
        &mut self,
        key: SessionKey,
        why: &str,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let mut session = self.take(key)?;
        let pending = session.recovery.pending.as_ref();
        if pending.is_some_and(|pending| matches!(pending.stage, Stage::Claimed { .. })) {
            self.fail(&mut session, why, at, fx);
        }
        self.put(session);
        Some(key)
    }

    /// The record whose resume this process claimed, if that recovery is in progress.
    pub(crate) fn key_claimed_by(&self, process: ProcessRef) -> Option<SessionKey> {
        let claims = |session: &Session| session.recovery.claimed_by(process);
        let mut keys = self.header.machine.under_way.iter().copied();
        keys.find(|key| self.get(*key).is_some_and(claims))
    }

    /// Handles the exit of a process that may have claimed a resume.
    pub(crate) fn on_claimer_exit(
        &mut self,
        process: ProcessRef,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let has_claimed = |session: &Session| {
            let pending = session.recovery.pending.as_ref();
            pending.is_some_and(|pending| {
                matches!(pending.stage, Stage::Claimed { process: by, .. } if by == process)
            }) && session.owner.as_ref().is_none_or(|owner| owner.id.process != process)
        };
        let keys = self.header.machine.under_way.clone();
        let key = keys.into_iter().find(|key| self.get(*key).is_some_and(has_claimed))?;
        let mut session = self.take(key)?;
        self.fail(&mut session, "the resumed client ended before it reported its start", at, fx);
        self.put(session);
        Some(key)
    }

    pub(super) fn on_claimed(
        &mut self,
        session: &mut Session,
        process: ProcessRef,
        since: Awake,
        asked: Option<u64>,
        at: Moment,
        fx: &mut Effects,
    ) {
        let owner = session.owner.as_ref().filter(|owner| owner.id.process == process);
        let is_owner = owner.is_some();
        let is_confirmed = owner.is_some_and(|owner| owner.is_registered_as(&session.session_id));
        let is_heard = session.recovery.pending.as_ref().is_some_and(|one| one.is_start_heard);
        let has_reported = session.is_reported() || (is_confirmed && is_heard);
        // Only the registry reported the client, and it ended before a hook reported it.
        if is_owner && self.has_ended(session, at, fx) {
            return;
        }
        if is_owner && has_reported {
            session.recovery.start(process, at);
            return;
        }
        let other = self.local_owner(process).and_then(|owner| self.key_of_owner(&owner));
        if other.is_some_and(|key| key != session.key) {
            let why = "the resumed client holds another session";
            return self.stop(session, Stop::operator("S0-25b", why), at, fx);
        }
        if asked.is_none() && since.plus_ms(self.header.settings.resume_proof_ms) <= at.awake {
            let number = self.header.machine.next_number();
            session.recovery.begin_look_at_resumed(number);
            if let Some(subject) = subject(session, process, true) {
                fx.act(Action::Prove { intent: intent(session, number), subject });
            }
        }
    }

    pub(super) fn on_started(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let pending = session.recovery.pending.as_ref();
        let Some(Stage::Started { process, since, asked, is_sole }) =
            pending.map(|pending| pending.stage.clone())
        else {
            return;
        };
        if self.has_ended(session, at, fx) || matches!(*session.presence, Presence::Dying { .. }) {
            return;
        }
        let settings = &self.header.settings;
        let is_due = session.two_owners || since.plus_ms(SOLE_MS) <= at.awake;
        if asked.is_none() && is_due {
            let number = self.header.machine.next_number();
            session.recovery.begin_look_at_resumed(number);
            if let Some(subject) = subject(session, process, true) {
                fx.act(Action::Prove { intent: intent(session, number), subject });
            }
            return;
        }
        let is_settling = self.header.settling.as_ref().is_some_and(|hold| hold.lasts(at.awake));
        let has_stood = since.plus_ms(settings.verified_after_ms) <= at.awake && !is_settling;
        if is_sole && has_stood && self.is_at_its_prompt(session) {
            self.verified(session, at, fx);
        } else if since.plus_ms(settings.resume_proof_ms) <= at.awake {
            let why = "the resumed client did not reach its prompt";
            self.stop(session, Stop::operator("H-33", why), at, fx);
        }
    }

    /// Whether the resumed client is gone. If so, decides what becomes of the recovery.
    fn has_ended(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) -> bool {
        match *session.presence {
            Presence::Alive | Presence::Dying { .. } => return false,
            Presence::Ended { reason: Some(reason), .. } if reason != EndReason::Other => {
                let why = "a person ended it at once".into();
                self.close(session, "G6", Ending::Closed { why }, at, fx);
            }
            Presence::Ended { .. }
            | Presence::Interrupted { .. }
            | Presence::Crashed { .. }
            | Presence::Gone { .. } => {
                self.fail(session, "the resumed client ended at once", at, fx);
            }
        }
        true
    }

    /// Whether the session's present state proves that the resumed client works (H-33).
    pub(super) fn is_at_its_prompt(&self, session: &Session) -> bool {
        match self.state_of(session, session.sign).state {
            SessionState::Idle
            | SessionState::Starting
            | SessionState::Running
            | SessionState::Stalled
            | SessionState::Background
            | SessionState::AwaitingPermission
            | SessionState::AwaitingInput
            | SessionState::QuotaWait
            | SessionState::BlockedAuth
            | SessionState::BlockedBilling => session.contested.is_none(),
            SessionState::Suspended
            | SessionState::Foreign
            | SessionState::Interrupted
            | SessionState::Crashed
            | SessionState::Elsewhere
            | SessionState::Stopped
            | SessionState::RecoveryPending
            | SessionState::Recovering
            | SessionState::Unknown => false,
        }
    }

    pub(super) fn on_sole_look(
        &mut self,
        session: &mut Session,
        process: ProcessRef,
        proof: &Proof,
        at: Moment,
        fx: &mut Effects,
    ) {
        if session.two_owners || !proof.owners.is_empty() {
            return self.end_our_own(session, process, proof, at, fx);
        }
        session.recovery.note_sole();
    }

    /// H-13: handles a session that two processes hold. Coord's client is ended if it received no prompt. The
    /// other client is left alone.
    fn end_our_own(
        &mut self,
        session: &mut Session,
        process: ProcessRef,
        proof: &Proof,
        at: Moment,
        fx: &mut Effects,
    ) {
        // The hook of a prompt may be lost, so registry and screen both have to show rest.
        let is_at_rest = proof.idle_since_ms.is_some()
            && matches!(
                proof.pane,
                PaneState::Client { screen: Some(Screen::Prompt), input: Input::Empty, .. }
            );
        if session.turn == Turn::None
            && is_at_rest
            && let Some(subject) = subject(session, process, true)
        {
            let number = self.header.machine.next_number();
            let (intent, proof, signal) =
                (intent(session, number), proof.without_hang_check(), Signal::Term);
            fx.decide(
                session,
                "H-13",
                "two processes hold the session, and the resumed client got no prompt",
                "SIGTERM to the resumed client",
            );
            fx.act(Action::End { intent, subject, proof, signal });
        }
        self.stop(session, Stop::operator("H-13", "two processes hold the session"), at, fx);
    }

    fn verified(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let quiet_ms = self.header.settings.cooldown_success_ms;
        session.recovery.verify(Hold::new("it was recovered a moment ago", at, quiet_ms), at);
        self.header.machine.on_success();
        harm::notify_of_prompt(session, fx);
        notify_of_dropped_mode(session, fx);
        self.go_on(session, at, fx);
        self.close(session, "H-33", Ending::Verified, at, fx);
        self.tell_news(session, NoticeKind::Recovered, at);
    }

    /// H-33: continuing is a step of its own. An unattended session whose work was cut off gets one message, by a
    /// wake that is charged like any other (H-21).
    fn go_on(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let is_cut = session.recovery.pending.as_ref().is_some_and(|pending| pending.was_working);
        let is_at_rest = session.turn == Turn::None && session.waits.is_empty();
        if !(is_cut && is_at_rest && self.is_unattended(session)) {
            return;
        }
        let saw = "the session is unattended, and the crash cut off its turn";
        match session.wakes.charge(self.header.settings.wakes, at.awake) {
            WakeDecision::Held { .. } => {
                fx.decide(session, "H-21", saw, "not woken: the wake budget is used up");
            }
            WakeDecision::Charged => {
                let crash = "it was gone during an open turn";
                let crash = match dropped_mode_of(session) {
                    Some(mode) => {
                        format!("{crash}, and its permission mode {mode} is not restored")
                    }
                    None => crash.into(),
                };
                let text = wake::continuation(&crash, 0);
                fx.decide(session, "H-33", saw, "woken once to continue");
                self.wake(session, text, fx);
            }
        }
    }
}

/// The permission mode that the process had switched to before it died; none if the resumed one has it.
fn dropped_mode_of(session: &Session) -> Option<&'static str> {
    launch::dropped_mode(session.launch.as_ref()?, session.permission_mode.as_deref())
}

/// H-45: notifies the user that a mode which the command line did not give is not set again.
fn notify_of_dropped_mode(session: &mut Session, fx: &mut Effects) {
    let Some(mode) = dropped_mode_of(session) else { return };
    let saw = format!("the client had switched to permission mode {mode} after its start");
    let text = format!(
        "coord: this session was resumed without permission mode {mode}, which was set after its start"
    );
    fx.decide(session, "H-45", &saw, "resumed with the mode of its command line");
    if let Some((pane, _)) = session.proved_pane() {
        fx.act(Action::Notify { pane, text, for_ms: SHOWN_MS });
    }
}

/// H-43: handles a resume that takes long. It waits for its user, or for an unknown reason, and is left alone.
pub(super) fn waits_for_its_user(
    session: &mut Session,
    proof: &Proof,
    at: Moment,
    fx: &mut Effects,
) {
    let is_dialog = matches!(
        proof.pane,
        PaneState::Client { screen: Some(Screen::Trust | Screen::Dialog | Screen::Question), .. }
    );
    if is_dialog {
        let why = "a dialog is open in the resumed client";
        session.recovery.wait_in_step(Obstacle::Dialog, why, at);
        fx.decide(session, "H-43", why, "left to a person");
    } else {
        let why = "the resumed client has not reported its start";
        flag(session, "H-43", why, at, fx);
    }
}
