//! Wrong commands and options are answered in one line that names the right ones (U-09).

use coord_tests::coord::{coord, coordctl};
use coord_tests::home::Home;

/// The one line on standard error.
#[track_caller]
fn says(home: &Home, program: &str, words: &[&str]) -> String {
    let done = if program == "coord" { coord(home, words) } else { coordctl(home, words) };
    assert_eq!(done.code(), Some(2), "{words:?}: {done:?}");
    assert_eq!(done.stdout, "", "{words:?}");
    let line = done.stderr.trim_end().to_owned();
    assert_eq!(line.lines().count(), 1, "{words:?}: {line}");
    line.strip_prefix(&format!("{program}: ")).expect("its own name first").to_owned()
}

#[test]
fn u_09_what_was_meant_is_named() {
    let home = Home::new();
    for (program, words, line) in [
        ("coord", &["inspct"][..], "No command \"inspct\". Did you mean inspect?"),
        ("coord", &["ls"], "No command \"ls\". → coord inspect"),
        ("coord", &["list"], "No command \"list\". → coord inspect"),
        ("coord", &["ps"], "No command \"ps\". → coord inspect"),
        ("coord", &["watch"], "No command \"watch\". → coord inspect --watch"),
        ("coord", &["recover", "site"], "recover acts on a session. → coordctl recover site"),
        ("coord", &["attend"], "attend acts on a session. → coordctl attend"),
        ("coord", &["recovr", "site"], "No command \"recovr\". Did you mean coordctl recover?"),
        ("coord", &["xyzzy"], "No command \"xyzzy\". → coord --help"),
        ("coord", &["inspect", "--need"], "No option --need. Did you mean --needs-me?"),
        ("coord", &["inspect", "--jsn"], "No option --jsn. Did you mean --json?"),
        ("coordctl", &["inspect"], "inspect only shows. → coord inspect"),
        ("coordctl", &["recver", "site"], "No command \"recver\". Did you mean recover?"),
    ] {
        assert_eq!(says(&home, program, words), line, "{words:?}");
    }
}

// What is wrong with a verb of a verb is not taken for a verb of the program.
#[test]
fn u_09_a_verb_of_a_verb_is_not_confused_with_one() {
    let home = Home::new();
    let wrong = says(&home, "coord", &["queue", "ls"]);
    assert_eq!(wrong, "No command \"queue ls\". → coord queue --help");
    let wrong = says(&home, "coord", &["queue", "retri", "m_1"]);
    assert_eq!(wrong, "No command \"queue retri\". Did you mean retry?");
    let option = says(&home, "coord", &["queue", "send", "--bad"]);
    assert_eq!(option, "No option --bad. → coord queue send --help");
}

// U-09: `coord` alone is the list.
#[test]
fn u_09_without_a_verb_the_list_is_shown() {
    let home = Home::new();
    let shown = coord(&home, &[]).expect_success().stdout;
    assert_eq!(shown, coord(&home, &["inspect"]).expect_success().stdout);
}

#[test]
fn u_09_the_help_names_every_verb_by_task() {
    let home = Home::new();
    let help = coord(&home, &["--help"]).expect_success().stdout;
    for group in ["See", "Move", "Talk", "Run", "Set up", "coordctl --help"] {
        assert!(help.contains(group), "{group}: {help}");
    }
    for verb in verbs(&home) {
        assert!(help.contains(&verb), "{verb}: {help}");
    }
}

/// The verbs of `coord` that people see, as its completions have them.
pub(super) fn verbs(home: &Home) -> Vec<String> {
    let completions = coord(home, &["completions", "fish"]).expect_success().stdout;
    let verb = |line: &str| {
        let words = line.strip_prefix("complete -c coord -n \"__fish_coord_needs_command\" ")?;
        Some(words.split("-a \"").nth(1)?.split('"').next()?.to_owned())
    };
    let verbs: Vec<String> = completions.lines().filter_map(verb).collect();
    assert!(20 < verbs.len(), "{completions}");
    verbs
}
