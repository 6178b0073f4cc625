//! Decides which records a word stands for: an id, a name, or the unique beginning of an id (U-03). A previous id
//! stands for the present record. If several records have the same id, all are meant. A word that is one session's
//! name and begins another one's id is ambiguous.

use std::collections::BTreeSet;
use std::fmt;

use coord_core::{Session, State};

/// Shortest accepted beginning of an id, in characters.
const PREFIX_MIN: usize = 4;
/// Most typing errors in a word that is still recognized.
const ERRORS_MAX: usize = 2;
/// Most candidates named for an ambiguous id.
const CANDIDATES_MAX: usize = 5;

/// Why an id stands for no record; shown as one line, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupError {
    /// No record has this id, or an id that begins with it.
    Unknown {
        /// The word as given.
        id: String,
        /// The name that was probably meant.
        meant: Option<String>,
    },
    /// The text is too short to be the beginning of an id.
    TooShort {
        /// The id as given.
        id: String,
    },
    /// Several sessions have this name, or an id that begins with this text.
    Ambiguous {
        /// The word as given.
        id: String,
        /// How many sessions it fits.
        fits: usize,
        /// Some of the ids.
        candidates: Vec<String>,
    },
}

impl LookupError {
    /// The error code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "no_such_session",
            Self::TooShort { .. } => "id_too_short",
            Self::Ambiguous { .. } => "ambiguous_id",
        }
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { id, meant: Some(name) } => {
                write!(f, "No session {id:?}. Did you mean {name}?")
            }
            Self::Unknown { id, meant: None } => {
                write!(f, "No session {id:?}. → coord inspect --all")
            }
            Self::TooShort { id } => {
                write!(f, "{id:?} is too short: {PREFIX_MIN} characters of an id, or a name.")
            }
            Self::Ambiguous { id, fits, candidates } => {
                write!(f, "{id:?} fits {fits} sessions: {}.", candidates.join(", "))
            }
        }
    }
}

impl std::error::Error for LookupError {}

/// The records that `word` stands for.
pub fn find<'a>(state: &'a State, word: &str) -> Result<Vec<&'a Session>, LookupError> {
    let begun = state.sessions_with_prefix(word);
    let has_id = |session: &&Session| {
        session.session_id == word || session.previous_ids.iter().any(|one| one == word)
    };
    let exact: Vec<&Session> = begun.iter().copied().filter(has_id).collect();
    if !exact.is_empty() {
        return Ok(exact);
    }
    let is_called = |session: &&Session| session.called().is_some_and(|(name, _)| name == word);
    let mut found: Vec<&Session> = state.sessions().filter(is_called).collect();
    // The name of a session that ended may have been given again.
    let living: Vec<&Session> = found.iter().copied().filter(|one| one.may_live()).collect();
    if let [_] = living.as_slice() {
        found = living;
    }
    let is_named = !found.is_empty();
    if PREFIX_MIN <= word.len() {
        found.extend(begun.iter().filter(|one| !is_called(one)));
    }
    let Some(first) = found.first() else {
        let id = word.to_owned();
        return Err(if begun.is_empty() {
            LookupError::Unknown { id, meant: meant(state, word) }
        } else {
            LookupError::TooShort { id }
        });
    };
    let is_one = found.iter().all(|session| session.session_id == first.session_id);
    if is_one && is_named {
        return find(state, &first.session_id);
    }
    if is_one {
        return Ok(found);
    }
    let ids: BTreeSet<&str> = found.iter().map(|session| session.session_id.as_str()).collect();
    let (id, fits) = (word.to_owned(), ids.len());
    let candidates = ids.into_iter().take(CANDIDATES_MAX).map(ToOwned::to_owned).collect();
    Err(LookupError::Ambiguous { id, fits, candidates })
}

/// The name that was probably meant by `word`.
fn meant(state: &State, word: &str) -> Option<String> {
    let names = state.sessions().filter_map(Session::called).map(|(name, _)| name);
    nearest(word, names).map(ToOwned::to_owned)
}

/// The one of `known` that a person who typed `word` probably meant: at most two typing errors away, or with the
/// same first four characters. None if several are as near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let begins_alike = |one: &str| {
        let same = one.chars().zip(word.chars()).take_while(|(a, b)| a == b);
        PREFIX_MIN <= same.count()
    };
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .map(|one| (strsim::damerau_levenshtein(word, one), one))
        .filter(|(distance, one)| {
            let is_typo = *distance <= ERRORS_MAX && *distance < word.chars().count();
            is_typo || begins_alike(one)
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    match near.as_slice() {
        [(_, one)] => Some(one),
        [(first, one), (second, _), ..] if first < second => Some(one),
        _ => None,
    }
}

/// All ids under which events of these records were reported.
pub fn ids(found: &[&Session]) -> BTreeSet<String> {
    let all = found.iter().flat_map(|one| one.previous_ids.iter().chain([&one.session_id]));
    all.cloned().collect()
}
