//! What one event costs with ten thousand sessions against ten: parse, record and step, unsynced.

use super::Bench;
use super::events::{Events, take};
use super::sample::Sample;
use super::sandbox::Sandbox;
use super::table::{Goal, Table};
use coord_store::now;
use std::time::Instant;

/// Events of one round.
const EVENTS: usize = 500;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let mut events = Events::new(bench)?;
    let mut places = Vec::new();
    for sessions in [10, 10_000] {
        let sandbox = Sandbox::new(bench)?;
        let mut engine = sandbox.engine()?;
        for text in events.many("UserPromptSubmit", sessions, sessions)? {
            take(&mut engine, text, now())?;
        }
        places.push((sessions, sandbox, engine, Sample::default()));
    }
    for round in 0..bench.rounds(200) {
        for turn in 0..places.len() {
            let at = (round + turn) % places.len();
            let Some((sessions, _, engine, sample)) = places.get_mut(at) else { continue };
            let texts = events.many("PostToolUse", *sessions, EVENTS)?;
            let begun = Instant::now();
            for text in texts {
                take(engine, text, now())?;
            }
            sample.push_each(begun.elapsed(), EVENTS);
        }
    }
    if let [(.., few), (.., many)] = places.as_slice() {
        let detail = format!(
            "{:.2} us against {:.2} us; parse, record, step; in process",
            many.median(),
            few.median()
        );
        let ratio = many.median() / few.median();
        let what = "cost per event, 10,000 sessions against 10";
        table.row(what, ratio, "x", Goal::AtMost(1.2, 1.05), detail);
    }
    Ok(())
}
