//! The clocks of a scenario: its own time runs evenly, wall time jumps, and a boot begins a new
//! CLOCK_MONOTONIC. A hook that fired earlier has the stamp of its time, of an earlier boot too.

use coord_model::Now;

/// Wall time of a scenario's start: 2026-01-01, midnight.
const WALL_MS: u64 = 1_767_225_600_000;
/// The machine was booted so long before.
const UP_NS: u64 = 1_000_000_000_000;
/// After a boot a machine serves no sooner.
const BOOT_NS: u64 = 20_000_000_000;

/// The clocks.
#[derive(Debug)]
pub(crate) struct Clock {
    eras: Vec<Era>,
    /// Nanoseconds since the scenario's start.
    pub(crate) at_ns: u64,
}

/// A time in which the clocks ran evenly.
#[derive(Debug, Clone)]
struct Era {
    from_ns: u64,
    boot: String,
    mono_ns: u64,
    wall_ns: u64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let first = Era {
            from_ns: 0,
            boot: "boot-1".to_owned(),
            mono_ns: UP_NS,
            wall_ns: WALL_MS * 1_000_000,
        };
        Self { eras: vec![first], at_ns: 0 }
    }

    pub(crate) fn now(&self) -> Now {
        self.stamp(self.at_ns).1
    }

    /// What the clocks and the boot id were at that time.
    pub(crate) fn stamp(&self, at_ns: u64) -> (String, Now) {
        let Era { boot, mono_ns, wall_ns, .. } = self.era_at(at_ns);
        (boot, Now { mono_ns, wall_ms: wall_ns / 1_000_000 })
    }

    /// The scenario's time at which CLOCK_MONOTONIC reads this.
    pub(crate) fn at_of(&self, mono_ns: u64) -> u64 {
        self.at_ns.saturating_add(mono_ns.saturating_sub(self.now().mono_ns))
    }

    /// Sets the wall clock.
    pub(crate) fn jump(&mut self, ms: i64) {
        let mut era = self.era_at(self.at_ns);
        era.wall_ns = era.wall_ns.saturating_add_signed(ms.saturating_mul(1_000_000));
        self.eras.push(era);
    }

    /// The machine is booted anew.
    pub(crate) fn boot(&mut self) {
        let era = self.era_at(self.at_ns);
        let number = self.eras.len() + 1;
        self.eras.push(Era { boot: format!("boot-{number}"), mono_ns: BOOT_NS, ..era });
    }

    fn era_at(&self, at_ns: u64) -> Era {
        let era = self.eras.iter().rev().find(|era| era.from_ns <= at_ns);
        let Some(era) = era.or(self.eras.first()) else { return Self::new().era_at(at_ns) };
        let passed = at_ns.saturating_sub(era.from_ns);
        Era {
            from_ns: at_ns,
            boot: era.boot.clone(),
            mono_ns: era.mono_ns.saturating_add(passed),
            wall_ns: era.wall_ns.saturating_add(passed),
        }
    }
}
