//! The client's options: how many words each takes, and what a resume does with it (H-19).
//!
//! The table was made from `claude --help` of version 2.1.328 and, for options that the help hides, from the
//! client's error message when their value is missing. A test checks the table against the client. An option
//! that is missing from the table makes a launch unfit.

/// An option of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The names of the option, with their dashes.
    pub names: &'static [&'static str],
    /// The words that follow the option.
    pub takes: Takes,
    /// What a resume does with the option.
    pub then: Then,
}

/// How many words an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// No word.
    Nothing,
    /// The next word, whatever it is.
    One,
    /// The next word, unless it is an option: `[value]` in the help.
    Perhaps,
    /// All words up to the next option, and at least one: `<values...>` in the help.
    List,
}

/// What a resume does with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The option is repeated.
    Kept,
    /// The option is repeated if its values name files. A value in JSON may contain secrets.
    KeptFile,
    /// The option is left out: it chose the conversation, or was only for the start.
    Left,
    /// The session is not resumed automatically, for this reason.
    Refused(&'static str),
}

use Takes::{List, Nothing, One, Perhaps};
use Then::{Kept, KeptFile, Left, Refused};

const fn known(names: &'static [&'static str], takes: Takes, then: Then) -> Known {
    Known { names, takes, then }
}

const HEADLESS: Then = Refused("for runs without a terminal");
const ELSEWHERE: Then = Refused("the session is kept elsewhere");
const PROMPT: Then = Refused("the text of a prompt is not kept");
const UNTRIED: Then = Refused("not tried with a resume");

/// All known options.
pub const OPTIONS: &[Known] = &[
    // What the session may do: leaving one of these out could extend the session's rights.
    known(&["--permission-mode"], One, Kept),
    known(&["--dangerously-skip-permissions"], Nothing, Kept),
    known(&["--allow-dangerously-skip-permissions"], Nothing, Kept),
    known(&["--enable-auto-mode"], Nothing, Kept),
    known(&["--allowedTools", "--allowed-tools"], List, Kept),
    known(&["--disallowedTools", "--disallowed-tools"], List, Kept),
    known(&["--tools"], List, Kept),
    known(&["--restricted"], Nothing, Kept),
    known(&["--add-dir"], List, Kept),
    // Where the session's configuration comes from.
    known(&["--settings"], One, KeptFile),
    known(&["--setting-sources"], One, Kept),
    known(&["--mcp-config"], List, KeptFile),
    known(&["--strict-mcp-config"], Nothing, Kept),
    known(&["--plugin-dir"], One, Kept),
    known(&["--plugin-dir-no-mcp"], One, Kept),
    known(&["--bare"], Nothing, Kept),
    known(&["--safe-mode"], Nothing, Kept),
    known(&["--disable-slash-commands"], Nothing, Kept),
    known(&["--agent"], One, Kept),
    known(&["--system-prompt-file"], One, KeptFile),
    known(&["--append-system-prompt-file"], One, KeptFile),
    known(&["--exclude-dynamic-system-prompt-sections"], Nothing, Kept),
    known(&["--system-prompt-snapshot"], One, Kept),
    // The model.
    known(&["--model"], One, Kept),
    known(&["--fallback-model"], One, Kept),
    known(&["--advisor"], One, Kept),
    known(&["--effort"], One, Kept),
    known(&["--thinking"], One, Kept),
    known(&["--max-thinking-tokens"], One, Kept),
    known(&["--betas"], List, Kept),
    known(&["--autocompact"], One, Kept),
    // How the client displays itself.
    known(&["--ide"], Nothing, Kept),
    known(&["--chrome"], Nothing, Kept),
    known(&["--no-chrome"], Nothing, Kept),
    known(&["--verbose"], Nothing, Kept),
    known(&["-d", "--debug"], Perhaps, Kept),
    known(&["--debug-file"], One, Kept),
    known(&["--ax-screen-reader"], Nothing, Kept),
    known(&["--brief"], Nothing, Kept),
    known(&["--prompt-suggestions"], Perhaps, Kept),
    // What chose the conversation: the resume names it. A session's name is part of the conversation, and may
    // have changed there.
    known(&["-r", "--resume"], Perhaps, Left),
    known(&["-c", "--continue"], Nothing, Left),
    known(&["--session-id"], One, Left),
    known(&["--fork-session"], Nothing, Left),
    known(&["--from-pr"], Perhaps, Left),
    known(&["-n", "--name"], One, Left),
    // Only for the start: hooks that set up a project, and text in the input line.
    known(&["--init"], Nothing, Left),
    known(&["--maintenance"], Nothing, Left),
    known(&["--prefill"], One, Left),
    // Prompts are not stored, and without them the session would behave differently.
    known(&["--system-prompt"], One, PROMPT),
    known(&["--append-system-prompt"], One, PROMPT),
    known(&["--agents"], One, PROMPT),
    // Not sessions of this terminal.
    known(&["--bg", "--background"], Nothing, ELSEWHERE),
    known(&["--cloud"], Perhaps, ELSEWHERE),
    known(&["--desktop"], Nothing, ELSEWHERE),
    known(&["--environment"], One, ELSEWHERE),
    known(&["--teleport"], Perhaps, ELSEWHERE),
    // They would fetch or create something a second time.
    known(&["--file"], List, UNTRIED),
    known(&["--plugin-url"], One, UNTRIED),
    known(&["-w", "--worktree"], Perhaps, UNTRIED),
    known(&["--tmux"], Nothing, UNTRIED),
    known(&["--remote-control"], Perhaps, UNTRIED),
    known(&["--remote-control-session-name-prefix"], One, UNTRIED),
    // Headless runs, and options that end at once.
    known(&["-p", "--print"], Nothing, HEADLESS),
    known(&["--forward-subagent-text"], Nothing, HEADLESS),
    known(&["--include-hook-events"], Nothing, HEADLESS),
    known(&["--include-partial-messages"], Nothing, HEADLESS),
    known(&["--input-format"], One, HEADLESS),
    known(&["--json-schema"], One, HEADLESS),
    known(&["--max-budget-usd"], One, HEADLESS),
    known(&["--no-session-persistence"], Nothing, HEADLESS),
    known(&["--output-format"], One, HEADLESS),
    known(&["--permission-prompts"], One, HEADLESS),
    known(&["--replay-user-messages"], Nothing, HEADLESS),
    known(&["-h", "--help"], Nothing, HEADLESS),
    known(&["-v", "--version"], Nothing, HEADLESS),
];

/// The client's commands; one of these as the first word is no prompt.
pub const COMMANDS: &[&str] = &[
    "agents",
    "attach",
    "auth",
    "auto-mode",
    "doctor",
    "gateway",
    "import",
    "install",
    "kill",
    "logs",
    "mcp",
    "plugin",
    "plugins",
    "purge",
    "respawn",
    "rm",
    "setup-token",
    "stop",
    "ultrareview",
    "update",
    "upgrade",
];

/// The option with this name.
pub(super) fn find(name: &str) -> Option<Known> {
    OPTIONS.iter().find(|known| known.names.contains(&name)).copied()
}
