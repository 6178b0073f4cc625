//! A snapshot: whole, or the one before it is used; a damaged one never pushes a good one out; and
//! a look by key finds frames of the file and nothing else.

use super::frames::{anywhere, repair};
use super::{Target, assert_is_one_line};
use coord_store::{Disk, RealDisk, Snapshot, SnapshotError, SnapshotIndex, SnapshotWriter};
use coord_testkit::FakeDisk;
use std::path::Path;
use std::sync::OnceLock;

pub(super) const TARGET: Target = Target {
    name: "snapshot",
    seeds,
    dictionary: &["{\"store\":1,\"through_seq\":7}", "{\"store\":2}", "through_seq", "CRDSNAP\n"],
    repair: Some(|input| repair(input)),
    run,
};

const DIR: &str = "/state";
/// One input of so many is read from a real file too.
const REAL_OF: u32 = 16;

fn made(n_entries: u64, key_bytes: usize) -> Vec<u8> {
    let disk = FakeDisk::new();
    disk.create_dir(Path::new(DIR)).expect("an empty disk takes a directory");
    let mut writer = SnapshotWriter::new(40 + n_entries, b"{\"header\":1}");
    for n in 0..n_entries {
        let key = format!("{n}{}", "k".repeat(key_bytes));
        writer.entry(&[&key, "all"], format!("{{\"session\":{n}}}").as_bytes());
    }
    publish(&disk, writer, b"ids");
    disk.read(&Path::new(DIR).join("snapshot"), u64::MAX).unwrap_or_default()
}

fn publish(disk: &FakeDisk, writer: SnapshotWriter, blob: &[u8]) {
    let staged = writer.stage(disk, Path::new(DIR), blob).expect("the disk is whole");
    staged.publish().expect("the disk is whole");
}

fn seeds() -> Vec<Vec<u8>> {
    vec![made(0, 1), made(1, 4), made(5, 30), made(30, 500)]
}

fn load(disk: &FakeDisk) -> Result<Option<Snapshot>, SnapshotError> {
    Snapshot::load(disk, Path::new(DIR))
}

fn run(input: &[u8]) -> String {
    static OLD: OnceLock<Vec<u8>> = OnceLock::new();
    let (dir, old) = (Path::new(DIR), OLD.get_or_init(|| made(2, 3)));
    let disk = FakeDisk::new();
    disk.write_synced(&dir.join("snapshot"), input);
    let alone = load(&disk);
    let found = by_key(&disk, dir, input);
    // A directory takes longer than everything else here.
    if coord_wire::frame::crc32_plain(&[input]).is_multiple_of(REAL_OF) {
        real(input);
    }
    disk.write_synced(&dir.join("snapshot.old"), old);
    let outcome = match &alone {
        Ok(None) => panic!("a snapshot that is there counts as none"),
        Ok(Some(whole)) => {
            check_whole(&disk, whole, input);
            format!("{} entries", whole.entries().len().min(40))
        }
        Err(error) => {
            assert_is_one_line(&error.to_string(), 1000);
            if matches!(error, SnapshotError::Newer { .. }) {
                assert!(load(&disk).is_err(), "a newer store is replaced by an older one");
                return format!("newer, {found}");
            }
            let used = load(&disk).expect("the old one is whole").expect("and there");
            assert_eq!((used.through_seq, used.report.len()), (42, 1));
            // The next one goes in, and the good one is still there when that is lost.
            publish(&disk, SnapshotWriter::new(50, b"new"), b"");
            assert_eq!(load(&disk).ok().flatten().map(|new| new.through_seq), Some(50));
            disk.write_synced(&dir.join("snapshot"), b"lost");
            assert_eq!(load(&disk).ok().flatten().map(|old| old.through_seq), Some(42));
            "damaged".to_owned()
        }
    };
    format!("{outcome}, {found}")
}

/// Every entry is a record of the file, in order; written anew it reads the same.
fn check_whole(disk: &FakeDisk, whole: &Snapshot, input: &[u8]) {
    let mut records = anywhere(input, 0).into_iter();
    for entry in whole.entries() {
        assert!(records.any(|record| record == entry), "an entry that is no record of the file");
    }
    let mut writer = SnapshotWriter::new(whole.through_seq, whole.header());
    whole.entries().for_each(|entry| writer.entry(&["key"], entry));
    publish(disk, writer, whole.blob());
    let again = load(disk).expect("what was written reads").expect("and is there");
    assert_eq!(again.header(), whole.header());
    assert_eq!(again.blob(), whole.blob());
    assert!(again.entries().eq(whole.entries()), "entries changed on the way");
    assert_eq!(again.through_seq, whole.through_seq);
}

fn by_key<D: Disk>(disk: &D, dir: &Path, input: &[u8]) -> &'static str {
    let index = match SnapshotIndex::open(disk, dir) {
        Ok(Some(index)) => index,
        Ok(None) => return "no index",
        Err(_) => return "unusable index",
    };
    let records = anywhere(input, 0);
    let mut is_broken = index.header().is_err();
    for prefix in ["", "1", "all", "missing"] {
        match index.find(prefix) {
            Ok(found) => {
                assert!(found.len() <= 100_000, "more entries than the file can hold");
                let is_of_file = |entry: &Vec<u8>| records.contains(&entry.as_slice());
                assert!(records.is_empty() || found.iter().all(is_of_file) || is_nested(input));
            }
            Err(_) => is_broken = true,
        }
    }
    if is_broken { "broken index" } else { "index" }
}

/// A record within a record's payload may be pointed at, too.
fn is_nested(input: &[u8]) -> bool {
    let heads = input.windows(4).filter(|window| *window == coord_wire::frame::MAGIC).count();
    heads != anywhere(input, 0).len()
}

/// The same on a real file: numbers of the file do not become allocations.
fn real(input: &[u8]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("snapshot"), input).expect("a small file");
    by_key(&RealDisk, dir.path(), input);
}
