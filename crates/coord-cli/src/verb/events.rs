//! `coord events [ID]`: the history, read from the journal itself, with or without a coordinator.

use std::io::{BufWriter, Write};
use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, Local};
use coord_store::{RealDisk, StateLock};
use coord_view::history::{Line, Of, Reader, Wanted};
use coord_view::offline;

use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Colour, Failure, Painter, columns, duration_ms, escape, fit, pad, print_json};
use crate::verb::explain::ruled_by;
use crate::verb::inspect;

/// Show what happened, from the journal
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord events                 everything\n  coord events 3f2a            one session\n  coord events --since 10m     the last ten minutes\n  coord events --follow        also print new events as they happen\n  coord events --json | jq .   one JSON object per line"
)]
pub(crate) struct Args {
    /// A session id, or the beginning of one
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: Option<String>,
    /// Show only events of the last TIME, such as 90s, 10m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    since: Option<u64>,
    /// Keep printing new events
    #[arg(long, short)]
    follow: bool,
    /// Add the id of the rule to each decision
    #[arg(long, short)]
    verbose: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let wanted = Wanted {
        from_seq: 0,
        since_ms: args.since.map_or(0, |ms| context.now.wall_ms.saturating_sub(ms)),
        of: args.id.as_deref().map(|id| of(id, context)).transpose()?,
        decisions_only: false,
    };
    let mut reader = Reader::new(wanted);
    // Watched before the first look: what is written in between is news.
    let journal = if args.follow { Some(JournalWatch::new(context)?) } else { None };
    let any = print(args, &mut reader, context)?;
    if let Some(journal) = journal {
        loop {
            journal.pause(Duration::MAX)?;
            print(args, &mut reader, context)?;
        }
    }
    match &args.id {
        Some(id) if !any => Err(Failure::NoSuchSession(format!("no events of a session {id:?}"))),
        None if !any && !args.json => Err(anyhow!(
            "no events yet; they appear when Claude Code runs with coord's hooks (coord install)"
        )
        .into()),
        Some(_) | None => Ok(()),
    }
}

/// Prints what is wanted and was not printed yet. True if there was anything.
fn print(args: &Args, reader: &mut Reader, context: &Context) -> Result<bool, Failure> {
    let (painter, width) = (Painter::for_stdout(), columns());
    let mut any = false;
    while let Some(lines) = next_piece(reader, context)? {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for line in &lines {
            any = true;
            if args.json {
                print_json(&mut out, line)?;
            } else {
                text(&mut out, line, args.verbose, painter, width)?;
            }
        }
        out.flush()?;
    }
    Ok(any)
}

/// Reads the next piece. The lock is given back before anything is printed: a pager may wait for hours,
/// and meanwhile no snapshot could take its place.
fn next_piece(reader: &mut Reader, context: &Context) -> Result<Option<Vec<Line>>, Failure> {
    let journal = context.paths.journal();
    if !offline::is_there(&context.paths)? || !journal.is_dir() {
        return Ok(None);
    }
    let _lock = StateLock::shared(&context.paths.state_lock()).map_err(anyhow::Error::from)?;
    Ok(reader.next_piece(&RealDisk, &journal).map_err(anyhow::Error::from)?)
}

/// All ids of the session that `id` means; without a record the history is searched for it.
fn of(id: &str, context: &Context) -> Result<Of, Failure> {
    let found = match inspect::look(Some(id), context) {
        Ok(found) => found,
        Err(Failure::NoSuchSession(_)) => return Ok(Of::Beginning(id.to_owned())),
        Err(failure) => return Err(failure),
    };
    let ids = found
        .answer
        .sessions
        .into_iter()
        .flat_map(|session| session.previous_ids.into_iter().chain([session.session_id]));
    Ok(Of::Ids(ids.collect()))
}

fn text(
    out: &mut impl Write,
    line: &Line,
    is_verbose: bool,
    painter: Painter,
    width: usize,
) -> Result<(), Failure> {
    let time = DateTime::parse_from_rfc3339(&line.at).map_or_else(
        |_| line.at.clone(),
        |at| at.with_timezone(&Local).format("%m-%d %H:%M:%S").to_string(),
    );
    let id: String = line.session_id.as_deref().unwrap_or("-").chars().take(8).collect();
    let mark = match line.verified {
        Some(false) => " (not verified)",
        Some(true) | None => "",
    };
    let what = format!(
        "{}  {}  {}",
        pad(&time, 14, false),
        pad(&fit(&escape(&id), 8), 8, false),
        pad(&fit(&escape(line.title()), 19), 19, false),
    );
    let what = fit(&what, width);
    let room = width.saturating_sub(14 + 2 + 8 + 2 + 19 + 2);
    let rule = ruled_by(line.rule.as_deref(), is_verbose);
    let room = room.saturating_sub(rule.chars().count());
    let detail = fit(&escape(format!("{}{mark}", line.words()).trim_start()), room) + &rule;
    let text = format!("{what}  {}", painter.paint(Colour::Dim, &detail));
    writeln!(out, "{}", if detail.is_empty() { what.trim_end() } else { &text })?;
    Ok(())
}
