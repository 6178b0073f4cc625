//! Each guarantee that is said to be held has a test that names it, and no other id is in use.
//!
//! The guarantees are those of `docs/guarantees.md`. A test names an id in a comment
//! (`// S0-08`) or in its name (`s0_08_…`); a scenario file is a test as a whole. Does not decide
//! whether a test would fail without the code: that is for who writes `held`.

use super::guarantees::{self, Guarantee, LIST};
use super::{Report, Text};
use std::collections::{BTreeMap, BTreeSet};

/// The map of the code: its table names proofs too.
const MAP: &str = "docs/architecture.md";
/// The check's own ids are planted ones.
const OWN: &str = "crates/xtask/src/tidy";
const SCENARIOS: &str = "tests/scenarios/";
/// Of a line of the report.
const WIDTH: usize = 100;

pub(super) fn check(files: &[Text], report: &mut Report) {
    let Some(list) = files.iter().find(|file| file.path == LIST) else {
        report.findings.push(format!("{LIST}: not there: list what the product guarantees"));
        return;
    };
    let guarantees = guarantees::read(list, report);
    let proved: BTreeSet<String> = files
        .iter()
        .filter_map(test_part)
        .flat_map(str::lines)
        .flat_map(guarantees::named)
        .collect();
    for Guarantee { id, .. } in guarantees.iter().filter(|one| one.is_held) {
        if !proved.contains(id) {
            report.findings.push(format!("{LIST}: {id} is held and no test names it: prove it"));
        }
    }
    let known: BTreeSet<&str> = guarantees.iter().map(|one| one.id.as_str()).collect();
    for file in files.iter().filter(|file| may_name(&file.path)) {
        names_known_ones(file, &known, report);
    }
    if let Some(map) = files.iter().find(|file| file.path == MAP) {
        for id in in_table(&map.text).difference(&proved).filter(|id| known.contains(id.as_str())) {
            report.findings.push(format!("{MAP}: {id} stands in the table and no test names it"));
        }
    }
    summarize(&guarantees, &proved, report);
}

fn names_known_ones(file: &Text, known: &BTreeSet<&str>, report: &mut Report) {
    for (number, line) in file.lines() {
        for id in guarantees::named(line) {
            if !known.contains(id.as_str()) {
                let path = &file.path;
                report.findings.push(format!(
                    "{path}:{number}: {id} is not in {LIST}: add it there, or correct it here"
                ));
            }
        }
    }
}

/// Whether ids in a file are ours: what a client said and settings of others are not.
fn may_name(path: &str) -> bool {
    let is_in_tree = path.starts_with("crates/") || path.starts_with("tests/");
    let is_record = ["/fixtures/", "/compat/", "/settings/"].iter().any(|part| path.contains(part))
        && !path.contains("/src/");
    path == MAP || (is_in_tree && !is_record && path != LIST && !path.starts_with(OWN))
}

/// The ids in the first cells of the map's rows.
fn in_table(map: &str) -> BTreeSet<String> {
    let rows = map.lines().filter_map(|line| line.trim().strip_prefix('|'));
    rows.filter_map(|row| row.split('|').next()).flat_map(guarantees::named).collect()
}

/// What of a file is tests: all of it in a directory of tests, else its module of tests.
fn test_part(file: &Text) -> Option<&str> {
    let path = &file.path;
    if path.starts_with(OWN) {
        return None;
    }
    if path.starts_with(SCENARIOS) && file.has_extension("json") {
        return Some(&file.text);
    }
    if !file.is_rust() {
        return None;
    }
    // What tests are built from proves nothing by itself.
    let is_tests = (path.starts_with("tests/") && !path.starts_with("tests/src/"))
        || path.contains("/tests/")
        || path.ends_with("/tests.rs");
    if is_tests {
        return Some(&file.text);
    }
    // A module in a file of its own is declared above code that is no test.
    let at = file.text.match_indices("#[cfg(test)]\nmod ").find(|(at, _)| {
        let module = file.text.get(*at..).and_then(|rest| rest.lines().nth(1));
        module.is_some_and(|line| line.ends_with('{'))
    });
    file.text.get(at?.0..)
}

/// How far the list is, for people.
fn summarize(guarantees: &[Guarantee], proved: &BTreeSet<String>, report: &mut Report) {
    let (held, planned): (Vec<_>, Vec<_>) = guarantees.iter().partition(|one| one.is_held);
    let (named, bare): (Vec<&str>, Vec<&str>) =
        planned.iter().map(|one| one.id.as_str()).partition(|id| proved.contains(*id));
    let without = held.iter().filter(|one| !proved.contains(&one.id)).count();
    let proofs = if without == 0 {
        "all with a proof".to_owned()
    } else {
        format!("{without} without a proof")
    };
    let named = if named.is_empty() { "none".to_owned() } else { named.join(" ") };
    let (held, planned) = (held.len(), planned.len());
    wrap(
        &format!(
            "{held} guarantees held, {proofs}; {planned} planned; planned ones that a test \
             already names: {named}"
        ),
        report,
    );
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for id in bare {
        groups.entry(guarantees::group_of(id)).or_default().push(id);
    }
    for (group, ids) in groups {
        wrap(&format!("{group}, planned without any proof: {}", ids.join(" ")), report);
    }
}

/// One note, over as many lines as it needs; each but the first is indented.
fn wrap(text: &str, report: &mut Report) {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && WIDTH < line.chars().count() + 1 + word.chars().count() {
            report.notes.push(std::mem::replace(&mut line, " ".to_owned()));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    report.notes.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "## G. Whole\n| id | guarantee | state |\n|---|---|---|\n";

    fn checked(files: &[(&str, &str)]) -> Report {
        let mut report = Report::default();
        let files: Vec<Text> = files
            .iter()
            .map(|(path, text)| Text { path: (*path).to_owned(), text: (*text).to_owned() })
            .collect();
        check(&files, &mut report);
        report
    }

    #[test]
    fn a_held_guarantee_wants_a_test() {
        let list = format!("{ROWS}| G1 | Kept. | held |\n| G2 | Once. | planned |\n");
        let found = |path: &str, text: &str| checked(&[(LIST, &list), (path, text)]).findings.len();
        for (path, text, n) in [
            ("crates/x/src/a.rs", "// G1\n", 1),
            ("crates/x/src/a.rs", "// G2\n#[cfg(test)]\nmod tests;\n// G1\n", 1),
            ("crates/x/src/a.rs", "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod t {\n// G1\n}\n", 0),
            ("crates/x/src/a.rs", "#[cfg(test)]\nmod tests {\nfn g1_is_kept() {}\n}\n", 0),
            ("crates/x/src/a/tests.rs", "// G1\n", 0),
            ("crates/x/tests/a.rs", "//! G1: kept.\n", 0),
            ("crates/x/tests/a.md", "G1\n", 1),
            ("tests/src/home.rs", "// G1\n", 1),
            ("tests/tests/a.rs", "// G1\n", 0),
            ("tests/scenarios/a.json", "{\"proves\": [\"G1\"]}", 0),
            ("tests/fixtures/a.json", "{\"proves\": [\"G1\"]}", 1),
            ("crates/xtask/src/tidy/proofs.rs", "#[cfg(test)]\nmod tests {\n// G1\n}\n", 1),
        ] {
            assert_eq!(found(path, text), n, "{path} {text:?}");
        }
    }

    #[test]
    fn an_id_that_nobody_listed_is_found() {
        let list = format!("{ROWS}| G1 | Kept. | planned |\n");
        for (path, text, n) in [
            ("crates/x/src/a.rs", "fine\n// G2\n", 1),
            ("crates/x/tests/a.rs", "fn h_99_x() {}\n", 1),
            ("crates/x/docs.md", "As H-99 says, and S5-01.\n", 2),
            (MAP, "| G1, G2 | a.rs | b.rs |\n", 2),
            ("tests/scenarios/a.json", "\"G2\"", 1),
            ("tests/fixtures/a.txt", "G2", 0),
            ("README.md", "G2", 0),
        ] {
            let found = checked(&[(LIST, &list), (path, text)]).findings;
            assert_eq!(found.len(), n, "{path} {text:?}: {found:?}");
        }
        assert_eq!(checked(&[]).findings.len(), 1, "no list");
    }

    #[test]
    fn the_summary_counts_and_wraps() {
        let ids = (10..60).map(|n| format!("| S0-{n} | What it is. | planned |\n"));
        let list = format!(
            "{ROWS}| G1 | Kept. | held |\n| G2 | Once. | planned |\n## S0. More\n{}",
            ids.collect::<String>()
        );
        let report = checked(&[(LIST, &list), ("crates/x/tests/a.rs", "// G1, G2\n")]);
        let notes: Vec<&str> = report.notes.iter().map(String::as_str).collect();
        assert_eq!(
            notes.join("").split(" S0-10").next(),
            Some(
                "1 guarantees held, all with a proof; 51 planned; planned ones that a test \
                 already names: G2S0, planned without any proof:"
            )
        );
        assert!(notes.len() > 4 && notes.iter().all(|line| line.len() <= WIDTH), "{notes:?}");
    }
}
