//! Keeps the store durable: decides when the journal is synced and when a snapshot is written, and does
//! what follows once either is on disk (G1).

use coord_model::{Event, Now};
use coord_wire::limits::SYNC_WITHIN_MS;

use crate::background::{Done, Job, SnapshotJob};
use crate::conditions::Condition;
use crate::coordinator::Coordinator;
use crate::world::World;

/// Longest time, in nanoseconds, until a sync of a record begins: half of what G1 allows, the other half
/// being for the sync itself.
const SYNC_AFTER_NS: u64 = SYNC_WITHIN_MS * 1_000_000 / 2;

/// Delay in nanoseconds after which a failed snapshot is tried again; it doubles with each failure.
pub(crate) const SNAPSHOT_AGAIN_NS: u64 = 30_000_000_000;
/// Longest delay between two attempts, in nanoseconds.
const SNAPSHOT_LATEST_NS: u64 = 600_000_000_000;

impl<W: World> Coordinator<W> {
    /// When the next sync is due, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn sync_at(&self) -> Option<u64> {
        // While a sync is in progress, the next one waits for its end, not for a time.
        let since = self.unsynced_since.filter(|_| !self.sync_out);
        since.map(|since| since.saturating_add(SYNC_AFTER_NS))
    }

    /// Since when records wait for a sync, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn unsynced_since(&self) -> Option<u64> {
        self.unsynced_since
    }

    /// Starts a sync if one is due, or if somebody waits for one.
    pub(crate) fn sync_if_due(&mut self, is_awaited: bool, now: Now) {
        self.act_on_synced(now);
        if self.counted_at().is_some_and(|at| at <= now.mono_ns) {
            self.record_counted(now);
        }
        let Some(since) = self.unsynced_since else { return };
        let is_awaited = is_awaited || !self.acts.is_empty() || !self.leaving.is_empty();
        if !is_awaited && now.mono_ns < since.saturating_add(SYNC_AFTER_NS) {
            return;
        }
        self.begin_sync(now);
    }

    fn begin_sync(&mut self, now: Now) {
        if self.sync_out {
            return;
        }
        // Without a job, nothing is left to sync, or the journal is read-only.
        self.unsynced_since = None;
        if let Some(job) = self.engine.journal_mut().unsynced() {
            self.sync_out = true;
            self.timings.sync_began_ns = now.mono_ns;
            self.world.give(Job::Sync(job.behind(&mut self.bodies)));
        }
    }

    /// Processes the results of the disk, the observers and the executor.
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
        while let Some(told) = self.world.take_told() {
            self.on_told(told, now);
        }
        while let Some(verified) = self.world.take_verified() {
            self.on_verified(verified, now);
        }
    }

    fn on_done(&mut self, done: Done<W::Disk>, now: Now) {
        match done {
            Done::Synced(mut synced) => {
                self.sync_out = false;
                self.timings.end_sync(now);
                self.bodies.owe(std::mem::take(&mut synced.bodies));
                let why = synced.result.as_ref().err().map(ToString::to_string);
                if let Err(error) = self.engine.journal_mut().synced(synced) {
                    self.note_unsynced(&why.unwrap_or_else(|| error.to_string()), now);
                    return;
                }
                self.act_on_synced(now);
                self.remove_drained();
                self.remove_bodies();
                self.begin_snapshot_if_due(now);
            }
            Done::Reopened(reopened) => self.on_reopened(reopened, now),
            Done::Snapshot(result) => {
                self.snapshot_out = false;
                match result {
                    Ok(through_seq) => {
                        self.engine.snapshot_taken(through_seq);
                        self.snapshot_delay_ns = SNAPSHOT_AGAIN_NS;
                        self.conditions.clear(Condition::Snapshot);
                        self.prune(through_seq, now);
                    }
                    Err(error) => self.note_no_snapshot(&error, now),
                }
            }
        }
    }

    fn begin_snapshot_if_due(&mut self, now: Now) {
        let is_due = self.engine.wants_snapshot() && self.snapshot_from_ns <= now.mono_ns;
        if !is_due || self.snapshot_out {
            return;
        }
        self.begin_sync(now);
        match self.snapshot_job() {
            Ok(job) => {
                self.snapshot_out = true;
                self.world.give(Job::Snapshot(job));
            }
            Err(error) => self.note_no_snapshot(&error.to_string(), now),
        }
    }

    /// Handles a snapshot that was not written: the journal's tail grows, and the snapshot is tried
    /// again later.
    fn note_no_snapshot(&mut self, why: &str, now: Now) {
        tracing::error!(why, "snapshot not written");
        let text = format!(
            "the last snapshot could not be written ({why}): until one succeeds, the coordinator starts more slowly; coord retries at least every 10 minutes"
        );
        self.conditions.raise(Condition::Snapshot, text);
        self.snapshot_from_ns = now.mono_ns.saturating_add(self.snapshot_delay_ns);
        self.snapshot_delay_ns = self.snapshot_delay_ns.saturating_mul(2).min(SNAPSHOT_LATEST_NS);
    }

    fn snapshot_job(&mut self) -> serde_json::Result<Box<SnapshotJob<W::Disk>>> {
        let through_seq = self.engine.journal().next_seq().saturating_sub(1);
        let (writer, ids) = self.engine.snapshot()?;
        Ok(Box::new(SnapshotJob {
            disk: self.disk.clone(),
            dir: self.paths.state.clone(),
            lock: self.paths.state_lock(),
            writer,
            ids,
            through_seq,
        }))
    }

    fn prune(&mut self, through_seq: u64, now: Now) {
        // If a reader holds the lock, the next snapshot prunes.
        let Ok(_held) = coord_store::StateLock::exclusive(&self.disk, &self.paths.state_lock())
        else {
            return;
        };
        let keep = coord_store::journal::Retention {
            age_ms_max: self.config.store.journal_kept.0,
            ..coord_store::journal::Retention::default()
        };
        if let Err(error) = self.engine.journal().prune(through_seq, now.wall_ms, keep) {
            tracing::warn!(%error, "journal not pruned");
        }
    }

    /// Makes everything durable and writes a last snapshot, so that the next start needs no replay.
    ///
    /// # Errors
    /// The disk refused; what is already in the journal stays there.
    pub fn finish(mut self, now: Now) -> anyhow::Result<()> {
        // H-10: what stops this coordinator may also stop the sessions.
        self.look_for_shutdown(now);
        self.record_counted(now);
        if self.engine.has_tail() && self.is_time_recorded() {
            // Records how long the sessions were watched.
            self.record_or_say(&Event::Due, now);
        }
        for done in self.world.finish() {
            match done {
                Done::Synced(mut synced) => {
                    self.bodies.owe(std::mem::take(&mut synced.bodies));
                    say(self.engine.journal_mut().synced(synced));
                }
                Done::Reopened(reopened) => {
                    say(self.engine.journal_mut().reopened(reopened, &mut self.bodies));
                }
                Done::Snapshot(_) => (),
            }
        }
        if let Some(job) = self.engine.journal_mut().unsynced() {
            let mut synced = job.behind(&mut self.bodies).run();
            self.bodies.owe(std::mem::take(&mut synced.bodies));
            say(self.engine.journal_mut().synced(synced));
        }
        // Records that a sync could not save are written once more, here and now.
        if let Some(job) = self.engine.journal_mut().reopen(&mut self.bodies) {
            self.engine.journal_mut().reopened(job.run(), &mut self.bodies)?;
        }
        self.remove_drained();
        self.remove_bodies();
        if self.engine.has_tail()
            && let Ok(job) = self.snapshot_job()
        {
            match crate::background::run(Job::Snapshot(job)) {
                Done::Snapshot(Ok(through_seq)) => {
                    self.prune(through_seq, now);
                    self.engine.journal_mut().close_segment()?;
                }
                Done::Snapshot(Err(error)) => tracing::warn!(error, "no last snapshot"),
                Done::Synced(_) | Done::Reopened(_) => (),
            }
        }
        Ok(())
    }
}

/// Logs a failure that is dealt with later.
fn say(result: Result<(), impl std::fmt::Display>) {
    if let Err(error) = result {
        tracing::warn!(%error, "the journal is not on disk yet");
    }
}
