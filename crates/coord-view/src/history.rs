//! Reads the event history from the journal, for `coord events`, the API and decisions (S0-38).

mod line;
mod title;

pub use line::{Line, line};

use std::collections::BTreeSet;
use std::path::Path;

use coord_model::stamp::rfc3339;
use coord_store::journal::{Cursor, read_segments};
use coord_store::{Disk, JournalError};

use line::{DECISION, DUE, unreadable};

/// Approximate size of the details at which a page ends, in bytes, even if it has few lines (H-49).
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Selects lines of history.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only lines from this position on.
    pub from_seq: u64,
    /// Only lines from this wall time on, in milliseconds since 1970.
    pub since_ms: u64,
    /// Only lines of this session.
    pub of: Option<Of>,
    /// Only decisions.
    pub decisions_only: bool,
}

/// Selects lines by session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// All ids that a record has had.
    Ids(BTreeSet<String>),
    /// All ids that begin with this text, which have no record (any more) but may have history.
    Beginning(String),
}

impl Of {
    fn has(&self, id: &str) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(id),
            Self::Beginning(beginning) => id.starts_with(beginning.as_str()),
        }
    }
}

/// Reads history in pieces, oldest first. Nothing is read twice, so following costs as much as what is new,
/// and little is in memory at a time.
#[derive(Debug, Clone)]
pub struct Reader {
    cursor: Cursor,
    wanted: Wanted,
}

impl Reader {
    /// Creates a reader that starts before the first selected line.
    pub fn new(wanted: Wanted) -> Self {
        Self { cursor: Cursor::before(wanted.from_seq), wanted }
    }

    /// The selected lines of the next piece, which may be none; `None` if there is no further piece yet.
    ///
    /// # Errors
    /// The disk refused, or the journal is damaged at that place.
    pub fn next_piece<D: Disk>(
        &mut self,
        disk: &D,
        journal_dir: &Path,
    ) -> Result<Option<Vec<Line>>, JournalError> {
        let records = self.cursor.read(disk, journal_dir)?;
        let lines = records.iter().filter_map(|(seq, payload)| self.wanted.line(*seq, payload));
        Ok((!records.is_empty()).then(|| lines.collect()))
    }
}

impl Wanted {
    /// Turns a record into a line, if it is selected.
    fn line(&self, seq: u64, payload: &[u8]) -> Option<Line> {
        let line = serde_json::from_slice(payload).map_or_else(|_| unreadable(seq), line);
        let of_session = match (&self.of, &line.session_id) {
            (None, _) => true,
            (Some(of), Some(id)) => of.has(id),
            (Some(_), None) => false,
        };
        let is_of_kind = line.name != DUE && (!self.decisions_only || line.name == DECISION);
        let is_recent = self.since_ms == 0 || rfc3339(self.since_ms) <= line.at;
        (of_session && is_of_kind && is_recent).then_some(line)
    }
}

/// Reads the whole history in `journal_dir`, oldest first.
///
/// # Errors
/// The disk refused, or the journal is damaged.
pub fn read<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    mut each: impl FnMut(Line),
) -> Result<(), JournalError> {
    let mut reader = Reader::new(wanted.clone());
    while let Some(lines) = reader.next_piece(disk, journal_dir)? {
        lines.into_iter().for_each(&mut each);
    }
    Ok(())
}

/// Reads one page: the oldest selected lines, up to `max`. The next page begins after the last line; an empty
/// page is the end.
///
/// # Errors
/// The disk refused, or the journal is damaged.
pub fn page<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    max: usize,
) -> Result<Vec<Line>, JournalError> {
    let (mut reader, mut found, mut bytes) = (Reader::new(wanted.clone()), Vec::new(), 0);
    while found.len() < max
        && bytes < PAGE_BYTES
        && let Some(lines) = reader.next_piece(disk, journal_dir)?
    {
        bytes += lines.iter().map(|line| line.detail.len()).sum::<usize>();
        found.extend(lines);
    }
    found.truncate(max);
    Ok(found)
}

/// Reads the newest selected lines, up to `max`, and returns them oldest first. Older segments than the ones
/// that contain them are not read. The caller must hold the shared state lock.
///
/// # Errors
/// The disk refused, or the journal is damaged.
pub fn newest<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    max: usize,
) -> Result<Vec<Line>, JournalError> {
    let mut found = Vec::new();
    for segment in read_segments(disk, journal_dir, wanted.from_seq)?.rev() {
        let segment = segment?;
        let lines = segment.records().rev().filter(|(seq, _)| wanted.from_seq <= *seq);
        let lines = lines.filter_map(|(seq, payload)| wanted.line(seq, payload));
        found.extend(lines.take(max.saturating_sub(found.len())));
        if max <= found.len() {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::{Decision, Event, Record};
    use coord_store::{Journal, RealDisk};
    use std::path::PathBuf;

    /// Creates a journal of several segments, whose records are decisions on one session.
    fn journal(dir: &Path, records: u64) -> Journal<RealDisk> {
        let (mut journal, _) = Journal::open(RealDisk, dir, 0, 2_000).unwrap();
        for _ in 0..records {
            append(&mut journal);
        }
        journal
    }

    fn append(journal: &mut Journal<RealDisk>) {
        let seq = journal.next_seq();
        let decision = Decision {
            session_id: "s".to_owned(),
            rule: "R-01".into(),
            saw: format!("record {seq}"),
            did: "nothing".to_owned(),
            need: None,
        };
        let entry = Event::Decision(decision);
        let record = Record { seq, at: 1_000, mono_ns: 0, entry: &entry };
        journal.append(&serde_json::to_vec(&record).unwrap()).unwrap();
    }

    fn seqs(lines: &[Line]) -> Vec<u64> {
        lines.iter().map(|line| line.seq).collect()
    }

    fn segments(dir: &Path) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Damages a file, so that reading it again fails.
    fn damage(file: &Path) {
        let n = std::fs::read(file).unwrap().len();
        std::fs::write(file, vec![b'x'; n]).unwrap();
    }

    #[test]
    fn a_page_is_bounded_and_the_next_one_begins_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let _journal = journal(dir.path(), 100);
        let mut wanted = Wanted::default();
        let mut found = Vec::new();
        loop {
            let lines = page(&RealDisk, dir.path(), &wanted, 30).unwrap();
            assert!(lines.len() <= 30);
            let Some(last) = lines.last() else { break };
            wanted.from_seq = last.seq + 1;
            found.extend(seqs(&lines));
        }
        assert_eq!(found, (1..=100).collect::<Vec<u64>>());
    }

    // Following costs only what is new: segments that were already read may be gone or unreadable.
    #[test]
    fn what_was_read_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(dir.path(), 50);
        let mut reader = Reader::new(Wanted::default());
        let mut found = Vec::new();
        while let Some(lines) = reader.next_piece(&RealDisk, dir.path()).unwrap() {
            found.extend(seqs(&lines));
        }
        assert_eq!(found.len(), 50);
        let files = segments(dir.path());
        files.iter().for_each(|file| damage(file));
        append(&mut journal);
        let lines = reader.next_piece(&RealDisk, dir.path()).unwrap().unwrap();
        assert_eq!(seqs(&lines), [51]);
        std::fs::remove_file(&files[0]).unwrap();
        for _ in 0..20 {
            append(&mut journal);
        }
        let mut rest = Vec::new();
        while let Some(lines) = reader.next_piece(&RealDisk, dir.path()).unwrap() {
            rest.extend(seqs(&lines));
        }
        assert_eq!(rest, (52..=71).collect::<Vec<u64>>(), "into the next segments");
    }

    #[test]
    fn the_newest_lines_are_found_without_the_oldest_segments() {
        let dir = tempfile::tempdir().unwrap();
        let _journal = journal(dir.path(), 100);
        let files = segments(dir.path());
        assert!(3 < files.len());
        damage(&files[0]);
        let lines = newest(&RealDisk, dir.path(), &Wanted::default(), 3).unwrap();
        assert_eq!(seqs(&lines), [98, 99, 100]);
        assert!(newest(&RealDisk, dir.path(), &Wanted::default(), 1_000).is_err());
    }
}
