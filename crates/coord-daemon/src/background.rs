//! The one background thread: it waits for the disk, so that the loop never does.
//!
//! It runs one job after the other in the order in which they were given: a sync of the journal, or
//! a snapshot, whose records were synced by the job before it. Results come back by a channel, and
//! the loop is woken.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use coord_store::{Disk, ReopenJob, Reopened, SnapshotWriter, StateLock, SyncJob, Synced};

use coord_host::worker::{Supervisor, Worker};

/// Something to wait for.
pub enum Job<D: Disk> {
    /// Make the journal durable.
    Sync(SyncJob<D>),
    /// Write and publish a snapshot.
    Snapshot(Box<SnapshotJob<D>>),
    /// Open the journal again after a failed sync.
    Reopen(Box<ReopenJob<D>>),
}

/// A snapshot to write.
pub struct SnapshotJob<D> {
    /// The disk.
    pub(crate) disk: D,
    /// The state directory.
    pub(crate) dir: PathBuf,
    /// The state lock's file.
    pub(crate) lock: PathBuf,
    /// The sessions.
    pub(crate) writer: SnapshotWriter,
    /// The remembered ids.
    pub(crate) ids: Vec<u8>,
    /// The last record it covers.
    pub(crate) through_seq: u64,
}

/// What became of a job.
pub enum Done<D: Disk> {
    /// The result for the journal.
    Synced(Synced),
    /// A snapshot is in place up to this record, or why it is not.
    Snapshot(Result<u64, String>),
    /// The result for the journal.
    Reopened(Reopened<D>),
}

/// The thread's two ends.
pub(crate) struct Background<D: Disk> {
    /// Taken when the thread is to end.
    jobs: Option<Sender<Job<D>>>,
    worker: Worker,
    done: Receiver<Done<D>>,
}

impl<D: Disk> Background<D> {
    /// Starts the thread; the loop is woken when a result is there.
    pub(crate) fn start(supervisor: &Supervisor) -> std::io::Result<Self> {
        let (jobs, todo) = channel::<Job<D>>();
        let (results, done) = channel();
        let worker = supervisor.start("coord-disk", move |waker| {
            for job in todo {
                if results.send(run(job)).is_err() || waker.wake().is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), worker, done })
    }

    /// Gives a job. It is lost only when the thread is gone, which ends the coordinator.
    pub(crate) fn give(&self, job: Job<D>) {
        if self.jobs.as_ref().is_none_or(|jobs| jobs.send(job).is_err()) {
            tracing::error!("the disk thread is gone");
        }
    }

    /// Waits until all jobs are done; their results.
    pub(crate) fn finish(&mut self) -> Vec<Done<D>> {
        self.worker.expect_end();
        self.jobs = None;
        self.worker.join();
        self.done.try_iter().collect()
    }

    /// A result, if one is there.
    pub(crate) fn take(&self) -> Option<Done<D>> {
        self.done.try_recv().ok()
    }
}

impl<D: Disk> Drop for Background<D> {
    /// Ends the thread, after the jobs it was given.
    fn drop(&mut self) {
        self.worker.expect_end();
        self.jobs = None;
    }
}

/// Runs one job to its end.
pub fn run<D: Disk>(job: Job<D>) -> Done<D> {
    match job {
        Job::Sync(sync) => Done::Synced(sync.run()),
        Job::Reopen(reopen) => Done::Reopened(reopen.run()),
        Job::Snapshot(job) => {
            let through_seq = job.through_seq;
            Done::Snapshot(
                publish(*job).map(|()| through_seq).map_err(|error| format!("{error:#}")),
            )
        }
    }
}

fn publish<D: Disk>(job: SnapshotJob<D>) -> anyhow::Result<()> {
    let staged = job.writer.stage(&job.disk, &job.dir, &job.ids)?;
    let _held = StateLock::exclusive(&job.disk, &job.lock)?;
    staged.publish()?;
    Ok(())
}
