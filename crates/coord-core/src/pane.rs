//! Decides when a session's pane and transcript are observed, and what the result means (R-01, R-10, H-05, H-07,
//! H-16, S0-01, S0-18, S0-29).
//!
//! A pane belongs to a session only if its terminal is the harness's own. `fusion` decides how the screen counts
//! against the hooks. Looks fall on multiples of their period, so that the looks of many sessions coincide and
//! cost one process.

use alloc::borrow::ToOwned;
use alloc::format;

use coord_model::{
    Awake, Effect, Failure, Kind, Look, Moment, PaneFound, PaneSeen, ProcessRef, Screen, SessionKey,
};

use crate::death;
use crate::effects::Effects;
use crate::fusion::{self, LOOKS};
use crate::records::{
    Cause, PaneFact, PaneView, Presence, Session, Signature, Source, State, Turn,
};
use crate::turn;

/// Delay after which a screen that contradicts the hooks is captured again, in milliseconds.
const AGAIN_MS: u64 = 500;
/// Time within which coord finds out whether a signature is content of the conversation, in milliseconds; after
/// that it never does.
const CONTENT_WITHIN_MS: u64 = 60_000;
/// Interval of the looks for a dead client's farewell, in milliseconds.
const FAREWELL_MS: u64 = 300;

impl State {
    /// When the next look at this session's pane, transcript or task directory is due.
    pub(crate) fn next_look(&self, session: &Session) -> Option<Awake> {
        let of_task = self.next_task_look(session);
        self.next_pane_look(session).into_iter().chain(of_task).min()
    }

    fn next_pane_look(&self, session: &Session) -> Option<Awake> {
        if let Presence::Dying { asks_pane, .. } = *session.presence {
            return asks_pane.then(|| session.look.plus_ms(FAREWELL_MS));
        }
        if !session.may_live() || !self.is_looked_at(session) {
            return None;
        }
        let settings = &self.header.settings;
        let is_weighed = session.registry.level().is_none();
        let period_ms = if is_weighed { settings.look_every_ms } else { settings.sweep_ms };
        if session.pane().is_none() && !fusion::is_in_doubt(session) {
            return None;
        }
        if is_weighed && session.contested.is_some() {
            return Some(session.look.plus_ms(AGAIN_MS));
        }
        Some(session.look.next_multiple_of_ms(period_ms))
    }

    /// Whether its pane is observed: only interactive sessions of this machine have a pane of their own.
    fn is_looked_at(&self, session: &Session) -> bool {
        let seen = session.owner.as_ref().and_then(|owner| owner.seen_alive);
        self.is_local(session)
            && session.kind == Some(Kind::Interactive)
            && matches!(seen, Some((true, _)))
    }

    /// Requests the look that is due.
    pub(crate) fn look(&mut self, key: SessionKey, at: Moment, fx: &mut Effects) {
        let Some(mut session) = self.take(key) else { return };
        self.look_at_task(&mut session, at, fx);
        if self.next_pane_look(&session).is_some_and(|due| due <= at.awake) {
            session.look = at.awake;
            ask_for_look(&session, fx);
        }
        self.put(session);
    }

    /// Applies a look at the pane of a process. Returns the record that changed.
    pub(crate) fn on_pane(
        &mut self,
        process: ProcessRef,
        found: &PaneFound,
        looked: Moment,
        after_death: bool,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let key = self.key_of_owner(&self.local_owner(process)?)?;
        let mut session = self.take(key)?;
        session.look = at.awake;
        if after_death {
            let is_known = |id: &str| !self.keys_of_id(id).is_empty();
            death::judge_by_pane(&mut session, found, is_known, at, fx);
        } else {
            note(&mut session, found, looked, fx);
            conclude(&mut session, at, fx);
            let digest = match found {
                PaneFound::Found(seen) => seen.digest,
                PaneFound::NotThere | PaneFound::Unreadable { .. } => None,
            };
            self.count_capture(&mut session, digest, at, fx);
        }
        self.put(session);
        Some(key)
    }

    /// Applies a read of the end of a process's transcript. Returns the record that changed.
    pub(crate) fn on_transcript(
        &mut self,
        process: ProcessRef,
        interrupted_ms: Option<u64>,
        has_signature: Option<bool>,
        failure: Option<&Failure>,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let key = self.key_of_owner(&self.local_owner(process)?)?;
        let mut session = self.take(key)?;
        let is_news = interrupted_ms.is_some_and(|ms| fusion::newest_edge(&session).wall_ms <= ms);
        if is_news && fusion::is_in_doubt(&session) && !self.may_be_written_by_another(&session) {
            turn::interrupt(&mut session, Source::Transcript, at, fx);
        }
        session.signature.note_content(has_signature);
        if let Some(failure) = failure {
            self.note_failure(&mut session, failure, at, fx);
        }
        self.put(session);
        Some(key)
    }
}

impl State {
    /// Whether a look found something that has to be recorded. That is another pane or screen, a signature, a
    /// heartbeat, or the same screen again that confirms or contradicts the hooks.
    pub fn is_news(&self, session: &Session, found: &PaneFound, awake: Awake) -> bool {
        let is_heartbeat = match found {
            PaneFound::Found(PaneSeen { digest: Some(digest), .. }) => {
                self.is_heartbeat(session, *digest, awake)
            }
            // A screen that cannot be captured is not known to be unchanged.
            PaneFound::Found(_) | PaneFound::NotThere | PaneFound::Unreadable { .. } => {
                session.stall.is_some()
            }
        };
        is_heartbeat || is_news(session, found, awake)
    }
}

fn is_news(session: &Session, found: &PaneFound, awake: Awake) -> bool {
    let (seen, view) = match (found, &*session.pane) {
        (PaneFound::Unreadable { why }, PaneFact::Unreadable { why: before, .. }) => {
            return why != before;
        }
        (PaneFound::Unreadable { .. }, PaneFact::Its(_))
        | (PaneFound::NotThere, PaneFact::NotThere { .. }) => return false,
        (PaneFound::Found(seen), PaneFact::Its(view)) => (seen, view),
        (PaneFound::NotThere | PaneFound::Found(_) | PaneFound::Unreadable { .. }, _) => {
            return true;
        }
    };
    let is_other = seen.pane != view.pane || seen.proof != view.proof || seen.screen != view.screen;
    let has_signature =
        seen.signature.as_ref().is_some_and(|name| is_new_signature(session, name, awake));
    let is_weighed = session.registry.level().is_none();
    let is_confirmed = LOOKS <= view.looks && fusion::is_painted(session, view.at.awake);
    let is_old = view.at.awake.plus_ms(fusion::SCREEN_FRESH_MS / 2) <= awake;
    is_other || has_signature || (is_weighed && (!is_confirmed || is_old))
}

/// When a screen becomes too old to count; none if a registry makes it irrelevant.
pub(crate) fn stale_at(session: &Session) -> Option<Awake> {
    let PaneFact::Its(view) = &*session.pane else { return None };
    let counts = view.screen.is_some() && session.registry.level().is_none();
    counts.then(|| view.at.awake.plus_ms(fusion::SCREEN_FRESH_MS))
}

/// Forgets a screen that is too old to count.
pub(crate) fn forget_stale(session: &mut Session, at: Moment) {
    if stale_at(session).is_some_and(|due| due <= at.awake) {
        session.pane.forget_screen();
    }
}

/// Whether it is still unknown if the crash signature on the pane is content of the conversation.
pub fn is_signature_open(session: &Session) -> bool {
    session.signature.as_ref().is_some_and(|signature| signature.is_content.is_none())
}

/// Requests a look at the pane, and at the transcript while no other source confirms the hooks.
pub(crate) fn ask_for_look(session: &Session, fx: &mut Effects) {
    let Some(owner) = &*session.owner else { return };
    let process = owner.id.process;
    let look = if let Presence::Dying { .. } = *session.presence {
        Look::AfterDeath
    } else if fusion::is_in_doubt(session) || session.contested.is_some() {
        Look::Decision
    } else {
        Look::Sweep
    };
    if let Some(pane) = session.pane() {
        let proof = match &*session.pane {
            PaneFact::Its(view) => Some(view.proof),
            PaneFact::Unknown | PaneFact::Unreadable { .. } | PaneFact::NotThere { .. } => None,
        };
        fx.ask(Effect::CapturePane { process, pane: pane.clone(), proof, look });
    }
    let wants_transcript = fusion::is_in_doubt(session) || is_signature_open(session);
    if session.may_live() && wants_transcript && !session.transcript_path.is_empty() {
        fx.ask(Effect::ReadTranscript {
            process,
            path: session.transcript_path.clone(),
            config_dir: session.config_dir.clone(),
        });
    }
}

/// Stores what a look at the pane found.
fn note(session: &mut Session, found: &PaneFound, at: Moment, fx: &mut Effects) {
    let seen = match found {
        PaneFound::Found(seen) => seen,
        PaneFound::NotThere => return session.pane.note_not_there(at),
        PaneFound::Unreadable { why } => return session.pane.note_unreadable(why, at),
    };
    let is_first = !matches!(*session.pane, PaneFact::Its(_));
    let looks = match &*session.pane {
        PaneFact::Its(view)
            if view.screen == seen.screen && fusion::is_painted(session, view.at.awake) =>
        {
            view.looks.saturating_add(1)
        }
        PaneFact::Its(_)
        | PaneFact::Unknown
        | PaneFact::Unreadable { .. }
        | PaneFact::NotThere { .. } => 1,
    };
    session.pane.note_view(PaneView {
        at,
        pane: seen.pane.clone(),
        proof: seen.proof,
        place: seen.place.clone(),
        screen: seen.screen,
        looks,
    });
    if let Some(name) = &seen.signature {
        note_signature(session, name, is_first, at, fx);
    }
}

/// H-07: whether a signature on the screen is a new one that counts. Each counts once per harness process, and
/// none that is known to be content. A signature stays while a recovery or a look at the transcript is in progress
/// for it.
fn is_new_signature(session: &Session, name: &str, awake: Awake) -> bool {
    let is_known = session.signatures().any(|one| one.name == name);
    let pending = session.recovery.pending.as_ref();
    let is_evidence = pending.is_some_and(|pending| pending.cause == Cause::Signature);
    let is_being_read = session.signature.as_ref().is_some_and(|one| {
        one.is_content.is_none() && awake.ms_since(one.at.awake) < CONTENT_WITHIN_MS
    });
    !(is_known || session.signature.is_some() && (is_evidence || is_being_read))
}

/// H-07: notes a signature. A text counts once per harness process, and only as evidence.
fn note_signature(session: &mut Session, name: &str, is_first: bool, at: Moment, fx: &mut Effects) {
    if !is_new_signature(session, name, at.awake) {
        return;
    }
    session.retire_signature();
    // A redrawn conversation shows text from before this process began.
    let is_old = is_first || session.turn == Turn::None;
    let is_content = is_old.then_some(true);
    session.signature.note(Signature { name: name.to_owned(), at, is_content, is_weighed: is_old });
    let saw = format!("crash signature {name} on the screen");
    let did = if is_old {
        "ignored: it was on the screen before this process did anything"
    } else {
        "recorded as evidence only"
    };
    fx.decide(session, "S0-01", &saw, did);
}

/// Applies what the screen proves once two captures agree and are newer than the hooks (R-01, S0-18).
fn conclude(session: &mut Session, at: Moment, fx: &mut Effects) {
    let PaneFact::Its(view) = &*session.pane else { return };
    let is_confirmed = LOOKS <= view.looks && session.registry.level().is_none();
    if !is_confirmed || !fusion::is_painted(session, view.at.awake) {
        return;
    }
    match view.screen {
        Some(Screen::Prompt | Screen::Error) => turn::interrupt(session, Source::Pane, at, fx),
        // The dialog is gone and work continues: the request was approved.
        Some(Screen::Working | Screen::Retry) => {
            session.waits.end_all();
            session.sign = at.awake;
        }
        Some(Screen::Permission | Screen::Question | Screen::Plan | Screen::Dialog) => {
            session.sign = at.awake;
        }
        Some(Screen::Trust | Screen::Shell | Screen::Suspended) | None => (),
    }
}
