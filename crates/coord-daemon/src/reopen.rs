//! Reopens the journal after a failed sync, with growing delays, until it succeeds (G1, H-52).
//!
//! Until then nothing is recorded and so nothing is acknowledged: hooks spool their events, and no
//! decision is acted on. The spool is drained as soon as the journal accepts records again.

use coord_model::{ActionClass, Event, Now, Outcome};
use coord_store::Reopened;

use crate::background::Job;
use crate::coordinator::Coordinator;
use crate::world::World;

/// Delay before the first attempt, in nanoseconds; each further delay is twice as long.
const FIRST_NS: u64 = 1_000_000_000;
/// Longest delay between two attempts, in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;
/// An attempt that takes longer than this, in nanoseconds, counts as hanging.
const TRY_NS_MAX: u64 = 60_000_000_000;
/// Why actions that were decided before the failed sync are not performed.
const UNSYNCED: &str = "the journal could not be synced";

/// The attempts to reopen the journal after a failed sync.
#[derive(Debug)]
pub(crate) struct Reopening {
    /// When the sync failed, in nanoseconds of CLOCK_MONOTONIC.
    failed_ns: u64,
    why: String,
    tries: u32,
    /// When the next attempt is due, or while one is in progress, when it began; in nanoseconds of
    /// CLOCK_MONOTONIC.
    at_ns: u64,
    is_out: bool,
}

impl Reopening {
    fn new(why: String, now: Now) -> Self {
        let at_ns = now.mono_ns.saturating_add(FIRST_NS);
        Self { failed_ns: now.mono_ns, why, tries: 0, at_ns, is_out: false }
    }

    fn failed(&mut self, why: String, now: Now) {
        self.tries = self.tries.saturating_add(1);
        let delay = FIRST_NS.saturating_mul(1_u64.checked_shl(self.tries).unwrap_or(u64::MAX));
        self.at_ns = now.mono_ns.saturating_add(delay.min(LONGEST_NS));
        self.is_out = false;
        self.why = why;
    }

    /// The condition as it is shown to people.
    pub(crate) fn text(&self) -> String {
        let Self { why, tries, .. } = self;
        format!(
            "the journal could not be synced ({why}): until it is reopened, hooks spool their events and coord acts on nothing; tried {tries} times, retried at least every minute; check the disk"
        )
    }
}

impl<W: World> Coordinator<W> {
    /// When the next attempt to reopen the journal is due, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn reopen_at(&self) -> Option<u64> {
        self.reopening.as_ref().filter(|one| !one.is_out).map(|one| one.at_ns)
    }

    /// Whether the coordinator does what it can to make its records durable: all records up to `owed`
    /// are durable, or the journal is being reopened and the disk answers.
    pub(crate) fn makes_progress(&self, owed: u64, now: Now) -> bool {
        let journal = self.engine.journal();
        match &self.reopening {
            Some(one) if one.is_out => now.mono_ns.saturating_sub(one.at_ns) < TRY_NS_MAX,
            Some(_) => true,
            None => owed <= journal.synced_through() && !journal.is_read_only(),
        }
    }

    /// Notes that the journal is read-only after a failed write or sync.
    pub(crate) fn note_unsynced(&mut self, why: &str, now: Now) {
        if self.reopening.is_none() {
            tracing::error!(why, "the journal could not be synced; it will be reopened");
            self.reopening = Some(Reopening::new(why.to_owned(), now));
        }
    }

    /// Starts an attempt to reopen the journal if one is due.
    pub(crate) fn reopen_if_due(&mut self, now: Now) {
        if self.engine.journal().is_read_only() {
            self.note_unsynced(
                "a record could not be written, or its segment could not be closed",
                now,
            );
        }
        if self.reopen_at().is_none_or(|at| now.mono_ns < at) {
            return;
        }
        // None while the job that failed is still in progress.
        let Some(job) = self.engine.journal_mut().reopen(&mut self.bodies) else { return };
        if let Some(reopening) = &mut self.reopening {
            reopening.is_out = true;
            reopening.at_ns = now.mono_ns;
        }
        self.world.give(Job::Reopen(Box::new(job)));
    }

    /// Handles the result of an attempt to reopen the journal.
    pub(crate) fn on_reopened(&mut self, reopened: Reopened<W::Disk>, now: Now) {
        let result = self.engine.journal_mut().reopened(reopened, &mut self.bodies);
        if let Err(error) = result {
            let why = match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            };
            tracing::warn!(why, "the journal was not reopened");
            if let Some(reopening) = &mut self.reopening {
                reopening.failed(why, now);
            }
            return;
        }
        let Some(Reopening { failed_ns, why, .. }) = self.reopening.take() else { return };
        let after_ms = now.mono_ns.saturating_sub(failed_ns) / 1_000_000;
        tracing::info!(after_ms, "the journal was reopened");
        self.record_or_say(&Event::JournalReopened { why, after_ms }, now);
        self.discard_actions(UNSYNCED, now);
        self.return_leaving(UNSYNCED, now);
        self.remove_drained();
        self.remove_bodies();
        self.take_up_again(now);
    }

    /// Drops all actions that wait for the disk, and reports them as changed, so that the core decides
    /// again on what is true by then. Locks are released nevertheless.
    pub(crate) fn discard_actions(&mut self, what: &str, now: Now) {
        let changed = Outcome::Changed { what: what.to_owned() };
        for (_, action) in std::mem::take(&mut self.acts) {
            match action.class() {
                ActionClass::Once(intent) => self.record_outcome(intent, changed.clone(), now),
                ActionClass::Look | ActionClass::Notice => self.world.act(action),
            }
        }
    }
}
