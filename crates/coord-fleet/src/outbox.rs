//! Decides what is published next (F-04). The journal is the outbox, and what the engine holds is the cursor: on every
//! connect, after every error and from time to time it is asked which batch is the newest on the machine's own subject,
//! and publishing continues after that one. If the engine has lost its tail or everything, that is where it continues;
//! if an answer was lost, the batch is there. A batch is appended only after the one that was expected, so nothing is
//! there twice, however stale the belief.
//!
//! What is appended cannot be taken back. If the engine's copy was damaged, a person raises the journal's edition: the journal is
//! published again, and readers disregard the batches of earlier editions.

use core::fmt;
use std::io;

use crate::batch::{Batch, Incarnation, Writer};
use crate::engine::{Engine, EngineError, Held};
use crate::keys::Keys;

/// Which records of the journal there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The oldest record that is kept.
    pub oldest: u64,
    /// The oldest one that is younger than the engine's retention.
    pub oldest_wanted: u64,
    /// The newest record that is durable; 0 for none. What is not durable is not published: the machine could lose it.
    pub durable: u64,
}

/// Events of the journal from one record on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The last record that was read.
    pub last: u64,
    /// The events among them that are of interest elsewhere, a line of JSON each.
    pub lines: String,
}

/// The journal of this machine.
pub trait Journal {
    /// Which records there are.
    ///
    /// # Errors
    /// The journal cannot be read.
    fn extent(&mut self) -> io::Result<Extent>;
    /// The next records from `from` to `through` at most, both included: as many as one batch takes.
    ///
    /// # Errors
    /// The journal cannot be read.
    fn read(&mut self, from: u64, through: u64) -> io::Result<Piece>;
    /// Whether this journal was published before, under this incarnation.
    fn was_published(&self) -> bool;
    /// Whether it was first published after that journal, which is an earlier one of this machine.
    fn follows(&self, other: &Incarnation) -> bool;
    /// Notes durably that it is published, and which journal stood there before, if another one did.
    ///
    /// # Errors
    /// The note was not written.
    fn note_published(&mut self, after: Option<&Incarnation>) -> io::Result<()>;
    /// How often a person had it published again, as it is now: another process may raise it at any time.
    ///
    /// # Errors
    /// It cannot be read.
    fn edition(&mut self) -> io::Result<u64>;
}

/// Another machine publishes under this one's identity (F-07): publishing stops until a person has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate(pub String);

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another machine has the same identity: {}", self.0)
    }
}

/// Why a turn did not publish.
#[derive(Debug)]
pub enum TurnError {
    /// The engine did not do it. The next turn asks it again what it holds.
    Engine(EngineError),
    /// Another machine has the same identity.
    Duplicate(Duplicate),
    /// The journal cannot be read.
    Journal(io::Error),
}

impl From<EngineError> for TurnError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<io::Error> for TurnError {
    fn from(error: io::Error) -> Self {
        Self::Journal(error)
    }
}

/// What a turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A batch was published, through this record.
    Published {
        /// The last record that the engine holds now.
        through: u64,
    },
    /// Everything that is durable was published before.
    Idle,
    /// The engine held another batch than expected; the next turn asks again.
    Conflict,
}

/// A belief about what the engine holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    /// The next record to publish.
    next: u64,
    /// The place of the newest batch on the own subject; 0 for none.
    after: u64,
}

/// The publisher's state. It begins without any belief, and needs none that was stored.
#[derive(Debug)]
pub struct Outbox {
    writer: Writer,
    /// The journal's edition when it was last asked for.
    edition: u64,
    position: Option<Position>,
    /// The journal that was found there, if it is another one.
    before: Option<Incarnation>,
    /// Whether a batch was appended by this process. From then on a batch of another one, after all that was held, is another
    /// machine's: what an earlier relay of this machine left under way is appended only as long as nothing else was.
    has_appended: bool,
    /// Conflicts so far.
    pub conflicts: u64,
    /// How often publishing continued at an earlier record than the one it had come to, because the engine had lost some.
    pub rewinds: u64,
    /// The last record that the engine is known to hold; none before it was asked.
    pub held_through: Option<u64>,
}

impl Outbox {
    /// The outbox of a journal.
    pub fn new(writer: Writer) -> Self {
        Self {
            writer,
            edition: 0,
            position: None,
            before: None,
            has_appended: false,
            conflicts: 0,
            rewinds: 0,
            held_through: None,
        }
    }

    /// Asks the engine again, with the next turn, what it holds: after a new connection, and from time to time.
    pub fn doubt(&mut self) {
        self.position = None;
    }

    /// Publishes the next batch, if anything is left to publish.
    ///
    /// # Errors
    /// Why nothing was published.
    pub async fn turn(
        &mut self,
        engine: &mut impl Engine,
        journal: &mut impl Journal,
        keys: &Keys,
    ) -> Result<Turn, TurnError> {
        let extent = journal.extent()?;
        self.note_edition(journal.edition()?);
        let position = match self.position {
            Some(position) => position,
            None => {
                let held = engine.held().await?;
                // Again: it is raised before anything of it is published, so what is held is not of a later one.
                self.note_edition(journal.edition()?);
                let position = self.continue_after(held.as_ref(), extent, journal, keys);
                *self.position.insert(position.map_err(TurnError::Duplicate)?)
            }
        };
        if extent.durable < position.next {
            return Ok(Turn::Idle);
        }
        let batch = self.batch(position.next, extent, journal)?;
        let through = batch.last;
        // Before it is published: once it is, the other one is found again only after the engine has lost this one.
        if !journal.was_published() {
            journal.note_published(self.before.as_ref())?;
        }
        match engine.append(&batch.seal(keys), position.after).await {
            Ok(place) => {
                self.position = Some(Position { next: through.saturating_add(1), after: place });
                self.held_through = Some(through);
                self.has_appended = true;
                Ok(Turn::Published { through })
            }
            Err(EngineError::Conflict) => {
                self.conflicts = self.conflicts.saturating_add(1);
                self.position = None;
                Ok(Turn::Conflict)
            }
            Err(error) => {
                self.position = None;
                Err(error.into())
            }
        }
    }

    fn batch(&self, from: u64, extent: Extent, journal: &mut impl Journal) -> io::Result<Batch> {
        let (writer, edition, first) = (self.writer.clone(), self.edition, from);
        if from < extent.oldest {
            let (last, lines) = (extent.oldest.saturating_sub(1), String::new());
            return Ok(Batch { writer, edition, first, last, is_gap: true, lines });
        }
        let Piece { last, lines } = journal.read(from, extent.durable)?;
        Ok(Batch { writer, edition, first, last, is_gap: false, lines })
    }

    /// Begins again if the journal is to be published again. Of the new edition nothing was appended yet.
    fn note_edition(&mut self, edition: u64) {
        if self.edition != edition {
            self.edition = edition;
            self.position = None;
            self.has_appended = false;
            self.held_through = None;
        }
    }

    /// Where publishing continues after what the engine holds.
    fn continue_after(
        &mut self,
        held: Option<&Held>,
        extent: Extent,
        journal: &impl Journal,
        keys: &Keys,
    ) -> Result<Position, Duplicate> {
        // Nothing there: it is new, or it has expired, or the engine was wiped.
        let Some(held) = held else {
            self.note_held(0);
            return Ok(Position { next: extent.oldest_wanted, after: 0 });
        };
        let place = held.place;
        let opened = Batch::open(&held.bytes).ok().filter(|(key, _)| *key == keys.public());
        // What is not this machine's own, or damaged, says nothing of what is held: all of it is published again.
        let Some((_, batch)) = opened else {
            self.note_held(0);
            return Ok(Position { next: extent.oldest_wanted, after: place });
        };
        if batch.writer.incarnation != self.writer.incarnation {
            let found = batch.writer.incarnation;
            if journal.was_published() && !journal.follows(&found) {
                let what = "it has published another journal since this one";
                return Err(Duplicate(what.to_owned()));
            }
            self.before = Some(found);
            self.note_held(0);
            return Ok(Position { next: extent.oldest_wanted, after: place });
        }
        if extent.durable < batch.last {
            let what = format!(
                "it has published record {}, and the newest one here is {}",
                batch.last, extent.durable
            );
            return Err(Duplicate(what));
        }
        if self.edition < batch.edition {
            let what = "it has published this journal again";
            return Err(Duplicate(what.to_owned()));
        }
        if batch.edition < self.edition {
            self.note_held(0);
            return Ok(Position { next: extent.oldest_wanted, after: place });
        }
        // An engine that lost its tail shows what an earlier relay of this machine published.
        let is_later = self.held_through.is_none_or(|known| known < batch.last);
        if self.has_appended && is_later && batch.writer.relay != self.writer.relay {
            let what = format!("it has published record {} meanwhile", batch.last);
            return Err(Duplicate(what));
        }
        self.note_held(batch.last);
        Ok(Position { next: batch.last.saturating_add(1), after: place })
    }

    fn note_held(&mut self, through: u64) {
        if self.held_through.is_some_and(|before| through < before) {
            self.rewinds = self.rewinds.saturating_add(1);
        }
        self.held_through = Some(through);
    }
}
