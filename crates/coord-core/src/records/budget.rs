//! A budget: the one kind of limit on repeated acts (G12). It limits acts per turn and in total, with a growing
//! delay between failures (G5, G12).

use coord_model::{Awake, Delay};
use serde::{Deserialize, Serialize};

/// The limits of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Acts per turn.
    pub per_turn: u32,
    /// Acts in total, until a person resets the budget.
    pub total: u32,
    /// Delay after a failure.
    pub delay: Delay,
}

/// What has been used of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    this_turn: u32,
    total: u32,
    failures_in_a_row: u32,
    last: Option<Awake>,
}

crate::records::clocks::clocks!(struct Budget { this_turn, total, failures_in_a_row, last } until {});

/// Whether one more act is within the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetDecision {
    /// It is allowed now.
    Allowed,
    /// It is allowed at this time, after a failure.
    Later(Awake),
    /// The limit per turn is reached.
    SpentThisTurn,
    /// The total limit is reached: only a person can reset it.
    Spent,
}

impl Budget {
    /// Acts charged in this turn and in total.
    pub fn used(&self) -> (u32, u32) {
        (self.this_turn, self.total)
    }

    /// Whether one more act is allowed at `now`.
    pub fn decide(&self, limits: Limits, now: Awake) -> BudgetDecision {
        if limits.total <= self.total {
            return BudgetDecision::Spent;
        }
        if limits.per_turn <= self.this_turn {
            return BudgetDecision::SpentThisTurn;
        }
        let delay_ms = limits.delay.after_ms(self.failures_in_a_row);
        let due = self.last.map(|last| last.plus_ms(delay_ms));
        due.filter(|due| now < *due).map_or(BudgetDecision::Allowed, BudgetDecision::Later)
    }

    /// Charges one act that begins at `now`.
    pub fn charge(&mut self, now: Awake) {
        self.this_turn = self.this_turn.saturating_add(1);
        self.total = self.total.saturating_add(1);
        self.last = Some(now);
    }

    /// Notes that the last act failed at `now`.
    pub fn failed(&mut self, now: Awake) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        self.last = Some(now);
    }

    /// Notes that the last act succeeded.
    pub fn succeeded(&mut self) {
        self.failures_in_a_row = 0;
    }

    /// Begins a new turn. The total stays (G5).
    pub fn next_turn(&mut self) {
        self.this_turn = 0;
    }

    /// Restarts a delay at `now` after a reboot, because the clock restarted.
    pub fn rebase(&mut self, now: Awake) {
        self.last = self.last.map(|_| now);
    }

    /// Resets everything, on a person's order.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { per_turn: 3, total: 10, delay: Delay { first_ms: 5_000, max_ms: 60_000 } };

    fn at(ms: u64) -> Awake {
        Awake::default().plus_ms(ms)
    }

    // G12: three a turn, ten in total; a new turn gives three back, never the total.
    #[test]
    fn limits_per_turn_and_in_total() {
        let mut budget = Budget::default();
        let mut allowed = 0;
        for _ in 0..5 {
            while budget.decide(LIMITS, at(0)) == BudgetDecision::Allowed {
                budget.charge(at(0));
                budget.succeeded();
                allowed += 1;
            }
            budget.next_turn();
        }
        assert_eq!(allowed, 10);
        assert_eq!(budget.decide(LIMITS, at(0)), BudgetDecision::Spent);
        budget.reset();
        assert_eq!(budget.decide(LIMITS, at(0)), BudgetDecision::Allowed);
    }

    // G12: 5 s, then doubling, then the maximum, for any number of failures.
    #[test]
    fn failures_delay_the_next_act() {
        let limits = Limits { per_turn: u32::MAX, total: u32::MAX, ..LIMITS };
        let mut budget = Budget::default();
        for delay_ms in [5_000, 10_000, 20_000, 40_000, 60_000, 60_000] {
            budget.charge(at(0));
            budget.failed(at(0));
            assert_eq!(
                budget.decide(limits, at(delay_ms - 1)),
                BudgetDecision::Later(at(delay_ms))
            );
            assert_eq!(budget.decide(limits, at(delay_ms)), BudgetDecision::Allowed);
        }
        for _ in 0..100 {
            budget.failed(at(0));
        }
        assert_eq!(budget.decide(limits, at(0)), BudgetDecision::Later(at(60_000)));
        budget.succeeded();
        assert_eq!(budget.decide(limits, at(0)), BudgetDecision::Allowed);
    }
}
