//! Reopening a journal whose sync failed, beside the running coordinator (G1, H-52).
//!
//! After a failed sync, the kernel counts the segment's pages as written although they may not be
//! on disk, and no later sync of that file would write them. So the last segment is read back, and
//! checked to contain every record that was appended. It is written to a new file, synced, put in
//! place, and read once more; then the next segment begins. Only after all of that, the journal
//! accepts records again, and what it contains is durable. A step that fails changes nothing that a
//! later attempt, or the next start, cannot handle: until the end, `sync-failed` stays.

use super::{
    Journal, SYNC_FAILED, Syncer, begin, error::JournalError, note_failed_sync, on, replace,
};
use crate::bodies::{Bodies, BodySync};
use crate::disk::{Disk, DiskFile};
use crate::segment::{Segment, file_name};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A job that opens the journal again. It waits for the disk, and may run on any thread.
#[derive(Debug)]
#[must_use = "the journal makes no second job before this one reports"]
pub struct ReopenJob<D: Disk> {
    bodies: Option<BodySync<D>>,
    disk: D,
    dir: PathBuf,
    path: PathBuf,
    first_seq: u64,
    next_seq: u64,
    len: u64,
}

/// The result of reopening, for [`Journal::reopened`].
#[derive(Debug)]
#[must_use = "the journal must learn of it"]
pub struct Reopened<D: Disk> {
    result: Result<Begun<D::File>, JournalError>,
    /// Texts that are still not durable.
    bodies: Vec<PathBuf>,
}

/// The next segment.
#[derive(Debug)]
struct Begun<F> {
    path: PathBuf,
    file: F,
    for_sync: Arc<Syncer<F>>,
    len: u64,
}

impl<D: Disk> Journal<D> {
    /// A job that opens a read-only journal again; none if it accepts records, or while a job is in
    /// progress.
    pub fn reopen(&mut self, bodies: &mut Bodies<D>) -> Option<ReopenJob<D>> {
        if !self.read_only || self.job_out {
            return None;
        }
        self.job_out = true;
        Some(ReopenJob {
            bodies: bodies.unsynced().map(BodySync::anew),
            disk: self.disk.clone(),
            dir: self.dir.clone(),
            path: self.path.clone(),
            first_seq: self.first_seq,
            next_seq: self.next_seq,
            len: self.len,
        })
    }

    /// Processes the result of a job. After a success the journal accepts records again, and all
    /// records that were appended before are durable.
    ///
    /// # Errors
    /// The job failed; the journal stays read-only, and reopening may be attempted again.
    pub fn reopened(
        &mut self,
        reopened: Reopened<D>,
        bodies: &mut Bodies<D>,
    ) -> Result<(), JournalError> {
        self.job_out = false;
        bodies.owe(reopened.bodies);
        let Begun { path, file, for_sync, len } = reopened.result?;
        (self.path, self.file, self.for_sync, self.len) = (path, file, for_sync, len);
        self.first_seq = self.next_seq;
        self.synced_through = self.next_seq - 1;
        self.mark_due = Some(len);
        self.must_roll = false;
        self.read_only = false;
        Ok(())
    }
}

impl<D: Disk> ReopenJob<D> {
    /// Waits for the disk. The result is for [`Journal::reopened`].
    pub fn run(self) -> Reopened<D> {
        let texts = self.bodies.as_ref().map_or(Ok(()), BodySync::run);
        match texts {
            Ok(()) => Reopened { result: self.open(), bodies: Vec::new() },
            Err(source) => Reopened {
                result: Err(on(&self.dir, "sync texts beside")(source)),
                bodies: self.bodies.map_or_else(Vec::new, BodySync::into_paths),
            },
        }
    }

    fn open(&self) -> Result<Begun<D::File>, JournalError> {
        let Self { disk, dir, path, .. } = self;
        if self.first_seq < self.next_seq {
            let segment = self.read()?;
            replace(disk, dir, path, &segment.bytes)?;
            self.read()?;
        }
        let next = dir.join(file_name(self.next_seq));
        let file = begin(disk, &next, self.next_seq).map_err(on(&next, "begin"))?;
        let synced = file.sync().and_then(|()| disk.sync_dir(dir));
        synced.inspect_err(|_| note_failed_sync(disk, dir)).map_err(on(&next, "sync"))?;
        let flag = dir.join(SYNC_FAILED);
        match disk.remove(&flag) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(on(&flag, "remove")(error));
            }
            Ok(()) | Err(_) => disk.sync_dir(dir).map_err(on(dir, "sync"))?,
        }
        let len = file.len().map_err(on(&next, "measure"))?;
        let for_sync = Syncer::new(&file).map_err(on(&next, "open"))?;
        Ok(Begun { path: next, file, for_sync, len })
    }

    /// Reads the last segment, with every record that was appended to it and nothing else.
    fn read(&self) -> Result<Segment, JournalError> {
        // It may be followed by a record that could not be cut off again.
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        let bytes = self.disk.read_at(&self.path, 0, len).map_err(on(&self.path, "read"))?;
        let segment = Segment::scan(self.path.clone(), self.first_seq, bytes)?;
        match segment.damage {
            Some(damage) => Err(segment.damaged(damage)),
            None if segment.next_seq() != self.next_seq => Err(JournalError::Gap {
                dir: self.dir.clone(),
                first: segment.next_seq(),
                last: self.next_seq - 1,
            }),
            None => Ok(segment),
        }
    }
}
