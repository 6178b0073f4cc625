//! What a run is to be, and what came of it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use coord_core::{ExitReason, ExitStatus, Judged, Provider, RunLimits};
use coord_wire::paths::Paths;

/// What a run is to be.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// Its id; a new one if none.
    pub id: Option<String>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it runs; here if none.
    pub dir: Option<PathBuf>,
    /// Variables beside those of its supervisor.
    pub env: Vec<(OsString, OsString)>,
    /// Its standard input.
    pub stdin: Stdin,
    /// Whether its standard output is passed on.
    pub passes: Passes,
    /// The same of its standard error.
    pub passes_errors: bool,
    /// What its standard output is.
    pub output: Output,
    /// Whose client it is.
    pub provider: Provider,
    /// Its clocks.
    pub limits: RunLimits,
    /// A forced end reaches what left its session too (H-20).
    pub ends_daemons: bool,
    /// Texts on standard error that mean a used-up limit (S2-17).
    pub limit_texts: Vec<String>,
    /// Its prompt, where it is known: what it says is no sign of anything (S2-17).
    pub prompt: Option<String>,
    /// A name for people.
    pub name: Option<String>,
    /// Where coord's files lie.
    pub paths: Paths,
}

/// Whether a run's standard output is passed on to the supervisor's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// It is, and its end with it: the supervisor has none of its own from then on.
    ToItsEnd,
    /// It is, and others follow.
    Bytes,
    /// It is read and dropped.
    Nothing,
}

/// What a run's standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The client's stream.
    Stream,
    /// Anything else: what looks like a line of a stream there is an agent's own text, and says nothing.
    Text,
}

/// What a command writes, as far as its arguments tell; those of a client that a shell is told to start
/// count too.
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

/// What is told to a shell is a text: of its words only these are looked at with that in mind.
pub(crate) const SHELLS: [&str; 4] = ["sh", "bash", "dash", "zsh"];

/// Whose client a program is, by its name.
pub fn provider_of(program: &OsStr) -> Provider {
    let is_claude = Path::new(program).file_name().is_some_and(|name| name == "claude");
    if is_claude { Provider::Claude } else { Provider::Other }
}

/// Its word.
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

/// Whether it is to go on with an old conversation.
pub(crate) fn is_resume(spec: &RunSpec) -> bool {
    let words = spec.command.iter().skip(1).take_while(|word| *word != "--");
    let mut words = words.filter_map(|word| word.to_str());
    spec.provider == Provider::Claude
        && words.any(|word| {
            matches!(word, "--resume" | "-r" | "--continue" | "-c") || word.starts_with("--resume=")
        })
}

/// Where a run's standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// From the supervisor's own, untouched.
    Inherited,
    /// From nowhere.
    Null,
    /// This, and then its end.
    Bytes(Vec<u8>),
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// Its id.
    pub id: String,
    /// How its process ended.
    pub status: ExitStatus,
    /// Why.
    pub reason: ExitReason,
    /// What it came to.
    pub judged: Judged,
    /// The conversation, if the client named it.
    pub session_id: Option<String>,
    /// Bytes on its standard output.
    pub stdout_bytes: u64,
    /// Bytes on its standard error.
    pub stderr_bytes: u64,
    /// The first line on standard error that is not empty, bounded and without control characters.
    pub first_error_line: Option<String>,
    /// How long it took, milliseconds.
    pub took_ms: u64,
    /// Why there is no file of it, if there is none: then nothing was ended by force.
    pub no_record: Option<String>,
    /// What it left behind and was not ended, as pid and program (H-20).
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
