//! What is wrong with a file, and where: one line, with the remedy.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, Error};

use crate::agents::AGENTS;
use crate::channels::CHANNELS;
use crate::{AGENT_KEYS, CHANNEL_KEYS, Effective, Key, TABLES, keys};

/// Characters that an error keeps of an unknown key; all known ones are shorter.
const KEY_CHARS_MAX: usize = 64;

/// What is wrong with a file. One line, with the remedy.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// It cannot be read.
    Unreadable(String),
    /// It is no TOML.
    Syntax {
        /// Line, from 1.
        line: usize,
        /// The parser's words.
        why: String,
    },
    /// A key that does not exist.
    UnknownKey {
        /// Line, from 1.
        line: usize,
        /// As written; only the beginning if it is long.
        key: String,
        /// The nearest that does.
        nearest: &'static str,
    },
    /// A value that its key does not take.
    BadValue {
        /// Line, from 1.
        line: usize,
        /// Which key.
        key: &'static str,
        /// What it takes.
        wanted: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Syntax { line, why } => write!(f, "line {line}: not TOML: {why}"),
            Self::UnknownKey { line, key, nearest } if key == nearest => {
                write!(f, "line {line}: {key:?} is a table of keys: write it as [{key}]")
            }
            Self::UnknownKey { line, key, nearest } => {
                write!(f, "line {line}: unknown key {key:?}; the nearest known one is {nearest:?}")
            }
            Self::BadValue { line, key, wanted } => write!(f, "line {line}: {key} takes {wanted}"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    pub(crate) fn unknown(key: &str, line: usize) -> Self {
        let key = beginning(key);
        Self::UnknownKey { line, nearest: nearest(&key), key }
    }

    pub(crate) fn syntax(error: &Error, text: &str) -> Self {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        Self::Syntax { line, why: error.message().to_owned() }
    }

    /// The error of a document that is TOML, said by what stands at its place.
    pub(crate) fn at(error: &Error, places: &[Place], text: &str) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        let is_there = |place: &&Place| place.key.start == at || place.value.contains(&at);
        let Some(place) = places.iter().find(is_there) else { return Self::syntax(error, text) };
        match all_keys().find(|key| key.name == place.name) {
            Some(key) => Self::BadValue {
                line: place.line,
                key: key.name,
                wanted: error.message().to_owned(),
            },
            None => Self::unknown(&place.name, place.line),
        }
    }
}

/// A key or a table as it stands in a file.
pub(crate) struct Place {
    /// Table and key.
    pub(crate) name: String,
    /// From 1.
    pub(crate) line: usize,
    key: Range<usize>,
    value: Range<usize>,
}

impl Place {
    /// What stands in a table of a file; `of` is the table's name and a dot.
    pub(crate) fn all(of: &str, table: &DeTable<'_>, text: &str) -> Vec<Self> {
        let place = |(name, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| Self {
            name: format!("{of}{}", name.get_ref()),
            line: line_of(text, name.span().start),
            key: name.span(),
            value: value.span(),
        };
        table.iter().map(place).collect()
    }

    /// The key that stands here, if it is a known one.
    pub(crate) fn written(&self, text: &str) -> Option<Effective> {
        let key = all_keys().find(|key| key.name == self.name)?;
        let text = text.get(self.value.clone()).unwrap_or_default().to_owned();
        Some(Effective { key, text, line: Some(self.line) })
    }
}

/// The line of a place in a text, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.get(..at).map_or(0, |before| before.matches('\n').count())
}

fn all_keys() -> impl Iterator<Item = &'static Key> {
    keys().chain(AGENT_KEYS).chain(CHANNEL_KEYS)
}

/// What an error keeps of a key of any length.
fn beginning(key: &str) -> String {
    let mut kept: String = key.chars().take(KEY_CHARS_MAX).collect();
    if kept.len() < key.len() {
        kept.push('…');
    }
    kept
}

/// The known table or key that is written most alike.
fn nearest(written: &str) -> &'static str {
    let keys = all_keys().map(|key| key.name).chain([AGENTS, CHANNELS]).map(|name| {
        let bare = name.split_once('.').map_or(name, |(_, name)| name);
        let as_bare = strsim::damerau_levenshtein(bare, written).saturating_add(1);
        (strsim::damerau_levenshtein(name, written).min(as_bare), name)
    });
    let tables =
        TABLES.iter().map(|table| (strsim::damerau_levenshtein(table.name, written), table.name));
    keys.chain(tables).min_by_key(|(distance, _)| *distance).map_or("", |(_, name)| name)
}
