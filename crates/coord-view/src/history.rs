//! Reads the event history from the journal, for `coord events`, the API and decisions (S0-38).

mod fold;
mod line;
mod parse;
mod select;
mod title;

pub use fold::{Entry, Fold};
pub use line::{Kind, Line, line};
pub use select::{Detail, Of, Wanted};

use std::path::Path;

use coord_store::journal::{Cursor, read_segments};
use coord_store::{Disk, JournalError};

use select::{Selector, is_of_message};

/// Approximate size of the details at which a page ends, in bytes, even if it has few lines (H-49).
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Reads history in pieces, oldest first. Nothing is read twice, so following costs as much as what is new,
/// and little is in memory at a time.
#[derive(Debug, Clone)]
pub struct Reader {
    cursor: Cursor,
    selector: Selector,
}

impl Reader {
    /// Creates a reader that starts before the first selected line.
    pub fn new(wanted: Wanted) -> Self {
        Self { cursor: Cursor::before(wanted.from_seq), selector: Selector::new(wanted) }
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
        let selector = &mut self.selector;
        let lines = records.iter().filter_map(|(seq, payload)| selector.line(*seq, payload));
        Ok((!records.is_empty()).then(|| lines.collect()))
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
    if max == 0 { Ok(Vec::new()) } else { Ok(newest_lines(disk, journal_dir, wanted, max)?.lines) }
}

/// Reads the newest selected lines, up to `max` or one more if that is 0.
///
/// # Errors
/// The disk refused, or the journal is damaged.
pub fn newest_lines<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    max: usize,
) -> Result<Newest, JournalError> {
    let mut left = max;
    newest_until(disk, journal_dir, wanted, |_| {
        left = left.saturating_sub(1);
        left == 0
    })
}

/// Reads the lines of the newest entries, up to `max` of them once they are folded, and returns them oldest first.
///
/// # Errors
/// The disk refused, or the journal is damaged.
pub fn newest_entries<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    max: usize,
) -> Result<Newest, JournalError> {
    let mut count = fold::Count::default();
    // One more is read, so that the oldest one is whole.
    newest_until(disk, journal_dir, wanted, |line| max < count.add(line))
}

/// The newest lines, and where history continues.
#[derive(Debug, Clone)]
pub struct Newest {
    /// The lines, oldest first.
    pub lines: Vec<Line>,
    /// Reads what comes after the newest record, whether that is selected or not.
    pub reader: Reader,
}

/// Reads backwards until a line is the last one that is needed.
fn newest_until<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    mut is_last: impl FnMut(&Line) -> bool,
) -> Result<Newest, JournalError> {
    let (mut selector, from_seq) = (Selector::new(wanted.clone()), wanted.from_seq);
    let (mut lines, mut next_seq) = (Vec::new(), from_seq);
    'segments: for segment in read_segments(disk, journal_dir, from_seq)?.rev() {
        let segment = segment?;
        next_seq = next_seq.max(segment.next_seq());
        if selector.follows_messages() {
            // A message is sent before anything else happens to it, and lines are read backwards.
            let of_messages = segment.records().filter(|(_, payload)| is_of_message(payload));
            of_messages.for_each(|(_, payload)| selector.learn(payload));
        }
        for (seq, payload) in segment.records().rev().filter(|(seq, _)| from_seq <= *seq) {
            let Some(line) = selector.line(seq, payload) else { continue };
            let is_enough = is_last(&line);
            lines.push(line);
            if is_enough {
                break 'segments;
            }
        }
    }
    lines.reverse();
    Ok(Newest { lines, reader: Reader { cursor: Cursor::before(next_seq), selector } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::{
        Address, Decision, Event, MessageId, NewMessage, QueueEvent, Record, Same, Sender,
        SessionKey,
    };
    use coord_store::{Journal, RealDisk};
    use std::collections::BTreeSet;
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
            notice: None,
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

    // U-10: the newest entries are found without the oldest segments, and what comes next is read from there on.
    #[test]
    fn u_10_the_newest_entries_cost_the_newest_segments() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(dir.path(), 100);
        let files = segments(dir.path());
        damage(&files[0]);
        let wanted = Wanted { detail: Detail::Edges, ..Wanted::default() };
        let Newest { lines, mut reader } =
            newest_entries(&RealDisk, dir.path(), &wanted, 3).unwrap();
        assert_eq!(seqs(&lines), [97, 98, 99, 100], "one more, so that the oldest is whole");
        assert_eq!(reader.next_piece(&RealDisk, dir.path()).unwrap(), None);
        append(&mut journal);
        let next = reader.next_piece(&RealDisk, dir.path()).unwrap().unwrap();
        assert_eq!(seqs(&next), [101]);
    }

    // U-10: of a session, the messages to it and from it, forwards and backwards.
    #[test]
    fn u_10_the_messages_of_a_session_are_selected_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(RealDisk, dir.path(), 0, 1_000_000).unwrap();
        let ids = [1, 2, 3].map(MessageId::from_random);
        let to = [
            Address::Session(SessionKey(5)),
            Address::Session(SessionKey(6)),
            Address::Queue("q".to_owned()),
        ];
        let from = [Sender::Operator, Sender::Coord, Sender::Session("s".to_owned())];
        for ((id, to), from) in ids.into_iter().zip(to).zip(from) {
            let same = Same::Text(0);
            let new = NewMessage {
                id,
                to,
                from,
                is_urgent: false,
                depth: 0,
                same,
                bytes: 1,
                ttl_ms: None,
            };
            append_message(&mut journal, id, QueueEvent::Sent(new));
        }
        for id in ids {
            append_message(&mut journal, id, QueueEvent::Dropped(id));
        }
        append(&mut journal);
        let of = Some(Of::Ids(BTreeSet::from(["s".to_owned()])));
        let alone = Wanted { of, ..Wanted::default() };
        let keys = Some(BTreeSet::from([SessionKey(5)]));
        let wanted = Wanted { messages_of: keys, ..alone.clone() };
        for (wanted, expected) in [(alone, vec![7]), (wanted, vec![1, 3, 4, 6, 7])] {
            let mut found = Vec::new();
            read(&RealDisk, dir.path(), &wanted, |line| found.push(line)).unwrap();
            assert_eq!(seqs(&found), expected);
            let found = newest(&RealDisk, dir.path(), &wanted, 100).unwrap();
            assert_eq!(seqs(&found), expected, "backwards");
        }
    }

    fn append_message(journal: &mut Journal<RealDisk>, id: MessageId, event: QueueEvent) {
        let seq = journal.next_seq();
        let entry = Event::Message { id: id.to_string(), what: "x".to_owned(), event };
        let record = Record { seq, at: 1_000, mono_ns: 0, entry: &entry };
        let payload = serde_json::to_vec(&record).unwrap();
        assert!(is_of_message(&payload), "it is recognized without being parsed");
        journal.append(&payload).unwrap();
    }
}
