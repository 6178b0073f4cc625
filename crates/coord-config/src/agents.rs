//! The agents of loops: one `[[loop.agent]]` table each, with the command that is run for it.
//!
//! A prompt is one argument or the standard input, never a part of a shell's text.

use coord_core::Provider;
use serde::Deserialize as _;
use toml::de::{DeValue, ValueDeserializer};
use toml::{Spanned, Value};

use crate::error::{Place, line_of};
use crate::kinds::{Kind, Ms, PromptBy, Texts, Word};
use crate::tables::AgentTable;
use crate::{ConfigError, Effective};

/// The name of the array of tables.
pub(crate) const AGENTS: &str = "loop.agent";

/// Less is an ordinary pause of that client.
const CLAUDE_CONFIRM_MS_MIN: u64 = 20_000;
const NAME_CHARS_MAX: usize = 32;
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "ash"];

const NAME: &str = "loop.agent.name";
const COMMAND: &str = "loop.agent.command";
const RESUME: &str = "loop.agent.resume";
const CONFIRM: &str = "loop.agent.confirm";
const TIMEOUT: &str = "loop.agent.timeout";

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// What it is called.
    pub name: String,
    /// What is run.
    pub command: Vec<String>,
    /// What is run to go on with a conversation.
    pub resume: Option<Vec<String>>,
    /// How it gets its prompt.
    pub prompt_by: PromptBy,
    /// Whose client it is.
    pub provider: Provider,
    /// Texts on standard error that mean a used-up limit.
    pub limit_texts: Vec<String>,
    /// Silence that confirms a hang.
    pub confirm_ms: Option<u64>,
    /// Its longest run.
    pub timeout_ms: Option<u64>,
    /// What stands in the file, by line.
    pub written: Vec<Effective>,
}

/// Reads the array, whose key stands in `line`.
pub(crate) fn parse(
    array: Spanned<DeValue<'_>>,
    text: &str,
    line: usize,
) -> Result<Vec<AgentConfig>, ConfigError> {
    let no_tables = || ConfigError::BadValue {
        line,
        key: AGENTS,
        wanted: "tables of its own, each headed [[loop.agent]]".to_owned(),
    };
    let DeValue::Array(items) = array.into_inner() else { return Err(no_tables()) };
    let mut agents: Vec<AgentConfig> = Vec::new();
    for item in items {
        let DeValue::Table(keys) = item.get_ref() else { return Err(no_tables()) };
        let places = Place::all("loop.agent.", keys, text);
        let of = Source { places, text, line: line_of(text, item.span().start) };
        let agent = of.agent(item)?;
        if agents.iter().any(|other| other.name == agent.name) {
            return Err(of.wrong(NAME, &Name::takes()));
        }
        agents.push(agent);
    }
    Ok(agents)
}

/// Where one agent's table stands.
struct Source<'a> {
    places: Vec<Place>,
    text: &'a str,
    line: usize,
}

impl Source<'_> {
    fn agent(&self, table: Spanned<DeValue<'_>>) -> Result<AgentConfig, ConfigError> {
        let table = AgentTable::deserialize(ValueDeserializer::from(table))
            .map_err(|error| ConfigError::at(&error, &self.places, self.text))?;
        let missing = |key, wanted: String| self.wrong(key, &format!("{wanted}; it is missing"));
        let Name(name) = table.name.ok_or_else(|| missing(NAME, Name::takes()))?;
        let Command(command) =
            table.command.ok_or_else(|| missing(COMMAND, Command::<false>::takes()))?;
        let resume = table.resume.map(|Command(resume)| resume);
        let prompt_by = table.input.map_or(PromptBy::Argument, |Word(input)| input);
        self.check_prompt(COMMAND, &command, prompt_by)?;
        if let Some(resume) = &resume {
            self.check_prompt(RESUME, resume, prompt_by)?;
        }
        let provider = table.provider.map_or_else(|| provider_of(&command), |Word(one)| one);
        let confirm_ms = table.confirm.map(|Ms(ms)| ms);
        if provider == Provider::Claude && confirm_ms.is_some_and(|ms| ms < CLAUDE_CONFIRM_MS_MIN) {
            // H-09
            let why =
                "\"20s\" or more for provider \"claude\", whose silence proves nothing so soon";
            return Err(self.wrong(CONFIRM, why));
        }
        let timeout_ms = table.timeout.map(|Ms(ms)| ms);
        if timeout_ms == Some(0) {
            return Err(self.wrong(TIMEOUT, &format!("{}, above 0", Ms::takes())));
        }
        let mut written: Vec<_> =
            self.places.iter().filter_map(|place| place.written(self.text)).collect();
        // As they stand in the file; the parser has them by name.
        written.sort_by_key(|one| one.line);
        let limit_texts = table.limit_texts.map(|Texts(texts)| texts).unwrap_or_default();
        Ok(AgentConfig {
            name,
            command,
            resume,
            prompt_by,
            provider,
            limit_texts,
            confirm_ms,
            timeout_ms,
            written,
        })
    }

    fn wrong(&self, key: &'static str, wanted: &str) -> ConfigError {
        let place = self.places.iter().find(|place| place.name == key);
        let line = place.map_or(self.line, |place| place.line);
        ConfigError::BadValue { line, key, wanted: wanted.to_owned() }
    }

    /// A prompt that a shell reads as its own text would be run by it.
    fn check_prompt(
        &self,
        key: &'static str,
        command: &[String],
        by: PromptBy,
    ) -> Result<(), ConfigError> {
        let is_there = command.iter().any(|argument| argument.contains("{prompt}"));
        let why = match by {
            PromptBy::Stdin if is_there => "no {prompt} with input = \"stdin\"",
            PromptBy::Argument if !is_there => {
                "{prompt} as one of its arguments, or input = \"stdin\" beside it"
            }
            PromptBy::Argument if !command.iter().all(|argument| is_whole(argument)) => {
                "{prompt} as an argument of its own, or behind an option as in \"--prompt={prompt}\""
            }
            PromptBy::Argument if is_shell_text(command) => {
                "{prompt} behind the text of a shell and its name, as in [\"sh\", \"-c\", \"agent \\\"$1\\\"\", \"sh\", \"{prompt}\"]"
            }
            PromptBy::Argument | PromptBy::Stdin => return Ok(()),
        };
        Err(self.wrong(key, why))
    }
}

fn is_whole(argument: &str) -> bool {
    argument.split_once("{prompt}").is_none_or(|(before, after)| {
        let is_option = before.starts_with('-') && before.ends_with('=');
        after.is_empty() && (before.is_empty() || is_option)
    })
}

/// Whether the prompt stands where a shell expects its text.
fn is_shell_text(command: &[String]) -> bool {
    let is_shell = |word: &String| SHELLS.contains(&program(word));
    let is_text_next =
        |word: &str| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let Some(at) = command.iter().position(|argument| argument.contains("{prompt}")) else {
        return false;
    };
    let before = command.get(..at).unwrap_or_default();
    before.iter().any(is_shell) && before.last().is_some_and(|word| is_text_next(word))
}

fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// A client that another program starts is still a client.
fn provider_of(command: &[String]) -> Provider {
    let is_claude = command.iter().any(|word| program(word) == "claude");
    if is_claude { Provider::Claude } else { Provider::Other }
}

/// An agent's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Kind for Name {
    fn takes() -> String {
        format!("a name of its own, of letters, digits, '.', '_' and '-', {NAME_CHARS_MAX} at most")
    }

    fn read(toml: Value) -> Option<Self> {
        let name = toml.as_str()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_plain);
        is_name.then(|| Self(name.to_owned()))
    }

    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A program and its arguments, with `{session}` among them or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command<const RESUMES: bool>(Vec<String>);

impl<const RESUMES: bool> Kind for Command<RESUMES> {
    fn takes() -> String {
        let session = if RESUMES { ", with {session} among them" } else { "" };
        format!("a list of texts, the program first{session}")
    }

    fn read(toml: Value) -> Option<Self> {
        let words: Vec<String> = toml.try_into().ok()?;
        let has_program = words.first().is_some_and(|program| !program.is_empty());
        let has_session = words.iter().any(|word| word.contains("{session}"));
        let is_safe = !words.iter().any(|word| word.contains('\0'));
        (has_program && is_safe && has_session == RESUMES).then_some(Self(words))
    }

    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn error(text: &str) -> String {
        Config::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_agent_has_its_keys_and_their_defaults() {
        let text = r#"
[loop]
max_iterations = 7
[[loop.agent]]
name = "claude"
command = ["/opt/bin/claude", "-p", "{prompt}"]
resume = ["claude", "-p", "--resume", "{session}", "{prompt}"]
timeout = "1h"
[[loop.agent]]
name = "second"
command = ["second", "--dir", "{dir}"]
input = "stdin"
confirm = "0s"
limit_texts = ["used up for today"]
"#;
        let config = Config::parse(text).unwrap();
        assert_eq!(config.rotation_limits().max_iterations, 7);
        let [claude, second] = config.agents() else { panic!("{:?}", config.agents()) };
        assert_eq!((claude.name.as_str(), claude.provider), ("claude", Provider::Claude));
        assert_eq!((claude.prompt_by, claude.timeout_ms), (PromptBy::Argument, Some(3_600_000)));
        assert_eq!(claude.resume.as_ref().unwrap().len(), 5);
        assert_eq!(claude.written.len(), 4);
        let name = &claude.written[0];
        assert_eq!((name.key.name, name.text.as_str(), name.line), (NAME, "\"claude\"", Some(5)));
        assert_eq!((second.provider, second.prompt_by), (Provider::Other, PromptBy::Stdin));
        assert_eq!((second.confirm_ms, second.limit_texts.len()), (Some(0), 1));
        let wrapped =
            "[[loop.agent]]\nname = \"x\"\ncommand = [\"nice\", \"claude\", \"{prompt}\"]";
        assert_eq!(Config::parse(wrapped).unwrap().agents()[0].provider, Provider::Claude);
    }

    #[test]
    fn errors_name_line_key_and_remedy() {
        let agent = "[[loop.agent]]\nname = \"a\"\n";
        for (text, message) in [
            (
                "[[loop.agent]]\nnme = \"a\"",
                "line 2: unknown key \"loop.agent.nme\"; the nearest known one is \"loop.agent.name\"",
            ),
            (
                "[loop]\nagents = []",
                "line 2: unknown key \"loop.agents\"; the nearest known one is \"loop.agent\"",
            ),
            (
                "[loop.agent]\nname = \"a\"",
                "line 1: loop.agent takes tables of its own, each headed [[loop.agent]]",
            ),
            (
                "\n[[loop.agent]]\nname = \"a\"",
                "line 2: loop.agent.command takes a list of texts, the program first; it is missing",
            ),
            (
                &format!("{agent}command = \"claude -p\""),
                "line 3: loop.agent.command takes a list of texts, the program first",
            ),
            (
                &format!(
                    "{agent}command = [\"x\", \"{{prompt}}\"]\nresume = [\"x\", \"{{prompt}}\"]"
                ),
                "line 4: loop.agent.resume takes a list of texts, the program first, with {session} among them",
            ),
            (
                &format!("{agent}command = [\"x\"]"),
                "line 3: loop.agent.command takes {prompt} as one of its arguments, or input = \"stdin\" beside it",
            ),
            (
                &format!("{agent}command = [\"x\", \"{{prompt}}\"]\ntimeout = \"0s\""),
                "line 4: loop.agent.timeout takes a duration such as \"30s\", \"5m\", \"2h\" or \"30d\", above 0",
            ),
            (
                "loop.agent = [7]",
                "line 1: loop.agent takes tables of its own, each headed [[loop.agent]]",
            ),
            (
                &format!(
                    "{agent}command = [\"x\", \"{{prompt}}\"]\n[[loop.agent]]\nprovider = \"no\""
                ),
                "line 5: loop.agent.provider takes one of \"claude\", \"other\"",
            ),
        ] {
            assert_eq!(error(text), message, "{text}");
        }
        let twice = format!("{agent}command = [\"x\", \"{{prompt}}\"]\n").repeat(2);
        assert!(error(&twice).starts_with("line 5: loop.agent.name takes a name of its own"));
    }

    // A prompt is never a part of a shell's text.
    #[test]
    fn a_prompt_is_an_argument_of_its_own() {
        let parse = |command: &str| {
            Config::parse(&format!("[[loop.agent]]\nname = \"a\"\ncommand = {command}"))
        };
        for command in [
            r#"["agent", "--prompt={prompt}"]"#,
            r#"["sh", "-c", "agent \"$1\"", "sh", "{prompt}"]"#,
            r#"["claude", "-c", "{prompt}"]"#,
        ] {
            assert!(parse(command).is_ok(), "{command}");
        }
        for command in [
            r#"["sh", "-c", "agent {prompt}"]"#,
            r#"["sh", "-c", "{prompt}"]"#,
            r#"["/usr/bin/env", "bash", "-lc", "{prompt}"]"#,
            r#"["agent", "do {prompt}"]"#,
        ] {
            assert!(
                parse(command).unwrap_err().to_string().contains("takes {prompt}"),
                "{command}"
            );
        }
    }

    // S2-05, H-09: no immediate kill for a client whose silence proves nothing.
    #[test]
    fn the_immediate_kill_is_for_other_providers() {
        let agent = "[[loop.agent]]\nname = \"a\"\nconfirm = \"0s\"\ncommand = [\"claude\", \"{prompt}\"]\n";
        assert_eq!(
            error(agent),
            "line 3: loop.agent.confirm takes \"20s\" or more for provider \"claude\", whose silence proves nothing so soon"
        );
        assert!(Config::parse(&format!("{agent}provider = \"other\"")).is_ok());
    }
}
