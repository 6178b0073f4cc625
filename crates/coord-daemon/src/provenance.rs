//! Decides, when an event arrives, how far it is believed (H-25, H-44, H-46): by the socket's peer, the
//! process table and the client's registry. The degree is recorded with the event; the core decides what
//! each degree may change.

use coord_core::Session;
use coord_host::process::Caller;
use coord_model::envelope::Envelope;
use coord_model::{Harness, ProcessRef, Provenance, Registry};

use crate::conditions::Condition;
use crate::coordinator::Coordinator;
use crate::world::World;

const UNRECOGNIZED: &str = "hooks report from a program that is not recognized as a client: ";

impl<W: World> Coordinator<W> {
    /// How far an event is believed that `caller` sent; an event from the spool has no caller.
    pub(crate) fn provenance(&mut self, envelope: &Envelope, caller: Option<Caller>) -> Provenance {
        let Some(harness) = &envelope.harness else { return Provenance::Claimed };
        let is_here = envelope.machine == self.here.machine && harness.pid_ns == self.here.pid_ns;
        let process = harness.process();
        let lives = is_here && envelope.boot == self.here.boot && self.world.is_alive(process);
        let recognized = if lives { self.world.recognize(process) } else { Err(String::new()) };
        let is_client = recognized.is_ok();
        let is_child = caller
            .is_some_and(|caller| envelope.pid == caller.pid && caller.parent == Some(harness.pid));
        if lives && is_child {
            if is_client && !self.is_denied(envelope, harness) {
                return Provenance::Verified;
            }
            if !is_client && self.registry_dir(envelope, harness, false).is_some() {
                return Provenance::Verified;
            }
            if let Err(program) = recognized {
                self.note_unrecognized(&program);
            }
        }
        let registry_dir = self.registry_dir(envelope, harness, is_client);
        if !is_client && registry_dir.is_none() {
            return Provenance::Claimed;
        }
        Provenance::Corroborated { is_client, registry_dir }
    }

    /// The known configuration directory whose registry has an entry of the harness that names the
    /// event's session. The entry may be one that a dead client left. The directory of a living client
    /// is known from its environment.
    fn registry_dir(
        &self,
        envelope: &Envelope,
        harness: &Harness,
        is_client: bool,
    ) -> Option<String> {
        let own = if is_client { self.world.config_dir_of(harness.process()) } else { None };
        let claimed = Some(&envelope.config_dir).filter(|dir| self.is_known_dir(dir)).cloned();
        let named = |dir: &String| {
            let found = self.world.registry_entry(dir, harness.pid).ok()?;
            let is_there = found.domain.as_ref().is_none_or(|domain| {
                domain.pid_ns == harness.pid_ns && (domain.machine == envelope.machine || is_client)
            });
            match found.entry {
                Registry::Present(entry) if found.process == harness.process() && is_there => {
                    Some(entry.session_id)
                }
                Registry::Present(_)
                | Registry::Absent
                | Registry::Unreadable { .. }
                | Registry::Strange { .. } => None,
            }
        };
        own.into_iter()
            .chain(claimed)
            .find(|dir| named(dir).is_some_and(|id| id == envelope.session_id))
            .filter(|_| self.may_hold(harness.process(), &envelope.session_id, is_client))
    }

    /// Whether a process may hold the session that its registry entry names (H-46).
    ///
    /// Any program can write such an entry about itself. A program that is not recognized as a client
    /// therefore takes no session from a recognized client that is alive.
    pub(crate) fn may_hold(&self, process: ProcessRef, session_id: &str, is_client: bool) -> bool {
        let is_anothers = |session: &Session| {
            let owner = session.owner.as_ref().map(|owner| owner.id.process);
            let is_other = owner.is_some_and(|owner| {
                owner != process
                    && self.world.is_alive(owner)
                    && self.world.recognize(owner).is_ok()
            });
            is_other && session.may_live()
        };
        is_client || !self.engine.state().sessions_with_id(session_id).any(is_anothers)
    }

    /// Whether a directory is known as a configuration directory from another source than this event.
    fn is_known_dir(&self, dir: &str) -> bool {
        let named = &self.config.tracking.config_dirs.0;
        self.engine.state().header().config_dirs.contains_key(dir)
            || self.client_dirs.contains(dir)
            || named.iter().any(|named| named.as_os_str() == dir)
    }

    /// Whether a client's child names the session of another record, while the client's own registry
    /// entry says that the client is in a third one. Any child of a client can send such an event.
    fn is_denied(&self, envelope: &Envelope, harness: &Harness) -> bool {
        let state = self.engine.state();
        let Some(held) = state.session_of(harness.process()) else { return false };
        let is_known = held.owner.as_ref().is_some_and(|owner| owner.has_reported);
        let is_anothers =
            || state.sessions_with_id(&envelope.session_id).any(|other| other.key != held.key);
        if !is_known || held.session_id == envelope.session_id || !is_anothers() {
            return false;
        }
        let found = self.world.registry_entry(&held.config_dir, harness.pid);
        found.is_ok_and(|found| {
            let session_id = match &found.entry {
                Registry::Present(entry) => Some(&entry.session_id),
                Registry::Absent | Registry::Unreadable { .. } | Registry::Strange { .. } => None,
            };
            found.process == harness.process()
                && session_id.is_some_and(|id| *id != envelope.session_id)
        })
    }

    /// Shows people a program whose hooks are not believed.
    fn note_unrecognized(&mut self, program: &str) {
        if !program.is_empty() {
            let program: String = program.chars().filter(|one| !one.is_control()).collect();
            let text = format!(
                "{UNRECOGNIZED}{program}. If it is Claude Code, add its path to tracking.clients"
            );
            self.conditions.raise(Condition::UnknownClient, text);
        }
    }
}
