//! Reads the steps of recoveries from the journal, for who waits for their end (U-07).

use std::collections::BTreeSet;
use std::path::Path;

use coord_model::{Decision, Event, HookKind, Outcome, ProcessRef, Record};
use coord_store::journal::Cursor;
use coord_store::{Disk, JournalError};

/// A step of a session's recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// coord decided to end the client. The next [`Step::Acted`] says whether that was done.
    End,
    /// coord decided to place the line that resumes the session. The next [`Step::Acted`] says whether that was
    /// done.
    Place {
        /// Where the line is placed, in words.
        words: String,
    },
    /// An act was performed, or not.
    Acted(Outcome),
    /// A process claimed the line, and becomes the client.
    Claimed(ProcessRef),
    /// A client reported its start.
    Started(ProcessRef),
    /// An attempt failed. Another one follows, within the limits.
    Failed {
        /// Why, in words.
        why: String,
    },
}

/// Reads the steps of some sessions, oldest first, each once.
#[derive(Debug, Clone)]
pub struct Steps {
    cursor: Cursor,
    ids: BTreeSet<String>,
}

impl Steps {
    /// The steps after record `after_seq` of the sessions that have these ids.
    pub fn after(after_seq: u64, ids: BTreeSet<String>) -> Self {
        Self { cursor: Cursor::before(after_seq.saturating_add(1)), ids }
    }

    /// The steps of the next piece with the ids of their sessions, which may be none; `None` if there is no
    /// further piece yet. The caller must hold the shared state lock.
    ///
    /// # Errors
    /// The disk refused, or the journal is damaged at that place.
    pub fn next_piece<D: Disk>(
        &mut self,
        disk: &D,
        journal_dir: &Path,
    ) -> Result<Option<Vec<(String, Step)>>, JournalError> {
        let records = self.cursor.read(disk, journal_dir)?;
        let entries = records.iter().filter_map(|(_, payload)| {
            let record: Record = serde_json::from_slice(payload).ok()?;
            step(record.entry).filter(|(id, _)| self.ids.contains(id))
        });
        Ok((!records.is_empty()).then(|| entries.collect()))
    }
}

/// The step that an entry of the journal tells of.
#[expect(clippy::wildcard_enum_match_arm, reason = "a new entry is no step until it is named here")]
fn step(entry: Event) -> Option<(String, Step)> {
    match entry {
        Event::Decision(decision) => decided(decision),
        Event::Acted { session_id, outcome, .. } => Some((session_id, Step::Acted(outcome))),
        Event::ResumeClaimed { session_id, process, .. } => {
            Some((session_id, Step::Claimed(process)))
        }
        Event::Hook(event) => {
            let is_start = matches!(event.kind, HookKind::SessionStart(_));
            let process = event.harness.as_ref().map(coord_model::Harness::process);
            let process = process.filter(|_| is_start)?;
            Some((event.session_id.clone(), Step::Started(process)))
        }
        _ => None,
    }
}

/// The step that a decision is. The words are those of `coord_core`: without one of
/// them, only a line about that step is missing.
fn decided(decision: Decision) -> Option<(String, Step)> {
    let Decision { session_id, rule, saw, did, .. } = decision;
    let step = match (rule.as_ref(), did.as_str()) {
        ("S0-25", "SIGTERM to the client" | "SIGKILL to the client") => Step::End,
        ("S0-25e", words) if words.starts_with("resume line ") => Step::Place { words: did },
        ("S0-21", _) => Step::Failed { why: saw },
        _ => return None,
    };
    Some((session_id, step))
}
