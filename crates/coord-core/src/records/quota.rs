//! A session's wait for its quota, or for the API.

use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment};

use super::clocks::clocks;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WaitedFor {
    /// The end of a usage limit.
    #[default]
    Quota,
    /// That the API answers again (R-11: `server_error`).
    Service,
}

impl WaitedFor {
    /// What the client's typed error has a session wait for, if time mends it.
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
            Self::Quota => "its quota",
            Self::Service => "the API to answer again",
        }
    }
}

/// A wait for quota, or for the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaWait {
    /// Since when.
    pub since: Moment,
    /// What for.
    #[serde(default)]
    pub waited_for: WaitedFor,
    /// When the limit ends, milliseconds since 1970, where the transcript says so.
    #[serde(default)]
    pub resets_ms: Option<u64>,
    /// Nobody is woken before.
    pub until: Awake,
    /// Probes that were sent.
    pub probes: u32,
}

clocks!(struct QuotaWait { since, waited_for, resets_ms, probes } until { until });

clocks!(none in WaitedFor);
