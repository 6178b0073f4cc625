//! Headless runs in `coord inspect` and `coord explain`: read from their own files (S3-02, S3-16, G9).

use std::borrow::Cow;
use std::io::Write;

use coord_model::stamp::parse_rfc3339;
use coord_run::runs;
use coord_view::list::state_words;
use coord_view::usage::dollars;
use coord_wire::run::{Run, RunLine};

use super::usage::tokens;
use super::{age_s, tilde};
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, age, columns, escape, fit_end, print_json};

/// The outcome that is listed like a crashed session, for as long as its file is kept.
const CRASH: &str = "crash";
/// Other ended runs are listed for this long, and no more of them than the next.
const ENDED_LISTED_S: u64 = 24 * 3600;
const ENDED_LISTED_MAX: usize = 5;

/// Keeps the runs that JSON lists without `--all`: those under way, those that crashed, and the last ones that ended
/// otherwise.
pub(super) fn retain_listed(runs: &mut Vec<Run>, context: &Context) {
    let mut ended = 0;
    runs.retain(|run| {
        let Some(exit) = run.exit.as_ref().filter(|exit| exit.outcome != CRASH) else {
            return true;
        };
        ended += 1;
        ended <= ENDED_LISTED_MAX && age_s(&exit.at, context) <= ENDED_LISTED_S
    });
}

/// The runs that a word means: an id, the beginning of one, or the name of a run, of which the newest is meant.
pub(crate) fn named(word: &str, context: &Context) -> Result<Vec<Run>, Failure> {
    let found = runs::find(&context.paths, word)?;
    if found.len() > 1 && found.iter().all(|run| run.begin.run_id != word) {
        let ids: Vec<&str> = found.iter().map(|run| run.begin.run_id.as_str()).take(5).collect();
        return Err(Failure::UnclearId(format!("{word:?} begins several ids: {}", ids.join(", "))));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let mut all = runs::all(&context.paths)?;
    all.retain(|run| run.begin.name.as_deref() == Some(word));
    all.truncate(1);
    Ok(all)
}

fn colour(run: &Run) -> Colour {
    match (&run.exit, run.shown.state.as_str()) {
        (Some(exit), _) if exit.outcome == "done" => Colour::Plain,
        (Some(_), _) => Colour::Red,
        (None, "unknown") => Colour::Dim,
        (None, _) if run.shown.hold.is_some() => Colour::Yellow,
        (None, "subcountdown" | "limbo" | "sigterm_sent" | "sigkill_sent") => Colour::Yellow,
        (None, _) => Colour::Green,
    }
}

fn left_s(until: &str, context: &Context) -> u64 {
    let until_ms = parse_rfc3339(until).unwrap_or(context.now.wall_ms);
    until_ms.saturating_sub(context.now.wall_ms) / 1000
}

/// One in depth.
pub(super) fn depth(
    out: &mut impl Write,
    run: &Run,
    painter: Painter,
    context: &Context,
) -> Result<(), Failure> {
    head(out, run, painter, context)?;
    let mut row = |name: &str, words: &str| writeln!(out, "  {name:10} {}", escape(words));
    if let Some(process) = run.begin.process {
        row("process", &format!("{}, supervised by {}", process.pid, run.begin.supervisor.pid))?;
    }
    row("directory", &fit_end(&tilde(&run.begin.cwd), columns().saturating_sub(13)))?;
    row("begun", &format!("{} ago", age(age_s(&run.begin.at, context))))?;
    if let Some(id) = &run.shown.session_id {
        row("session", id)?;
    }
    if run.shown.results > 0 {
        row("results", &run.shown.results.to_string())?;
    }
    if let Some(cost) = &run.shown.cost {
        let ago = age(age_s(&cost.at, context));
        row("cost", &format!("{} · {}, {ago} ago", dollars(cost.usd), cost.source))?;
    }
    if let Some(used) = &run.shown.tokens {
        row("tokens", &format!("{}, {} ago", tokens(used), age(age_s(&used.at, context))))?;
    }
    let background = run.shown.background;
    if background.tasks > 0 || background.subagents > 0 {
        row(
            "background",
            &format!("{} tasks, {} subagents", background.tasks, background.subagents),
        )?;
    }
    if let Some(hold) = &run.shown.hold {
        let (since, left) = (age(age_s(&hold.since, context)), age(left_s(&hold.until, context)));
        row("hold", &format!("{}, for {since}, {left} left", hold.reason))?;
    }
    if let Some(exit) = &run.exit {
        row("outcome", &format!("{} ({})", exit.outcome, exit.because))?;
        row("ended", &format!("{}, {}", exit.reason, exit.status))?;
        if let Some(resets_at) = &exit.resets_at {
            row("resets", resets_at)?;
        }
        row("output", &format!("{} bytes, {} of errors", exit.stdout_bytes, exit.stderr_bytes))?;
        for left in &exit.left {
            row("left", left)?;
        }
    }
    Ok(())
}

fn head(
    out: &mut impl Write,
    run: &Run,
    painter: Painter,
    context: &Context,
) -> Result<(), Failure> {
    let what = run.begin.name.as_deref().unwrap_or(&run.begin.program);
    let since = age(age_s(&run.shown.since, context));
    let id = painter.paint(Colour::Bold, &escape(&run.begin.run_id));
    let state = painter.paint(colour(run), &escape(&state_words(&run.shown.state)));
    Ok(writeln!(out, "{id}  {}  {state} for {since}", escape(what))?)
}

/// What a note reports, in plain words (U-12). The name of one that coord does not know has no underscores.
fn note_title(name: &str) -> Cow<'_, str> {
    if let Some(state) = name.strip_prefix("subprocess.state.") {
        return state_words(state);
    }
    Cow::Borrowed(match name {
        "watchdog.entry" => "limits",
        "watchdog.tick" => "processes",
        "watchdog.exit" => "supervision ended",
        "gap" => "paused",
        "signal_forwarded" => "signal passed on",
        "error_case_opened" => "error seen",
        "reader_done_but_alive" | "runner.limbo_detected" | "post_result_limbo_detected" => {
            "the process lives on"
        }
        "subcountdown_deferred" => "not ended yet",
        "end_decided" => "to be ended",
        "end_withdrawn" => "not ended",
        "sigterm_after_timeout" => "SIGTERM sent",
        "end_not_recorded" => "not ended, the record cannot be written",
        "sigkill_after_grace" => "SIGKILL sent",
        other => return Cow::Owned(other.replace(['_', '.'], " ")),
    })
}

/// Everything that was seen and decided in it.
pub(crate) fn explain(
    out: &mut impl Write,
    run: &Run,
    json: bool,
    is_verbose: bool,
    context: &Context,
) -> Result<(), Failure> {
    let notes = runs::notes(&context.paths, &run.begin.run_id)?;
    if json {
        let answer = serde_json::json!({"schema": 1, "run": run, "decisions": notes});
        return print_json(out, &answer);
    }
    let painter = Painter::for_stdout();
    depth(out, run, painter, context)?;
    for note in &notes {
        let (at, name, because, is_warning) = match note {
            RunLine::Note { at, name, because, warning } => (at, name.as_str(), because, *warning),
            RunLine::Forced { at, reason, .. } => (at, "forced", reason, true),
            RunLine::Begin(_) | RunLine::State(_) | RunLine::Ended(_) | RunLine::Unknown => {
                continue;
            }
        };
        let ago = painter.paint(Colour::Dim, &format!("{} ago", age(age_s(at, context))));
        let title = if is_verbose { name.into() } else { note_title(name) };
        let colour = if is_warning { Colour::Yellow } else { Colour::Plain };
        let name = painter.paint(colour, &escape(&title));
        writeln!(out, "  {name}: {}  {ago}", escape(because))?;
    }
    Ok(())
}
