//! The durations the rules use. Each is a key of the configuration; the values here are the
//! documented defaults.

use serde::{Deserialize, Serialize};

/// Milliseconds throughout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// An open turn, or an idle session without a known process, is `unknown` when nothing was
    /// heard for this long (R-01: 900 s without a second source).
    pub unknown_after_ms: u64,
    /// Panes of living sessions are looked at this often (S0-30).
    pub sweep_ms: u64,
    /// The same where there is no registry to confirm what hooks say.
    pub look_every_ms: u64,
    /// The judgement of a death does not wait longer for its facts (H-05).
    pub death_judged_within_ms: u64,
    /// A SessionEnd this close to a host event is part of it (H-10).
    pub interrupted_within_ms: u64,
    /// The same before a new boot (S0-25f).
    pub interrupted_before_boot_ms: u64,
    /// Records of sessions that ended are dropped after this (interfaces.md, retention).
    pub stopped_kept_ms: u64,
    /// After a start, a suspend, a clock step or a gap of the loop, nothing is concluded from
    /// silence for this long (H-32).
    pub settle_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            unknown_after_ms: 900_000,
            sweep_ms: 5_000,
            look_every_ms: 1_000,
            death_judged_within_ms: 5_000,
            interrupted_within_ms: 10_000,
            interrupted_before_boot_ms: 120_000,
            stopped_kept_ms: 30 * 24 * 3_600_000,
            settle_ms: 30_000,
        }
    }
}
