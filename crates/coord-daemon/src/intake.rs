//! Takes in what hooks spooled while nobody answered them (G1).
//!
//! A spool file is renamed away under its lock, its records go through the same door as any event,
//! and the file goes only when the journal is synced behind them. After a crash in between it is
//! read again and the event ids tell what is there already (G2). A file with an event of a newer
//! version stays: what is understood of it is taken, and the newer coordinator takes the rest (H-39).

use coord_core::Now;
use coord_store::AppendError;
use coord_store::spool::{Drained, Taken};
use coord_wire::envelope::Envelope;
use coord_wire::journal::{Entry, Via};
use coord_wire::limits::ENVELOPE_VERSION;
use serde_json::value::RawValue;

use crate::conditions::Condition;
use crate::coordinator::Coordinator;
use crate::world::World;

/// What draining came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intake {
    /// Nothing is left.
    Empty,
    /// A hook is writing: try again soon.
    Again,
    /// The store takes nothing: try again when it does.
    Refused,
}

/// Position in the journal of what this coordinator will not have taken.
const NEVER: u64 = u64::MAX;
const NEWER: &str =
    "the spool holds events of a newer version: run `coord up` of that version to take them in";

/// Whether a record is of a version that this coordinator does not know yet.
fn is_newer(file: &Drained) -> bool {
    let is_newer = |text| Envelope::version(text).is_some_and(|v| ENVELOPE_VERSION < v);
    file.records().any(is_newer)
}

impl<W: World> Coordinator<W> {
    /// Takes the spool in.
    pub(crate) fn drain_spool(&mut self, now: Now) -> Intake {
        let taken = match self.spool.take() {
            Ok(taken) => taken,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Intake::Empty,
            Err(error) => {
                self.conditions.raise(Condition::Spool, format!("spool not read: {error}"));
                return Intake::Refused;
            }
        };
        let files: Vec<Drained> = match self.spool.drained(now.wall_ms) {
            Ok(files) => files.filter_map(Result::ok).collect(),
            Err(error) => {
                self.conditions.raise(Condition::Spool, format!("spool not read: {error}"));
                return Intake::Refused;
            }
        };
        self.conditions.clear(Condition::Spool);
        for file in files {
            if self.drained.iter().any(|(name, _)| *name == file.file) {
                continue;
            }
            if let Err(error) = self.take_file(&file, now) {
                tracing::warn!(%error, "spool stays as it is");
                return Intake::Refused;
            }
            let through_seq = if is_newer(&file) {
                self.conditions.raise(Condition::NewerSpool, NEWER);
                NEVER
            } else {
                self.engine.journal().next_seq().saturating_sub(1)
            };
            self.drained.push((file.file, through_seq));
        }
        self.remove_drained();
        match taken {
            Taken::Empty | Taken::Taken => Intake::Empty,
            Taken::Busy => Intake::Again,
        }
    }

    fn take_file(&mut self, file: &Drained, now: Now) -> Result<(), AppendError> {
        for finding in &file.findings {
            tracing::warn!(%finding, "spool");
        }
        let is_newer = is_newer(file);
        for text in file.records() {
            let event =
                Envelope::parse(text).map_err(|error| error.to_string()).and_then(|event| {
                    serde_json::from_slice::<&RawValue>(text)
                        .map(|raw| (event, raw))
                        .map_err(|error| error.to_string())
                });
            match event {
                Ok((envelope, raw)) => {
                    let provenance = self.provenance(&envelope, None);
                    self.take_hook(envelope, raw, Via::Spool, provenance, now)?;
                }
                // Who takes the rest sees these as well, and counts them once.
                Err(_) if is_newer => (),
                Err(why) => self.record(&Entry::Malformed { via: Via::Spool, why }, now)?,
            }
        }
        if 0 < file.folded && !is_newer {
            self.record(&Entry::SpoolFolded { events: file.folded }, now)?;
        }
        Ok(())
    }

    /// Removes drained files whose records are durable.
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
