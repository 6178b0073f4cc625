//! The specification of a run, and its result.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use coord_core::{ExitReason, ExitStatus, Judged, Provider, RunLimits};
use coord_wire::paths::Paths;

/// The specification of a run.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// The id of the run; if none, a new one is made.
    pub id: Option<String>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The working directory; if none, that of the supervisor.
    pub dir: Option<PathBuf>,
    /// Environment variables in addition to those of the supervisor.
    pub env: Vec<(OsString, OsString)>,
    /// The source of the standard input.
    pub stdin: Stdin,
    /// Whether the standard output is passed on.
    pub passes: Passes,
    /// Whether the standard error is passed on.
    pub passes_errors: bool,
    /// What the standard output contains.
    pub output: Output,
    /// Whose client the program is.
    pub provider: Provider,
    /// The time limits.
    pub limits: RunLimits,
    /// Whether a forced end also reaches processes that left the run's session (H-20).
    pub ends_daemons: bool,
    /// Texts on standard error that mean that a usage limit is reached (S2-17).
    pub limit_texts: Vec<String>,
    /// The prompt, if it is known: its text on standard error means nothing (S2-17).
    pub prompt: Option<String>,
    /// A name for people.
    pub name: Option<String>,
    /// The locations of coord's files.
    pub paths: Paths,
}

/// Whether a run's standard output is passed on to the supervisor's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// It is passed on, and so is its end: the supervisor then has no standard output of its own.
    ToItsEnd,
    /// It is passed on, and other output follows.
    Bytes,
    /// It is read and dropped.
    Nothing,
}

/// What a run's standard output contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The client's stream.
    Stream,
    /// Anything else: what looks like a line of a stream is an agent's own text, and is ignored.
    Text,
}

/// What a command writes to its standard output, as far as its arguments show. The arguments of a client in a
/// shell's command count too.
pub fn output_of(command: &[OsString]) -> Output {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    let is_shell = program.is_some_and(|name| SHELLS.iter().any(|shell| name == *shell));
    let words = command.iter().skip(1).take_while(|word| *word != "--");
    let is_stream = words.filter_map(|word| word.to_str()).any(|word| {
        let value = word.strip_prefix("--output-format=").unwrap_or(word);
        matches!(value, "stream-json" | "json") || is_shell && word.contains("stream-json")
    });
    if is_stream { Output::Stream } else { Output::Text }
}

/// Shells. Their command is a text, in which only `stream-json` counts.
pub(crate) const SHELLS: [&str; 4] = ["sh", "bash", "dash", "zsh"];

/// Whose client a program is, by its file name.
pub fn provider_of(program: &OsStr) -> Provider {
    let is_claude = Path::new(program).file_name().is_some_and(|name| name == "claude");
    if is_claude { Provider::Claude } else { Provider::Other }
}

/// The name of a provider in records.
pub fn provider_word(provider: Provider) -> &'static str {
    match provider {
        Provider::Claude => "claude",
        Provider::Other => "other",
    }
}

/// The file name of the run's program.
pub(crate) fn program(spec: &RunSpec) -> String {
    let name = spec.command.first().and_then(|program| Path::new(program).file_name());
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Whether the run continues an old conversation.
pub(crate) fn is_resume(spec: &RunSpec) -> bool {
    let words = spec.command.iter().skip(1).take_while(|word| *word != "--");
    let mut words = words.filter_map(|word| word.to_str());
    spec.provider == Provider::Claude
        && words.any(|word| {
            matches!(word, "--resume" | "-r" | "--continue" | "-c") || word.starts_with("--resume=")
        })
}

/// The source of a run's standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// The supervisor's own standard input, untouched.
    Inherited,
    /// No input.
    Null,
    /// These bytes, and then the end of input.
    Bytes(Vec<u8>),
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// The id of the run.
    pub id: String,
    /// How the process ended.
    pub status: ExitStatus,
    /// Why the process ended.
    pub reason: ExitReason,
    /// The outcome of the run.
    pub judged: Judged,
    /// The conversation, if the client named it.
    pub session_id: Option<String>,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// The first line on standard error that is not empty, with bounded length and without control
    /// characters.
    pub first_error_line: Option<String>,
    /// Duration of the run, in milliseconds.
    pub took_ms: u64,
    /// Why the run has no file, if it has none. Nothing was then ended by force.
    pub no_record: Option<String>,
    /// Processes that the run left and that were not ended, each as pid and program (H-20).
    pub left: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-14
    #[test]
    fn a_stream_is_told_by_the_arguments() {
        for (words, is_stream) in [
            ("claude -p --output-format stream-json --verbose hi", true),
            ("claude -p --output-format=json hi", true),
            ("claude -p hi", false),
            ("claude -p -- stream-json", false),
            ("agent about-stream-json", false),
        ] {
            let command: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            assert_eq!(output_of(&command) == Output::Stream, is_stream, "{words}");
        }
        let shell = |script: &str| output_of(&["/bin/sh", "-c", script].map(OsString::from));
        let stream = "exec claude -p --output-format stream-json --verbose hi";
        assert_eq!(shell(stream), Output::Stream);
        assert_eq!(shell("exec claude -p hi"), Output::Text);
    }
}
