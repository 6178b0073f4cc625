//! The real client without a terminal, against the fake API: its streams pass, what it came to is
//! judged, and its own work is not cut.

use crate::case::{A_WHILE, Case};
use coord_model::Decimal;
use coord_tests::client::{VERSION, headless_text, program, result, sign_in, stream, surround};
use coord_tests::coord::coord;
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::process::{Finished, Running};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;
use std::time::SystemTime;

/// A client under `coord run`; `more` comes behind its prompt.
fn command(case: &Case, api: &FakeApi, more: &[&str]) -> Command {
    let program = program();
    let program = program.to_string_lossy();
    let words = [&[&*program, "-p", "Say hello"][..], more].concat();
    surround(case.run(&[], &words), &case.home, api)
}

/// One that tells everything as JSON lines.
#[track_caller]
fn start(case: &Case, api: &FakeApi, more: &[&str]) -> Running {
    let format = ["--output-format", "stream-json", "--verbose"];
    case.start(command(case, api, &[more, &format].concat()))
}

/// Runs one against these answers, to its end.
#[track_caller]
fn run(turns: impl IntoIterator<Item = Turn>, more: &[&str]) -> (Case, Finished) {
    let case = Case::new(&[]);
    let api = FakeApi::start(turns);
    let finished = start(&case, &api, more).finish();
    assert_eq!(case.lines()[0]["provider"], "claude", "{VERSION}");
    (case, finished)
}

#[track_caller]
fn assert_came_to(case: &Case, finished: &Finished, code: i32, reason: &str, outcome: &str) {
    assert_eq!(finished.code(), Some(code), "{finished:#?}");
    case.assert_ended(reason, outcome);
    case.assert_not_forced();
}

/// the run is shown with the numbers of its client's result.
#[track_caller]
fn says_what_it_used(case: &Case, result: &Value) {
    let shown = case.run_shown();
    let models = result["modelUsage"].as_object().expect("models");
    let (model, used) = models.iter().next().expect("a model");
    assert_eq!((models.len(), &shown["tokens"]["model"]), (1, &model.as_str().into()), "{shown}");
    for (name, field) in [
        ("inputTokens", "input"),
        ("outputTokens", "output"),
        ("cacheReadInputTokens", "cache_read"),
        ("cacheCreationInputTokens", "cache_creation"),
    ] {
        assert_eq!(shown["tokens"][field], used[name], "{shown} {result}");
    }
    let cost = |value: &Value| serde_json::from_value::<Decimal>(value.clone()).expect("a cost");
    assert_eq!(cost(&shown["cost"]["usd"]), cost(&result["total_cost_usd"]), "{shown} {result}");
    let id = case.lines()[0]["run_id"].as_str().expect("an id").to_owned();
    let inspected = coord(&case.home, &["inspect", &id]).expect_success().stdout;
    assert!(inspected.contains(" out · result, "), "{inspected}");
}

//
pub(crate) fn a_turn() {
    let (case, finished) = run([Turn::text("Hello there.")], &[]);
    assert_came_to(&case, &finished, 0, "exited_after_result", "done");
    let line = result(&finished);
    assert_eq!((&line["result"], &line["num_turns"]), (&"Hello there.".into(), &1.into()));
    assert_eq!(case.run_shown()["session_id"], line["session_id"]);
    says_what_it_used(&case, &line);
    assert_eq!(case.ended()["stdout_bytes"], finished.stdout.len());
    assert!(case.left().is_empty());
    // Its text output is what it is without coord.
    let api = FakeApi::start([Turn::text("Hello there."), Turn::text("Hello there.")]);
    let case = Case::new(&[]);
    let alone = headless_text(&case.home, &api, "Say hello", &[]).finish().expect_success();
    let with = case.start(command(&case, &api, &[])).finish().expect_success();
    assert_eq!((with.stdout, with.stderr), (alone.stdout, alone.stderr));
    case.assert_ended("exited", "done");
}

// R-14, S2-15: to the end of its own tries.
pub(crate) fn a_limit_of_requests() {
    let limit = Turn::error(429, "rate_limit_error", "Number of requests has exceeded your limit");
    let (case, finished) = run([limit], &[]);
    assert_came_to(&case, &finished, 1, "exited_after_result", "exhausted");
    let retries = stream(&finished).into_iter().filter(|line| line["subtype"] == "api_retry");
    assert!(0 < retries.count(), "{finished:#?}");
}

// R-14, S2-15, S2-17
pub(crate) fn a_limit_of_a_subscription() {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let reset = now + 5_000;
    let case = Case::new(&[]);
    sign_in(&case.home);
    let api = FakeApi::start([subscription_limit(reset)]);
    let mut client = command(&case, &api, &["--output-format", "stream-json", "--verbose"]);
    client.env_remove("ANTHROPIC_API_KEY");
    let finished = case.start(client).finish();
    assert_came_to(&case, &finished, 1, "exited_after_result", "exhausted");
    let ended = case.ended();
    let resets_at = ended["resets_at"].as_str().unwrap_or_else(|| panic!("no reset: {ended:#}"));
    let resets_ms = coord_model::stamp::parse_rfc3339(resets_at).expect("RFC 3339");
    assert_eq!(resets_ms, reset * 1_000);
}

/// What the API answers at a subscription's limit, which ends then.
fn subscription_limit(reset_s: u64) -> Turn {
    Turn::error(429, "rate_limit_error", "This request would exceed your limit")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", &reset_s.to_string())
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
        .header("anthropic-ratelimit-unified-overage-status", "rejected")
        .header("retry-after", "3600")
}

// R-14, S2-15: in text mode, where one line on standard output is all that tells of it.
pub(crate) fn a_limit_in_text_mode() {
    let case = Case::new(&[]);
    let requests = "Number of requests has exceeded your limit";
    let api = FakeApi::start([Turn::error(429, "rate_limit_error", requests)]);
    let finished = case.start(command(&case, &api, &[])).finish();
    assert!(finished.stdout.starts_with("API Error: Request rejected (429)"), "{finished:#?}");
    assert_came_to(&case, &finished, 1, "exited", "exhausted");

    let case = Case::new(&[]);
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    sign_in(&case.home);
    let api = FakeApi::start([subscription_limit(now + 5_000)]);
    let mut client = command(&case, &api, &[]);
    client.env_remove("ANTHROPIC_API_KEY");
    let finished = case.start(client).finish();
    assert!(finished.stdout.starts_with("You've hit your limit"), "{finished:#?}");
    assert_came_to(&case, &finished, 1, "exited", "exhausted");

    // An agent that says the same has done its turn.
    let case = Case::new(&[]);
    let api = FakeApi::start([Turn::text("You've hit your limit")]);
    let finished = case.start(command(&case, &api, &[])).finish();
    assert_eq!(finished.stdout, "You've hit your limit\n");
    assert_came_to(&case, &finished, 0, "exited", "done");

    // And any other error is none.
    let case = Case::new(&[]);
    let api = FakeApi::start([Turn::error(529, "overloaded_error", "Overloaded")]);
    let finished = case.start(command(&case, &api, &[])).finish();
    assert_came_to(&case, &finished, 1, "exited", "crash");
}

// R-14, S2-18
pub(crate) fn errors_of_its_account() {
    let credit = "Your credit balance is too low to access the Anthropic API.";
    for (status, kind, words, outcome) in [
        (400, "invalid_request_error", credit, "billing"),
        (401, "authentication_error", "invalid x-api-key", "authentication"),
        (529, "overloaded_error", "Overloaded", "crash"),
    ] {
        let (case, finished) = run([Turn::error(status, kind, words)], &[]);
        assert_came_to(&case, &finished, 1, "exited_after_result", outcome);
        assert_eq!(result(&finished)["subtype"], "success", "its words say nothing");
    }
}

//
pub(crate) fn a_cut_stream() {
    // Its tries used up, the client asks once more without a stream.
    let cut = || Turn::cut("A long text that breaks off");
    let (case, finished) = run([cut(), cut(), Turn::text("The whole text.")], &[]);
    assert_came_to(&case, &finished, 0, "exited_after_result", "done");
}

// S3-21, R-14, S3-11: two result lines, and the work in between is not cut.
pub(crate) fn a_background_shell() {
    // More than a client needs from the end of its work to the turn that tells of it.
    let case = Case::new(&[("limbo", "10s"), ("tick", "600ms")]);
    let go = case.file("go");
    let shell = format!("until [ -e '{}' ]; do sleep 0.2; done", go.display());
    let input = json!({"command": shell, "description": "Wait", "run_in_background": true});
    let turns = [Turn::tool("Bash", input), Turn::text("It runs."), Turn::text("It is over.")];
    let api = FakeApi::start(turns);
    let running = start(&case, &api, &["--allowedTools", "Bash"]);
    case.wait_note("subcountdown_deferred");
    assert!(case.because("subcountdown_deferred").contains("background_work"));
    assert!(!running.ends_within(A_WHILE));
    case.make_file("go");
    let finished = running.finish();
    assert_came_to(&case, &finished, 0, "exited_after_result", "done");
    let results = stream(&finished).into_iter().filter(|line| line["type"] == "result");
    assert_eq!(results.count(), 2, "{finished:#?}");
    assert_eq!(case.run_shown()["results"], 2);
}

// S3-21, S3-06, H-20: work that hangs is waited for no more, and goes with the run.
pub(crate) fn a_background_shell_that_hangs() {
    let case = Case::new(&[("limbo", "1s"), ("quiet_after", "2s"), ("tick", "600ms")]);
    let input = json!({
        "command": "tail -f /dev/null", "description": "Serve", "run_in_background": true,
    });
    let api = FakeApi::start([Turn::tool("Bash", input), Turn::text("It serves.")]);
    let finished = start(&case, &api, &["--allowedTools", "Bash"]).finish();
    assert_eq!(finished.code(), Some(143), "{finished:#?}");
    case.assert_ended("post_result_limbo_timeout", "done");
    assert!(case.left().is_empty());
}

/// A client whose request hangs, and a signal to its supervisor.
fn signalled(signal: Signal) -> (Case, Finished) {
    let case = Case::new(&[]);
    let api = FakeApi::start([Turn::hang()]);
    let running = start(&case, &api, &[]);
    api.wait_for("Say hello");
    running.signal(signal);
    let finished = running.finish();
    (case, finished)
}

// S3-24, R-14
pub(crate) fn its_user_ends_it() {
    let (case, finished) = signalled(Signal::TERM);
    assert_came_to(&case, &finished, 143, "forwarded_signal", "cancelled");
    let (case, finished) = signalled(Signal::INT);
    // It leaves with 0, and its result, if there is one, is an error.
    assert_came_to(&case, &finished, 0, "forwarded_signal", "cancelled");
}

// S3-23, S2-01
pub(crate) fn it_does_not_begin() {
    let unknown = "0d3c8e4e-0000-4000-8000-5f2a9f1c7b10";
    let (case, finished) = run([], &["--resume", unknown]);
    assert_eq!(finished.code(), Some(1), "{finished:#?}");
    assert_eq!(case.ended()["outcome"], "poisoned_resume", "{:#?}", case.lines());
    let (case, finished) = run([], &["--no-such-flag"]);
    assert_came_to(&case, &finished, 1, "exited", "usage");
}

// S3-22: its own clocks are far above, so that only a client that hangs for good meets it.
pub(crate) fn an_api_that_never_answers() {
    // More than its start takes on a busy machine.
    let case = Case::new(&[("first_result", "30s")]);
    let api = FakeApi::start([Turn::hang()]);
    let finished = start(&case, &api, &[]).finish();
    assert_eq!(finished.code(), Some(143), "{finished:#?}");
    case.assert_ended("first_result_timeout", "no_result");
    assert_eq!(stream(&finished).iter().filter(|line| line["type"] == "result").count(), 0);
}

// S3-22: a tool that runs.
pub(crate) fn a_long_tool() {
    // More than its start takes on a busy machine, and less than the 30 s after which it tells that a tool runs.
    let case = Case::new(&[("first_result", "20s")]);
    let shell = format!("until [ -e '{}' ]; do sleep 0.2; done", case.file("go").display());
    let api = FakeApi::start([Turn::bash(&shell), Turn::text("Done.")]);
    let running = start(&case, &api, &["--allowedTools", "Bash"]);
    case.wait_hold("tool_running");
    assert!(!running.ends_within(A_WHILE));
    case.make_file("go");
    let finished = running.finish();
    assert_came_to(&case, &finished, 0, "exited_after_result", "done");
    assert_eq!(case.ended()["left"], Value::Array(Vec::new()));
}
