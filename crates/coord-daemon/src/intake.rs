//! Drains the spool: records the events that hooks spooled while no coordinator answered (G1).
//!
//! A spool file is renamed away under its lock, its records are processed like any other event, and it
//! is removed only once the journal is synced after them. After a crash in between, the file is read
//! again, and the event ids show which events are already recorded (G2). A file with an event of a newer
//! version stays: this coordinator records what it understands, and the newer one records the rest
//! (H-39).
//!
//! One turn of the loop drains a bounded piece of the spool. Neither a full spool nor a file that
//! somebody made huge can therefore delay events at the socket (H-49). A [`Pass`] continues where the
//! last turn stopped.

use std::collections::VecDeque;

use coord_model::envelope::ENVELOPE_VERSION;
use coord_model::envelope::Envelope;
use coord_model::{Event, HookEvent, Now, Via};
use coord_store::AppendError;
use coord_store::spool::{Piece, Taken};
use serde_json::value::RawValue;

use crate::conditions::Condition;
use crate::coordinator::Coordinator;
use crate::world::World;

/// Records that one turn drains, approximately: a piece is drained whole.
const RECORDS_PER_TURN: usize = 50;
/// Pieces that one turn reads: a file may contain no record at all.
const PIECES_PER_TURN: usize = 4;

/// The result of draining the spool for one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intake {
    /// Nothing is left.
    Empty,
    /// There is more; continue in the next turn.
    More,
    /// A hook is writing to the spool; try again soon.
    Again,
    /// The store or the spool refused; try again later.
    Refused,
}

/// The spool files that are being drained, and the position in the first one.
#[derive(Debug)]
pub(crate) struct Pass {
    /// What [`coord_store::Spool::take`] found when the pass began.
    taken: Taken,
    /// The files that are left; the first one is in progress.
    files: VecDeque<String>,
    /// The byte position in the first file.
    at: u64,
    /// Events of the first file that hooks had only counted.
    folded: u64,
    /// Bytes of the first file that are no valid record.
    damaged: u64,
    /// Whether the first file had any valid record.
    has_records: bool,
    /// Whether the first file has a record of a version newer than this coordinator knows.
    is_newer: bool,
}

/// A journal position that is never synced: this coordinator keeps the file.
const NEVER: u64 = u64::MAX;
const NEWER: &str =
    "the spool holds events of a newer version: run `coord up` of that version to read them";

impl<W: World> Coordinator<W> {
    /// Drains the spool, as much as one turn of the loop may.
    pub(crate) fn drain_spool(&mut self, now: Now) -> Intake {
        let has_begun = self.pass.is_none();
        let mut pass = match self.pass.take().map_or_else(|| self.begin_pass(), Ok) {
            Ok(pass) => pass,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Intake::Empty,
            Err(error) => {
                self.conditions
                    .raise(Condition::Spool, format!("the spool cannot be read: {error}"));
                return Intake::Refused;
            }
        };
        self.conditions.clear(Condition::Spool);
        let (mut pieces, mut records) = (0, 0);
        while let Some(name) = pass.files.front().cloned() {
            if PIECES_PER_TURN <= pieces || RECORDS_PER_TURN <= records {
                self.pass = Some(pass);
                return Intake::More;
            }
            pieces += 1;
            match self.take_piece(&mut pass, &name, now) {
                Ok(n) => records += n,
                Err(error) => {
                    tracing::warn!(%error, "spool stays as it is");
                    self.pass = Some(pass);
                    return Intake::Refused;
                }
            }
        }
        self.remove_drained();
        match pass.taken {
            // What hooks wrote during the pass is in none of its files.
            _ if !has_begun => Intake::More,
            Taken::Empty | Taken::Taken => Intake::Empty,
            Taken::Busy => Intake::Again,
        }
    }

    fn begin_pass(&self) -> std::io::Result<Pass> {
        let taken = self.spool.take()?;
        let mut files: VecDeque<String> = self.spool.files()?.into();
        files.retain(|name| !self.drained.iter().any(|(drained, _)| drained == name));
        Ok(Pass { taken, files, at: 0, folded: 0, damaged: 0, has_records: false, is_newer: false })
    }

    /// Records the next piece of the first file. Returns how many records the piece had.
    fn take_piece(&mut self, pass: &mut Pass, name: &str, now: Now) -> Result<usize, AppendError> {
        let piece = match self.spool.piece(name, pass.at) {
            Ok(piece) => piece,
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::warn!(%error, name, "spool file not read");
                }
                pass.next_file();
                return Ok(0);
            }
        };
        let n = piece.records().len();
        self.take_records(pass, &piece, now)?;
        pass.has_records |= 0 < n;
        pass.folded = pass.folded.saturating_add(piece.folded);
        pass.damaged = pass.damaged.saturating_add(piece.damaged);
        match piece.next {
            Some(at) => pass.at = at,
            None => self.end_file(pass, name, now)?,
        }
        Ok(n)
    }

    fn take_records(
        &mut self,
        pass: &mut Pass,
        piece: &Piece,
        now: Now,
    ) -> Result<(), AppendError> {
        let is_newer = |text| Envelope::version(text).is_some_and(|v| ENVELOPE_VERSION < v);
        pass.is_newer |= piece.records().any(is_newer);
        for text in piece.records() {
            let event =
                Envelope::parse(text).map_err(|error| error.to_string()).and_then(|event| {
                    serde_json::from_slice::<Box<RawValue>>(text)
                        .map(|raw| (event, raw))
                        .map_err(|error| error.to_string())
                });
            match event {
                Ok((envelope, raw)) => {
                    let provenance = self.provenance(&envelope, None);
                    let event = HookEvent::new(envelope, raw, Via::Spool);
                    self.take_hook(HookEvent { provenance, ..event }, now)?;
                }
                // The newer coordinator that takes the rest also sees these, and counts them once.
                Err(_) if pass.is_newer => (),
                Err(why) => {
                    self.take_malformed(Via::Spool, why, text, now)?;
                }
            }
        }
        Ok(())
    }

    /// Schedules the first file for removal, once all of its events are durable.
    fn end_file(&mut self, pass: &mut Pass, name: &str, now: Now) -> Result<(), AppendError> {
        if !pass.has_records && self.spool.is_unfinished(name, now.wall_ms).unwrap_or(true) {
            pass.next_file();
            return Ok(());
        }
        if 0 < pass.damaged {
            tracing::warn!(name, bytes = pass.damaged, "bytes in the spool are no record");
        }
        let through_seq = if pass.is_newer {
            self.conditions.raise(Condition::NewerSpool, NEWER);
            NEVER
        } else {
            if 0 < pass.folded {
                self.record(&Event::SpoolFolded { events: pass.folded }, now)?;
            }
            // The number of events that were only counted must be recorded before the file is removed.
            self.record_counted(now);
            self.engine.journal().next_seq().saturating_sub(1)
        };
        self.drained.push((name.to_owned(), through_seq));
        pass.next_file();
        Ok(())
    }

    /// Removes the drained files whose records are durable.
    pub(crate) fn remove_drained(&mut self) {
        let synced = self.engine.journal().synced_through();
        let (done, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.drained).into_iter().partition(|(_, seq)| *seq <= synced);
        self.drained = waiting;
        for (name, seq) in done {
            if let Err(error) = self.spool.remove(&name) {
                tracing::warn!(%error, name, "spool file not removed");
                self.drained.push((name, seq));
            }
        }
    }
}

impl Pass {
    fn next_file(&mut self) {
        self.files.pop_front();
        (self.at, self.folded, self.damaged) = (0, 0, 0);
        (self.has_records, self.is_newer) = (false, false);
    }
}
