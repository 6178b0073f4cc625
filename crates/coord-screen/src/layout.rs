//! The parts of a screen: the input box and what stands around it, or the dialog in its place.
//!
//! Decides only where each region is; `screens.toml` describes them and says what they mean. The
//! client draws its box and its dialogs last, so parts are looked for from the bottom up: a box
//! that an agent printed stands above the real one, and its text is indented.

/// A row of these at the left border parts the screen; the second one heads menus.
const RULES: [char; 2] = ['─', '▔'];
/// A row of these parts a dialog.
const SEPARATOR: char = '╌';
/// Shorter rows are ornaments.
const RULE_CHARS_MIN: usize = 10;
/// What the client draws before its input; in a dialog or in the conversation a blank follows.
const INPUT_MARKS: [&str; 2] = ["❯\u{a0}", "!\u{a0}"];
/// The faces of the spinner; all are read as [`SPINNER`].
const SPINNERS: [char; 7] = ['·', '✢', '✳', '✶', '✻', '✽', '*'];
const SPINNER: char = '✻';
/// Hints above the box stand at the right border.
const HINT_INDENT_MIN: usize = 8;
/// What parts the conversation from a panel at its right side.
const PANEL: &str = "  │";
const FOOT_LINES_MAX: usize = 3;
const END_LINES_MAX: usize = 6;

/// A part of the screen that a condition looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Region {
    Above,
    Input,
    Footer,
    Dialog,
    Margin,
    Foot,
    Last,
    End,
}

/// A screen taken apart.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    lines: Vec<&'a str>,
    parts: Parts,
}

/// What each region holds.
#[derive(Debug)]
enum Parts {
    Box { above: Vec<String>, input: Vec<String>, footer: Vec<String>, first_row: usize },
    Open { dialog: Vec<String>, margin: Vec<String>, foot: Vec<String>, end: Vec<String> },
}

impl<'a> Layout<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let mut lines: Vec<&str> = text.lines().map(end_trimmed).collect();
        lines.truncate(lines.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1));
        let parts = boxed(&lines).unwrap_or_else(|| open(&lines));
        Self { lines, parts }
    }

    /// All lines, without the blanks behind them and the blank lines at the end.
    pub(crate) fn lines(&self) -> &[&'a str] {
        &self.lines
    }

    /// Which line is the first in the input box.
    pub(crate) fn input_row(&self) -> Option<usize> {
        match self.parts {
            Parts::Box { first_row, .. } => Some(first_row),
            Parts::Open { .. } => None,
        }
    }

    /// The lines of a region; none if the screen has no such part.
    pub(crate) fn region(&self, region: Region) -> &[String] {
        match (&self.parts, region) {
            (Parts::Box { above, .. }, Region::Above) => above,
            (Parts::Box { input, .. }, Region::Input) => input,
            (Parts::Box { footer, .. }, Region::Footer) => footer,
            (Parts::Open { dialog, .. }, Region::Dialog) => dialog,
            (Parts::Open { margin, .. }, Region::Margin) => margin,
            (Parts::Open { foot, .. }, Region::Foot) => foot,
            (Parts::Open { end, .. }, Region::End) => end,
            (Parts::Open { end, .. }, Region::Last) => &end[end.len().saturating_sub(1)..],
            (
                Parts::Box { .. },
                Region::Dialog | Region::Margin | Region::Foot | Region::Last | Region::End,
            )
            | (Parts::Open { .. }, Region::Above | Region::Input | Region::Footer) => &[],
        }
    }
}

/// The parts around the input box, if the screen ends with one.
fn boxed(lines: &[&str]) -> Option<Parts> {
    let bottom = lines.iter().rposition(|line| is_rule(line, '─'))?;
    let top = lines[..bottom].iter().rposition(|line| is_box_top(line))?;
    let (inside, below) = (&lines[top + 1..bottom], &lines[bottom + 1..]);
    let (first, rest) = inside.split_first()?;
    let draft = INPUT_MARKS.iter().find_map(|mark| first.strip_prefix(mark))?;
    // A shell that paints over a dead client's screen writes at the left border.
    if !rest.iter().chain(below).all(|line| is_indented(line)) {
        return None;
    }
    let more = rest.iter().map(|line| line.trim().to_owned());
    Some(Parts::Box {
        first_row: top + 1,
        above: above(&lines[..top]),
        input: std::iter::once(draft.trim().to_owned()).chain(more).collect(),
        footer: below
            .iter()
            .take_while(|line| !is_blank(line))
            .flat_map(|line| items(line))
            .collect(),
    })
}

/// The last block of lines, hints and what stands in a panel aside.
fn above(lines: &[&str]) -> Vec<String> {
    let is_hint =
        |line: &&str| line.bytes().take_while(|one| *one == b' ').count() >= HINT_INDENT_MIN;
    let one_face = |line: &str| match line.strip_prefix(SPINNERS) {
        Some(rest) => format!("{SPINNER}{rest}"),
        None => line.to_owned(),
    };
    let mut block: Vec<String> = lines
        .iter()
        .rev()
        .map(|line| line.split_once(PANEL).map_or(*line, |(left, _)| left))
        .skip_while(|line| is_blank(line) || is_hint(line))
        .take_while(|line| !is_blank(line))
        .map(|line| one_face(end_trimmed(line)))
        .collect();
    block.reverse();
    block
}

/// The parts of a screen without an input box.
fn open(lines: &[&str]) -> Parts {
    let is_any_rule = |line: &str| RULES.iter().any(|rule| is_rule(line, *rule));
    // A rule before an option stands within a dialog.
    let is_head = |at: &usize| {
        is_any_rule(lines[*at]) && !lines.get(at + 1).is_some_and(|line| is_option(line))
    };
    let dialog = (0..lines.len()).rev().find(is_head).map_or(0, |rule| rule + 1);
    let block = lines.iter().rposition(|line| is_blank(line)).map_or(0, |blank| blank + 1);
    let foot = block.max(dialog).max(lines.len().saturating_sub(FOOT_LINES_MAX));
    let mut end: Vec<String> = lines
        .iter()
        .rev()
        .filter(|line| !is_blank(line))
        .take(END_LINES_MAX)
        .map(|line| (*line).to_owned())
        .collect();
    end.reverse();
    let is_in_margin =
        |line: &&&str| !is_indented(line) && !line.chars().all(|one| one == SEPARATOR);
    Parts::Open {
        dialog: lines[dialog..].iter().map(|line| line.trim().to_owned()).collect(),
        margin: lines[dialog..]
            .iter()
            .filter(is_in_margin)
            .map(|line| (*line).to_owned())
            .collect(),
        foot: items(&lines[foot..].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")),
        end,
    }
}

/// What a line of hints tells, one by one.
fn items(line: &str) -> Vec<String> {
    line.split(" · ").map(|item| item.trim().to_owned()).collect()
}

/// Without the blanks behind it; the no-break space of an empty input is none.
fn end_trimmed(line: &str) -> &str {
    line.trim_end_matches(|one: char| one.is_whitespace() && one != '\u{a0}')
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn is_indented(line: &str) -> bool {
    line.is_empty() || line.starts_with([' ', '\u{a0}'])
}

fn is_rule(line: &str, rule: char) -> bool {
    line.chars().all(|one| one == rule) && RULE_CHARS_MIN <= line.chars().count()
}

/// `2. Something`
fn is_option(line: &str) -> bool {
    let number = line.trim_start().trim_start_matches("❯ ");
    let behind = number.trim_start_matches(|one: char| one.is_ascii_digit());
    behind.len() < number.len() && behind.starts_with(". ")
}

/// The upper rule may carry the session's name.
fn is_box_top(line: &str) -> bool {
    let row = line.chars().take_while(|one| *one == '─').count();
    RULE_CHARS_MIN <= row && line.ends_with('─')
}
