//! The one background thread, which waits for the disk so that the loop never does.
//!
//! It runs the jobs in the order in which they were given: a sync of the journal, or a snapshot whose
//! records were synced by the job before it. It returns results through a channel, and wakes the loop.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use coord_store::{Disk, ReopenJob, Reopened, SnapshotWriter, StateLock, SyncJob, Synced};

use coord_host::worker::{Supervisor, Worker};

/// A job for the background thread.
pub enum Job<D: Disk> {
    /// Make the journal durable.
    Sync(SyncJob<D>),
    /// Write and publish a snapshot.
    Snapshot(Box<SnapshotJob<D>>),
    /// Open the journal again after a failed sync.
    Reopen(Box<ReopenJob<D>>),
}

/// A snapshot to write and publish.
pub struct SnapshotJob<D> {
    /// The disk.
    pub(crate) disk: D,
    /// The state directory.
    pub(crate) dir: PathBuf,
    /// The file of the state lock.
    pub(crate) lock: PathBuf,
    /// The serialized sessions and messages.
    pub(crate) writer: SnapshotWriter,
    /// The remembered event ids.
    pub(crate) ids: Vec<u8>,
    /// The last record that the snapshot covers.
    pub(crate) through_seq: u64,
}

/// The result of a job.
pub enum Done<D: Disk> {
    /// The result of a sync, for the journal.
    Synced(Synced),
    /// The last record that the published snapshot covers, or why no snapshot was published.
    Snapshot(Result<u64, String>),
    /// The result of reopening, for the journal.
    Reopened(Reopened<D>),
}

/// The loop's handle of the background thread.
pub(crate) struct Background<D: Disk> {
    /// None once the thread is asked to end.
    jobs: Option<Sender<Job<D>>>,
    worker: Worker,
    done: Receiver<Done<D>>,
}

impl<D: Disk> Background<D> {
    /// Starts the thread, which wakes the loop after each job.
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

    /// Gives a job to the thread. It is lost only if the thread has ended, and then the coordinator ends
    /// too.
    pub(crate) fn give(&self, job: Job<D>) {
        if self.jobs.as_ref().is_none_or(|jobs| jobs.send(job).is_err()) {
            tracing::error!("the disk thread is gone");
        }
    }

    /// Waits until all jobs are done, and returns their results.
    pub(crate) fn finish(&mut self) -> Vec<Done<D>> {
        self.worker.expect_end();
        self.jobs = None;
        self.worker.join();
        self.done.try_iter().collect()
    }

    /// The next result, if there is one.
    pub(crate) fn take(&self) -> Option<Done<D>> {
        self.done.try_recv().ok()
    }
}

impl<D: Disk> Drop for Background<D> {
    /// Asks the thread to end after the jobs that it was given.
    fn drop(&mut self) {
        self.worker.expect_end();
        self.jobs = None;
    }
}

/// Runs one job to completion.
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
