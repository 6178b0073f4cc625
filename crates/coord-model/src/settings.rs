//! The durations and limits the rules use. Each is a key of the configuration; the values here are the
//! documented defaults.

use serde::{Deserialize, Serialize};

use crate::NoticeSettings;

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
    /// The same time before a reboot (S0-25f).
    pub interrupted_before_boot_ms: u64,
    /// Records of sessions that ended are dropped after this (interfaces.md, retention).
    pub stopped_kept_ms: u64,
    /// After a start, a suspend, a clock step or a gap of the event loop, nothing is concluded from silence for
    /// this long (H-32).
    pub settle_ms: u64,
    /// What coord may do (H-06).
    pub mode: Mode,
    /// Recoveries of a session in one turn (G5).
    pub recoveries_per_turn: u32,
    /// Recoveries of a session in total (G5).
    pub recoveries_total: u32,
    /// After a verified recovery detections are dropped for this long (S0-11).
    pub cooldown_success_ms: u64,
    /// Delay after a failed recovery; it doubles after each further failure (S0-11, S0-23).
    pub cooldown_failure_ms: u64,
    /// Maximum of that delay.
    pub recovery_delay_max_ms: u64,
    /// Time within which a resumed client has to report; after that a person is asked (S0-30, H-43).
    pub resume_proof_ms: u64,
    /// Time for which a resumed client has to live until the recovery is verified (H-33).
    pub verified_after_ms: u64,
    /// Time in which the user of an attended session can cancel (H-06).
    pub grace_ms: u64,
    /// Time without a key from any client before a living harness is ended (H-08).
    pub keys_quiet_ms: u64,
    /// Time for which the registry must say idle before a living harness is ended (H-08).
    pub idle_quiet_ms: u64,
    /// Time within which a harness has to end after SIGTERM (S0-25).
    pub end_within_ms: u64,
    /// A death within this time after a recovery leads to no other recovery without a signature (H-06).
    pub dies_again_within_ms: u64,
    /// Recoveries in progress at once on the machine (H-11).
    pub recoveries_at_once: u32,
    /// Recoveries that may begin within `recovery_window_ms`.
    pub recoveries_per_window: u32,
    /// Length of that window.
    pub recovery_window_ms: u64,
    /// Number of crashes within `breaker_within_ms` that make one host event (H-11).
    pub breaker_deaths: u32,
    /// Time in which these crashes are counted.
    pub breaker_within_ms: u64,
    /// Number of recoveries in a row that fail alike and stop all recoveries (H-11).
    pub breaker_failures: u32,
    /// Turns that coord may start in one session (H-21).
    pub wakes: WakeLimits,
    /// When an unchanged screen is a stall (S1-17).
    pub stall: StallLimits,
    /// What coord may tell a session at rest (S1-09 to S1-11, S1-15, S1-23).
    pub rest: RestLimits,
    /// How coord finds the end of a wait for quota (S1-22).
    pub quota: QuotaLimits,
    /// How messages are handed out (S4).
    pub queue: QueueLimits,
    /// How people are told (N-01).
    pub notice: NoticeSettings,
    /// Whether requests may be answered from elsewhere than their terminal.
    pub remote_answers: bool,
    /// How long a hook waits for a reply at most.
    pub reply_wait_ms: u64,
    /// What the passphrase is needed for (H-50).
    pub passphrase_for: PassphraseFor,
    /// Whether requests of headless runs may wait for a reply (A-03, H-38).
    pub headless_answers: bool,
    /// Whether requests of sessions that the client's own background supervisor runs (`claude --bg`) may be answered
    ///
    pub background_answers: bool,
    /// How long hooks of a headless run, or of the subagents of one turn, wait in all, while nobody else can answer
    /// (H-38).
    pub hidden_wait_ms: u64,
}

/// What the passphrase is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassphraseFor {
    /// Replies to requests.
    Requests,
    /// Every order of `coordctl`.
    All,
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
            notice: NoticeSettings::default(),
            remote_answers: false,
            reply_wait_ms: 24 * 3_600_000,
            passphrase_for: PassphraseFor::Requests,
            headless_answers: false,
            background_answers: false,
            hidden_wait_ms: 600_000,
        }
    }
}

/// `[recovery] mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Decide, record, notify, and act on nothing.
    Observe,
    /// Act on unattended sessions, and on crash signatures (H-06).
    Signature,
    /// Act on all sessions.
    Act,
}

/// How coord finds the end of a wait for quota. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaLimits {
    /// Delay of the first probe if the end of the limit is unknown. It doubles for each further one.
    pub probe_after_ms: u64,
    /// Minimum time between the known end of a limit and a wake: a subscription's client continues by itself up to
    /// 90 s after it (measured).
    pub reset_margin_ms: u64,
    /// Delay of the first probe after an API error that outlasted the client's retries.
    pub service_after_ms: u64,
    /// Maximum delay between probes.
    pub probe_delay_max_ms: u64,
    /// Number of failed probes after which a person is asked.
    pub probes: u32,
    /// Share of a usage limit, in percent, from which a session that uses it needs a person; none: never.
    pub need_at_percent: Option<u32>,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self {
            probe_after_ms: 900_000,
            reset_margin_ms: 120_000,
            service_after_ms: 300_000,
            probe_delay_max_ms: 2 * 3_600_000,
            probes: 5,
            need_at_percent: None,
        }
    }
}

/// What coord may tell a session at rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestLimits {
    /// Whether prompts are answered at all (`stall.answers`).
    pub answers: bool,
    /// Answers in one iteration (S1-15).
    pub per_iteration: u32,
    /// Answers in total.
    pub total: u32,
    /// Tokens that a conversation may hold.
    pub context_tokens: u64,
    /// Context use, in percent, at which a summary is requested once; values over 100 disable it (S1-23).
    pub summary_percent: u32,
}

impl Default for RestLimits {
    fn default() -> Self {
        let (per_iteration, total) = (3, 10);
        Self { answers: false, per_iteration, total, context_tokens: 200_000, summary_percent: 70 }
    }
}

/// When an unchanged screen is a stall, and when a person is reminded. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StallLimits {
    /// Interval at which an unattended session's screen is compared (S1-02).
    pub heartbeat_ms: u64,
    /// Unchanged captures in a row from which on a stall is suspected (S1-06).
    pub captures: u32,
    /// Limit for a turn in which no tool runs.
    pub thinking_after_ms: u64,
    /// Limit for a turn in which a tool runs.
    pub tool_after_ms: u64,
    /// Limit for a turn that waits for an MCP server.
    pub mcp_after_ms: u64,
    /// Limit for a turn that waits for a subagent.
    pub subagent_after_ms: u64,
    /// Limit for a turn whose request is being retried: the client retries for 180 s.
    pub retry_after_ms: u64,
}

impl Default for StallLimits {
    fn default() -> Self {
        Self {
            heartbeat_ms: 60_000,
            captures: 3,
            thinking_after_ms: 600_000,
            tool_after_ms: 3 * 3_600_000,
            mcp_after_ms: 600_000,
            subagent_after_ms: 1_800_000,
            retry_after_ms: 360_000,
        }
    }
}

/// The limits on wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WakeLimits {
    /// Wakes within any 10 minutes (`queue.wakes_per_10min`).
    pub per_10min: u32,
    /// Wakes within any 24 hours (`queue.wakes_per_day`).
    pub per_day: u32,
}

impl Default for WakeLimits {
    fn default() -> Self {
        Self { per_10min: 6, per_day: 60 }
    }
}

/// How messages are handed out (`[queue]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueLimits {
    /// Default length of a consumer's lease, milliseconds (S4-11).
    pub lease_ms: u64,
    /// Time after which a message that is worked on counts as slow, milliseconds (S4-18).
    pub slow_ms: u64,
    /// Attempts after the first one (S4-23).
    pub retries: u32,
    /// The delay before these attempts.
    pub delay: Delay,
    /// Maximum number of pending messages for one receiver; more are refused.
    pub per_receiver: u32,
    /// How long processed messages are kept, milliseconds (S4-20).
    pub processed_kept_ms: u64,
    /// How long failed messages are kept, milliseconds (S4-20).
    pub failed_kept_ms: u64,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            lease_ms: 300_000,
            slow_ms: 120_000,
            retries: 3,
            delay: Delay { first_ms: 10_000, max_ms: 300_000 },
            per_receiver: 1_000,
            processed_kept_ms: 7 * 24 * 3_600_000,
            failed_kept_ms: 30 * 24 * 3_600_000,
        }
    }
}

/// A delay that doubles with each failure in a row, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// Delay after the first failure, milliseconds.
    pub first_ms: u64,
    /// Maximum delay, milliseconds.
    pub max_ms: u64,
}

impl Delay {
    /// The delay after this many failures in a row, milliseconds.
    pub fn after_ms(self, failures: u32) -> u64 {
        failures.checked_sub(1).map_or(0, |doublings| {
            let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
            self.first_ms.saturating_mul(factor).min(self.max_ms)
        })
    }
}
