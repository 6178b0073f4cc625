//! Keeps the store durable: when the journal is flushed, when a snapshot is written, and what follows once
//! either is on disk (G1).

use coord_core::Now;
use coord_wire::journal::Entry;
use coord_wire::limits::SYNC_WITHIN_MS;

use crate::background::{Done, Job, SnapshotJob};
use crate::coordinator::Coordinator;
use crate::world::World;

/// What is synced at the latest (G1), less the time a flush takes.
const SYNC_AFTER_NS: u64 = SYNC_WITHIN_MS * 1_000_000 / 2;

/// A snapshot that failed is tried again after this.
const SNAPSHOT_AGAIN_NS: u64 = 60_000_000_000;
const NO_SNAPSHOT: &str = "snapshot not written";

impl<W: World> Coordinator<W> {
    /// When the next sync is due, CLOCK_MONOTONIC.
    pub(crate) fn sync_at(&self) -> Option<u64> {
        // While a flush is under way the next one waits for its end, not for a time.
        let since = self.unsynced_since.filter(|_| !self.sync_out);
        since.map(|since| since.saturating_add(SYNC_AFTER_NS))
    }

    /// Since when records wait for a sync, CLOCK_MONOTONIC.
    pub(crate) fn unsynced_since(&self) -> Option<u64> {
        self.unsynced_since
    }

    /// Starts a flush if one is due, or if somebody waits for one.
    pub(crate) fn sync_if_due(&mut self, is_awaited: bool, now: Now) {
        self.act_on_synced(now);
        if self.counted_from <= now.mono_ns {
            self.record_counted(now);
        }
        let Some(since) = self.unsynced_since else { return };
        let is_awaited = is_awaited || !self.acts.is_empty() || !self.leaving.is_empty();
        if !is_awaited && now.mono_ns < since.saturating_add(SYNC_AFTER_NS) {
            return;
        }
        self.begin_sync();
    }

    fn begin_sync(&mut self) {
        if self.sync_out {
            return;
        }
        // Without a job there is nothing left to sync, or nothing can be synced any more.
        self.unsynced_since = None;
        if let Some(job) = self.engine.journal_mut().unsynced() {
            self.sync_out = true;
            self.world.give(Job::Sync(job.behind(&mut self.bodies)));
        }
    }

    /// Takes in what disk and looks came to.
    pub fn take_results(&mut self, now: Now) {
        while let Some(done) = self.world.take_done() {
            self.on_done(done, now);
        }
        while let Some(seen) = self.world.take_seen() {
            self.on_seen(seen, now);
        }
        while let Some(reply) = self.world.take_reply() {
            self.on_reply(reply, now);
        }
    }

    fn on_done(&mut self, done: Done, now: Now) {
        match done {
            Done::Synced(synced) => {
                self.sync_out = false;
                if let Err(error) = self.engine.journal_mut().synced(synced) {
                    tracing::error!(%error, "sync failed");
                    self.problems.insert(error.to_string());
                    return;
                }
                self.act_on_synced(now);
                self.remove_drained();
                self.remove_bodies();
                let may_begin = !self.snapshot_out && self.snapshot_from <= now.mono_ns;
                if may_begin && self.engine.wants_snapshot() {
                    self.begin_snapshot();
                }
            }
            Done::Snapshot(result) => {
                self.snapshot_out = false;
                match result {
                    Ok(through_seq) => {
                        self.problems.retain(|problem| !problem.starts_with(NO_SNAPSHOT));
                        self.prune(through_seq, now);
                    }
                    Err(error) => {
                        tracing::error!(error, "snapshot not written");
                        self.problems.insert(format!("{NO_SNAPSHOT}: {error}"));
                        // Its records are to be replayed all the same: it stays due.
                        self.engine.snapshot_failed();
                        self.snapshot_from = now.mono_ns.saturating_add(SNAPSHOT_AGAIN_NS);
                    }
                }
            }
        }
    }

    fn begin_snapshot(&mut self) {
        self.begin_sync();
        if let Some(job) = self.snapshot_job() {
            self.snapshot_out = true;
            self.world.give(Job::Snapshot(job));
        }
    }

    fn snapshot_job(&mut self) -> Option<Box<SnapshotJob<W::Disk>>> {
        let through_seq = self.engine.journal().next_seq().saturating_sub(1);
        match self.engine.snapshot() {
            Ok((writer, ids)) => Some(Box::new(SnapshotJob {
                disk: self.disk.clone(),
                dir: self.paths.state.clone(),
                lock: self.paths.state_lock(),
                writer,
                ids,
                through_seq,
            })),
            Err(error) => {
                self.problems.insert(format!("{NO_SNAPSHOT}: {error}"));
                None
            }
        }
    }

    fn prune(&mut self, through_seq: u64, now: Now) {
        // A reader holds the lock: the next snapshot prunes.
        let Ok(_held) = coord_store::StateLock::exclusive(&self.disk, &self.paths.state_lock())
        else {
            return;
        };
        let keep = coord_store::journal::Retention {
            age_ms_max: self.config.ms("store.journal_kept"),
            ..coord_store::journal::Retention::default()
        };
        if let Err(error) = self.engine.journal().prune(through_seq, now.wall_ms, keep) {
            tracing::warn!(%error, "journal not pruned");
        }
    }

    /// Makes everything durable and writes a last snapshot, so that the next look needs no replay.
    ///
    /// # Errors
    /// The disk refused; what is in the journal stays there.
    pub fn finish(mut self, now: Now) -> anyhow::Result<()> {
        self.record_counted(now);
        if self.engine.has_tail() {
            // How long somebody watched.
            self.record_or_say(&Entry::Due, now);
        }
        for done in self.world.finish() {
            if let Done::Synced(synced) = done {
                self.engine.journal_mut().synced(synced)?;
            }
        }
        if let Some(job) = self.engine.journal_mut().unsynced() {
            self.engine.journal_mut().synced(job.behind(&mut self.bodies).run())?;
        }
        self.remove_drained();
        self.remove_bodies();
        if self.engine.has_tail()
            && let Some(job) = self.snapshot_job()
        {
            match crate::background::run(Job::Snapshot(job)) {
                Done::Snapshot(Ok(through_seq)) => {
                    self.prune(through_seq, now);
                    self.engine.journal_mut().close_segment()?;
                }
                Done::Snapshot(Err(error)) => tracing::warn!(error, "no last snapshot"),
                Done::Synced(_) => (),
            }
        }
        Ok(())
    }
}
