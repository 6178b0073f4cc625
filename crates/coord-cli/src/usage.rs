//! Says in one line what is wrong with the arguments, and what was probably meant (U-09).

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};
use coord_view::lookup::nearest;

use crate::control;
use crate::coord::verb_of;

/// What people type who know other programs, and what they mean here.
const OTHER_WORDS: [(&str, &str); 12] = [
    ("ls", "coord inspect"),
    ("list", "coord inspect"),
    ("ps", "coord inspect"),
    ("sessions", "coord inspect"),
    ("show", "coord inspect"),
    ("watch", "coord inspect --watch"),
    ("log", "coord events"),
    ("logs", "coord events"),
    ("history", "coord events"),
    ("why", "coord explain"),
    ("start", "coord up"),
    ("stop", "coord down"),
];

/// So many values are listed; more are in the help.
const LISTED_MAX: usize = 8;

/// One of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// `coord`, which shows.
    Coord,
    /// `coordctl`, which acts on sessions.
    Coordctl,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Coord => "coord",
            Self::Coordctl => control::NAME,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Coord => Self::Coordctl,
            Self::Coordctl => Self::Coord,
        }
    }

    fn command(self) -> Command {
        match self {
            Self::Coord => crate::coord::Cli::command(),
            Self::Coordctl => control::Cli::command(),
        }
    }
}

/// The line for a wrong command or option; none for what clap says better.
pub(crate) fn line(program: Program, error: &clap::Error) -> Option<String> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let kind = error.kind();
    if kind == ErrorKind::InvalidSubcommand {
        let word = text(error, ContextKind::InvalidSubcommand)?;
        let verb = verb_of(std::env::args_os().skip(1))?;
        if verb.to_string_lossy() == word {
            let rest = words.iter().skip_while(|one| **one != word).skip(1).map(String::as_str);
            return Some(wrong_verb(program, &word, &rest.collect::<Vec<_>>()));
        }
        let command = program.command();
        let before: Vec<String> = words.into_iter().take_while(|one| *one != word).collect();
        let (found, path) = deepest(&command, program.name(), &before);
        let own = found.get_subcommands().filter(|verb| !verb.is_hide_set());
        let meant = nearest(&word, own.map(Command::get_name));
        let remedy = meant.map_or_else(|| format!("→ {path} --help"), did_you_mean);
        let typed = path.split_once(' ').map_or("", |(_, verbs)| verbs);
        return Some(format!("No command {:?}. {remedy}", format!("{typed} {word}")));
    }
    if kind == ErrorKind::UnknownArgument {
        let option = text(error, ContextKind::InvalidArg)?;
        let command = program.command();
        let (found, path) = deepest(&command, program.name(), &words);
        return Some(wrong_option(found, &path, &option));
    }
    let command = program.command();
    let (_, path) = deepest(&command, program.name(), &words);
    if kind == ErrorKind::MissingRequiredArgument {
        return missing(error, &path, &words);
    }
    let is_of_value = matches!(kind, ErrorKind::InvalidValue | ErrorKind::ValueValidation);
    if is_of_value { wrong_value(error, &path) } else { None }
}

/// What is missing, and how the command is meant.
fn missing(error: &clap::Error, path: &str, words: &[String]) -> Option<String> {
    let Some(ContextValue::Strings(all)) = error.get(ContextKind::InvalidArg) else { return None };
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let verb = path.rsplit(' ').next().unwrap_or_default();
    let given: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .skip_while(|word| *word != verb)
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let given = given.join(" ");
    Some(match (path, all.as_slice()) {
        ("coord send", ["<TEXT>"]) => format!("No text. → coord send {given} 'TEXT'"),
        ("coord wait", ["--until <STATE>"]) => {
            format!("Wait for what? → coord wait {given} --until idle")
        }
        (path, [one]) => format!("{one} is missing. → {path} --help"),
        (path, all) => format!("{} are missing. → {path} --help", all.join(", ")),
    })
}

/// The value of an argument is not one of those that there are.
fn wrong_value(error: &clap::Error, path: &str) -> Option<String> {
    let (argument, value) =
        (text(error, ContextKind::InvalidArg)?, text(error, ContextKind::InvalidValue)?);
    if value.is_empty() {
        return Some(format!("{argument} is empty. → {path} --help"));
    }
    // As in `--until <STATE>`.
    let noun = argument.rsplit('<').next().unwrap_or_default();
    let noun = noun.trim_end_matches(['>', '.']).to_lowercase().replace('-', " ");
    if noun == "time" {
        return Some(format!("{value:?} is no duration. Examples: 90s, 10m, 2h, 1d."));
    }
    let known = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) if !known.is_empty() => known,
        Some(_) | None => {
            let why = std::error::Error::source(error)?.to_string();
            if noun == "state" {
                return Some(format!("No state {value:?}. {why}"));
            }
            return Some(format!("{value:?} is no {noun}: {why}. → {path} --help"));
        }
    };
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let remedy = match (nearest(&value, known.iter().copied()), known.split_last()) {
        (Some(meant), _) => did_you_mean(meant),
        (None, Some((last, others))) if known.len() <= LISTED_MAX => {
            format!("Use {} or {last}.", others.join(", "))
        }
        (None, _) => format!("→ {path} --help"),
    };
    Some(format!("No {noun} {value:?}. {remedy}"))
}

/// The verb that the words name, at whatever depth, and how it is typed.
fn deepest<'a>(command: &'a Command, name: &str, words: &[String]) -> (&'a Command, String) {
    let (mut found, mut path) = (command, name.to_owned());
    for word in words {
        if let Some(verb) = found.find_subcommand(word) {
            (found, path) = (verb, format!("{path} {word}"));
        }
    }
    (found, path)
}

fn did_you_mean(word: &str) -> String {
    format!("Did you mean {word}?")
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    if let ContextValue::String(text) = error.get(kind)? { Some(text.clone()) } else { None }
}

fn verbs(program: Program) -> Vec<String> {
    let command = program.command();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(|verb| verb.get_name().to_owned()).collect()
}

fn wrong_verb(program: Program, word: &str, rest: &[&str]) -> String {
    let other = program.other();
    if verbs(other).iter().any(|verb| verb == word) {
        let why = match program {
            Program::Coord => "acts on a session",
            Program::Coordctl => "belongs to coord",
        };
        let line = std::iter::once(word).chain(rest.iter().copied()).collect::<Vec<_>>().join(" ");
        return format!("{word} {why}. → {} {line}", other.name());
    }
    if let Some((_, meant)) = OTHER_WORDS.iter().find(|(typed, _)| *typed == word) {
        return format!("No command {word:?}. → {meant}");
    }
    let (own, others) = (verbs(program), verbs(other));
    let all = own.iter().chain(&others).map(String::as_str);
    match nearest(word, all) {
        Some(meant) if own.iter().any(|verb| verb == meant) => {
            format!("No command {word:?}. {}", did_you_mean(meant))
        }
        Some(meant) => {
            let meant = format!("{} {meant}", other.name());
            format!("No command {word:?}. {}", did_you_mean(&meant))
        }
        None => format!("No command {word:?}. → {} --help", program.name()),
    }
}

/// `path` is how the command is typed: the program and its verbs.
fn wrong_option(command: &Command, path: &str, option: &str) -> String {
    let option = option.split('=').next().unwrap_or(option);
    let longs = command.get_arguments().filter_map(Arg::get_long);
    let known: Vec<String> = longs.map(|long| format!("--{long}")).collect();
    let meant = nearest(option, known.iter().map(String::as_str)).or_else(|| {
        // The beginning of one option alone.
        let mut begun = known.iter().filter(|one| one.starts_with(option));
        let first = begun.next()?;
        begun.next().is_none().then_some(first.as_str())
    });
    match meant {
        Some(meant) => format!("No option {option}. {}", did_you_mean(meant)),
        None => format!("No option {option}. → {path} --help"),
    }
}
