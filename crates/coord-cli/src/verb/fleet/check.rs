//! `coord fleet check`: whether the server holds this machine's journal whole, and having it published again (F-01, F-04).

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::anyhow;
use coord_daemon::operator::check_self;
use coord_model::{Event, Record};
use coord_relay::{Checked, Connection, Own, check};
use coord_store::journal::Cursor;
use coord_store::{RealDisk, StateLock};
use coord_view::history::line;

use super::source::FleetSource;
use super::status::{read_status, relay_runs};
use super::{member, server_failed};
use crate::context::Context;
use crate::out::Failure;

/// Ranges that are named in a line at most.
const RANGES_SHOWN: usize = 8;

/// Check the server's copy of this machine's journal, and publish it again
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord fleet check               compare it with the journal\n  coord fleet check --republish   publish the journal again if the copy differs\n\nIt reads all that the server keeps of this machine, 24 hours by default. Exit code 1 if something is\nmissing, there twice, damaged or different; 4 if the server is not reachable. The server keeps the\nearlier copy until it expires; other machines disregard it."
)]
pub(super) struct Args {
    /// If the copy differs, have the relay publish the journal again, as far back as the server keeps it
    #[arg(long)]
    republish: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.republish {
        check_self("`coord fleet check --republish`").map_err(|why| anyhow!(why))?;
    }
    let (_, identity, settings) = member(context)?;
    let mut source = FleetSource::open(context)?;
    let (key, incarnation) = (identity.keys.public(), source.incarnation());
    let own = Own { key, incarnation: &incarnation, edition: source.published_edition() };
    let here = events(context)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checked = runtime.block_on(async {
        let connection = Connection::open(&settings, key.machine()).await?;
        check(&mut connection.engine(), own, |seq| here.get(&seq).cloned()).await
    });
    let checked = checked.map_err(|error| server_failed(&settings, &error))?;
    let mut out = std::io::stdout().lock();
    tell(&checked, &mut out)?;
    if checked.is_right() {
        return Ok(());
    }
    if !args.republish {
        return Err(Failure::Failed(anyhow!(
            "the server's copy differs from the journal. → coord fleet check --republish"
        )));
    }
    republish(&mut source, context, &mut out)
}

fn republish(
    source: &mut FleetSource,
    context: &Context,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if let Some(why) = read_status(context).and_then(|relay| relay.duplicate) {
        return Err(Failure::Failed(anyhow!(
            "not published again: another machine has the same identity: {why}. → coord fleet status"
        )));
    }
    if source.republish()?.is_none() {
        return Err(Failure::Failed(anyhow!("this journal was never published. → coord up")));
    }
    let when = if relay_runs(context) { "now" } else { "when it runs: coord up" };
    Ok(writeln!(
        out,
        "The relay publishes the journal again {when}. `coord fleet check` shows the result."
    )?)
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

fn tell(checked: &Checked, out: &mut impl Write) -> Result<(), Failure> {
    let Checked { batches, events, given_up, missing, doubled, different, .. } = checked;
    match checked.covers {
        Some((first, last)) => {
            writeln!(out, "Records {first} to {last}: {events} events in {batches} batches.")?;
        }
        None => writeln!(out, "The server holds nothing of this journal yet.")?,
    }
    if !given_up.is_empty() {
        writeln!(
            out,
            "Not published: {}; the journal dropped them before the server was reachable.",
            ranges(given_up)
        )?;
    }
    if checked.is_right() && checked.covers.is_some() {
        writeln!(out, "Each record is there once and matches the journal.")?;
    }
    let different: Vec<(u64, u64)> = different.iter().map(|seq| (*seq, *seq)).collect();
    for (word, found) in [("Missing", missing), ("Twice", doubled), ("Different", &different)] {
        if !found.is_empty() {
            writeln!(out, "{word}: {}", ranges(found))?;
        }
    }
    if 0 < checked.not_believed {
        writeln!(out, "Not signed by this machine, or damaged: {} batches", checked.not_believed)?;
    }
    Ok(())
}

/// Ranges of records, on one line.
pub(crate) fn ranges(all: &[(u64, u64)]) -> String {
    let shown = all.iter().take(RANGES_SHOWN).map(|(first, last)| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(RANGES_SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more ranges"),
    }
}
