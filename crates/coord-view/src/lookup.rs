//! Decides which records an id stands for: exactly, or as the unique beginning of an id (interfaces.md, Ids).
//! A previous id stands for the present record. If several records have the same id, all are meant.

use std::collections::BTreeSet;
use std::fmt;

use coord_core::{Session, State};

/// Shortest accepted beginning of an id, in characters.
const PREFIX_MIN: usize = 4;
/// Most candidates named for an ambiguous id.
const CANDIDATES_MAX: usize = 5;

/// Why an id stands for no record; shown as one line, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupError {
    /// No record has this id, or an id that begins with it.
    Unknown {
        /// The id as given.
        id: String,
    },
    /// The text is too short to be the beginning of an id.
    TooShort {
        /// The id as given.
        id: String,
    },
    /// Several ids begin with this text.
    Ambiguous {
        /// The id as given.
        id: String,
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
            Self::Unknown { id } => {
                write!(f, "no session {id:?}; `coord inspect --all` lists them")
            }
            Self::TooShort { id } => {
                write!(f, "{id:?} is too short: give {PREFIX_MIN} characters or more of an id")
            }
            Self::Ambiguous { id, candidates } => {
                write!(f, "{id:?} begins several ids: {}", candidates.join(", "))
            }
        }
    }
}

impl std::error::Error for LookupError {}

/// The records that `id` stands for.
pub fn find<'a>(state: &'a State, id: &str) -> Result<Vec<&'a Session>, LookupError> {
    let id_owned = || id.to_owned();
    let found = state.sessions_with_prefix(id);
    let names = |session: &&Session| {
        session.session_id == id || session.previous_ids.iter().any(|one| one == id)
    };
    let exact: Vec<&Session> = found.iter().copied().filter(names).collect();
    if !exact.is_empty() {
        return Ok(exact);
    }
    let Some(first) = found.first() else {
        return Err(LookupError::Unknown { id: id_owned() });
    };
    if id.len() < PREFIX_MIN {
        return Err(LookupError::TooShort { id: id_owned() });
    }
    if found.iter().all(|session| session.session_id == first.session_id) {
        return Ok(found);
    }
    let candidates: BTreeSet<&str> =
        found.iter().map(|session| session.session_id.as_str()).collect();
    let candidates = candidates.into_iter().take(CANDIDATES_MAX).map(ToOwned::to_owned).collect();
    Err(LookupError::Ambiguous { id: id_owned(), candidates })
}

/// All ids under which events of these records were reported.
pub fn ids(found: &[&Session]) -> BTreeSet<String> {
    let all = found.iter().flat_map(|one| one.previous_ids.iter().chain([&one.session_id]));
    all.cloned().collect()
}
