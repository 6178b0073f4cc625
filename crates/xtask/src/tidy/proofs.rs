//! Each requirement that the map names has a test that names it.
//!
//! The map is the table in `crates/README.md`: the first cell of a row holds the ids. A test names
//! an id in a comment (`// S0-08`) or in its name (`s0_08_…`).

use super::{Report, Text};
use std::collections::BTreeSet;

const MAP: &str = "crates/README.md";

pub(super) fn check(files: &[Text], report: &mut Report) {
    let Some(map) = files.iter().find(|file| file.path == MAP) else {
        report.notes.push(format!("not checked: proofs of requirements, there is no {MAP} yet"));
        return;
    };
    let tests: String = files.iter().filter_map(test_part).collect();
    for id in ids(&map.text) {
        let name = id.replace('-', "_").to_lowercase();
        if !names(&tests, &id) && !names(&tests, &name) {
            report.findings.push(format!("{MAP}: {id} stands in the table and no test names it"));
        }
    }
}

/// The ids in the first cells of the map's rows.
fn ids(map: &str) -> BTreeSet<String> {
    let cells = map.lines().filter_map(|line| line.trim().strip_prefix('|')?.split('|').next());
    let words =
        cells.flat_map(|cell| cell.split(|one: char| !(one.is_alphanumeric() || one == '-')));
    words.filter(|word| is_id(word)).map(ToOwned::to_owned).collect()
}

/// `G1`, `H-05`, `S0-25a`, `R-07`.
fn is_id(word: &str) -> bool {
    let Some((row, number)) = word.split_once('-').or_else(|| Some(("G", word.strip_prefix('G')?)))
    else {
        return false;
    };
    let mut letters = row.chars();
    letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && letters.all(|digit| digit.is_ascii_digit())
        && number.starts_with(|digit: char| digit.is_ascii_digit())
        && number
            .trim_end_matches(|letter: char| letter.is_ascii_lowercase())
            .bytes()
            .all(|b| b.is_ascii_digit())
}

/// Whether an id stands in a text and is not the beginning or end of a longer one.
fn names(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let behind = text.get(at + id.len()..).and_then(|behind| behind.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !behind.is_some_and(char::is_alphanumeric)
    })
}

/// What of a file is tests: all of it in a directory of tests, else what follows `#[cfg(test)]`.
fn test_part(file: &Text) -> Option<&str> {
    let path = &file.path;
    let is_tests =
        path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs");
    if is_tests {
        return Some(&file.text);
    }
    let at = file.is_rust().then(|| file.text.find("#[cfg(test)]")).flatten()?;
    file.text.get(at..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_words() {
        for id in ["G1", "G12", "H-05", "S0-25a", "R-07", "S0-00"] {
            assert!(is_id(id), "{id}");
        }
        for word in ["", "G", "id", "---", "UTF-8x9", "S0", "coord-core", "H-", "-5", "Rust"] {
            assert!(!is_id(word), "{word}");
        }
    }

    #[test]
    fn an_id_without_a_test_is_found() {
        let file = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let map = file(
            MAP,
            "text H-99\n| id | file |\n|---|---|\n| S0-08, G1 | a.rs |\n| S0-25a | b |\n",
        );
        let source =
            file("crates/x/src/a.rs", "// G1\n#[cfg(test)]\n// S0-25\nfn s0_08_defers() {}\n");
        let mut report = Report::default();
        check(&[map, source], &mut report);
        let found = report.findings.join("\n");
        assert_eq!(report.findings.len(), 2, "{found}");
        assert!(found.contains(" G1 ") && found.contains(" S0-25a "), "{found}");
    }
}
