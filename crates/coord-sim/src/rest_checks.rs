//! What recoveries have come to once all is at rest.
//!
//! * G12, H-35: what is still pending waits, says for what, and that is so.
//! * S0-32: an unattended session that crashed is back, or something hindered it that is so.
//! * H-13: no transcript is locked but those of pending recoveries.

use coord_core::{Ending, Pending, Session, Stage, State};
use coord_model::SessionState;

use crate::checks::Violation;
use crate::client::Truth;
use crate::living::Life;
use crate::places::{Parent, Place};
use crate::simulation::{SECOND, Simulation};

/// A look that is answered takes no longer.
const LOOK_MS: u64 = 1_000;

impl Simulation {
    /// What is pending waits for something that is so, and nothing else is locked.
    pub(crate) fn check_recoveries(&self) -> Result<(), Violation> {
        let Some(serving) = &self.serving else { return Ok(()) };
        let state = serving.coordinator().state();
        let is_pending = |id: &String| {
            let mut all = state.sessions_with_id(id);
            all.any(|session| session.recovery.pending.is_some())
        };
        let locked = self.machine.get().held_transcripts.clone();
        if let Some(id) = locked.keys().find(|id| !is_pending(id)) {
            let what = format!("{id}: its transcript is locked, and no recovery is pending");
            return Err(Violation::new("H-13", what));
        }
        for session in state.sessions() {
            let id = &session.session_id;
            match &session.recovery.pending {
                Some(pending) => {
                    if !self.waits_truly(state, session, pending) {
                        let (why, at) = (&pending.waits_for, &pending.stage);
                        let what = format!("{id}: pending and waits for {why:?}, {at:?}");
                        return Err(Violation::new("H-35", what));
                    }
                }
                None => self.is_left_rightly(session)?,
            }
        }
        Ok(())
    }

    /// Whether what a recovery says that it waits for is so.
    fn waits_truly(&self, state: &State, session: &Session, pending: &Pending) -> bool {
        match &pending.stage {
            Stage::Waiting { .. } => (),
            // It is being looked at in this very moment.
            Stage::Proving { since, .. }
                if state.moment(self.now()).awake.ms_since(*since) < LOOK_MS =>
            {
                return true;
            }
            // A resume that has not reported waits for its user.
            Stage::Claimed { process, asked: Some(_), .. } => {
                return self.machine.get().is_alive(*process);
            }
            Stage::Grace { .. }
            | Stage::Proving { .. }
            | Stage::Ending { .. }
            | Stage::Placing { .. }
            | Stage::Claimed { .. }
            | Stage::Started { .. } => return false,
        }
        let life = self.life_of(session);
        let place = self.place_of_session(session);
        let has = |of: fn(&Place) -> bool| place.is_some_and(of);
        let lives = life.is_some_and(|life| life.truth.is_alive());
        let truth = life.map_or(Truth::Crashed, |life| life.truth);
        let machine = self.machine.get();
        let pane = place
            .and_then(|place| machine.tmux.get(crate::host_events::SOCKET)?.panes.get(&place.pane));
        let tells = |text: &str| pending.waits_for.contains(text);
        (tells("a person holds the session") && self.said.may_be_held(session.key))
            || (tells("needs you") && session.recovery.needs_operator.is_some())
            || (tells("recoveries in") && session.recovery.needs_operator.is_some())
            || (tells("is being delivered to it") && lives)
            || (tells("clients crashed within") && 3 <= self.meter.deaths)
            // A failure whose outcome was replaced within a turn is not metered; one before a success is not kept.
            || (tells("in a row failed")
                && (self.meter.ended.get("failed").is_some_and(|n| 3 <= *n)
                    || state.header().machine.failures.as_ref().is_some_and(|(_, n)| 3 <= *n)))
            || (tells("another coordinator manages") && self.habits.is_dir_locked)
            || (tells("locked the transcript") && !machine.locked_transcripts.is_empty())
            // The newest key may lie ahead of a clock that was set back since.
            || ((tells("somebody is at the terminal") || tells("key was pressed a moment ago"))
                && self.meter.faults.contains_key("clock set"))
            || (tells("holds a draft") && has(|place| place.has_draft))
            || (tells("has the terminal") && has(|place| place.editor.is_some()))
            || (tells("is in the shell, not sent") && has(|place| !place.typed.is_empty()))
            || (tells("in a tmux mode") && pane.is_some_and(|pane| pane.is_in_mode))
            || (tells("pane is synchronized") && pane.is_some_and(|pane| pane.is_synchronized))
            || (tells("screen cannot be read") && pane.is_none())
            || (tells("the pane cannot be captured") && lives)
            || (tells("memory") && machine.want.is_some())
            || (tells("processes still run")
                && life.is_some_and(|it| self.time < it.survivor_until))
            || (tells("a turn is open") && truth != Truth::Idle)
            || (tells("a dialog waits") && lives)
            || (tells("background work") && lives)
            // Nothing but the end of its session's next turn tells that an interrupt ended it.
            || (tells("may work in the background") && lives && !self.rates.has_registry)
            || (tells("limited or blocked") && lives)
            || (tells("stopped by Ctrl-Z") && truth == Truth::Suspended)
            || (tells("does not show an empty prompt") && lives)
            || (tells("uses the terminal") && lives)
            || (tells("registry does not report idle") && (lives || !self.rates.has_registry))
            || (tells("is unknown") && lives)
            || (tells("switched to another session")
                && session.owner.as_ref().is_some_and(|owner| owner.may_have_left))
            || (tells("sources disagree") && lives)
            || (tells("searching the transcript for the signature") && lives)
    }

    fn place_of_session(&self, session: &Session) -> Option<&Place> {
        let id = Some(&session.session_id);
        self.places.iter().find(|place| place.last_session.as_ref() == id)
    }

    /// Whether a session without a pending recovery is rightly left alone.
    fn is_left_rightly(&self, session: &Session) -> Result<(), Violation> {
        let is_crashed = session.shown.state == SessionState::Crashed;
        let Some(life) = self.life_of(session).filter(|_| is_crashed) else { return Ok(()) };
        if !life.is_interactive {
            return Ok(());
        }
        let id = &session.session_id;
        let wrong = |what: &str| Err(Violation::new("S0-32", format!("{id}: crashed, and {what}")));
        match session.recovery.last.as_ref().map(|last| &last.outcome) {
            None => wrong("nobody judged that"),
            Some(Ending::Closed { why }) if !self.is_reason(session, life, why) => {
                wrong(&format!("left because {why:?}, which is not so"))
            }
            Some(Ending::Observed) if self.habits.mode != "observe" => {
                wrong("left as if only observed")
            }
            Some(
                Ending::Closed { .. } | Ending::Observed | Ending::Failed { .. } | Ending::Verified,
            ) => Ok(()),
        }
    }

    /// Whether what closed a recovery was so.
    fn is_reason(&self, session: &Session, life: &Life, why: &str) -> bool {
        let tells = |text: &str| why.contains(text);
        let holds = self.said.holds(session.key, &life.cwd, self.habits.mode == "act", self.time);
        let (id, died) = (&session.session_id, life.since);
        let has_later = self
            .lives
            .values()
            .any(|other| other.session_id == *id && died <= other.started + 2 * SECOND);
        let was_attended = !holds.unattended || died < holds.marked_at + SECOND;
        // Whoever looked later may have known less.
        (tells("a person resumed it") && (has_later || life.is_ours))
            || (tells("it is watched") && was_attended)
            || tells("nothing to resume")
            || tells("continued in another process")
            || (tells("its tmux server is gone") && (life.may_be_taken || 1 < self.boots))
            || (tells("supervisor runs it") && life.parent == Parent::Supervisor)
            // Without the registry, a supervisor is told by its name alone.
            || (tells("decides about restarts")
                && matches!(life.parent, Parent::Wrapper | Parent::Supervisor))
            || tells("was verified")
            || tells("how the client was started is unknown")
            || tells("is interactive is unknown")
            || tells("cleared or left")
            || (tells("was restarted") && 1 < self.boots)
            || tells("a host event interrupted the session")
            || tells("a person ended it")
            || tells("signature was another process's")
            || tells("part of the conversation")
            || tells("exited by itself")
            || tells("the order expired")
            || tells("cancelled with a key")
    }
}
