//! Separates the client's options from the user's words (H-19), as the client does: an option takes its value
//! without looking at it, and a list takes every word up to the next option.
//!
//! If a word may be meant as the prompt but is read as a value, nothing is kept (F23 of the client's
//! behaviour: `--allowedTools Bash "fix it"` has no prompt).

use super::options::{COMMANDS, Known, Takes, Then, find};

/// Longest options and values together, in bytes; longer ones are not stored.
const KEPT_BYTES_MAX: usize = 8 * 1024;
/// Longest name of an unknown option in an error, in characters.
const NAME_CHARS_MAX: usize = 40;

/// The options that a resume repeats, with their values. The error names the option that prevents a resume,
/// and never a value or a prompt (G11).
pub(super) fn kept(words: &[String]) -> Result<Vec<String>, String> {
    let mut rest = Words { words };
    let mut kept = Vec::new();
    let mut has_prompt = false;
    while let Some(word) = rest.take() {
        if word == "--" {
            break;
        }
        if is_option(word) {
            kept.extend(option(word, &mut rest)?);
        } else if has_prompt {
            return Err("more than one word is no option".to_owned());
        } else if COMMANDS.contains(&word) {
            return Err(format!("{word} is a command of the client, and no session"));
        } else {
            has_prompt = true;
        }
    }
    if KEPT_BYTES_MAX < kept.iter().map(String::len).sum() {
        return Err(format!("its options are longer than {} KiB", KEPT_BYTES_MAX / 1024));
    }
    Ok(kept)
}

/// The words that have not been read yet.
struct Words<'a> {
    words: &'a [String],
}

impl<'a> Words<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    /// The next word, if it is no option.
    fn take_value(&mut self) -> Option<&'a str> {
        if self.words.first().is_some_and(|word| is_option(word)) { None } else { self.take() }
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// Whether a word is an option. `--` counts as one, because it ends a list.
fn is_option(word: &str) -> bool {
    1 < word.len() && word.starts_with('-')
}

/// What is kept of the option `word` and of the values after it.
fn option(word: &str, rest: &mut Words<'_>) -> Result<Vec<String>, String> {
    let (name, joined) = match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, Some(value)),
        Some(_) | None => (word, None),
    };
    let Some(known) = find(name) else {
        return Err(unknown(name));
    };
    if let Then::Refused(why) = known.then {
        return Err(format!("{name}: {why}"));
    }
    let values = match (known.takes, joined) {
        (Takes::Nothing, Some(_)) => return Err(format!("{name} takes no value")),
        (Takes::Nothing, None) => Vec::new(),
        (Takes::One | Takes::Perhaps | Takes::List, Some(value)) => vec![value],
        (Takes::One, None) => vec![rest.take().ok_or_else(|| missing(name))?],
        (Takes::Perhaps, None) => perhaps(name, known, rest)?,
        (Takes::List, None) => list(name, rest)?,
    };
    check(name, known, &values)?;
    Ok(match (known.then, known.takes) {
        (Then::Left | Then::Refused(_), _) => Vec::new(),
        // The long name is used, because `-d=x` would have the value `=x`.
        (Then::Kept | Then::KeptFile, Takes::Perhaps) => {
            let long = known.names.last().copied().unwrap_or(name);
            vec![values.first().map_or_else(|| long.to_owned(), |value| format!("{long}={value}"))]
        }
        (Then::Kept | Then::KeptFile, Takes::Nothing | Takes::One | Takes::List) => {
            [name].iter().chain(&values).map(|&word| word.to_owned()).collect()
        }
    })
}

/// Reads an optional value. As the last word, it may be meant as the prompt.
fn perhaps<'a>(name: &str, known: Known, rest: &mut Words<'a>) -> Result<Vec<&'a str>, String> {
    let Some(value) = rest.take_value() else {
        return Ok(Vec::new());
    };
    let is_last = rest.words.first().is_none_or(|word| !is_option(word));
    // If the option is left out, the word may be either.
    if known.then != Then::Left && (is_last || has_blank(value)) {
        return Err(ambiguous(name));
    }
    Ok(vec![value])
}

/// Reads the values of a list. The first word is certainly a value, because the list needs one.
fn list<'a>(name: &str, rest: &mut Words<'a>) -> Result<Vec<&'a str>, String> {
    let mut values = vec![rest.take_value().ok_or_else(|| missing(name))?];
    while let Some(value) = rest.take_value() {
        if has_blank(value) {
            return Err(ambiguous(name));
        }
        values.push(value);
    }
    if 1 < values.len() && rest.is_empty() {
        return Err(ambiguous(name));
    }
    Ok(values)
}

/// Whether a word has a blank outside parentheses: `Bash(git *)` is one rule.
fn has_blank(word: &str) -> bool {
    let mut depth = 0_usize;
    word.chars().any(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => (),
        }
        depth == 0 && c.is_whitespace()
    })
}

fn check(name: &str, known: Known, values: &[&str]) -> Result<(), String> {
    if values.iter().any(|value| is_option(value)) {
        return Err(format!("the value of {name} looks like an option"));
    }
    let is_json = |value: &&str| value.trim_start().starts_with(['{', '[']);
    if known.then == Then::KeptFile && values.iter().any(is_json) {
        return Err(format!("{name} names no file: its text may hold secrets"));
    }
    Ok(())
}

fn missing(name: &str) -> String {
    format!("{name} has no value")
}

fn ambiguous(name: &str) -> String {
    format!("a word behind {name} may be a value or a prompt")
}

/// The error for an unknown option. An option's name is no secret, but a word that only begins like an option
/// may be a prompt.
fn unknown(name: &str) -> String {
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if is_name && name.len() <= NAME_CHARS_MAX {
        format!("{name} is not known")
    } else {
        "a word that begins with a dash is not known".to_owned()
    }
}

#[cfg(test)]
mod tests;
