//! A segment of the journal: it opens with every record that stands whole before the damage, and
//! goes on; or it is refused in clear words and left as it is (G1).

use super::frames::{anywhere, before_damage, repair};
use super::{Target, assert_is_one_line};
use coord_store::{Disk, Journal, Tail};
use coord_testkit::FakeDisk;
use coord_wire::limits::SEGMENT_BYTES_MAX;
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "journal",
    seeds,
    dictionary: &[
        "{\"store\":1,\"first_seq\":1}",
        "{\"store\":1,\"synced\":60}",
        "{\"store\":",
        "first_seq",
        "synced",
        "\u{0}\u{0}\u{0}",
    ],
    repair: Some(|input| repair(input)),
    run,
};

const SEGMENT: &str = "/state/journal/00000000000000000001.seg";
const DIR: &str = "/state/journal";
const OWN: &[u8] = b"{\"store\":";
const NEW: &[u8] = b"{\"new\":1}";

fn seeds() -> Vec<Vec<u8>> {
    let disk = FakeDisk::new();
    let mut seeds = Vec::new();
    let opened = Journal::open(disk.clone(), Path::new(DIR), 0, SEGMENT_BYTES_MAX);
    let (mut journal, _) = opened.expect("an empty disk takes a journal");
    for n in 0..12 {
        let record =
            format!("{{\"seq\":{n},\"at\":1,\"mono_ns\":2,\"entry\":{{\"gap\":{{\"ns\":{n}}}}}}}");
        journal.append(record.as_bytes()).expect("there is room");
        if n % 3 == 1 {
            let job = journal.unsynced().expect("something was written");
            journal.synced(job.run()).expect("the disk is whole");
        }
        seeds.extend(disk.read(Path::new(SEGMENT), u64::MAX));
    }
    seeds
}

fn run(input: &[u8]) -> String {
    // Behind a snapshot of some records, or of none.
    let from_seq = (input.len() % 3) as u64;
    let (whole, damage_at) = before_damage(input);
    let mut expected: Vec<Vec<u8>> = (whole.iter().filter(|payload| !payload.starts_with(OWN)))
        .zip(1..)
        .filter(|(_, seq)| from_seq < *seq)
        .map(|(payload, _)| payload.to_vec())
        .collect();
    let (disk, dir) = (FakeDisk::new(), Path::new(DIR));
    disk.write_synced(Path::new(SEGMENT), input);
    let beside = Tail::read(&disk, dir, from_seq).map(|tail| payloads(&tail));
    let opened = Journal::open(disk.clone(), dir, from_seq, SEGMENT_BYTES_MAX);
    let (mut journal, tail) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            assert_is_one_line(&error.to_string(), 1000);
            assert!(beside.is_err(), "a reader takes what the writer refuses");
            let left = disk.read(Path::new(SEGMENT), u64::MAX).unwrap_or_default();
            assert!(left == input, "a segment that was refused is not what it was");
            let debug = format!("{error:?}");
            return format!("refused: {}", debug.split([' ', '{']).next().unwrap_or_default());
        }
    };
    assert!(payloads(&tail) == expected, "opened with other records than stand before the damage");
    assert!(beside.ok().as_ref() == Some(&expected), "a reader sees other records");
    for finding in &tail.report {
        assert_is_one_line(&finding.to_string(), 1000);
    }
    let behind = anywhere(input, damage_at);
    if behind.iter().any(|payload| !payload.starts_with(OWN)) {
        let kept =
            disk.read(&Path::new(SEGMENT).with_extension("cut"), u64::MAX).unwrap_or_default();
        // Of a segment without a header all is kept.
        assert!(kept.ends_with(&input[damage_at..]), "records behind the damage are not kept");
    }
    let outcome = format!(
        "{} records, {:?}",
        expected.len().min(20),
        tail.report.iter().map(core::mem::discriminant).collect::<Vec<_>>()
    );
    journal.append(NEW).expect("an open journal takes a record");
    expected.push(NEW.to_vec());
    drop(journal);
    let again = Journal::open(disk, dir, from_seq, SEGMENT_BYTES_MAX);
    let (_, tail) = again.expect("what was repaired opens");
    assert!(tail.report.is_empty(), "a second repair: {:?}", tail.report);
    assert!(payloads(&tail) == expected, "the next start sees other records");
    outcome
}

fn payloads(tail: &Tail) -> Vec<Vec<u8>> {
    tail.records().map(|(_, payload)| payload.to_vec()).collect()
}
