//! `coord-sim fleet`: many seeds, each a random life of three machines that send messages to each other and publish their
//! journals (F-04, F-05); reports what they came to.

mod agents;
mod checks;
mod life;
mod place;
mod published;

use std::io::Write;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::Violation;

/// Simulate the lives of machines that send messages to each other over an engine that loses, repeats and reorders, once
/// for each seed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coord-sim fleet --seeds 1000
  coord-sim fleet --seeds 1 --from 276      # one seed again

Exit code 1: something happened that must not.")]
pub struct Fleet {
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print one object of JSON
    #[arg(long)]
    json: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages of which somebody was told that they are accepted.
    pub accepted: u64,
    /// Those that ended processed.
    pub processed: u64,
    /// Those that failed with the other machine's reason.
    pub failed: u64,
    /// Those of whose fate no word came in time.
    pub undeliverable: u64,
    /// Those that a person dropped before.
    pub dropped: u64,
    /// Messages that were sent again with their key.
    pub folded: u64,
    /// How often a model has read one.
    pub read: u64,
    /// Fates from machines that they are none of.
    pub forged: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Coordinators killed.
    pub kills: u64,
    /// Batches that were checked.
    pub batches: u64,
}

impl AddAssign<&Self> for Tally {
    fn add_assign(&mut self, one: &Self) {
        self.accepted += one.accepted;
        self.processed += one.processed;
        self.failed += one.failed;
        self.undeliverable += one.undeliverable;
        self.dropped += one.dropped;
        self.folded += one.folded;
        self.read += one.read;
        self.forged += one.forged;
        self.power_cuts += one.power_cuts;
        self.kills += one.kills;
        self.batches += one.batches;
    }
}

/// The life of a fleet that a seed draws. What must not happen, if it did.
pub fn life(seed: u64) -> (Tally, Option<Violation>) {
    let run = || match life::Life::new(seed) {
        Ok(mut life) => {
            let violation = life.run().err();
            (life.tally, violation)
        }
        Err(violation) => (Tally::default(), Some(violation)),
    };
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| (Tally::default(), Some(Violation::panic())))
}

/// How many seeds ran, what they came to, and the lowest one with a violation.
type Results = (u64, Tally, Option<(u64, Violation)>);

impl Fleet {
    /// Runs them; 1 if something happened that must not, 2 if it could not be told.
    pub fn run(&self) -> ExitCode {
        let results = self.seeds();
        match self.tell(&mut std::io::stdout(), &results) {
            Ok(()) if results.2.is_none() => ExitCode::SUCCESS,
            Ok(()) => ExitCode::from(1),
            Err(error) => {
                let _unseen = writeln!(std::io::stderr(), "coord-sim: {error}");
                ExitCode::from(2)
            }
        }
    }

    fn seeds(&self) -> Results {
        let (next, is_over) = (AtomicU64::new(self.from), AtomicBool::new(false));
        let end = self.from.saturating_add(self.seeds);
        let results: Mutex<Results> = Mutex::default();
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if end <= seed {
                    return;
                }
                let (tally, violation) = life(seed);
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results.0 += 1;
                results.1 += &tally;
                if let Some(violation) = violation {
                    is_over.store(true, Ordering::Relaxed);
                    // Several threads may find one: the lowest seed is shown, whichever was first.
                    if results.2.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                        results.2 = Some((seed, violation));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let jobs = std::thread::available_parallelism().map_or(1, usize::from);
            (1..jobs).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, out: &mut impl Write, (seeds, tally, found): &Results) -> std::io::Result<()> {
        let Tally { accepted, processed, failed, undeliverable, dropped, .. } = tally;
        let Tally { folded, read, forged, power_cuts, kills, batches, .. } = tally;
        if self.json {
            let violation = found.as_ref().map(|(seed, Violation { rule, what })| {
                json!({"seed": seed, "rule": rule, "what": what})
            });
            let told = json!({
                "seeds": seeds, "violation": violation, "messages": accepted, "processed": processed,
                "failed": failed, "undeliverable": undeliverable, "dropped": dropped, "folded": folded,
                "read": read, "forged": forged, "power_cuts": power_cuts, "kills": kills,
                "batches": batches,
            });
            return writeln!(out, "{told}");
        }
        writeln!(
            out,
            "{seeds} seeds: {accepted} messages accepted, {folded} sent again with their key; {processed} processed, {failed} failed there, {undeliverable} undeliverable, {dropped} dropped; read {read} times"
        )?;
        writeln!(
            out,
            "{power_cuts} power cuts, {kills} coordinators killed, {forged} forged fates, {batches} batches checked"
        )?;
        match found {
            None => writeln!(out, "none of it wrong"),
            Some((seed, violation)) => {
                writeln!(out, "violation: seed {seed}: {violation}")?;
                writeln!(out, "again: coord-sim fleet --seeds 1 --from {seed}")
            }
        }
    }
}
