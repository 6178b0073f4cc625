//! Reading the history of all machines, and having a damaged one published anew (F-01, F-03).

use crate::fleet::{Fleet, keys};
use coord_fleet::{Batch, Extent, Incarnation, Journal, Outbox, Piece, Turn, Writer};
use coord_relay::{Checked, FleetHistory, NatsEngine, Own, check};
use serde_json::json;
use std::io;

/// Records in a batch.
const BATCH: u64 = 4;

/// A journal of numbered records.
struct Numbers {
    newest: u64,
    edition: u64,
}

impl Journal for Numbers {
    fn extent(&mut self) -> io::Result<Extent> {
        Ok(Extent { oldest: 1, oldest_wanted: 1, durable: self.newest })
    }

    fn read(&mut self, from: u64, through: u64) -> io::Result<Piece> {
        let last = through.min(from + BATCH - 1);
        Ok(Piece { last, lines: (from..=last).map(|seq| line(seq) + "\n").collect() })
    }

    fn was_published(&self) -> bool {
        true
    }

    fn follows(&self, _: &Incarnation) -> bool {
        false
    }

    fn note_published(&mut self, _: Option<&Incarnation>) -> io::Result<()> {
        Ok(())
    }

    fn edition(&mut self) -> io::Result<u64> {
        Ok(self.edition)
    }
}

fn line(seq: u64) -> String {
    format!("{{\"seq\":{seq}}}")
}

fn incarnation() -> Incarnation {
    Incarnation("a".to_owned())
}

/// A machine that publishes.
struct Publisher {
    n: usize,
    engine: NatsEngine,
    outbox: Outbox,
    journal: Numbers,
}

impl Publisher {
    fn new(fleet: &Fleet, n: usize) -> Self {
        let writer = Writer { incarnation: incarnation(), relay: "relay".to_owned() };
        let journal = Numbers { newest: 0, edition: 0 };
        Self { n, engine: fleet.engine(n), outbox: Outbox::new(writer), journal }
    }

    /// Publishes through this record.
    fn publish(&mut self, fleet: &Fleet, newest: u64) {
        self.journal.newest = newest;
        let keys = keys(self.n);
        self.outbox.doubt();
        let whole = async {
            while self
                .outbox
                .turn(&mut self.engine, &mut self.journal, &keys)
                .await
                .expect("a turn")
                != Turn::Idle
            {}
        };
        fleet.run(whole);
    }

    fn check(&mut self, fleet: &Fleet) -> Checked {
        let (key, incarnation) = (keys(self.n).public(), incarnation());
        let own = Own { key, incarnation: &incarnation, edition: self.journal.edition };
        fleet.run(check(&mut self.engine, own, |seq| Some(line(seq)))).expect("a look")
    }
}

/// The records that are read until there is no further batch: the machine's number, and the record's.
fn read(fleet: &Fleet, history: &mut FleetHistory) -> Vec<(usize, u64)> {
    let mut all = Vec::new();
    while let Some(told) = fleet.run(history.next()).expect("an answer") {
        for batch in told {
            assert!(1_500_000_000_000 < batch.stored_ms, "{batch:?}");
            all.extend(batch.events.iter().map(|(seq, text)| {
                assert_eq!(*text, line(*seq));
                let n = fleet.ids().iter().position(|id| *id == batch.machine).expect("a machine");
                (n, *seq)
            }));
        }
    }
    all
}

fn of(all: &[(usize, u64)], n: usize) -> Vec<u64> {
    all.iter().filter(|(machine, _)| *machine == n).map(|(_, seq)| *seq).collect()
}

fn history(fleet: &Fleet, n: usize) -> FleetHistory {
    FleetHistory::new(fleet.engine(n), None)
}

#[test]
fn f_03_the_history_of_all_machines_is_read_in_the_order_of_the_servers_clock() {
    let fleet = Fleet::start(3);
    let mut reader = history(&fleet, 2);
    assert_eq!(read(&fleet, &mut reader), []);
    assert_eq!(fleet.run(reader.end()), Ok(0));
    let [mut one, mut other] = [0, 1].map(|n| Publisher::new(&fleet, n));
    // More than a page of both, in turns.
    for round in 1..=30 {
        one.publish(&fleet, round * 2);
        other.publish(&fleet, round);
    }
    let all = read(&fleet, &mut reader);
    let rounds = (1..=30).flat_map(|round| [(0, round * 2 - 1), (0, round * 2), (1, round)]);
    assert_eq!(all, rounds.collect::<Vec<_>>());
    // What comes later is read from there on.
    other.publish(&fleet, 31);
    assert_eq!(read(&fleet, &mut reader), [(1, 31)]);
    // One machine's alone.
    let mut reader = FleetHistory::new(fleet.engine(2), Some(fleet.machine(1)));
    assert_eq!(of(&read(&fleet, &mut reader), 1), (1..=31).collect::<Vec<_>>());
    assert_eq!(reader.troubles(), []);
}

#[test]
fn f_03_reading_begins_where_it_is_wanted() {
    let fleet = Fleet::start(2);
    let mut publisher = Publisher::new(&fleet, 0);
    (1..=9).for_each(|newest| publisher.publish(&fleet, newest));
    let mut reader = history(&fleet, 1);
    let end = fleet.run(reader.end()).unwrap();
    assert_eq!(end, 9);
    let mut times = Vec::new();
    while let Some(told) = fleet.run(reader.next()).unwrap() {
        times.extend(told.iter().map(|one| one.stored_ms));
    }
    for since_ms in [0, times[0], times[4], times[8], times[8] + 1] {
        let place = fleet.run(reader.place_since(since_ms, end)).unwrap();
        let older = times.iter().filter(|at| **at < since_ms).count() as u64;
        assert_eq!(place, older + 1, "{since_ms} {times:?}");
    }
    reader.begin_at(7);
    assert_eq!(of(&read(&fleet, &mut reader), 0), [7, 8, 9]);
}

/// F-04: a server that loses what was read, and gets it again, shows it once; what is new there is shown.
#[test]
fn f_03_what_a_wiped_server_gets_again_is_read_once() {
    let mut fleet = Fleet::start(2);
    let mut publisher = Publisher::new(&fleet, 0);
    (1..=9).for_each(|newest| publisher.publish(&fleet, newest));
    let connection = fleet.connection(1);
    let mut reader = FleetHistory::new(connection.engine(), None);
    reader.begin_at(4);
    assert_eq!(of(&read(&fleet, &mut reader), 0), [4, 5, 6, 7, 8, 9]);
    fleet.server.wipe();
    fleet.set_up();
    // The batches are fewer than before: their places are others.
    let mut publisher = Publisher::new(&fleet, 0);
    publisher.publish(&fleet, 11);
    let mut changes = connection.changes();
    fleet.run(changes.wait_for(|status| status.is_up)).unwrap();
    assert_eq!(of(&read(&fleet, &mut reader), 0), [10, 11]);
}

/// F-06: what a machine did not sign is not shown, and is counted under the name where it lies.
#[test]
fn f_06_what_another_one_signed_is_left_out() {
    let fleet = Fleet::start(2);
    let mut publisher = Publisher::new(&fleet, 0);
    publisher.publish(&fleet, 2);
    let writer = Writer { incarnation: incarnation(), relay: "forged".to_owned() };
    let lines = line(3) + "\n";
    let forged = Batch { writer, edition: 0, first: 3, last: 3, is_gap: false, lines };
    let administrator = fleet.client(&fleet.administrator).client;
    let subject = format!("coord.v1.journal.{}", fleet.machine(0));
    for (subject, bytes) in [
        (subject.clone(), forged.seal(&keys(1))),
        (subject, b"\x1b]0;nonsense".to_vec()),
        ("coord.v1.journal.nobody".to_owned(), forged.seal(&keys(0))),
    ] {
        fleet.run(administrator.request(subject, bytes.into())).unwrap();
    }
    let mut reader = history(&fleet, 1);
    assert_eq!(read(&fleet, &mut reader), [(0, 1), (0, 2)]);
    let refused: Vec<u64> = reader.troubles().iter().map(|(_, one)| one.refused).collect();
    assert_eq!(refused, [1, 2], "{:?}", fleet.ids());
}

/// F-01: batches that the server lost or damaged are found, and the journal is published anew: then it is there once, for those who
/// begin to read, and for those who have read what was there.
#[test]
fn f_01_what_the_server_lost_is_found_and_published_anew() {
    let fleet = Fleet::start(2);
    let mut publisher = Publisher::new(&fleet, 0);
    publisher.publish(&fleet, 20);
    assert!(publisher.check(&fleet).is_right());
    // The third batch goes, and the newest one is not this machine's.
    let deleted = fleet.api("STREAM.MSG.DELETE.COORD_JOURNAL", &json!({"seq": 3}));
    assert_eq!(deleted["success"], true, "{deleted}");
    let administrator = fleet.client(&fleet.administrator).client;
    let subject = format!("coord.v1.journal.{}", fleet.machine(0));
    fleet.run(administrator.request(subject, "damaged".into())).unwrap();
    let mut follower = history(&fleet, 1);
    let gap: Vec<u64> = (1..=8).chain(13..=20).collect();
    assert_eq!(of(&read(&fleet, &mut follower), 0), gap);
    let trouble = follower.troubles().pop().unwrap().1;
    assert_eq!((trouble.refused, trouble.missing), (1, vec![(9, 12)]));
    let checked = publisher.check(&fleet);
    assert_eq!((checked.missing, checked.not_believed), (vec![(9, 12)], 1));

    publisher.journal.edition = 1;
    publisher.publish(&fleet, 21);
    let checked = publisher.check(&fleet);
    assert!(checked.is_right() && checked.covers == Some((1, 21)), "{checked:?}");
    assert_eq!(of(&read(&fleet, &mut follower), 0), [9, 10, 11, 12, 21]);
    let mut late = history(&fleet, 1);
    assert_eq!(of(&read(&fleet, &mut late), 0), (1..=21).collect::<Vec<_>>());
    assert_eq!((follower.troubles(), late.troubles()), (Vec::new(), Vec::new()));
}
