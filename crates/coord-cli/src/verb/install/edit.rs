//! Puts our entries into the text of a settings file and takes them out again.
//!
//! Decides where entries stand and what leaves with them; the file itself is another module's.
//! Holds G8: every byte outside our entries stays, and `unregister(register(text)) == text`.
//!
//! An item goes right behind the last one of its list and leaves with everything from the end of
//! its predecessor on, so the bytes around it come back whatever they were. A list that we made
//! leaves with its last item. A list that was there, and empty, has to stay: it is marked by one
//! blank behind its opening bracket, which no formatter writes, so that a file that the client has
//! written anew still loses all that is ours.

use core::ops::Range;

use serde::Serialize;
use serde_json::Value;

use super::layout::{Entry, Event, Group, Hooks, Layout, List, Refusal};
use super::registration::{HOOKS, Hook, Registration, events};
use super::status_line::{self, Plan, Undo};

/// A byte order mark is no part of JSON; it is kept in front.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// What is left of a file when our entries are out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// This text.
    Text(String),
    /// Nothing that was not ours: the file was made for our entries.
    Nothing,
}

/// The text with our entries, each once and up to date; `None` stands for a file that is not there.
pub(super) fn register(before: Option<&str>, ours: &Registration) -> Result<String, Refusal> {
    let Some(before) = before else {
        let style = Style { newline: "\n", unit: "  ".to_owned() };
        let mut members = vec![style.hooks_member(ours)];
        if let Plan::Add(command) = status_line::plan_for_none(ours) {
            members.push(style.status_line_member(&command));
        }
        let members: Vec<_> = members.iter().map(|member| style.shift(member, "  ")).collect();
        return Ok(format!("{{\n  {}\n}}\n", members.join(",\n  ")));
    };
    let (mark, text) = split_mark(before);
    let text = add(text, ours)?;
    let layout = Layout::read(&text)?;
    let (text, _) = take_out(&text, &layout, &mut Duplicates::default())?;
    Ok(format!("{mark}{text}"))
}

/// The text without our entries.
pub(super) fn unregister(before: &str) -> Result<Rest, Refusal> {
    let (mark, text) = split_mark(before);
    let layout = Layout::read(text)?;
    let (rest, is_emptied) = take_out(text, &layout, &mut All)?;
    let is_made_by_us = is_emptied && mark.is_empty() && rest.trim_end_matches('\n') == "{}";
    Ok(if is_made_by_us { Rest::Nothing } else { Rest::Text(format!("{mark}{rest}")) })
}

/// Whether uninstalling from `after` gives back what stood in `before` and is not ours: every byte, or,
/// where entries of ours stood in it already, every value.
pub(super) fn is_undone(before: &str, after: &str) -> Result<bool, Refusal> {
    let layout = read(before)?;
    if layout.registered_events() == 0 && !layout.has_status_line() {
        return Ok(unregister(after)? == Rest::Text(before.to_owned()));
    }
    let value = |text: &str| {
        Ok(match unregister(text)? {
            Rest::Text(text) => serde_json::from_str::<Value>(split_mark(&text).1).ok(),
            Rest::Nothing => Some(Value::Object(serde_json::Map::new())),
        })
    };
    Ok(value(before)? == value(after)?)
}

/// Reads the layout of a text that may begin with a byte order mark.
pub(super) fn read(text: &str) -> Result<Layout, Refusal> {
    Layout::read(split_mark(text).1)
}

fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => text.split_at(text.len() - rest.len()),
        None => ("", text),
    }
}

/// Adds what is missing and brings what is out of date up to date, in its place.
fn add(text: &str, ours: &Registration) -> Result<String, Refusal> {
    let layout = Layout::read(text)?;
    let style = Style::of(text, &layout);
    let (mut edits, mut members) = (Vec::new(), Vec::new());
    if let Some(hooks) = &layout.hooks {
        let mut missing = Vec::new();
        for (name, wanted) in events() {
            match hooks.events.iter().find(|event| event.name == name) {
                None => missing.push(style.event_member(name, wanted, ours)),
                Some(event) => edits.extend(add_to_event(text, event, wanted, ours, &style)),
            }
        }
        edits.extend(style.append(text, &hooks.list, &missing, 2));
    } else {
        members.push(style.hooks_member(ours));
    }
    match status_line::plan(text, &layout, ours)? {
        Plan::Keep => {}
        Plan::Add(command) => members.push(style.status_line_member(&command)),
        Plan::Replace(range, token) => edits.push((range, token)),
    }
    edits.extend(style.append(text, &layout.root, &members, 1));
    Ok(apply(text, edits))
}

fn add_to_event(
    text: &str,
    event: &Event,
    hooks: &[Hook],
    ours: &Registration,
    style: &Style,
) -> Vec<(Range<usize>, String)> {
    let (mut edits, mut missing) = (Vec::new(), Vec::new());
    for hook in hooks {
        let mut open_groups = event.groups.iter().filter(|group| group.is_unrestricted);
        let is_standing = |entry: &&Entry| entry.program.as_deref() == Some(hook.program);
        let standing = open_groups.find_map(|group| group.entries.iter().find(is_standing));
        let Some(entry) = standing else {
            missing.push(style.render(&ours.group(hook)));
            continue;
        };
        let wanted = ours.entry(hook);
        let is_up_to_date = serde_json::from_str::<Value>(&text[entry.range.clone()]).ok()
            == serde_json::to_value(&wanted).ok();
        if !is_up_to_date {
            let indent = line_indent(text, entry.range.start).unwrap_or_default();
            edits.push((entry.range.clone(), style.shift(&style.render(&wanted), indent)));
        }
    }
    edits.extend(style.append(text, &event.list, &missing, 3));
    edits
}

/// Which of our entries leave.
trait Leaving {
    fn leaves(&mut self, event: &str, group: &Group, entry: &Entry) -> bool;

    /// Whether that of the status line leaves too.
    fn has_status_line(&self) -> bool;
}

/// Every entry of ours.
struct All;

impl Leaving for All {
    fn leaves(&mut self, _event: &str, _group: &Group, entry: &Entry) -> bool {
        entry.program.is_some()
    }

    fn has_status_line(&self) -> bool {
        true
    }
}

/// Those that are not the one standing entry of a registered hook.
#[derive(Default)]
struct Duplicates {
    standing: Vec<Hook>,
}

impl Leaving for Duplicates {
    fn leaves(&mut self, event: &str, group: &Group, entry: &Entry) -> bool {
        let Some(program) = &entry.program else { return false };
        let hook = HOOKS
            .iter()
            .find(|hook| hook.event == event && hook.program == program && group.is_unrestricted);
        match hook {
            Some(hook) if !self.standing.contains(hook) => {
                self.standing.push(*hook);
                false
            }
            Some(_) | None => true,
        }
    }

    fn has_status_line(&self) -> bool {
        false
    }
}

/// Takes entries out, and with them each group, list and `hooks` that held nothing else. Also says
/// whether nothing is left in an object that was not there before us.
fn take_out(
    text: &str,
    layout: &Layout,
    leaving: &mut impl Leaving,
) -> Result<(String, bool), Refusal> {
    let mut edits = Vec::new();
    let mut root_leaving = vec![false; layout.root.items.len()];
    if let Some(hooks) = &layout.hooks {
        root_leaving[hooks.index] = cut_events(text, hooks, leaving, &mut edits);
    }
    if leaving.has_status_line() {
        match status_line::undo(text, layout)? {
            Undo::Nothing => {}
            Undo::Member(index) => root_leaving[index] = true,
            Undo::Token(range, token) => edits.push((range, token)),
        }
    }
    let is_emptied = cut(text, &layout.root, &root_leaving, &mut edits);
    if is_emptied {
        edits = vec![(layout.root.open..layout.root.close, String::new())];
    }
    Ok((apply(text, edits), is_emptied))
}

fn cut_events(
    text: &str,
    hooks: &Hooks,
    leaving: &mut impl Leaving,
    edits: &mut Vec<(Range<usize>, String)>,
) -> bool {
    let mut events_leaving = Vec::new();
    for event in &hooks.events {
        let mut groups_leaving = Vec::new();
        for group in &event.groups {
            let entries_leaving: Vec<_> = (group.entries.iter())
                .map(|entry| leaving.leaves(&event.name, group, entry))
                .collect();
            let is_leaving = !entries_leaving.is_empty() && !entries_leaving.contains(&false);
            if !is_leaving {
                cut(text, &group.list, &entries_leaving, edits);
            }
            groups_leaving.push(is_leaving);
        }
        events_leaving.push(cut(text, &event.list, &groups_leaving, edits));
    }
    cut(text, &hooks.list, &events_leaving, edits)
}

/// Cuts the leaving items of a list out. True if the list was made for them and leaves as a whole,
/// in which case the caller cuts it.
fn cut(text: &str, list: &List, leaving: &[bool], edits: &mut Vec<(Range<usize>, String)>) -> bool {
    let items = &list.items;
    let Some(first_left) = leaving.iter().position(|leaves| !leaves) else {
        let (Some(head), Some(tail)) = (items.first(), items.last()) else { return false };
        if &text[list.open..head.start] != " " {
            return true;
        }
        let closing = closing_line(&text[tail.clone()])
            .filter(|closing| text[tail.end..list.close].starts_with(closing))
            .map_or(0, |closing| closing.len());
        edits.push((list.open..tail.end + closing, String::new()));
        return false;
    };
    if first_left > 0 {
        edits.push((items[0].start..items[first_left].start, String::new()));
    }
    for index in first_left + 1..items.len() {
        if leaving[index] {
            edits.push((items[index - 1].end..items[index].end, String::new()));
        }
    }
    false
}

/// The line break and indentation that `Style::append` put between its last item and the bracket
/// of a list that had been empty: one step less than the item's own. It is told from the item
/// itself, since the rest of the file may have been written anew with another step.
fn closing_line(item: &str) -> Option<String> {
    let blanks = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let (first_line, rest) = item.split_once('\n')?;
    let (_, last_line) = item.rsplit_once('\n')?;
    let own = blanks(last_line);
    let step = blanks(rest).saturating_sub(own);
    let newline = if first_line.ends_with('\r') { "\r\n" } else { "\n" };
    Some(format!("{newline}{}", &last_line[..own.saturating_sub(step)]))
}

/// Makes edits that do not overlap, save that one inside a larger cut is void with it.
fn apply(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| (range.start, core::cmp::Reverse(range.end)));
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in edits {
        if done <= range.start {
            out.push_str(&text[done..range.start]);
            out.push_str(&new);
            done = range.end;
        }
    }
    out.push_str(&text[done..]);
    out
}

/// How the file is written: its line ends and its step of indentation.
struct Style {
    newline: &'static str,
    unit: String,
}

impl Style {
    fn of(text: &str, layout: &Layout) -> Self {
        let newline = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            Some(_) | None => "\n",
        };
        let first = layout.root.items.first().and_then(|item| line_indent(text, item.start));
        let unit = first.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned();
        Self { newline, unit }
    }

    /// A line break and the indentation of `depth` steps.
    fn line(&self, depth: usize) -> String {
        format!("{}{}", self.newline, self.unit.repeat(depth))
    }

    /// Pretty JSON, its lines indented from the left margin.
    fn render(&self, value: &impl Serialize) -> String {
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
        value.serialize(&mut serializer).expect("plain structs of strings and numbers serialize");
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        text.replace('\n', self.newline)
    }

    /// The same text with `indent` before each line but the first.
    fn shift(&self, text: &str, indent: &str) -> String {
        text.replace(self.newline, &format!("{}{indent}", self.newline))
    }

    fn event_member(&self, event: &str, hooks: &[Hook], ours: &Registration) -> String {
        format!("\"{event}\": {}", self.render(&ours.groups(hooks)))
    }

    fn hooks_member(&self, ours: &Registration) -> String {
        let events: Vec<_> = events()
            .map(|(event, hooks)| self.shift(&self.event_member(event, hooks, ours), &self.unit))
            .collect();
        let line = self.line(1);
        format!("\"hooks\": {{{line}{}{}}}", events.join(&format!(",{line}")), self.newline)
    }

    fn status_line_member(&self, command: &str) -> String {
        let value = status_line::Member { kind: "command", command };
        format!("\"{}\": {}", status_line::MEMBER, self.render(&value))
    }

    /// Puts items behind the last one of a list whose items stand `depth` steps in.
    fn append(
        &self,
        text: &str,
        list: &List,
        items: &[String],
        depth: usize,
    ) -> Option<(Range<usize>, String)> {
        if items.is_empty() {
            return None;
        }
        let default_indent = self.unit.repeat(depth);
        let indent = (list.items.last())
            .and_then(|item| line_indent(text, item.start))
            .unwrap_or(&default_indent);
        let items: Vec<_> = items.iter().map(|item| self.shift(item, indent)).collect();
        let joint = format!(",{}{indent}", self.newline);
        let new = items.join(&joint);
        Some(match list.items.last() {
            Some(item) => (item.end..item.end, format!("{joint}{new}")),
            None => (list.open..list.open, format!(" {new}{}", self.line(depth - 1))),
        })
    }
}

/// The blanks before `at`, if nothing else stands before it on its line and the line is not the
/// first one.
fn line_indent(text: &str, at: usize) -> Option<&str> {
    let (_, indent) = text[..at].rsplit_once('\n')?;
    indent.bytes().all(|byte| byte == b' ' || byte == b'\t').then_some(indent)
}
