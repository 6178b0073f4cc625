//! What is known of a session's task directory (S1-15, S1-16, S1-24).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::Awake;

use super::clocks::clocks;
use super::hold::Hold;

/// What is known of a session's task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// Whether its directory was read once. Later reads are compared with the first one.
    pub is_read: bool,
    /// Digest of the signal file.
    pub signal: Option<u64>,
    /// The hold of a stop file: nothing acts on the session.
    pub stop: Option<Hold>,
    /// The stop file that coord wrote and has not removed.
    pub wrote: Option<StopFile>,
    /// When the directory was read last.
    pub looked: Awake,
}

/// A stop file that coord wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopFile {
    /// The directory that it is in.
    pub dir: String,
    /// The whole text of the file.
    pub text: String,
    /// Whether only a person removes it.
    pub is_kept: bool,
    /// Whether it was seen there. If it is gone after that, a person removed it.
    #[serde(default)]
    pub is_seen: bool,
}

clocks!(struct Task { is_read, signal, stop, wrote, looked } until {});

clocks!(none in StopFile);
