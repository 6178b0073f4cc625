//! The journals of the simulated fleet as the engine holds them (F-04): without gaps, nothing twice, and nothing that the
//! machine itself does not have.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher as _;
use std::io;

use coord_fleet::{Batch, Extent, Incarnation, Journal, Local as _, Piece};
use coord_store::journal::{self, oldest};
use coord_testkit::FakeServer;
use coord_wire::fleet::OutboxAsk;
use serde_json::json;
use siphasher::sip::SipHasher13;

use super::place::{Place, wrong};
use crate::Violation;
use crate::serving::paths;

/// Records that one batch takes.
const BATCH: usize = 64;

/// Where a machine reads on in its journal, and what it has read.
#[derive(Debug)]
pub(super) struct Cursor {
    /// The record that comes next.
    next: u64,
    behind: journal::Cursor,
    records: VecDeque<(u64, u64)>,
}

fn digest(payload: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(payload);
    hasher.finish()
}

fn line(seq: u64, digest: u64) -> String {
    format!("{}\n", json!({"seq": seq, "digest": digest}))
}

impl Cursor {
    fn at(next: u64) -> Self {
        Self { next, behind: journal::Cursor::before(next), records: VecDeque::new() }
    }
}

impl Journal for Place {
    fn extent(&mut self) -> io::Result<Extent> {
        let durable = self.outbox(&OutboxAsk::default())?.durable;
        let disk = self.disk();
        let found = oldest(&disk, &paths().journal(), 0).map_err(io::Error::other)?;
        Ok(Extent { oldest: found.0, oldest_wanted: found.1, durable })
    }

    fn read(&mut self, from: u64, through: u64) -> io::Result<Piece> {
        let disk = self.disk();
        let mut cursor = match self.cursor.take() {
            Some(cursor) if cursor.next == from => cursor,
            Some(_) | None => Cursor::at(from),
        };
        let mut piece = Piece { last: from.saturating_sub(1), lines: String::new() };
        for _ in 0..BATCH {
            if through <= piece.last {
                break;
            }
            if cursor.records.is_empty() {
                let read = cursor.behind.read(&disk, &paths().journal());
                let read = read.map_err(io::Error::other)?;
                cursor.records.extend(read.iter().map(|(seq, payload)| (*seq, digest(payload))));
            }
            let Some((seq, digest)) = cursor.records.pop_front() else { break };
            piece.lines += &line(seq, digest);
            piece.last = seq;
            cursor.next = seq + 1;
        }
        self.cursor = Some(cursor);
        if piece.last < from {
            return Err(io::Error::other("the journal has no record that it said was durable"));
        }
        Ok(piece)
    }

    fn was_published(&self) -> bool {
        self.is_published
    }

    fn follows(&self, _: &Incarnation) -> bool {
        // A machine keeps its journal here.
        false
    }

    fn note_published(&mut self, _: Option<&Incarnation>) -> io::Result<()> {
        self.is_published = true;
        Ok(())
    }

    fn edition(&mut self) -> io::Result<u64> {
        // Nobody has a journal published anew here.
        Ok(0)
    }
}

fn bad(what: String) -> Violation {
    Violation::new("F-04", what)
}

/// Checks what the engine holds of a machine. Returns the number of batches.
pub(super) fn check(place: &mut Place, server: &FakeServer) -> Result<u64, Violation> {
    let number = place.number;
    let disk = place.disk();
    let mut own = BTreeMap::new();
    let (first, _) =
        oldest(&disk, &paths().journal(), 0).map_err(|error| wrong(error.to_string()))?;
    let mut cursor = journal::Cursor::before(first);
    loop {
        let read =
            cursor.read(&disk, &paths().journal()).map_err(|error| wrong(error.to_string()))?;
        if read.is_empty() {
            break;
        }
        own.extend(read.iter().map(|(seq, payload)| (*seq, digest(payload))));
    }
    let (mut next, mut n) = (None, 0);
    for bytes in server.batches(place.id()) {
        let (key, batch) = Batch::open(bytes).map_err(|why| bad(format!("m{number}: {why}")))?;
        if key != place.keys.public() || batch.last < batch.first {
            return Err(bad(format!("m{number}: not its own, or empty: {batch:?}")));
        }
        if next.is_some_and(|next| next != batch.first) {
            return Err(bad(format!("m{number}: {} follows, not {next:?}", batch.first)));
        }
        next = Some(batch.last + 1);
        n += 1;
        if batch.is_gap {
            continue;
        }
        let mut wanted = batch.first;
        for said in batch.lines.split_inclusive('\n') {
            let is_it =
                own.get(&wanted).map_or(wanted < first, |digest| line(wanted, *digest) == said);
            if !is_it {
                return Err(bad(format!("m{number}: record {wanted} is not what was published")));
            }
            wanted += 1;
        }
        if wanted != batch.last + 1 {
            return Err(bad(format!(
                "m{number}: lines end at {wanted}, the batch at {}",
                batch.last
            )));
        }
    }
    Ok(n)
}
