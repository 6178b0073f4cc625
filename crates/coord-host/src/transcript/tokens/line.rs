//! What a line of a transcript says of tokens.

use coord_model::stamp::parse_rfc3339;
use coord_model::{Decimal, TokenCounts};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The model of an entry that the client wrote in the model's name, such as an API error.
const SYNTHETIC: &str = "<synthetic>";
/// Words of which one is in each line that counts. Most lines have none and are not parsed.
const WORDS: [&str; 3] = ["\"assistant\"", "\"compact_boundary\"", "\"cost-state\""];

/// A line that counts.
#[derive(Debug)]
pub(super) enum Line {
    /// An entry of an answer of the model.
    Answer(Answer),
    /// The conversation was replaced by its summary.
    Compaction,
    /// The total cost in US dollars.
    Cost(Decimal),
}

/// An entry of an answer of the model.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) model: Option<String>,
    pub(super) is_sidechain: bool,
    /// The session that made the request, if it is said to be another.
    pub(super) request_session: Option<String>,
    /// Whether the entry is marked as taken over from another session.
    pub(super) is_forked: bool,
    /// When the entry was written, in milliseconds since 1970.
    pub(super) at_ms: Option<u64>,
    /// Input, cache creation, cache read, output.
    pub(super) tokens: [u64; 4],
}

impl Answer {
    /// All tokens of the request.
    pub(super) fn context(&self) -> u64 {
        let [input, creation, read, _] = self.tokens;
        input.saturating_add(creation).saturating_add(read)
    }
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    #[serde(rename = "isSidechain")]
    is_sidechain: Option<bool>,
    #[serde(rename = "requestSessionId")]
    request_session: Option<String>,
    #[serde(rename = "forkedFrom")]
    forked_from: Option<IgnoredAny>,
    timestamp: Option<String>,
    message: Option<Message>,
    #[serde(rename = "totalCostUSD")]
    cost: Option<Decimal>,
}

#[derive(Debug, Deserialize)]
struct Message {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Usage {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_creation: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
}

/// Recognizes lines.
#[derive(Debug)]
pub(super) struct Lines {
    words: [Finder<'static>; WORDS.len()],
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { words: WORDS.map(Finder::new) }
    }

    /// What the line says; none if it says nothing of tokens, or is not understood.
    pub(super) fn parse(&self, text: &[u8]) -> Option<Line> {
        self.words.iter().find(|word| word.find(text).is_some())?;
        let entry: Entry = serde_json::from_slice(text).ok()?;
        match entry.kind.as_str() {
            "assistant" => answer(entry).map(Line::Answer),
            "cost-state" => entry.cost.map(Line::Cost),
            "system" if entry.subtype.as_deref() == Some("compact_boundary") => {
                Some(Line::Compaction)
            }
            _ => None,
        }
    }
}

fn answer(entry: Entry) -> Option<Answer> {
    let Message { id, model, usage } = entry.message?;
    let usage = usage?;
    if model.as_deref() == Some(SYNTHETIC) {
        return None;
    }
    let bounded = |model: String| model.chars().take(TokenCounts::MODEL_CHARS_MAX).collect();
    Some(Answer {
        id: id.filter(|id| !id.is_empty())?,
        model: model.map(bounded),
        is_sidechain: entry.is_sidechain == Some(true),
        request_session: entry.request_session,
        is_forked: entry.forked_from.is_some(),
        at_ms: entry.timestamp.as_deref().and_then(parse_rfc3339),
        tokens: [usage.input, usage.cache_creation, usage.cache_read, usage.output]
            .map(Option::unwrap_or_default),
    })
}
