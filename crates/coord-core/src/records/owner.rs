//! What is known of the harness that holds a session, and what shows that it does (H-44 to H-47).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Moment, ProcessRef};

use super::clocks::clocks;

/// A harness, named so that no other machine, boot, namespace or reused pid can be taken for it.
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
    /// Whether both name one process. Another machine's registry names it without its boot.
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
    /// Which.
    pub id: OwnerId,
    /// The last time the process itself was seen, and whether it was alive then; none until looked.
    pub seen_alive: Option<(bool, Moment)>,
    /// Stopped by a signal (Ctrl-Z): alive, and not running.
    pub is_stopped: bool,
    /// A hook reported from it whose sender was proved (H-14, H-25).
    #[serde(default)]
    pub has_reported: bool,
    /// A hook of it came that something besides itself confirms (H-44).
    #[serde(default)]
    pub has_told: bool,
    /// A hook whose sender was proved said in which mode it runs: that of the process before it says nothing
    /// of its own (H-04).
    #[serde(default)]
    pub has_named_mode: bool,
    /// An event of it that nobody confirms names another session, and none that is confirmed came since: it may
    /// have gone over to that one (H-44).
    #[serde(default)]
    pub may_have_left: bool,
    /// Once it is gone: it lived until then at least, milliseconds since 1970; 0 where nobody knows (H-18).
    #[serde(default)]
    pub lived_until_ms: u64,
    /// A younger process ended the conversation then, milliseconds since 1970; 0 for never. If this one was dead
    /// by then, that was the end of it (G6).
    #[serde(default)]
    pub ended_elsewhere_ms: u64,
    /// What shows that it holds this session.
    #[serde(default)]
    pub proof: OwnerProof,
    /// The session that its registry entry named last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_session: Option<String>,
}

/// What shows that a harness holds its session (H-44, H-47).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OwnerProof {
    /// Its first verified event, or its registry entry.
    #[default]
    Proved,
    /// A verified event of a process that held another session before: it may have been sent by any child
    /// of the client.
    TakenOver,
    /// Only its own registry entry, and its program is not recognized as a client. It yields to a process that is
    /// (H-46).
    Registered,
    /// Only an event that nobody verified.
    Claimed,
}

impl Owner {
    /// One of which nothing is known yet.
    pub(crate) fn begin(id: OwnerId) -> Self {
        Self {
            id,
            seen_alive: None,
            is_stopped: false,
            has_reported: false,
            has_told: false,
            has_named_mode: false,
            may_have_left: false,
            lived_until_ms: 0,
            ended_elsewhere_ms: 0,
            proof: OwnerProof::Proved,
            registry_session: None,
        }
    }

    /// Its own registry entry says that it holds the session. For a program that is not recognized as a client, that
    /// is proof only once one of its hooks was verified.
    pub(crate) fn note_registered(&mut self, is_unrecognized: bool) {
        let is_proved = !is_unrecognized || self.has_reported;
        self.proof = if is_proved { OwnerProof::Proved } else { OwnerProof::Registered };
    }

    /// Whether its own registry entry says that it holds `session_id`.
    pub(crate) fn is_registered_as(&self, session_id: &str) -> bool {
        self.proof == OwnerProof::Proved && self.registry_session.as_deref() == Some(session_id)
    }

    /// Whether it is proved that it holds `session_id`, and the registry does not deny it.
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

clocks!(struct Owner {
    id, seen_alive, is_stopped, has_told, has_reported, has_named_mode, may_have_left, lived_until_ms, ended_elsewhere_ms, proof, registry_session,
} until {});

clocks!(none in OwnerId, OwnerProof);
