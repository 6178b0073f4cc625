//! The turns that coord started in a session, and the limits on more (H-21).

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, WakeLimits};

use super::clocks::clocks;

/// The shorter of the two windows, milliseconds (H-21).
const SHORT_MS: u64 = 10 * 60 * 1000;

/// The longer of the two windows, milliseconds (H-21).
const LONG_MS: u64 = 24 * 3600 * 1000;

/// Whether a turn may be started now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeDecision {
    /// It may start, and was charged.
    Charged,
    /// It may not start yet. What was to start the turn is held until then, visibly, and never dropped.
    Held {
        /// When the next one may.
        until: Awake,
    },
}

/// The turns that coord started in one session, as far back as the limits reach (H-21).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeBudget {
    /// When the turns began, oldest first. There are never more than the daily limit.
    at: Vec<Awake>,
}

clocks!(struct WakeBudget { at } until {});

impl WakeBudget {
    /// Charges one turn that begins at `now`, if it is within the budget. The windows count only time in which the
    /// machine was awake: a night's sleep frees nothing.
    pub fn charge(&mut self, limits: WakeLimits, now: Awake) -> WakeDecision {
        self.at.retain(|at| now.ms_since(*at) < LONG_MS);
        match self.held_until(limits, now) {
            Some(until) => WakeDecision::Held { until },
            None => {
                self.at.push(now);
                WakeDecision::Charged
            }
        }
    }

    /// Until when no turn may be charged; none if one may be charged now.
    pub fn held_until(&self, limits: WakeLimits, now: Awake) -> Option<Awake> {
        let short = self.held_by(limits.per_10min, SHORT_MS, now);
        short.max(self.held_by(limits.per_day, LONG_MS, now))
    }

    /// Turns charged within the last 10 minutes and the last 24 hours.
    pub fn used(&self, now: Awake) -> (usize, usize) {
        let within = |window_ms| self.at.iter().filter(|at| now.ms_since(**at) < window_ms).count();
        (within(SHORT_MS), within(LONG_MS))
    }

    /// When a window has room again; none if it has room now. It has room once the oldest of the last `limit`
    /// turns leaves it.
    fn held_by(&self, limit: u32, window_ms: u64, now: Awake) -> Option<Awake> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let oldest = self.at.len().checked_sub(limit).and_then(|at| self.at.get(at));
        let until = match oldest {
            Some(oldest) => oldest.plus_ms(window_ms),
            // The limit is zero: no turn is allowed.
            None if limit == 0 => now.plus_ms(window_ms),
            None => return None,
        };
        (now < until).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE_MS: u64 = 60_000;
    const LIMITS: WakeLimits = WakeLimits { per_10min: 6, per_day: 60 };

    fn at(ms: u64) -> Awake {
        Awake::default().plus_ms(ms)
    }

    fn held(ms: u64) -> WakeDecision {
        WakeDecision::Held { until: at(ms) }
    }

    // H-21: six in ten minutes; the seventh waits for the first to leave the window.
    #[test]
    fn the_seventh_within_ten_minutes_waits() {
        let mut budget = WakeBudget::default();
        for n in 0..6 {
            assert_eq!(budget.charge(LIMITS, at(n * MINUTE_MS)), WakeDecision::Charged);
        }
        assert_eq!(budget.charge(LIMITS, at(6 * MINUTE_MS)), held(10 * MINUTE_MS));
        assert_eq!(budget.charge(LIMITS, at(10 * MINUTE_MS - 1)), held(10 * MINUTE_MS));
        assert_eq!(budget.used(at(10 * MINUTE_MS - 1)), (6, 6));
        assert_eq!(budget.charge(LIMITS, at(10 * MINUTE_MS)), WakeDecision::Charged);
        assert_eq!(budget.charge(LIMITS, at(10 * MINUTE_MS)), held(11 * MINUTE_MS));
    }

    // H-21: sixty a day, however they are spread, and the day slides too.
    #[test]
    fn the_sixty_first_of_a_day_waits() {
        let mut budget = WakeBudget::default();
        for n in 0..60 {
            assert_eq!(budget.charge(LIMITS, at(n * 2 * MINUTE_MS)), WakeDecision::Charged);
        }
        assert_eq!(budget.charge(LIMITS, at(130 * MINUTE_MS)), held(LONG_MS));
        assert_eq!(budget.charge(LIMITS, at(LONG_MS)), WakeDecision::Charged);
        assert_eq!(budget.charge(LIMITS, at(LONG_MS)), held(LONG_MS + 2 * MINUTE_MS));
    }

    // H-21: a limit of zero holds turns, and does not fail.
    #[test]
    fn a_limit_of_nothing_holds() {
        let limits = WakeLimits { per_10min: 0, per_day: 60 };
        assert_eq!(WakeBudget::default().charge(limits, at(0)), held(10 * MINUTE_MS));
    }

    // H-21, H-32: neither a restart nor a new boot gives turns back.
    #[test]
    fn it_survives_a_restart_and_a_boot() {
        let mut budget = WakeBudget::default();
        for _ in 0..6 {
            budget.charge(LIMITS, at(90 * MINUTE_MS));
        }
        let stored = serde_json::to_string(&budget).unwrap();
        let mut budget: WakeBudget = serde_json::from_str(&stored).unwrap();
        assert_eq!(budget.charge(LIMITS, at(91 * MINUTE_MS)), held(100 * MINUTE_MS));
        crate::records::clocks::rebase(&mut budget, at(91 * MINUTE_MS), at(0));
        assert_eq!(budget.charge(LIMITS, at(MINUTE_MS)), held(10 * MINUTE_MS));
    }

    proptest! {
        // H-21: whatever the input, no window ever exceeds its limit, and a held turn may start at the time that
        // was named.
        #[test]
        fn no_window_is_ever_exceeded(gaps in proptest::collection::vec(0..200_u64, 1..300)) {
            let limits = WakeLimits { per_10min: 3, per_day: 12 };
            let (mut budget, mut charged, mut minutes) = (WakeBudget::default(), Vec::new(), 0);
            for gap in gaps {
                minutes += gap;
                let now = at(minutes * MINUTE_MS);
                match budget.charge(limits, now) {
                    WakeDecision::Charged => charged.push(now),
                    WakeDecision::Held { until } => {
                        prop_assert!(now < until);
                        let later = budget.clone().charge(limits, until);
                        prop_assert_eq!(later, WakeDecision::Charged);
                    }
                }
            }
            for (limit, window_ms) in [(3, SHORT_MS), (12, LONG_MS)] {
                for pair in charged.windows(limit + 1) {
                    prop_assert!(window_ms <= pair[limit].ms_since(pair[0]));
                }
            }
        }
    }
}
