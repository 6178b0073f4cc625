//! `coord fleet check`: whether the server holds this machine's journal whole (F-01, F-04).

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::anyhow;
use coord_model::{Event, Record};
use coord_relay::{Checked, Connection, check};
use coord_store::journal::Cursor;
use coord_store::{RealDisk, StateLock};
use coord_view::history::line;

use super::member;
use super::source::FleetSource;
use crate::context::Context;
use crate::out::Failure;

/// Compare what the server holds of this machine with its journal
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord fleet check\n\nIt reads all that the server keeps of this machine, 24 hours by default. Exit code 1 if something is\nmissing, there twice, or different."
)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, context: &Context) -> Result<(), Failure> {
    let (_, identity, settings) = member(context)?;
    let incarnation = FleetSource::open(context)?.incarnation();
    let key = identity.keys.public();
    let here = events(context)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checked = runtime.block_on(async {
        let connection = Connection::open(&settings, key.machine()).await?;
        check(&mut connection.engine(), (key, &incarnation), |seq| here.get(&seq).cloned()).await
    });
    let checked = checked.map_err(|error| anyhow!("{}: {error}", settings.url))?;
    tell(&checked)
}

/// The events of the journal, as they are published.
fn events(context: &Context) -> anyhow::Result<BTreeMap<u64, String>> {
    let mut events = BTreeMap::new();
    let mut cursor = Cursor::before(0);
    loop {
        let records = {
            let _lock = StateLock::shared(&context.paths.state_lock())?;
            cursor.read(&RealDisk, &context.paths.journal())?
        };
        if records.is_empty() {
            return Ok(events);
        }
        for (seq, payload) in records {
            let Ok(record) = serde_json::from_slice::<Record<Event>>(&payload) else { continue };
            let line = line(Record { seq, ..record });
            events.insert(seq, serde_json::to_string(&line)?);
        }
    }
}

fn tell(checked: &Checked) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let Some((first, last)) = checked.covers else {
        return Ok(writeln!(out, "The server holds nothing of this journal yet.")?);
    };
    let Checked { batches, events, .. } = checked;
    writeln!(out, "Records {first} to {last}: {events} events in {batches} batches.")?;
    for (first, last) in &checked.given_up {
        writeln!(
            out,
            "Not published: {first} to {last}; the journal dropped them before the server was reachable."
        )?;
    }
    if checked.is_right() {
        return Ok(writeln!(out, "Each record is there once and matches the journal.")?);
    }
    for (first, last) in &checked.missing {
        writeln!(out, "Missing: {first} to {last}")?;
    }
    for seq in &checked.doubled {
        writeln!(out, "Twice: {seq}")?;
    }
    for seq in &checked.different {
        writeln!(out, "Different: {seq}")?;
    }
    if 0 < checked.not_believed {
        writeln!(out, "Not signed by this machine, or damaged: {} batches", checked.not_believed)?;
    }
    Err(Failure::Failed(anyhow!("the server's copy differs from the journal")))
}
