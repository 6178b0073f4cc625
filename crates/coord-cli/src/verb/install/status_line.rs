//! The entry of the status line (N-08): how ours is written, told from others, and undone.
//!
//! Decides what happens to the token of `statusLine.command`, and to no other byte of the entry. The client hands that
//! text to `/bin/sh -c` (measured), so ours hands the former one to the same shell. It begins with `exec`, because the
//! coordinator believes only the client's own child. The former token comes back byte for byte: from the command itself
//! or, where JSON could be written in another way than it was, from an argument that the program ignores.

use core::ops::Range;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged as _;
use serde::Serialize;

use super::layout::{Layout, Refusal};
use super::registration::Registration;

/// The executable.
pub(super) const PROGRAM: &str = "coord-hook-statusline";
/// The member of a settings file.
pub(super) const MEMBER: &str = "statusLine";
/// The argument behind which the former token stands.
const FORMER: &str = "--former";
/// What the client itself begins with.
const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// The member `statusLine` of a settings file.
#[derive(Debug)]
pub(super) struct StatusLine {
    /// Its place among the members of the file.
    pub index: usize,
    /// Where its value begins.
    at: usize,
    command: Option<Command>,
}

#[derive(Debug)]
struct Command {
    /// The string with its quotes.
    token: Range<usize>,
    /// What it says.
    text: String,
}

/// Whose command it is.
#[derive(Debug, PartialEq, Eq)]
enum Whose {
    Users,
    /// Ours, around the user's, which had this token; none where there was none.
    Ours(Option<String>),
    /// Ours, and edited since.
    Edited,
}

/// The entry, where there was none.
#[derive(Debug, Serialize)]
pub(super) struct Member<'a> {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub command: &'a str,
}

/// What a registration makes of the entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Keep,
    /// An entry with this command.
    Add(String),
    /// Another token in this place.
    Replace(Range<usize>, String),
}

/// What undoes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undo {
    Nothing,
    /// The member at this place of the file leaves.
    Member(usize),
    /// The former token returns to this place.
    Token(Range<usize>, String),
}

impl StatusLine {
    /// Reads the member at `index`.
    pub(super) fn read(index: usize, value: &Value<'_>) -> Self {
        let command = value.as_object().and_then(|object| {
            // Of two of a name, nobody can say which one is meant.
            let only = |name: &str| {
                let mut named = object.properties.iter().filter(|one| one.name.as_str() == name);
                let value = &named.next().filter(|_| named.next().is_none())?.value;
                let Value::StringLit(text) = value else { return None };
                Some((value.range().start..value.range().end, text.value.clone().into_owned()))
            };
            let (token, text) = only("command")?;
            let (_, kind) = only("type")?;
            (kind == "command").then_some(Command { token, text })
        });
        Self { index, at: value.range().start, command }
    }

    /// Whether it runs our program.
    pub(super) fn is_ours(&self) -> bool {
        self.command.as_ref().is_some_and(|command| whose(&command.text) != Whose::Users)
    }
}

/// What the registration makes of a file without an entry.
pub(super) fn plan_for_none(ours: &Registration) -> Plan {
    if ours.adds_status_line { Plan::Add(write(ours, None)) } else { Plan::Keep }
}

/// What the registration makes of the file's entry.
pub(super) fn plan(text: &str, layout: &Layout, ours: &Registration) -> Result<Plan, Refusal> {
    let Some(entry) = &layout.status_line else { return Ok(plan_for_none(ours)) };
    let Some(command) = &entry.command else {
        return if ours.adds_status_line {
            Err(Refusal::at(text, entry.at, "\"statusLine\" is not of the type \"command\""))
        } else {
            Ok(Plan::Keep)
        };
    };
    let wanted = match whose(&command.text) {
        Whose::Users if !ours.adds_status_line => return Ok(Plan::Keep),
        Whose::Users if command.text.contains('\0') => {
            let why = "the command of \"statusLine\" contains U+0000";
            return Err(Refusal::at(text, command.token.start, why));
        }
        Whose::Users => write(ours, Some(&text[command.token.clone()])),
        Whose::Ours(former) => write(ours, former.as_deref()),
        Whose::Edited => return Err(edited(text, command)),
    };
    Ok(if wanted == command.text {
        Plan::Keep
    } else {
        Plan::Replace(command.token.clone(), token_of(&wanted))
    })
}

/// What undoes the registration of the file's entry.
pub(super) fn undo(text: &str, layout: &Layout) -> Result<Undo, Refusal> {
    let Some(entry) = &layout.status_line else { return Ok(Undo::Nothing) };
    let Some(command) = &entry.command else { return Ok(Undo::Nothing) };
    match whose(&command.text) {
        Whose::Users => Ok(Undo::Nothing),
        Whose::Ours(None) => Ok(Undo::Member(entry.index)),
        Whose::Ours(Some(former)) => Ok(Undo::Token(command.token.clone(), former)),
        Whose::Edited => Err(edited(text, command)),
    }
}

fn edited(text: &str, command: &Command) -> Refusal {
    let why = "the command of \"statusLine\" runs coord, but not as coord wrote it: put your own command in its place";
    Refusal::at(text, command.token.start, why)
}

/// A text as JSON, written as we write it.
fn token_of(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn text_of(token: &str) -> Option<String> {
    serde_json::from_str(token).ok()
}

/// Our command around that of the former token.
fn write(ours: &Registration, former: Option<&str>) -> String {
    let program = [ours.program(PROGRAM)];
    let mut words: Vec<&str> = Vec::new();
    words.extend(program.iter().chain(ours.arguments()).map(String::as_str));
    let text = former.and_then(text_of);
    if let (Some(token), Some(text)) = (former, &text) {
        if token_of(text) != token {
            words.extend([FORMER, token]);
        }
        words.push("--");
        words.extend(SHELL);
        words.push(text);
    }
    let words: Vec<String> = words.into_iter().map(quoted).collect();
    format!("exec {}", words.join(" "))
}

fn whose(command: &str) -> Whose {
    let Some(rest) = command.strip_prefix("exec ") else { return Whose::Users };
    let is_program = |word: &String| word.rsplit('/').next() == Some(PROGRAM);
    if !next_word(rest).is_some_and(|(word, _)| is_program(&word)) {
        return Whose::Users;
    }
    let Some(words) = words(rest) else { return Whose::Edited };
    let Some(at) = words.iter().position(|word| word == "--") else { return Whose::Ours(None) };
    let [shell, option, text] = &words[at + 1..] else { return Whose::Edited };
    if [shell.as_str(), option] != SHELL {
        return Whose::Edited;
    }
    let named = words[..at].iter().position(|word| word == FORMER);
    let token = named.and_then(|at| words.get(at + 1));
    // Who has changed the command since then wants to keep what it is now.
    let is_of_text = |token: &&String| text_of(token).as_ref() == Some(text);
    Whose::Ours(Some(token.filter(is_of_text).cloned().unwrap_or_else(|| token_of(text))))
}

/// Whether a word means the same to a shell with and without quotes.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b',' | b':' | b'+')
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The words of a command line that [`quoted`] could have written; none for any other.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut rest) = (Vec::new(), line);
    loop {
        let (word, behind) = next_word(rest)?;
        words.push(word);
        if behind.is_empty() {
            return Some(words);
        }
        rest = behind.strip_prefix(' ')?;
    }
}

/// The first word of a line, and what follows it.
fn next_word(line: &str) -> Option<(String, &str)> {
    let (mut word, mut rest) = (String::new(), line);
    loop {
        if let Some(quote) = rest.strip_prefix('\'') {
            let (inner, behind) = quote.split_once('\'')?;
            word.push_str(inner);
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("\\'") {
            word.push('\'');
            rest = behind;
        } else {
            let end = rest.bytes().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
            if end == 0 {
                let is_word = rest.len() < line.len() && (rest.is_empty() || rest.starts_with(' '));
                return is_word.then_some((word, rest));
            }
            word.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // N-08
    #[test]
    fn n_08_words_come_back_as_they_were_quoted() {
        for all in
            [&["a"][..], &["", "'", "''", "a b", "é\n$x `y` \\", "-c"], &["--", "\"\\u00e9\""]]
        {
            let line: Vec<String> = all.iter().map(|word| quoted(word)).collect();
            assert_eq!(words(&line.join(" ")).unwrap(), all);
        }
        for other in ["", " a", "a  b", "a ", "'a", "a;b", "a\tb", "$x", "\"a\"", "a >b"] {
            assert_eq!(words(other), None, "{other}");
        }
    }

    // N-08
    #[test]
    fn n_08_ours_is_told_from_others() {
        for (command, expected) in [
            ("my-line", Whose::Users),
            ("exec my-line", Whose::Users),
            ("/lib/coord-hook-statusline --state /s", Whose::Users),
            ("exec echo coord-hook-statusline", Whose::Users),
            ("exec '/a b/coord-hook-statusline' --state /s", Whose::Ours(None)),
            (
                "exec /b/coord-hook-statusline -- /bin/sh -c ''",
                Whose::Ours(Some("\"\"".to_owned())),
            ),
            (
                r#"exec /b/coord-hook-statusline --former '"\/x"' -- /bin/sh -c /x"#,
                Whose::Ours(Some(r#""\/x""#.to_owned())),
            ),
            (
                r#"exec /b/coord-hook-statusline --former '"\/x"' -- /bin/sh -c /y"#,
                Whose::Ours(Some(r#""/y""#.to_owned())),
            ),
            ("exec /b/coord-hook-statusline -- my-line", Whose::Edited),
            ("exec /b/coord-hook-statusline --state /s; my-line", Whose::Edited),
            ("exec /b/coord-hook-statusline | tr a b", Whose::Edited),
        ] {
            assert_eq!(whose(command), expected, "{command}");
        }
    }
}
