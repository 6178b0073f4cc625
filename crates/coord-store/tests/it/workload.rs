//! A coordinator's life in small, for crash images and injected faults: appends, batches, syncs
//! that overlap appends, full and closed segments, snapshots staged, published and pruned behind,
//! the reserve given back and made again, a spool that is taken in, and restarts: one finds the half
//! record of a killed writer, two follow each other at once.
//!
//! [`Log`] is the truth outside the disk: what was tried, acknowledged and synced.

use coord_store::journal::Retention;
use coord_store::{
    AppendError, Disk, DiskFile, Journal, Reserve, Snapshot, SnapshotWriter, Spool, Tail, Taken,
};
use coord_testkit::{Damage, FakeDisk};
use coord_wire::{frame, spool};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

pub(crate) const SEGMENT_BYTES: u64 = 300;
pub(crate) const STATE: &str = "/s";
pub(crate) const JOURNAL: &str = "/s/journal";
pub(crate) const SPOOL: &str = "/s/spool";
const RESERVE_BYTES: u64 = 100;
const SPOOLED: [&str; 4] = ["spooled-a", "spooled-b", "spooled-c", "solo"];

/// What the coordinator knows of its records, beside the disk.
#[derive(Default)]
pub(crate) struct Log {
    /// Every text that was ever tried for a number.
    tried: BTreeMap<u64, BTreeSet<String>>,
    /// The text that was acknowledged for it.
    appended: BTreeMap<u64, String>,
    synced_through: u64,
    n: u64,
}

pub(crate) fn path(text: &str) -> &Path {
    Path::new(text)
}

/// A spool file with these records.
pub(crate) fn spool_file(records: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0; spool::HEADER_BYTES];
    bytes[..8].copy_from_slice(&spool::HEADER_MAGIC);
    bytes[16..24].copy_from_slice(&(records.len() as u64).to_le_bytes());
    for record in records {
        frame::push(&mut bytes, record.as_bytes());
    }
    bytes
}

/// A disk whose spool holds [`SPOOLED`].
pub(crate) fn disk() -> FakeDisk {
    let disk = FakeDisk::new();
    disk.create_dir(path(STATE)).expect("no fault is armed");
    disk.write_synced(path("/s/spool/current"), &spool_file(&SPOOLED[..3]));
    let mut solo = Vec::new();
    frame::push(&mut solo, b"solo");
    disk.write_synced(path("/s/spool/solo-1"), &solo);
    disk
}

fn reserve(disk: &FakeDisk) -> Reserve<FakeDisk> {
    Reserve::new(disk.clone(), path(STATE), RESERVE_BYTES)
}

/// What a writer leaves that is killed in the middle of a record.
fn leave_half_a_record(disk: &FakeDisk) {
    let Ok(names) = disk.list(path(JOURNAL)) else { return };
    let is_segment = |name: &&String| path(name).extension().is_some_and(|end| end == "seg");
    let Some(last) = names.iter().rfind(is_segment) else { return };
    let mut framed = Vec::new();
    frame::push(&mut framed, b"a record that was never whole");
    framed.truncate(framed.len() / 2);
    if let Ok(mut file) = disk.open_append(&path(JOURNAL).join(last)) {
        drop(file.append(&framed));
    }
}

/// State as the store gives it: the snapshot's records and those of the tail, by number.
type State = Vec<String>;

fn base(disk: &FakeDisk) -> Result<(u64, State), coord_store::SnapshotError> {
    Ok(match Snapshot::load(disk, path(STATE))? {
        None => (0, Vec::new()),
        Some(snapshot) => {
            let state: State = snapshot.entries().map(text).collect();
            (snapshot.through_seq, state)
        }
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("only text was written")
}

fn extend(state: &mut State, tail: &Tail) {
    for (seq, payload) in tail.records() {
        assert_eq!(seq, state.len() as u64 + 1, "records follow each other without gaps");
        state.push(text(payload));
    }
}

pub(crate) fn open(disk: &FakeDisk) -> Result<(Journal<FakeDisk>, State), Box<dyn Error>> {
    let (through_seq, mut state) = base(disk)?;
    assert_eq!(state.len() as u64, through_seq);
    let (journal, tail) = Journal::open(disk.clone(), path(JOURNAL), through_seq, SEGMENT_BYTES)?;
    extend(&mut state, &tail);
    Ok((journal, state))
}

impl Log {
    /// Appends records with one write; what fails is of a documented kind and not acknowledged.
    fn append(&mut self, journal: &mut Journal<FakeDisk>, what: &[&str]) -> bool {
        let first = journal.next_seq();
        let mut texts = Vec::new();
        for (seq, what) in (first..).zip(what) {
            self.n += 1;
            let text = format!("{{\"seq\":{seq},\"n\":{},\"what\":\"{what}\"}}", self.n);
            self.tried.entry(seq).or_default().insert(text.clone());
            texts.push(text);
        }
        let payloads: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        match journal.append_batch(&payloads) {
            Ok(seq) => {
                assert_eq!(seq, first);
                self.appended.extend((first..).zip(texts));
                true
            }
            Err(AppendError::ReadOnly { .. }) => {
                assert!(journal.is_read_only());
                false
            }
            Err(_) => {
                assert_eq!(journal.next_seq(), first);
                false
            }
        }
    }

    fn sync(&mut self, journal: &mut Journal<FakeDisk>) -> bool {
        let result = journal.unsynced().map(|job| journal.synced(job.run()));
        self.note(journal);
        !matches!(result, Some(Err(_))) && journal.synced_through() + 1 == journal.next_seq()
    }

    fn note(&mut self, journal: &Journal<FakeDisk>) {
        self.synced_through = self.synced_through.max(journal.synced_through());
    }

    fn snapshot(&mut self, disk: &FakeDisk, journal: &mut Journal<FakeDisk>) {
        if !self.sync(journal) {
            return;
        }
        let through_seq = journal.synced_through();
        let mut writer = SnapshotWriter::new(through_seq, b"header");
        for text in self.appended.range(..=through_seq).map(|(_, text)| text) {
            writer.entry(&[text], text.as_bytes());
        }
        let keep = Retention { bytes_max: SEGMENT_BYTES, age_ms_max: u64::MAX };
        let staged = writer.stage(disk, path(STATE), b"blob");
        self.append(journal, &["between staging and publishing"]);
        if staged.is_ok_and(|staged| staged.publish().is_ok()) {
            drop(journal.prune(through_seq, 0, keep));
        }
    }

    fn take_in(&mut self, disk: &FakeDisk, journal: &mut Journal<FakeDisk>) {
        let spool = Spool::new(disk.clone(), path(SPOOL));
        drop(spool.take());
        let Ok(files) = spool.drained(0) else { return };
        for drained in files.flatten() {
            let records: Vec<String> = drained.records().map(text).collect();
            let texts: Vec<&str> = records.iter().map(String::as_str).collect();
            if self.append(journal, &texts) && self.sync(journal) {
                drop(spool.remove(&drained.file));
            }
        }
    }

    /// A coordinator starts; what it finds has all that was acknowledged and is durable now.
    fn start(&mut self, disk: &FakeDisk) -> Option<Journal<FakeDisk>> {
        // An error on opening ends a coordinator; the next one is started.
        let (journal, state) = open(disk).or_else(|_| open(disk)).ok()?;
        let found: BTreeMap<u64, String> = (1..).zip(state).collect();
        for (seq, text) in &self.appended {
            assert_eq!(found.get(seq), Some(text), "record {seq} after a restart");
        }
        self.appended = found;
        self.note(&journal);
        Some(journal)
    }

    /// The whole life. Errors end the step they strike, as in the coordinator.
    pub(crate) fn live(&mut self, disk: &FakeDisk) {
        let Some(mut journal) = self.start(disk) else { return };
        self.work(disk, &mut journal);
        drop(journal);
        leave_half_a_record(disk);
        let Some(mut journal) = self.start(disk) else { return };
        self.append(&mut journal, &["behind the repair"]);
        drop(journal.close_segment());
        self.note(&journal);
        drop(journal);
        drop(self.start(disk));
        let Some(mut journal) = self.start(disk) else { return };
        self.append(&mut journal, &["last, never synced"]);
    }

    fn work(&mut self, disk: &FakeDisk, journal: &mut Journal<FakeDisk>) {
        let reserve = reserve(disk);
        for round in 0..7 {
            let job = journal.unsynced();
            self.append(journal, &["one"]);
            self.append(journal, &["two", "three"]);
            if let Some(job) = job {
                let done = job.run();
                self.append(journal, &["while the job was out"]);
                drop(journal.synced(done));
                self.note(journal);
            }
            match round {
                0 | 6 => drop(reserve.restore()),
                1 => drop(self.sync(journal)),
                2 | 5 => self.snapshot(disk, journal),
                3 => self.take_in(disk, journal),
                _ => drop(reserve.release()),
            }
        }
        drop(journal.close_segment());
        self.note(journal);
        self.append(journal, &["in a segment of its own"]);
    }

    /// What `disk` holds is a prefix of what was tried, with all that was synced, and, where the
    /// power stayed, all that was acknowledged; and it can go on.
    #[track_caller]
    pub(crate) fn check(&mut self, disk: &FakeDisk, damage: Damage, what: &str) {
        let (through_seq, mut read) = base(disk).expect(what);
        extend(&mut read, &Tail::read(disk, path(JOURNAL), through_seq).expect(what));
        let (mut journal, state) = open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(read, state, "{what}: a reader sees what the coordinator then loads");
        for (seq, text) in (1..).zip(&state) {
            assert!(self.tried[&seq].contains(text), "{what}: record {seq} is {text}");
        }
        let sure = match damage {
            Damage::Kept => self.appended.len() as u64,
            Damage::Dropped | Damage::Torn(_) => self.synced_through,
        };
        for (seq, text) in self.appended.range(..=sure) {
            let found = usize::try_from(seq - 1).ok().and_then(|at| state.get(at));
            assert_eq!(found, Some(text), "{what}: record {seq}");
        }
        let spool = Spool::new(disk.clone(), path(SPOOL));
        assert_ne!(spool.take().expect(what), Taken::Busy);
        let mut waiting = BTreeSet::new();
        for drained in spool.drained(0).expect(what) {
            waiting.extend(drained.expect(what).records().map(text));
        }
        for record in SPOOLED {
            let in_journal = state.iter().any(|text| text.contains(record));
            assert!(in_journal || waiting.contains(record), "{what}: {record} is lost");
        }
        assert!(reserve(disk).restore().expect(what) && reserve(disk).is_there(), "{what}");
        let mut next = Self { n: 1_000_000, ..Self::default() };
        assert!(next.append(&mut journal, &["after"]) && next.sync(&mut journal), "{what}");
        let again = open(&disk.after_crash(Damage::Dropped));
        let (_, again) = again.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(again[..state.len()], state, "{what}: what was loaded is durable");
        assert_eq!(again.len(), state.len() + 1, "{what}");
    }
}
