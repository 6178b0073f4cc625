//! What is known of the harness that holds a session, and what proves that it does (H-44 to H-47).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Moment, ProcessRef};

use super::clocks::clocks;
use super::protected::Protected;

/// The identity of a harness. It tells machines, boots, namespaces and reused pids apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwnerId {
    /// Machine id.
    pub machine: String,
    /// Kernel boot id.
    pub boot: String,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
    /// The process.
    pub process: ProcessRef,
}

impl OwnerId {
    /// Whether both name one process. The registry of another machine names it without its boot.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_boot = self.boot == other.boot || self.boot.is_empty() || other.boot.is_empty();
        let (mine, its) = ((&self.machine, self.pid_ns), (&other.machine, other.pid_ns));
        is_boot && mine == its && self.process == other.process
    }
}

/// The harness that holds the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each asked for by itself")]
pub struct Owner {
    /// The identity of the harness.
    pub id: OwnerId,
    /// When the process itself was observed last, and whether it was alive then; none before the first time.
    pub seen_alive: Option<(bool, Moment)>,
    /// Whether it is stopped by a signal (Ctrl-Z): alive, and not running.
    pub is_stopped: bool,
    /// Whether a hook with a proved sender came from it (H-14, H-25).
    #[serde(default)]
    pub has_reported: bool,
    /// Whether a hook came from it that something else confirms (H-44).
    #[serde(default, rename = "has_told")]
    pub has_confirmed_hook: bool,
    /// Whether a hook with a proved sender named the mode that it runs in. The mode of the previous process says
    /// nothing about this one (H-04).
    #[serde(default)]
    pub has_named_mode: bool,
    /// Whether an unconfirmed event from it names another session, and no confirmed event came since: it may have
    /// gone over to that session (H-44).
    #[serde(default)]
    pub may_have_left: bool,
    /// Once it is gone: it lived at least until then, milliseconds since 1970; 0 if unknown (H-18).
    #[serde(default)]
    pub lived_until_ms: u64,
    /// When another process ended the conversation, milliseconds since 1970; 0 for never. If this harness was
    /// dead by then, that was the end of the session (G6).
    #[serde(default)]
    pub ended_elsewhere_ms: u64,
    /// What proves that it holds this session.
    #[serde(default)]
    pub proof: OwnerProof,
    /// The session that its registry entry named last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_session: Option<String>,
}

/// What proves that a harness holds its session (H-44, H-47).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OwnerProof {
    /// Its first verified event, or its registry entry.
    #[default]
    Proved,
    /// A verified event of a process that held another session before. Any child of the client may have sent that
    /// event.
    TakenOver,
    /// Only its own registry entry, and its program is not recognized as a client. It yields to a process that is
    /// recognized (H-46).
    Registered,
    /// Only an unverified event.
    Claimed,
}

impl Owner {
    /// An owner of which nothing but its identity is known yet.
    fn begin(id: OwnerId) -> Self {
        Self {
            id,
            seen_alive: None,
            is_stopped: false,
            has_reported: false,
            has_confirmed_hook: false,
            has_named_mode: false,
            may_have_left: false,
            lived_until_ms: 0,
            ended_elsewhere_ms: 0,
            proof: OwnerProof::Proved,
            registry_session: None,
        }
    }

    /// Whether its own registry entry says that it holds `session_id`.
    pub(crate) fn is_registered_as(&self, session_id: &str) -> bool {
        self.proof == OwnerProof::Proved && self.registry_session.as_deref() == Some(session_id)
    }

    /// Whether it is proved to hold `session_id`, and the registry does not contradict that.
    pub(crate) fn is_proved(&self, session_id: &str) -> bool {
        match (&self.registry_session, self.proof) {
            (Some(named), OwnerProof::Proved | OwnerProof::TakenOver | OwnerProof::Registered) => {
                named == session_id
            }
            (None, OwnerProof::Proved) => true,
            (None, OwnerProof::TakenOver | OwnerProof::Registered) | (_, OwnerProof::Claimed) => {
                false
            }
        }
    }
}

/// What the session is told of its owner. Without one, nothing changes.
impl Protected<Option<Owner>> {
    /// Another harness holds the session.
    pub(super) fn begin(&mut self, id: OwnerId) {
        self.0 = Some(Owner::begin(id));
    }

    /// The harness holds the session no longer. Returns its identity.
    pub(crate) fn leave(&mut self) -> Option<OwnerId> {
        self.0.take().map(|owner| owner.id)
    }

    /// This proves that it holds the session.
    pub(crate) fn prove(&mut self, proof: OwnerProof) {
        let Some(owner) = &mut self.0 else { return };
        owner.proof = proof;
    }

    /// Its own registry entry says that it holds the session. For a program that is not recognized as a client, that is
    /// proof only once one of its hooks was verified.
    pub(crate) fn note_registered(&mut self, is_unrecognized: bool) {
        let Some(owner) = &mut self.0 else { return };
        let is_proved = !is_unrecognized || owner.has_reported;
        owner.proof = if is_proved { OwnerProof::Proved } else { OwnerProof::Registered };
    }

    /// Its registry entry names this session, or there is none.
    pub(crate) fn note_registry_session(&mut self, session_id: Option<&str>) {
        let Some(owner) = &mut self.0 else { return };
        owner.registry_session = session_id.map(Into::into);
    }

    /// A hook with a proved sender came from it.
    pub(crate) fn note_reported(&mut self) {
        let Some(owner) = &mut self.0 else { return };
        owner.has_reported = true;
    }

    /// A hook came from it that something else confirms.
    pub(crate) fn note_confirmed(&mut self) {
        let Some(owner) = &mut self.0 else { return };
        owner.has_confirmed_hook = true;
    }

    /// A hook named the mode that it runs in. One that is not verified only casts doubt, if its mode is another.
    pub(crate) fn note_mode(&mut self, is_verified: bool, is_new: bool) {
        let Some(owner) = &mut self.0 else { return };
        owner.has_named_mode = is_verified || (owner.has_named_mode && !is_new);
    }

    /// Whether it may have gone over to another session.
    pub(crate) fn note_may_have_left(&mut self, may_have_left: bool) {
        let Some(owner) = &mut self.0 else { return };
        owner.may_have_left = may_have_left;
    }

    /// Its process was seen to be alive.
    pub(crate) fn note_alive(&mut self, is_stopped: bool, at: Moment) {
        let Some(owner) = &mut self.0 else { return };
        owner.seen_alive = Some((true, at));
        owner.is_stopped = is_stopped;
    }

    /// Its process was seen to be dead. It lived at least until `seen_ms`, by the first such look.
    pub(crate) fn note_dead(&mut self, seen_ms: u64, at: Moment) {
        let Some(owner) = &mut self.0 else { return };
        if !matches!(owner.seen_alive, Some((false, _))) {
            owner.lived_until_ms = seen_ms;
        }
        owner.seen_alive = Some((false, at));
    }

    /// No process outlives its boot.
    pub(crate) fn begin_boot(&mut self, at: Moment) {
        let Some(owner) = &mut self.0 else { return };
        owner.seen_alive = Some((false, at));
    }

    /// The wall clock was set: until when a dead one lived compares with nothing (H-32).
    pub(crate) fn forget_lifetime(&mut self) {
        let Some(owner) = &mut self.0 else { return };
        owner.lived_until_ms = 0;
    }

    /// Another process ended the conversation (G6, S0-25f).
    pub(crate) fn note_ended_elsewhere(&mut self, at: Moment) {
        let Some(owner) = &mut self.0 else { return };
        owner.ended_elsewhere_ms = owner.ended_elsewhere_ms.max(at.wall_ms);
    }
}

clocks!(struct Owner {
    id, seen_alive, is_stopped, has_confirmed_hook, has_reported, has_named_mode, may_have_left, lived_until_ms, ended_elsewhere_ms, proof, registry_session,
} until {});

clocks!(none in OwnerId, OwnerProof);
