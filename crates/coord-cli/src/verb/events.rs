//! `coord events [ID]`: the history, read from the journal itself, with or without a coordinator. `--fleet` reads that of all
//! machines from the fleet's server.

mod fleet;

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};

use anyhow::anyhow;
use chrono::{DateTime, Local};
use coord_config::Config;
use coord_model::ProcessRef;
use coord_store::{RealDisk, StateLock};
use coord_view::history::{self, Detail, Entry, Fold, Line, Newest, Of, Reader, Wanted};
use coord_view::offline;
use coord_wire::inspect::Session;

use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Colour, Failure, Painter, columns, duration_ms, escape, fit, pad, print_json};
use crate::verb::completions;
use crate::verb::explain::ruled_by;
use crate::verb::inspect::{look, runs};

const DAY_MS: u64 = 24 * 3_600_000;
/// Columns of a session's id.
const ID_COLUMNS: usize = 8;
/// `--follow` begins with so many lines, as `tail -f` does.
const FOLLOWED_LINES: usize = 10;

/// Show what happened, from the journal
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord events                 what happened to all sessions\n  coord events parser          one session, with its tools and messages\n  coord events --all           also what coord observed\n  coord events -n 20           the last 20 lines\n  coord events --since 10m     the last ten minutes\n  coord events --follow        the last lines, then each new one\n  coord events --json | jq .   one JSON object per record, none left out or folded\n  coord events --fleet         all machines of the fleet, in the order in which its server got them\n  coord events laptop/parser   one session of another machine\n\nOf other machines, and of this one with --fleet, it shows what the fleet's server holds, 24 hours by\ndefault. Only one in 10 seconds of a session's tools is published, and nothing that coord observed.\n--since then counts from when the server got the event, by the server's clock. Exit code 4: the\nserver is not reachable."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Args {
    /// The name or id of a session, the id of a run or a message, or the beginning of an id; MACHINE/ID for a session of another
    /// machine
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    id: Option<String>,
    /// Show all machines of the fleet
    #[arg(long)]
    fleet: bool,
    /// Show also what coord observed: processes, registry, screens, and the coordinator itself
    #[arg(long)]
    all: bool,
    /// Show only events of the last TIME, such as 90s, 10m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    since: Option<u64>,
    /// Show only the last N lines
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<usize>,
    /// Keep printing new events, after the last 10 lines unless -n, --since or --json is given
    #[arg(long, short)]
    follow: bool,
    /// Add the id of the rule to each decision
    #[arg(long, short)]
    verbose: bool,
    /// Print one JSON object per record
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.fleet || args.id.as_ref().is_some_and(|id| id.contains('/')) {
        return fleet::run(args, context);
    }
    // Watched before the first look: what is written in between is news.
    let journal = if args.follow { Some(JournalWatch::new(context)?) } else { None };
    let wanted = wanted(args, context)?;
    let mut printer = Printer::new(args);
    let mut reader = match first_lines(args) {
        Some(max) => {
            let Newest { lines, reader } = newest(wanted, args, max, context)?;
            printer.lines(lines, max)?;
            reader
        }
        None => {
            let mut reader = Reader::new(wanted);
            printer.rest(&mut reader, context)?;
            reader
        }
    };
    if let Some(journal) = journal {
        loop {
            printer.rest(&mut reader, context)?;
            journal.await_news()?;
        }
    }
    match &args.id {
        Some(id) if !printer.any => {
            let config = Config::load(&context.paths.config_file()).unwrap_or_default();
            let days = config.store.journal_kept.0 / DAY_MS;
            Err(Failure::NoSuchSession(format!("No session {id:?}. Events are kept {days} days.")))
        }
        None if !printer.any && !args.json => Err(anyhow!(
            "no events yet; they appear when Claude Code runs with coord's hooks (coord install)"
        )
        .into()),
        Some(_) | None => Ok(()),
    }
}

/// The newest entries of one session as people read them, oldest first.
pub(crate) fn newest_of(id: &str, max: usize, context: &Context) -> Result<Vec<Entry>, Failure> {
    let args = Args {
        id: Some(id.to_owned()),
        fleet: false,
        all: false,
        since: None,
        lines: Some(max),
        follow: false,
        verbose: false,
        json: false,
    };
    let Newest { lines, .. } = newest(wanted(&args, context)?, &args, max, context)?;
    let mut fold = Fold::default();
    let mut entries: Vec<Entry> = lines.into_iter().flat_map(|line| fold.push(line)).collect();
    entries.extend(fold.finish());
    let left_out = entries.len().saturating_sub(max);
    Ok(entries.split_off(left_out))
}

/// How many lines are printed first, if not all.
fn first_lines(args: &Args) -> Option<usize> {
    let is_tail = args.follow && !args.json && args.since.is_none();
    args.lines.or(is_tail.then_some(FOLLOWED_LINES))
}

/// The lines that are printed: programs get every record, people what they asked for.
fn wanted(args: &Args, context: &Context) -> Result<Wanted, Failure> {
    let detail = detail(args);
    let since_ms = args.since.map_or(0, |ms| context.now.wall_ms.saturating_sub(ms));
    let mut wanted = Wanted { since_ms, detail, ..Wanted::default() };
    let Some(id) = &args.id else { return Ok(wanted) };
    let sessions = sessions(id, context)?;
    wanted.messages_of = Some(sessions.iter().filter_map(|session| session.key).collect());
    if args.all {
        let owners = sessions.iter().filter_map(|session| session.owner.as_ref());
        let process = owners.map(|one| ProcessRef { pid: one.pid, start_time: one.start_time });
        wanted.processes = process.collect();
    }
    let ids: BTreeSet<String> = sessions
        .into_iter()
        .flat_map(|session| session.previous_ids.into_iter().chain([session.session_id]))
        .collect();
    // Without a record the history is searched for the word.
    wanted.of = Some(if ids.is_empty() { Of::Beginning(id.to_owned()) } else { Of::Ids(ids) });
    Ok(wanted)
}

/// How much of the history is shown.
fn detail(args: &Args) -> Detail {
    match (args.all, args.json, &args.id) {
        (true, _, _) => Detail::All,
        (false, true, _) => Detail::Records,
        (false, false, Some(_)) => Detail::Work,
        (false, false, None) => Detail::Edges,
    }
}

/// The sessions that a word means, which may be the id of a run (U-10).
fn sessions(word: &str, context: &Context) -> Result<Vec<Session>, Failure> {
    match look(Some(word), context) {
        Ok(found) => return Ok(found.answer.sessions),
        Err(Failure::NoSuchSession(_)) => (),
        Err(failure) => return Err(failure),
    }
    let of_runs = runs::named(word, context)?.into_iter().find_map(|run| run.shown.session_id);
    match of_runs.map(|id| look(Some(&id), context)) {
        Some(Ok(found)) => Ok(found.answer.sessions),
        Some(Err(Failure::NoSuchSession(_))) | None => Ok(Vec::new()),
        Some(Err(failure)) => Err(failure),
    }
}

/// Reads the newest lines.
fn newest(wanted: Wanted, args: &Args, max: usize, context: &Context) -> Result<Newest, Failure> {
    let journal = context.paths.journal();
    if !offline::is_there(&context.paths)? || !journal.is_dir() {
        return Ok(Newest { lines: Vec::new(), reader: Reader::new(wanted) });
    }
    let _lock = StateLock::shared(&context.paths.state_lock()).map_err(anyhow::Error::from)?;
    let found = if args.json {
        history::newest_lines(&RealDisk, &journal, &wanted, max)
    } else {
        history::newest_entries(&RealDisk, &journal, &wanted, max)
    };
    Ok(found.map_err(anyhow::Error::from)?)
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

/// Prints lines, folded for people.
struct Printer<'a> {
    args: &'a Args,
    style: Style,
    fold: Fold,
    /// Whether anything was printed.
    any: bool,
}

impl<'a> Printer<'a> {
    fn new(args: &'a Args) -> Self {
        Self { args, style: Style::new(args), fold: Fold::default(), any: false }
    }

    /// Prints what was not printed yet. What is there at once folds; a line that is printed does not change.
    fn rest(&mut self, reader: &mut Reader, context: &Context) -> Result<(), Failure> {
        while let Some(lines) = next_piece(reader, context)? {
            let entries: Vec<Entry> =
                lines.into_iter().flat_map(|line| self.folded(line)).collect();
            self.print(&entries)?;
        }
        let entries = self.fold.finish();
        self.print(&entries)
    }

    /// Prints lines, the newest `max` of them once they are folded.
    fn lines(&mut self, lines: Vec<Line>, max: usize) -> Result<(), Failure> {
        let mut entries: Vec<Entry> =
            lines.into_iter().flat_map(|line| self.folded(line)).collect();
        entries.extend(self.fold.finish());
        let left_out = entries.len().saturating_sub(max);
        self.print(&entries.split_off(left_out))
    }

    fn folded(&mut self, line: Line) -> Vec<Entry> {
        if self.args.json { vec![Entry::of(line)] } else { self.fold.push(line) }
    }

    fn print(&mut self, entries: &[Entry]) -> Result<(), Failure> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for entry in entries {
            self.any = true;
            if self.args.json {
                print_json(&mut out, &entry.first)?;
            } else {
                let id = entry.first.session_id.as_deref().unwrap_or("-");
                let id: String = id.chars().take(ID_COLUMNS).collect();
                self.style.text(&mut out, (&id, ID_COLUMNS), entry)?;
            }
        }
        Ok(out.flush()?)
    }
}

/// How entries are written for people.
struct Style {
    painter: Painter,
    width: usize,
    names_rules: bool,
}

impl Style {
    fn new(args: &Args) -> Self {
        Self { painter: Painter::for_stdout(), width: columns(), names_rules: args.verbose }
    }

    /// Writes an entry as a line, with the session's name in a column as wide as is said.
    fn text(
        &self,
        out: &mut impl Write,
        (session, columns): (&str, usize),
        entry: &Entry,
    ) -> Result<(), Failure> {
        let line = &entry.first;
        let time = DateTime::parse_from_rfc3339(&line.at).map_or_else(
            |_| line.at.clone(),
            |at| at.with_timezone(&Local).format("%m-%d %H:%M:%S").to_string(),
        );
        let mark = match line.verified {
            Some(false) => " (not verified)",
            Some(true) | None => "",
        };
        let what = format!(
            "{}  {}  {}",
            pad(&time, 14, false),
            pad(&fit(&escape(session), columns), columns, false),
            pad(&fit(&escape(&entry.title()), 19), 19, false),
        );
        let what = fit(&what, self.width);
        let rule = ruled_by(line.rule.as_deref(), self.names_rules);
        let room = self.width.saturating_sub(14 + 2 + columns + 2 + 19 + 2);
        let room = room.saturating_sub(rule.chars().count());
        let words = format!("{}{mark}", entry.words());
        let detail = fit(&escape(words.trim_start()), room) + &rule;
        let text = format!("{what}  {}", self.painter.paint(Colour::Dim, &detail));
        writeln!(out, "{}", if detail.is_empty() { what.trim_end() } else { &text })?;
        Ok(())
    }
}
