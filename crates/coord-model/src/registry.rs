//! The client's registry: what a look at one entry found.

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// What a look at a process's registry entry found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registry {
    /// The entry of exactly this process.
    Present(RegistryEntry),
    /// The directory is there, the entry is not.
    Absent,
    /// No registry, or not to be read, or of an unknown shape.
    Unreadable,
}

/// One entry of the client's registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryEntry {
    /// The session it names.
    pub session_id: String,
    /// The client's own status, if its word is a known one (H-35: another word is no source).
    pub status: Option<RegistryStatus>,
    /// When the client last changed the status, milliseconds since 1970; 0 where it does not say.
    pub changed_ms: u64,
    /// Owned by the client's own background supervisor.
    pub is_foreign: bool,
    /// Its process lives, and its program is not recognized as a client (H-46).
    pub is_unrecognized: bool,
    /// Its working directory.
    pub cwd: String,
    /// The configuration directory whose registry has it.
    pub config_dir: String,
}

/// The client's own status words.
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
