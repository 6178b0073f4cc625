//! A session's wait for the end of a usage limit, or for the API.

use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment};

use super::clocks::clocks;
use super::protected::Protected;

/// What a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WaitedFor {
    /// The end of a usage limit.
    #[default]
    Quota,
    /// An answer of the API (R-11: `server_error`).
    Service,
}

impl WaitedFor {
    /// What a session waits for after this typed error of the client; none if time does not clear it.
    pub(crate) fn after(error: &str) -> Option<Self> {
        match error {
            "rate_limit" => Some(Self::Quota),
            "server_error" | "overloaded" => Some(Self::Service),
            _ => None,
        }
    }

    /// In words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Quota => "the usage limit to reset",
            Self::Service => "the API to answer",
        }
    }
}

/// Who said when a limit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ResetSource {
    /// The session's own transcript.
    #[default]
    Transcript,
    /// A status line of its account.
    StatusLine,
}

impl ResetSource {
    /// In words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Transcript => "transcript",
            Self::StatusLine => "status line",
        }
    }
}

/// A wait for the end of a usage limit, or for the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaWait {
    /// Since when.
    pub since: Moment,
    /// What the session waits for.
    #[serde(default)]
    pub waited_for: WaitedFor,
    /// When the limit ends, milliseconds since 1970, if that is known.
    #[serde(default)]
    pub resets_ms: Option<u64>,
    /// Who said so.
    #[serde(default)]
    pub reset_source: ResetSource,
    /// No probe is sent before this.
    pub until: Awake,
    /// Probes that were sent.
    pub probes: u32,
}

impl QuotaWait {
    /// Whether nobody has said when its limit ends.
    pub(crate) fn asks_for_reset(&self) -> bool {
        self.waited_for == WaitedFor::Quota && self.resets_ms.is_none()
    }
}

impl Protected<Option<QuotaWait>> {
    /// A turn failed: the session waits, or goes on waiting. The next probe is sent at `until`.
    pub(crate) fn open(&mut self, waited_for: WaitedFor, until: Awake, at: Moment) {
        let (probes, since) = self.0.map_or((0, at), |quota| (quota.probes, quota.since));
        self.0 = Some(QuotaWait {
            since,
            waited_for,
            resets_ms: None,
            reset_source: ResetSource::default(),
            until,
            probes,
        });
    }

    /// It became known when the limit ends.
    pub(crate) fn note_reset(&mut self, resets_ms: u64, source: ResetSource, until: Awake) {
        let Some(quota) = &mut self.0 else { return };
        quota.resets_ms = Some(resets_ms);
        quota.reset_source = source;
        quota.until = until;
    }

    /// The next probe is not sent before `until`.
    pub(crate) fn put_off(&mut self, until: Awake) {
        let Some(quota) = &mut self.0 else { return };
        quota.until = until;
    }

    /// A probe was sent. The next one is sent at `until`.
    pub(crate) fn count_probe(&mut self, until: Awake) {
        let Some(quota) = &mut self.0 else { return };
        quota.probes = quota.probes.saturating_add(1);
        quota.until = until;
        quota.resets_ms = None;
    }

    /// A person resets what failed.
    pub(crate) fn forget_probes(&mut self) {
        let Some(quota) = &mut self.0 else { return };
        quota.probes = 0;
    }

    /// A turn ended well, or another one began from scratch. Returns the wait that is over.
    pub(crate) fn end(&mut self) -> Option<QuotaWait> {
        self.0.take()
    }
}

clocks!(struct QuotaWait { since, waited_for, resets_ms, reset_source, probes } until { until });

clocks!(none in WaitedFor, ResetSource);
