//! CONTRIBUTING.md names files, tests and scenarios that exist (P-04).

use super::{read, top};

const PAGE: &str = "CONTRIBUTING.md";

/// What stands in backticks on the page.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .filter(|line| !line.starts_with("```"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn every_path_in_contributing_exists() {
    let page = read(PAGE);
    let words = quoted(&page).flat_map(|text| text.split(' '));
    let is_path = |word: &&str| {
        // A pattern, or a place in each crate.
        let is_any = word.contains(|c: char| c == '*' || c.is_ascii_uppercase());
        let is_in_crate = word.starts_with("tests/it/");
        !is_any
            && !is_in_crate
            && ["crates/", "tests/", "docs/"].iter().any(|top| word.starts_with(top))
    };
    let paths: Vec<&str> = words.filter(is_path).collect();
    assert!(20 < paths.len(), "{paths:?}");
    let gone: Vec<_> = paths.iter().filter(|path| !top().join(path).exists()).collect();
    assert!(gone.is_empty(), "{PAGE} names what is not there: {gone:?}");
}

#[test]
fn every_test_that_contributing_names_exists() {
    let page = read(PAGE);
    let mut n = 0;
    for command in quoted(&page).filter(|text| text.contains("cargo test -p ")) {
        let words: Vec<&str> =
            command.split(' ').skip_while(|word| *word != "-p").skip(1).collect();
        let (name, arguments) = words.split_first().expect("a crate");
        let dir = format!("crates/{name}");
        assert!(top().join(&dir).is_dir(), "{command}");
        // The program of the tests, and the parts of their names.
        let (source, tests) = match arguments {
            [] => continue,
            ["--lib", test] => (format!("{dir}/src"), vec![*test]),
            // The last part of a path of modules.
            ["--test", "it", "--", tests @ ..] => (
                format!("{dir}/tests/it"),
                tests.iter().filter_map(|test| test.rsplit("::").next()).collect(),
            ),
            ["--test", "it", test] => (format!("{dir}/tests/it"), vec![*test]),
            ["--test", program] => (format!("{dir}/tests"), vec![*program]),
            [test] => (format!("{dir}/tests"), vec![*test]),
            _ => panic!("{command}: teach this test to read it"),
        };
        for test in tests {
            assert!(is_named_below(&top().join(&source), test), "{command}: no test {test}");
        }
        n += 1;
    }
    assert!(2 <= n, "{n}");
}

/// Whether a file below has this in its text or name.
fn is_named_below(dir: &std::path::Path, wanted: &str) -> bool {
    std::fs::read_dir(dir).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        let is_named = path.file_stem().is_some_and(|name| name == wanted);
        is_named
            || (path.is_dir() && is_named_below(&path, wanted))
            || std::fs::read_to_string(&path).is_ok_and(|text| text.contains(wanted))
    })
}
