//! What is known of a session's task directory (S1-15, S1-16, S1-24).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment};

use super::clocks::clocks;
use super::hold::Hold;
use super::protected::Protected;

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

impl Protected<Task> {
    /// The session has another task. The stop file that coord wrote for the previous one is still coord's own.
    pub(crate) fn begin_anew(&mut self) {
        self.0 = Task { wrote: self.0.wrote.take(), ..Task::default() };
    }

    /// A read of the directory was requested.
    pub(crate) fn begin_look(&mut self, at: Moment) {
        self.0.looked = at.awake;
    }

    /// The directory was read. Returns whether the signal file is another one than before.
    pub(crate) fn note_signal(&mut self, signal: Option<u64>) -> bool {
        let before = core::mem::replace(&mut self.0.signal, signal);
        let is_first = !core::mem::replace(&mut self.0.is_read, true);
        !is_first && signal.is_some() && signal != before
    }

    /// The directory has a stop file. If coord wrote one, it was seen there.
    pub(crate) fn note_stop_seen(&mut self) {
        if let Some(wrote) = &mut self.0.wrote {
            wrote.is_seen = true;
        }
    }

    /// A stop file stops the task, or none does any more.
    pub(crate) fn change_stop(&mut self, stop: Option<Hold>) {
        self.0.stop = stop;
    }

    /// Coord writes a stop file.
    pub(crate) fn note_written(&mut self, file: StopFile) {
        self.0.wrote = Some(file);
    }

    /// The stop file that coord wrote is no longer coord's to keep. Returns it.
    pub(crate) fn take_written(&mut self) -> Option<StopFile> {
        self.0.wrote.take()
    }
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
