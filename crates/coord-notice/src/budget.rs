//! How much time is left. Everything that waits asks here.

use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};

/// A time by which something has to be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    until: Instant,
}

impl Budget {
    /// A budget that begins now.
    pub(crate) fn new(whole: Duration) -> Self {
        Self { until: Instant::now() + whole }
    }

    /// How much is left; zero once it is used up.
    pub(crate) fn left(self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// A part of at most `limit`, which begins now.
    pub(crate) fn part(self, limit: Duration) -> Self {
        Self { until: self.until.min(Instant::now() + limit) }
    }

    /// Waits for `pause`. Does nothing and returns false if less than that is left.
    pub(crate) fn pause(self, pause: Duration) -> bool {
        if self.left() <= pause {
            return false;
        }
        let part = self.part(pause);
        loop {
            let left = part.left();
            if left.is_zero() {
                return true;
            }
            let Ok(left) = Timespec::try_from(left) else { return false };
            // A signal ends the wait early; the loop goes on.
            let _ = poll(&mut [], Some(&left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_does_not_fit_is_not_begun() {
        let budget = Budget::new(Duration::from_secs(60));
        assert!(budget.pause(Duration::from_millis(1)));
        assert!(!budget.pause(Duration::from_secs(61)));
        assert!(!Budget::new(Duration::ZERO).pause(Duration::ZERO));
        assert!(budget.part(Duration::ZERO).left().is_zero());
        assert!(budget.part(Duration::from_secs(600)).left() <= Duration::from_secs(60));
    }
}
