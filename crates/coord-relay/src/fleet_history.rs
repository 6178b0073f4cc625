//! Reads the history of all machines from the server's log of journals, oldest first (F-03). The log is one for all machines, so its
//! order is that in which the server stored the batches, by one clock.

use coord_fleet::{EngineError, History, Logged, Trouble};
use coord_model::MachineId;
use futures_util::future::join_all;

use crate::nats_engine::NatsEngine;

/// Batches that are asked for at once. The server answers for one at a time, so this hides the time that an answer travels.
const AT_ONCE: u64 = 16;
/// The same where one machine's batches are wanted: others lie between, and each question finds the same one.
const AT_ONCE_OF_ONE: u64 = 2;

/// Reads the history of machines. It keeps a page of batches in memory at most, and which records were read.
#[derive(Debug)]
pub struct FleetHistory {
    engine: NatsEngine,
    /// The machine whose history is read; none for all of them.
    of: Option<MachineId>,
    history: History,
    /// Where reading begins.
    from: u64,
    /// The batch that was read last. If the log has it no more, the log is another one.
    last: Option<Logged>,
}

/// The events of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The machine that tells them.
    pub machine: MachineId,
    /// When the server stored them, by its own clock: milliseconds since 1970.
    pub stored_ms: u64,
    /// The events, a line of JSON each, by their number in the machine's journal. The machine is believed to have written them, and
    /// nothing else is known of them.
    pub events: Vec<(u64, String)>,
}

impl FleetHistory {
    /// The history of a machine, or of all of them, from the oldest batch on.
    pub fn new(engine: NatsEngine, of: Option<MachineId>) -> Self {
        Self { engine, of, history: History::default(), from: 0, last: None }
    }

    /// The place of the newest batch; 0 if there is none.
    ///
    /// # Errors
    /// The server does not say.
    pub async fn end(&self) -> Result<u64, EngineError> {
        let newest = self.engine.newest_logged(self.of).await?;
        Ok(newest.map_or(0, |newest| newest.place))
    }

    /// The first place from which on batches were stored at this time or later, in milliseconds since 1970, by the server's clock;
    /// the place after `end` if none was.
    ///
    /// # Errors
    /// The server does not say.
    pub async fn place_since(&self, since_ms: u64, end: u64) -> Result<u64, EngineError> {
        // All before `low` are older, and the first one from `high` on is not.
        let (mut low, mut high) = (1, end.saturating_add(1));
        while low < high {
            let middle = low.midpoint(high);
            match self.engine.logged(self.of, middle).await? {
                Some(found) if found.stored_ms < since_ms => low = found.place.saturating_add(1),
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    /// Begins at a place, as if nothing was read. Records before the first ones that are found there are not wanted, wherever the
    /// log has them.
    pub fn begin_at(&mut self, place: u64) {
        let is_late = 1 < place;
        (self.history, self.from, self.last) = (History::new(is_late), place, None);
    }

    /// The events of the next batches, which may be none; `None` if there is no further batch yet. If the server has lost batches
    /// that were read, and others took their places, it reads from its oldest one on, and each event is told once all the same.
    ///
    /// # Errors
    /// The server cannot be read. The next call tries the same again.
    pub async fn next(&mut self) -> Result<Option<Vec<Told>>, EngineError> {
        let page = match self.page().await? {
            Some(page) => page,
            None => {
                self.history.begin_again();
                (self.from, self.last) = (0, None);
                self.page().await?.unwrap_or_default()
            }
        };
        let mut told = Vec::new();
        for logged in &page {
            let machine = logged.machine;
            if !self.history.knows(machine) {
                let newest = self.engine.newest_logged(Some(machine)).await?;
                let newest = newest.as_ref().map(|newest| newest.bytes.as_slice());
                self.history.note_newest(machine, newest);
            }
        }
        for logged in &page {
            let events = self.history.take(logged);
            told.push(Told { machine: logged.machine, stored_ms: logged.stored_ms, events });
        }
        self.last = page.into_iter().next_back().or_else(|| self.last.take());
        Ok((!told.is_empty()).then_some(told))
    }

    /// What is wrong with the machines' histories since this was asked last.
    pub fn troubles(&mut self) -> Vec<(MachineId, Trouble)> {
        self.history.troubles()
    }

    /// The batches after the last one; none if that one is not there any more.
    async fn page(&self) -> Result<Option<Vec<Logged>>, EngineError> {
        let at_once = if self.of.is_some() { AT_ONCE_OF_ONE } else { AT_ONCE };
        // The last one is asked for again, to see whether it is still there.
        let from = self.last.as_ref().map_or(self.from, |last| last.place);
        let asked = (0..at_once).map(|n| self.engine.logged(self.of, from.saturating_add(n)));
        let mut page: Vec<Logged> = Vec::new();
        for answer in join_all(asked).await {
            // What came while they were asked for is read with the next page, so that none is passed over.
            let Some(logged) = answer? else { break };
            if page.last().is_none_or(|before| before.place < logged.place) {
                page.push(logged);
            }
        }
        if self.last.is_none() {
            return Ok(Some(page));
        }
        let is_there = page.first() == self.last.as_ref();
        Ok(is_there.then(|| page.into_iter().skip(1).collect()))
    }
}
