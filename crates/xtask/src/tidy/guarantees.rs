//! The list of guarantees, `docs/guarantees.md`, and the ids that a text names.
//!
//! Decides what a well-formed list is: tables under headings, one row for each guarantee, each id
//! once and below the heading of its group. Whether a guarantee has a proof is decided in `proofs`.

use super::{Report, Text};
use std::collections::BTreeSet;

pub(super) const LIST: &str = "docs/guarantees.md";
const HEADER: [&str; 3] = ["id", "guarantee", "state"];

/// One row of the list.
#[derive(Debug)]
pub(super) struct Guarantee {
    pub(super) id: String,
    pub(super) is_held: bool,
}

/// Reads the list; a line that is not as it should be is a finding.
pub(super) fn read(list: &Text, report: &mut Report) -> Vec<Guarantee> {
    let mut guarantees: Vec<Guarantee> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut group = "";
    for (number, line) in list.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            group = heading.split(|one: char| !one.is_alphanumeric()).next().unwrap_or("");
        }
        match row(line, group) {
            Ok(None) => (),
            Ok(Some(guarantee)) => {
                if !seen.insert(guarantee.id.clone()) {
                    let id = &guarantee.id;
                    report.findings.push(format!("{LIST}:{number}: {id} is there twice: drop one"));
                }
                guarantees.push(guarantee);
            }
            Err(what) => report.findings.push(format!("{LIST}:{number}: {what}")),
        }
    }
    guarantees
}

/// What a line of the list says; nothing if it is no row of a table.
fn row(line: &str, group: &str) -> Result<Option<Guarantee>, String> {
    if !line.contains('|') {
        return Ok(None);
    }
    let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    let cells: Vec<&str> = inner.unwrap_or_default().split('|').map(str::trim).collect();
    let [id, title, state] = *cells else {
        return Err("write `| id | guarantee | state |`, with no other bar in it".to_owned());
    };
    if [id, title, state] == HEADER || [id, title, state].iter().all(|cell| *cell == "---") {
        return Ok(None);
    }
    if !is_id(id) {
        return Err(format!("{id:?} is no id: write it like G1 or S0-08"));
    }
    if group_of(id) != group {
        return Err(format!("{id} stands below the heading {group:?}: move it to its group"));
    }
    if title.is_empty() {
        return Err(format!("{id} has no title: say what the user gets"));
    }
    match state {
        "held" | "planned" => Ok(Some(Guarantee { id: id.to_owned(), is_held: state == "held" })),
        other => Err(format!("{id} is {other:?}: write `held` or `planned`")),
    }
}

/// The group of an id: `G` of `G1`, `S0` of `S0-08`.
pub(super) fn group_of(id: &str) -> &str {
    id.split_once('-').map_or_else(|| id.get(..1).unwrap_or(id), |(group, _)| group)
}

/// The ids that a line names: as words (`S0-25a`), and in the name of a function (`fn s0_25a_…`).
pub(super) fn named(line: &str) -> Vec<String> {
    let words = line.split(|one: char| !(one.is_alphanumeric() || one == '-' || one == '_'));
    let mut found: Vec<String> = Vec::new();
    let mut is_name = false;
    for word in words.filter(|word| !word.is_empty()) {
        if is_name {
            found.extend(named_by_function(word));
        } else if is_id(word) {
            found.push(word.to_owned());
        }
        is_name = word == "fn";
    }
    found
}

/// `g1_…` names G1, `…_s0_25a` names S0-25a.
fn named_by_function(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split('_').collect();
    let pairs = parts.windows(2).filter_map(|pair| match pair {
        [row, number] => Some(format!("{}-{number}", row.to_uppercase())),
        _ => None,
    });
    pairs.chain(parts.iter().map(|part| part.to_uppercase())).filter(|id| is_id(id)).collect()
}

/// `G1`, `H-05`, `S0-25a`, `R-07`. `C4` has the shape of one and stands for nothing here; C0 and C1 are
/// sets of control characters.
pub(super) fn is_id(word: &str) -> bool {
    let Some((row, number)) = word.split_once('-') else {
        let number = word.strip_prefix(['G', 'C']).unwrap_or_default();
        let is_control = matches!(word, "C0" | "C1");
        return !is_control
            && matches!(number.len(), 1 | 2)
            && number.bytes().all(|b| b.is_ascii_digit());
    };
    let is_row = match row.as_bytes() {
        [letter] => letter.is_ascii_uppercase(),
        [letter, digit] => letter.is_ascii_uppercase() && digit.is_ascii_digit(),
        _ => false,
    };
    let is_number = match number.as_bytes() {
        [tens, ones] => tens.is_ascii_digit() && ones.is_ascii_digit(),
        [tens, ones, part] => {
            tens.is_ascii_digit() && ones.is_ascii_digit() && part.is_ascii_lowercase()
        }
        _ => false,
    };
    is_row && is_number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_words() {
        for id in ["G1", "G12", "C4", "H-05", "S0-25a", "R-07", "S0-00"] {
            assert!(is_id(id), "{id}");
        }
        for word in [
            "",
            "G",
            "G123",
            "C0",
            "C1",
            "id",
            "---",
            "UTF-8x9",
            "UTF-16",
            "S0",
            "coord-core",
            "H-",
            "-5",
            "R-7",
        ] {
            assert!(!is_id(word), "{word}");
        }
    }

    #[test]
    fn a_line_names_what_stands_whole_in_it() {
        for (line, ids) in [
            ("// G1, H-05: (S0-25a) and R-01…R-04.", vec!["G1", "H-05", "S0-25a", "R-01", "R-04"]),
            ("fn s0_08_defers() {}", vec!["S0-08"]),
            ("fn g12_reads_g1_once() {", vec!["G12", "G1"]),
            ("fn it_is_kept_h_05a() {", vec!["H-05a"]),
            ("let g1_x = h_05_y; fn grow_10_times() {} XG1 H-051", vec![]),
        ] {
            assert_eq!(named(line), ids, "{line:?}");
        }
    }

    #[test]
    fn lines_that_are_no_rows_are_found() {
        let good = "Prose.\n\n## G. Whole\n\n| id | guarantee | state |\n|---|---|---|\n\
                    | G1 | Nothing is lost. | held |\n| G2 | Once. | planned |\n";
        let read_of = |text: String| {
            let mut report = Report::default();
            let list = read(&Text { path: LIST.to_owned(), text }, &mut report);
            (list.iter().filter(|one| one.is_held).count(), list.len(), report.findings)
        };
        assert_eq!(read_of(good.to_owned()), (1, 2, Vec::new()));
        for bad in [
            "| G1 | Again. | held |",
            "| G3 | Half | way | held |",
            "| G3 | No end. | held",
            "| G3 | Two cells. |",
            "| G-3 | No id. | held |",
            "| S0-01 | Another group. | held |",
            "| G3 | | held |",
            "| G3 | No state. | maybe |",
        ] {
            let (_, _, findings) = read_of(format!("{good}{bad}\n"));
            assert_eq!(findings.len(), 1, "{bad}: {findings:?}");
            assert!(findings.iter().all(|one| one.starts_with("docs/guarantees.md:9: ")));
        }
    }
}
