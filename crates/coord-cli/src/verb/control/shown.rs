//! How what a session asks for is shown: whole and exactly, since a person decides on it (A-06, H-26).

use std::io::Write;

use coord_model::NeedKind;
use coord_wire::api::OpenRequest;
use coord_wire::question::{Question, questions};
use serde_json::{Map, Value};

use crate::out::{Failure, escape};

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

/// The questions of a request; none if it asks none, or in an unknown form.
pub(super) fn asked(request: &OpenRequest) -> Option<Vec<Question>> {
    questions(request.input.as_deref()?)
}

/// The exact input, whole: the command of Bash and the text of a plan by themselves, every other field by its name.
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
    let by_itself = match (request.kind, request.tool.as_str()) {
        (NeedKind::Plan, _) => fields.remove("plan"),
        (_, "Bash") => fields.remove("command"),
        (..) => None,
    };
    if asked(request).is_some() {
        fields.remove("questions");
        for question in asked(request).into_iter().flatten() {
            self::question(&question, indent, out)?;
        }
    }
    for (name, value) in by_itself.map(|one| (String::new(), one)).into_iter().chain(fields) {
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

/// A question, and its options by their numbers.
fn question(question: &Question, indent: &str, out: &mut impl Write) -> Result<(), Failure> {
    let several = if question.multi_select { " (several may be chosen)" } else { "" };
    writeln!(out, "{indent}{}{several}", exact(&question.question))?;
    for (at, option) in question.options.iter().enumerate() {
        let meaning = match option.description.as_str() {
            "" => String::new(),
            text => format!(": {}", exact(text)),
        };
        writeln!(out, "{indent}  {}  {}{meaning}", at + 1, exact(&option.label))?;
    }
    Ok(())
}

/// A text of which every character is seen: those that are not, or that would control the terminal, by their numbers.
pub(super) fn exact(text: &str) -> String {
    let shown = text.chars().map(|one| {
        if one.is_control() || coord_core::is_hidden(one) {
            format!("⟨U+{:04X}⟩", u32::from(one))
        } else {
            one.to_string()
        }
    });
    shown.collect()
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

    fn shown(kind: NeedKind, tool: &str, text: &str) -> String {
        let request = serde_json::json!({
            "id": "r_7k2d", "need": "a_1.1", "kind": kind, "session_id": "s1", "name": "docs", "cwd": "/p",
            "tool": tool, "since_ms": 0, "hook": null, "why_not": null,
            "input": serde_json::from_str::<Value>(text).unwrap(),
        });
        let request: OpenRequest = serde_json::from_str(&request.to_string()).unwrap();
        let mut out = Vec::new();
        input(&request, "", &mut out).unwrap_or_default();
        String::from_utf8(out).unwrap()
    }

    // A-06: nothing that the client would take is left out, whatever it is called.
    #[test]
    fn every_field_is_shown() {
        let question = r#"{"questions":[{"question":"Where?","options":[{"label":"here","description":"near"},{"label":"there"}],"multiSelect":true}],"more":[1]}"#;
        let expected =
            "Where? (several may be chosen)\n  1  here: near\n  2  there\nmore: [\n  1\n]\n";
        assert_eq!(shown(NeedKind::Question, "AskUserQuestion", question), expected);
        let unknown = r#"{"questions":"Where?"}"#;
        let as_it_is = "questions: Where?\n";
        assert_eq!(shown(NeedKind::Question, "AskUserQuestion", unknown), as_it_is);
        let plan = r##"{"plan":"# Plan\n1. Look\n","planFilePath":"/p/plan.md"}"##;
        let whole = "# Plan\n1. Look\n\nplanFilePath: /p/plan.md\n";
        assert_eq!(shown(NeedKind::Plan, "ExitPlanMode", plan), whole);
        let bash = r#"{"command":"ls","timeout":5}"#;
        assert_eq!(shown(NeedKind::Permission, "Bash", bash), "ls\ntimeout: 5\n");
    }
}
