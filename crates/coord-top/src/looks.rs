//! Decides when the sessions are looked at: after a change, four times a second at most, less often where a look takes
//! long, and again and again while no coordinator answers.

use std::io;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crate::source::Source;
use crate::threads::Threads;

/// Between two looks.
const PACE: Duration = Duration::from_millis(250);
/// A look that takes long is not repeated before this many times as long.
const PACE_FACTOR: u32 = 20;
/// But after this at the latest.
const PACE_MAX: Duration = Duration::from_secs(2);
/// Between two attempts to reach a coordinator.
const AGAIN: Duration = Duration::from_secs(1);

/// When looks happen.
#[derive(Debug)]
pub(crate) struct Looks {
    /// Since when a look runs.
    running_since: Option<Instant>,
    /// When the next one is due.
    next_at: Option<Instant>,
    /// No look before this.
    not_before: Instant,
    /// Tells the thread that watches that its news was looked at.
    again: Option<Sender<()>>,
    /// The coordinator that is watched.
    watched: Option<u32>,
}

impl Looks {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let (next_at, not_before) = (Some(now), now);
        Self { running_since: None, next_at, not_before, again: None, watched: None }
    }

    /// When the next look is due; none while one runs, or if nothing changed.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.next_at.filter(|_| self.running_since.is_none())
    }

    /// Whether a look is to start now.
    pub(crate) fn starts(&mut self, now: Instant) -> bool {
        if self.next_at().is_none_or(|at| now < at) {
            return false;
        }
        (self.next_at, self.running_since) = (None, Some(now));
        // What changes from here on is news again.
        if let Some(again) = &self.again {
            // A thread that ended has said so.
            again.send(()).ok();
        }
        true
    }

    /// Something changed.
    pub(crate) fn changed(&mut self, now: Instant) {
        self.next_at.get_or_insert(now.max(self.not_before));
    }

    /// Changes are not seen any more.
    pub(crate) fn unwatched(&mut self, now: Instant) {
        (self.again, self.watched) = (None, None);
        self.next_at = Some(now + AGAIN);
    }

    /// A look ended. `pid` is the coordinator's, if one answered.
    pub(crate) fn ended(
        &mut self,
        pid: Option<u32>,
        source: &dyn Source,
        threads: &Threads,
    ) -> io::Result<()> {
        let now = Instant::now();
        let since = self.running_since.take().unwrap_or(now);
        let pace = ((now - since) * PACE_FACTOR).clamp(PACE, PACE_MAX);
        self.not_before = now + pace;
        self.next_at = self.next_at.map(|_| self.not_before);
        let Some(pid) = pid else {
            self.unwatched(now);
            return Ok(());
        };
        if self.again.is_some() && self.watched == Some(pid) {
            return Ok(());
        }
        match source.watch(pid) {
            Ok(watch) => {
                (self.again, self.watched) = (Some(threads.watch(watch)?), Some(pid));
                // What changed between the look and the watch is looked at as well.
                self.changed(now);
            }
            Err(_) => self.unwatched(now),
        }
        Ok(())
    }
}
