//! `coordctl requests`: the open prompts, and which of them can be answered from here (A-06).

use std::io::Write;

use coord_model::NeedKind;
use coord_view::list::{age, place_words};
use coord_wire::api::{OpenRequest, OpenRequests};
use coord_wire::question::Question;

use super::shown::{asked, exact, input, what};
use crate::client;
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, aligned, escape, print_json};
use crate::verb::inspect::{home, own_server};
use crate::verb::status::not_reachable;

/// For how long a hook goes on to wait is shown from here on, in milliseconds.
const LEFT_SHOWN_MS: u64 = 10 * 60_000;
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
    let server = own_server();
    let heads = open.requests.iter().map(|one| head(one, open.now_ms, server.as_deref()));
    for (request, head) in open.requests.iter().zip(aligned(&heads.collect::<Vec<_>>())) {
        writeln!(out)?;
        show(request, &head, painter, out)?;
    }
    Ok(())
}

/// What the first line of a request says after its id: the session, what is asked for and since when, where the session
/// is, which agent asks, and for how long the hook goes on to wait, once that is not long.
fn head(request: &OpenRequest, now_ms: u64, server: Option<&str>) -> [String; 6] {
    let place = request.place.as_ref().map(|place| place_words(place, &home(), server));
    [
        escape(&request.name),
        what(request),
        age(now_ms.saturating_sub(request.since_ms) / 1_000),
        escape(&place.unwrap_or_default()),
        agent(request),
        left(request),
    ]
}

/// Which agent asks.
pub(super) fn agent(request: &OpenRequest) -> String {
    escape(request.agent.as_deref().unwrap_or("main agent"))
}

/// For how long its hook goes on to wait, once that is not long.
pub(super) fn left(request: &OpenRequest) -> String {
    let left_s = request.left_ms.filter(|left_ms| *left_ms <= LEFT_SHOWN_MS).map(|ms| ms / 1_000);
    left_s.map_or_else(String::new, |s| format!("{}m {}s left", s / 60, s % 60))
}

fn show(
    request: &OpenRequest,
    head: &str,
    painter: Painter,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let id = called(request);
    let name = escape(&request.name);
    writeln!(out, "{}  {head}", painter.paint(Colour::Bold, &id))?;
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

#[cfg(test)]
pub(super) mod tests {
    use coord_wire::inspect::Where;

    use super::*;

    /// The main agent of a session asks to run Bash.
    pub(in crate::verb::control) fn example() -> OpenRequest {
        let text = r#"{"id": "r_7k2d", "need": "a_1.1", "kind": "permission", "session_id": "s", "name": "parser",
            "cwd": "/p", "tool": "Bash", "since_ms": 0, "hook": null, "input": null, "why_not": null}"#;
        serde_json::from_str(text).unwrap()
    }

    // A-06: where it is, who asks, and how long its hook goes on to wait.
    #[test]
    fn a_request_says_where_it_is_and_who_asks() {
        let old = example();
        let (kind, server) = ("tmux".to_owned(), Some("/tmp/t".to_owned()));
        let place = Some(Where { kind, text: "work:api.1".to_owned(), server });
        let main = OpenRequest { place, left_ms: Some(350_000), ..old.clone() };
        let agent = Some("reviewer".to_owned());
        let other = OpenRequest { agent, left_ms: Some(11 * 60_000), ..main.clone() };
        let heads = [&main, &other, &old].map(|one| head(one, 240_000, Some("/tmp/t")));
        assert_eq!(
            aligned(&heads),
            [
                "parser  Bash  4m  work:api.1  main agent  5m 50s left",
                "parser  Bash  4m  work:api.1  reviewer",
                "parser  Bash  4m              main agent",
            ]
        );
    }
}
