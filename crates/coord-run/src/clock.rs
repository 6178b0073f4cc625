//! The supervisor's own time (S3-18, H-32), which advances only while the machine is awake and the loop
//! turns. A sleep, a jump of the wall clock, and a time in which the loop was held up are not counted, and
//! are reported as gaps.

use coord_model::{Awake, Moment};
use coord_store::{Clock, RealClock};

/// Longest time between two turns of the loop, in milliseconds, so that a gap can be told from rest.
pub(crate) const TURN_MS: u64 = 5_000;
/// A longer gap, or a larger jump of the wall clock, is reported; in nanoseconds.
const GAP_NS: u64 = 10_000_000_000;

#[derive(Debug)]
pub(crate) struct RunClock {
    awake_ns: u64,
    mono_ns: u64,
    wall_ms: u64,
    /// Whether there was a gap that was not reported yet.
    had_gap: bool,
}

impl RunClock {
    pub(crate) fn start() -> Self {
        let (mono_ns, wall_ms) = (RealClock.mono_ns(), RealClock.wall_ms());
        Self { awake_ns: 0, mono_ns, wall_ms, had_gap: false }
    }

    /// The present moment. A gap before it is kept until [`RunClock::take_gap`], whoever reads the clock.
    pub(crate) fn read(&mut self) -> Moment {
        let (mono_ns, wall_ms) = (RealClock.mono_ns(), RealClock.wall_ms());
        self.passed(mono_ns, wall_ms)
    }

    /// Whether there was a gap since the last call.
    pub(crate) fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.had_gap)
    }

    fn passed(&mut self, mono_ns: u64, wall_ms: u64) -> Moment {
        let turned_ns = mono_ns.saturating_sub(self.mono_ns);
        let told_ns = wall_ms.abs_diff(self.wall_ms).saturating_mul(1_000_000);
        let stood = GAP_NS < turned_ns;
        if !stood {
            self.awake_ns = self.awake_ns.saturating_add(turned_ns);
        }
        (self.mono_ns, self.wall_ms) = (mono_ns, wall_ms);
        self.had_gap |= stood || GAP_NS < told_ns.abs_diff(turned_ns);
        Moment { awake: Awake(self.awake_ns), wall_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-32, S3-18
    #[test]
    fn what_passes_unseen_does_not_count() {
        let s = |s: u64| s * 1_000_000_000;
        let mut clock = RunClock { awake_ns: 0, mono_ns: 0, wall_ms: 1_000_000, had_gap: false };
        assert_eq!(clock.passed(s(5), 1_005_000).awake, Awake(s(5)));
        assert!(!clock.take_gap());
        assert_eq!(clock.passed(s(100), 1_100_000).awake, Awake(s(5)), "the loop stood");
        assert!(clock.take_gap() && !clock.take_gap(), "it is told once");
        assert_eq!(clock.passed(s(101), 5_000_000).awake, Awake(s(6)), "the machine slept");
        clock.passed(s(102), 5_001_000);
        assert!(clock.take_gap(), "a look at the time in between does not hide it");
        clock.passed(s(103), 1_000_000);
        assert!(clock.take_gap(), "the clock was set back");
        clock.passed(s(104), 1_001_000);
        assert!(!clock.take_gap());
    }
}
