//! Folds lines of history for people (U-10): the work between two other lines into one entry, and repeated
//! observations into one with a count.

use std::collections::{BTreeMap, BTreeSet};

use coord_model::stamp::parse_rfc3339;

use super::{Kind, Line};

/// Most entries that are open at once; then all of them end.
const OPEN_MAX: usize = 256;

/// What people read as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The first of the lines.
    pub first: Line,
    /// How many there are.
    pub count: u64,
    /// When the last one was.
    last_at: String,
    /// By tool, the calls that began and those that ended.
    tools: BTreeMap<String, [u64; 2]>,
    /// Subagents that started or ended, and notifications.
    subagents: [u64; 2],
    notifications: u64,
}

/// What lines have in common that fold into one; none for lines that never do.
type Key = (Kind, Option<String>, String);

fn key(line: &Line) -> Option<Key> {
    match line.kind {
        Kind::Activity => Some((line.kind, line.session_id.clone(), String::new())),
        Kind::Observation => {
            Some((line.kind, line.session_id.clone(), format!("{} {}", line.name, line.detail)))
        }
        Kind::Edge
        | Kind::Decision
        | Kind::Message
        | Kind::Order
        | Kind::Action
        | Kind::Coordinator => None,
    }
}

/// Folds lines, oldest first.
#[derive(Debug, Default)]
pub struct Fold {
    open: Vec<(Key, Entry)>,
}

impl Fold {
    /// Takes the next line, and returns the entries that are complete with it.
    pub fn push(&mut self, line: Line) -> Vec<Entry> {
        let Some(key) = key(&line) else {
            let mut ended = self.finish();
            ended.push(Entry::of(line));
            return ended;
        };
        if let Some((_, entry)) = self.open.iter_mut().find(|(open, _)| *open == key) {
            entry.add(&line);
            return Vec::new();
        }
        let ended = if self.open.len() < OPEN_MAX { Vec::new() } else { self.finish() };
        self.open.push((key, Entry::of(line)));
        ended
    }

    /// Ends the open entries, and returns them in the order in which they began.
    pub fn finish(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.open).into_iter().map(|(_, entry)| entry).collect()
    }
}

/// Counts the entries that lines fold into, newest first.
#[derive(Debug, Default)]
pub(super) struct Count {
    ended: usize,
    open: BTreeSet<Key>,
}

impl Count {
    /// Adds an older line, and returns the number of entries.
    pub(super) fn add(&mut self, line: &Line) -> usize {
        match key(line) {
            Some(key) => {
                self.open.insert(key);
            }
            None => self.ended += 1 + std::mem::take(&mut self.open).len(),
        }
        self.ended + self.open.len()
    }
}

impl Entry {
    /// The entry of a single line.
    pub fn of(line: Line) -> Self {
        let mut entry = Self {
            last_at: line.at.clone(),
            count: 0,
            tools: BTreeMap::new(),
            subagents: [0; 2],
            notifications: 0,
            first: line,
        };
        let line = entry.first.clone();
        entry.add(&line);
        entry
    }

    fn add(&mut self, line: &Line) {
        self.count += 1;
        self.last_at.clone_from(&line.at);
        let tool = || line.tool.clone().unwrap_or_else(|| "unknown".to_owned());
        match line.name.as_str() {
            "PreToolUse" => self.tools.entry(tool()).or_default()[0] += 1,
            "PostToolUse" | "PostToolUseFailure" => self.tools.entry(tool()).or_default()[1] += 1,
            "SubagentStart" => self.subagents[0] += 1,
            "SubagentStop" => self.subagents[1] += 1,
            "Notification" => self.notifications += 1,
            _ => (),
        }
    }

    /// What the entry reports, in a few words.
    pub fn title(&self) -> String {
        if self.count < 2 || self.first.kind != Kind::Activity {
            return self.first.title().to_owned();
        }
        self.parts().into_iter().next().unwrap_or_else(|| self.first.title().to_owned())
    }

    /// The details, in words; of several lines with their number or with what they are, and how long they took.
    pub fn words(&self) -> String {
        if self.count < 2 {
            return self.first.words().to_owned();
        }
        let lasted = self.lasted();
        if self.first.kind != Kind::Activity {
            return format!("{}, {} times{lasted}", self.first.words(), self.count);
        }
        let mut tools: Vec<(u64, &str)> = self.calls().collect();
        tools.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let tools = tools.into_iter().map(|(n, tool)| match n {
            1 => tool.to_owned(),
            n => format!("{tool} {n}"),
        });
        let tools = tools.collect::<Vec<_>>().join(", ");
        let others = self.parts().into_iter().skip(1);
        let words = [tools].into_iter().filter(|tools| !tools.is_empty()).chain(others);
        words.collect::<Vec<_>>().join("; ") + &lasted
    }

    /// The calls by tool. A call that began and ended is one.
    fn calls(&self) -> impl Iterator<Item = (u64, &str)> {
        self.tools.iter().map(|(tool, [began, ended])| (*began.max(ended), tool.as_str()))
    }

    /// What happened how often.
    fn parts(&self) -> Vec<String> {
        let [began, ended] = self.subagents;
        let all = [
            (self.calls().map(|(n, _)| n).sum(), "tool"),
            (began.max(ended), "subagent"),
            (self.notifications, "notification"),
        ];
        let all = all.into_iter().filter(|(n, _)| 0 < *n);
        all.map(|(n, what)| format!("{n} {what}{}", if n == 1 { "" } else { "s" })).collect()
    }

    fn lasted(&self) -> String {
        let ms = |at: &str| parse_rfc3339(at).unwrap_or(0);
        match ms(&self.last_at).saturating_sub(ms(&self.first.at)) / 1_000 {
            0 => String::new(),
            s => format!(" in {}", crate::list::age(s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::{Decision, Event, ProcessRef, Record};

    fn line(at: u64, entry: Event) -> Line {
        super::super::line(Record { seq: at, at: at * 1_000, mono_ns: 0, entry })
    }

    fn seen(at: u64, pid: u32) -> Line {
        line(at, Event::ProcessExited { process: ProcessRef { pid, start_time: 1 } })
    }

    fn decided(at: u64) -> Line {
        let decision = Decision {
            session_id: "s".to_owned(),
            rule: "R-01".into(),
            saw: "a thing".to_owned(),
            did: "nothing".to_owned(),
            need: None,
            notice: None,
        };
        line(at, Event::Decision(decision))
    }

    fn tool(at: u64, session: &str, event: &str, tool: &str) -> Line {
        let (session_id, tool) = (Some(session.to_owned()), Some(tool.to_owned()));
        let folded =
            Event::Folded { session_id: session.to_owned(), event: event.to_owned(), id: 1 };
        Line { session_id, tool, detail: "x".to_owned(), ..line(at, folded) }
    }

    fn folded(lines: &[Line]) -> Vec<(String, String)> {
        let mut fold = Fold::default();
        let mut entries: Vec<Entry> =
            lines.iter().flat_map(|line| fold.push(line.clone())).collect();
        entries.extend(fold.finish());
        let mut count = Count::default();
        let counted = lines.iter().rev().map(|line| count.add(line)).last().unwrap_or(0);
        assert_eq!(counted, entries.len(), "backwards there are as many");
        entries.iter().map(|entry| (entry.title(), entry.words())).collect()
    }

    fn owned(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(title, words)| ((*title).to_owned(), (*words).to_owned())).collect()
    }

    // U-10: repeated observations are one line with a count, up to the next line of another kind.
    #[test]
    fn u_10_repeated_observations_are_one_line_with_a_count() {
        let due = line(2, Event::Due);
        let lines =
            [seen(1, 7), due.clone(), seen(3, 8), seen(61, 7), due, decided(62), seen(63, 7)];
        let shown = folded(&lines);
        let wanted = [
            ("process ended", "pid 7, 2 times in 1m"),
            ("time passed", "a deadline was reached, 2 times"),
            ("process ended", "pid 8"),
            ("decided", "a thing → nothing"),
            ("process ended", "pid 7"),
        ];
        assert_eq!(shown, owned(&wanted));
        assert_eq!(folded(&[]), []);
    }

    // U-10
    #[test]
    fn u_10_the_work_between_two_lines_is_one_line() {
        let lines = [
            tool(1, "a", "PreToolUse", "Bash"),
            tool(2, "b", "PreToolUse", "Read"),
            tool(3, "a", "PostToolUse", "Bash"),
            tool(4, "a", "PreToolUse", "Bash"),
            tool(5, "a", "PreToolUse", "Edit"),
            tool(6, "a", "PostToolUseFailure", "Bash"),
            tool(7, "a", "SubagentStart", "-"),
            tool(8, "a", "Notification", "-"),
            decided(9),
            tool(10, "a", "PostToolUse", "Edit"),
        ];
        let shown = folded(&lines);
        let wanted = [
            ("3 tools", "Bash 2, Edit; 1 subagent; 1 notification in 7s"),
            ("tool started", "x"),
            ("decided", "a thing → nothing"),
            ("tool ended", "x"),
        ];
        assert_eq!(shown, owned(&wanted));
    }

    #[test]
    fn many_different_observations_do_not_pile_up() {
        let n = u32::try_from(OPEN_MAX).unwrap();
        let mut fold = Fold::default();
        for pid in 0..n {
            assert_eq!(fold.push(seen(1, pid)), []);
        }
        assert_eq!(fold.push(seen(2, n)).len(), OPEN_MAX);
        assert_eq!(fold.finish().len(), 1);
    }
}
