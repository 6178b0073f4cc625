//! What reaches the terminal: coloured only where a person looks, one line per failure.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use colorchoice::ColorChoice;
use coord_core::ExitStatus;
pub(crate) use coord_view::list::age;
use coord_view::lookup::LookupError;
pub(crate) use coord_view::text::{escape, fit, fit_end, fit_end_marked, fit_marked, pad, wrapped};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::context::variable;

/// Why a verb failed; each has its exit code (interfaces.md, CLI).
#[derive(Debug)]
pub(crate) enum Failure {
    /// 1
    Failed(anyhow::Error),
    /// 1, and why was said on standard output.
    Told,
    /// 1: the passphrase has to be given on this terminal first.
    PassphraseNeeded(String),
    /// 3: nothing has this id.
    NoSuchSession(String),
    /// 3: the id does not say which one.
    UnclearId(String),
    /// 4
    NotReachable(String),
    /// 5: `coord wait` ran out of time.
    TimedOut(String),
    /// 6: `coord wait` for a state that can no longer come.
    NeverComes(String),
    /// 3: the prompt is over.
    Over(String),
    /// 7: the terminal answered first.
    TerminalFirst(String),
    /// 8: `coord inspect --needs-me` found nobody; that was said.
    NobodyNeeded,
    /// As the command ended that was run.
    Exit(ExitStatus),
    /// 64: wrong usage of a verb whose other codes are those of what it runs.
    Usage(String),
    /// The reader of our output is gone: nothing to say, and nobody to say it to.
    ReaderGone,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Unknown { .. } => Self::NoSuchSession(error.to_string()),
            LookupError::TooShort { .. } | LookupError::Ambiguous { .. } => {
                Self::UnclearId(error.to_string())
            }
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::ReaderGone
        } else {
            Self::Failed(error.into())
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(std::io::ErrorKind::BrokenPipe) => Self::ReaderGone,
            Some(_) | None => Self::Failed(error.into()),
        }
    }
}

impl Failure {
    /// The words of it, for a verb to which it is no end.
    pub(crate) fn into_error(self) -> anyhow::Error {
        match self {
            Self::Failed(error) => error,
            Self::NoSuchSession(text)
            | Self::UnclearId(text)
            | Self::PassphraseNeeded(text)
            | Self::NotReachable(text)
            | Self::TimedOut(text)
            | Self::NeverComes(text)
            | Self::Over(text)
            | Self::TerminalFirst(text)
            | Self::Usage(text) => anyhow::anyhow!(text),
            Self::ReaderGone => anyhow::anyhow!("nobody reads the output"),
            Self::Told | Self::NobodyNeeded => anyhow::anyhow!("it was said already"),
            Self::Exit(status) => anyhow::anyhow!(status.words()),
        }
    }

    /// Says it in one line, in the name of `program`, and gives the exit code.
    pub(crate) fn report(self, program: &str) -> ExitCode {
        let (text, code) = match self {
            Self::Failed(error) => (format!("{error:#}"), 1),
            Self::PassphraseNeeded(text) => (text, 1),
            Self::NoSuchSession(text) | Self::UnclearId(text) | Self::Over(text) => (text, 3),
            Self::NotReachable(text) => (text, 4),
            Self::TimedOut(text) => (text, 5),
            Self::NeverComes(text) => (text, 6),
            Self::TerminalFirst(text) => (text, 7),
            Self::Told => return ExitCode::FAILURE,
            Self::NobodyNeeded => return ExitCode::from(8),
            Self::Usage(text) => (text, crate::verb::run::USAGE),
            Self::Exit(status) => return crate::verb::run::end_as(status),
            Self::ReaderGone => return ExitCode::SUCCESS,
        };
        complain(program, &text);
        ExitCode::from(code)
    }
}

/// One line on standard error, in the name of `program`.
pub(crate) fn complain(program: &str, text: &str) {
    // With standard error closed there is nowhere left to complain.
    drop(writeln!(std::io::stderr(), "{program}: {}", escape(text)));
}

/// A value as one line of JSON, as `--json` prints it everywhere.
pub(crate) fn print_json(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    coord_view::json::to_writer(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// A word that a shell reads as one, whatever it contains.
pub(crate) fn shell_quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", escape(text).replace('\'', "'\\''"))
}

/// Writes cells under each other, as wide as their widest; nothing is cut.
pub(crate) fn print_columns<const N: usize>(
    out: &mut impl Write,
    lines: &[[String; N]],
) -> Result<(), Failure> {
    Ok(aligned(lines).iter().try_for_each(|line| writeln!(out, "{line}"))?)
}

/// The lines, each of whose cells is as wide as the widest one above or below it.
pub(crate) fn aligned<const N: usize>(lines: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.width().max(*width);
        }
    }
    let line = |line: &[String; N]| {
        let cells = line.iter().zip(widths).map(|(cell, width)| pad(cell, width, false));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

/// When output has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Colours {
    /// In a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl Colours {
    /// Has [`has_colours`] follow this.
    pub(crate) fn choose(self) {
        let choice = match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// Whether standard output has colours.
pub(crate) fn has_colours() -> bool {
    match ColorChoice::global() {
        ColorChoice::Always | ColorChoice::AlwaysAnsi => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
            std::io::stdout().is_terminal() && variable("NO_COLOR").is_none() && !is_dumb
        }
    }
}

/// Paints, where output has colours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Painter {
    is_on: bool,
}

impl Painter {
    /// For standard output.
    pub(crate) fn for_stdout() -> Self {
        Self { is_on: has_colours() }
    }

    /// Without colours.
    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self { is_on: false }
    }

    /// `text` in `colour`.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Plain => return text.to_owned(),
            Colour::Bold => 1,
            Colour::Dim => 2,
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
        };
        if self.is_on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Columns of the terminal on standard output; 80 where there is none.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| 0 < *columns).unwrap_or(80)
}

/// A time such as `90s` or `10m` of the command line, milliseconds.
pub(crate) fn duration_ms(text: &str) -> Result<u64, String> {
    coord_config::duration_ms(text).ok_or_else(|| "a time such as 90s, 10m, 2h or 1d".to_owned())
}
