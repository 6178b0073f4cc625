//! Time as the core sees it: always an argument, never a clock.

use serde::{Deserialize, Serialize};

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Now {
    /// Nanoseconds the machine was awake since its boot (CLOCK_MONOTONIC).
    pub mono_ns: u64,
    /// Milliseconds since 1970, for people, for order across boots and for retention.
    pub wall_ms: u64,
}

/// Nanoseconds of this boot during which the machine was awake *and* the event loop was running (H-32). Every
/// silence timer and hold uses this clock, so that neither a suspend nor a stopped coordinator makes all of them
/// due at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Awake(pub u64);

impl Awake {
    /// This moment plus `ms` milliseconds.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }

    /// The first moment after this one that is a multiple of `period_ms`.
    #[must_use]
    pub fn next_multiple_of_ms(self, ms: u64) -> Self {
        let period = ms.saturating_mul(1_000_000).max(1);
        let periods = self.0.checked_div(period).unwrap_or(0);
        Self(periods.saturating_add(1).saturating_mul(period))
    }

    /// Milliseconds from `earlier` to this moment; 0 if `earlier` is later.
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }
}

/// When something happened, on the clock that the rules use and on the one that people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Moment {
    /// For rules.
    pub awake: Awake,
    /// For people, milliseconds since 1970.
    pub wall_ms: u64,
}

impl Moment {
    /// The moment `ms` milliseconds before this one.
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Self {
        Self {
            awake: Awake(self.awake.0.saturating_sub(ms.saturating_mul(1_000_000))),
            wall_ms: self.wall_ms.saturating_sub(ms),
        }
    }
}
