//! The classes and signatures of `screens.toml`, and how a screen is held against them.
//!
//! Decides nothing about a screen that is not said in the file: the first class whose conditions
//! all hold is the screen's. Holds S0-01: the list is data with a version.

use crate::Screen;
use crate::layout::{Layout, Region};
use serde::Deserialize;
use std::sync::{LazyLock, OnceLock};

const FILE: &str = include_str!("../screens.toml");
/// The version of the file's format that this code reads.
const VERSION: u32 = 1;

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rules: Rules = toml::from_str(FILE).expect("the file is part of the program and tested");
    debug_assert_eq!(rules.version, VERSION, "another format");
    rules
});
/// The user's own signatures (S0-01).
static OWN: OnceLock<Vec<String>> = OnceLock::new();

/// Adds the user's own signatures, once for the program's life. True if they were taken.
pub(crate) fn add_signatures(own: Vec<String>) -> bool {
    OWN.set(own).is_ok()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    version: u32,
    signatures: Vec<String>,
    class: Vec<Class>,
    input: Input,
    shell: Shell,
}

/// What tells of a draft that is not in the input box.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    stash: Vec<String>,
}

/// What a shell's prompt looks like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shell {
    ends: Vec<String>,
    within: Vec<String>,
    not: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Class {
    /// A [`Screen`]'s word, or `unknown`.
    screen: String,
    when: Vec<Condition>,
}

/// Holds if a line of the region fits one of `some` (where there are any) and no line one of `none`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    region: Region,
    #[serde(default)]
    some: Vec<String>,
    #[serde(default)]
    none: Vec<String>,
}

pub(crate) fn class_of(layout: &Layout<'_>) -> Option<Screen> {
    let class = RULES.class.iter().find(|class| class.when.iter().all(|one| one.holds(layout)))?;
    Screen::from_word(&class.screen)
}

/// Whether a line beside the input box tells of a stashed draft.
pub(crate) fn is_stash(line: &str) -> bool {
    RULES.input.stash.iter().any(|pattern| fits(pattern, line.trim()))
}

/// Whether this, without the blanks behind it, is a shell's prompt and nothing else.
pub(crate) fn is_prompt(line: &str) -> bool {
    let Shell { ends, within, not } = &RULES.shell;
    let before = ends.iter().find_map(|end| line.strip_suffix(end.as_str()));
    before.is_some_and(|before| !within.iter().any(|mark| before.contains(mark.as_str())))
        && !not.iter().any(|pattern| fits(pattern, line.trim()))
}

/// The lowest one of several: it is the newest. Blanks do not count: a terminal breaks lines anywhere, and the client indents what follows.
pub(crate) fn signature_in(text: &str) -> Option<&'static str> {
    let text = without_blanks(text);
    let own = OWN.get().map_or(&[][..], Vec::as_slice);
    RULES
        .signatures
        .iter()
        .chain(own)
        .filter_map(|one| Some((text.rfind(&without_blanks(one))?, one.as_str())))
        .max_by_key(|(at, _)| *at)
        .map(|(_, one)| one)
}

fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

impl Condition {
    fn holds(&self, layout: &Layout<'_>) -> bool {
        let lines = layout.region(self.region);
        let any = |patterns: &[String]| {
            lines.iter().any(|line| patterns.iter().any(|pattern| fits(pattern, line)))
        };
        (self.some.is_empty() || any(&self.some)) && !any(&self.none)
    }
}

/// Whether the whole line fits; `*` stands for anything.
pub(crate) fn fits(pattern: &str, line: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == line;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = line.strip_prefix(first).and_then(|left| left.strip_suffix(last)) else {
        return false;
    };
    for piece in middle.split('*') {
        match left.split_once(piece) {
            Some((_, behind)) => left = behind,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    // S0-01
    #[test]
    fn the_file_is_whole() {
        assert_eq!(RULES.version, VERSION);
        assert!(RULES.signatures.iter().all(|signature| !without_blanks(signature).is_empty()));
        for Class { screen, when } in &RULES.class {
            assert!(screen == "unknown" || Screen::from_word(screen).is_some(), "{screen}");
            assert!(!when.is_empty(), "{screen}: applies always");
            for Condition { region, some, none } in when {
                assert!(!(some.is_empty() && none.is_empty()), "{screen}: {region:?} holds always");
            }
        }
        for word in Screen::ALL.map(Screen::word) {
            assert!(RULES.class.iter().any(|class| class.screen == word), "{word}: no class");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, line, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("*", "a b", true),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("*b", "ba", false),
            ("a*a", "a", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*b*b*", "b", false),
            ("*b*b*", "abab", true),
            ("✻ *… (*", "✻ Hatching… (3s)", true),
        ] {
            assert_eq!(fits(pattern, line), expected, "{pattern:?} {line:?}");
        }
    }

    // S0-01
    #[test]
    fn signatures_are_found_however_they_are_broken() {
        for text in [
            "RangeError: Maximum call stack size exceeded\n    at f (cli.js:1:2)",
            "  RangeError: Maximum call\n  stack size exceeded",
            "RangeError: Maxi\nmum call stack size exceeded",
        ] {
            let found = signature_in(text);
            assert_eq!(found, Some("RangeError: Maximum call stack size exceeded"), "{text:?}");
        }
        let rejected = "x Exception in PromiseRejectCallback:\ny";
        assert_eq!(signature_in(rejected), Some("Exception in PromiseRejectCallback"));
        for text in ["", "RangeError", "Maximum call stack size exceeded"] {
            assert_eq!(signature_in(text), None, "{text:?}");
        }
    }
}
