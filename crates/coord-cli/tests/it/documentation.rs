//! The examples of the documentation that are marked with `run` print what they show, where nothing is installed (P-03).

use std::path::Path;

use coord_tests::coord::{coord, coordctl};
use coord_tests::home::Home;

/// The blocks that are marked, each as the commands in it and what they print.
fn examples(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut is_example = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_example = line == "```console run";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_example) {
            found.push((command.to_owned(), String::new()));
        } else if is_example {
            let (_, shown) = found.last_mut().expect("a command first");
            shown.push_str(line);
            shown.push('\n');
        }
    }
    found
}

#[test]
fn examples_that_are_marked_print_what_they_show() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut n_run = 0;
    for file in std::fs::read_dir(docs).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|end| end != "md") {
            continue;
        }
        for (command, shown) in examples(&std::fs::read_to_string(&file).unwrap()) {
            let words: Vec<&str> = command.split(' ').collect();
            let home = Home::new();
            let run = if words[0] == "coord" { coord } else { coordctl };
            let done = run(&home, &words[1..]);
            let printed = format!("{}{}", done.stdout, done.stderr);
            assert_eq!(printed, shown, "{}: {command}", file.display());
            n_run += 1;
        }
    }
    assert!(3 <= n_run, "{n_run} examples were run");
}
