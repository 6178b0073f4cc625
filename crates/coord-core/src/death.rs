//! Decides what the death of a harness means (H-05, S0-25f, S0-28a): stopped, crashed, or unknown.
//!
//! The death itself is known at once, from the process. What it means is judged only after the
//! socket and the spool have been emptied and the registry has been read, because the SessionEnd
//! hook ends before its process does and may still be on its way. Crashed needs a positive sign.
//! A SessionEnd that arrives after the judgement still corrects it (`turn`).

use alloc::borrow::ToOwned;

use crate::effect::{Decision, Effect, Effects};
use crate::event::{ProcessRef, Registry};
use crate::session::{OwnerId, Presence, RegistryFact, Session, SessionKey};
use crate::state::State;
use crate::time::Moment;

impl State {
    /// The name of a process that this coordinator can see, on this boot.
    pub(crate) fn local_owner(&self, process: ProcessRef) -> Option<OwnerId> {
        self.header.host.as_ref().map(|host| OwnerId {
            machine: host.machine.clone(),
            boot: host.boot.clone(),
            pid_ns: host.pid_ns,
            process,
        })
    }

    /// The process of a record is gone.
    pub(crate) fn on_death(
        &mut self,
        process: ProcessRef,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let key = self.key_of_owner(&self.local_owner(process)?)?;
        let mut session = self.take(key)?;
        if let Some(owner) = &mut session.owner {
            owner.seen_alive = Some((false, at));
        }
        if session.may_live() {
            session.presence = Presence::Dying { since: at };
            fx.ask(Effect::ReadRegistry {
                process,
                config_dir: session.config_dir.clone(),
                after_death: true,
            });
        }
        self.put(session);
        Some(key)
    }

    /// The facts for a judgement did not come in time: it is made without them.
    pub(crate) fn judge_late(&mut self, key: SessionKey, at: Moment, fx: &mut Effects) {
        if let Some(mut session) = self.take(key) {
            judge(&mut session, &Registry::Unreadable, at, fx);
            self.put(session);
        }
    }
}

/// Judges a death by what it left behind.
pub(crate) fn judge(session: &mut Session, found: &Registry, at: Moment, fx: &mut Effects) {
    let Presence::Dying { .. } = session.presence else { return };
    let was_present =
        matches!(session.registry, RegistryFact::Present { .. } | RegistryFact::Removed { .. });
    let (presence, saw, did) = match found {
        Registry::Present(_) => {
            session.registry = RegistryFact::LeftBehind { at };
            let saw = "process gone, no SessionEnd, registry entry left behind";
            (Presence::Crashed { at }, saw, "crashed")
        }
        Registry::Absent if was_present => {
            session.registry = RegistryFact::Removed { at };
            let saw = "process gone, no SessionEnd, registry entry removed";
            (Presence::Ended { reason: None, at }, saw, "stopped")
        }
        Registry::Absent => {
            let saw = "process gone, no SessionEnd, no registry entry seen before or after";
            (Presence::Gone { at }, saw, "unknown")
        }
        Registry::Unreadable => {
            let saw = "process gone, no SessionEnd, registry not readable";
            (Presence::Gone { at }, saw, "unknown")
        }
    };
    session.presence = presence;
    fx.decisions.push(Decision {
        session_id: session.session_id.clone(),
        rule: "H-05",
        saw: saw.to_owned(),
        did: did.to_owned(),
    });
}
