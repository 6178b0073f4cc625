//! What keys take: how a value is read from the file, and how it is written there.

use std::path::PathBuf;

use coord_core::Provider;
use coord_model::{Mode, PassphraseFor};
use jiff::fmt::friendly::SpanParser;
use jiff::{Span, SpanRelativeTo, SpanRound, Unit};
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use toml::Value;

/// A shorter text would be found everywhere.
const TEXT_CHARS_MIN: usize = 8;

/// A value as a key takes it.
pub(crate) trait Kind: Sized {
    /// What the key takes, for an error.
    fn takes() -> String;

    /// The value, unless the key does not take it.
    fn read(toml: Value) -> Option<Self>;

    /// The value as a file has it.
    fn text(&self) -> String;
}

/// Reads the value of any key. The error is what the key takes.
pub(crate) fn read<'de, D: Deserializer<'de>, K: Kind>(from: D) -> Result<K, D::Error> {
    let toml = Value::deserialize(from).map_err(|_| D::Error::custom(K::takes()))?;
    K::read(toml).ok_or_else(|| D::Error::custom(K::takes()))
}

/// A duration, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ms(pub u64);

impl Kind for Ms {
    fn takes() -> String {
        "a duration such as \"30s\", \"5m\", \"2h\" or \"30d\"".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        duration_ms(toml.as_str()?).map(Self)
    }

    fn text(&self) -> String {
        let days = SpanRound::new().largest(Unit::Day).days_are_24_hours();
        let span = i64::try_from(self.0).ok().and_then(|ms| Span::new().try_milliseconds(ms).ok());
        let span = span.and_then(|span| span.round(days).ok());
        span.map_or_else(|| format!("\"{}ms\"", self.0), |span| format!("\"{span:#}\""))
    }
}

/// Milliseconds of a duration such as `"250ms"`, `"30s"`, `"5m"`, `"2h"`, `"30d"` or `"1h 30m"`; a day has 24
/// hours. None for anything else, and for a duration that is negative, has a fraction of a millisecond, or is
/// longer than 19,000 years.
pub fn duration_ms(text: &str) -> Option<u64> {
    let span = SpanParser::new().parse_span(text).ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let is_whole = duration.subsec_nanos() % 1_000_000 == 0;
    u64::try_from(duration.as_millis()).ok().filter(|_| is_whole)
}

/// A whole number from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count<T>(pub T);

impl<T: Copy + Into<u64> + From<u32> + TryFrom<u64>> Kind for Count<T> {
    fn takes() -> String {
        "a whole number from 1".to_owned()
    }

    /// More than 32 bits hold is as good as no limit.
    fn read(toml: Value) -> Option<Self> {
        let count = u64::try_from(toml.as_integer()?).ok().filter(|count| 0 < *count)?;
        Some(Self(T::try_from(count).unwrap_or_else(|_| u32::MAX.into())))
    }

    fn text(&self) -> String {
        self.0.into().to_string()
    }
}

/// A share in percent; none for 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub Option<u32>);

impl Kind for Percent {
    fn takes() -> String {
        "a whole number from 0 to 100".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        let share = u32::try_from(toml.as_integer()?).ok().filter(|share| *share <= 100)?;
        Some(Self((0 < share).then_some(share)))
    }

    fn text(&self) -> String {
        self.0.unwrap_or_default().to_string()
    }
}

/// One of a few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word<T>(pub T);

/// What has a word for each of its values.
pub(crate) trait Words: Copy + PartialEq + 'static {
    const ALL: &'static [(&'static str, Self)];
}

impl<T: Words> Kind for Word<T> {
    fn takes() -> String {
        let words: Vec<_> = T::ALL.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        format!("one of {}", words.join(", "))
    }

    fn read(toml: Value) -> Option<Self> {
        let toml = toml.as_str()?;
        T::ALL.iter().find(|(word, _)| *word == toml).map(|(_, value)| Self(*value))
    }

    fn text(&self) -> String {
        let word = T::ALL.iter().find(|(_, value)| *value == self.0);
        word.map_or_else(String::new, |(word, _)| format!("\"{word}\""))
    }
}

/// Which idle sessions a message may wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Unattended ones, and those with a name, a parent, a child or an earlier message.
    Auto,
    /// Every interactive one.
    Always,
    /// None.
    Never,
}

/// How an agent gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptBy {
    /// In the place of `{prompt}`.
    Argument,
    /// On its standard input.
    Stdin,
}

impl Words for PassphraseFor {
    const ALL: &'static [(&'static str, Self)] =
        &[("requests", Self::Requests), ("all", Self::All)];
}

/// The least severe level that is logged, as the log's filter has it.
impl Words for &'static str {
    const ALL: &'static [(&'static str, Self)] = &[
        ("error", "error"),
        ("warn", "warn"),
        ("info", "info"),
        ("debug", "debug"),
        ("trace", "trace"),
    ];
}

impl Words for Wake {
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];
}

impl Words for Mode {
    const ALL: &'static [(&'static str, Self)] =
        &[("observe", Self::Observe), ("signature", Self::Signature), ("act", Self::Act)];
}

/// `stall.answers`: whether questions are answered.
impl Words for bool {
    const ALL: &'static [(&'static str, Self)] = &[("never", false), ("unattended", true)];
}

impl Words for PromptBy {
    const ALL: &'static [(&'static str, Self)] =
        &[("argument", Self::Argument), ("stdin", Self::Stdin)];
}

impl Words for Provider {
    const ALL: &'static [(&'static str, Self)] =
        &[("claude", Self::Claude), ("other", Self::Other)];
}

/// Absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths(pub Vec<PathBuf>);

impl Kind for Paths {
    fn takes() -> String {
        "a list of absolute paths".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        let paths: Vec<PathBuf> = toml.try_into().ok()?;
        paths.iter().all(|path| path.is_absolute()).then_some(Self(paths))
    }

    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Texts to look for, of 8 characters or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

impl Kind for Texts {
    fn takes() -> String {
        format!("a list of texts of {TEXT_CHARS_MIN} characters or more")
    }

    fn read(toml: Value) -> Option<Self> {
        let texts: Vec<String> = toml.try_into().ok()?;
        texts.iter().all(|text| TEXT_CHARS_MIN <= text.chars().count()).then_some(Self(texts))
    }

    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A text that is not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl Kind for Text {
    fn takes() -> String {
        "a text that is not empty".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        let text = toml.as_str()?;
        (!text.is_empty() && !text.chars().any(char::is_control)).then(|| Self(text.to_owned()))
    }

    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A text that may be empty, which means none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maybe<K>(pub Option<K>);

impl<K: Kind> Kind for Maybe<K> {
    fn takes() -> String {
        K::takes()
    }

    fn read(toml: Value) -> Option<Self> {
        let is_none = toml.as_str() == Some("");
        if is_none { Some(Self(None)) } else { K::read(toml).map(Some).map(Self) }
    }

    fn text(&self) -> String {
        self.0.as_ref().map_or_else(|| "\"\"".to_owned(), K::text)
    }
}

/// A key that may be left out.
impl<K: Kind> Kind for Option<K> {
    fn takes() -> String {
        K::takes()
    }

    fn read(toml: Value) -> Option<Self> {
        K::read(toml).map(Some)
    }

    fn text(&self) -> String {
        self.as_ref().map_or_else(String::new, K::text)
    }
}
