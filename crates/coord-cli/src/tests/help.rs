//! Every help text fits a terminal of 100 columns.

use clap::{Command, CommandFactory as _};
use unicode_width::UnicodeWidthStr as _;

/// Columns that a help text takes at most.
const COLUMNS: usize = 100;

/// The lines of `--help` that are too long, of a command and all that it has. clap wraps all but the usage; the text below
/// the options is wrapped by hand, since clap would break its examples.
fn too_long(command: &Command, path: &str, found: &mut Vec<String>) {
    let help = command.clone().bin_name(path).term_width(COLUMNS).render_long_help().to_string();
    let more = command.get_after_long_help().or(command.get_after_help());
    let more = more.map(ToString::to_string).unwrap_or_default();
    let long = help.lines().chain(more.lines()).filter(|line| COLUMNS < line.width());
    found.extend(long.map(|line| format!("{path}: {line}")));
    for verb in command.get_subcommands() {
        too_long(verb, &format!("{path} {}", verb.get_name()), found);
    }
}

#[test]
fn every_help_text_fits_a_hundred_columns() {
    let mut found = Vec::new();
    for mut program in [crate::coord::Cli::command(), crate::control::Cli::command()] {
        program.build();
        let name = program.get_name().to_owned();
        too_long(&program, &name, &mut found);
    }
    assert_eq!(found, [""; 0]);
}
