//! Compares what the engine holds of this machine with its journal (F-01, F-04).

use coord_fleet::{Batch, Engine, EngineError, Incarnation, PublicKey};
use serde::Deserialize;

/// What the engine holds of this machine's present journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of batches.
    pub batches: u64,
    /// Number of events in them.
    pub events: u64,
    /// The first and the last record that they cover; none without a batch.
    pub covers: Option<(u64, u64)>,
    /// Ranges that should be covered and are not.
    pub missing: Vec<(u64, u64)>,
    /// Ranges that were given up before they could be published, and say so.
    pub given_up: Vec<(u64, u64)>,
    /// Ranges that are covered twice.
    pub doubled: Vec<(u64, u64)>,
    /// Events that are not as the journal has them.
    pub different: Vec<u64>,
    /// Batches that this machine did not sign, or that are damaged.
    pub not_believed: u64,
}

impl Checked {
    /// Whether everything is there once, and as the journal has it.
    pub fn is_right(&self) -> bool {
        self.missing.is_empty()
            && self.doubled.is_empty()
            && self.different.is_empty()
            && self.not_believed == 0
    }
}

/// Which batches count.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// The machine's key.
    pub key: PublicKey,
    /// Its journal.
    pub incarnation: &'a Incarnation,
    /// The journal's edition. Batches of earlier ones are superseded.
    pub edition: u64,
}

/// What is read of an event.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

/// Reads all that the engine holds of a machine's journal. `event` is an event as the journal here has it; none if it is not kept
/// any more.
///
/// # Errors
/// The engine cannot be read to the end.
pub async fn check(
    engine: &mut impl Engine,
    own: Own<'_>,
    mut event: impl FnMut(u64) -> Option<String>,
) -> Result<Checked, EngineError> {
    let Own { key, incarnation, edition } = own;
    let mut checked = Checked::default();
    let mut place = 0;
    while let Some(held) = engine.batch_after(key.machine(), place).await? {
        place = held.place;
        let batch = match Batch::open(&held.bytes) {
            Ok((by, batch)) if by == key => batch,
            Ok(_) | Err(_) => {
                checked.not_believed = checked.not_believed.saturating_add(1);
                continue;
            }
        };
        // An earlier journal of this machine is history.
        if batch.writer.incarnation == *incarnation && batch.edition == edition {
            if 0 < edition && checked.batches == 0 {
                // What was damaged before it was published anew.
                checked.not_believed = 0;
            }
            checked.add(&batch, &mut event);
        }
    }
    Ok(checked)
}

impl Checked {
    fn add(&mut self, batch: &Batch, event: &mut impl FnMut(u64) -> Option<String>) {
        let Batch { first, last, is_gap, lines, .. } = batch;
        self.batches = self.batches.saturating_add(1);
        if *is_gap {
            self.given_up.push((*first, *last));
        }
        match self.covers {
            None => self.covers = Some((*first, *last)),
            Some((begin, end)) => {
                let next = end.saturating_add(1);
                if next < *first {
                    self.missing.push((next, first.saturating_sub(1)));
                }
                if *first <= end {
                    self.doubled.push((*first, end.min(*last)));
                }
                self.covers = Some((begin, end.max(*last)));
            }
        }
        for line in lines.lines() {
            self.events = self.events.saturating_add(1);
            let seq = serde_json::from_str::<Numbered>(line).map(|one| one.seq);
            match seq {
                Ok(seq) if (*first..=*last).contains(&seq) => {
                    if event(seq).is_some_and(|here| here != line) {
                        self.different.push(seq);
                    }
                }
                Ok(_) | Err(_) => self.different.push(*first),
            }
        }
    }
}
