//! How many tokens a session has used, as its transcripts show it (Q-01). Decides nothing.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::Decimal;

/// What the transcripts of one session add up to: the session's own file and its subagents' files. Each answer of the
/// model is counted once, however often and in whatever files it stands.
///
/// Requests that the client makes beside the conversation (titles, the summary of a compaction) stand in no
/// transcript, and are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenCounts {
    /// Input tokens that were neither read from a cache nor written to one.
    pub input: u64,
    /// Input tokens that were written to the cache.
    pub cache_creation: u64,
    /// Input tokens that were read from the cache.
    pub cache_read: u64,
    /// Output tokens, *at least*: the client may write an entry before the answer is complete, with the number of
    /// tokens so far.
    pub output: u64,
    /// Answers that were counted.
    pub n_messages: u64,
    /// How many of these answers are in files of subagents.
    pub n_subagent_messages: u64,
    /// Input tokens of the newest answer of the main thread, cached ones included: the size of the context. None before
    /// the first answer, and after a compaction until the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Id of the model that gave the newest answer of the main thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The newest total cost that the client noted in the transcript, in US dollars, as the client computes it. It
    /// includes what a fork took over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Decimal>,
    /// Whether all numbers are "at least", because a bound was reached or a file could not be read.
    pub is_partial: bool,
}

impl TokenCounts {
    /// The longest id of a model that is kept, in characters.
    pub const MODEL_CHARS_MAX: usize = 128;

    /// All input tokens, cached ones included.
    pub const fn all_input(&self) -> u64 {
        self.input.saturating_add(self.cache_creation).saturating_add(self.cache_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    #[test]
    fn q_01_what_is_unknown_is_left_out_and_what_is_missing_is_unknown() {
        let counts =
            TokenCounts { input: 7, cache_creation: 2, cache_read: 1, ..Default::default() };
        assert_eq!(counts.all_input(), 10);
        let text = serde_json::to_string(&counts).unwrap();
        assert!(
            !text.contains("context") && !text.contains("model") && !text.contains("cost"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<TokenCounts>(&text).unwrap(), counts);
        let older = serde_json::from_str::<TokenCounts>(r#"{"output":3,"model":"m"}"#).unwrap();
        let expected = TokenCounts { output: 3, model: Some("m".to_owned()), ..Default::default() };
        assert_eq!(older, expected);
    }
}
