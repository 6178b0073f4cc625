//! A session's wait for the end of a usage limit, or for the API.

use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment};

use super::clocks::clocks;

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

/// A wait for the end of a usage limit, or for the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaWait {
    /// Since when.
    pub since: Moment,
    /// What the session waits for.
    #[serde(default)]
    pub waited_for: WaitedFor,
    /// When the limit ends, milliseconds since 1970, if the transcript says so.
    #[serde(default)]
    pub resets_ms: Option<u64>,
    /// No probe is sent before this.
    pub until: Awake,
    /// Probes that were sent.
    pub probes: u32,
}

clocks!(struct QuotaWait { since, waited_for, resets_ms, probes } until { until });

clocks!(none in WaitedFor);
