//! The journal: what was accepted, in order, without gaps (G1, G10, H-29).
//!
//! One writer appends records to the last segment ([`crate::segment`] defines the format), with one
//! write per record or batch. A record that cannot be written completely is cut off again, so that
//! nothing of it remains. A sync is a [`SyncJob`], which may run on another thread; what it covered
//! is durable. After a failed sync, nothing is known about the disk, so the journal accepts no
//! more: it stays read-only until it is opened again, by the next start or by a [`ReopenJob`].
//!
//! A full segment is synced before the next one begins, so only the last segment can contain
//! unsynced bytes. Opening finds one of these cases:
//!
//! * No directory, or no segment: the journal begins after the snapshot.
//! * The last segment ends in bytes that are no record, above every mark: a killed writer or a
//!   power loss left them, and no sync had covered them. They are cut off and reported. Complete
//!   records after a hole are kept in `SEQ.cut` for people, since replaying them would leave a gap.
//! * The last segment has no header: it was created and never synced. It is removed.
//! * Bad bytes below a mark, or in any segment but the last: durable records are lost. Refused.
//! * A gap after the snapshot, or segments that overlap: refused. A gap before the snapshot is
//!   harmless: a power loss can bring removed segments back, or take unsynced records that the
//!   snapshot covers. In the latter case, a new segment begins after the snapshot.
//! * A segment of a newer store version: refused.
//! * `sync-failed` exists: an earlier writer's sync failed, and what is read may be in memory only,
//!   from where no later sync writes it. The last segment is copied, synced and replaced by the
//!   copy.
//!
//! After that, the last segment is synced: everything that was loaded is durable. The journal
//! decides neither what a record means, nor when to sync.

mod error;
mod follow;
mod load;
mod reopen;

pub use error::{AppendError, JournalError};
pub use follow::Cursor;
pub use load::{Tail, oldest, read_segments};
pub use reopen::{ReopenJob, Reopened};

use crate::bodies::{Bodies, BodySync};
use crate::disk::{Disk, DiskFile, is_full};
use crate::finding::Finding;
use crate::segment::{self, Segment, file_name};
use coord_model::stamp::WallMs;
use coord_wire::frame;
use coord_wire::limits::{JOURNAL_AGE_MAX, JOURNAL_BYTES_MAX};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Exists after a sync has failed: the page cache may contain more than the disk.
const SYNC_FAILED: &str = "sync-failed";

/// The amount of history that is kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Largest size of all segments together, in bytes.
    pub bytes_max: u64,
    /// Largest age of the last record of a segment, in milliseconds.
    pub age_ms_max: u64,
}

impl Default for Retention {
    fn default() -> Self {
        let age_ms_max = u64::try_from(JOURNAL_AGE_MAX.as_millis()).unwrap_or(u64::MAX);
        Self { bytes_max: JOURNAL_BYTES_MAX, age_ms_max }
    }
}

/// The journal, opened by its only writer.
#[derive(Debug)]
pub struct Journal<D: Disk> {
    disk: D,
    dir: PathBuf,
    segment_bytes_max: u64,
    /// The last segment: its file, a second handle for syncing, its first record, and its length.
    path: PathBuf,
    file: D::File,
    for_sync: Arc<Syncer<D::File>>,
    first_seq: u64,
    len: u64,
    next_seq: u64,
    synced_through: u64,
    /// Synced bytes of the last segment that are not marked yet.
    mark_due: Option<u64>,
    job_out: bool,
    /// Whether creating a new segment failed: the old one accepts no more records.
    must_roll: bool,
    read_only: bool,
    buffer: Vec<u8>,
}

impl<D: Disk> Journal<D> {
    /// Opens the journal in `dir` after the snapshot that covers `from_seq` (0 for none), and
    /// repairs it in the cases above. Segments are closed at `segment_bytes_max`
    /// ([`coord_wire::limits::SEGMENT_BYTES_MAX`]).
    pub fn open(
        disk: D,
        dir: &Path,
        from_seq: u64,
        segment_bytes_max: u64,
    ) -> Result<(Self, Tail), JournalError> {
        disk.create_dir(dir).map_err(on(dir, "make"))?;
        let (mut segments, unbegun) = load::load(&disk, dir, from_seq)?;
        let mut report = Vec::new();
        for segment in unbegun {
            keep_cut(&disk, &segment)?;
            disk.remove(&segment.path).map_err(on(&segment.path, "remove"))?;
            report.push(Finding::UnbegunSegment { file: segment.path });
        }
        if let Some(last) = segments.last_mut() {
            repair(&disk, dir, last, &mut report)?;
        }
        let last_seq = segments.last().map_or(0, |last| last.next_seq() - 1);
        if last_seq < from_seq {
            report.push(Finding::JournalBehindSnapshot { last_seq, through_seq: from_seq });
        }
        let (first_seq, next_seq) = match segments.last() {
            Some(last) if from_seq <= last_seq => (last.first_seq, last.next_seq()),
            Some(_) | None => (from_seq + 1, from_seq + 1),
        };
        let path = dir.join(file_name(first_seq));
        let file = if first_seq == next_seq {
            begin(&disk, &path, first_seq).map_err(on(&path, "begin"))?
        } else {
            disk.open_append(&path).map_err(on(&path, "open"))?
        };
        sync_or_note(&disk, dir, &file, &path)?;
        disk.sync_dir(dir).map_err(on(dir, "sync"))?;
        let len = file.len().map_err(on(&path, "measure"))?;
        let for_sync = Syncer::new(&file).map_err(on(&path, "open"))?;
        let journal = Self {
            disk,
            dir: dir.to_path_buf(),
            segment_bytes_max,
            path,
            file,
            for_sync,
            first_seq,
            len,
            next_seq,
            synced_through: next_seq - 1,
            mark_due: Some(len),
            job_out: false,
            must_roll: false,
            read_only: false,
            buffer: Vec::new(),
        };
        Ok((journal, Tail { segments, from_seq, report }))
    }

    /// The number of the next record, which belongs into its payload.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The last record that is durable.
    pub fn synced_through(&self) -> u64 {
        self.synced_through
    }

    /// Whether no records are accepted until the journal is reopened, here or by the next start.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Writes one record, and returns its number. From now on the record survives the death of this
    /// process, and after the next sync a power loss.
    pub fn append(&mut self, payload: &[u8]) -> Result<u64, AppendError> {
        self.append_batch(&[payload])
    }

    /// Writes records with one write: all of them or, after an error, none. Returns the number of
    /// the first.
    pub fn append_batch(&mut self, payloads: &[&[u8]]) -> Result<u64, AppendError> {
        if self.read_only {
            return Err(self.read_only_error());
        }
        if payloads.iter().any(|payload| payload.starts_with(segment::OWN_PREFIX)) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "a record of the store's own");
            return Err(self.refuse(source));
        }
        let size = payloads.iter().map(|payload| frame::HEAD_BYTES + payload.len()).sum::<usize>();
        let is_used = self.first_seq < self.next_seq;
        if self.must_roll || (is_used && self.segment_bytes_max < self.len + size as u64) {
            self.roll()?;
        }
        self.buffer.clear();
        if let Some(synced) = self.mark_due {
            segment::push_mark(&mut self.buffer, synced);
        }
        for payload in payloads {
            frame::push(&mut self.buffer, payload);
        }
        if let Err(error) = self.file.append(&self.buffer) {
            if self.file.truncate(self.len).is_err() {
                self.read_only = true;
                return Err(self.read_only_error());
            }
            return Err(append_error(&self.path, error));
        }
        self.mark_due = None;
        self.len += self.buffer.len() as u64;
        let first = self.next_seq;
        self.next_seq += payloads.len() as u64;
        Ok(first)
    }

    /// A job that makes everything written so far durable. None if everything is, if another job is
    /// in progress, or if the journal is read-only. Each job must be run, on any thread, and its
    /// result passed to [`Journal::synced`].
    pub fn unsynced(&mut self) -> Option<SyncJob<D>> {
        if self.read_only || self.job_out || self.synced_through + 1 == self.next_seq {
            return None;
        }
        self.job_out = true;
        Some(SyncJob {
            bodies: None,
            disk: self.disk.clone(),
            dir: self.dir.clone(),
            file: Arc::clone(&self.for_sync),
            first_seq: self.first_seq,
            len: self.len,
            through_seq: self.next_seq - 1,
        })
    }

    /// Processes the result of a job. A failure makes the journal read-only until it is reopened.
    pub fn synced(&mut self, synced: Synced) -> Result<(), AppendError> {
        let Synced { first_seq, len, through_seq, result, .. } = synced;
        self.job_out = false;
        self.read_only |= result.is_err();
        if self.read_only {
            return Err(self.read_only_error());
        }
        self.synced_through = self.synced_through.max(through_seq);
        if first_seq == self.first_seq {
            self.mark_due = Some(len);
        }
        Ok(())
    }

    /// The length of all segments, in bytes.
    pub fn bytes(&self) -> Result<u64, JournalError> {
        let firsts = load::first_seqs(&self.disk, &self.dir)?;
        firsts.iter().try_fold(0_u64, |total, first| {
            let path = self.dir.join(file_name(*first));
            let len = self.disk.len(&path).map_err(on(&path, "measure"))?;
            Ok(total.saturating_add(len))
        })
    }

    /// Removes the oldest segments that retention does not keep: only whole segments, never the
    /// last one, and never one with a record that the snapshot (`through_seq`) does not cover. The
    /// caller must hold the exclusive state lock. Returns the number of removed segments.
    pub fn prune(
        &self,
        through_seq: u64,
        now: WallMs,
        keep: Retention,
    ) -> Result<usize, JournalError> {
        let firsts = load::first_seqs(&self.disk, &self.dir)?;
        let paths: Vec<PathBuf> =
            firsts.iter().map(|first| self.dir.join(file_name(*first))).collect();
        let mut total = 0;
        for path in &paths {
            total += self.disk.len(path).map_err(on(path, "measure"))?;
        }
        let mut removed = 0;
        for (path, next_first) in paths.iter().zip(firsts.iter().skip(1)) {
            if through_seq + 1 < *next_first {
                break;
            }
            let modified = self.disk.modified(path).map_err(on(path, "measure"))?;
            if total <= keep.bytes_max && now.saturating_sub(modified) <= keep.age_ms_max {
                break;
            }
            total -= self.disk.len(path).map_err(on(path, "measure"))?;
            self.disk.remove(path).map_err(on(path, "remove"))?;
            removed += 1;
        }
        if 0 < removed {
            self.disk.sync_dir(&self.dir).map_err(on(&self.dir, "sync"))?;
        }
        Ok(removed)
    }

    /// Closes the last segment, if it contains any record. With a snapshot of everything, a reader
    /// then has no records to read: `coord inspect ID` costs the same after any history.
    pub fn close_segment(&mut self) -> Result<(), AppendError> {
        if self.read_only || self.first_seq == self.next_seq { Ok(()) } else { self.roll() }
    }

    /// Closes and syncs the full segment, and begins the next one.
    fn roll(&mut self) -> Result<(), AppendError> {
        if self.for_sync.sync().is_err() {
            note_failed_sync(&self.disk, &self.dir);
            self.read_only = true;
            return Err(self.read_only_error());
        }
        self.synced_through = self.next_seq - 1;
        self.must_roll = true;
        let path = self.dir.join(file_name(self.next_seq));
        let begun = begin(&self.disk, &path, self.next_seq)
            .and_then(|file| Ok((file.len()?, Syncer::new(&file)?, file)));
        let (len, for_sync, file) = begun.map_err(|error| append_error(&path, error))?;
        if self.disk.sync_dir(&self.dir).is_err() {
            note_failed_sync(&self.disk, &self.dir);
            self.read_only = true;
            return Err(self.read_only_error());
        }
        self.must_roll = false;
        (self.path, self.file, self.for_sync, self.len) = (path, file, for_sync, len);
        self.first_seq = self.next_seq;
        self.mark_due = None;
        Ok(())
    }

    /// The error for a record that could not even be serialized.
    pub fn refuse(&self, source: io::Error) -> AppendError {
        AppendError::Failed { file: self.path.clone(), source }
    }

    fn read_only_error(&self) -> AppendError {
        AppendError::ReadOnly { dir: self.dir.clone() }
    }
}

/// A second handle on a segment, for syncing. The kernel reports a failed write-back once, to
/// whoever syncs first. Both the job's thread and the journal must learn of it, so they take turns,
/// and the failure is remembered.
#[derive(Debug)]
struct Syncer<F> {
    file: F,
    failed: Mutex<bool>,
}

impl<F: DiskFile> Syncer<F> {
    fn new(file: &F) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { file: file.try_clone()?, failed: Mutex::new(false) }))
    }

    fn sync(&self) -> io::Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if *failed {
            return Err(io::Error::other("an earlier sync of this file failed"));
        }
        let result = self.file.sync();
        *failed = result.is_err();
        result
    }
}

/// A sync of everything that was written before it was created. It may run on another thread.
#[derive(Debug)]
#[must_use = "the journal makes no second job before this one reports"]
pub struct SyncJob<D: Disk> {
    bodies: Option<BodySync<D>>,
    disk: D,
    dir: PathBuf,
    file: Arc<Syncer<D::File>>,
    first_seq: u64,
    len: u64,
    through_seq: u64,
}

impl<D: Disk> SyncJob<D> {
    /// The same sync, after a sync of the texts to which its records refer.
    pub fn behind(self, bodies: &mut Bodies<D>) -> Self {
        Self { bodies: bodies.unsynced(), ..self }
    }

    /// Waits for the disk. The result is for [`Journal::synced`].
    pub fn run(self) -> Synced {
        let texts = self.bodies.as_ref().map_or(Ok(()), BodySync::run);
        let result = texts.and_then(|()| self.file.sync());
        if result.is_err() {
            note_failed_sync(&self.disk, &self.dir);
        }
        let Self { first_seq, len, through_seq, bodies, .. } = self;
        let bodies = bodies.filter(|_| result.is_err()).map_or_else(Vec::new, BodySync::into_paths);
        Synced { first_seq, len, through_seq, result, bodies }
    }
}

/// The result of a sync.
#[derive(Debug)]
#[must_use = "the journal must learn of it"]
pub struct Synced {
    first_seq: u64,
    len: u64,
    /// The last record that the sync covered.
    pub through_seq: u64,
    /// Whether these records are durable.
    pub result: io::Result<()>,
    /// Texts that may not be durable after a failure, for [`Bodies::owe`].
    pub bodies: Vec<PathBuf>,
}

/// Creates the segment that begins with `first_seq`, or recreates one that a failed attempt left.
fn begin<D: Disk>(disk: &D, path: &Path, first_seq: u64) -> io::Result<D::File> {
    let mut header = Vec::new();
    segment::push_header(&mut header, first_seq);
    let mut file = disk.open_append(path)?;
    file.truncate(0)?;
    file.append(&header)?;
    Ok(file)
}

/// Notes that what can be read may not be on disk. If even that fails, nothing is left to try; the
/// present coordinator becomes read-only nevertheless.
fn note_failed_sync<D: Disk>(disk: &D, dir: &Path) {
    drop(disk.open_append(&dir.join(SYNC_FAILED)));
}

fn sync_or_note<D: Disk>(
    disk: &D,
    dir: &Path,
    file: &D::File,
    path: &Path,
) -> Result<(), JournalError> {
    file.sync().map_err(|source| {
        note_failed_sync(disk, dir);
        on(path, "sync")(source)
    })
}

/// Puts the last segment into a state that can be appended to, and makes it durable.
fn repair<D: Disk>(
    disk: &D,
    dir: &Path,
    last: &mut Segment,
    report: &mut Vec<Finding>,
) -> Result<(), JournalError> {
    let whole = last.whole_len();
    let mut file = disk.open_append(&last.path).map_err(on(&last.path, "open"))?;
    if let Some(damage) = last.damage.take() {
        report.push(Finding::TornTail {
            file: last.path.clone(),
            at: whole as u64,
            bytes: (last.bytes.len() - whole) as u64,
            records: damage.behind,
            kept: if 0 < damage.behind { keep_cut_from(disk, last, whole)? } else { None },
        });
        file.truncate(whole as u64).map_err(on(&last.path, "cut"))?;
        last.bytes.truncate(whole);
    }
    sync_or_note(disk, dir, &file, &last.path)?;
    let flag = dir.join(SYNC_FAILED);
    match disk.len(&flag) {
        Ok(_) => rewrite(disk, dir, last, &flag, report),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(on(&flag, "read")(error)),
    }
}

/// Rewrites the last segment: after a failed sync its pages count as written, and no later sync of
/// the same file would write them.
fn rewrite<D: Disk>(
    disk: &D,
    dir: &Path,
    last: &Segment,
    flag: &Path,
    report: &mut Vec<Finding>,
) -> Result<(), JournalError> {
    replace(disk, dir, &last.path, &last.bytes)?;
    disk.remove(flag).map_err(on(flag, "remove"))?;
    report.push(Finding::Rewritten { file: last.path.clone() });
    Ok(())
}

/// Replaces `path` durably by a new file with `bytes`.
fn replace<D: Disk>(disk: &D, dir: &Path, path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
    let copy = path.with_extension("tmp");
    let mut file = disk.open_append(&copy).map_err(on(&copy, "open"))?;
    let written = file.truncate(0).and_then(|()| file.append(bytes));
    written.and_then(|()| file.sync()).map_err(on(&copy, "write"))?;
    disk.rename(&copy, path).map_err(on(&copy, "rename"))?;
    disk.sync_dir(dir).map_err(on(dir, "sync"))
}

/// Keeps the content of a segment without a header, if it contains complete records.
fn keep_cut<D: Disk>(disk: &D, segment: &Segment) -> Result<(), JournalError> {
    match segment.damage {
        Some(damage) if 0 < damage.behind => keep_cut_from(disk, segment, 0).map(|_| ()),
        Some(_) | None => Ok(()),
    }
}

/// Copies a segment's bytes from `at` on into a file that only people read.
fn keep_cut_from<D: Disk>(
    disk: &D,
    segment: &Segment,
    at: usize,
) -> Result<Option<PathBuf>, JournalError> {
    let path = segment.path.with_extension("cut");
    let mut file = disk.open_append(&path).map_err(on(&path, "open"))?;
    file.append(segment.bytes.get(at..).unwrap_or_default()).map_err(on(&path, "write"))?;
    file.sync().map_err(on(&path, "sync"))?;
    Ok(Some(path))
}

fn append_error(file: &Path, source: io::Error) -> AppendError {
    let file = file.to_path_buf();
    if is_full(&source) { AppendError::Full { file } } else { AppendError::Failed { file, source } }
}

/// Adds the file and the operation to an error.
fn on(path: &Path, operation: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    move |source| JournalError::Io { path: path.to_path_buf(), operation, source }
}
