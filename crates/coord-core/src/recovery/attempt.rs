//! Takes a pending recovery from step to step (S0-19 to S0-24, S0-25b, H-13, H-33, H-43, G5, G10).

use alloc::format;

use coord_model::{
    Action, Awake, Intent, Moment, Outcome, PaneState, ProcessRef, Proof, SessionKey, Signal,
    Subject,
};

use super::guards::{Living, Stop, Then};
use super::harm;
use super::hung::{next_still, said_of_end};
use super::opening;
use super::outcome::{AGAIN_MS, again_ms, notice_at, notify_of_wait, wait};
use super::resumed::waits_for_its_user;
use super::verdict::Move;
use crate::effects::Effects;
use crate::records::{
    Cause, Ending, NEVER, Obstacle, Pending, Presence, Session, Stage, State, Way,
};

/// How long coord waits for the answer to a look, in milliseconds.
const LOOK_WITHIN_MS: u64 = 10_000;
/// How long after SessionStart coord looks for another owner, in milliseconds (H-13).
pub(super) const SOLE_MS: u64 = 3_000;

impl State {
    /// Takes the recoveries of these records as far as they can go now.
    pub(crate) fn recover(&mut self, keys: &[SessionKey], at: Moment, fx: &mut Effects) {
        for key in keys {
            if !self.get(*key).is_some_and(concerns) {
                continue;
            }
            let Some(mut session) = self.take(*key) else { continue };
            self.open_cases(&mut session, at, fx);
            self.drive(&mut session, at, fx);
            self.put(session);
        }
    }

    /// When the recovery of a session continues by time alone.
    pub(crate) fn recovery_at(&self, session: &Session) -> Option<Awake> {
        let settings = &self.header.settings;
        let expires = opening::expires_at(session).unwrap_or(NEVER);
        let due = match &session.recovery.pending.as_ref()?.stage {
            Stage::Waiting { until } => (*until).min(notice_at(session).unwrap_or(NEVER)),
            Stage::Grace { until } => *until,
            Stage::Proving { since, .. } => since.plus_ms(LOOK_WITHIN_MS),
            Stage::Ending { since, .. } => since.plus_ms(settings.end_within_ms),
            Stage::Claimed { asked: Some(_), .. } => return None,
            Stage::Placing { since, .. } | Stage::Claimed { since, asked: None, .. } => {
                since.plus_ms(settings.resume_proof_ms)
            }
            // Its end is being read, and the result decides.
            Stage::Started { .. } if matches!(*session.presence, Presence::Dying { .. }) => {
                return None;
            }
            Stage::Started { since, asked, is_sole, .. } => match (asked, is_sole) {
                (None, _) => since.plus_ms(SOLE_MS),
                (Some(_), false) => since.plus_ms(settings.resume_proof_ms),
                (Some(_), true) => {
                    // During settling, nothing is concluded from time alone (H-32).
                    let settled = self.header.settling.as_ref().map_or(*since, |hold| hold.until);
                    let verified = since.plus_ms(settings.verified_after_ms).max(settled);
                    let is_proved = self.is_at_its_prompt(session);
                    if is_proved { verified } else { since.plus_ms(settings.resume_proof_ms) }
                }
            },
        };
        let due = due.min(expires);
        (due != NEVER).then_some(due)
    }

    fn drive(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let Some(pending) = &session.recovery.pending else { return };
        if is_taken_over(session, pending) {
            if matches!(pending.stage, Stage::Claimed { .. }) && session.owner.is_some() {
                // The client that coord resumed is still coming up, and nobody has seen it end.
                return self.stop(
                    session,
                    Stop::operator("H-13", "two processes hold the session"),
                    at,
                    fx,
                );
            }
            let why = "a person resumed it".into();
            return self.close(session, "H-42", Ending::Closed { why }, at, fx);
        }
        let is_interrupted = matches!(*session.presence, Presence::Interrupted { .. });
        if is_interrupted && !pending.by_hand && !pending.is_under_way() {
            let settings = self.header.settings.clone();
            self.header.machine.take_back_death(session.key, &settings);
            let why = "a host event interrupted the session; `coordctl restore` lists it".into();
            return self.close(session, "H-10", Ending::Closed { why }, at, fx);
        }
        if opening::expires_at(session).is_some_and(|due| due <= at.awake) {
            let ending = opening::expired(pending);
            return self.close(session, "H-53", ending, at, fx);
        }
        let is_resumed = matches!(pending.stage, Stage::Claimed { .. } | Stage::Started { .. });
        if !is_resumed
            && let Err(stop) = self.is_ours(session, Some(pending))
            && !matches!(stop.then, Then::Wait(..))
        {
            return self.stop(session, stop, at, fx);
        }
        let stage = pending.stage.clone();
        notify_of_wait(session, at, fx);
        match stage {
            Stage::Waiting { until } => self.try_now(session, until, at, fx),
            Stage::Grace { until } if until <= at.awake => {
                session.recovery.end_grace();
                self.try_now(session, at.awake, at, fx);
            }
            Stage::Proving { since, .. } if since.plus_ms(LOOK_WITHIN_MS) <= at.awake => {
                let until = at.awake.plus_ms(AGAIN_MS);
                let why = "the check did not finish in time";
                wait(session, Obstacle::Unanswered, why, until, at, fx);
            }
            Stage::Ending { since, signal, .. } => {
                self.on_ending(session, since, signal, at, fx);
            }
            Stage::Placing { since, .. } => {
                if since.plus_ms(self.header.settings.resume_proof_ms) <= at.awake {
                    self.fail(session, "the resume line was not run in time", at, fx);
                }
            }
            Stage::Claimed { process, since, asked, .. } => {
                self.on_claimed(session, process, since, asked, at, fx);
            }
            Stage::Started { .. } => self.on_started(session, at, fx),
            Stage::Grace { .. } | Stage::Proving { .. } => (),
        }
    }

    /// Starts the next attempt if no step is in progress: first the guards, then a look.
    pub(super) fn try_now(
        &mut self,
        session: &mut Session,
        until: Awake,
        at: Moment,
        fx: &mut Effects,
    ) {
        let Some(pending) = &session.recovery.pending else { return };
        if matches!(*session.presence, Presence::Dying { .. }) {
            let why = "coord is checking how the client ended";
            return wait(session, Obstacle::BeingJudged, why, NEVER, at, fx);
        }
        let lives = session.may_live();
        let guarded = self
            .is_ours(session, Some(pending))
            .and_then(|()| self.is_held(session, pending, at))
            .and_then(|()| lives.then(|| self.may_be_ended(session, pending, at)).transpose());
        // The obstacle was removed before its time: a person released the session, or reset what had failed.
        let is_lifted = pending.obstacle.is_some_and(Obstacle::is_of_guards);
        let is_due = until == NEVER || until <= at.awake || is_lifted;
        match guarded {
            Err(stop) => self.stop(session, stop, at, fx),
            // The recovery waited for the turn to end, and it has ended.
            Ok(Some(Living::AtRest)) if pending.obstacle == Some(Obstacle::TurnOpen) => {
                self.prove(session, at, fx);
            }
            Ok(_) if is_due => self.prove(session, at, fx),
            Ok(_) => (),
        }
    }

    /// Requests the look that the next step is decided on (G4).
    fn prove(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let number = self.header.machine.next_number();
        let lives = session.may_live();
        let Some(harness) = session.owner.as_ref().map(|owner| owner.id.process) else { return };
        // The look locks the transcript of the session id that it is made for (H-13).
        let before = session.recovery.begin_look(number, &session.session_id, lives, at);
        if let Some(before) = before.filter(|id| !id.is_empty() && *id != session.session_id) {
            fx.act(Action::Release { session_id: before });
        }
        if let Some(subject) = subject(session, harness, lives) {
            fx.act(Action::Prove { intent: intent(session, number), subject });
        }
    }

    /// Applies the answer to a look.
    pub(crate) fn on_proved(
        &mut self,
        intent: Intent,
        proof: &Proof,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let mut session = self.take(intent.session)?;
        match session.recovery.pending.as_ref().map(|pending| pending.stage.clone()) {
            Some(Stage::Proving { number, lives, .. }) if number == intent.number => {
                if lives == session.may_live() {
                    self.decide_on(&mut session, proof, at, fx);
                } else {
                    let why = "the client died after the check";
                    wait(&mut session, Obstacle::DiedSince, why, at.awake, at, fx);
                }
            }
            Some(Stage::Claimed { asked: Some(number), .. }) if number == intent.number => {
                waits_for_its_user(&mut session, proof, at, fx);
            }
            Some(Stage::Started { process, asked: Some(number), .. })
                if number == intent.number =>
            {
                self.on_sole_look(&mut session, process, proof, at, fx);
            }
            Some(_) | None => (),
        }
        self.put(session);
        Some(intent.session)
    }

    fn decide_on(&mut self, session: &mut Session, proof: &Proof, at: Moment, fx: &mut Effects) {
        let lives = session.may_live();
        if !lives {
            let is_empty = proof.transcript.is_without_turn();
            session.recovery.note_conversation(&session.session_id, is_empty);
        }
        if let PaneState::Shell { prompt: Some(prompt), .. } = proof.pane {
            session.recovery.note_prompt(prompt);
        }
        let living = session
            .recovery
            .pending
            .as_ref()
            .filter(|_| lives)
            .map(|pending| self.may_be_ended(session, pending, at));
        match living {
            Some(Ok(Living::InTurn)) => {
                let still = next_still(session, proof, at.awake);
                session.recovery.note_still(still);
            }
            Some(Ok(Living::AtRest) | Err(_)) => session.recovery.note_still(None),
            None => session.recovery.forget_still(),
        }
        let Some(pending) = &session.recovery.pending else { return };
        // What was known when the look was requested may have changed since.
        let guarded = self
            .is_ours(session, Some(pending))
            .and_then(|()| self.is_held(session, pending, at))
            .and_then(|()| match living {
                None => self.judge_dead(session, pending, proof, at),
                Some(Ok(Living::AtRest)) => self.judge_living(session, pending, proof, at),
                Some(Ok(Living::InTurn)) => self.judge_in_turn(session, pending, proof, at),
                Some(Err(stop)) => Err(stop),
            });
        match guarded {
            Err(stop) => self.stop(session, stop, at, fx),
            Ok(Move::Grace) => self.begin_grace(session, at, fx),
            Ok(Move::End) => self.end_harness(session, proof, Signal::Term, at, fx),
            Ok(Move::Kill) => self.end_harness(session, proof, Signal::Kill, at, fx),
            Ok(Move::Place(way)) => self.place_resume(session, proof, way, at, fx),
        }
    }

    /// H-06: notifies the person who watches the session. Any key in the pane cancels the recovery.
    fn begin_grace(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let grace_ms = self.header.settings.grace_ms;
        let until = at.awake.plus_ms(grace_ms);
        session.recovery.begin_grace(until, "any key in the pane cancels", at);
        let seconds = grace_ms / 1_000;
        if let Some((pane, _)) = session.proved_pane() {
            let what = if session.may_live() {
                "this session shows a crash and will be restarted"
            } else {
                "this session crashed and will be recovered"
            };
            let text = format!("coord: {what} in {seconds} s; press any key to cancel");
            let for_ms = u32::try_from(grace_ms).unwrap_or(u32::MAX);
            fx.act(Action::Notify { pane: pane.clone(), text, for_ms });
        }
        let (rule, saw, did) = if session.may_live() {
            (
                "H-54",
                "the session is opted in, and its client may be ended",
                "coord ends the client",
            )
        } else {
            ("H-06", "the session is watched and may be recovered", "coord recovers it")
        };
        let did = format!("{did} in {seconds} s unless a key is pressed");
        fx.decide(session, rule, saw, &did);
    }

    fn end_harness(
        &mut self,
        session: &mut Session,
        proof: &Proof,
        signal: Signal,
        at: Moment,
        fx: &mut Effects,
    ) {
        let number = self.begin(session, at);
        let Some(harness) = session.owner.as_ref().map(|owner| owner.id.process) else { return };
        let is_hung = session.recovery.begin_end(number, signal, at);
        let proof = if is_hung { proof.clone() } else { proof.without_hang_check() };
        let (saw, did) = said_of_end(is_hung, signal);
        fx.decide(session, "S0-25", saw, did);
        if let Some(subject) = subject(session, harness, true) {
            let intent = intent(session, number);
            fx.act(Action::End { intent, subject, proof, signal });
        }
    }

    fn place_resume(
        &mut self,
        session: &mut Session,
        proof: &Proof,
        way: Way,
        at: Moment,
        fx: &mut Effects,
    ) {
        let number = self.begin(session, at);
        let Some(harness) = session.owner.as_ref().map(|owner| owner.id.process) else { return };
        let Some(subject) = subject(session, harness, false) else { return };
        session.recovery.place(number, &subject.session_id, &proof.nonce, way, at);
        fx.decide(
            session,
            "S0-25e",
            "the client is dead, and no other process holds the session",
            way.words(),
        );
        let (intent, proof) = (intent(session, number), proof.clone());
        fx.act(match way {
            Way::Shell => Action::TypeResume { intent, subject, proof },
            Way::Pane => Action::RespawnPane { intent, subject, proof },
            Way::Window => Action::NewWindow { intent, subject, proof },
        });
    }

    /// Begins a step that touches the world. An attempt is charged once, at its first such step.
    fn begin(&mut self, session: &mut Session, at: Moment) -> u64 {
        let settings = self.header.settings.clone();
        let begun = session.recovery.begin_step(at);
        self.header.machine.begin(session.key, begun, &settings, at);
        self.header.machine.next_number()
    }

    /// Applies the outcome of an act.
    pub(crate) fn on_acted(
        &mut self,
        intent: Intent,
        outcome: &Outcome,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let is_of_it = |session: &Session| {
            session.recovery.pending.as_ref().is_some_and(|pending| {
                matches!(
                    pending.stage,
                    Stage::Ending { number, .. } | Stage::Placing { number, .. } if number == intent.number
                )
            })
        };
        if !self.get(intent.session).is_some_and(is_of_it) {
            return None;
        }
        let mut session = self.take(intent.session)?;
        match outcome {
            Outcome::Done => session.recovery.note_signalled(),
            Outcome::Changed { what } => {
                self.header.machine.end(session.key);
                let why = format!("not done: {what}");
                let until = at.awake.plus_ms(again_ms(&mut session));
                wait(&mut session, Obstacle::Changed, &why, until, at, fx);
            }
            Outcome::Failed { why } => self.fail(&mut session, why, at, fx),
            Outcome::Observed => self.close(&mut session, "S0-25g", Ending::Observed, at, fx),
        }
        self.put(session);
        Some(intent.session)
    }

    /// Continues a recovery whose harness was sent a signal.
    fn on_ending(
        &mut self,
        session: &mut Session,
        since: Awake,
        signal: Signal,
        at: Moment,
        fx: &mut Effects,
    ) {
        let is_gone = !session.may_live() && !matches!(*session.presence, Presence::Dying { .. });
        let seen = session.owner.as_ref().and_then(|owner| owner.seen_alive);
        if is_gone && matches!(seen, Some((false, _))) {
            // Coord did not end a process that crashed before the signal. Otherwise the action's outcome tells
            // whether the signal was sent, unless the coordinator was restarted in between.
            let has_crashed = matches!(*session.presence, Presence::Crashed { .. });
            let was_sent = session.recovery.pending.as_ref().is_none_or(|one| one.ended_by_us);
            let is_end_known = was_sent || has_crashed;
            if !is_end_known && at.awake < since.plus_ms(self.header.settings.end_within_ms) {
                return;
            }
            session.recovery.note_ended(has_crashed, at);
            harm::record(session, fx);
            return self.try_now(session, at.awake, at, fx);
        }
        if at.awake < since.plus_ms(self.header.settings.end_within_ms) {
            return;
        }
        let pending = session.recovery.pending.as_ref();
        let was_sent = pending.is_some_and(|pending| pending.ended_by_us);
        let was_hung = pending.is_some_and(|pending| pending.still.is_some());
        let shows_life = since < session.sign;
        let stop = match (was_sent, signal, was_hung) {
            // The coordinator was not running when the signal was to be sent. The step is decided again, on a new
            // look.
            (false, ..) => {
                let why = "whether the signal was sent is unknown";
                Stop::wait(Obstacle::SignalUnknown, why, at.awake)
            }
            (true, Signal::Term, true) if shows_life => {
                session.recovery.withdraw_still();
                let why = "the client showed activity after SIGTERM";
                Stop::wait(Obstacle::LifeAfterSignal, why, at.awake)
            }
            (true, Signal::Term, true) => {
                session.recovery.note_outlived(at);
                let why = "the hung client did not end on SIGTERM";
                Stop::wait(Obstacle::OutlivedSignal, why, at.awake)
            }
            (true, Signal::Term, false) => {
                let why = "the client did not end on SIGTERM; an idle client is not killed";
                Stop::operator("S0-26", why)
            }
            (true, Signal::Kill, _) => {
                Stop::operator("S0-25", "the hung client is alive after SIGKILL was due")
            }
        };
        self.stop(session, stop, at, fx);
    }

    /// Requests a proof of G4, with the end of the conversation. Returns false if it is not known where to look.
    pub(crate) fn look_at_last_words(&mut self, session: &mut Session, fx: &mut Effects) -> bool {
        let Some(harness) = session.owner.as_ref().map(|owner| owner.id.process) else {
            return false;
        };
        let Some(subject) = subject(session, harness, true) else { return false };
        let number = self.header.machine.next_number();
        session.rest.begin_look(number);
        let subject = Subject { reads_last_words: true, ..subject };
        fx.act(Action::Prove { intent: intent(session, number), subject });
        true
    }
}

/// Whether a record has a recovery, or may get one.
fn concerns(session: &Session) -> bool {
    let is_unweighed = session.signature.as_ref().is_some_and(|signature| !signature.is_weighed);
    session.recovery.pending.is_some()
        || is_unweighed
        || matches!(*session.presence, Presence::Crashed { .. })
}

/// H-42: whether another process than the recovery's harness holds the session, and coord did not start that
/// process.
fn is_taken_over(session: &Session, pending: &Pending) -> bool {
    let Some(owner) = &*session.owner else { return true };
    let process = owner.id.process;
    match pending.stage {
        Stage::Claimed { process: ours, .. } | Stage::Started { process: ours, .. } => {
            process != ours && process != pending.harness
        }
        Stage::Waiting { .. }
        | Stage::Grace { .. }
        | Stage::Proving { .. }
        | Stage::Ending { .. }
        | Stage::Placing { .. } => process != pending.harness,
    }
}

pub(super) fn intent(session: &Session, number: u64) -> Intent {
    Intent { session: session.key, number }
}

pub(super) fn subject(session: &Session, harness: ProcessRef, lives: bool) -> Option<Subject> {
    let launch = session.launch.as_ref()?;
    let pending = session.recovery.pending.as_ref();
    Some(Subject {
        session_id: session.session_id.clone(),
        harness,
        lives,
        config_dir: session.config_dir.clone(),
        transcript_path: session.transcript_path.clone(),
        pane: session.proved_pane(),
        any_server: pending.is_some_and(|pending| pending.cause == Cause::Interrupted),
        cwd: launch.cwd.clone(),
        program: launch.program.first().cloned().unwrap_or_default(),
        typed: pending.and_then(|pending| pending.typed.clone()),
        task_dir: session.marks.task_dir.clone(),
        reads_last_words: false,
    })
}
