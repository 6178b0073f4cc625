//! The harness itself, and the client's behaviour that the other tests build on: plain capture
//! hooks, no coord. Holds no rows; a failure here after a change of the client's version means
//! that what was measured of it has changed.

use coord_tests::client::{self, Conversation, VERSION, headless, headless_text, result};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::netns::{self, test};
use coord_tests::process::run;
use coord_tests::settings::{Capture, Settings};
use coord_tests::wait::{PATIENCE, wait_until};
use rustix::process::Signal;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;

fn main() -> ExitCode {
    netns::run(vec![
        test("the_client_is_the_pinned_one", the_client_is_the_pinned_one),
        test("nothing_but_loopback_can_be_reached", nothing_but_loopback_can_be_reached),
        test("a_text_answer_is_one_turn", a_text_answer_is_one_turn),
        test("plain_text_output_is_the_answer", plain_text_output_is_the_answer),
        test("a_tool_call_has_its_events_inside_the_turn", a_tool_call_has_its_events),
        test("a_failed_tool_has_its_own_event", a_failed_tool_has_its_own_event),
        test("a_refused_tool_asks_and_is_denied", a_refused_tool_asks_and_is_denied),
        test("an_overloaded_api_ends_in_stop_failure", an_overloaded_api_ends_in_stop_failure),
        test("a_bad_request_ends_in_stop_failure", a_bad_request_ends_in_stop_failure),
        test("a_cut_stream_is_asked_for_again", a_cut_stream_is_asked_for_again),
        test("a_subagent_has_events_of_its_own", a_subagent_has_events_of_its_own),
        test("sigkill_leaves_the_registry_entry", sigkill_leaves_the_registry_entry),
        test("sigterm_ends_the_session", sigterm_ends_the_session),
        test("two_sessions_get_their_own_answers", two_sessions_get_their_own_answers),
    ])
}

/// A home whose hooks write down every event.
fn captured() -> (Home, Capture) {
    let home = Home::new();
    let capture = Capture::new(&home);
    Settings::new().capture(&capture).write(&home);
    (home, capture)
}

fn the_client_is_the_pinned_one() {
    let home = Home::new();
    let mut command = home.command(client::program());
    command.arg("--version");
    let version = run(command, &home.tmp(), "version").expect_success();
    assert_eq!(version.stdout.trim(), format!("{VERSION} (Claude Code)"));
    assert!(include_str!("../install-claude").contains(&format!("version={VERSION}\n")));
}

fn nothing_but_loopback_can_be_reached() {
    assert!(netns::is_isolated());
    // An address that is kept for documentation: nobody has it.
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 443));
    let error = TcpStream::connect_timeout(&elsewhere, PATIENCE).map_err(|error| error.kind());
    assert_eq!(error.err(), Some(ErrorKind::NetworkUnreachable));
}

fn a_text_answer_is_one_turn() {
    let (home, capture) = captured();
    let api = FakeApi::start([Turn::text("Hello there.")]);
    let finished = headless(&home, &api, "Say hello", &[]).finish().expect_success();
    let result = result(&finished);
    assert_eq!(
        (&result["subtype"], &result["result"]),
        (&"success".into(), &"Hello there.".into())
    );
    assert_eq!(capture.events(), ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]);
    let start = capture.first("SessionStart");
    assert_eq!(
        (&start["source"], &start["session_id"]),
        (&"startup".into(), &result["session_id"])
    );
    assert_eq!(capture.first("SessionEnd")["reason"], "other");
    assert_eq!(api.wait_for("Say hello").what, "POST /v1/messages");
}

fn plain_text_output_is_the_answer() {
    let (home, _capture) = captured();
    let api = FakeApi::start([Turn::text("Hello there.")]);
    let finished = headless_text(&home, &api, "Say hello", &[]).finish().expect_success();
    assert_eq!(finished.stdout.trim(), "Hello there.");
}

fn a_tool_call_has_its_events() {
    let (home, capture) = captured();
    let api = FakeApi::start([Turn::bash("echo from the tool"), Turn::text("It said so.")]);
    let run = headless(&home, &api, "Run it", &["--allowedTools", "Bash"]);
    run.finish().expect_success();
    assert_eq!(
        capture.events(),
        ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"]
    );
    let after = capture.first("PostToolUse");
    assert_eq!(after["tool_use_id"], capture.first("PreToolUse")["tool_use_id"]);
    assert_eq!(after["tool_response"]["stdout"], "from the tool");
    api.wait_for("from the tool");
}

fn a_failed_tool_has_its_own_event() {
    let (home, capture) = captured();
    let api = FakeApi::start([Turn::bash("echo bad >&2; exit 3"), Turn::text("It failed.")]);
    let run = headless(&home, &api, "Run it", &["--allowedTools", "Bash"]);
    run.finish().expect_success();
    assert!(!capture.events().contains(&"PostToolUse".to_owned()), "{:?}", capture.events());
    let failure = capture.first("PostToolUseFailure");
    assert!(failure["error"].as_str().is_some_and(|e| e.contains("Exit code 3")), "{failure}");
}

fn a_refused_tool_asks_and_is_denied() {
    let (home, capture) = captured();
    let api = FakeApi::start([Turn::bash("touch x.txt"), Turn::text("I may not.")]);
    headless(&home, &api, "Make x.txt", &[]).finish().expect_success();
    assert!(!home.project().join("x.txt").exists());
    let asked = capture.first("PermissionRequest");
    assert_eq!(asked["tool_name"], "Bash");
    assert!(asked.get("tool_use_id").is_none(), "{asked}");
}

/// An error of the API: the result says so on stdout, and StopFailure takes the place of Stop.
///
/// A run of one prompt leaves without waiting for its StopFailure hooks, and now and then before
/// they have their payload. A conversation stays.
#[track_caller]
fn stop_failure(turn: Turn, error: &str) {
    let (home, capture) = captured();
    let api = FakeApi::start([turn]);
    let mut client = Conversation::start(&home, &api);
    client.say("Say hello");
    wait_until("the StopFailure hook has written", || {
        let events = capture.events();
        if events.contains(&"StopFailure".to_owned()) { Ok(()) } else { Err(events) }
    });
    let finished = client.finish();
    assert_eq!(finished.code(), Some(1), "{finished:#?}");
    let result = result(&finished);
    assert_eq!((&result["is_error"], &result["subtype"]), (&true.into(), &"success".into()));
    assert_eq!(capture.first("StopFailure")["error"], error);
    assert_eq!(capture.events(), ["SessionStart", "UserPromptSubmit", "StopFailure", "SessionEnd"]);
}

fn an_overloaded_api_ends_in_stop_failure() {
    stop_failure(Turn::error(529, "overloaded_error", "Overloaded"), "server_error");
}

fn a_bad_request_ends_in_stop_failure() {
    stop_failure(Turn::error(400, "invalid_request_error", "messages: bad"), "unknown");
}

fn a_cut_stream_is_asked_for_again() {
    let (home, capture) = captured();
    let half = "A long text that breaks off";
    let cut = Turn::cut(&half.repeat(2));
    let whole = Turn::text("The whole text.");
    let api = FakeApi::start([cut.clone().behind("1"), cut.behind("2"), whole]);
    let running = headless(&home, &api, "Say hello", &["--include-partial-messages"]);
    for attempt in 1..=2 {
        wait_until(&format!("the client shows the half of attempt {attempt}"), || {
            let [stdout, _] = running.output();
            if stdout.matches(half).count() == attempt { Ok(()) } else { Err(stdout) }
        });
        api.open(&attempt.to_string());
    }
    let finished = running.finish().expect_success();
    assert_eq!(result(&finished)["result"], "The whole text.");
    // Its retries used up, the client asks once more without a stream.
    let streams: Vec<bool> = api.requests().iter().map(|request| request.is_stream).collect();
    assert_eq!(streams, [true, true, false]);
    assert_eq!(capture.events(), ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]);
}

fn a_subagent_has_events_of_its_own() {
    let (home, capture) = captured();
    let task = serde_json::json!({
        "description": "Look around", "prompt": "SUBTASK one", "subagent_type": "general-purpose",
        "run_in_background": false,
    });
    let api = FakeApi::start([
        Turn::tool("Agent", task),
        Turn::text("The subagent looked.").only_for("SUBTASK one\"}"),
        Turn::text("All done."),
    ]);
    headless(&home, &api, "Use a subagent", &["--allowedTools", "Agent"]).finish().expect_success();
    let start = capture.first("SubagentStart");
    let stop = capture.first("SubagentStop");
    assert_eq!(start["agent_id"], stop["agent_id"]);
    assert_eq!(start["session_id"], capture.first("SessionStart")["session_id"]);
}

fn sigkill_leaves_the_registry_entry() {
    let (home, capture) = captured();
    let api = FakeApi::start([Turn::hang()]);
    let running = headless(&home, &api, "Say hello", &[]);
    api.wait_for("Say hello");
    let entry = home.config_dir().join(format!("sessions/{}.json", running.pid()));
    assert!(entry.exists());
    let finished = running.kill();
    assert_eq!(finished.signal(), Some(Signal::KILL.as_raw()));
    assert!(entry.exists(), "the entry of a killed client stays");
    assert_eq!(capture.events(), ["SessionStart", "UserPromptSubmit"]);
}

fn sigterm_ends_the_session() {
    let (home, capture) = captured();
    let api = FakeApi::start([Turn::hang()]);
    let running = headless(&home, &api, "Say hello", &[]);
    api.wait_for("Say hello");
    let entry = home.config_dir().join(format!("sessions/{}.json", running.pid()));
    running.signal(Signal::TERM);
    let finished = running.finish();
    assert_eq!(finished.code(), Some(143), "{finished:#?}");
    assert!(!entry.exists(), "the entry of a client that ended is removed");
    assert_eq!(capture.events(), ["SessionStart", "UserPromptSubmit", "SessionEnd"]);
}

fn two_sessions_get_their_own_answers() {
    let (home, other_home) = (Home::new(), Home::new());
    let api = FakeApi::start([
        Turn::text("for the second").only_for("TAG-TWO"),
        Turn::text("for the first").only_for("TAG-ONE").behind("first"),
    ]);
    let first = headless(&home, &api, "TAG-ONE", &[]);
    api.wait_for("TAG-ONE");
    let second = headless(&other_home, &api, "TAG-TWO", &[]).finish().expect_success();
    api.open("first");
    let first = first.finish().expect_success();
    assert_eq!(result(&first)["result"], "for the first");
    assert_eq!(result(&second)["result"], "for the second");
}
