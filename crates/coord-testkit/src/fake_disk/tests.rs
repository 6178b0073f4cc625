//! The fault model, case by case.

use super::*;

const FILE: &str = "/d/file";

fn disk() -> (FakeDisk, FakeFile) {
    let disk = FakeDisk::new();
    disk.create_dir(Path::new("/d")).unwrap();
    let mut file = disk.open_append(Path::new(FILE)).unwrap();
    file.append(b"synced").unwrap();
    file.sync().unwrap();
    (disk, file)
}

fn content(disk: &FakeDisk, damage: Damage) -> Option<Vec<u8>> {
    disk.after_crash(damage).read(Path::new(FILE), u64::MAX).ok()
}

#[test]
fn a_name_lasts_after_its_directory_and_data_after_its_file_is_synced() {
    let (disk, mut file) = disk();
    assert_eq!(content(&disk, Damage::Dropped), None);
    disk.sync_dir(Path::new("/d")).unwrap();
    file.append(b", not synced").unwrap();
    assert_eq!(content(&disk, Damage::Dropped).unwrap(), b"synced");
    assert_eq!(content(&disk, Damage::Kept).unwrap(), b"synced, not synced");
    let torn: BTreeSet<Vec<u8>> =
        (0..50).filter_map(|seed| content(&disk, Damage::Torn(seed))).collect();
    assert!(torn.iter().all(|bytes| bytes.starts_with(b"synced")));
    assert!(3 < torn.len(), "{torn:?}");
}

#[test]
fn a_failed_sync_loses_its_data_even_to_a_later_sync() {
    let (disk, mut file) = disk();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.append(b"!").unwrap();
    disk.arm(Fault::Error { at: 1, kind: io::ErrorKind::Other });
    assert!(file.sync().is_err());
    file.sync().unwrap();
    assert_eq!(disk.read(Path::new(FILE), u64::MAX).unwrap(), b"synced!", "it stays readable");
    assert_eq!(content(&disk, Damage::Dropped).unwrap(), b"synced\0");
}

#[test]
fn what_is_cut_off_is_back_unless_the_cut_was_synced() {
    let (disk, mut file) = disk();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.truncate(3).unwrap();
    file.append(b"NEW").unwrap();
    file.truncate(5).unwrap();
    assert_eq!(content(&disk, Damage::Kept).unwrap(), b"synNE");
    assert_eq!(content(&disk, Damage::Dropped).unwrap(), b"synced");
    file.sync().unwrap();
    assert_eq!(content(&disk, Damage::Dropped).unwrap(), b"synNE");
}

#[test]
fn a_crash_in_place_leaves_what_a_copy_shows() {
    for damage in [Damage::Kept, Damage::Dropped, Damage::Torn(1), Damage::Torn(2)] {
        let (disk, mut file) = disk();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.append(b", and much more that is not synced").unwrap();
        disk.rename(Path::new(FILE), Path::new("/d/other")).unwrap();
        let copy = disk.after_crash(damage);
        drop(file);
        disk.crash(damage);
        for path in [FILE, "/d/other"] {
            assert_eq!(
                disk.read(Path::new(path), u64::MAX).ok(),
                copy.read(Path::new(path), u64::MAX).ok()
            );
        }
        assert_eq!(content(&disk, Damage::Dropped), content(&copy, Damage::Kept));
    }
}

#[test]
fn names_that_nobody_syncs_are_written_back_and_nothing_piles_up() {
    let (disk, file) = disk();
    for n in 0..10 * WAITING_MAX {
        let path = format!("/d/{n}");
        drop(disk.open_append(Path::new(&path)).unwrap());
        disk.remove(Path::new(&path)).unwrap();
    }
    assert_eq!(disk.world().changes.len(), WAITING_MAX);
    assert_eq!(content(&disk, Damage::Dropped).unwrap(), b"synced");
    assert_eq!(disk.after_crash(Damage::Dropped).list(Path::new("/d")).unwrap().len(), 1);
    assert_eq!(Arc::strong_count(&file.file), 3, "by two names and a program");
}

#[test]
fn a_full_disk_writes_what_fits_and_a_power_cut_ends_everything() {
    let (disk, mut file) = disk();
    disk.set_capacity(Some(8));
    assert_eq!(file.append(b"abc").unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 8);
    disk.arm(Fault::PowerCut { at: 2 });
    assert!(file.sync().is_ok() && file.sync().is_err() && disk.list(Path::new("/d")).is_err());
}
