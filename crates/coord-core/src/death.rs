//! Decides what the death of a harness means (H-05, S0-25f, S0-28a): stopped, crashed, or unknown.
//!
//! The registry decides. Without one, the client's farewell on its pane does.
//!
//! The death itself is known at once, from the process. What it means is judged only after the socket and the
//! spool have been emptied and the registry has been read. The SessionEnd hook ends before its process does,
//! and may still be on its way. Crashed needs positive evidence. A SessionEnd that arrives after the judgement
//! still corrects it (`turn`).

use coord_model::{
    Effect, Farewell, Moment, PaneFound, PaneProof, ProcessRef, Registry, SessionKey,
};

use crate::effects::Effects;
use crate::records::{PaneFact, Presence, RegistryFact, Session, State, Turn};

/// How long tmux may take to paint the client's farewell, in milliseconds. The client writes it before it ends.
const FAREWELL_WITHIN_MS: u64 = 800;

impl State {
    /// The process of a record is gone: just now (`is_fresh`), or at an unknown time. It lived at least until
    /// `seen_ms`, in milliseconds since 1970.
    pub(crate) fn on_death(
        &mut self,
        process: ProcessRef,
        is_fresh: bool,
        seen_ms: u64,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let key = self.key_of_owner(&self.local_owner(process)?)?;
        let mut session = self.take(key)?;
        session.owner.note_dead(seen_ms, at);
        let ended_ms = session.owner.as_ref().map_or(0, |owner| owner.ended_elsewhere_ms);
        if !is_fresh && 0 < ended_ms && seen_ms <= ended_ms {
            // The process may have been dead when its conversation was ended elsewhere (G6).
            session.recovery.pass_on(Some(process));
        }
        if session.may_live() {
            if !is_fresh {
                let counters = &mut self.header.counters;
                counters.found_dead = counters.found_dead.saturating_add(1);
            }
            session.presence.die(is_fresh, at);
            fx.ask(Effect::ReadRegistry {
                process,
                config_dir: session.config_dir.clone(),
                after_death: true,
            });
        }
        self.put(session);
        Some(key)
    }

    /// Judges a death without the facts that did not arrive in time.
    pub(crate) fn judge_late(&mut self, key: SessionKey, at: Moment, fx: &mut Effects) {
        if let Some(mut session) = self.take(key) {
            let saw = "process gone, no SessionEnd; neither registry nor pane shows how it ended";
            conclude(&mut session, Presence::Gone { at }, saw, "unknown", fx);
            self.put(session);
        }
    }
}

/// Judges a death by its registry entry. If that does not decide, the pane is captured.
pub(crate) fn judge(session: &mut Session, found: &Registry, at: Moment, fx: &mut Effects) {
    if !matches!(*session.presence, Presence::Dying { .. }) {
        return;
    }
    let was_present =
        matches!(*session.registry, RegistryFact::Present { .. } | RegistryFact::Removed { .. });
    match found {
        Registry::Present(entry) if !session.has_id(&entry.session_id) => {
            // The client went over to another session, and no event that is believed reported it (H-44). What
            // became of this session is not known.
            session.registry.note_left_behind(at);
            let saw =
                "process gone, no SessionEnd, the registry entry left behind names another session";
            conclude(session, Presence::Gone { at }, saw, "unknown", fx);
        }
        Registry::Present(_) => {
            session.registry.note_left_behind(at);
            let saw = "process gone, no SessionEnd, registry entry left behind";
            conclude(session, Presence::Crashed { at }, saw, "crashed", fx);
        }
        Registry::Absent if was_present => {
            session.registry.note_removed(at);
            let saw = "process gone, no SessionEnd, registry entry removed";
            conclude(session, Presence::Ended { reason: None, at }, saw, "stopped", fx);
        }
        Registry::Absent | Registry::Unreadable { .. } | Registry::Strange { .. }
            if matches!(*session.pane, PaneFact::Its(_)) =>
        {
            session.look = at.awake;
            session.presence.ask_pane();
        }
        Registry::Absent => {
            let saw = "process gone, no SessionEnd, no registry entry seen before or after";
            conclude(session, Presence::Gone { at }, saw, "unknown", fx);
        }
        Registry::Unreadable { .. } | Registry::Strange { .. } => {
            let saw = "process gone, no SessionEnd, registry not readable";
            conclude(session, Presence::Gone { at }, saw, "unknown", fx);
        }
    }
}

/// Judges a death by the pane. The client's farewell means a clean end. An open turn without a farewell, once
/// there was time to paint it, means a crash. A session at rest without one proves nothing. A farewell that
/// names another record's session (`is_known`) counts as none. One that names no known session may be the
/// client's own.
pub(crate) fn judge_by_pane(
    session: &mut Session,
    found: &PaneFound,
    is_known: impl Fn(&str) -> bool,
    at: Moment,
    fx: &mut Effects,
) {
    let Presence::Dying { since, asks_pane: true, is_fresh } = *session.presence else { return };
    let seen = match found {
        PaneFound::Found(seen) if is_same_pane(session, seen.proof) => seen,
        PaneFound::Found(_) | PaneFound::NotThere => {
            let saw = "process and pane gone, no SessionEnd, no registry";
            return conclude(session, Presence::Gone { at }, saw, "unknown", fx);
        }
        PaneFound::Unreadable { .. } => return,
    };
    if let Some(Farewell::Last(id)) = &seen.farewell
        && session.has_id(id)
    {
        if is_fresh {
            let saw = "process gone, no SessionEnd, no registry, the client's farewell on the pane";
            return conclude(session, Presence::Ended { reason: None, at }, saw, "stopped", fx);
        }
        // Another client may have resumed the conversation on that pane since, and left it.
        let saw = "process found gone, no SessionEnd, no registry; the farewell on the pane may be another client's";
        return conclude(session, Presence::Gone { at }, saw, "unknown", fx);
    }
    if at.awake.ms_since(since.awake) < FAREWELL_WITHIN_MS {
        return;
    }
    let is_open = matches!(*session.turn, Turn::Open { .. });
    let may_be_its = |farewell: &Farewell| {
        let (Farewell::Last(id) | Farewell::Above { session: id }) = farewell;
        session.has_id(id) || !is_known(id)
    };
    let (presence, did, saw) = if seen.farewell.as_ref().is_some_and(may_be_its) {
        // Something was drawn below the farewell since, or it names a conversation whose start (`/clear`) was
        // never reported. It may also be an older client's.
        let saw =
            "process gone, no SessionEnd, no registry; a farewell on the pane may be this client's";
        (Presence::Gone { at }, "unknown", saw)
    } else if is_open && is_fresh {
        let saw =
            "process gone during an open turn, no SessionEnd, no registry, no farewell on the pane";
        (Presence::Crashed { at }, "crashed", saw)
    } else if is_open {
        // What is on the pane may have been painted by another program since.
        let saw = "process found gone, no SessionEnd, no registry, no farewell left on the pane";
        (Presence::Gone { at }, "unknown", saw)
    } else {
        let saw =
            "process gone, no open turn known, no SessionEnd, no registry, no farewell on the pane";
        (Presence::Gone { at }, "unknown", saw)
    };
    conclude(session, presence, saw, did, fx);
}

/// Whether the pane is the one that was proved before. A new server reuses pane ids, so only the proof decides
/// (H-16).
fn is_same_pane(session: &Session, proof: PaneProof) -> bool {
    matches!(&*session.pane, PaneFact::Its(view) if view.proof == proof)
}

fn conclude(session: &mut Session, presence: Presence, saw: &str, did: &str, fx: &mut Effects) {
    let (presence, did) = match (presence, session.left) {
        // The conversation was over before its process ended, and there is nothing to come back to (H-36).
        (
            Presence::Ended { at, .. } | Presence::Crashed { at } | Presence::Gone { at },
            reason @ Some(_),
        ) => (Presence::Ended { reason, at }, "stopped: the conversation had already ended"),
        (Presence::Crashed { at }, None) if session.may_have_left() => {
            (Presence::Gone { at }, "unknown: the process may have switched to another session")
        }
        (presence, _) => (presence, did),
    };
    session.presence.judge(presence);
    fx.decide(session, "H-05", saw, did);
}
