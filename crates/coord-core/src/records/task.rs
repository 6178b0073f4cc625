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
    /// Its directory was read once: what was found is compared with what comes.
    pub is_read: bool,
    /// A digest of the signal file.
    pub signal: Option<u64>,
    /// There is a stop file: nothing acts on the session.
    pub stop: Option<Hold>,
    /// The stop file that coord wrote and has not taken away.
    pub wrote: Option<StopFile>,
    /// When the directory was looked at last.
    pub looked: Awake,
}

/// A stop file of coord's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopFile {
    /// The directory that it stands in.
    pub dir: String,
    /// All that stands in it.
    pub text: String,
    /// Only a person takes it away.
    pub is_kept: bool,
    /// It was seen there: if it is gone, a person took it away.
    #[serde(default)]
    pub is_seen: bool,
}

clocks!(struct Task { is_read, signal, stop, wrote, looked } until {});

clocks!(none in StopFile);
