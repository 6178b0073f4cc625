//! Which crate may depend on which (docs/architecture.md): arrows go inward only, those of tests too.

use super::{Report, Text};

/// A crate, what it may depend on, and what its tests may depend on beside that.
type Arrows = (&'static str, &'static [&'static str], &'static [&'static str]);

const ALLOWED: [Arrows; 23] = [
    ("coord-model", &[], &[]),
    ("coord-core", &["coord-model"], &[]),
    ("coord-wire", &["coord-model"], &[]),
    ("coord-screen", &["coord-model"], &[]),
    ("coord-hook", &["coord-model", "coord-wire"], &[]),
    ("coord-notice", &["coord-core", "coord-model", "coord-wire"], &["coord-tests"]),
    ("coord-store", &["coord-model", "coord-wire"], &["coord-testkit"]),
    ("coord-fleet", &["coord-model", "coord-wire"], &["coord-testkit"]),
    (
        "coord-relay",
        &["coord-fleet", "coord-model", "coord-store", "coord-view", "coord-wire"],
        &["coord-tests"],
    ),
    ("coord-testkit", &["coord-fleet", "coord-model", "coord-store"], &[]),
    ("coord-config", &["coord-core", "coord-model", "coord-store", "coord-wire"], &[]),
    (
        "coord-host",
        &["coord-core", "coord-model", "coord-screen", "coord-store", "coord-wire"],
        &["coord-tests"],
    ),
    ("coord-view", &["coord-core", "coord-model", "coord-store", "coord-wire"], &[]),
    ("coord-top", &["coord-view", "coord-wire"], &["coord-model"]),
    ("coord-dashboard", &["coord-model", "coord-view", "coord-wire"], &[]),
    (
        "coord-daemon",
        &[
            "coord-config",
            "coord-core",
            "coord-fleet",
            "coord-host",
            "coord-model",
            "coord-screen",
            "coord-store",
            "coord-view",
            "coord-wire",
        ],
        &["coord-sim", "coord-testkit"],
    ),
    ("coord-run", &["coord-core", "coord-host", "coord-model", "coord-store", "coord-wire"], &[]),
    (
        "coord-loop",
        &[
            "coord-config",
            "coord-core",
            "coord-host",
            "coord-model",
            "coord-run",
            "coord-store",
            "coord-wire",
        ],
        &[],
    ),
    (
        "coord-cli",
        &[
            "coord-config",
            "coord-core",
            "coord-daemon",
            "coord-dashboard",
            "coord-fleet",
            "coord-host",
            "coord-loop",
            "coord-model",
            "coord-relay",
            "coord-run",
            "coord-store",
            "coord-top",
            "coord-view",
            "coord-wire",
        ],
        &["coord-testkit", "coord-tests"],
    ),
    (
        "coord-sim",
        &[
            "coord-config",
            "coord-core",
            "coord-daemon",
            "coord-fleet",
            "coord-host",
            "coord-model",
            "coord-run",
            "coord-screen",
            "coord-store",
            "coord-testkit",
            "coord-view",
            "coord-wire",
        ],
        &[],
    ),
    (
        "coord-fuzz",
        &[
            "coord-config",
            "coord-core",
            "coord-daemon",
            "coord-hook",
            "coord-host",
            "coord-model",
            "coord-run",
            "coord-screen",
            "coord-store",
            "coord-testkit",
            "coord-wire",
        ],
        &[],
    ),
    ("coord-tests", &["coord-model", "coord-wire"], &["coord-testkit"]),
    (
        "xtask",
        &[
            "coord-core",
            "coord-daemon",
            "coord-fleet",
            "coord-host",
            "coord-model",
            "coord-relay",
            "coord-screen",
            "coord-store",
            "coord-tests",
            "coord-view",
            "coord-wire",
        ],
        &[],
    ),
];

pub(super) fn check(files: &[Text], report: &mut Report) {
    for file in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        // One that is no TOML is named by another check.
        let Ok(table) = file.text.parse::<toml::Table>() else { continue };
        let name = table.get("package").and_then(|package| package.get("name"));
        let name = name.and_then(toml::Value::as_str).unwrap_or("");
        let Some((_, allowed, for_tests)) = ALLOWED.iter().find(|(one, ..)| *one == name) else {
            report.findings.push(format!(
                "{}: say in xtask/src/tidy/arrows.rs what {name:?} may depend on",
                file.path
            ));
            continue;
        };
        let own = own_crates(&table, "dependencies");
        let of_tests = own_crates(&table, "dev-dependencies");
        let is_in = |lists: &[&[&str]], one: &String| lists.concat().contains(&one.as_str());
        let beyond = own.iter().filter(|one| !is_in(&[allowed], one));
        let beyond = beyond.chain(of_tests.iter().filter(|one| !is_in(&[allowed, for_tests], one)));
        for one in beyond {
            report.findings.push(format!(
                "{}: {name} must not depend on {one}: arrows go inward only (docs/architecture.md)",
                file.path
            ));
        }
        let is_used = |one: &&&str| own.iter().chain(&of_tests).any(|used| used == **one);
        for one in allowed.iter().chain(*for_tests).filter(|one| !is_used(one)) {
            report.findings.push(format!(
                "{}: {name} does not depend on {one} any more: take it out of xtask/src/tidy/arrows.rs",
                file.path
            ));
        }
    }
}

/// The crates of this workspace that a section of a manifest names.
fn own_crates(table: &toml::Table, section: &str) -> Vec<String> {
    let section = table.get(section).and_then(toml::Value::as_table);
    let names = section.into_iter().flat_map(toml::Table::keys);
    names.filter(|name| name.starts_with("coord-")).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::findings;

    fn found(manifest: &str) -> Vec<String> {
        findings(check, "crates/x/Cargo.toml", manifest)
    }

    #[test]
    fn an_arrow_outward_is_found_in_tests_too() {
        let core = "[package]\nname = \"coord-core\"\n[dependencies]\ncoord-model = {}\n";
        assert_eq!(found(core), Vec::<String>::new());
        for section in ["", "[dev-dependencies]\n"] {
            let outward = format!("{core}{section}coord-daemon = {{}}\n");
            let found = found(&outward);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("coord-core must not depend on coord-daemon"), "{found:?}");
        }
    }

    #[test]
    fn the_list_names_each_crate_and_no_more_than_it_uses() {
        assert_eq!(found("[package]\nname = \"coord-new\"\n").len(), 1);
        let found = found("[package]\nname = \"coord-core\"\n");
        assert!(found[0].contains("does not depend on coord-model any more"), "{found:?}");
    }
}
