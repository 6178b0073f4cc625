//! `coord tmux snippet`: prints lines for tmux.conf (N-07). It edits no file.

use std::io::Write;

use crate::out::Failure;

/// The segment reads options that the coordinator sets on change, so drawing it costs no process. It shows `coord ?`
/// once the coordinator no longer renews them.
const SNIPPET: &str = "\
# coord: who needs you, in the status line. Needs tmux 3.2 or newer.
set -ag status-right ' #{?#{e|<:%s,#{@coord_until}},#{@coord_text},coord ?}'

# coord: prefix and N goes to the session that has needed you longest, prefix and B returns.
bind-key N run-shell -b 'COORD next --client \"#{client_name}\"'
bind-key B run-shell -b 'COORD back --client \"#{client_name}\"'
";

/// Print lines for tmux.conf: who needs you in the status line, and keys to go there
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord tmux snippet                        look at the lines\n  coord tmux snippet >> ~/.tmux.conf        add them; new servers use them\n  coord tmux snippet | tmux source-file -   use them now\n\nThe status line reads @coord_text and @coord_until. Each pane has @coord_state and @coord_attention."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print the lines; no file is changed
    Snippet,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let What::Snippet = args.what;
    // tmux may run keys with another PATH.
    let program =
        std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    let is_plain = |path: &String| {
        path.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+'))
    };
    let program = program.filter(is_plain).unwrap_or_else(|| "coord".to_owned());
    Ok(write!(std::io::stdout().lock(), "{}", SNIPPET.replace("COORD", &program))?)
}
