//! What the player has made known of the sessions, for the list to read.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use coord_top::Watch;
use coord_wire::inspect::Inspect;

/// The newest view of the sessions. Readers wait for the next one.
#[derive(Debug, Default)]
pub(super) struct Published {
    newest: Mutex<Newest>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Newest {
    /// Grows with each change.
    number: u64,
    answer: Inspect,
    is_last: bool,
}

impl Published {
    /// Makes a view known.
    pub(super) fn publish(&self, answer: Inspect) {
        self.change(|newest| newest.answer = answer);
    }

    /// Makes known that the newest view is the last one.
    pub(super) fn end(&self) {
        self.change(|newest| newest.is_last = true);
    }

    /// The newest view, and whether it is the last one.
    pub(super) fn newest(&self) -> (Inspect, bool) {
        let newest = self.lock();
        (newest.answer.clone(), newest.is_last)
    }

    fn change(&self, change: impl FnOnce(&mut Newest)) {
        let mut newest = self.lock();
        newest.number += 1;
        change(&mut newest);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for views that were published after it was made.
pub(super) struct Changes {
    published: Arc<Published>,
    seen: u64,
}

impl Changes {
    pub(super) fn of(published: &Arc<Published>) -> Self {
        Self { seen: published.lock().number, published: Arc::clone(published) }
    }
}

impl Watch for Changes {
    fn wait(&mut self) -> anyhow::Result<()> {
        let newest = self.published.lock();
        let wait = self.published.changed.wait_while(newest, |newest| newest.number == self.seen);
        self.seen = wait.unwrap_or_else(PoisonError::into_inner).number;
        Ok(())
    }
}
