//! The client's registry: what a look at `sessions/PID.json` found.

use alloc::string::String;
use core::ops::Not;
use serde::{Deserialize, Serialize};

/// The result of a look at a process's registry entry. The file is undocumented: anything unexpected is `Strange`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum Registry {
    /// The entry of exactly this process.
    Present(RegistryEntry),
    /// The directory is there, and the entry is not.
    Absent,
    /// There is no registry, or it must not be read (H-14, H-27).
    Unreadable {
        /// Why.
        why: String,
    },
    /// The file is there, but it is not this process's entry, or has another shape.
    Strange {
        /// What is unexpected.
        why: String,
    },
}

/// One entry of the client's registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryEntry {
    /// The session it names.
    pub session_id: String,
    /// The client's own status word.
    pub status: Option<String>,
    /// What the client waits for, in its own words.
    #[serde(default)]
    pub waiting_for: Option<String>,
    /// When the client changed the status, milliseconds since 1970; 0 if the entry does not say.
    #[serde(default)]
    pub changed_ms: u64,
    /// Whether its `kind` is not `interactive`: the client's own background supervisor owns it.
    #[serde(default, rename = "foreign")]
    pub is_foreign: bool,
    /// Whether its process lives, and its program is not recognized as a client (H-46).
    #[serde(default, rename = "unrecognized", skip_serializing_if = "Not::not")]
    pub is_unrecognized: bool,
    /// Its working directory.
    #[serde(default)]
    pub cwd: String,
    /// The client's own name for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The configuration directory whose registry contains it.
    #[serde(default)]
    pub config_dir: String,
}

impl RegistryEntry {
    /// The status, by the table of the client's status words (measured). None for a word that is not in the table,
    /// which counts as no source (H-35).
    pub fn known_status(&self) -> Option<RegistryStatus> {
        match (self.status.as_deref()?, self.waiting_for.as_deref()) {
            ("idle", _) => Some(RegistryStatus::Idle),
            ("busy", _) => Some(RegistryStatus::Busy),
            ("shell", _) => Some(RegistryStatus::Shell),
            ("waiting", Some("permission prompt" | "sandbox request" | "worker request")) => {
                Some(RegistryStatus::WaitingPermission)
            }
            // `input needed`, `dialog open`, and any other wait: a person is needed.
            ("waiting", _) => Some(RegistryStatus::WaitingInput),
            _ => None,
        }
    }
}

/// The statuses that the client writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistryStatus {
    /// At its prompt.
    Idle,
    /// A turn, a tool, a retry, a compaction, or a background subagent.
    Busy,
    /// A background shell after the turn.
    Shell,
    /// A permission dialog is open.
    WaitingPermission,
    /// A question, a plan, or a dialog of the client's own is open.
    WaitingInput,
}
