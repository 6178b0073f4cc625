//! `coord explain ID`: why a session or a message is in its state: what was seen, which rule decided, what
//! was decided before, and what would change it (G9).

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::anyhow;
use coord_model::{MessageId, NeedId, RequestId};
use coord_store::{RealDisk, StateLock};
use coord_view::history::{self, Line, Of, Wanted};
use coord_view::list::shown_name;
use coord_view::work;
use coord_wire::inspect::Session;

use crate::context::Context;
use crate::out::{Colour, Failure, Painter, age, escape, print_json};
use crate::verb::completions;
use crate::verb::inspect::{age_s, colour, look, runs, standing, state_name};
use crate::verb::queue;

/// So many decisions are shown, the newest ones.
const DECISIONS_MAX: usize = 20;
/// Newest decisions among which that on a request is looked for.
const SEARCHED_MAX: usize = 10_000;

/// Show why a session, a message or a need is in its state
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord explain parser\n  coord explain m_x7d2\n  coord explain a_16.3    how this need was announced, and why a channel was silent\n  coord explain r_7k2d    who answered this request, from where, and what the client did"
)]
pub(crate) struct Args {
    /// The name or id of a session, or the id of a run, a message (m_…), a need (a_…) or a request (r_…)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    id: String,
    /// Add the id of the rule to each decision
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.id.starts_with(MessageId::PREFIX) {
        return message(args, context);
    }
    if args.id.starts_with("a_") {
        return need(&args.id, args, context);
    }
    if args.id.starts_with(RequestId::PREFIX) {
        return need(&need_of_request(&args.id, context)?, args, context);
    }
    let mut out = std::io::stdout().lock();
    let sessions = match look(Some(&args.id), context) {
        Ok(looked) => looked.answer.sessions,
        Err(Failure::NoSuchSession(text)) => {
            let found = runs::named(&args.id, context)?;
            for run in &found {
                runs::explain(&mut out, run, args.json, args.verbose, context)?;
            }
            return if found.is_empty() { Err(Failure::NoSuchSession(text)) } else { Ok(()) };
        }
        Err(other) => return Err(other),
    };
    for session in &sessions {
        let decisions = decisions(session, context)?;
        if args.json {
            let answer = serde_json::json!({
                "schema": 1,
                "session_id": session.session_id,
                "name": session.name,
                "state": session.state,
                "since": session.since,
                "rule": session.rule,
                "because": session.because,
                "evidence": session.evidence,
                "git": session.git,
                "disagreement": session.disagreement,
                "needs_operator": session.needs_operator,
                "hold": session.hold,
                "pending_recovery": session.pending_recovery,
                "recovery": session.recovery,
                "changes_when": session.changes_when,
                "decisions": decisions,
            });
            print_json(&mut out, &answer)?;
        } else {
            text(&mut out, session, &decisions, args.verbose, context)?;
        }
    }
    Ok(())
}

/// A message: where it is and why, and what became of it so far.
fn message(args: &Args, context: &Context) -> Result<(), Failure> {
    let message = queue::find(&args.id, context)?;
    let wanted = Wanted {
        of: Some(Of::Ids(BTreeSet::from([message.id.clone()]))),
        decisions_only: true,
        ..Wanted::default()
    };
    let decisions = newest(&wanted, context)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let answer = serde_json::json!({"schema": 1, "message": message, "decisions": decisions});
        return print_json(&mut out, &answer);
    }
    let painter = Painter::for_stdout();
    let id = painter.paint(Colour::Bold, &escape(&message.id));
    writeln!(out, "{id}  {}: {}", escape(&message.state), escape(&message.because))?;
    decided(&mut out, &decisions, args.verbose, context)
}

/// The need of a request to which a person replied.
fn need_of_request(request: &str, context: &Context) -> Result<String, Failure> {
    let wanted = Wanted { decisions_only: true, ..Wanted::default() };
    let decisions = newest_of(&wanted, SEARCHED_MAX, context)?;
    let of = decisions.iter().rev().find(|line| line.words().contains(request));
    match of.and_then(|line| line.needs.first()) {
        Some(need) => Ok(need.to_string()),
        None => {
            let text = format!("No reply to {request} is known. → coordctl requests");
            Err(Failure::NoSuchSession(text))
        }
    }
}

/// A need: how it began and ended, which channels sent a notice of it, and why one did not (N-04); who replied to it,
/// and what became of that.
fn need(id: &str, args: &Args, context: &Context) -> Result<(), Failure> {
    let id: NeedId = id
        .parse()
        .map_err(|error| anyhow!("{id:?} is {error}. → coord inspect --needs-me --json"))?;
    let lines = newest(&Wanted { need: Some(id), ..Wanted::default() }, context)?;
    if lines.is_empty() {
        let text = format!("No need {id}. → coord inspect --needs-me --json");
        return Err(Failure::NoSuchSession(text));
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let answer = serde_json::json!({"schema": 1, "id": id, "lines": lines});
        return print_json(&mut out, &answer);
    }
    let painter = Painter::for_stdout();
    let sessions = look(None, context)?.answer.sessions;
    let session = sessions.iter().find(|one| one.key == Some(id.session));
    let name = session.map_or_else(|| "a session that is gone".to_owned(), shown_name);
    let open = session.and_then(|one| one.needs.iter().find(|need| need.id == id.to_string()));
    let state = match open {
        Some(need) => format!("{}, for {}", need.text, age(age_s(&need.since, context))),
        None => "over".to_owned(),
    };
    let id = painter.paint(Colour::Bold, &id.to_string());
    writeln!(out, "{id}  {}: {}", escape(&name), escape(&state))?;
    for line in &lines {
        let ago = painter.paint(Colour::Dim, &format!("{} ago", age(age_s(&line.at, context))));
        let rule = ruled_by(line.rule.as_deref(), args.verbose);
        let word = if line.rule.is_some() { "decided" } else { "seen" };
        writeln!(out, "  {word:9} {}{rule}  {ago}", escape(line.words()))?;
    }
    Ok(())
}

/// The newest decisions on the session, under any of its ids.
fn decisions(session: &Session, context: &Context) -> Result<Vec<Line>, Failure> {
    let ids: BTreeSet<String> =
        session.previous_ids.iter().chain([&session.session_id]).cloned().collect();
    newest(&Wanted { of: Some(Of::Ids(ids)), decisions_only: true, ..Wanted::default() }, context)
}

fn newest(wanted: &Wanted, context: &Context) -> Result<Vec<Line>, Failure> {
    newest_of(wanted, DECISIONS_MAX, context)
}

fn newest_of(wanted: &Wanted, n_max: usize, context: &Context) -> Result<Vec<Line>, Failure> {
    let journal = context.paths.journal();
    if !journal.is_dir() {
        return Ok(Vec::new());
    }
    let _lock = StateLock::shared(&context.paths.state_lock()).map_err(anyhow::Error::from)?;
    let found = history::newest(&RealDisk, &journal, wanted, n_max);
    Ok(found.map_err(anyhow::Error::from)?)
}

fn text(
    out: &mut impl Write,
    session: &Session,
    decisions: &[Line],
    is_verbose: bool,
    context: &Context,
) -> Result<(), Failure> {
    let painter = Painter::for_stdout();
    writeln!(
        out,
        "{}  {} for {}",
        painter.paint(Colour::Bold, &escape(&shown_name(session))),
        painter.paint(colour(session.state), &state_name(session.state)),
        age(age_s(&session.since, context))
    )?;
    for Reason { name, words, rule, ago } in reasons(session, context) {
        let rule = ruled_by(rule, is_verbose);
        let ago = ago.map(|ago| format!("  {}", painter.paint(Colour::Dim, &ago)));
        writeln!(out, "  {name:9} {}{rule}{}", escape(&words), ago.unwrap_or_default())?;
    }
    decided(out, decisions, is_verbose, context)
}

/// A line of the explanation.
struct Reason<'a> {
    name: &'static str,
    words: String,
    rule: Option<&'a str>,
    ago: Option<String>,
}

/// What the state of a session rests on, and what would change it.
fn reasons<'a>(session: &'a Session, context: &Context) -> Vec<Reason<'a>> {
    let plain = |name, words| Reason { name, words, rule: None, ago: None };
    let mut all: Vec<Reason> = Vec::new();
    let (because, rule) = (session.because.clone(), Some(session.rule.as_str()));
    all.push(Reason { rule, ..plain("because", because) });
    let mut title = "evidence";
    for evidence in &session.evidence {
        let words = format!("{:10} {}", evidence.source, evidence.fact);
        let ago = Some(format!("{} ago", age(evidence.age_s)));
        all.push(Reason { ago, ..plain(title, words) });
        title = "";
    }
    if let Some(git) = &session.git {
        let ago = Some(format!("{} ago", age(age_s(&git.at, context))));
        all.push(Reason { ago, ..plain("work", work::words(&git.work)) });
    }
    if let Some(disagreement) = &session.disagreement {
        let sources = disagreement.sources.join(" and ");
        let since = age(age_s(&disagreement.since, context));
        let words = format!("{sources}, for {since}; coord does not act until they agree");
        all.push(plain("disagree", words));
    }
    all.extend(standing(session, context).into_iter().map(|(name, words)| plain(name, words)));
    all.push(plain("changes", session.changes_when.clone()));
    all
}

/// The lines of `coord explain` about one session: a name, the words, and how long ago.
pub(crate) fn lines_of(
    id: &str,
    context: &Context,
) -> Result<Vec<(String, String, String)>, Failure> {
    let mut lines = Vec::new();
    for session in look(Some(id), context)?.answer.sessions {
        for Reason { name, words, ago, .. } in reasons(&session, context) {
            lines.push((name.to_owned(), words, ago.unwrap_or_default()));
        }
        for line in decisions(&session, context)? {
            let ago = format!("{} ago", age(age_s(&line.at, context)));
            lines.push(("decided".to_owned(), line.words().to_owned(), ago));
        }
    }
    Ok(lines)
}

/// The decisions, oldest first.
fn decided(
    out: &mut impl Write,
    decisions: &[Line],
    is_verbose: bool,
    context: &Context,
) -> Result<(), Failure> {
    let painter = Painter::for_stdout();
    for line in decisions {
        let ago = painter.paint(Colour::Dim, &format!("{} ago", age(age_s(&line.at, context))));
        let rule = ruled_by(line.rule.as_deref(), is_verbose);
        writeln!(out, "  decided   {}{rule}  {ago}", escape(line.words()))?;
    }
    Ok(())
}

/// The id of a rule in parentheses; empty unless it is asked for (U-12).
pub(crate) fn ruled_by(rule: Option<&str>, is_verbose: bool) -> String {
    let rule = rule.filter(|rule| is_verbose && !rule.is_empty());
    rule.map_or_else(String::new, |rule| format!(" ({})", escape(rule)))
}
