//! The real Claude Code, pinned, run headless against the fake API.
//!
//! A missing client fails the test: a skipped proof looks like a passed one.

use crate::fake_api::FakeApi;
use crate::home::{API_KEY, Home};
use crate::netns::is_isolated;
use crate::process::{Finished, Running};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::time::SystemTime;

/// The version that everything here was measured with; `install-claude` installs it.
pub const VERSION: &str = "2.1.328";

/// The client's executable: `COORD_TEST_CLAUDE`, else where `tests/install-claude` puts it.
#[track_caller]
pub fn program() -> PathBuf {
    find().unwrap_or_else(|why| panic!("{why}"))
}

/// The same, or why there is none.
pub fn find() -> Result<PathBuf, String> {
    let named = std::env::var_os("COORD_TEST_CLAUDE").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let cached = || Some(cache?.join(format!("coord-tests/claude-{VERSION}/claude")));
    let program = named.or_else(cached).ok_or("neither HOME nor XDG_CACHE_HOME is set")?;
    std::fs::canonicalize(&program).map_err(|_| {
        format!(
            "no Claude Code at {}; run tests/install-claude, or set COORD_TEST_CLAUDE to the \
             executable of version {VERSION}",
            program.display()
        )
    })
}

/// The client with `arguments`, in `home`'s project, talking to `api` only. Every kind of run
/// starts from this one, whatever it is attached to.
#[track_caller]
pub fn command(home: &Home, api: &FakeApi, arguments: &[&str]) -> Command {
    let mut command = surround(home.command(program()), home, api);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// `command` with the environment that the client needs, for the client itself or what starts it.
#[track_caller]
pub fn surround(mut command: Command, home: &Home, api: &FakeApi) -> Command {
    assert!(is_isolated(), "the client must never run outside the network namespace");
    command
        .env("CLAUDE_CONFIG_DIR", home.config_dir())
        .env("CLAUDE_CODE_TMPDIR", home.tmp())
        .env("ANTHROPIC_BASE_URL", api.url())
        .env("ANTHROPIC_API_KEY", API_KEY)
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .env("DISABLE_ERROR_REPORTING", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("SHELL", "/bin/bash")
        .env("TERM", "xterm-256color");
    command
}

/// Signs the client in to a subscription with made-up credentials. They count where no API key is set.
#[track_caller]
pub fn sign_in(home: &Home) {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let credentials = json!({"claudeAiOauth": {
        "accessToken": "sk-ant-oat01-fake",
        "refreshToken": "sk-ant-ort01-fake",
        "expiresAt": (now + 36_000) * 1_000,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
        "rateLimitTier": "default_claude_max_5x",
    }});
    let file = home.config_dir().join(".credentials.json");
    std::fs::write(file, credentials.to_string()).expect("sign the client in");
}

/// Starts `claude -p PROMPT` with stream-json output; `more` comes behind.
#[track_caller]
pub fn headless(home: &Home, api: &FakeApi, prompt: &str, more: &[&str]) -> Running {
    let arguments = ["-p", prompt, "--output-format", "stream-json", "--verbose"];
    Running::start(command(home, api, &[&arguments[..], more].concat()), &home.tmp(), "claude")
}

/// Starts `claude -p PROMPT` with plain text output; `more` comes behind.
#[track_caller]
pub fn headless_text(home: &Home, api: &FakeApi, prompt: &str, more: &[&str]) -> Running {
    let arguments = [&["-p", prompt][..], more].concat();
    Running::start(command(home, api, &arguments), &home.tmp(), "claude")
}

/// A headless run that takes prompts from its standard input, and stays at its prompt in between.
#[derive(Debug)]
pub struct Conversation {
    running: Running,
    stdin: ChildStdin,
}

impl Conversation {
    /// Starts one; nothing is said yet.
    #[track_caller]
    pub fn start(home: &Home, api: &FakeApi) -> Self {
        let formats = ["--input-format", "stream-json", "--output-format", "stream-json"];
        let mut command = command(home, api, &[&["-p", "--verbose"][..], &formats].concat());
        command.stdin(Stdio::piped());
        let mut running = Running::start(command, &home.tmp(), "claude");
        let stdin = running.take_stdin().expect("stdin is a pipe");
        Self { running, stdin }
    }

    /// Submits a prompt.
    #[track_caller]
    pub fn say(&mut self, prompt: &str) {
        let line = json!({"type": "user", "message": {"role": "user", "content": prompt}});
        writeln!(self.stdin, "{line}").expect("the client reads its standard input");
    }

    /// Closes its standard input, which ends it, and waits for its end.
    #[track_caller]
    pub fn finish(self) -> Finished {
        drop(self.stdin);
        self.running.finish()
    }
}

/// The lines of a stream-json run.
pub fn stream(finished: &Finished) -> Vec<Value> {
    finished.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The result line of a stream-json run.
#[track_caller]
pub fn result(finished: &Finished) -> Value {
    let results = stream(finished).into_iter().rfind(|line| line["type"] == "result");
    results.unwrap_or_else(|| panic!("no result line: {finished:#?}"))
}
