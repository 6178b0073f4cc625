//! Tells the coordinator what other machines need, and the others who tells of whose needs (F-02).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use coord_fleet::{BEAT_MS, Beat, Engine as _, EngineError, NeedsHeard, StateKey};
use coord_model::MachineId;
use coord_wire::fleet::{FleetNotices, NoticesAnswer};
use tokio::sync::Notify;
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

/// What the parts of the relay share about notices.
#[derive(Debug)]
pub(super) struct Notices {
    /// What the coordinator is to hear.
    needs: RefCell<NeedsHeard>,
    changed: Notify,
    /// Whether all machines were looked at. Before that, nobody is known to be gone.
    is_whole: Cell<bool>,
    /// What the coordinator lets the other machines know.
    answer: RefCell<NoticesAnswer>,
}

impl Notices {
    pub(super) fn new(own: MachineId) -> Self {
        Self {
            needs: RefCell::new(NeedsHeard::new(own)),
            changed: Notify::new(),
            is_whole: Cell::default(),
            answer: RefCell::default(),
        }
    }

    /// Something of these machines changed; `is_whole` says that they are all that there are.
    pub(super) fn note_changed(&self, machines: &BTreeSet<MachineId>, is_whole: bool) {
        self.needs.borrow_mut().note_changed(machines);
        self.is_whole.set(self.is_whole.get() || is_whole);
        self.changed.notify_one();
    }
}

impl<S: Source> Shared<S> {
    /// Tells the coordinator what changed, and puts what it answers.
    pub(super) async fn share_notices(&self, mut engine: NatsEngine, connection: &Connection) {
        let mut heard = FleetNotices::default();
        let mut told_at = None;
        loop {
            let _changed = timeout(CHANGES_PAUSE, self.notices.changed.notified()).await;
            if !self.notices.is_whole.get() {
                continue;
            }
            let newest =
                self.notices.needs.borrow_mut().notices(&self.peers.borrow(), boottime_ms());
            let is_telling = !self.notices.answer.borrow().tells_for.is_empty();
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
            self.notices.needs.borrow_mut().note_answer(&newest, &answer);
            (heard, told_at) = (newest, Some(Instant::now()));
            {
                let mut status = self.status.borrow_mut();
                status.notifier = answer.notifier;
                status.tells_for.clone_from(&answer.tells_for);
            }
            let is_new = *self.notices.answer.borrow() != answer;
            self.notices.answer.replace(answer);
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
        let NoticesAnswer { notifies, notifier, taken, .. } = self.notices.answer.borrow().clone();
        let beat = Beat {
            name: options.name.clone(),
            version: options.version.clone(),
            incarnation: options.writer.incarnation.clone(),
            last: self.status.borrow().durable,
            at_ms: wall_ms(),
            notifies,
            notifier,
            taken,
        };
        let key = StateKey { machine, session: None };
        engine.put_state(&key, Some(&beat.seal(&options.identity.keys))).await
    }
}
