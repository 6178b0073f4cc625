//! Reads the history of machines from the batches that an engine holds (F-03): what is not signed by the machine under whose name
//! it lies is left out, and each record is shown once, however often it was published.
//!
//! A batch is believed by its seal alone. Its machine vouches for the ranges and the events in it; the engine can withhold batches,
//! which shows as a gap, and repeat them, which shows nothing twice.

use std::collections::BTreeMap;

use coord_model::MachineId;
use serde::Deserialize;

use crate::batch::{Batch, Incarnation};

/// Longest id of a journal that is believed, in bytes.
const INCARNATION_BYTES_MAX: usize = 64;
/// Journals of one machine that are told apart; an earlier one is forgotten.
const JOURNALS_MAX: usize = 4;
/// Ranges of a journal that are kept apart, or told. Beyond that, the gap between the two oldest is taken as shown.
const RANGES_MAX: usize = 64;
/// Machines of which troubles are counted.
const MACHINES_MAX: usize = 4_096;

/// A batch as the engine's log of all machines has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// The machine under whose name it lies.
    pub machine: MachineId,
    /// Its place in the log of all machines.
    pub place: u64,
    /// When the engine stored it, by the engine's own clock: milliseconds since 1970.
    pub stored_ms: u64,
    /// The batch, sealed if it is right.
    pub bytes: Vec<u8>,
}

/// What is wrong with a machine's history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Batches that the machine did not sign, or that are damaged.
    pub refused: u64,
    /// Ranges of records that the engine does not hold.
    pub missing: Vec<(u64, u64)>,
    /// Ranges of records that the machine dropped before it could publish them.
    pub given_up: Vec<(u64, u64)>,
}

impl Trouble {
    fn is_none(&self) -> bool {
        self.refused == 0 && self.missing.is_empty() && self.given_up.is_empty()
    }
}

/// What was read of all machines so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Whether reading begins somewhere in the middle.
    is_late: bool,
    machines: BTreeMap<MachineId, OfMachine>,
}

#[derive(Debug, Clone, Default)]
struct OfMachine {
    /// The newest one last.
    journals: Vec<OfJournal>,
    trouble: Trouble,
}

#[derive(Debug, Clone)]
struct OfJournal {
    incarnation: Incarnation,
    /// Batches of earlier editions are superseded.
    edition: u64,
    /// Where the next batch of this edition begins; none before the first one.
    next: Option<u64>,
    shown: Ranges,
}

/// What is read of an event.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

impl History {
    /// Nothing was read yet. If reading begins late, records before the first ones that are found of a journal count as shown.
    pub fn new(is_late: bool) -> Self {
        Self { is_late, machines: BTreeMap::new() }
    }

    /// Whether anything is known of a machine.
    pub fn knows(&self, machine: MachineId) -> bool {
        self.machines.contains_key(&machine)
    }

    /// Notes the newest batch of a machine, if it has one that is believed: batches of earlier editions of its journal are
    /// superseded, though they come first.
    pub fn note_newest(&mut self, machine: MachineId, newest: Option<&[u8]>) {
        if MACHINES_MAX <= self.machines.len() && !self.knows(machine) {
            return;
        }
        let of = self.machines.entry(machine).or_default();
        if let Some(batch) = newest.and_then(|bytes| believed(machine, bytes)) {
            of.journal(&batch);
        }
    }

    /// The events of the next batch that are not superseded and were not shown yet, a line of JSON each, by their number.
    pub fn take(&mut self, logged: &Logged) -> Vec<(u64, String)> {
        let machine = logged.machine;
        let batch = believed(machine, &logged.bytes);
        if MACHINES_MAX <= self.machines.len() && !self.knows(machine) {
            return Vec::new();
        }
        let of = self.machines.entry(machine).or_default();
        let Some(batch) = batch else {
            of.trouble.refused = of.trouble.refused.saturating_add(1);
            return Vec::new();
        };
        of.take(&batch, self.is_late)
    }

    /// Reading begins again somewhere else. What was shown stays shown.
    pub fn begin_again(&mut self) {
        for journal in self.machines.values_mut().flat_map(|of| &mut of.journals) {
            journal.next = None;
        }
    }

    /// What is wrong with the machines' histories since this was asked last.
    pub fn troubles(&mut self) -> Vec<(MachineId, Trouble)> {
        let all = self.machines.iter_mut().filter(|(_, of)| !of.trouble.is_none());
        all.map(|(machine, of)| (*machine, std::mem::take(&mut of.trouble))).collect()
    }
}

/// A batch that its machine has sealed.
fn believed(machine: MachineId, bytes: &[u8]) -> Option<Batch> {
    let (key, batch) = Batch::open(bytes).ok()?;
    let is_right = key.machine() == machine
        && batch.writer.incarnation.0.len() <= INCARNATION_BYTES_MAX
        && batch.first <= batch.last;
    is_right.then_some(batch)
}

impl OfMachine {
    /// The journal of a batch, at the batch's edition at least.
    fn journal(&mut self, batch: &Batch) -> Option<&mut OfJournal> {
        let incarnation = &batch.writer.incarnation;
        let known = self.journals.iter().position(|one| one.incarnation == *incarnation);
        let at = known.unwrap_or_else(|| {
            if JOURNALS_MAX <= self.journals.len() {
                self.journals.remove(0);
            }
            self.journals.push(OfJournal {
                incarnation: incarnation.clone(),
                edition: batch.edition,
                next: None,
                shown: Ranges::default(),
            });
            self.journals.len().saturating_sub(1)
        });
        let journal = self.journals.get_mut(at)?;
        if journal.edition < batch.edition {
            (journal.edition, journal.next) = (batch.edition, None);
        }
        Some(journal)
    }

    fn take(&mut self, batch: &Batch, is_late: bool) -> Vec<(u64, String)> {
        let Batch { edition, first, last, is_gap, lines, .. } = batch;
        let mut trouble = std::mem::take(&mut self.trouble);
        let journal = self.journal(batch).filter(|journal| journal.edition <= *edition);
        let Some(journal) = journal else {
            self.trouble = trouble;
            return Vec::new();
        };
        if is_late && journal.shown.0.is_empty() && 0 < *first {
            journal.shown.add(0, first.saturating_sub(1));
        }
        match journal.next {
            // What was wrong before the journal was published again is mended by that.
            None if 0 < *edition => trouble = Trouble::default(),
            Some(next) if next < *first && trouble.missing.len() < RANGES_MAX => {
                trouble.missing.push((next, first.saturating_sub(1)));
            }
            None | Some(_) => (),
        }
        if *is_gap && trouble.given_up.len() < RANGES_MAX {
            trouble.given_up.push((*first, *last));
        }
        let next = last.saturating_add(1);
        journal.next = Some(journal.next.map_or(next, |before| before.max(next)));
        let mut events = Vec::new();
        let mut after = None;
        for line in lines.lines() {
            let Ok(Numbered { seq }) = serde_json::from_str(line) else { continue };
            let is_next = after.is_none_or(|after| after < seq) && (*first..=*last).contains(&seq);
            after = after.max(Some(seq));
            if is_next && !journal.shown.has(seq) {
                events.push((seq, line.to_owned()));
            }
        }
        journal.shown.add(*first, *last);
        self.trouble = trouble;
        events
    }
}

/// Ranges of records, in order and apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn has(&self, seq: u64) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }

    fn add(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last);
        self.0.retain(|(begin, end)| {
            let is_apart = end.saturating_add(1) < first || last.saturating_add(1) < *begin;
            if !is_apart {
                (first, last) = (first.min(*begin), last.max(*end));
            }
            is_apart
        });
        let at = self.0.partition_point(|(begin, _)| *begin < first);
        self.0.insert(at, (first, last));
        if RANGES_MAX < self.0.len() {
            let (first, _) = self.0.remove(0);
            if let Some(oldest) = self.0.first_mut() {
                oldest.0 = first;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Writer;
    use crate::keys::tests::keys;
    use proptest::prelude::*;

    /// A batch of machine 1 with an event for each record.
    fn batch(edition: u64, first: u64, last: u64) -> Batch {
        let writer = Writer { incarnation: Incarnation("a".to_owned()), relay: "r".to_owned() };
        let line = |seq| format!("{{\"seq\":{seq},\"edition\":{edition}}}\n");
        let lines = (first..=last).map(line).collect::<Vec<_>>().concat();
        Batch { writer, edition, first, last, is_gap: false, lines }
    }

    fn logged(bytes: Vec<u8>) -> Logged {
        Logged { machine: keys(1).machine(), place: 0, stored_ms: 0, bytes }
    }

    fn taken(history: &mut History, batch: &Batch) -> Vec<u64> {
        let events = history.take(&logged(batch.seal(&keys(1))));
        events.into_iter().map(|(seq, _)| seq).collect()
    }

    fn trouble(history: &mut History) -> Trouble {
        history.troubles().pop().map(|(_, trouble)| trouble).unwrap_or_default()
    }

    #[test]
    fn f_03_each_record_is_shown_once() {
        let mut history = History::default();
        assert_eq!(taken(&mut history, &batch(0, 1, 3)), [1, 2, 3]);
        assert_eq!(taken(&mut history, &batch(0, 2, 5)), [4, 5]);
        assert_eq!(taken(&mut history, &batch(0, 1, 5)), [0; 0]);
        assert_eq!(trouble(&mut history), Trouble::default());
        // Another journal counts from one again.
        let mut other = batch(0, 1, 2);
        other.writer.incarnation = Incarnation("b".to_owned());
        assert_eq!(taken(&mut history, &other), [1, 2]);
        assert_eq!(taken(&mut history, &batch(0, 5, 6)), [6]);
    }

    #[test]
    fn f_03_what_is_missing_is_named() {
        let mut history = History::default();
        taken(&mut history, &batch(0, 4, 6));
        taken(&mut history, &batch(0, 9, 9));
        let given_up = Batch { is_gap: true, lines: String::new(), ..batch(0, 10, 12) };
        taken(&mut history, &given_up);
        let found = Trouble { refused: 0, missing: vec![(7, 8)], given_up: vec![(10, 12)] };
        assert_eq!(trouble(&mut history), found);
        assert_eq!(trouble(&mut history), Trouble::default(), "it is told once");
        // Whoever begins again finds what came back.
        history.begin_again();
        assert_eq!(taken(&mut history, &batch(0, 1, 12)), [1, 2, 3, 7, 8]);
    }

    #[test]
    fn f_03_what_came_before_a_late_beginning_is_not_wanted() {
        let mut history = History::new(true);
        assert_eq!(taken(&mut history, &batch(0, 5, 6)), [5, 6]);
        history.begin_again();
        assert_eq!(taken(&mut history, &batch(0, 1, 7)), [7]);
    }

    #[test]
    fn f_03_what_was_published_anew_supersedes_what_was_there() {
        let old = batch(0, 1, 3);
        let [first, second] = [batch(1, 1, 2), batch(1, 3, 4)];
        // Who knows of it does not show the old one at all.
        let mut history = History::default();
        history.note_newest(keys(1).machine(), Some(&second.seal(&keys(1))));
        assert_eq!(taken(&mut history, &old), [0; 0]);
        history.take(&logged(b"damaged".to_vec()));
        assert_eq!(taken(&mut history, &first), [1, 2]);
        assert_eq!(taken(&mut history, &second), [3, 4]);
        assert_eq!(trouble(&mut history), Trouble::default());
        // Who has shown the old one, with a gap, is shown the rest.
        let mut history = History::default();
        assert_eq!(taken(&mut history, &batch(0, 1, 1)), [1]);
        assert_eq!(taken(&mut history, &batch(0, 3, 3)), [3]);
        assert_eq!(taken(&mut history, &first), [2]);
        assert_eq!(taken(&mut history, &old), [0; 0]);
        assert_eq!(taken(&mut history, &second), [4]);
        assert_eq!(trouble(&mut history), Trouble::default(), "the gap is mended");
    }

    #[test]
    fn f_06_nobody_tells_the_history_of_another_machine() {
        let mut history = History::default();
        let own = batch(0, 1, 2);
        let mut changed = own.seal(&keys(1));
        if let Some(last) = changed.iter_mut().nth_back(2) {
            *last = b'9';
        }
        let long = Writer { incarnation: Incarnation("x".repeat(65)), relay: String::new() };
        let long = Batch { writer: long, ..own.clone() };
        let backwards = Batch { first: 3, ..own.clone() };
        for bytes in [
            own.seal(&keys(2)),
            changed,
            b"nonsense".to_vec(),
            long.seal(&keys(1)),
            backwards.seal(&keys(1)),
        ] {
            assert_eq!(history.take(&logged(bytes)), []);
        }
        assert_eq!(trouble(&mut history).refused, 5);
        // An event outside of its batch, or out of order, is none.
        let lines = "{\"seq\":2}\n{\"seq\":1}\n{\"seq\":3}\nx\n".to_owned();
        assert_eq!(taken(&mut history, &Batch { lines, ..own }), [2]);
    }

    proptest! {
        #[test]
        fn ranges_are_apart_and_lose_nothing(all in prop::collection::vec((0_u64..60, 0_u64..9), 0..30)) {
            let (mut ranges, mut set) = (Ranges::default(), std::collections::BTreeSet::new());
            for (first, more) in all {
                ranges.add(first, first + more);
                set.extend(first..=first + more);
            }
            prop_assert!((0..80).all(|seq| ranges.has(seq) == set.contains(&seq)));
            prop_assert!(ranges.0.windows(2).all(|two| two[0].1 + 1 < two[1].0), "{ranges:?}");
        }
    }

    #[test]
    fn ranges_are_bounded() {
        let mut ranges = Ranges::default();
        (0..1_000).for_each(|n| ranges.add(n * 3, n * 3));
        assert_eq!((ranges.0.len(), ranges.has(0), ranges.has(2_998)), (RANGES_MAX, true, false));
    }
}
