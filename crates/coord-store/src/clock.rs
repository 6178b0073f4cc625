//! The one place where the store and the coordinator read the time, so that the simulation can
//! control it.
//!
//! It decides nothing; each rule chooses which of the two readings it uses.

use coord_model::Now;
use coord_model::stamp::WallMs;

/// A source of time.
pub trait Clock: Send {
    /// Wall time in milliseconds since 1970, for people and for order across boots.
    fn wall_ms(&self) -> WallMs;
    /// CLOCK_MONOTONIC in nanoseconds: the time for which the machine was awake.
    fn mono_ns(&self) -> u64;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn wall_ms(&self) -> WallMs {
        // A clock set before 1970 reads as 1970.
        nanoseconds(rustix::time::ClockId::Realtime) / 1_000_000
    }

    fn mono_ns(&self) -> u64 {
        nanoseconds(rustix::time::ClockId::Monotonic)
    }
}

/// The present time, by the machine's clocks.
pub fn now() -> Now {
    Now { mono_ns: RealClock.mono_ns(), wall_ms: RealClock.wall_ms() }
}

fn nanoseconds(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_forward_in_their_units() {
        let clock = RealClock;
        let (wall, mono) = (clock.wall_ms(), clock.mono_ns());
        assert!(1_700_000_000_000 < wall, "milliseconds since 1970: {wall}");
        assert!(mono <= clock.mono_ns());
    }
}
