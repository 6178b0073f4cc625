//! What the player has made known of the sessions, for the list to read.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use coord_top::Watch;
use coord_wire::inspect::Inspect;

/// The views of the sessions that were made known. Readers wait for the next one.
#[derive(Debug)]
pub(super) struct Published {
    /// Whether each view is read, as a list of changes needs it; else the newest alone.
    keeps_all: bool,
    views: Mutex<Views>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Views {
    /// Not read yet.
    unread: VecDeque<Inspect>,
    /// Read last.
    read: Inspect,
    has_ended: bool,
    end_is_read: bool,
}

impl Published {
    pub(super) fn new(keeps_all: bool) -> Self {
        Self { keeps_all, views: Mutex::default(), changed: Condvar::new() }
    }

    /// Makes a view known.
    pub(super) fn publish(&self, answer: Inspect) {
        let mut views = self.lock();
        if !self.keeps_all {
            views.unread.clear();
        }
        views.unread.push_back(answer);
        self.changed.notify_all();
    }

    /// Makes known that no view follows.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// The next view, or again the last one, and whether none follows.
    pub(super) fn next(&self) -> (Inspect, bool) {
        let mut views = self.lock();
        if let Some(next) = views.unread.pop_front() {
            views.read = next;
        }
        let is_last = views.has_ended && views.unread.is_empty();
        views.end_is_read = is_last;
        (views.read.clone(), is_last)
    }

    fn lock(&self) -> MutexGuard<'_, Views> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for views that were not read.
pub(super) struct Changes(pub(super) Arc<Published>);

impl Watch for Changes {
    fn wait(&mut self) -> anyhow::Result<()> {
        let is_read =
            |views: &mut Views| views.unread.is_empty() && views.has_ended == views.end_is_read;
        drop(self.0.changed.wait_while(self.0.lock(), is_read));
        Ok(())
    }
}
