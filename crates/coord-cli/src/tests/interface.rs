//! The tables of files and of HTTP requests in docs/reference.md have every file and every route, and no other (P-03).

use std::collections::BTreeSet;
use std::path::Path;

use coord_daemon::routes::ROUTES;

use super::{read, top};

const PAGE: &str = "docs/reference.md";

/// What stands in backticks in the first cells of the table that begins with this header.
fn on_page(page: &str, header: &str) -> BTreeSet<String> {
    let table = page.split(header).nth(1).unwrap_or_else(|| panic!("{PAGE}: no table {header}"));
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[track_caller]
fn compare(what: &str, in_code: &BTreeSet<String>, on_page: &BTreeSet<String>) {
    let missing: Vec<_> = in_code.difference(on_page).collect();
    assert!(missing.is_empty(), "{PAGE}: the table of {what} has no {missing:?}");
    let gone: Vec<_> = on_page.difference(in_code).collect();
    assert!(gone.is_empty(), "{PAGE}: the table of {what} has {gone:?}, which the code has not");
}

#[test]
fn every_route_is_in_the_table_of_requests() {
    let in_code = ROUTES.map(|(method, path, _)| format!("{method} {path}")).into();
    let on_page = on_page(&read(PAGE), "| request | answer |");
    let without_query = |request: String| request.split('?').next().map(str::to_owned);
    compare("requests", &in_code, &on_page.into_iter().filter_map(without_query).collect());
}

/// What the text between these two is, wherever they stand in a source file's code.
fn between<'a>(source: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.split(before).skip(1).filter_map(move |rest| rest.split(after).next())
}

/// The names that files have in the code: what is joined to the directories of `Paths`, and the constants of the
/// modules that know what is in them. The beginning of a name is one too.
fn names_in_code() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    sources(&top().join("crates"), &mut |path, source| {
        let is = |end: &str| path.ends_with(end);
        for dir in ["config", "state", "run", "fleet()", "journal()"] {
            let owner = if is("coord-wire/src/paths.rs") { "self" } else { "paths" };
            let join = format!("{owner}.{dir}.join(\"");
            names.extend(between(source, &join, "\")").map(str::to_owned));
        }
        let has_constants = is("coord-wire/src/spool.rs")
            || ["journal", "reserve", "snapshot", "spool"]
                .iter()
                .any(|module| is(&format!("coord-store/src/{module}.rs")));
        if has_constants {
            let constants = between(source, ": &str = \"", "\";");
            names.extend(constants.map(str::to_owned));
        }
        if is("coord-daemon/src/log.rs") {
            names.extend(between(source, "dir.join(\"", "\")").map(str::to_owned));
        }
        if is("coord-hook/src/diagnosis.rs") {
            names.extend(between(source, "let mut name = b\"", "\"").map(str::to_owned));
        }
        if is("coord-store/src/segment.rs") {
            names.extend(between(source, "strip_suffix(\"", "\")").map(str::to_owned));
        }
        if is("coord-store/src/journal.rs") {
            let endings = between(source, "with_extension(\"", "\")");
            names.extend(endings.map(|ending| format!(".{ending}")));
        }
    });
    names
}

/// Calls `each` with every source file of the crates.
fn sources(dir: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
    {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            // Only what is built into programs: no tests, no benchmarks.
            let is_skipped = ["tests", "coord-fuzz", "coord-sim", "xtask"]
                .iter()
                .any(|name| path.ends_with(name));
            if !is_skipped {
                sources(&path, each);
            }
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            each(&path, &std::fs::read_to_string(&path).expect("a source file"));
        }
    }
}

#[test]
fn every_file_is_in_the_table_of_files() {
    let in_code = names_in_code();
    assert!(25 < in_code.len(), "{in_code:?}");
    let name = |entry: String| {
        let path = entry.trim_end_matches('/');
        let name = path.rsplit('/').next().unwrap_or(path);
        name.trim_matches('*').to_owned()
    };
    let on_page = on_page(&read(PAGE), "| file | what |").into_iter().map(name).collect();
    compare("files", &in_code, &on_page);
}
