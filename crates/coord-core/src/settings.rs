//! The durations and limits the rules use. Each is a key of the configuration; the values here are the
//! documented defaults.

use serde::{Deserialize, Serialize};

use crate::gate::Mode;
use crate::queue::QueueLimits;
use crate::quota::QuotaLimits;
use crate::rest::RestLimits;
use crate::stall::StallLimits;
use crate::wake::WakeLimits;

/// Durations in milliseconds.
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
    /// What may be done (H-06).
    pub mode: Mode,
    /// Recoveries of a session in one turn, and in all (G5).
    pub recoveries_per_turn: u32,
    /// The same in all.
    pub recoveries_total: u32,
    /// After a verified recovery detections are dropped for this long (S0-11).
    pub cooldown_success_ms: u64,
    /// After a failed one nothing is tried for this long, then twice as long, and so on (S0-11, S0-23).
    pub cooldown_failure_ms: u64,
    /// At most this long.
    pub recovery_delay_max_ms: u64,
    /// A resumed client reports within this, or a person is asked (S0-30, H-43).
    pub resume_proof_ms: u64,
    /// It counts as brought back when it has stood for this long (H-33).
    pub verified_after_ms: u64,
    /// An attended session's person can cancel for this long (H-06).
    pub grace_ms: u64,
    /// No key of any client for this long before a living harness is ended (H-08).
    pub keys_quiet_ms: u64,
    /// The registry says idle for this long before (H-08).
    pub idle_quiet_ms: u64,
    /// A harness that was sent SIGTERM is gone within this (S0-25).
    pub end_within_ms: u64,
    /// A death this soon after a recovery is not followed by another one without a signature (H-06).
    pub dies_again_within_ms: u64,
    /// Recoveries under way at once on the machine (H-11).
    pub recoveries_at_once: u32,
    /// Recoveries that begin within the window.
    pub recoveries_per_window: u32,
    /// The window.
    pub recovery_window_ms: u64,
    /// So many crashes within `breaker_within_ms` are one host event (H-11).
    pub breaker_deaths: u32,
    /// Within this.
    pub breaker_within_ms: u64,
    /// So many recoveries in a row that fail alike stop all (H-11).
    pub breaker_failures: u32,
    /// Turns that coord may start in one session (H-21).
    pub wakes: WakeLimits,
    /// When nothing having changed is a stall (S1-17).
    pub stall: StallLimits,
    /// What may be told to a session at rest (S1-09 to S1-11, S1-15, S1-23).
    pub rest: RestLimits,
    /// How a wait for quota is ended (S1-22).
    pub quota: QuotaLimits,
    /// How messages are handed out (S4).
    pub queue: QueueLimits,
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
            mode: Mode::Signature,
            recoveries_per_turn: 3,
            recoveries_total: 10,
            cooldown_success_ms: 30_000,
            cooldown_failure_ms: 5_000,
            recovery_delay_max_ms: 600_000,
            resume_proof_ms: 60_000,
            verified_after_ms: 5_000,
            grace_ms: 10_000,
            keys_quiet_ms: 120_000,
            idle_quiet_ms: 30_000,
            end_within_ms: 10_000,
            dies_again_within_ms: 120_000,
            recoveries_at_once: 2,
            recoveries_per_window: 10,
            recovery_window_ms: 600_000,
            breaker_deaths: 3,
            breaker_within_ms: 60_000,
            breaker_failures: 3,
            wakes: WakeLimits::default(),
            stall: StallLimits::default(),
            rest: RestLimits::default(),
            quota: QuotaLimits::default(),
            queue: QueueLimits::default(),
        }
    }
}
