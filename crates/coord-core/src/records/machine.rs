//! What concerns all recoveries of the machine (H-11).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment, SessionKey};

use super::clocks::clocks;
use super::hold::Hold;
use super::marks::Marks;
use super::recovery::Flag;

/// What concerns all recoveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Number of the last step.
    pub last_number: u64,
    /// Whose recovery is under way.
    pub under_way: Vec<SessionKey>,
    /// When the latest ones began.
    pub starts: Vec<Awake>,
    /// Whose harnesses crashed lately, and when.
    pub deaths: Vec<(SessionKey, Moment)>,
    /// How the latest recoveries failed, if all in the same way, and how many.
    pub failures: Option<(String, u32)>,
    /// Nothing restarts by itself: why, and since when.
    pub breaker: Option<Flag>,
    /// It is for many deaths, and not for failures.
    pub is_for_deaths: bool,
    /// A person's hold on all sessions.
    pub held: Option<Hold>,
    /// Marks of directories.
    pub marks: BTreeMap<String, Marks>,
}

impl Machine {
    /// A number for a step, never used before.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }

    /// A person ends what H-11 stopped.
    pub(crate) fn reset(&mut self) {
        self.breaker = None;
        self.is_for_deaths = false;
        self.failures = None;
        self.deaths.clear();
        self.starts.clear();
    }

    /// A new boot: nothing that was under way still is.
    pub(crate) fn begin_boot(&mut self) {
        self.under_way.clear();
        self.starts.clear();
        self.deaths.clear();
    }
}

clocks!(struct Machine {
    last_number, under_way, starts, deaths, failures, breaker, is_for_deaths, held, marks,
} until {});
