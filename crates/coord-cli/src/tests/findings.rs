//! docs/what-can-go-wrong.md has every finding of `coord doctor`, and no other (P-03).

use std::collections::BTreeSet;

use super::{read, top};

const PAGE: &str = "docs/what-can-go-wrong.md";
const DOCTOR: &str = "crates/coord-cli/src/verb/doctor";

/// The names of checks in a source file of the doctor that stand for more than that all is well. The first part of
/// a name is one of `groups`.
fn checks<'a>(source: &'a str, groups: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut before = "";
    code.split('"').filter_map(move |text| {
        let is_well = before.trim_end().ends_with("Finding::ok(");
        before = text;
        let (group, name) = text.split_once('.')?;
        // `settings.json` is a file.
        let is_name = !matches!(name, "" | "json")
            && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        (groups.contains(group) && is_name && !is_well).then_some(text)
    })
}

/// The first cells of the page's tables of findings.
fn on_page(page: &str) -> BTreeSet<&str> {
    let rows = page.split("\n## Findings").nth(1).unwrap_or_default().lines();
    rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

#[test]
fn every_finding_of_doctor_is_on_the_page() {
    let sources: Vec<_> = std::fs::read_dir(top().join(DOCTOR))
        .expect("the doctor's sources")
        .map(|file| file.expect("an entry").path())
        .collect();
    let groups = sources.iter().filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
    let groups: BTreeSet<String> = groups.collect();
    let sources: Vec<String> =
        sources.iter().map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let in_code: BTreeSet<&str> = sources.iter().flat_map(|text| checks(text, &groups)).collect();
    assert!(in_code.len() > 50, "{in_code:?}");
    let page = read(PAGE);
    let on_page = on_page(&page);
    let missing: Vec<_> = in_code.difference(&on_page).collect();
    assert!(missing.is_empty(), "{PAGE}: say what these mean and what to do: {missing:?}");
    let gone: Vec<_> = on_page.difference(&in_code).collect();
    assert!(gone.is_empty(), "{PAGE}: doctor finds none of these: {gone:?}");
}

#[test]
fn names_of_checks_are_told_from_other_texts() {
    let groups = BTreeSet::from(["state".to_owned()]);
    let source = "Finding::error(\n  \"state.disk\", \"state.of x\"); Finding::ok(\"state.fine\", \
                  \"state.\"); (A, \"state.two_words\", \"store.x\")\n#[cfg(test)] \"state.test\"";
    assert_eq!(checks(source, &groups).collect::<Vec<_>>(), ["state.disk", "state.two_words"]);
}
