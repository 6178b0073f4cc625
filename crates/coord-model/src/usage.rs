//! What a session uses, as its client's status line says it (Q-01). Decides nothing.
//!
//! What the client does not say is none, never 0.

use alloc::string::String;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Name of the event by which a status line's numbers arrive (N-08). No hook of the client has this name.
pub const STATUS_LINE: &str = "StatusLine";

/// A decimal number that is not negative, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(pub u64);

impl Decimal {
    /// Millionths in one.
    pub const ONE: u64 = 1_000_000;

    /// The number without its fraction.
    pub const fn whole(self) -> u64 {
        self.0 / Self::ONE
    }

    /// The nearest number of hundredths.
    pub const fn hundredths(self) -> u64 {
        self.0.saturating_add(Self::ONE / 200) / (Self::ONE / 100)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a float becomes an integer by a cast that saturates; millionths are exact enough for what is shown"
)]
impl Decimal {
    fn of(number: f64) -> Self {
        Self((number * Self::ONE as f64 + 0.5) as u64)
    }

    fn number(self) -> f64 {
        self.0 as f64 / Self::ONE as f64
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.number())
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::of)
    }
}

/// The numbers of one status line, as the program that reads it reports them. Numbers are as the client wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Id of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The client's name of the model for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
    /// How much of the context window is in use, in percent; none before the first answer (measured).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_percent: Option<Decimal>,
    /// Size of the context window, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_size: Option<Decimal>,
    /// Cost since the start of the process or /clear, in US dollars, as the client computes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Decimal>,
    /// How much of the 5-hour limit is used, in percent; only with a subscription (measured).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub five_hour_percent: Option<Decimal>,
    /// When the 5-hour limit resets, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub five_hour_resets: Option<Decimal>,
    /// How much of the 7-day limit is used, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seven_day_percent: Option<Decimal>,
    /// When the 7-day limit resets, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seven_day_resets: Option<Decimal>,
}

/// A usage limit of an account: how much of it is used, and when it resets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLimit {
    /// In percent.
    pub percent: Decimal,
    /// Milliseconds since 1970.
    pub resets_ms: u64,
}

impl Usage {
    /// The 5-hour limit of its account.
    pub fn five_hour(&self) -> Option<UsageLimit> {
        limit(self.five_hour_percent, self.five_hour_resets)
    }

    /// The 7-day limit of its account.
    pub fn seven_day(&self) -> Option<UsageLimit> {
        limit(self.seven_day_percent, self.seven_day_resets)
    }
}

fn limit(percent: Option<Decimal>, resets: Option<Decimal>) -> Option<UsageLimit> {
    let (percent, resets) = (percent?, resets?);
    Some(UsageLimit { percent, resets_ms: resets.0 / (Decimal::ONE / 1000) })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Q-01: the client's own floats keep their value in what people see.
    #[test]
    fn q_01_numbers_of_a_status_line_are_exact_in_what_is_shown() {
        let text = r#"{"cost_usd":0.0024000000000000002,"context_percent":61,"context_size":1000000,
            "five_hour_percent":42.5,"five_hour_resets":1795459209}"#;
        let usage: Usage = serde_json::from_str(text).unwrap();
        assert_eq!(usage.cost_usd, Some(Decimal(2400)));
        assert_eq!(usage.context_size.map(Decimal::whole), Some(1_000_000));
        let limit = usage.five_hour().unwrap();
        assert_eq!((limit.percent.hundredths(), limit.resets_ms), (4250, 1_795_459_209_000));
        assert_eq!((usage.seven_day(), usage.model), (None, None));
    }

    #[test]
    fn numbers_that_no_client_writes_saturate() {
        for (text, expected) in [("-3", 0), ("1e300", u64::MAX), ("0", 0)] {
            assert_eq!(serde_json::from_str::<Decimal>(text).unwrap(), Decimal(expected), "{text}");
        }
    }
}
