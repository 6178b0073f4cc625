//! `coord completions SHELL`, `coordctl completions SHELL`: scripts by which a shell asks the program itself, so that
//! the names of sessions are those of this moment (U-03).

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use coord_model::SessionState;
use coord_view::list::{shown_name, state_name};
use coord_wire::inspect::Session;

use crate::context::{Context, variable};
use crate::out::Failure;
use crate::verb::inspect::look;

/// Set by the scripts, to the name of the shell that asks.
const VARIABLE: &str = "COORD_COMPLETE";

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord completions bash > ~/.local/share/bash-completion/completions/coord\n\nThe script asks coord itself: it completes the names of the sessions that there are."
)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run<C: CommandFactory>(args: &Args) -> Result<(), Failure> {
    let name = C::command().get_name().to_owned();
    let shell = args.shell.to_string();
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell) {
        completer.write_registration(VARIABLE, &name, &name, &name, &mut script)?;
    }
    Ok(std::io::stdout().write_all(&script)?)
}

/// Answers a shell, if one asks. The variable alone is not enough: whatever an environment sets, no other command
/// is taken for a question.
pub(crate) fn answer<C: CommandFactory>() {
    if variable(VARIABLE).is_some() && std::env::args_os().nth(1).is_some_and(|word| word == "--") {
        CompleteEnv::with_factory(C::command).var(VARIABLE).complete();
    }
}

/// Completes an argument that names a session.
pub(crate) fn session() -> ArgValueCompleter {
    session_if(|_| true)
}

/// Completes an argument that names a session with a pane.
pub(crate) fn session_with_pane() -> ArgValueCompleter {
    session_if(|session| session.place.as_ref().is_some_and(|place| place.kind == "tmux"))
}

/// Completes an argument that names a session that can be brought back.
pub(crate) fn crashed_session() -> ArgValueCompleter {
    session_if(|session| {
        matches!(session.state, SessionState::Crashed | SessionState::RecoveryPending)
    })
}

/// Completes an argument that names a session that ended with its machine or its tmux server.
pub(crate) fn interrupted_session() -> ArgValueCompleter {
    session_if(|session| session.state == SessionState::Interrupted)
}

/// Completes an argument that names a session that needs a person.
pub(crate) fn session_in_need() -> ArgValueCompleter {
    session_if(|session| session.need.is_some())
}

fn session_if(fits: fn(&Session) -> bool) -> ArgValueCompleter {
    ArgValueCompleter::new(move |begun: &OsStr| sessions(begun, fits))
}

/// Completes an argument that names what `list` gives: words and a help text for each.
pub(crate) fn of(list: fn(&Context) -> Vec<(String, String)>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |begun: &OsStr| {
        let Some(begun) = begun.to_str() else { return Vec::new() };
        let context = Context::from_environment(root());
        offered(begun, context.map_or_else(|_| Vec::new(), |context| list(&context)))
    })
}

/// The names of sessions that fit and begin like this; if none does, the ids.
fn sessions(begun: &OsStr, fits: fn(&Session) -> bool) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    let Some(looked) = Context::from_environment(root()).ok().and_then(|one| look(None, &one).ok())
    else {
        return Vec::new();
    };
    let all = || looked.answer.sessions.iter().filter(|one| fits(one));
    let found = offered(begun, all().map(|one| (shown_name(one), state_name(one.state))));
    if !found.is_empty() {
        return found;
    }
    offered(begun, all().map(|one| (one.session_id.clone(), state_name(one.state))))
}

/// Those that begin like this. Only those of plain characters: a shell puts them on its command line as they are.
fn offered(
    begun: &str,
    words: impl IntoIterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let words = words.into_iter().filter(|(word, _)| word.starts_with(begun) && is_plain(word));
    words.map(|(word, help)| CompletionCandidate::new(word).help(Some(help.into()))).collect()
}

/// `--root DIR` on the command line that is completed.
fn root() -> Option<PathBuf> {
    let mut words = std::env::args_os().skip_while(|word| word != "--root").skip(1);
    words.next().map(PathBuf::from)
}

fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !word.starts_with('-') && word.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-26: a shell would run what is in such a name.
    #[test]
    fn u_03_only_plain_words_are_offered() {
        let words =
            ["parser", "api-2", "a.b_c", "x;reboot", "$(x)", "a b", "-rf", "`x`", "a\nb", "é"];
        let plain: Vec<&str> = words.into_iter().filter(|word| is_plain(word)).collect();
        assert_eq!(plain, ["parser", "api-2", "a.b_c"]);
    }
}
