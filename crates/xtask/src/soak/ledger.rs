//! The ledger of recorded runs, `tests/soak.jsonl`: one line of JSON for each, so that figures add up over time.
//!
//! Decides what a line says, which seeds are fresh, and how the totals are told. Lines are only ever appended; a run
//! of a tree with changes says so, since its commit does not name what was run.

use super::Report;
use crate::root;
use anyhow::{Context, bail, ensure};
use coord_model::stamp::rfc3339;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Command;

/// The ledger, from the repository's top.
pub(crate) const LEDGER: &str = "tests/soak.jsonl";
/// The page that shows the totals, in a section of its own.
pub(crate) const PAGE: &str = "docs/accuracy.md";
const SECTION: &str = "## All recorded runs\n";

/// Living sessions' time, which is shown in hours.
pub(super) const SESSION_SECONDS: &str = "session-seconds";
/// The order in which counts are told; others follow.
const COUNTS: [&str; 19] = [
    "rounds",
    SESSION_SECONDS,
    "acts",
    "recoveries",
    "messages",
    "notices",
    "answers",
    "forged events",
    "headless runs",
    "coordinators killed",
    "hooks killed",
    "hooks run",
    "snapshots cut",
    "cases of each property",
    "fuzz executions",
    "parsers",
    "races",
    "planted bugs",
    "bugs found",
];
/// How the name of a commit ends if the tree had changes.
pub(super) const DIRTY: &str = "-dirty";

/// Numbers by what they count.
pub(super) type Counts = BTreeMap<String, u64>;

/// One run of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// The day on which it ended, in UTC.
    date: String,
    /// What was run; it ends in `-dirty` if the tree had changes.
    commit: String,
    part: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seeds: Option<Seeds>,
    counts: Counts,
    /// How long it took.
    seconds: u64,
    failures: Vec<Failed>,
}

/// Consecutive seeds, all of which were run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seeds {
    pub(super) first: u64,
    pub(super) n: u64,
}

impl Seeds {
    fn overlaps(self, other: Self) -> bool {
        self.first < other.first.saturating_add(other.n)
            && other.first < self.first.saturating_add(self.n)
    }
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    what: String,
}

/// All entries, or what is wrong with which line.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let entry: Entry =
            serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        let twice = entry.seeds.and_then(|seeds| overlap(&entries, &entry.part, seeds));
        if let Some(twice) = twice {
            return Err(format!(
                "line {number}: its seeds were run before, from {} on; drop the line",
                twice.first
            ));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Recorded seeds of this part among these.
fn overlap(entries: &[Entry], part: &str, seeds: Seeds) -> Option<Seeds> {
    let of_part = entries.iter().filter(|entry| entry.part == part);
    of_part.filter_map(|entry| entry.seeds).find(|before| before.overlaps(seeds))
}

/// The recorded entries.
pub(super) fn read() -> anyhow::Result<Vec<Entry>> {
    let text = match fs::read_to_string(root().join(LEDGER)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.context(LEDGER)?,
    };
    match parse(&text) {
        Ok(entries) => Ok(entries),
        Err(why) => bail!("{LEDGER}: {why}"),
    }
}

/// The first of so many seeds that the part has never run, as far as was recorded; short enough to be read out.
pub(super) fn fresh(part: &str, n: u64) -> anyhow::Result<u64> {
    let entries = read()?;
    for _ in 0..1000 {
        let mut bytes = [0; 4];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        let first = u32::from_ne_bytes(bytes).into();
        // The fuzzer takes 0 as a request to draw a seed of its own.
        if first != 0 && overlap(&entries, part, Seeds { first, n }).is_none() {
            return Ok(first);
        }
    }
    bail!("{n} seeds in a row that {part} never ran were not found: run fewer at once")
}

/// The commit that is checked out, and whether something differs from it. What a run is recorded in does not count.
pub(super) fn commit() -> anyhow::Result<String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(root()).output().context("git")?;
        let why = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git {}: {}", words.join(" "), why.trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let name = git(&["rev-parse", "--short=12", "HEAD"])?;
    let others = [LEDGER, PAGE].map(|file| format!(":!{file}"));
    let changes = git(&["status", "--porcelain", "--", ".", &others[0], &others[1]])?;
    Ok(if changes.is_empty() { name } else { name + DIRTY })
}

/// The entry of a part's run that began when the tree was at `before`.
pub(super) fn entry(
    part: &str,
    before: &str,
    report: &Report,
    seconds: u64,
) -> anyhow::Result<Entry> {
    let after = commit()?;
    // What was run last may be another tree than what was run first.
    let is_same = after == before || before.ends_with(DIRTY);
    let commit = if is_same { before.to_owned() } else { format!("{before}{DIRTY}") };
    let date = rfc3339(coord_store::now().wall_ms);
    let failures =
        report.failures.iter().map(|one| Failed { seed: one.seed, what: one.what.clone() });
    Ok(Entry {
        date: date.get(..10).unwrap_or(&date).to_owned(),
        commit,
        part: part.to_owned(),
        seeds: report.seeds,
        counts: report.counts.clone(),
        seconds,
        failures: failures.collect(),
    })
}

/// Appends an entry, and brings the page up to date.
pub(super) fn append(entry: &Entry) -> anyhow::Result<()> {
    let line = serde_json::to_string(entry)? + "\n";
    let file = fs::OpenOptions::new().append(true).create(true).open(root().join(LEDGER));
    file.and_then(|mut file| file.write_all(line.as_bytes())).context(LEDGER)?;
    write_page()
}

/// Puts the totals into the page.
pub(super) fn write_page() -> anyhow::Result<()> {
    let (path, entries) = (root().join(PAGE), read()?);
    let page = fs::read_to_string(&path).context(PAGE)?;
    let updated = with_totals(&page, &entries)
        .with_context(|| format!("{PAGE}: no table in a section {}", SECTION.trim()))?;
    if updated != page {
        fs::write(&path, updated).context(PAGE)?;
    }
    Ok(())
}

/// The page with these totals in place of those that it shows. None if it has no place for them.
pub(crate) fn with_totals(page: &str, entries: &[Entry]) -> Option<String> {
    let (before, section) = page.split_once(SECTION)?;
    let start = section.find("\n|")? + 1;
    let table = section.get(start..)?;
    let end = table.find("\n\n").map_or(table.len(), |at| at + 1);
    let (lead, rest) = (section.get(..start)?, table.get(end..)?);
    Some(format!("{before}{SECTION}{lead}{}{rest}", totals(entries)))
}

/// The totals of each part, as a table.
pub(crate) fn totals(entries: &[Entry]) -> String {
    let mut table = "| part | runs | seeds | what ran | minutes | failures |\n".to_owned();
    table.push_str("|---|---:|---:|---|---:|---:|\n");
    let parts: BTreeSet<&str> = entries.iter().map(|entry| entry.part.as_str()).collect();
    for part in parts {
        let of_part: Vec<&Entry> = entries.iter().filter(|entry| entry.part == part).collect();
        let sum = |of: fn(&Entry) -> u64| of_part.iter().map(|entry| of(entry)).sum::<u64>();
        let mut counts = Counts::new();
        for (what, n) in of_part.iter().flat_map(|entry| &entry.counts) {
            *counts.entry(what.clone()).or_default() += n;
        }
        let minutes = grouped(sum(|entry| entry.seconds) / 60);
        let seeds = sum(|entry| entry.seeds.map_or(0, |seeds| seeds.n));
        let seeds = if seeds == 0 { String::new() } else { grouped(seeds) };
        let failures = sum(|entry| u64::try_from(entry.failures.len()).unwrap_or(u64::MAX));
        let _always = writeln!(
            table,
            "| {part} | {} | {seeds} | {} | {minutes} | {failures} |",
            of_part.len(),
            words(&counts)
        );
    }
    table
}

/// Counts, for people.
pub(super) fn words(counts: &Counts) -> String {
    let mut counted: Vec<(&str, u64)> =
        counts.iter().map(|(what, n)| (what.as_str(), *n)).filter(|(_, n)| *n != 0).collect();
    let place = |what| COUNTS.iter().position(|one| *one == what).unwrap_or(COUNTS.len());
    counted.sort_by_key(|(what, _)| place(*what));
    let words = counted.into_iter().map(|(what, n)| match what {
        SESSION_SECONDS => format!("{} session-hours", grouped(n / 3600)),
        _ => format!("{} {what}", grouped(n)),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// `1,234,567`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(part: &str, first: u64, n: u64, counts: &str, failures: &str) -> String {
        format!(
            r#"{{"date":"2030-01-02","commit":"0123456789ab","part":"{part}","seeds":{{"first":{first},"n":{n}}},"counts":{{{counts}}},"seconds":1800,"failures":[{failures}]}}"#
        )
    }

    #[test]
    fn totals_add_up_by_part_and_are_put_into_the_page() {
        let failed = r#"{"seed":104,"what":"R-01"}"#;
        let text = [
            line("simulation", 100, 5, r#""session-seconds":5400000,"acts":7"#, failed),
            line("simulation", 105, 1000, r#""session-seconds":1800000,"acts":1000"#, ""),
            line("kills", 100, 2, r#""a new count":4,"hooks killed":3"#, ""),
        ]
        .join("\n");
        let entries = parse(&text).unwrap();
        let rows = "| kills | 1 | 2 | 3 hooks killed, 4 a new count | 30 | 0 |\n\
                    | simulation | 2 | 1,005 | 2,000 session-hours, 1,007 acts | 60 | 1 |\n";
        let table = totals(&entries);
        assert!(table.ends_with(rows), "{table}");
        let page = format!("# P\n\n{SECTION}\nLead.\n\n| old |\n|---|\n| 1 |\n\nAfter.\n");
        let expected = format!("# P\n\n{SECTION}\nLead.\n\n{table}\nAfter.\n");
        assert_eq!(with_totals(&page, &entries), Some(expected.clone()));
        assert_eq!(with_totals(&expected, &entries), Some(expected));
        assert_eq!(with_totals("# P\n\n| other |\n", &entries), None);
        assert_eq!(with_totals(&format!("# P\n\n{SECTION}\nNo table.\n"), &entries), None);
    }

    #[test]
    fn lines_that_would_count_twice_or_cannot_be_read_are_refused() {
        let good = line("simulation", 100, 5, "", "");
        // The same seeds in another part are other runs.
        assert_eq!(
            parse(&[good.clone(), line("kills", 100, 5, "", "")].join("\n")).unwrap().len(),
            2
        );
        assert_eq!(
            parse(&[good.clone(), line("simulation", 105, 5, "", "")].join("\n")).unwrap().len(),
            2
        );
        for (bad, why) in [
            (line("simulation", 104, 1, "", ""), "run before"),
            (line("simulation", 90, 11, "", ""), "run before"),
            (line("simulation", 0, 1000, "", ""), "run before"),
            ("{}".to_owned(), "missing field"),
            (String::new(), "EOF"),
        ] {
            let error = parse(&[good.clone(), bad, String::new()].join("\n")).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let report = Report {
            seeds: Some(Seeds { first: 7, n: 3 }),
            counts: Counts::from([("races".to_owned(), 2)]),
            failures: vec![super::super::Failure {
                what: "it went wrong".to_owned(),
                seed: Some(9),
                again: "the command".to_owned(),
            }],
        };
        let entry = entry("races", "0123456789ab", &report, 5).unwrap();
        // Now the tree is at another commit.
        assert_eq!(entry.commit, "0123456789ab-dirty");
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(parse(&text).unwrap(), [entry]);
    }
}
