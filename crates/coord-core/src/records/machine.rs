//! What all recoveries of the machine share (H-11).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment, SessionKey};

use super::clocks::clocks;
use super::hold::Hold;
use super::marks::Marks;
use super::recovery::Flag;

/// What all recoveries of the machine share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Number of the last step.
    pub last_number: u64,
    /// Sessions with a recovery in progress.
    pub under_way: Vec<SessionKey>,
    /// When the latest recoveries began.
    pub starts: Vec<Awake>,
    /// Sessions whose harnesses crashed lately, and when.
    pub deaths: Vec<(SessionKey, Moment)>,
    /// How the latest recoveries failed, if all failed in the same way, and how many did.
    pub failures: Option<(String, u32)>,
    /// The breaker: why no session restarts by itself, and since when.
    pub breaker: Option<Flag>,
    /// Whether the breaker is set for many deaths, and not for failures.
    pub is_for_deaths: bool,
    /// A person's hold on all sessions.
    pub held: Option<Hold>,
    /// Marks of directories, by path.
    pub marks: BTreeMap<String, Marks>,
}

impl Machine {
    /// Returns a step number that was never used before.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }

    /// Resets the breaker and what led to it, on a person's order (H-11).
    pub(crate) fn reset(&mut self) {
        self.breaker = None;
        self.is_for_deaths = false;
        self.failures = None;
        self.deaths.clear();
        self.starts.clear();
    }

    /// Clears what was in progress before a reboot.
    pub(crate) fn begin_boot(&mut self) {
        self.under_way.clear();
        self.starts.clear();
        self.deaths.clear();
    }
}

clocks!(struct Machine {
    last_number, under_way, starts, deaths, failures, breaker, is_for_deaths, held, marks,
} until {});
