//! Words that may not stand in a tracked file: unfinished work, tests that do not run, sources of packages that
//! others cannot reach, invisible characters.

use super::{Report, Text};

/// Files made by tools, where names of others may stand.
const MADE: [&str; 2] = ["Cargo.lock", "package-lock.json"];
/// Where packages may come from.
const SOURCES: [&str; 2] = [
    "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
    "\"resolved\": \"https://registry.npmjs.org/",
];

/// A word in pieces, so that this file does not have it, and what to do about it.
struct Word {
    pieces: [&'static str; 2],
    /// Letters right before or behind make it another word.
    is_whole: bool,
    remedy: &'static str,
}

const fn word(first: &'static str, second: &'static str, remedy: &'static str) -> Word {
    Word { pieces: [first, second], is_whole: true, remedy }
}

const fn part(first: &'static str, second: &'static str, remedy: &'static str) -> Word {
    Word { pieces: [first, second], is_whole: false, remedy }
}

const FINISH: &str = "finish it, or drop it";
const REGISTRY: &str = "a private source of packages: use the public one";

const WORDS: [Word; 7] = [
    word("TO", "DO", FINISH),
    word("FIX", "ME", FINISH),
    word("X", "XX", FINISH),
    part("to", "do!(", FINISH),
    part("unimple", "mented!(", FINISH),
    part("#[ign", "ore", "a test that does not run proves nothing: run it, or drop it"),
    part(
        "#[should_",
        "panic",
        "any panic would do: check the value, or catch the one that is meant",
    ),
];

pub(super) fn check(files: &[Text], report: &mut Report) {
    for file in files {
        let is_made = MADE.iter().any(|name| file.path.ends_with(name));
        for (number, line) in file.lines() {
            let mut found = |what: &str| {
                report.findings.push(format!("{}:{number}: {what}", file.path));
            };
            if is_made {
                let line = line.trim_start();
                let names_source = line.starts_with("source =") || line.starts_with("\"resolved\"");
                if names_source && !SOURCES.iter().any(|source| line.starts_with(source)) {
                    found(REGISTRY);
                }
                continue;
            }
            for word in WORDS.iter().filter(|word| word.stands_in(line)) {
                found(&format!("{:?}: {}", word.pieces.concat(), word.remedy));
            }
            // A capture of a screen is what the terminal was sent.
            let extension = std::path::Path::new(&file.path).extension();
            let is_capture = extension.is_some_and(|one| one == "ansi");
            if !is_capture && line.chars().any(is_invisible) {
                found("a control character or one without a width: write it as an escape");
            }
        }
    }
}

impl Word {
    fn stands_in(&self, line: &str) -> bool {
        let text = self.pieces.concat();
        line.match_indices(&text).any(|(at, _)| {
            let is_letter = |other: Option<char>| {
                other.is_some_and(|other| other.is_alphanumeric() || other == '_')
            };
            let before = line.get(..at).and_then(|before| before.chars().next_back());
            let behind = line.get(at + text.len()..).and_then(|behind| behind.chars().next());
            !self.is_whole || !(is_letter(before) || is_letter(behind))
        })
    }
}

/// C0 but for tabs, C1, and those that hide or turn what a reader sees.
fn is_invisible(one: char) -> bool {
    (one.is_control() && one != '\t')
        || matches!(one, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::findings;

    #[test]
    fn every_word_is_found_and_named_with_its_line() {
        for word in &WORDS {
            let text = format!("fine\nhere: {} x\n", word.pieces.concat());
            let found = findings(check, "README.md", &text);
            assert_eq!(found.len(), 1, "{:?} {found:?}", word.pieces);
            assert!(found.iter().all(|line| line.starts_with("README.md:2: ")), "{found:?}");
        }
    }

    #[test]
    fn words_within_words_are_other_words() {
        for text in ["\\uXX", "XX", "mktemp new-XX", "todos"] {
            let text = format!("{text}XX\n");
            assert_eq!(findings(check, "a.sh", &text), Vec::<String>::new());
        }
    }

    #[test]
    fn invisible_characters_and_private_sources_are_found() {
        for (path, text, n) in [
            ("a.md", "\u{202e}", 1),
            ("a.md", "a\u{1b}b\n\u{9b}", 2),
            ("a.md", "a\tb\u{e9}", 0),
            ("Cargo.lock", "source = \"registry+https://example.com/index\"", 1),
            ("Cargo.lock", SOURCES[0], 0),
        ] {
            assert_eq!(findings(check, path, text).len(), n, "{text:?}");
        }
    }
}
