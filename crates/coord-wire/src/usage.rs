//! What sessions use and accounts have left, in the answer of `coord inspect --json`. Each number has its
//! source and its time; what is not known is null, never 0.

use coord_model::{Decimal, TokenCounts};
use serde::{Deserialize, Serialize};

/// The source of what a headless run says in its result.
pub const RESULT: &str = "result";

/// What a session uses.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Usage {
    /// The model; null if unknown.
    pub model: Option<Model>,
    /// The context window; null if unknown.
    pub context: Option<Context>,
    /// The cost; null if unknown.
    pub cost: Option<Cost>,
    /// The tokens that its transcripts show; only where one session is asked for, and null if unknown.
    #[serde(default)]
    pub tokens: Option<Tokens>,
    /// The usage limits of its account that have not reset since they were said; none for accounts without limits.
    #[serde(default)]
    pub limits: Vec<Limit>,
}

/// A model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Model {
    /// Its id.
    pub id: Option<String>,
    /// The client's name of it.
    pub name: Option<String>,
    /// Who said so.
    pub source: String,
    /// When, in the format of RFC 3339.
    pub at: String,
}

/// Tokens that a session has used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The counts.
    #[serde(flatten)]
    pub counts: TokenCounts,
    /// Where they were read.
    pub source: String,
    /// When, in the format of RFC 3339.
    pub at: String,
}

/// How full a context window is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Context {
    /// In percent.
    pub percent: Decimal,
    /// Size of the window in tokens; null if unknown.
    pub size: Option<Decimal>,
    /// Who said so.
    pub source: String,
    /// When, in the format of RFC 3339.
    pub at: String,
}

/// What a session has cost since its process started, or since /clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// In US dollars, as the client computes it.
    pub usd: Decimal,
    /// Who said so.
    pub source: String,
    /// When, in the format of RFC 3339.
    pub at: String,
}

/// A usage limit of an account.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Limit {
    /// `5-hour` or `7-day`.
    pub name: String,
    /// How much of it is used, in percent.
    pub percent: Decimal,
    /// When it resets, in the format of RFC 3339.
    pub resets_at: String,
    /// Who said so.
    pub source: String,
    /// When, in the format of RFC 3339.
    pub at: String,
}

/// An account: all sessions with one configuration directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Account {
    /// The configuration directory.
    pub config_dir: String,
    /// Its living sessions.
    pub sessions: u64,
    /// Its usage limits that have not reset since they were said; none if no status line said any.
    pub limits: Vec<Limit>,
}
