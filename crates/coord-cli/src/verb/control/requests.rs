//! `coordctl requests`: the open prompts, and which of them can be answered from here.

use std::io::Write;

use coord_model::NeedKind;
use coord_view::list::age;
use coord_wire::api::{OpenRequest, OpenRequests};
use serde_json::{Map, Value};

use crate::client;
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, escape, print_json};
use crate::verb::status::not_reachable;

/// Fewest letters by which a request is found.
const LETTERS_MIN: usize = 4;

/// List the open prompts, with the exact input of those that can be answered here
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl requests\n  coordctl requests --json\n\nA prompt can be answered here if config.toml has `[approvals] remote = true`, a passphrase is set\n(`coordctl passphrase`), and coord's hook waits beside the prompt. The session's own terminal can\nalways answer, and wins."
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
    input(request, "        ", out)?;
    Ok(writeln!(out, "        → coordctl approve {id} · coordctl deny {id} --message TEXT")?)
}

/// The id by which people name it.
pub(super) fn called(request: &OpenRequest) -> String {
    request.id.clone().unwrap_or_else(|| request.need.to_string())
}

/// What is asked for, in words.
pub(super) fn what(request: &OpenRequest) -> String {
    if request.kind == NeedKind::Question {
        "question".to_owned()
    } else if request.kind == NeedKind::Plan {
        "plan".to_owned()
    } else if request.tool.is_empty() {
        "dialog".to_owned()
    } else {
        escape(&request.tool)
    }
}

/// The exact input, whole: the command of Bash by itself, every other field by its name.
pub(super) fn input(
    request: &OpenRequest,
    indent: &str,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let Some(input) = &request.input else {
        return Ok(writeln!(out, "{indent}Too long to show whole. Answer at the terminal.")?);
    };
    // The client's tools take an object.
    let mut fields: Map<String, Value> = serde_json::from_str(input.get())?;
    let command = if request.tool == "Bash" { fields.remove("command") } else { None };
    for (name, value) in command.map(|one| (String::new(), one)).into_iter().chain(fields) {
        let text = match value.as_str() {
            Some(text) => text.to_owned(),
            None => serde_json::to_string_pretty(&value)?,
        };
        let name = if name.is_empty() { name } else { format!("{}: ", exact(&name)) };
        for (at, line) in text.split('\n').enumerate() {
            let name = if at == 0 { name.as_str() } else { "" };
            writeln!(out, "{indent}{name}{}", exact(line))?;
        }
    }
    Ok(())
}

/// A line of which every character is seen: those that are not, or that would control the terminal, by their numbers.
fn exact(line: &str) -> String {
    let shown = line.chars().map(|one| {
        if one.is_control() || coord_core::is_hidden(one) {
            format!("⟨U+{:04X}⟩", u32::from(one))
        } else {
            one.to_string()
        }
    });
    shown.collect()
}

/// The open prompts.
pub(super) fn open(context: &Context) -> Result<OpenRequests, Failure> {
    match client::get(context, "/v1/requests") {
        Ok(answer) => answer,
        Err(miss) => Err(Failure::NotReachable(not_reachable(miss, context))),
    }
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
mod tests {
    use super::*;

    // H-26, A-06: what is approved is seen whole, and nothing of it reaches the terminal as a command.
    #[test]
    fn an_input_is_shown_character_by_character() {
        assert_eq!(exact("ls\u{202e} -la\u{1b}[2J\t"), "ls⟨U+202E⟩ -la⟨U+001B⟩[2J⟨U+0009⟩");
        assert_eq!(exact("größe → 完"), "größe → 完");
    }
}
