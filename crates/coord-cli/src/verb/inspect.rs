//! `coord inspect [ID]`: all sessions, or one in depth. Asks the coordinator; reads the store itself
//! when none answers.

pub(crate) mod runs;

use std::io::Write;
use std::time::Duration;

use coord_config::Config;
use coord_host::registry::Readable;
use coord_model::stamp::parse_rfc3339;
use coord_model::{Kind, SessionState};
use coord_view::messages;
use coord_view::offline::Offline;
use coord_view::{lookup, offline, sessions};
use coord_wire::exchange::Miss;
use coord_wire::inspect::{self, Coordinator, Inspect, SCHEMA, Session};

use crate::client;
use crate::context::{Context, variable};
use crate::follow::JournalWatch;
use crate::out::{Colour, Failure, Painter, age, columns, escape, fit, fit_end, pad, print_json};
use crate::this_machine::ThisMachine;
use crate::verb::queue;
use crate::verb::status::{counted, not_reachable, warn_elsewhere};

/// Stopped sessions are listed this long (interfaces.md, retention).
const STOPPED_LISTED_S: u64 = 24 * 3600;

/// Show all sessions, or one in depth
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord inspect               all sessions, without those that stopped over a day ago\n  coord inspect 3f2a          one session in depth\n  coord inspect --watch       all sessions, updated on every change\n  coord inspect --json        for programs: schema 1, see docs/reference.md\n\nWithout a coordinator, it reads the recorded state from disk."
)]
pub(crate) struct Args {
    /// The id of a session or a run, or the beginning of one (4 characters or more)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Include sessions that stopped over a day ago
    #[arg(long)]
    all: bool,
    /// Update the output on every change, until interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
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
    if args.id.is_none() && !args.all {
        answer.sessions.retain(|session| {
            session.state != SessionState::Stopped
                || age_s(&session.since, context) <= STOPPED_LISTED_S
        });
    }
    if args.json {
        return print_json(out, &answer);
    }
    let painter = Painter::for_stdout();
    match args.id {
        Some(_) => {
            for session in &answer.sessions {
                depth(out, session, painter, context)?;
            }
            for run in &answer.runs {
                runs::depth(out, run, painter, context)?;
            }
        }
        None => {
            table(out, &answer.sessions, painter, context)?;
            runs::table(out, &answer.runs, painter, context)?;
        }
    }
    if let Some(totals) = answer.coordinator.messages.filter(queue::is_any_open) {
        let words = format!("{}; coord queue lists them", queue::totals(&totals));
        writeln!(out, "{}", painter.paint(Colour::Dim, &format!("messages: {words}")))?;
    }
    if let Some(miss) = miss {
        let note = format!("{}. This is the last recorded state.", not_reachable(miss, context));
        writeln!(out, "{}", painter.paint(Colour::Dim, &escape(&note)))?;
    }
    for problem in &answer.coordinator.problems {
        writeln!(out, "{} {}", painter.paint(Colour::Yellow, "!"), escape(problem))?;
    }
    Ok(())
}

/// Sessions and runs, or those that an id means.
fn look_for(args: &Args, context: &Context) -> Result<Looked, Failure> {
    let Some(id) = args.id.as_deref() else {
        let mut looked = look(None, context)?;
        looked.answer.runs = runs::listed(context, args.all)?;
        return Ok(looked);
    };
    match look(Some(id), context) {
        Err(Failure::NoSuchSession(text)) => {
            let runs = runs::named(id, context)?;
            if runs.is_empty() {
                return Err(Failure::NoSuchSession(text));
            }
            let coordinator = Coordinator::default();
            let answer = Inspect { schema: SCHEMA, coordinator, sessions: Vec::new(), runs };
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
    Ok(Inspect { schema: SCHEMA, coordinator, sessions, runs: Vec::new() })
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

/// The word of a state as the JSON has it.
pub(crate) fn word(state: SessionState) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
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
    let home = variable("HOME").and_then(|home| home.into_string().ok()).unwrap_or_default();
    match path.strip_prefix(home.as_str()) {
        Some(rest) if !home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            format!("~{rest}")
        }
        Some(_) | None => path.to_owned(),
    }
}

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Session,
    State,
    Since,
    Kind,
    Pane,
    Directory,
    LastEvent,
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::Session => "SESSION",
            Self::State => "STATE",
            Self::Since => "SINCE",
            Self::Kind => "KIND",
            Self::Pane => "PANE",
            Self::Directory => "DIRECTORY",
            Self::LastEvent => "LAST EVENT",
        }
    }

    fn cell(self, session: &Session, width: usize, context: &Context) -> String {
        match self {
            Self::Session => {
                fit(&escape(&session.session_id.chars().take(8).collect::<String>()), width)
            }
            Self::State => fit(&format!("{}{}", word(session.state), mark(session)), width),
            Self::Since => fit(&age(age_s(&session.since, context)), width),
            Self::Kind => match session.kind {
                Some(Kind::Interactive) if session.unattended => "auto",
                Some(Kind::Interactive) => "tty",
                Some(Kind::Headless) => "-p",
                None => "?",
            }
            .to_owned(),
            Self::Pane => {
                fit(&escape(session.tmux.as_ref().map_or("-", |tmux| tmux.pane.as_str())), width)
            }
            Self::Directory => fit_end(&escape(&tilde(&session.cwd)), width),
            Self::LastEvent => {
                let last = session.last_event.as_ref().map_or("-", |last| last.name.as_str());
                fit(&escape(last), width)
            }
        }
    }
}

/// Behind the state of a session that goes on only if a person does something.
fn mark(session: &Session) -> &'static str {
    if session.needs_operator.is_some() { " !" } else { "" }
}

/// The columns that `total` has room for, with their widths; two blanks stand between them.
fn layout(total: usize, state: usize) -> Vec<(Column, usize)> {
    const PATH_MIN: usize = 10;
    let always = [(Column::Session, 8), (Column::State, state), (Column::Since, 5)];
    let Some(rest) = total.checked_sub(8 + 2 + state + 2 + 5) else {
        let state = total.saturating_sub(8 + 2);
        return vec![(Column::Session, total.min(8)), (Column::State, state)];
    };
    let (place, room) = (4 + 5 + 2 * 2, PATH_MIN + 2);
    let mut columns = always.to_vec();
    if place + room <= rest {
        columns.extend([(Column::Kind, 4), (Column::Pane, 5)]);
    }
    if place + 2 * room <= rest {
        let rest = rest - place - 2 * 2;
        let last = 18.min(rest / 2);
        columns.extend([(Column::Directory, rest - last), (Column::LastEvent, last)]);
    } else if place + room <= rest {
        columns.push((Column::Directory, rest - place - 2));
    } else if room <= rest {
        columns.push((Column::Directory, rest - 2));
    }
    columns
}

fn table(
    out: &mut impl Write,
    sessions: &[Session],
    painter: Painter,
    context: &Context,
) -> Result<(), Failure> {
    if sessions.is_empty() {
        writeln!(
            out,
            "No sessions. They appear when Claude Code runs with coord's hooks (coord install)."
        )?;
        return Ok(());
    }
    let state_width = |one: &Session| word(one.state).len() + mark(one).len();
    let state_width = sessions.iter().map(state_width).max().unwrap_or(0).max(5);
    let columns_wide = columns();
    let columns = layout(columns_wide, state_width);
    let heads: Vec<String> = columns
        .iter()
        .map(|(column, width)| pad(&fit(column.head(), *width), *width, *column == Column::Since))
        .collect();
    writeln!(out, "{}", painter.paint(Colour::Bold, heads.join("  ").trim_end()))?;
    let waiting = sessions.iter().filter(|one| one.needs_operator.is_some()).count();
    for session in sessions {
        let mut line = Vec::new();
        for (column, width) in &columns {
            let cell = column.cell(session, *width, context);
            let cell = pad(&cell, *width, *column == Column::Since);
            line.push(match column {
                Column::State if session.needs_operator.is_some() => {
                    painter.paint(Colour::Red, &cell)
                }
                Column::State => painter.paint(colour(session.state), &cell),
                Column::Session
                | Column::Since
                | Column::Kind
                | Column::Pane
                | Column::Directory
                | Column::LastEvent => cell,
            });
        }
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    let has_kinds = columns.iter().any(|(column, _)| *column == Column::Kind);
    let is_auto = |one: &Session| one.unattended && one.kind == Some(Kind::Interactive);
    if has_kinds && sessions.iter().any(is_auto) {
        let note = fit("auto: unattended, nobody watches it", columns_wide);
        writeln!(out, "{}", painter.paint(Colour::Dim, &note))?;
    }
    if 0 < waiting {
        let note = "! needs you; `coord explain ID` says why";
        writeln!(out, "{}", painter.paint(Colour::Red, &fit(note, columns_wide)))?;
    }
    Ok(())
}

/// How a person brings the conversation back, where its process is gone (H-05). Only for an id of
/// plain characters: what is shown is meant to be pasted into a shell.
fn resume_command(session: &Session) -> Option<String> {
    let is_gone = session.owner.as_ref().is_some_and(|owner| owner.alive == Some(false));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_offered = session.resumable && is_gone && session.session_id.chars().all(is_plain);
    is_offered.then(|| format!("claude --resume {} (in its directory)", session.session_id))
}

/// How many messages of a session are where.
fn messages_of(session: &Session) -> Option<String> {
    let inspect::Messages { pending, processing, failed } = session.messages;
    let many = [(pending, "waiting"), (processing, "on the way"), (failed, "failed")];
    let many = many.into_iter().filter(|(n, _)| 0 < *n).map(|(n, what)| format!("{n} {what}"));
    let many = many.collect::<Vec<_>>().join(", ");
    let id: String = session.session_id.chars().take(8).collect();
    (!many.is_empty()).then(|| format!("{many}; `coord queue --session {id}` says why"))
}

/// What is done with a session, is not done, or waits for a person; as far as it applies: a name and
/// its words.
pub(crate) fn standing(session: &Session, context: &Context) -> Vec<(&'static str, String)> {
    let ago = |at: &str| age(age_s(at, context));
    let mut all = Vec::new();
    if let Some(needs) = &session.needs_operator {
        let id: String = session.session_id.chars().take(8).collect();
        let remedy = format!("`coordctl reset-failed {id}` lets coord try again");
        all.push(("needs you", format!("{}, for {}; {remedy}", needs.reason, ago(&needs.since))));
    }
    if let Some(hold) = &session.hold {
        let until = match hold.until.as_deref().and_then(parse_rfc3339) {
            Some(until_ms) => {
                let left_ms = until_ms.saturating_sub(context.now.wall_ms);
                format!("for {} more", age(left_ms / 1000))
            }
            None => "until that reason ends".to_owned(),
        };
        all.push(("held", format!("{}, {until}; coord does not act on it", hold.reason)));
    }
    if let Some(pending) = &session.pending_recovery {
        let next = pending.next_attempt_at.as_deref().and_then(parse_rfc3339).map(|at_ms| {
            let left_ms = at_ms.saturating_sub(context.now.wall_ms);
            format!(", the next in {}", age(left_ms / 1000))
        });
        let (cause, since) = (&pending.cause, ago(&pending.detected_at));
        let tried = pending.attempts;
        let next = next.unwrap_or_default();
        all.push(("recovery", format!("pending: {cause}, for {since}; {tried} attempts{next}")));
    }
    all.extend(by_hand(session).map(|words| ("by hand", words)));
    all.extend(messages_of(session).map(|words| ("messages", words)));
    let done = &session.recovery;
    if 0 < done.total {
        let outcome = done.last_outcome.as_deref().unwrap_or("not known yet");
        let last = done.last_at.as_deref().map(|at| format!(", {} ago", ago(at)));
        let (total, turn) = (done.total, done.this_turn);
        let last = last.unwrap_or_default();
        all.push((
            "recovered",
            format!("{}, {turn} in this turn; {outcome}{last}", counted(total.into(), "time")),
        ));
    }
    if let Some(quota) = &session.quota {
        let until = match quota.until.as_deref().and_then(parse_rfc3339) {
            Some(until_ms) => {
                let left_ms = until_ms.saturating_sub(context.now.wall_ms);
                format!("it resets in {}, according to the {}", age(left_ms / 1000), quota.source)
            }
            None => "the time of the reset is not known".to_owned(),
        };
        all.push(("quota", format!("{} for {}; {until}", quota.kind, ago(&quota.since))));
    }
    if session.unattended {
        all.push(("attended", "no: nobody watches it".to_owned()));
    }
    if let Some(answers) = &session.answers {
        let (total, now) = (u64::from(answers.total), answers.this_iteration);
        let what = if answers.questions { "prompts and questions" } else { "prompts to continue" };
        let times = counted(total, "time");
        all.push(("answered", format!("{times}, {now} in this iteration; {what}")));
    }
    if let Some(task) = &session.task {
        let stopped = if task.stopped { ", stopped by its .auto-stop" } else { "" };
        all.push(("task", format!("{}{stopped}", tilde(&task.dir))));
    }
    all
}

/// H-06: what is not brought back is one command away.
fn by_hand(session: &Session) -> Option<String> {
    let is_down = matches!(
        session.state,
        SessionState::Crashed | SessionState::Interrupted | SessionState::Unknown
    );
    let is_dead = session.owner.as_ref().is_some_and(|owner| owner.alive == Some(false));
    let is_left = is_down && is_dead && session.resumable && session.pending_recovery.is_none();
    is_left.then(|| format!("`claude --resume {}` in {}", session.session_id, tilde(&session.cwd)))
}

fn depth(
    out: &mut impl Write,
    session: &Session,
    painter: Painter,
    context: &Context,
) -> Result<(), Failure> {
    let state = word(session.state);
    writeln!(
        out,
        "{}  {} for {}",
        painter.paint(Colour::Bold, &escape(&session.session_id)),
        painter.paint(colour(session.state), &state),
        age(age_s(&session.since, context))
    )?;
    let owner = session.owner.as_ref().map(|owner| {
        let alive = match owner.alive {
            Some(true) => "alive",
            Some(false) => "gone",
            None => "not checked",
        };
        format!("pid {} ({alive})", owner.pid)
    });
    let pane = session.tmux.as_ref().map(|tmux| format!("{} on {}", tmux.pane, tmux.socket));
    let background = session.background.map(|work| {
        format!("{} tasks, {} subagents, {} wake-ups", work.tasks, work.subagents, work.crons)
    });
    let kind = session.kind.map(|kind| match kind {
        Kind::Interactive => "interactive".to_owned(),
        Kind::Headless => "headless".to_owned(),
    });
    let previous = (!session.previous_ids.is_empty()).then(|| session.previous_ids.join(", "));
    let because = [("name", session.name.clone()), ("because", Some(session.because.clone()))];
    let standing = standing(session, context).into_iter().map(|(name, is)| (name, Some(is)));
    let resumable = if session.resumable { "yes" } else { "no turn to resume is known" };
    let rest = [
        ("kind", kind),
        ("process", owner),
        ("pane", pane),
        ("directory", Some(tilde(&session.cwd))),
        ("transcript", Some(tilde(&session.transcript_path))),
        ("config", Some(tilde(&session.config_dir))),
        ("host", Some(session.host.clone())),
        ("permissions", session.permission_mode.clone()),
        ("background", background),
        ("earlier ids", previous),
        ("resumable", Some(resumable.to_owned())),
        ("resume with", resume_command(session)),
    ];
    for (name, value) in because.into_iter().chain(standing).chain(rest) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            writeln!(out, "  {name:11} {}", escape(&value))?;
        }
    }
    if !session.evidence.is_empty() {
        writeln!(out, "  evidence")?;
    }
    for evidence in &session.evidence {
        let line = format!("{:10} {}", escape(&evidence.source), escape(&evidence.fact));
        let ago = painter.paint(Colour::Dim, &format!("{} ago", age(evidence.age_s)));
        writeln!(out, "    {line}  {ago}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(more: &serde_json::Value) -> Session {
        let mut all = serde_json::json!({
            "session_id": "aaaa1111-2222", "previous_ids": [], "forked_from": null, "host": "",
            "config_dir": "", "resumable": true, "name": null, "provider": "claude", "kind": null,
            "status": "stopped", "state": "crashed", "since": "", "awaiting_permission": null,
            "pending_recovery": null, "recovery": {"this_turn": 0, "total": 0, "last_at": null,
            "last_outcome": null}, "quota": null, "background": null, "stall_count": 0,
            "unattended": false, "parent": null, "needs_operator": null, "hold": null,
            "disagreement": null, "owner": null, "tmux": null, "cwd": "", "transcript_path": "",
            "permission_mode": null, "last_event": null, "evidence": [],
            "messages": {"pending": 0, "processing": 0, "failed": 0},
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    // G5, G12: what waits for a person, what holds, and what was tried can be read.
    #[test]
    fn what_stands_against_a_session_is_shown_as_far_as_it_applies() {
        let root = std::path::PathBuf::from("/nonexistent");
        let mut context = Context::from_environment(Some(root)).unwrap();
        context.now.wall_ms = parse_rfc3339("2026-01-01T00:10:00.000Z").unwrap();
        assert_eq!(standing(&session(&serde_json::json!({})), &context), []);
        let since = "2026-01-01T00:08:00.000Z";
        let all = session(&serde_json::json!({
            "needs_operator": {"reason": "10 recoveries in all", "since": since},
            "hold": {"reason": "by hand", "since": since, "until": "2026-01-01T00:15:00.000Z"},
            "pending_recovery": {"cause": "died", "detected_at": since, "attempts": 2,
                "next_attempt_at": "2026-01-01T00:10:05.000Z"},
            "recovery": {"this_turn": 1, "total": 3, "last_at": since, "last_outcome": "verified"},
            "unattended": true,
        }));
        let shown = standing(&all, &context);
        let wanted = [
            (
                "needs you",
                "10 recoveries in all, for 2m; `coordctl reset-failed aaaa1111` lets coord try again",
            ),
            ("held", "by hand, for 5m more; coord does not act on it"),
            ("recovery", "pending: died, for 2m; 2 attempts, the next in 5s"),
            ("recovered", "3 times, 1 in this turn; verified, 2m ago"),
            ("attended", "no: nobody watches it"),
        ];
        assert_eq!(shown, wanted.map(|(name, words)| (name, words.to_owned())));
        assert_eq!(mark(&all), " !");
        let mut text = Vec::new();
        table(&mut text, &[all], Painter::for_stdout(), &context).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("crashed !") && text.contains("! needs you"), "{text}");
    }
}
