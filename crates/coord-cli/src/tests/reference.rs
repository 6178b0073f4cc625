//! docs/commands.md is what the command line says of itself.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::top;

const PAGE: &str = "docs/commands.md";
const HEAD: &str = "# Command line

<!-- Written by `COORD_TEST_ACCEPT=1 cargo test -p coord-cli --lib reference`. -->

`coord` shows sessions, talks to them and sets coord up. `coordctl` acts on sessions; the coordinator takes its orders
only from a person at a terminal. Both are one program. [reference.md](reference.md#exit-codes) lists the exit codes.

A session is named by its name, its id, or the beginning of its id. A TIME is a number with a unit, such as `90s`,
`10m`, `2h` or `1d`.
";

/// The page.
fn page() -> Result<String, std::fmt::Error> {
    let mut text = HEAD.to_owned();
    for mut program in [crate::coord::Cli::command(), crate::control::Cli::command()] {
        program.build();
        let name = program.get_name().to_owned();
        write!(text, "\n## {name}\n\n{}\n", sentence(&about(&program)))?;
        options(&mut text, &program, false)?;
        for verb in program.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            command(&mut text, verb, &name)?;
        }
    }
    Ok(text)
}

/// A verb, and the verbs that it has.
fn command(text: &mut String, command_: &Command, path: &str) -> std::fmt::Result {
    let path = format!("{path} {}", command_.get_name());
    write!(text, "\n### {path}\n\n{}\n", sentence(&about(command_)))?;
    let usage = command_.clone().bin_name(&path).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").lines().map(str::trim);
    let usage: Vec<String> = usage.map(|line| format!("`{line}`")).collect();
    write!(text, "\nUsage: {}\n", usage.join(" or "))?;
    options(text, command_, true)?;
    if let Some(more) = command_.get_after_help() {
        write!(text, "\n```text\n{}\n```\n", more.to_string().trim_end())?;
    }
    for verb in command_.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        command(text, verb, &path)?;
    }
    Ok(())
}

/// The table of arguments. Those that every verb has stand with the program.
fn options(text: &mut String, command: &Command, is_verb: bool) -> std::fmt::Result {
    let is_shown = |arg: &&Arg| {
        let is_of_clap = matches!(arg.get_id().as_str(), "help" | "version");
        !(arg.is_hide_set() || is_of_clap || (is_verb && arg.is_global_set()))
    };
    let args: Vec<&Arg> = command.get_arguments().filter(is_shown).collect();
    if args.is_empty() {
        return Ok(());
    }
    text.push_str("\n| argument | meaning |\n|---|---|\n");
    for arg in args {
        writeln!(text, "| `{}` | {} |", spelling(arg), meaning(arg))?;
    }
    Ok(())
}

/// How an argument is typed.
fn spelling(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let mut value = names.iter().map(clap::builder::Str::as_str).collect::<Vec<_>>().join(" ");
    if value.is_empty() {
        value = arg.get_id().as_str().to_uppercase();
    }
    if arg.get_num_args().is_some_and(|n| 1 < n.max_values()) || arg.is_last_set() {
        value.push('…');
    }
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    match (arg.get_short(), arg.get_long()) {
        (None, None) => value,
        (short, long) => {
            let names = [short.map(|one| format!("-{one}")), long.map(|long| format!("--{long}"))];
            let names = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
            if takes_value { format!("{names} {value}") } else { names }
        }
    }
}

fn meaning(arg: &Arg) -> String {
    let about = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = sentence(&about);
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    if takes_value && !values.is_empty() {
        text = format!("{text} One of {}.", values.join(", "));
    }
    let default: Vec<_> =
        arg.get_default_values().iter().map(|one| one.to_string_lossy()).collect();
    if takes_value && !default.is_empty() {
        text = format!("{text} Default: `{}`.", default.join(" "));
    }
    text.replace('|', "\\|")
}

fn about(command: &Command) -> String {
    command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default()
}

/// In one line, with a full stop, and without signs that would be markup.
fn sentence(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !line.ends_with(['.', ':', ']']) && !line.is_empty() {
        line.push('.');
    }
    line.replace('<', "&lt;").replace('*', "\\*")
}

#[test]
fn the_reference_has_every_verb_with_its_arguments() {
    let path = top().join(PAGE);
    let text = page().expect("text");
    if std::fs::read_to_string(&path).unwrap_or_default() == text {
        return;
    }
    if std::env::var_os("COORD_TEST_ACCEPT").is_some() {
        std::fs::write(&path, &text).expect("it is written");
        panic!("wrote {}: read it, and run without COORD_TEST_ACCEPT", path.display());
    }
    panic!("{PAGE} is out of date; to write it run with COORD_TEST_ACCEPT=1");
}
