//! The table of the client's options against the real client: its help, and for the options that
//! the help hides what it says of a missing value.

use coord_host::launch::options::{COMMANDS, Known, OPTIONS, Takes, Then};
use coord_tests::client;
use coord_tests::home::Home;
use coord_tests::netns::{self, test};
use coord_tests::process::run;
use std::collections::BTreeSet;
use std::process::ExitCode;

fn main() -> ExitCode {
    netns::run(vec![
        test("every_option_of_the_help_is_in_the_table", every_option_is_in_the_table),
        test("hidden_options_take_what_the_table_says", hidden_options_take_what_is_said),
        test("permission_modes_are_the_clients_own", permission_modes_are_the_clients_own),
        test("every_command_of_the_help_is_in_the_table", every_command_is_in_the_table),
    ])
}

/// Both outputs of the client with these words.
fn said(words: &[&str]) -> String {
    let home = Home::new();
    let mut command = home.command(client::program());
    command.args(words).env("CLAUDE_CONFIG_DIR", home.config_dir());
    let finished = run(command, &home.tmp(), "client");
    finished.stdout + &finished.stderr
}

/// The options of the help: names, and the form of the value.
fn options(help: &str) -> Vec<(BTreeSet<String>, Takes)> {
    let mut lines = help.lines().skip_while(|line| *line != "Options:").skip(1);
    let lines = lines.by_ref().take_while(|line| *line != "Commands:");
    let heads =
        lines.filter_map(|line| line.strip_prefix("  ").filter(|line| line.starts_with('-')));
    heads
        .map(|line| {
            let head = line.split("  ").next().unwrap_or_default();
            let names = head.split([' ', ',']).filter(|word| word.starts_with('-'));
            let takes = match head {
                head if head.contains("...>") => Takes::List,
                head if head.contains('<') => Takes::One,
                head if head.contains('[') => Takes::Perhaps,
                _ => Takes::Nothing,
            };
            (names.map(str::to_owned).collect(), takes)
        })
        .collect()
}

fn names(known: &Known) -> BTreeSet<String> {
    known.names.iter().map(|&name| name.to_owned()).collect()
}

// H-19: the table is tested against the client's version.
fn every_option_is_in_the_table() {
    let shown = options(&said(&["--help"]));
    assert!(60 < shown.len(), "the help is read wrongly: {shown:?}");
    for (shown, takes) in shown {
        let known = OPTIONS.iter().find(|known| names(known) == shown);
        assert_eq!(known.map(|known| known.takes), Some(takes), "{shown:?}");
    }
}

// H-19
fn hidden_options_take_what_is_said() {
    let shown = options(&said(&["--help"]));
    let is_hidden = |known: &&Known| !shown.iter().any(|(shown, _)| *shown == names(known));
    for known in OPTIONS.iter().filter(is_hidden) {
        let name = known.names[0];
        let (words, expected) = match known.takes {
            Takes::One => (vec![name], format!("{name} <")),
            Takes::Nothing => (vec![name, "--no-such"], "option '--no-such'".to_owned()),
            Takes::Perhaps | Takes::List => panic!("{name}: say how it can be tried"),
        };
        let said = said(&words);
        assert!(said.contains(&expected), "{name}: {said}");
        assert!(!matches!(known.then, Then::Refused(_)), "{name}: no need to name it");
    }
}

// S0-25d: each mode of a payload is a word that the option takes.
fn permission_modes_are_the_clients_own() {
    let taken = "No MCP servers";
    for (mode, is_taken) in [
        ("plan", true),
        ("dontAsk", true),
        ("default", true),
        ("manual", true),
        ("acceptEdits", true),
        ("auto", true),
        ("bypassPermissions", true),
        ("news", false),
    ] {
        let said = said(&["--permission-mode", mode, "mcp", "list"]);
        assert_eq!(said.contains(taken), is_taken, "{mode}: {said}");
    }
}

// H-19: a command is no prompt.
fn every_command_is_in_the_table() {
    let help = said(&["--help"]);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let heads =
        lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let shown: BTreeSet<&str> =
        heads.flat_map(|line| line.split(' ').next().unwrap_or_default().split('|')).collect();
    assert_eq!(shown, COMMANDS.iter().copied().collect());
}
