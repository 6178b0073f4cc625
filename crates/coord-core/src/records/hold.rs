//! A hold: the one kind of wait, suppression and suspension (G12, S3-02).
//!
//! A hold has a reason, a start and a hard cap. So suppressions never add up to an endless one, and the remaining
//! time can be read.

use alloc::string::String;
use coord_model::{Awake, Moment};
use serde::{Deserialize, Serialize};

use super::clocks::clocks;
use super::protected::Protected;

/// A time in which nothing acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Moment,
    /// The hard cap.
    pub until: Awake,
}

impl Hold {
    /// A hold from `since` for at most `cap_ms`.
    pub fn new(reason: &str, since: Moment, cap_ms: u64) -> Self {
        Self { reason: reason.into(), since, until: since.awake.plus_ms(cap_ms) }
    }

    /// Whether it still lasts.
    pub fn lasts(&self, now: Awake) -> bool {
        now < self.until
    }

    /// Milliseconds it can still last.
    pub fn remaining_ms(&self, now: Awake) -> u64 {
        self.until.ms_since(now)
    }
}

impl Protected<Option<Hold>> {
    /// A person holds the session, or releases it.
    pub(crate) fn change(&mut self, hold: Option<Hold>) {
        self.0 = hold;
    }
}

clocks!(struct Hold { reason, since } until { until });

#[cfg(test)]
mod tests {
    use super::*;

    // G12
    #[test]
    fn a_hold_ends_at_its_cap() {
        let hold = Hold::new("settling", Moment::default(), 30_000);
        assert!(hold.lasts(Awake::default().plus_ms(29_999)));
        assert_eq!(hold.remaining_ms(Awake::default().plus_ms(29_000)), 1_000);
        assert!(!hold.lasts(Awake::default().plus_ms(30_000)));
        assert_eq!(hold.remaining_ms(Awake::default().plus_ms(31_000)), 0);
    }
}
