//! What opening the store finds, case by case, on a disk in memory.

use coord_store::journal::{Retention, read_segments};
use coord_store::{
    AppendError, Bodies, Disk, DiskFile, Drained, Finding, Journal, JournalError, Reserve,
    Snapshot, SnapshotError, SnapshotIndex, SnapshotWriter, Spool, Tail, Taken,
};
use coord_testkit::{Damage, FakeDisk, Fault};
use coord_wire::{frame, spool};
use std::path::{Path, PathBuf};

const LARGE: u64 = 1 << 20;
const NO_FAULT: &str = "no fault is armed";

fn dir() -> &'static Path {
    Path::new("/j")
}

fn segment(first_seq: u64) -> PathBuf {
    dir().join(format!("{first_seq:020}.seg"))
}

#[track_caller]
fn open(disk: &FakeDisk, from_seq: u64, bytes_max: u64) -> (Journal<FakeDisk>, Tail) {
    Journal::open(disk.clone(), dir(), from_seq, bytes_max).expect(NO_FAULT)
}

fn texts(tail: &Tail) -> Vec<String> {
    tail.records().map(|(_, payload)| String::from_utf8_lossy(payload).into_owned()).collect()
}

#[track_caller]
fn sync(journal: &mut Journal<FakeDisk>) {
    let done = journal.unsynced().expect("there is something to sync").run();
    journal.synced(done).expect(NO_FAULT);
}

/// A journal of `n` synced records, `each` of them in a segment of its own group.
fn journal_of(n: u64, bytes_max: u64) -> FakeDisk {
    let disk = FakeDisk::new();
    let (mut journal, _) = open(&disk, 0, bytes_max);
    for seq in 1..=n {
        journal.append(format!("record {seq}").as_bytes()).expect(NO_FAULT);
        sync(&mut journal);
    }
    disk
}

fn flip(disk: &FakeDisk, path: &Path, at: usize) {
    let mut bytes = disk.read(path, u64::MAX).expect(NO_FAULT);
    bytes[at] ^= 1;
    disk.write_synced(path, &bytes);
}

#[test]
fn a_new_store_begins_at_one_and_numbers_go_on_after_a_restart() {
    let disk = FakeDisk::new();
    let (mut journal, tail) = open(&disk, 0, LARGE);
    assert_eq!((texts(&tail).len(), tail.report.len(), journal.next_seq()), (0, 0, 1));
    assert_eq!(journal.append_batch(&[b"a", b"b"]).unwrap(), 1);
    assert_eq!(journal.append(b"c").unwrap(), 3);
    assert_eq!(journal.synced_through(), 0);
    sync(&mut journal);
    assert_eq!(journal.synced_through(), 3);
    assert!(journal.unsynced().is_none());
    let (journal, tail) = open(&disk, 1, LARGE);
    assert_eq!((texts(&tail), journal.next_seq()), (vec!["b".into(), "c".into()], 4));
}

#[test]
fn g1_a_torn_tail_is_cut_off_and_reported_by_the_coordinator_alone() {
    let disk = journal_of(3, LARGE);
    let whole = disk.len(&segment(1)).unwrap();
    disk.open_append(&segment(1)).unwrap().append(&frame::MAGIC).unwrap();
    let seen = Tail::read(&disk, dir(), 0).unwrap();
    assert_eq!((texts(&seen).len(), seen.report.len()), (3, 0), "a writer may be at work");
    let (mut journal, tail) = open(&disk, 0, LARGE);
    let expected =
        Finding::TornTail { file: segment(1), at: whole, bytes: 4, records: 0, kept: None };
    assert_eq!(tail.report, [expected]);
    journal.append(b"record 4").unwrap();
    assert_eq!(texts(&Tail::read(&disk, dir(), 3).unwrap()), ["record 4"]);
}

#[test]
fn g1_records_behind_an_unsynced_hole_are_kept_aside() {
    let disk = journal_of(1, LARGE);
    let (mut journal, _) = open(&disk, 0, LARGE);
    let before = usize::try_from(disk.len(&segment(1)).unwrap()).unwrap();
    journal.append_batch(&[b"two", b"three", b"four"]).unwrap();
    flip(&disk, &segment(1), before + 60);
    let (_, tail) = open(&disk, 0, LARGE);
    let kept = segment(1).with_extension("cut");
    assert!(
        matches!(&tail.report[..], [Finding::TornTail { records: 1 | 2, kept: Some(path), .. }] if *path == kept),
        "{:?}",
        tail.report
    );
    assert!(!disk.read(&kept, u64::MAX).unwrap().is_empty());
}

#[test]
fn g1_damage_below_a_mark_is_refused_and_says_what_can_be_saved() {
    let disk = journal_of(3, LARGE);
    let bytes = disk.read(&segment(1), u64::MAX).unwrap();
    let at = bytes.windows(8).position(|window| window == b"record 1").unwrap();
    flip(&disk, &segment(1), at);
    let error = Journal::open(disk.clone(), dir(), 0, LARGE).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { before: 0, behind: 2, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("0 records before and 2 after it can be saved"), "{text}");
    assert!(text.contains("move the state directory aside"), "{text}");
    assert!(Tail::read(&disk, dir(), 0).is_err(), "a reader does not pass over it either");
}

#[test]
fn g1_any_flipped_bit_is_refused_or_leaves_whole_records_in_order() {
    let whole = journal_of(6, 250);
    let expected = texts(&Tail::read(&whole, dir(), 0).unwrap());
    let mut n_refused = 0;
    let last = dir().join(whole.list(dir()).unwrap().pop().unwrap());
    for name in whole.list(dir()).unwrap() {
        let path = dir().join(name);
        for at in 0..usize::try_from(whole.len(&path).unwrap()).unwrap() {
            let disk = whole.after_crash(Damage::Kept);
            flip(&disk, &path, at);
            match Journal::open(disk.clone(), dir(), 0, LARGE) {
                Ok((_, tail)) => {
                    let read = texts(&tail);
                    assert_eq!(read, expected[..read.len()], "{} at {at}", path.display());
                    assert!(path == last && 5 <= read.len(), "only what no mark covers");
                }
                Err(JournalError::Damaged { .. }) => n_refused += 1,
                Err(error) => panic!("{} at {at}: {error}", path.display()),
            }
        }
    }
    assert!(100 < n_refused);
}

#[test]
fn damage_in_an_earlier_segment_is_refused_unless_the_snapshot_covers_it() {
    let disk = journal_of(6, 120);
    let len = usize::try_from(disk.len(&segment(1)).unwrap()).unwrap();
    flip(&disk, &segment(1), len - 1);
    assert!(matches!(
        Journal::open(disk.clone(), dir(), 0, LARGE).unwrap_err(),
        JournalError::Damaged { .. }
    ));
    let (_, tail) = open(&disk, 5, LARGE);
    assert_eq!(texts(&tail), ["record 6"]);
    let readable = read_segments(&disk, dir(), 0).unwrap().flatten().count();
    assert!(1 < readable, "history shows the others");
}

#[test]
fn a_missing_segment_is_refused_only_behind_the_snapshot() {
    let disk = journal_of(9, 120);
    let names = disk.list(dir()).unwrap();
    assert!(3 < names.len(), "{names:?}");
    disk.remove(&dir().join(&names[1])).unwrap();
    let error = Journal::open(disk.clone(), dir(), 0, LARGE).unwrap_err();
    assert!(matches!(error, JournalError::Gap { .. }), "{error}");
    disk.remove(&dir().join(&names[0])).unwrap();
    let error = Journal::open(disk.clone(), dir(), 0, LARGE).unwrap_err();
    assert!(matches!(error, JournalError::Gap { first: 1, .. }), "{error}");
    let (_, tail) = open(&disk, 8, LARGE);
    assert_eq!(texts(&tail), ["record 9"]);
}

#[test]
fn segments_that_overlap_are_refused() {
    let disk = journal_of(3, LARGE);
    let mut bytes = Vec::new();
    frame::push(&mut bytes, b"{\"store\":1,\"first_seq\":2}");
    frame::push(&mut bytes, b"another 2");
    disk.write_synced(&segment(2), &bytes);
    let error = Journal::open(disk, dir(), 0, LARGE).unwrap_err();
    assert!(matches!(error, JournalError::Overlap { expected: 4, .. }), "{error}");
}

#[test]
fn a_newer_store_is_refused_with_the_remedy() {
    let disk = FakeDisk::new();
    let mut bytes = Vec::new();
    frame::push(&mut bytes, b"{\"store\":9,\"first_seq\":1,\"shape\":\"new\"}");
    disk.write_synced(&segment(1), &bytes);
    let error = Journal::open(disk.clone(), dir(), 0, LARGE).unwrap_err();
    assert!(matches!(error, JournalError::Newer { found: 9, .. }));
    assert!(error.to_string().contains("run the newer coord"), "{error}");
    let mut bytes = Vec::new();
    frame::push(&mut bytes, b"{\"store\":9}");
    disk.write_synced(&dir().join("snapshot"), &bytes);
    assert!(matches!(Snapshot::load(&disk, dir()), Err(SnapshotError::Newer { found: 9, .. })));
    assert!(matches!(SnapshotIndex::open(&disk, dir()), Err(SnapshotError::Newer { .. })));
}

#[test]
fn empty_and_foreign_files_are_no_obstacle() {
    let disk = journal_of(2, LARGE);
    disk.write_synced(&segment(3), b"");
    disk.write_synced(&dir().join("notes.txt"), b"x");
    disk.write_synced(&dir().join("7.seg"), b"x");
    let (journal, tail) = open(&disk, 0, LARGE);
    assert_eq!((texts(&tail).len(), journal.next_seq()), (2, 3));
    assert_eq!(tail.report, [Finding::UnbegunSegment { file: segment(3) }]);
    assert!(
        disk.read(&segment(3), u64::MAX).is_err(),
        "it would lie in the way of a later segment"
    );
}

#[test]
fn a_snapshot_ahead_of_the_journal_leaves_a_gap_in_history_only() {
    let disk = journal_of(2, LARGE);
    let (mut journal, tail) = open(&disk, 5, LARGE);
    let expected = Finding::JournalBehindSnapshot { last_seq: 2, through_seq: 5 };
    assert_eq!((tail.report, journal.next_seq()), (vec![expected], 6));
    journal.append(b"record 6").unwrap();
    let (_, tail) = open(&disk, 5, LARGE);
    assert_eq!(texts(&tail), ["record 6"]);
    assert!(matches!(
        Journal::open(disk.clone(), dir(), 1, LARGE),
        Err(JournalError::Gap { first: 3, last: 5, .. })
    ));
}

#[test]
fn g1_a_failed_sync_makes_the_journal_read_only_and_a_restart_writes_it_anew() {
    let disk = journal_of(1, LARGE);
    let (mut journal, _) = open(&disk, 0, LARGE);
    journal.append(b"two").unwrap();
    let job = journal.unsynced().unwrap();
    disk.arm(Fault::Error { at: 1, kind: std::io::ErrorKind::Other });
    assert!(journal.synced(job.run()).is_err());
    let error = journal.append(b"three").unwrap_err();
    assert!(error.to_string().contains("read-only since a sync failed"), "{error}");
    assert!(journal.unsynced().is_none() && journal.is_read_only());
    let (_, tail) = open(&disk, 0, LARGE);
    assert_eq!(tail.report, [Finding::Rewritten { file: segment(1) }]);
    let (_, tail) = open(&disk.after_crash(Damage::Dropped), 0, LARGE);
    assert_eq!(texts(&tail), ["record 1", "two"], "what was lost in memory is on the disk now");
}

/// What reopening comes to.
fn reopen(
    journal: &mut Journal<FakeDisk>,
    bodies: &mut Bodies<FakeDisk>,
) -> Result<(), JournalError> {
    let job = journal.reopen(bodies).expect("it is read-only, and no job is out");
    journal.reopened(job.run(), bodies)
}

// G1, H-52: whatever operation of it fails, a reopening that succeeds leaves all records durable, takes
// new ones, and until then nothing counts as synced.
#[test]
fn a_journal_whose_sync_failed_is_reopened_with_everything_in_it() {
    for fails_at in 1.. {
        let disk = journal_of(1, LARGE);
        let mut bodies = Bodies::new(disk.clone(), Path::new("/s/messages"));
        let (mut journal, _) = open(&disk, 0, LARGE);
        assert!(journal.reopen(&mut bodies).is_none(), "there is nothing wrong with it");
        bodies.write("text", b"rebase").unwrap();
        journal.append(b"two").unwrap();
        let job = journal.unsynced().unwrap().behind(&mut bodies);
        disk.arm(Fault::Sync);
        let mut synced = job.run();
        bodies.owe(std::mem::take(&mut synced.bodies));
        assert!(journal.synced(synced).is_err());
        assert!(reopen(&mut journal, &mut bodies).is_err(), "the disk fails still");
        disk.arm(Fault::Error { at: fails_at, kind: std::io::ErrorKind::Other });
        let mut tries = 0;
        while let Err(error) = reopen(&mut journal, &mut bodies) {
            tries += 1;
            assert_eq!((journal.is_read_only(), journal.synced_through()), (true, 1), "{error}");
            assert!(tries < 2, "the fault is over: {error}");
        }
        assert_eq!((journal.is_read_only(), journal.synced_through()), (false, 2));
        disk.disarm();
        assert_eq!(journal.append(b"three").unwrap(), 3);
        let after = disk.after_crash(Damage::Dropped);
        assert_eq!(after.read(Path::new("/s/messages/text"), u64::MAX).unwrap(), b"rebase");
        let (_, tail) = open(&after, 0, LARGE);
        assert_eq!(texts(&tail), ["record 1", "two"], "fault at {fails_at}");
        let job = journal.unsynced().unwrap();
        journal.synced(job.run()).unwrap();
        let (_, tail) = open(&disk.after_crash(Damage::Dropped), 0, LARGE);
        assert_eq!(texts(&tail), ["record 1", "two", "three"], "fault at {fails_at}");
        if tries == 0 {
            assert!(15 < fails_at, "every operation of it has met the fault");
            return;
        }
    }
}

// H-52: where the page cache lost what the failed sync was to save, the journal is not believed.
#[test]
fn a_journal_in_which_records_are_missing_is_not_reopened() {
    let disk = journal_of(1, LARGE);
    let mut bodies = Bodies::new(disk.clone(), Path::new("/s/messages"));
    let (mut journal, _) = open(&disk, 0, LARGE);
    let durable = disk.read(&segment(1), u64::MAX).unwrap();
    journal.append(b"two").unwrap();
    let job = journal.unsynced().unwrap();
    disk.arm(Fault::Sync);
    assert!(journal.synced(job.run()).is_err());
    disk.disarm();
    disk.write_synced(&segment(1), &durable);
    let refused = reopen(&mut journal, &mut bodies).unwrap_err();
    assert!(matches!(refused, JournalError::Gap { first: 2, last: 2, .. }), "{refused}");
    assert!(journal.is_read_only());
}

#[test]
fn h29_a_segment_that_could_not_be_begun_is_begun_with_the_next_record() {
    let disk = FakeDisk::new();
    let (mut journal, _) = open(&disk, 0, 200);
    journal.append(&[b'1'; 50]).unwrap();
    // The full segment is synced, the next one opened and emptied, and its header finds no room.
    disk.arm(Fault::Error { at: 4, kind: std::io::ErrorKind::StorageFull });
    let error = journal.append(&[b'2'; 100]).unwrap_err();
    assert!(matches!(error, AppendError::Full { .. }), "{error}");
    journal.append(b"would fit into the old one").unwrap();
    journal.append(&[b'3'; 100]).unwrap();
    let (_, tail) = open(&disk, 0, 200);
    assert_eq!((texts(&tail).len(), tail.report.len()), (3, 0));
}

#[test]
fn a_record_cannot_pass_for_one_of_the_stores_own() {
    let (mut journal, _) = open(&FakeDisk::new(), 0, LARGE);
    assert!(journal.append(b"{\"store\":9}").is_err());
    assert_eq!(journal.append(b"{\"seq\":1}").unwrap(), 1);
}

#[test]
fn h29_pruning_takes_whole_covered_segments_by_size_and_age() {
    let disk = journal_of(12, 120);
    let (journal, _) = open(&disk, 0, 120);
    let n = disk.list(dir()).unwrap().len();
    let none = Retention { bytes_max: 0, age_ms_max: u64::MAX };
    assert_eq!(journal.prune(0, 0, none).unwrap(), 0, "no snapshot covers anything");
    let removed = journal.prune(6, 0, none).unwrap();
    let (_, tail) = open(&disk, 6, 120);
    assert!(0 < removed && texts(&tail).len() == 6);
    let old = Retention { bytes_max: u64::MAX, age_ms_max: 1000 };
    assert_eq!(journal.prune(12, 1000, old).unwrap(), 0, "young enough");
    assert_eq!(journal.prune(12, 1001, old).unwrap(), n - removed - 1, "never the last");
    assert_eq!(Retention::default().bytes_max, 512 * 1024 * 1024);
}

#[test]
fn history_reads_from_both_ends() {
    let disk = journal_of(9, 120);
    let records = |segment: Result<coord_store::Segment, JournalError>| {
        segment.unwrap().records().map(|(seq, _)| seq).collect::<Vec<_>>()
    };
    let forward: Vec<u64> = read_segments(&disk, dir(), 0).unwrap().flat_map(records).collect();
    assert_eq!(forward, (1..=9).collect::<Vec<_>>());
    let last = read_segments(&disk, dir(), 0).unwrap().next_back().map(records).unwrap();
    assert_eq!(last.last(), Some(&9));
    let from_seven = read_segments(&disk, dir(), 7).unwrap().next().map(records).unwrap();
    assert!(from_seven.contains(&7), "{from_seven:?}");
    let nowhere = read_segments(&disk, Path::new("/none"), 0).unwrap();
    assert_eq!(nowhere.count(), 0);
}

fn snapshot(disk: &FakeDisk, through_seq: u64, entries: &[(&[&str], &str)]) {
    disk.create_dir(dir()).expect(NO_FAULT);
    let mut writer = SnapshotWriter::new(through_seq, b"head");
    for (keys, payload) in entries {
        writer.entry(keys, payload.as_bytes());
    }
    // Ids are any bytes, also those that begin a record.
    let staged = writer.stage(disk, dir(), &[frame::MAGIC, frame::MAGIC].concat());
    staged.and_then(coord_store::Staged::publish).expect(NO_FAULT);
}

#[test]
fn g2_g10_a_snapshot_reads_back_as_it_was_written() {
    let disk = FakeDisk::new();
    assert!(Snapshot::load(&disk, dir()).unwrap().is_none());
    snapshot(&disk, 7, &[(&["a"], "one"), (&[], "two")]);
    let read = Snapshot::load(&disk, dir()).unwrap().unwrap();
    assert_eq!((read.through_seq, read.header()), (7, &b"head"[..]));
    assert_eq!(read.entries().collect::<Vec<_>>(), [b"one", b"two"]);
    assert_eq!(read.blob(), [frame::MAGIC, frame::MAGIC].concat());
    assert!(read.report.is_empty());
}

#[test]
fn any_flipped_bit_of_a_snapshot_brings_the_old_one_and_pushes_it_not_out() {
    let disk = FakeDisk::new();
    snapshot(&disk, 1, &[(&["a"], "one")]);
    snapshot(&disk, 2, &[(&["a"], "one"), (&["b"], "two")]);
    let current = dir().join("snapshot");
    let n = disk.read(&current, u64::MAX).unwrap().len();
    for at in 0..n {
        let disk = disk.after_crash(Damage::Dropped);
        flip(&disk, &current, at);
        let read = Snapshot::load(&disk, dir()).unwrap().unwrap();
        assert_eq!(read.through_seq, 1, "byte {at}");
        assert!(matches!(&read.report[..], [Finding::OldSnapshot { .. }]));
        let staged = SnapshotWriter::new(3, b"head").stage(&disk, dir(), b"").unwrap();
        let read = Snapshot::load(&disk, dir()).unwrap().unwrap();
        assert_eq!(read.through_seq, 1, "still the only whole one");
        staged.publish().unwrap();
        assert_eq!(Snapshot::load(&disk, dir()).unwrap().unwrap().through_seq, 3);
    }
}

#[test]
fn snapshots_by_cases() {
    let disk = FakeDisk::new();
    snapshot(&disk, 1, &[]);
    disk.write_synced(&dir().join("snapshot.tmp"), b"half");
    assert_eq!(Snapshot::load(&disk, dir()).unwrap().unwrap().through_seq, 1, "tmp is not read");
    snapshot(&disk, 2, &[]);
    disk.remove(&dir().join("snapshot")).unwrap();
    assert_eq!(
        Snapshot::load(&disk, dir()).unwrap().unwrap().through_seq,
        1,
        "between two renames"
    );
    assert_eq!(SnapshotIndex::open(&disk, dir()).unwrap().unwrap().through_seq, 1);
    disk.write_synced(&dir().join("snapshot.old"), b"");
    assert!(matches!(Snapshot::load(&disk, dir()), Err(SnapshotError::Damaged { .. })));
    assert!(matches!(SnapshotIndex::open(&disk, dir()), Err(SnapshotError::Damaged { .. })));
}

#[test]
fn h29_a_snapshot_that_finds_no_room_leaves_the_last_one_alone() {
    let disk = FakeDisk::new();
    snapshot(&disk, 1, &[]);
    disk.set_capacity(Some(disk.used() + 20));
    assert!(SnapshotWriter::new(2, b"head").stage(&disk, dir(), b"").is_err());
    assert_eq!(Snapshot::load(&disk, dir()).unwrap().unwrap().through_seq, 1);
    assert!(!disk.list(dir()).unwrap().contains(&"snapshot.tmp".to_owned()));
}

#[test]
fn an_entry_is_found_by_any_prefix_of_its_keys_with_few_reads() {
    for n in [1_u64, 10, 1000, 10_000] {
        let disk = FakeDisk::new();
        disk.create_dir(dir()).unwrap();
        let mut writer = SnapshotWriter::new(9, b"head");
        for id in 0..n {
            let key = format!("{:08x}-{id:05}", id.wrapping_mul(2_654_435_761) & 0xFFFF_FFFF);
            let previous = format!("previous-{id:05}");
            writer.entry(&[&key, &previous], format!("entry {id}").as_bytes());
        }
        writer.stage(&disk, dir(), b"").unwrap().publish().unwrap();
        let before = disk.operations();
        let index = SnapshotIndex::open(&disk, dir()).unwrap().unwrap();
        assert_eq!(
            index.find(&format!("previous-{:05}", n - 1)).unwrap(),
            [format!("entry {}", n - 1).as_bytes()]
        );
        let reads = disk.operations() - before;
        assert!(reads <= 8, "{reads} reads for {n} entries");
        assert_eq!(index.header().unwrap(), b"head");
        assert!(index.find("nobody").unwrap().is_empty());
        let many = index.find("previous-0000").unwrap().len();
        assert_eq!(many as u64, n.min(10), "a short prefix finds all, each once");
        assert_eq!(index.find("").unwrap().len() as u64, n);
    }
}

#[test]
fn h29_the_reserve_comes_and_goes() {
    let disk = FakeDisk::new();
    disk.create_dir(dir()).unwrap();
    disk.set_capacity(Some(300_000));
    let reserve = Reserve::new(disk.clone(), dir(), 100_000);
    assert!(!reserve.release().unwrap());
    assert!(reserve.restore().unwrap() && reserve.is_there());
    assert_eq!(disk.used(), 100_000);
    assert!(reserve.release().unwrap());
    disk.set_capacity(Some(199_999));
    assert!(!reserve.restore().unwrap(), "it would be needed again at once");
    assert_eq!(disk.used(), 0);
}

fn spool_file(records: &[&str], folded: u64) -> Vec<u8> {
    let mut bytes = vec![0; spool::HEADER_BYTES];
    bytes[..8].copy_from_slice(&spool::HEADER_MAGIC);
    bytes[8..16].copy_from_slice(&folded.to_le_bytes());
    bytes[16..24].copy_from_slice(&(records.len() as u64).to_le_bytes());
    for record in records {
        frame::push(&mut bytes, record.as_bytes());
    }
    bytes
}

fn drained(spool: &Spool<FakeDisk>, now: u64) -> Vec<Drained> {
    spool.drained(now).expect(NO_FAULT).map(|drained| drained.expect(NO_FAULT)).collect()
}

#[test]
fn g1_the_spool_is_taken_in_and_only_then_removed() {
    let disk = FakeDisk::new();
    let spool = Spool::new(disk.clone(), dir());
    assert_eq!((spool.take().unwrap(), spool.pending().unwrap()), (Taken::Empty, 0));
    disk.write_synced(&dir().join("current"), &spool_file(&[], 0));
    assert_eq!(spool.take().unwrap(), Taken::Empty, "an empty one is left alone");
    for records in [&["a", "b"][..], &["c"]] {
        disk.write_synced(&dir().join("current"), &spool_file(records, 5));
        assert_eq!(spool.take().unwrap(), Taken::Taken);
    }
    disk.write_synced(&dir().join("malformed"), &spool_file(&["x"], 0));
    assert_eq!((spool.pending().unwrap(), spool.malformed().unwrap()), (3, 1));
    assert_eq!(spool.crashes().unwrap(), 0);
    let files = drained(&spool, 0);
    let records: Vec<&[u8]> = files.iter().flat_map(Drained::records).collect();
    assert_eq!(records, [b"a", b"b", b"c"]);
    assert_eq!(files.iter().map(|file| file.folded).sum::<u64>(), 10);
    for file in &files {
        spool.remove(&file.file).unwrap();
    }
    assert_eq!((drained(&spool, 0).len(), spool.pending().unwrap()), (0, 0));
}

#[test]
fn a_hook_with_the_lock_in_its_hands_is_not_waited_for() {
    let disk = FakeDisk::new();
    let current = dir().join("current");
    disk.write_synced(&current, &spool_file(&["a"], 0));
    let hook = disk.open_append(&current).unwrap();
    assert!(hook.try_lock().unwrap());
    let spool = Spool::new(disk, dir());
    assert_eq!(spool.take().unwrap(), Taken::Busy);
    drop(hook);
    assert_eq!(spool.take().unwrap(), Taken::Taken);
}

#[test]
fn g1_a_damaged_spool_file_gives_what_is_whole() {
    let disk = FakeDisk::new();
    let mut bytes = spool_file(&["a", "b", "c"], 0);
    let at = spool::HEADER_BYTES + 2 * frame::HEAD_BYTES + 1;
    bytes[at] ^= 1;
    bytes.extend_from_slice(&frame::MAGIC);
    disk.write_synced(&dir().join("current"), &bytes);
    let spool = Spool::new(disk.clone(), dir());
    assert_eq!(spool.take().unwrap(), Taken::Taken);
    let files = drained(&spool, 0);
    assert_eq!(files[0].records().collect::<Vec<_>>(), [b"a", b"c"]);
    assert_eq!(files[0].findings.len(), 2);
    let zeros = vec![0; spool::HEADER_BYTES];
    disk.write_synced(&dir().join("current"), &zeros);
    assert_eq!(spool.take().unwrap(), Taken::Taken, "hooks could not use it");
    assert_eq!(drained(&spool, 0)[1].records().len(), 0);
}

#[test]
fn an_unfinished_solo_file_is_left_to_its_hook_for_a_day() {
    let disk = FakeDisk::new();
    let mut whole = Vec::new();
    frame::push(&mut whole, b"solo");
    disk.write_synced(&dir().join("solo-1"), &whole);
    disk.write_synced(&dir().join("solo-2"), &whole[..5]);
    let spool = Spool::new(disk.clone(), dir());
    let day = 24 * 3_600_000;
    assert_eq!(drained(&spool, day).len(), 1);
    assert!(disk.list(dir()).unwrap().contains(&"solo-2".to_owned()));
    assert_eq!(drained(&spool, day + 1).len(), 1);
    assert!(!disk.list(dir()).unwrap().contains(&"solo-2".to_owned()));
}
