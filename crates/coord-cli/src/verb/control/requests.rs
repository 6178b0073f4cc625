//! `coordctl requests`: the open prompts, and which of them can be answered from here.

use std::io::Write;

use coord_model::NeedKind;
use coord_view::list::age;
use coord_wire::api::{OpenRequest, OpenRequests};
use coord_wire::question::Question;

use super::shown::{asked, exact, input, what};
use crate::client;
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, escape, print_json};
use crate::verb::status::not_reachable;

/// Fewest letters by which a request is found.
const LETTERS_MIN: usize = 4;

/// List the open prompts, with the exact input of those that can be answered here
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl requests\n  coordctl requests --json\n\nA prompt can be answered here if config.toml has `[approvals] remote = true`, a passphrase is set\n(`coordctl passphrase`), and coord's hook waits beside the prompt. The session's own terminal can\nalways answer too; the first answer counts."
)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let open = open(context)?;
    let out = &mut std::io::stdout().lock();
    if args.json {
        return print_json(out, &open);
    }
    let here = open.requests.iter().filter(|one| one.why_not.is_none()).count();
    let there = open.requests.len().saturating_sub(here);
    match (here, there) {
        (0, 0) => return Ok(writeln!(out, "No open requests.")?),
        (_, 0) => writeln!(out, "{here} can be answered here")?,
        (0, _) => writeln!(out, "{there} at its terminal only")?,
        (_, _) => writeln!(out, "{here} can be answered here, {there} at its terminal only")?,
    }
    let painter = Painter::for_stdout();
    for request in &open.requests {
        writeln!(out)?;
        show(request, open.now_ms, painter, out)?;
    }
    Ok(())
}

fn show(
    request: &OpenRequest,
    now_ms: u64,
    painter: Painter,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let id = called(request);
    let name = escape(&request.name);
    let what = what(request);
    let age = age(now_ms.saturating_sub(request.since_ms) / 1000);
    writeln!(out, "{}  {name}  {what}  {age}", painter.paint(Colour::Bold, &id))?;
    if let Some(why) = &request.why_not {
        writeln!(out, "        At its terminal only: {}.", escape(why))?;
        return Ok(writeln!(out, "        → coord go {name}")?);
    }
    let text = "        ";
    match asked(request) {
        Some(questions) if request.kind == NeedKind::Question => {
            for question in &questions {
                writeln!(out, "{text}{}", in_one_line(question))?;
            }
            let options = vec!["--option N"; questions.len()].join(" ");
            Ok(writeln!(out, "{text}→ coordctl answer {id} {options}")?)
        }
        _ => {
            input(request, text, out)?;
            Ok(writeln!(out, "{text}→ coordctl approve {id} · coordctl deny {id} --message TEXT")?)
        }
    }
}

/// A question, and its options by their numbers.
fn in_one_line(question: &Question) -> String {
    let options = question.options.iter().zip(1..);
    options.fold(exact(&question.question), |line, (option, number)| {
        format!("{line}  {number} {}", exact(&option.label))
    })
}

/// The id by which people name it.
pub(super) fn called(request: &OpenRequest) -> String {
    request.id.clone().unwrap_or_else(|| request.need.to_string())
}

/// The open prompts.
pub(super) fn open(context: &Context) -> Result<OpenRequests, Failure> {
    match client::get(context, "/v1/requests") {
        Ok(answer) => answer,
        Err(miss) => Err(Failure::NotReachable(not_reachable(miss, context))),
    }
}

/// What names a request that can be answered here, with what is asked.
pub(super) fn names(context: &Context) -> Vec<(String, String)> {
    let all = open(context).map(|open| open.requests).unwrap_or_default();
    let here = all.iter().filter(|one| one.why_not.is_none());
    here.map(|one| (called(one), escape(&format!("{}: {}", one.name, what(one))))).collect()
}

/// The request that a word means: the beginning of its id, its need, or a session that has exactly one.
pub(super) fn find(word: &str, context: &Context) -> Result<OpenRequest, Failure> {
    let all = open(context)?.requests;
    let is_it = |one: &OpenRequest| {
        let letters = word.strip_prefix("r_").unwrap_or_default();
        let is_id =
            LETTERS_MIN <= letters.len() && one.id.as_ref().is_some_and(|id| id.starts_with(word));
        is_id || one.need.to_string() == word
    };
    let is_of = |one: &OpenRequest| {
        one.name == word || (LETTERS_MIN <= word.len() && one.session_id.starts_with(word))
    };
    let mut found: Vec<OpenRequest> = all.iter().filter(|one| is_it(one)).cloned().collect();
    if found.is_empty() {
        found = all.into_iter().filter(is_of).collect();
    }
    match found.len() {
        1 => found.pop().ok_or_else(|| Failure::Over(String::new())),
        0 => Err(Failure::Over(format!("No open request \"{word}\". → coordctl requests"))),
        n => {
            let ids: Vec<String> = found.iter().map(called).collect();
            Err(Failure::UnclearId(format!(
                "{word} has {n} open requests: {}. Name one.",
                ids.join(", ")
            )))
        }
    }
}
