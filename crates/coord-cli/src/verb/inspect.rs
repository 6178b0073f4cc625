//! `coord inspect [ID]`: all sessions, or one in depth. Asks the coordinator; reads the store itself
//! when none answers.

mod list;
pub(crate) mod on_demand;
pub(crate) mod runs;
mod session;
pub(crate) mod usage;
mod wide;

pub(crate) use coord_view::list::state_name;
pub(crate) use on_demand::git;
pub(crate) use session::{facts, needs, standing};

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use coord_config::Config;
use coord_host::registry::Readable;
use coord_model::SessionState;
use coord_model::stamp::parse_rfc3339;
use coord_view::list::{Ended, List, Number, Row, Seen};
use coord_view::messages;
use coord_view::offline::Offline;
use coord_view::{lookup, offline, sessions};
use coord_wire::exchange::Miss;
use coord_wire::inspect::{Coordinator, Inspect, SCHEMA};

use crate::client;
use crate::context::{Context, variable};
use crate::follow::JournalWatch;
use crate::out::{Colour, Failure, Painter, columns, escape, print_json};
use crate::this_machine::ThisMachine;
use crate::verb::completions;
use crate::verb::fleet;
use crate::verb::queue;
use crate::verb::status::{not_reachable, warn_elsewhere};
use list::Style;

/// Stopped sessions are listed this long (interfaces.md, retention).
const STOPPED_LISTED_S: u64 = 24 * 3600;

/// Show who needs you and what all sessions do, or one session in depth
#[derive(Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[command(
    after_help = "Examples:\n  coord inspect               who needs you first, then what works, waits and rests\n  coord inspect --needs-me    only what needs you; exit code 8 if nothing does\n  coord inspect parser        one session in depth, by name or id\n  coord inspect --fleet       also the sessions of the fleet's other machines\n  coord inspect laptop/parser   one of them in depth\n  coord inspect --watch       updated on every change\n  coord inspect --json        for programs: schema 1\n\nWithout a coordinator, it reads the recorded state from disk."
)]
pub(crate) struct Args {
    /// The name or id of a session, the id of a run, or the beginning of an id (4 characters or more)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    id: Option<String>,
    /// Print JSON; as -o json
    #[arg(long)]
    json: bool,
    /// Only sessions that need you; exit code 0 if there are some, else 8
    #[arg(long, conflicts_with = "id")]
    needs_me: bool,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", conflicts_with = "json")]
    output: Option<Output>,
    /// Include all sessions and runs that ended
    #[arg(long)]
    all: bool,
    /// Order of the rows; without it, by group
    #[arg(long, value_name = "KEY", conflicts_with = "id")]
    sort: Option<Sort>,
    /// Without column names and group names
    #[arg(long, conflicts_with = "id")]
    no_headers: bool,
    /// Columns to fit the list into; without a terminal, nothing is cut
    #[arg(long, value_name = "COLUMNS", conflicts_with = "id")]
    width: Option<usize>,
    /// Only signs of ASCII
    #[arg(long)]
    ascii: bool,
    /// Also the sessions of the fleet's other machines
    #[arg(long)]
    fleet: bool,
    /// Update the output on every change, until interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// More columns: id, directory, mode and last event
    Wide,
    /// As --json
    Json,
    /// The names, one per line
    Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// By name
    Name,
    /// By state
    State,
    /// The newest change first
    Age,
    /// By place
    Where,
    /// The fullest context first
    Context,
    /// The highest cost first
    Cost,
}

/// Cursor to the top left corner, rest of the screen cleared.
const TOP_OF_SCREEN: &str = "\u{1b}[H\u{1b}[J";

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    warn_elsewhere(context);
    if !args.watch {
        return show(args, context, &mut std::io::stdout().lock());
    }
    let journal = JournalWatch::new(context)?;
    loop {
        // Written at once, so that it does not flicker.
        let mut screen = TOP_OF_SCREEN.as_bytes().to_vec();
        show(args, &context.at_present(), &mut screen)?;
        let mut out = std::io::stdout().lock();
        out.write_all(&screen)?;
        out.flush()?;
        journal.pause(Duration::MAX)?;
    }
}

fn show(args: &Args, context: &Context, out: &mut impl Write) -> Result<(), Failure> {
    let Looked { mut answer, miss } = look_for(args, context)?;
    if args.id.is_some() {
        answer.sessions.iter_mut().for_each(|session| on_demand::look(session, context));
    }
    if args.json || args.output == Some(Output::Json) {
        return show_json(args, answer, context, out);
    }
    let painter = Painter::for_stdout();
    let mut is_needed = true;
    if args.id.is_some() {
        for session in &answer.sessions {
            session::depth(out, session, painter, context)?;
        }
        for run in &answer.runs {
            runs::depth(out, run, painter, context)?;
        }
    } else {
        is_needed = show_list(args, &answer, painter, context, out)?;
    }
    if args.output == Some(Output::Name) || args.no_headers {
        return if is_needed { Ok(()) } else { Err(Failure::NobodyNeeded) };
    }
    if let Some(totals) = answer.coordinator.messages.filter(queue::is_any_open) {
        let words = format!("{}; coord queue lists them", queue::totals(&totals));
        writeln!(out, "{}", painter.paint(Colour::Dim, &format!("messages: {words}")))?;
    }
    if let Some(miss) = miss {
        let note = format!("This is the last recorded state. {}", not_reachable(miss, context));
        writeln!(out, "{}", painter.paint(Colour::Dim, &escape(&note)))?;
    }
    for problem in &answer.coordinator.problems {
        writeln!(out, "{} {}", painter.paint(Colour::Yellow, "!"), escape(problem))?;
    }
    if is_needed { Ok(()) } else { Err(Failure::NobodyNeeded) }
}

fn show_json(
    args: &Args,
    mut answer: Inspect,
    context: &Context,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if args.id.is_none() && !args.all {
        runs::retain_listed(&mut answer.runs, context);
        answer.sessions.retain(|session| {
            session.state != SessionState::Stopped
                || age_s(&session.since, context) <= STOPPED_LISTED_S
        });
    }
    if args.needs_me {
        answer.sessions.retain(|session| session.need.is_some());
        answer.runs.clear();
    }
    let is_needed = !args.needs_me || !answer.sessions.is_empty();
    print_json(out, &answer)?;
    if is_needed { Ok(()) } else { Err(Failure::NobodyNeeded) }
}

/// Prints the list. Returns false if `--needs-me` was given and no session needs a person.
fn show_list(
    args: &Args,
    answer: &Inspect,
    painter: Painter,
    context: &Context,
    out: &mut impl Write,
) -> Result<bool, Failure> {
    let is_seen = std::io::stdout().is_terminal();
    let ended = match (args.all, is_seen && args.output.is_none()) {
        (true, _) => Ended::All,
        (false, true) => Ended::Newest,
        (false, false) => Ended::Recent,
    };
    let mut list = list_of(answer, context.now.wall_ms, ended);
    if args.needs_me {
        list.rows.retain(Row::needs_you);
        list.more = 0;
    }
    match args.sort {
        None => (),
        Some(Sort::Name) => list.rows.sort_by(|a, b| a.name.cmp(&b.name)),
        Some(Sort::State) => list.rows.sort_by(|a, b| a.state.cmp(&b.state)),
        Some(Sort::Age) => list.rows.sort_by_key(|row| row.age_s),
        Some(Sort::Where) => list.rows.sort_by(|a, b| a.place.cmp(&b.place)),
        Some(Sort::Context) => list.order_by(Number::Context),
        Some(Sort::Cost) => list.order_by(Number::Cost),
    }
    let is_needed = !args.needs_me || !list.is_empty();
    if args.output == Some(Output::Name) {
        for row in &list.rows {
            writeln!(out, "{}", escape(&row.name))?;
        }
        return Ok(is_needed);
    }
    if args.output == Some(Output::Wide) {
        wide::print(out, &list, answer, !args.no_headers)?;
        return Ok(is_needed);
    }
    if list.is_empty() {
        let words = if args.needs_me { "Nobody needs you." } else { nothing(context) };
        writeln!(out, "{words}")?;
        return Ok(is_needed);
    }
    let width = args.width.or_else(|| is_seen.then(columns));
    let is_ascii = args.ascii || !is_utf8();
    let style = Style { width, painter, is_ascii, has_heads: !args.no_headers };
    list::print(out, &list, style)?;
    Ok(is_needed)
}

/// What is said where there is no session.
pub(crate) fn nothing(context: &Context) -> &'static str {
    if context.paths.install_record().exists() {
        "No sessions yet. Start claude; it appears here at once."
    } else {
        "No sessions: Claude Code's hooks are not installed. → coord install"
    }
}

/// The rows as they are shown in this terminal.
pub(crate) fn list_of(answer: &Inspect, now_ms: u64, ended: Ended) -> List {
    let (home, server) = (home(), own_server());
    let seen = Seen { now_ms, home: &home, server: server.as_deref(), clock: clock_time, ended };
    List::of(answer, &seen)
}

/// The socket of the tmux server that this terminal is in.
pub(crate) fn own_server() -> Option<String> {
    let tmux = variable("TMUX")?.into_string().ok()?;
    Some(tmux.split(',').next()?.to_owned())
}

/// Whether the locale writes UTF-8.
pub(crate) fn is_utf8() -> bool {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let set = named.filter_map(|name| name.into_string().ok()).find(|name| !name.is_empty());
    set.is_none_or(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

/// A time of day on this machine's clock.
pub(crate) fn clock_time(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(chrono::DateTime::from_timestamp_millis);
    at.map_or_else(String::new, |at| at.with_timezone(&chrono::Local).format("%H:%M").to_string())
}

/// Sessions and runs, or those that an id means.
fn look_for(args: &Args, context: &Context) -> Result<Looked, Failure> {
    let Some(id) = args.id.as_deref() else {
        let mut looked = look(None, context)?;
        looked.answer.runs = coord_run::runs::all(&context.paths)?;
        if args.fleet {
            let machines = fleet::machines::all(context)?;
            looked
                .answer
                .sessions
                .extend(machines.iter().flat_map(fleet::machines::Machine::sessions));
        }
        return Ok(looked);
    };
    if let Some((machine, word)) = id.split_once('/') {
        let (machine, session) = fleet::machines::session(machine, word, context)?;
        let mut sessions = machine.sessions();
        sessions.retain(|one| one.session_id == session);
        let answer = Inspect { schema: SCHEMA, sessions, ..Inspect::default() };
        return Ok(Looked { answer, miss: None });
    }
    match look(Some(id), context) {
        Err(Failure::NoSuchSession(text)) => {
            let runs = runs::named(id, context)?;
            if runs.is_empty() {
                return Err(Failure::NoSuchSession(text));
            }
            let coordinator = Coordinator::default();
            let answer = Inspect { schema: SCHEMA, coordinator, runs, ..Inspect::default() };
            Ok(Looked { answer, miss: None })
        }
        looked => looked,
    }
}

/// What was found, and why not by the coordinator.
pub(crate) struct Looked {
    pub(crate) answer: Inspect,
    pub(crate) miss: Option<Miss>,
}

/// All sessions, or those that an id means: from the coordinator, else from the store.
pub(crate) fn look(id: Option<&str>, context: &Context) -> Result<Looked, Failure> {
    let path = match id {
        Some(id) => format!("/v1/sessions/{}", client::segment(id)),
        None => "/v1/sessions".to_owned(),
    };
    match client::get(context, &path) {
        Ok(answer) => Ok(Looked { answer: answer?, miss: None }),
        Err(miss) => Ok(Looked { answer: from_store(id, context)?, miss: Some(miss) }),
    }
}

/// The same answer from the files.
fn from_store(id: Option<&str>, context: &Context) -> Result<Inspect, Failure> {
    let (store, bad_config) = read_store(id, context)?;
    let sessions = match id {
        None => sessions::sessions(&store.state, context.now),
        Some(id) => {
            let found = lookup::find(&store.state, id)?;
            found
                .into_iter()
                .map(|session| sessions::session(&store.state, session, context.now))
                .collect()
        }
    };
    // Of one session no more may have been read than that.
    let messages = id.is_none().then(|| messages::totals(&store.state, context.now));
    let mut problems = store.problems;
    problems.extend(bad_config);
    let spool_pending = store.spool_pending;
    let coordinator = Coordinator { spool_pending, problems, messages, ..Coordinator::default() };
    let accounts = match id {
        None => coord_view::usage::accounts(&store.state, context.now),
        Some(_) => Vec::new(),
    };
    Ok(Inspect { schema: SCHEMA, coordinator, sessions, accounts, runs: Vec::new() })
}

/// The files, and what is wrong with the configuration.
pub(crate) fn read_store(
    id: Option<&str>,
    context: &Context,
) -> anyhow::Result<(Offline, Option<String>)> {
    let config_file = context.paths.config_file();
    let (config, bad_config) = match Config::load(&config_file) {
        Ok(config) => (config, None),
        Err(error) => (Config::default(), Some(format!("{}: {error}", config_file.display()))),
    };
    let readable =
        Readable { root: context.root.clone(), named: config.tracking.config_dirs.0.clone() };
    let machine = ThisMachine { here: &context.here, readable };
    let store = offline::read(&context.paths, &machine, id, context.now)?;
    Ok((store, bad_config))
}

pub(crate) fn age_s(at: &str, context: &Context) -> u64 {
    let at_ms = parse_rfc3339(at).unwrap_or(context.now.wall_ms);
    context.now.wall_ms.saturating_sub(at_ms) / 1000
}

pub(crate) fn colour(state: SessionState) -> Colour {
    match state {
        SessionState::Running
        | SessionState::Starting
        | SessionState::Background
        | SessionState::Recovering => Colour::Green,
        SessionState::AwaitingPermission
        | SessionState::AwaitingInput
        | SessionState::QuotaWait
        | SessionState::Stalled
        | SessionState::Interrupted
        | SessionState::RecoveryPending => Colour::Yellow,
        SessionState::Crashed | SessionState::BlockedAuth | SessionState::BlockedBilling => {
            Colour::Red
        }
        SessionState::Idle => Colour::Plain,
        SessionState::Suspended
        | SessionState::Foreign
        | SessionState::Elsewhere
        | SessionState::Stopped
        | SessionState::Unknown => Colour::Dim,
    }
}

/// The home directory as people write it.
pub(crate) fn tilde(path: &str) -> String {
    coord_view::list::tilde(path, &home())
}

/// The home directory; empty if unknown.
pub(crate) fn home() -> String {
    variable("HOME").and_then(|home| home.into_string().ok()).unwrap_or_default()
}
