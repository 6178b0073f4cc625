//! Reads a settings file strictly and says where in its text the parts stand that matter to us.
//!
//! Decides what counts as a settings file that may be edited, and which entries are ours. Changes
//! nothing. Holds the refusing half of G8: comments, trailing commas, doubled keys and wrong
//! shapes are refused with their place, because the client reads such a file otherwise than a
//! lenient parser would, or not at all.

use core::fmt;
use core::ops::Range;
use std::collections::BTreeSet;

use jsonc_parser::ast::{Array, Object, Value};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use super::registration::PROGRAM_PREFIX;
use super::status_line::{self, StatusLine};

/// The items of one object or array: their places, and that of the brackets around them.
#[derive(Debug)]
pub(super) struct List {
    /// Right behind the opening bracket.
    pub open: usize,
    /// Right before the closing bracket.
    pub close: usize,
    /// Each item from its first byte to its last.
    pub items: Vec<Range<usize>>,
}

/// What the editor has to know of a settings file.
#[derive(Debug)]
pub(super) struct Layout {
    /// Members of the file's object.
    pub root: List,
    /// The member `hooks`.
    pub hooks: Option<Hooks>,
    /// The member `statusLine`.
    pub status_line: Option<StatusLine>,
}

/// The value of `hooks`.
#[derive(Debug)]
pub(super) struct Hooks {
    /// Its place among the members of the file.
    pub index: usize,
    /// Its members, one per event.
    pub list: List,
    /// What each of them holds.
    pub events: Vec<Event>,
}

/// One event's list of groups.
#[derive(Debug)]
pub(super) struct Event {
    pub name: String,
    pub list: List,
    pub groups: Vec<Group>,
}

/// One group: a matcher and its entries. One of a shape that is not ours has no entries.
#[derive(Debug)]
pub(super) struct Group {
    /// No matcher, or one that matches everything.
    pub is_unrestricted: bool,
    pub list: List,
    pub entries: Vec<Entry>,
}

/// One entry of a group.
#[derive(Debug)]
pub(super) struct Entry {
    pub range: Range<usize>,
    /// File name of our executable, if the entry is ours.
    pub program: Option<String>,
}

/// Why a file is left alone, and where in it the reason stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    line: usize,
    column: usize,
    reason: String,
}

/// What a refusal says to who wanted a change.
pub(super) const UNCHANGED: &str = "; correct it and run again (nothing was changed)";

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}{UNCHANGED}", self.line, self.column, self.reason)
    }
}

impl core::error::Error for Refusal {}

impl Refusal {
    /// A reason that stands at byte `at` of `text`.
    pub(super) fn at(text: &str, at: usize, reason: impl Into<String>) -> Self {
        let before = &text[..at];
        Self {
            line: before.matches('\n').count() + 1,
            column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
            reason: reason.into(),
        }
    }
}

impl Layout {
    /// Reads `text`, which has no byte order mark.
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let value = parse(text)?;
        let Value::Object(root) = &value else {
            return Err(Refusal::at(text, value.range().start, "not a JSON object"));
        };
        let mut layout = Self { root: members(text, root)?, hooks: None, status_line: None };
        for (index, member) in root.properties.iter().enumerate() {
            match (member.name.as_str(), &member.value) {
                ("hooks", Value::Object(hooks)) => {
                    layout.hooks = Some(read_hooks(text, index, hooks)?);
                }
                ("hooks", other) => {
                    return Err(Refusal::at(
                        text,
                        other.range().start,
                        "\"hooks\" is not an object",
                    ));
                }
                (status_line::MEMBER, value) => {
                    layout.status_line = Some(StatusLine::read(index, value));
                }
                _ => {}
            }
        }
        Ok(layout)
    }

    /// Whether the status line runs our program.
    pub(super) fn has_status_line(&self) -> bool {
        self.status_line.as_ref().is_some_and(StatusLine::is_ours)
    }

    /// Number of events that have an entry of ours.
    pub(super) fn registered_events(&self) -> usize {
        let is_ours = |event: &&Event| {
            event.groups.iter().flat_map(|group| &group.entries).any(|e| e.program.is_some())
        };
        self.hooks.iter().flat_map(|hooks| &hooks.events).filter(is_ours).count()
    }
}

/// Two parsers have to agree: one knows the places, the other is the stricter one.
fn parse(text: &str) -> Result<Value<'_>, Refusal> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::Off, tokens: false };
    let strict = ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &collect, &strict).map_err(|error| {
        let reason = error.kind().to_string();
        Refusal::at(
            text,
            error.range().start,
            format!("not strict JSON: {}", reason.to_lowercase()),
        )
    })?;
    let value =
        parsed.value.ok_or_else(|| Refusal::at(text, text.len(), "empty: write {} into it"))?;
    serde_json::from_str::<serde_json::Value>(text).map_err(|error| {
        let words = error.to_string();
        let (reason, _place) = words.split_once(" at line ").unwrap_or((&words, ""));
        Refusal {
            line: error.line(),
            column: error.column(),
            reason: format!("not strict JSON: {reason}"),
        }
    })?;
    Ok(value)
}

fn read_hooks(text: &str, index: usize, hooks: &Object<'_>) -> Result<Hooks, Refusal> {
    let list = members(text, hooks)?;
    let mut events = Vec::new();
    for member in &hooks.properties {
        let name = member.name.as_str().to_owned();
        let Value::Array(groups) = &member.value else {
            let at = member.value.range().start;
            return Err(Refusal::at(text, at, format!("\"hooks\".\"{name}\" is not an array")));
        };
        let list = elements(groups);
        let groups = groups
            .elements
            .iter()
            .map(|group| read_group(text, group))
            .collect::<Result<_, _>>()?;
        events.push(Event { name, list, groups });
    }
    Ok(Hooks { index, list, events })
}

/// The client drops a malformed group or entry and keeps the rest; here it is simply not ours.
fn read_group(text: &str, value: &Value<'_>) -> Result<Group, Refusal> {
    let mut group = Group {
        is_unrestricted: true,
        list: List { open: 0, close: 0, items: Vec::new() },
        entries: Vec::new(),
    };
    let Value::Object(object) = value else { return Ok(group) };
    members(text, object)?;
    if let Some(matcher) = object.get("matcher") {
        group.is_unrestricted =
            matches!(&matcher.value, Value::StringLit(text) if matches!(&*text.value, "" | "*"));
    }
    if let Some(entries) = object.get_array("hooks") {
        group.list = elements(entries);
        for entry in &entries.elements {
            group.entries.push(Entry { range: range(entry), program: own_program(text, entry)? });
        }
    }
    Ok(group)
}

/// An entry is ours if it runs, without a shell, an executable of ours, in whatever directory.
fn own_program(text: &str, entry: &Value<'_>) -> Result<Option<String>, Refusal> {
    let Value::Object(object) = entry else { return Ok(None) };
    members(text, object)?;
    let is_exec_form = object.get_string("type").is_some_and(|kind| kind.value == "command")
        && object.get_array("args").is_some();
    let program = object
        .get_string("command")
        .and_then(|command| command.value.rsplit('/').next().map(str::to_owned))
        .filter(|program| is_exec_form && program.starts_with(PROGRAM_PREFIX));
    Ok(program)
}

/// The places of an object's members; a key that stands there twice is refused, since nobody can
/// say which of the two the user means.
fn members(text: &str, object: &Object<'_>) -> Result<List, Refusal> {
    let mut seen = BTreeSet::new();
    for member in &object.properties {
        let name = member.name.as_str();
        if !seen.insert(name) {
            let at = member.range.start;
            return Err(Refusal::at(text, at, format!("the key \"{name}\" is here twice")));
        }
    }
    let items = object.properties.iter().map(|member| member.range.start..member.range.end);
    Ok(List { open: object.range.start + 1, close: object.range.end - 1, items: items.collect() })
}

fn elements(array: &Array<'_>) -> List {
    List {
        open: array.range.start + 1,
        close: array.range.end - 1,
        items: array.elements.iter().map(range).collect(),
    }
}

fn range(value: &Value<'_>) -> Range<usize> {
    let range = value.range();
    range.start..range.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let refusal = Layout::read(text).unwrap_err().to_string();
        assert!(refusal.starts_with(expected), "{refusal}");
    }

    #[test]
    fn what_is_not_strict_json_is_refused_with_its_place_g8() {
        refused("", "1:1: empty");
        refused("[]", "1:1: not a JSON object");
        refused("{\n  // why\n}", "2:3: not strict JSON: comments are not allowed");
        refused("{\n  \"a\": 1,\n}", "2:9: not strict JSON: trailing commas are not allowed");
        refused("{\"a\": 01}", "1:");
        refused("{\"a\": 1} x", "1:10: not strict JSON");
        refused("{\"é\": 1 \"b\": 2}", "1:");
        refused("{\"a\": \"\u{1}\"}", "1:");
        refused("{a: 1}", "1:2: not strict JSON");
        refused("{\"a\":\u{a0}1}", "1:");
        refused(&"[".repeat(100_000), "1:");
    }

    #[test]
    fn wrong_shapes_and_doubled_keys_are_refused_g8() {
        refused("{\"hooks\": []}", "1:11: \"hooks\" is not an object");
        refused("{\"hooks\": {\n\"Stop\": {}}}", "2:9: \"hooks\".\"Stop\" is not an array");
        refused("{\"a\": 1,\n \"a\": 2}", "2:2: the key \"a\" is here twice");
        refused("{\"hooks\": {\"Stop\": [], \"Stop\": []}}", "1:24: the key \"Stop\"");
        refused("{\"hooks\": {\"Stop\": [{\"hooks\": [], \"hooks\": []}]}}", "1:");
    }

    #[test]
    fn an_entry_is_ours_by_the_name_of_its_program_in_exec_form() {
        let with = |entry: &str| {
            let text = format!(r#"{{"hooks": {{"Stop": [{{"hooks": [{entry}]}}]}}}}"#);
            Layout::read(&text).unwrap().registered_events()
        };
        assert_eq!(with(r#"{"type": "command", "command": "/x/coord-hook-stop", "args": []}"#), 1);
        assert_eq!(with(r#"{"type": "command", "command": "/x/coord-hook-stop"}"#), 0);
        assert_eq!(with(r#"{"type": "command", "command": "/coord-hook-x/y", "args": []}"#), 0);
        assert_eq!(with(r#"{"type": "http", "command": "/x/coord-hook-stop", "args": []}"#), 0);
        assert_eq!(with("7"), 0);
    }
}
