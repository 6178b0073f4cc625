//! Where things stand and what they are called: folders, crates, modules, the top level.
//!
//! Decides by paths and first lines. What clippy sees is not looked at again: the length of
//! functions, `unwrap`, sleeping and unexplained exceptions are in the lints and in clippy.toml.

use super::{Report, Text};
use std::collections::BTreeSet;

const MAP: &str = "docs/architecture.md";
/// What the top level may hold, beside hidden files and the licences.
const TOP: [&str; 14] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "crates",
    "deny.toml",
    "docs",
    "hooks.json",
    "install.sh",
    "rustfmt.toml",
    "tests",
];
/// Names that say nothing of what a module decides.
const EMPTY_NAMES: [&str; 7] = ["common", "helper", "helpers", "manager", "misc", "util", "utils"];

pub(super) fn check(files: &[Text], report: &mut Report) {
    top_level(files, report);
    crates(files, report);
    places_in_map(files, report);
    for file in files.iter().filter(|file| file.is_rust()) {
        module(file, report);
    }
}

fn top_level(files: &[Text], report: &mut Report) {
    let tops: BTreeSet<&str> =
        files.iter().filter_map(|file| file.path.split('/').next()).collect();
    for top in tops {
        let is_fine = TOP.contains(&top) || top.starts_with('.') || top.starts_with("LICENSE");
        if !is_fine {
            report.findings.push(format!("{top}: new on the top level: put it where it belongs"));
        }
    }
}

/// A crate's folder is its name, and the map of the code has it.
fn crates(files: &[Text], report: &mut Report) {
    let map = files.iter().find(|file| file.path == MAP).map_or("", |file| &file.text);
    let inside = files.iter().filter_map(|file| file.path.strip_prefix("crates/"));
    let folders: BTreeSet<&str> =
        inside.filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect();
    for folder in folders {
        let path = format!("crates/{folder}/Cargo.toml");
        let manifest = files.iter().find(|file| file.path == path);
        let table = manifest.and_then(|file| file.text.parse::<toml::Table>().ok());
        let name = table.as_ref().and_then(|table| table.get("package")?.get("name")?.as_str());
        if name != Some(folder) {
            let found = name.unwrap_or("no name");
            report.findings.push(format!("{path}: {found}: a crate is called as its folder is"));
        }
        if !folder.starts_with("coord-") && folder != "xtask" {
            report.findings.push(format!("crates/{folder}: call it coord-{folder}"));
        }
        if !has_word(map, folder) {
            report.findings.push(format!("{MAP}: {folder} is not in it: say what it is for"));
        }
    }
}

/// What the map of the code names as `crate/module`, or as a test of a crate, is there.
fn places_in_map(files: &[Text], report: &mut Report) {
    let Some(map) = files.iter().find(|file| file.path == MAP) else { return };
    let is_part = |one: char| one.is_alphanumeric() || matches!(one, '-' | '_' | '/');
    let names = map.text.split(|one| !is_part(one)).filter(|name| name.starts_with("coord-"));
    let places: BTreeSet<(&str, &str)> = names.filter_map(|name| name.split_once('/')).collect();
    for (folder, place) in places {
        let is_there = ["src/", ""].iter().any(|top| {
            let begin = format!("crates/{folder}/{top}{}", place.trim_end_matches('/'));
            let rest = files.iter().filter_map(|file| file.path.strip_prefix(&begin));
            rest.into_iter().any(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
        });
        if !is_there {
            report.findings.push(format!("{MAP}: {folder}/{place} is not there"));
        }
    }
}

/// Whether a name stands in a text and is not a part of a longer one.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |one: char| one.is_alphanumeric() || one == '-' || one == '_';
    text.split(|one| !is_part(one)).any(|word| word == name)
}

fn module(file: &Text, report: &mut Report) {
    let path = &file.path;
    let mut names = path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    if let Some(name) = names.find(|name| EMPTY_NAMES.contains(name)) {
        report.findings.push(format!("{path}: {name:?} says nothing: name what it decides"));
    }
    let is_source = path.contains("/src/");
    if is_source && path.ends_with("/mod.rs") {
        report.findings.push(format!("{path}: call it after its directory, beside it"));
    }
    if is_source && !file.text.starts_with("//!") {
        report.findings.push(format!("{path}: begin with `//!` and what the module decides"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::findings;

    /// The findings on a crate with this manifest, this folder and this map.
    fn on_crate(folder: &str, manifest: &str, map: &str) -> usize {
        let file = |path: String, text: &str| Text { path, text: text.to_owned() };
        let files =
            [file(format!("crates/{folder}/Cargo.toml"), manifest), file(MAP.to_owned(), map)];
        let mut report = Report::default();
        crates(&files, &mut report);
        report.findings.len()
    }

    #[test]
    fn a_place_that_the_map_names_and_that_is_gone_is_found() {
        let file = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let map =
            "coord-a/turn, `coord-a/src/queue`, coord-a/tests/it/turns, coord-a/gone, coord-a/tur.";
        let files = [
            file(MAP, map),
            file("crates/coord-a/src/turn.rs", ""),
            file("crates/coord-a/src/queue/fate.rs", ""),
            file("crates/coord-a/tests/it/turns.rs", ""),
        ];
        let mut report = Report::default();
        places_in_map(&files, &mut report);
        let found = |place: &str| report.findings.iter().any(|one| one.contains(place));
        assert!(found("coord-a/gone is") && found("coord-a/tur is"), "{:?}", report.findings);
        assert_eq!(report.findings.len(), 2);
    }

    #[test]
    fn a_new_entry_on_the_top_level_is_found() {
        for (path, n) in [
            ("notes.md", 1),
            ("scripts/run", 1),
            (".editorconfig", 0),
            (".ci/run", 0),
            ("LICENSE-MIT", 0),
            ("tests/run", 0),
            ("Cargo.toml", 0),
        ] {
            assert_eq!(findings(check, path, "").len(), n, "{path}");
        }
    }

    #[test]
    fn a_crate_is_called_as_its_folder_and_stands_in_the_map() {
        let manifest = "[package]\nname = \"coord-x\"\n";
        assert_eq!(on_crate("coord-x", manifest, "**coord-x** is it.\n"), 0);
        assert_eq!(on_crate("coord-y", manifest, "coord-y\n"), 1, "another name");
        assert_eq!(on_crate("coord-x", "[package]\n", "coord-x\n"), 1, "no name");
        assert_eq!(on_crate("coord-x", manifest, "coord-xy, x\n"), 1, "not in the map");
        assert_eq!(on_crate("x", "[package]\nname = \"x\"\n", "x\n"), 1, "no prefix");
        assert_eq!(on_crate("xtask", "[package]\nname = \"xtask\"\n", "**xtask**\n"), 0);
    }

    #[test]
    fn modules_have_names_and_say_what_they_decide() {
        for (path, text, n) in [
            ("tests/src/a.rs", "//! Decides.\n", 0),
            ("tests/src/a.rs", "use std::fs;\n", 1),
            ("tests/src/a.rs", "\n//! Too late.\n", 1),
            ("tests/src/a/mod.rs", "//! Decides.\n", 1),
            ("tests/tests/world/mod.rs", "use std::fs;\n", 0),
            ("tests/src/utils.rs", "//! Decides.\n", 1),
            ("tests/tests/common/a.rs", "", 1),
            ("tests/src/manager/a.rs", "//! Decides.\n", 1),
            ("tests/src/managers.rs", "//! Decides.\n", 0),
        ] {
            assert_eq!(findings(check, path, text).len(), n, "{path} {text:?}");
        }
    }
}
