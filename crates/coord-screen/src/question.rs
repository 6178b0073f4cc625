//! What the last message of an agent asks for, by the data of `questions.toml`.
//!
//! Decides by the last lines alone, and in doubt that nothing is asked for: the shape of a prompt must
//! stand at the very end (H-40). Whether anything may be answered is decided elsewhere. Holds S1-09 to
//! S1-11, S1-13.

use crate::end_of;
use crate::rules::fits;
use coord_model::Question;
use serde::Deserialize;
use std::sync::LazyLock;

const FILE: &str = include_str!("../questions.toml");
/// The version of the file's format that this code reads.
const VERSION: u32 = 1;
const FENCES: [&str; 2] = ["```", "~~~"];
/// Code is indented by so many blanks, or by a tab.
const CODE_INDENT: &str = "    ";
const EMPHASIS: [char; 3] = ['*', '_', '`'];
/// Not a colon: behind it may stand what somebody else asked.
const SENTENCE_ENDS: [&str; 5] = [". ", "! ", "? ", "; ", "… "];
const QUOTES: [char; 6] = ['\'', '"', '‘', '’', '“', '”'];
const CONTINUE: &str = "continue";

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rules: Rules = toml::from_str(FILE).expect("the file is part of the program and tested");
    debug_assert_eq!(rules.version, VERSION, "another format");
    rules
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    version: u32,
    lines: usize,
    chars_max: usize,
    marks: Vec<String>,
    limit: Vec<String>,
    question: Vec<Shape>,
}

/// The shape of a prompt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    asks: Asks,
    #[serde(default)]
    ends: Vec<String>,
    #[serde(default)]
    fits: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
}

/// The file's words for the questions that have a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asks {
    Continue,
    YesNo,
    Proceed,
}

impl Asks {
    fn question(self) -> Question {
        match self {
            Self::Continue => Question::Continue,
            Self::YesNo => Question::YesNo,
            Self::Proceed => Question::Proceed,
        }
    }
}

/// What the text, a message of an agent, asks for at its very end; none if that has no shape of a prompt.
pub fn question_in(text: &str) -> Option<Question> {
    let text = end_of(text);
    let is_full = |line: &&str| !line.trim().is_empty();
    let mut lines: Vec<&str> = text.lines().rev().filter(is_full).take(RULES.lines).collect();
    lines.reverse();
    let last = *lines.last()?;
    if speaks_of_limit(&lines) {
        return Some(Question::Limit);
    }
    let marks = lines.iter().map(|line| line.matches('?').count()).sum::<usize>();
    let is_fenced = lines.iter().any(|line| is_fence(line))
        || text.lines().filter(|line| is_fence(line)).count() % 2 == 1;
    if 1 < marks || is_fenced || is_prose(last) {
        return None;
    }
    let line = plain(last);
    RULES.question.iter().find(|shape| shape.is_of(&line)).map(|shape| shape.asks.question())
}

fn speaks_of_limit(lines: &[&str]) -> bool {
    let text = plain(&lines.join(" ").replace(['-', '_'], " "));
    RULES.limit.iter().any(|words| text.contains(words.as_str()))
}

fn is_fence(line: &str) -> bool {
    FENCES.iter().any(|fence| line.trim_start().starts_with(fence))
}

/// Whether the line is none that asks, whatever its words are.
fn is_prose(line: &str) -> bool {
    if line.starts_with(CODE_INDENT) || line.starts_with('\t') {
        return true;
    }
    let line = line.trim();
    let behind = line.trim_start_matches(|one: char| one.is_ascii_digit());
    let line = if behind.len() < line.len() { format!("1{behind}") } else { line.to_owned() };
    RULES.chars_max < line.chars().count()
        || line.chars().any(char::is_control)
        || RULES.marks.iter().any(|mark| line.starts_with(mark.as_str()))
}

/// In small letters, without emphasis, with single blanks.
fn plain(line: &str) -> String {
    let line = line.replace(EMPHASIS, "").to_lowercase();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Shape {
    fn is_of(&self, line: &str) -> bool {
        let end = line.trim_end_matches(['?', ':', ' ']);
        if self.ends.iter().any(|one| end.ends_with(one.as_str())) {
            return true;
        }
        let sentence = last_sentence(line);
        let behind_commas = sentence.match_indices(", ").map(|(at, _)| &sentence[at + 2..]);
        let is_wanted = |part: &str| self.fits.iter().any(|pattern| fits(pattern, part));
        std::iter::once(sentence.as_str()).chain(behind_commas).any(is_wanted)
            && !self.not.iter().any(|pattern| fits(pattern, &sentence))
    }
}

/// What stands behind the end of the sentence before, without the marks around it.
fn last_sentence(line: &str) -> String {
    let line = line.trim_end_matches(['.', '…', ')', ']', ' ']);
    let from = SENTENCE_ENDS.iter().filter_map(|end| Some(line.rfind(end)? + end.len())).max();
    // Quotation marks stay: what somebody else asked is no question of the agent's.
    let is_mark = |one: char| !one.is_alphanumeric() && !QUOTES.contains(&one);
    let sentence = line[from.unwrap_or(0)..].trim_start_matches(is_mark);
    let unquoted = |text: String, quote: char| {
        let close = match quote {
            '‘' => '’',
            '“' => '”',
            same => same,
        };
        text.replace(&format!("{quote}{CONTINUE}{close}"), CONTINUE)
    };
    QUOTES.into_iter().fold(sentence.to_owned(), unquoted)
}

#[cfg(test)]
mod tests;
