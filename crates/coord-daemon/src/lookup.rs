//! Decides which records an id means: exactly, or as the unique beginning of one (interfaces.md,
//! Ids). A previous id means today's record. Several records may hold one id; then all are meant.

use coord_core::Session;

/// The beginning of an id is at least this long.
const PREFIX_MIN: usize = 4;
/// So many candidates are named when an id is ambiguous.
const CANDIDATES_MAX: usize = 5;

/// The records among `found`, which all have an id beginning with `id`, that `id` means; else why
/// none, in words.
pub(crate) fn find<'a>(found: Vec<&'a Session>, id: &str) -> Result<Vec<&'a Session>, String> {
    let names = |session: &&Session| {
        session.session_id == id || session.previous_ids.iter().any(|one| one == id)
    };
    let exact: Vec<&Session> = found.iter().copied().filter(names).collect();
    if !exact.is_empty() {
        return Ok(exact);
    }
    let Some(first) = found.first() else { return Err(format!("no session {id:?}")) };
    if id.len() < PREFIX_MIN {
        return Err(format!("{id:?} is too short: give {PREFIX_MIN} characters or more of an id"));
    }
    if found.iter().all(|session| session.session_id == first.session_id) {
        return Ok(found);
    }
    let candidates: Vec<&str> =
        found.iter().take(CANDIDATES_MAX).map(|session| session.session_id.as_str()).collect();
    Err(format!("{id:?} begins several ids: {}", candidates.join(", ")))
}
