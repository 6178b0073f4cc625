//! Tells the coordinator what other machines need, and the others who tells of whose needs (F-02).

use std::time::Duration;

use coord_fleet::{BEAT_MS, Beat, Engine as _, EngineError, StateKey};
use coord_wire::fleet::{FleetNotices, NoticesAnswer};
use tokio::time::{Instant, sleep, timeout};

use super::{NatsEngine, Shared, boottime_ms, wall_ms};
use crate::nats::Connection;
use crate::source::Source;

/// The coordinator hears of changes this often at most.
const CHANGES_PAUSE: Duration = Duration::from_millis(500);
/// It hears that nothing changed this often: it counts on nobody of whom it hears nothing.
const HEARD_PAUSE: Duration = Duration::from_millis(BEAT_MS);
/// The same while this machine tells for others, so that they soon know what it has told.
const TELLING_PAUSE: Duration = Duration::from_secs(2);

impl<S: Source> Shared<S> {
    /// Tells the coordinator what changed, and puts what it answers.
    pub(super) async fn share_notices(&self, mut engine: NatsEngine, connection: &Connection) {
        let mut heard = FleetNotices::default();
        let mut told_at = None;
        loop {
            let _changed = timeout(CHANGES_PAUSE, self.needs_changed.notified()).await;
            // Before all machines were looked at, nobody is known to be gone.
            if !self.is_whole.get() {
                continue;
            }
            let newest = self.needs.borrow_mut().notices(&self.peers.borrow(), boottime_ms());
            let is_telling = !self.notices.borrow().tells_for.is_empty();
            let pause = if is_telling { TELLING_PAUSE } else { HEARD_PAUSE };
            let is_due = told_at.is_none_or(|at: Instant| pause <= at.elapsed());
            if newest == heard && !is_due {
                continue;
            }
            let Ok(answer) = self.source.borrow_mut().notices(&newest) else {
                // The coordinator is down, or takes long.
                sleep(CHANGES_PAUSE).await;
                continue;
            };
            self.needs.borrow_mut().note_answer(&newest, &answer);
            (heard, told_at) = (newest, Some(Instant::now()));
            {
                let mut status = self.status.borrow_mut();
                status.notifier = answer.notifier;
                status.tells_for.clone_from(&answer.tells_for);
            }
            let is_new = *self.notices.borrow() != answer;
            self.notices.replace(answer);
            if is_new && connection.status().is_up {
                // What cannot be put now goes with the next beat.
                let _later = self.put_beat(&mut engine).await;
            }
        }
    }

    /// Says that this machine is there.
    pub(super) async fn put_beat(&self, engine: &mut NatsEngine) -> Result<(), EngineError> {
        let options = &self.options;
        let machine = options.identity.keys.machine();
        let NoticesAnswer { notifies, notifier, told, .. } = self.notices.borrow().clone();
        let beat = Beat {
            name: options.name.clone(),
            version: options.version.clone(),
            incarnation: options.writer.incarnation.clone(),
            last: self.status.borrow().durable,
            at_ms: wall_ms(),
            notifies,
            notifier,
            told,
        };
        let key = StateKey { machine, session: None };
        engine.put_state(&key, Some(&beat.seal(&options.identity.keys))).await
    }
}
