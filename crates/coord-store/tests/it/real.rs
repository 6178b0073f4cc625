//! The store on a real file system, in temporary directories.

use coord_store::{
    AppendError, Disk, DiskFile, Journal, RealDisk, Snapshot, SnapshotIndex, SnapshotWriter, Spool,
    Tail, Taken,
};
use coord_wire::{frame, spool};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

fn texts(tail: &Tail) -> Vec<String> {
    tail.records().map(|(_, payload)| String::from_utf8_lossy(payload).into_owned()).collect()
}

fn state() -> (tempfile::TempDir, std::path::PathBuf) {
    let home = tempfile::tempdir().expect("tests may make temporary directories");
    let state = home.path().join("state");
    RealDisk.create_dir(&state).expect("its parent is ours");
    (home, state)
}

#[test]
fn a_length_beyond_the_file_takes_no_memory() {
    let (_home, state) = state();
    let path = state.join("short");
    std::fs::write(&path, "0123456789").unwrap();
    for (offset, expected) in [(0, "0123456789"), (8, "89"), (10, ""), (11, "")] {
        assert_eq!(RealDisk.read_at(&path, offset, usize::MAX).unwrap(), expected.as_bytes());
    }
}

#[test]
fn g1_journal_snapshot_and_spool_work_together() {
    let (_home, state) = state();
    let journal_dir = state.join("journal");
    let (mut journal, _) = Journal::open(RealDisk, &journal_dir, 0, 200).unwrap();
    for n in 1..=9 {
        journal.append(format!("record {n}").as_bytes()).unwrap();
    }
    let job = journal.unsynced().unwrap();
    let done = std::thread::spawn(move || job.run()).join().unwrap();
    journal.synced(done).unwrap();
    assert_eq!(journal.synced_through(), 9);
    let mut writer = SnapshotWriter::new(5, b"head");
    writer.entry(&["abc"], b"entry");
    writer.stage(&RealDisk, &state, b"blob").unwrap().publish().unwrap();
    drop(journal);
    let snapshot = Snapshot::load(&RealDisk, &state).unwrap().unwrap();
    assert_eq!((snapshot.through_seq, snapshot.blob()), (5, &b"blob"[..]));
    let index = SnapshotIndex::open(&RealDisk, &state).unwrap().unwrap();
    assert_eq!(index.find("ab").unwrap(), [b"entry"]);
    let last = RealDisk.list(&journal_dir).unwrap().pop().unwrap();
    RealDisk.open_append(&journal_dir.join(last)).unwrap().append(b"half").unwrap();
    let (journal, tail) = Journal::open(RealDisk, &journal_dir, 5, 200).unwrap();
    assert_eq!(texts(&tail), ["record 6", "record 7", "record 8", "record 9"]);
    assert_eq!((tail.report.len(), journal.next_seq()), (1, 10));
}

#[test]
fn g1_the_spool_is_taken_under_its_lock() {
    let (_home, state) = state();
    let dir = state.join("spool");
    RealDisk.create_dir(&dir).unwrap();
    let mut bytes = vec![0; spool::HEADER_BYTES];
    bytes[..8].copy_from_slice(&spool::HEADER_MAGIC);
    frame::push(&mut bytes, b"event");
    let mut current = RealDisk.open_append(&dir.join("current")).unwrap();
    current.append(&bytes).unwrap();
    assert!(current.try_lock().unwrap());
    let spool = Spool::new(RealDisk, &dir);
    assert_eq!(spool.take().unwrap(), Taken::Busy);
    drop(current);
    assert_eq!(spool.take().unwrap(), Taken::Taken);
    let drained = spool.drained(0).unwrap().next().unwrap().unwrap();
    assert_eq!(drained.records().collect::<Vec<_>>(), [b"event"]);
    spool.remove(&drained.file).unwrap();
    assert!(RealDisk.list(&dir).unwrap().is_empty());
}

// H-27
#[test]
fn h27_links_fifos_and_directories_are_not_opened() {
    let (_home, state) = state();
    let target = state.join("target");
    std::fs::write(&target, "x").unwrap();
    symlink(&target, state.join("link")).unwrap();
    assert!(RealDisk.read(&state.join("link"), 1 << 20).is_err());
    assert!(RealDisk.open_append(&state.join("link")).is_err());
    assert!(Command::new("mkfifo").arg(state.join("fifo")).status().unwrap().success());
    assert!(RealDisk.read(&state.join("fifo"), 1 << 20).is_err(), "and nothing waits for a writer");
    assert!(RealDisk.read(&state, 1 << 20).is_err());
    symlink(&state, state.with_file_name("state-link")).unwrap();
    assert!(RealDisk.create_dir(&state.with_file_name("state-link")).is_err());
    assert!(RealDisk.read(&state.with_file_name("state-link").join("target"), 1 << 20).is_err());
}

// H-27, H-29: only where the test may give files away.
#[test]
fn h27_what_belongs_to_another_user_is_not_opened() {
    let (_home, state) = state();
    let foreign = state.join("foreign");
    std::fs::write(&foreign, "x").unwrap();
    if std::os::unix::fs::chown(&foreign, Some(65534), None).is_err() {
        return;
    }
    let error = RealDisk.read(&foreign, 1 << 20).unwrap_err();
    assert!(error.to_string().contains("belongs to user 65534"), "{error}");
    std::os::unix::fs::chown(&state, Some(65534), None).unwrap();
    assert!(RealDisk.list(&state).is_err() && RealDisk.create_dir(&state).is_err());
}

/// A file system of a few pages, gone again at the end.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    /// None where the test may not mount.
    fn mount(at: &Path) -> Option<SmallDisk<'_>> {
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"])
            .arg(at)
            .stderr(std::process::Stdio::null())
            .status();
        status.is_ok_and(|status| status.success()).then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "{} stays mounted", self.0.display());
    }
}

// H-29, on a real full disk where the test may mount one; everywhere else on the disk in memory.
#[test]
fn h29_a_real_full_disk_takes_what_fits_and_goes_on_when_there_is_room() {
    let (_home, state) = state();
    let Some(_mounted) = SmallDisk::mount(&state) else { return };
    let ballast = state.join("ballast");
    RealDisk.open_append(&ballast).unwrap().append(&[1; 16 * 1024]).unwrap();
    let dir = state.join("journal");
    let (mut journal, _) = Journal::open(RealDisk, &dir, 0, 8 * 1024).unwrap();
    let record = vec![b'x'; 1000];
    let mut taken = 0;
    let error = loop {
        match journal.append(&record) {
            Ok(seq) => taken = seq,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AppendError::Full { .. }), "{error}");
    assert!(20 < taken);
    assert!(journal.append(&record).is_err(), "still full, not read-only");
    RealDisk.remove(&ballast).unwrap();
    assert_eq!(journal.append(&record).unwrap(), taken + 1);
    let job = journal.unsynced().unwrap();
    journal.synced(job.run()).unwrap();
    drop(journal);
    let (_, tail) = Journal::open(RealDisk, &dir, 0, 8 * 1024).unwrap();
    assert!(tail.records().all(|(_, payload)| payload == record));
    assert_eq!((tail.records().count() as u64, tail.report.len()), (taken + 1, 0));
}

// H-49: a file that somebody lengthened is read as far as hooks write, and then set aside.
#[test]
fn h49_a_sparse_spool_file_is_read_up_to_its_bound_and_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(RealDisk, dir.path());
    let mut bytes = Vec::new();
    frame::push(&mut bytes, b"event");
    let file = dir.path().join("drain-1");
    std::fs::write(&file, &bytes).unwrap();
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(2 << 30).unwrap();
    let (mut records, mut pieces, mut at) = (0, 0, Some(0));
    while let Some(from) = at {
        let piece = spool.piece("drain-1", from).unwrap();
        records += piece.records().len();
        pieces += 1;
        at = piece.next;
    }
    assert_eq!(records, 1);
    assert!(pieces < 300, "{pieces} pieces: 64 MiB and not 2 GiB");
    assert!(spool.set_aside().is_none());
    spool.remove("drain-1").unwrap();
    assert_eq!(spool.set_aside().unwrap().1, 2 << 30);
    assert!(spool.files().unwrap().is_empty());
}

// H-49: the length is looked at before anything is read.
#[test]
fn h49_a_file_over_its_bound_is_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    let error = RealDisk.read(&file, 1 << 20).unwrap_err();
    assert!(coord_store::disk::is_too_long(&error), "{error}");
    assert!(
        error.to_string().ends_with("has 1099511627776 bytes, the limit is 1048576"),
        "{error}"
    );
    let error = coord_store::read_small_file(&file, 1 << 20).unwrap_err();
    assert!(coord_store::disk::is_too_long(&error), "{error}");
    assert!(coord_store::read_small_file("/dev/zero".as_ref(), 1 << 20).is_err(), "endless");
    // A snapshot that is too long is a damaged one; without another one that is refused.
    let snapshot = dir.path().join("snapshot");
    std::fs::rename(&file, &snapshot).unwrap();
    assert!(Snapshot::load(&RealDisk, dir.path()).is_err());
}
