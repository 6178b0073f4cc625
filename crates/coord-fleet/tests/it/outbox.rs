//! F-04: whatever the engine loses or forgets to answer, its log of each machine has no gap and nothing twice.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use coord_fleet::{
    Batch, Engine as _, Extent, Incarnation, Journal, Keys, Outbox, Piece, Turn, TurnError, Writer,
};
use coord_testkit::{EngineFaults, FakeEngine, FakeServer, Random, ready};

/// A journal of numbered records, of which one batch takes a few.
#[derive(Debug, Clone)]
struct Numbers {
    oldest: u64,
    newest: u64,
    was_published: bool,
    follows: Option<Incarnation>,
    edition: u64,
}

/// Records in a batch.
const BATCH: u64 = 4;

impl Journal for Numbers {
    fn extent(&mut self) -> io::Result<Extent> {
        Ok(Extent { oldest: self.oldest, oldest_wanted: self.oldest, durable: self.newest })
    }

    fn read(&mut self, from: u64, through: u64) -> io::Result<Piece> {
        let last = through.min(from + BATCH - 1);
        Ok(Piece { last, lines: lines(from, last) })
    }

    fn was_published(&self) -> bool {
        self.was_published
    }

    fn follows(&self, other: &Incarnation) -> bool {
        self.follows.as_ref() == Some(other)
    }

    fn note_published(&mut self, after: Option<&Incarnation>) -> io::Result<()> {
        self.was_published = true;
        self.follows = after.cloned();
        Ok(())
    }

    fn edition(&mut self) -> io::Result<u64> {
        Ok(self.edition)
    }
}

/// The events of these records.
fn lines(first: u64, last: u64) -> String {
    let line = |seq| format!("{{\"seq\":{seq}}}\n");
    (first..=last).map(line).collect::<Vec<_>>().concat()
}

fn numbers(newest: u64) -> Numbers {
    Numbers { oldest: 1, newest, was_published: false, follows: None, edition: 0 }
}

fn writer(incarnation: &str, relay: &str) -> Writer {
    Writer { incarnation: Incarnation(incarnation.to_owned()), relay: relay.to_owned() }
}

struct Place {
    server: Rc<RefCell<FakeServer>>,
    keys: Keys,
}

impl Place {
    fn new() -> Self {
        Self { server: Rc::default(), keys: Keys::from_seed(&[1; 32]).expect("a key") }
    }

    fn engine(&self, faults: EngineFaults, seed: u64) -> FakeEngine {
        FakeEngine::new(&self.server, self.keys.machine(), faults, seed)
    }

    /// Turns until nothing is left.
    fn publish(&self, outbox: &mut Outbox, journal: &mut Numbers) -> Result<(), TurnError> {
        let mut engine = self.engine(EngineFaults::default(), 0);
        while ready(outbox.turn(&mut engine, journal, &self.keys))? != Turn::Idle {}
        Ok(())
    }

    /// First and last record of each batch that the engine holds; all are this machine's own.
    fn held(&self) -> Vec<(u64, u64, bool)> {
        self.held_of(0)
    }

    /// The same of an edition.
    fn held_of(&self, edition: u64) -> Vec<(u64, u64, bool)> {
        let server = self.server.borrow();
        let batches = server.batches(self.keys.machine()).map(|bytes| {
            let (key, batch) = Batch::open(bytes).expect("a batch");
            assert_eq!(key, self.keys.public());
            let expected =
                if batch.is_gap { String::new() } else { lines(batch.first, batch.last) };
            assert_eq!(batch.lines, expected);
            (batch.edition == edition).then_some((batch.first, batch.last, batch.is_gap))
        });
        batches.flatten().collect()
    }
}

#[test]
fn f_04_a_journal_is_published_whole_and_once() {
    let (place, mut journal) = (Place::new(), numbers(10));
    let mut outbox = Outbox::new(writer("a", "relay"));
    place.publish(&mut outbox, &mut journal).unwrap();
    assert_eq!(place.held(), [(1, 4, false), (5, 8, false), (9, 10, false)]);
    assert!(journal.was_published);
    // Another process knows nothing, and continues after what is held.
    journal.newest = 11;
    place.publish(&mut Outbox::new(writer("a", "relay")), &mut journal).unwrap();
    assert_eq!(place.held().last(), Some(&(11, 11, false)));
    assert_eq!(outbox.held_through, Some(10));
}

#[test]
fn f_04_a_lost_tail_is_noticed_and_published_again() {
    let (place, mut journal) = (Place::new(), numbers(20));
    let mut outbox = Outbox::new(writer("a", "relay"));
    place.publish(&mut outbox, &mut journal).unwrap();
    place.server.borrow_mut().lose_tail(2);
    // Nobody tells of it: the next append is refused.
    journal.newest = 21;
    place.publish(&mut outbox, &mut journal).unwrap();
    assert_eq!((outbox.conflicts, outbox.rewinds), (1, 1));
    let all = [(1, 4), (5, 8), (9, 12), (13, 16), (17, 20), (21, 21)];
    assert_eq!(place.held(), all.map(|(first, last)| (first, last, false)));
}

#[test]
fn f_07_what_an_earlier_relay_of_the_machine_published_is_no_clones() {
    let (place, mut journal) = (Place::new(), numbers(12));
    place.publish(&mut Outbox::new(writer("a", "relay")), &mut journal).unwrap();
    journal.newest = 16;
    let mut outbox = Outbox::new(writer("a", "next relay"));
    place.publish(&mut outbox, &mut journal).unwrap();
    // The newest batch that is left is one of the earlier relay, or an older one.
    for lost in [1, 3] {
        place.server.borrow_mut().lose_tail(lost);
        outbox.doubt();
        place.publish(&mut outbox, &mut journal).unwrap();
        let wanted = [(1, 4, false), (5, 8, false), (9, 12, false), (13, 16, false)];
        assert_eq!(place.held(), wanted, "{lost} lost");
    }
}

#[test]
fn f_08_what_is_gone_before_it_was_published_is_named() {
    let (place, mut journal) = (Place::new(), numbers(6));
    let mut outbox = Outbox::new(writer("a", "relay"));
    place.publish(&mut outbox, &mut journal).unwrap();
    (journal.oldest, journal.newest) = (9, 10);
    place.publish(&mut outbox, &mut journal).unwrap();
    assert_eq!(place.held(), [(1, 4, false), (5, 6, false), (7, 8, true), (9, 10, false)]);
}

#[test]
fn f_07_a_new_journal_follows_the_old_one() {
    let (place, mut journal) = (Place::new(), numbers(6));
    place.publish(&mut Outbox::new(writer("a", "relay")), &mut journal).unwrap();
    let mut other = numbers(3);
    place.publish(&mut Outbox::new(writer("b", "relay")), &mut other).unwrap();
    assert_eq!(place.held(), [(1, 4, false), (5, 6, false), (1, 3, false)]);
    // The server loses the new one: the old one is no clone's.
    place.server.borrow_mut().lose_tail(1);
    place.publish(&mut Outbox::new(writer("b", "third relay")), &mut other).unwrap();
    assert_eq!(place.held().last(), Some(&(1, 3, false)));
    // The old one is another machine's now.
    journal.newest = 7;
    let refused = place.publish(&mut Outbox::new(writer("a", "relay")), &mut journal);
    assert!(matches!(refused, Err(TurnError::Duplicate(_))), "{refused:?}");
}

#[test]
fn f_07_a_clone_stops_and_says_so() {
    // Both have the same journal; one publishes first.
    let place = Place::new();
    let mut journal = numbers(6);
    let mut original = Outbox::new(writer("a", "relay"));
    place.publish(&mut original, &mut journal).unwrap();
    let mut cloned = journal.clone();
    cloned.newest = 8;
    let mut clone = Outbox::new(writer("a", "other relay"));
    place.publish(&mut clone, &mut cloned).unwrap();
    // The original meets records that it never wrote.
    journal.newest = 7;
    let refused = place.publish(&mut original, &mut journal);
    assert!(
        matches!(&refused, Err(TurnError::Duplicate(why)) if why.to_string().contains("record 8")),
        "{refused:?}"
    );
    journal.newest = 30;
    let mut original = Outbox::new(writer("a", "relay"));
    place.publish(&mut original, &mut journal).unwrap();
    cloned.newest = 31;
    let refused = place.publish(&mut clone, &mut cloned);
    assert!(
        matches!(&refused, Err(TurnError::Duplicate(why)) if why.to_string().contains("meanwhile")),
        "{refused:?}"
    );
}

#[test]
fn f_04_whatever_is_lost_the_log_has_no_gap_and_nothing_twice() {
    let faults = EngineFaults { lost_call: 0.1, lost_answer: 0.1, redelivered: 0.0 };
    for seed in 0..100 {
        let place = Place::new();
        let mut random = Random::new(seed);
        let mut engine = place.engine(faults, seed);
        let mut journal = numbers(random.below(20));
        let mut outbox = Outbox::new(writer("a", "relay"));
        for _ in 0..200 {
            match random.below(20) {
                0 => place.server.borrow_mut().wipe(),
                1 => {
                    let n = random.index(4);
                    place.server.borrow_mut().lose_tail(n);
                }
                2 => outbox = Outbox::new(writer("a", "relay")),
                3 => outbox.doubt(),
                4 => engine = place.engine(faults, random.next()),
                12 => journal.edition += u64::from(random.below(4) == 0),
                5 => {
                    let is_down = random.coin();
                    place.server.borrow_mut().is_down = is_down;
                }
                6..12 => journal.newest += random.below(9),
                _ => match ready(outbox.turn(&mut engine, &mut journal, &place.keys)) {
                    Ok(_) | Err(TurnError::Engine(_)) => (),
                    Err(error) => panic!("seed {seed}: {error:?}"),
                },
            }
        }
        place.server.borrow_mut().is_down = false;
        outbox.doubt();
        place.publish(&mut outbox, &mut journal).unwrap();
        let mut next = 1;
        for (first, last, is_gap) in place.held_of(journal.edition) {
            assert_eq!((first, is_gap), (next, false), "seed {seed}");
            next = last + 1;
        }
        assert_eq!(next, journal.newest + 1, "seed {seed}");
    }
}

// F-01: a journal that is published anew follows what was there, whole and once, whichever relay does it.
#[test]
fn f_01_a_new_edition_is_published_whole_and_once() {
    let editions = |place: &Place| {
        let server = place.server.borrow();
        let of = |bytes: &[u8]| {
            let batch = Batch::open(bytes).expect("a batch").1;
            (batch.edition, batch.first, batch.last)
        };
        server.batches(place.keys.machine()).map(of).collect::<Vec<_>>()
    };
    let (place, mut journal) = (Place::new(), numbers(6));
    let mut outbox = Outbox::new(writer("a", "relay"));
    place.publish(&mut outbox, &mut journal).unwrap();
    // The relay that has published before goes on, though nothing happened since.
    journal.edition = 1;
    place.publish(&mut outbox, &mut journal).unwrap();
    let whole = [(0, 1, 4), (0, 5, 6), (1, 1, 4), (1, 5, 6)];
    assert_eq!(editions(&place), whole);
    assert_eq!((outbox.rewinds, outbox.held_through), (0, Some(6)));
    // Another one continues after it, and publishes it again where the engine has lost it.
    let mut next = Outbox::new(writer("a", "next relay"));
    place.publish(&mut next, &mut journal).unwrap();
    assert_eq!(editions(&place), whole);
    place.server.borrow_mut().lose_tail(2);
    next.doubt();
    place.publish(&mut next, &mut journal).unwrap();
    assert_eq!(editions(&place), whole);
    // Who does not know of it has an older copy of the journal.
    journal.edition = 0;
    let refused = place.publish(&mut Outbox::new(writer("a", "third relay")), &mut journal);
    assert!(
        matches!(&refused, Err(TurnError::Duplicate(why)) if why.to_string().contains("published this journal again")),
        "{refused:?}"
    );
}

#[test]
fn what_is_damaged_or_foreign_on_the_own_subject_says_nothing() {
    let place = Place::new();
    let mut engine = place.engine(EngineFaults::default(), 0);
    ready(engine.append(b"nonsense", 0)).unwrap();
    let mut journal = numbers(2);
    let mut outbox = Outbox::new(writer("a", "relay"));
    while ready(outbox.turn(&mut engine, &mut journal, &place.keys)).unwrap() != Turn::Idle {}
    let last = place.server.borrow().batches(place.keys.machine()).last().unwrap().to_vec();
    assert_eq!(Batch::open(&last).unwrap().1.last, 2);
}
