//! Tokens in the transcripts of the real client, compared with what the client says itself.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_host::registry::Readable;
use coord_host::transcript::tokens::Tokens;
use coord_model::TokenCounts;
use coord_tests::client::{headless, result};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::netns::{self, test};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

const SESSION: &str = "5e551000-0000-4000-8000-000000000001";

fn main() -> ExitCode {
    netns::run(vec![
        test("q_01_transcripts_have_the_totals_that_the_client_says", transcripts_have_the_totals),
        test("q_01_a_request_that_is_retried_counts_once", a_retried_request),
        test("q_01_a_compaction_counts_nothing_twice", a_compaction),
    ])
}

/// The transcript of a session.
fn transcript(home: &Home, session: &str) -> PathBuf {
    let projects = std::fs::read_dir(home.config_dir().join("projects")).unwrap();
    let paths = projects.map(|dir| dir.unwrap().path().join(format!("{session}.jsonl")));
    paths.into_iter().find(|path| path.exists()).unwrap()
}

#[track_caller]
fn counts(home: &Home, session: &str) -> TokenCounts {
    read(Tokens::new(&home.config_dir(), &transcript(home, session)))
}

#[track_caller]
fn read(mut tokens: Tokens) -> TokenCounts {
    assert_eq!(tokens.read(&Readable::default(), u64::MAX), Ok(true));
    tokens.counts().clone()
}

/// Input, cache creation, cache read, output, of all models together.
fn said(result: &Value) -> [u64; 4] {
    let names = ["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens"];
    let models = result["modelUsage"].as_object().unwrap();
    names.map(|name| models.values().map(|of| of[name].as_u64().unwrap()).sum())
}

#[track_caller]
fn assert_are(counts: &TokenCounts, said: [u64; 4]) {
    let [input, creation, read, output] = said;
    let found = (counts.input, counts.cache_creation, counts.cache_read);
    assert_eq!(found, (input, creation, read), "{counts:?}");
    assert!(counts.output <= output, "{counts:?}, and the client says {output}");
    assert!(!counts.is_partial);
}

// tools at once and a subagent; then the same session resumed, and a fork of it.
fn transcripts_have_the_totals() {
    let bash = json!({"command": "true", "description": "A test's command"});
    let task = json!({
        "description": "Look", "prompt": "SUBTASK: look", "subagent_type": "general-purpose",
        "run_in_background": false,
    });
    let home = Home::new();
    let api = FakeApi::start([
        Turn::bash("true").and_tool("Bash", bash.clone()).and_tool("Agent", task),
        Turn::bash("true").and_tool("Bash", bash).only_after("SUBTASK: look"),
        Turn::text("Looked."),
        Turn::text("Done."),
    ]);
    let first = ["--session-id", SESSION, "--allowedTools", "Bash,Agent"];
    let first = result(&headless(&home, &api, "Begin", &first).finish().expect_success());
    let after_first = counts(&home, SESSION);
    assert_are(&after_first, said(&first));
    assert_eq!((after_first.n_messages, after_first.n_subagent_messages), (4, 2));

    // What the client says of a resumed session includes what was before, in newer versions.
    let before = said(&first);
    let next = headless(&home, &api, "Go on", &["--resume", SESSION]).finish().expect_success();
    let own = result(&next)["usage"]["input_tokens"].as_u64().unwrap();
    let after_next = counts(&home, SESSION);
    assert_eq!(after_next.input, before[0] + own);
    assert_eq!(after_next.n_messages, 5);

    // Older clients do not mark what they copy, so the time of the fork is needed.
    let forked_ms = coord_store::now().wall_ms;
    let fork = headless(&home, &api, "Fork", &["--resume", SESSION, "--fork-session"]);
    let fork = result(&fork.finish().expect_success());
    let path = transcript(&home, fork["session_id"].as_str().unwrap());
    let of_fork = read(Tokens::new(&home.config_dir(), &path).forked_at(forked_ms));
    assert_eq!(
        (of_fork.input, of_fork.n_messages),
        (fork["usage"]["input_tokens"].as_u64().unwrap(), 1)
    );
    assert_eq!(counts(&home, SESSION), after_next, "the fork changes nothing of it");
}

// what the API refused has no tokens; the answer to the next try counts once.
fn a_retried_request() {
    let home = Home::new();
    let overloaded = Turn::error(529, "overloaded_error", "Overloaded").once();
    let api = FakeApi::start([Turn::bash("true"), overloaded, Turn::text("Done.")]);
    let words = ["--session-id", SESSION, "--allowedTools", "Bash"];
    let said_by = result(&headless(&home, &api, "Begin", &words).finish().expect_success());
    assert_eq!(api.requests().len(), 3, "one of them was refused");
    let counts = counts(&home, SESSION);
    assert_are(&counts, said(&said_by));
    assert_eq!(counts.n_messages, 2);
}

// the summary is a request beside the conversation, which no transcript has; what was before it and what follows
// count once.
fn a_compaction() {
    let home = Home::new();
    let api = FakeApi::start([Turn::text("One."), Turn::text("A summary."), Turn::text("Two.")]);
    let begin = headless(&home, &api, "Begin", &["--session-id", SESSION]);
    let first = said(&result(&begin.finish().expect_success()));
    assert_are(&counts(&home, SESSION), first);
    let resume = ["--resume", SESSION];
    let compact = headless(&home, &api, "/compact", &resume).finish().expect_success();
    let after = counts(&home, SESSION);
    assert_are(&after, first);
    assert_eq!((after.n_messages, after.context), (1, None), "{compact:?}");
    let next = result(&headless(&home, &api, "Go on", &resume).finish().expect_success());
    let own = next["usage"]["input_tokens"].as_u64().unwrap();
    let after = counts(&home, SESSION);
    assert_eq!((after.input, after.n_messages), (first[0] + own, 2));
    assert!(after.context.is_some());
}
