//! The agents of loops: one `[[loop.agent]]` table each, with the command that is run for it.
//!
//! A prompt is one argument or the standard input, never a part of a shell's text.

use coord_core::Provider;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, TEXT_CHARS_MIN, duration_ms, line_of, nearest, text_of};

/// The name of the array of tables.
pub(super) const ARRAY: &str = "loop.agent";

/// Less is an ordinary pause of that client.
const CLAUDE_CONFIRM_MS_MIN: u64 = 20_000;
const NAME_CHARS_MAX: usize = 32;
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "ash"];

const NAME: &str = "loop.agent.name";
const COMMAND: &str = "loop.agent.command";
const RESUME: &str = "loop.agent.resume";
const INPUT: &str = "loop.agent.input";
const PROVIDER: &str = "loop.agent.provider";
const LIMIT_TEXTS: &str = "loop.agent.limit_texts";
const CONFIRM: &str = "loop.agent.confirm";
const TIMEOUT: &str = "loop.agent.timeout";

/// A key of an agent's table.
#[derive(Debug)]
pub struct AgentKey {
    /// With the name of the table.
    pub name: &'static str,
    /// What it takes.
    pub wanted: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// All keys of an agent.
pub const AGENT_KEYS: [AgentKey; 8] = [
    AgentKey {
        name: NAME,
        wanted: "a name of its own, of letters, digits, '.', '_' and '-', 32 at most",
        about: "what the agent is called",
    },
    AgentKey {
        name: COMMAND,
        wanted: "a list of texts, the program first",
        about: "what is run; {prompt}, {dir}, {status} and {handoff} stand for themselves",
    },
    AgentKey {
        name: RESUME,
        wanted: "a list of texts, the program first, with {session} among them",
        about: "the same to go on with a conversation after a crash",
    },
    AgentKey {
        name: INPUT,
        wanted: "one of \"argument\", \"stdin\"",
        about: "how the prompt is given; by {prompt} if left out",
    },
    AgentKey {
        name: PROVIDER,
        wanted: "one of \"claude\", \"other\"",
        about: "whose client it is; by the program's name if left out",
    },
    AgentKey {
        name: LIMIT_TEXTS,
        wanted: "a list of texts of 8 characters or more",
        about: "texts on standard error that mean a used-up limit (S2-17)",
    },
    AgentKey {
        name: CONFIRM,
        wanted: "a duration such as \"20s\"",
        about: "silence that confirms a hang behind a known error (S2-05)",
    },
    AgentKey {
        name: TIMEOUT,
        wanted: "a duration such as \"3h\"",
        about: "a run lasts no longer; run.timeout if left out (S2-20)",
    },
];

/// How an agent gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptBy {
    /// In the place of `{prompt}`.
    Argument,
    /// On its standard input.
    Stdin,
}

/// A key as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// With the name of the table.
    pub key: &'static str,
    /// As written.
    pub text: String,
    /// Line, from 1.
    pub line: usize,
}

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
    /// What stands in the file.
    pub written: Vec<Written>,
}

/// Reads the array.
pub(super) fn parse(
    value: &DeValue<'_>,
    text: &str,
    line: usize,
) -> Result<Vec<AgentConfig>, ConfigError> {
    let no_tables = || ConfigError::BadValue {
        line,
        key: ARRAY,
        wanted: "tables of its own, each headed [[loop.agent]]".to_owned(),
    };
    let DeValue::Array(items) = value else { return Err(no_tables()) };
    let mut agents: Vec<AgentConfig> = Vec::new();
    for item in items {
        let DeValue::Table(table) = item.get_ref() else { return Err(no_tables()) };
        let of = Table { keys: table, text, line: line_of(text, item.span().start) };
        let agent = of.agent()?;
        if agents.iter().any(|other| other.name == agent.name) {
            return Err(of.wrong(NAME, wanted(NAME)));
        }
        agents.push(agent);
    }
    Ok(agents)
}

/// One agent's table.
struct Table<'a> {
    keys: &'a DeTable<'a>,
    text: &'a str,
    line: usize,
}

impl<'a> Table<'a> {
    fn agent(&self) -> Result<AgentConfig, ConfigError> {
        let written = self.written()?;
        let name = self.take(NAME, |value| text_of(value).filter(|name| is_name(name)))?;
        let command = self.take(COMMAND, command)?;
        let (Some(name), Some(command)) = (name, command) else {
            let missing = if name.is_none() { NAME } else { COMMAND };
            return Err(self.wrong(missing, &format!("{}; it is missing", wanted(missing))));
        };
        let resume = self.take(RESUME, command_to_resume)?;
        let prompt_by = self.take(INPUT, |value| match text_of(value)? {
            "argument" => Some(PromptBy::Argument),
            "stdin" => Some(PromptBy::Stdin),
            _ => None,
        })?;
        let provider = self.take(PROVIDER, |value| match text_of(value)? {
            "claude" => Some(Provider::Claude),
            "other" => Some(Provider::Other),
            _ => None,
        })?;
        let provider = provider.unwrap_or_else(|| provider_of(&command));
        let prompt_by = prompt_by.unwrap_or(PromptBy::Argument);
        self.check_prompt(COMMAND, &command, prompt_by)?;
        if let Some(resume) = &resume {
            self.check_prompt(RESUME, resume, prompt_by)?;
        }
        let confirm_ms = self.take(CONFIRM, ms)?;
        if provider == Provider::Claude && confirm_ms.is_some_and(|ms| ms < CLAUDE_CONFIRM_MS_MIN) {
            let why = "\"20s\" or more for provider \"claude\", whose silence proves nothing so soon (H-09)";
            return Err(self.wrong(CONFIRM, why));
        }
        Ok(AgentConfig {
            name: name.to_owned(),
            command,
            resume,
            prompt_by,
            provider,
            limit_texts: self.take(LIMIT_TEXTS, limit_texts)?.unwrap_or_default(),
            confirm_ms,
            timeout_ms: self.take(TIMEOUT, |value| ms(value).filter(|ms| 0 < *ms))?,
            written,
        })
    }

    fn written(&self) -> Result<Vec<Written>, ConfigError> {
        let mut written = Vec::new();
        for (name, value) in self.keys {
            let line = line_of(self.text, name.span().start);
            let full = format!("{ARRAY}.{}", name.get_ref());
            let Some(key) = AGENT_KEYS.iter().find(|key| key.name == full) else {
                return Err(ConfigError::UnknownKey { line, nearest: nearest(&full), key: full });
            };
            let text = self.text.get(value.span()).unwrap_or_default().to_owned();
            written.push(Written { key: key.name, text, line });
        }
        // As they stand in the file; the parser has them by name.
        written.sort_by_key(|one| one.line);
        Ok(written)
    }

    fn entry(&self, key: &str) -> Option<(&'a Spanned<DeValue<'a>>, usize)> {
        let bare = key.rsplit_once('.').map_or(key, |(_, bare)| bare);
        let (name, value) = self.keys.iter().find(|(name, _)| name.get_ref() == bare)?;
        Some((value, line_of(self.text, name.span().start)))
    }

    fn take<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        self.entry(key)
            .map(|(value, _)| read(value.get_ref()).ok_or_else(|| self.wrong(key, wanted(key))))
            .transpose()
    }

    fn wrong(&self, key: &'static str, wanted: &str) -> ConfigError {
        let line = self.entry(key).map_or(self.line, |(_, line)| line);
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

fn wanted(key: &str) -> &'static str {
    AGENT_KEYS.iter().find(|one| one.name == key).map_or("", |one| one.wanted)
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_plain)
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

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let DeValue::Array(items) = value else { return None };
    items.iter().map(|item| text_of(item.get_ref()).map(str::to_owned)).collect()
}

fn command(value: &DeValue<'_>) -> Option<Vec<String>> {
    let command = texts(value).filter(|words| !words.iter().any(|word| word.contains('\0')))?;
    let has_program = command.first().is_some_and(|program| !program.is_empty());
    let is_fresh = !command.iter().any(|word| word.contains("{session}"));
    (has_program && is_fresh).then_some(command)
}

fn command_to_resume(value: &DeValue<'_>) -> Option<Vec<String>> {
    let command = texts(value).filter(|words| !words.iter().any(|word| word.contains('\0')))?;
    let has_program = command.first().is_some_and(|program| !program.is_empty());
    let has_session = command.iter().any(|word| word.contains("{session}"));
    (has_program && has_session).then_some(command)
}

fn limit_texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    texts(value).filter(|all| all.iter().all(|one| TEXT_CHARS_MIN <= one.chars().count()))
}

fn ms(value: &DeValue<'_>) -> Option<u64> {
    duration_ms(text_of(value)?)
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
        let name = Written { key: NAME, text: "\"claude\"".into(), line: 5 };
        assert_eq!(claude.written.iter().find(|one| one.key == NAME), Some(&name));
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
            "line 3: loop.agent.confirm takes \"20s\" or more for provider \"claude\", whose silence proves nothing so soon (H-09)"
        );
        assert!(Config::parse(&format!("{agent}provider = \"other\"")).is_ok());
    }
}
