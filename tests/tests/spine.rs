//! The whole way: the real client runs coord's hooks, and `coord inspect` shows the truth,
//! whatever was killed on the way. Holds G1, G2, G7, G10, G11, R-13, S0-25f, S0-28a, H-05, H-14, H-25.

use coord_model::Kind;
use coord_model::{SessionState, Status};
use coord_tests::client::{Conversation, headless, program, result, surround};
use coord_tests::coord::{Coordinator, events, hook_events, inspect, install, session_when};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::netns::{self, test};
use coord_tests::process::{Finished, Running, run};
use coord_tests::settings::{Capture, Settings};
use coord_tests::wait::wait_until;
use coord_wire::inspect::Session;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    netns::run(vec![
        test("a_run_is_seen_from_start_to_end", a_run_is_seen_from_start_to_end),
        test("a_run_without_a_coordinator_is_spooled", a_run_without_a_coordinator_is_spooled),
        test("a_hung_turn_is_running_until_it_is_over", a_hung_turn_is_running_until_it_is_over),
        test("tool_events_are_recorded", tool_events_are_recorded),
        test("an_api_error_is_a_stop_failure", an_api_error_is_a_stop_failure),
        test("a_session_at_its_prompt_is_idle", a_session_at_its_prompt_is_idle),
        test("a_client_killed_in_a_turn_has_crashed", a_client_killed_in_a_turn_has_crashed),
        test("an_unread_registry_proves_no_crash", an_unread_registry_proves_no_crash),
        test("a_death_while_nobody_looked_is_a_crash", a_death_while_nobody_looked_is_a_crash),
        test("sigterm_is_a_stop", sigterm_is_a_stop),
        test("an_interrupted_run_is_a_stop", an_interrupted_run_is_a_stop),
        test("a_closed_stdout_is_no_end", a_closed_stdout_is_no_end),
        test("a_killed_coordinator_loses_nothing", a_killed_coordinator_loses_nothing),
        test("two_sessions_are_told_apart", two_sessions_are_told_apart),
    ])
}

/// A home with coord's hooks, and beside them hooks that write down what the client sent. The
/// registry of its configuration directory may be read (H-14).
fn hooked() -> (Home, Capture) {
    let home = Home::new();
    let config_dir = home.config_dir();
    home.write_config(&format!("[tracking]\nconfig_dirs = ['{}']\n", config_dir.display()));
    let capture = Capture::new(&home);
    Settings::new().capture(&capture).write(&home);
    install(&home);
    (home, capture)
}

fn id_of(finished: &Finished) -> String {
    result(finished)["session_id"].as_str().expect("the result names its session").to_owned()
}

/// The id of the session that is under way.
fn id_captured(capture: &Capture) -> String {
    let start = capture.first("SessionStart");
    start["session_id"].as_str().expect("a payload names its session").to_owned()
}

/// Each event that the client sent is there once, and no other (G1, G2).
#[track_caller]
fn assert_nothing_lost_or_doubled(home: &Home, id: &str, capture: &Capture) {
    let sorted = |mut events: Vec<String>| {
        events.sort();
        events
    };
    assert_eq!(sorted(hook_events(home, id)), sorted(capture.events()));
    let hooks = events(home, Some(id)).into_iter().filter(|event| event["source"] == "hook");
    let ids: Vec<String> = hooks.map(|event| event["id"].to_string()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id came twice: {ids:?}");
    assert_eq!(inspect(home).coordinator.invariant_violations, 0);
}

#[track_caller]
fn stopped(home: &Home, id: &str) -> Session {
    session_when(home, id, "stopped, last event SessionEnd", |session| {
        let last = session.last_event.as_ref();
        session.state == SessionState::Stopped && last.is_some_and(|last| last.name == "SessionEnd")
    })
}

#[track_caller]
fn running(home: &Home, id: &str) -> Session {
    session_when(home, id, "running", |session| session.state == SessionState::Running)
}

fn a_run_is_seen_from_start_to_end() {
    let (home, capture) = hooked();
    let coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::text("Hello there.")]);
    let client = headless(&home, &api, "Say hello", &[]);
    let pid = client.pid();
    let finished = client.finish().expect_success();
    assert_eq!(result(&finished)["result"], "Hello there.");

    let id = id_of(&finished);
    let session = stopped(&home, &id);
    assert_eq!(session.status, Status::Stopped);
    assert_eq!(session.kind, Some(Kind::Headless));
    assert_eq!(session.provider, "claude");
    let owner = session.owner.expect("the hooks' parent is the owner");
    assert_eq!(owner.pid, pid);
    // The session ends a moment before its process does.
    session_when(&home, &id, "its owner is gone", |session| {
        session.owner.as_ref().is_some_and(|owner| owner.alive == Some(false))
    });
    assert_eq!(session.cwd, home.project().to_string_lossy());
    assert_eq!(session.config_dir, home.config_dir().to_string_lossy());
    assert_eq!(session.last_event.map(|last| last.source).as_deref(), Some("hook"));
    let all = inspect(&home);
    assert_eq!((all.schema, all.sessions.len()), (1, 1));
    assert!(all.coordinator.running);
    assert_eq!(all.coordinator.pid, coordinator.pid());
    assert_nothing_lost_or_doubled(&home, &id, &capture);
    // H-25: the socket's peer was a child of the client itself. An event that the coordinator was
    // too slow for came by the spool, which is no fault.
    let events = events(&home, Some(&id));
    let by_socket: Vec<_> = events.iter().filter(|event| event["via"] == "socket").collect();
    assert!(!by_socket.is_empty(), "{events:#?}");
    assert!(by_socket.iter().all(|event| event["verified"] == true), "{events:#?}");
}

fn a_run_without_a_coordinator_is_spooled() {
    let (home, capture) = hooked();
    let api = FakeApi::start([Turn::bash("true"), Turn::text("Hello there.")]);
    let client = headless(&home, &api, "Say hello", &["--allowedTools", "Bash"]);
    let finished = client.finish().expect_success();
    assert_eq!(result(&finished)["result"], "Hello there.");
    let id = id_of(&finished);
    assert!(!inspect(&home).coordinator.running);

    let _coordinator = Coordinator::start(&home);
    // Nobody saw the client that these events name: they are history, and its state is not known.
    let session =
        session_when(&home, &id, "unknown", |session| session.state == SessionState::Unknown);
    assert!(session.owner.is_none(), "{session:#?}");
    assert_nothing_lost_or_doubled(&home, &id, &capture);
    for event in events(&home, Some(&id)).iter().filter(|event| event["source"] == "hook") {
        assert_eq!(event["via"], "spool", "{event}");
    }
    // A file is taken out of the spool only after what it said is durable, thus after it is shown.
    wait_until("the spool is empty", || match inspect(&home).coordinator.spool_pending {
        0 => Ok(()),
        pending => Err(pending),
    });
}

fn a_hung_turn_is_running_until_it_is_over() {
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::text("At last.").behind("answer")]);
    let client = headless(&home, &api, "Say hello", &[]);
    api.wait_for("Say hello");
    let id = id_captured(&capture);
    let session = running(&home, &id);
    assert_eq!(session.status, Status::Running);
    let owner = session.owner.expect("a running session has an owner");
    assert_eq!((owner.pid, owner.alive), (client.pid(), Some(true)));
    api.open("answer");
    client.finish().expect_success();
    stopped(&home, &id);
}

fn tool_events_are_recorded() {
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([
        Turn::bash("echo secret-output"),
        Turn::bash("exit 3"),
        Turn::text("It said so."),
    ]);
    let client = headless(&home, &api, "Run it", &["--allowedTools", "Bash"]);
    let id = id_of(&client.finish().expect_success());
    stopped(&home, &id);
    assert_nothing_lost_or_doubled(&home, &id, &capture);
    let names = hook_events(&home, &id);
    assert_eq!(names.iter().filter(|name| *name == "PreToolUse").count(), 2, "{names:?}");
    assert!(names.contains(&"PostToolUse".to_owned()), "{names:?}");
    assert!(names.contains(&"PostToolUseFailure".to_owned()), "{names:?}");
    // G11: neither what the tool was given nor what it said is kept anywhere.
    let mut grep = Command::new("grep");
    grep.args(["-rl", "secret-output"]).arg(home.root());
    assert_eq!(run(grep, &home.tmp(), "grep").stdout, "");
}

fn an_api_error_is_a_stop_failure() {
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::error(529, "overloaded_error", "Overloaded")]);
    // A run of one prompt may leave before its StopFailure hooks have their payload.
    let mut client = Conversation::start(&home, &api);
    client.say("Say hello");
    api.wait_for("Say hello");
    let id = id_captured(&capture);
    session_when(&home, &id, "at its prompt after StopFailure", |session| {
        let last = session.last_event.as_ref();
        session.status == Status::Idle && last.is_some_and(|last| last.name == "StopFailure")
    });
    client.finish();
    stopped(&home, &id);
    assert_nothing_lost_or_doubled(&home, &id, &capture);
    assert!(!hook_events(&home, &id).contains(&"Stop".to_owned()));
}

fn a_session_at_its_prompt_is_idle() {
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::text("One."), Turn::text("Two.").behind("second")]);
    let mut client = Conversation::start(&home, &api);
    client.say("First prompt");
    api.wait_for("First prompt");
    let id = id_captured(&capture);
    session_when(&home, &id, "idle", |session| session.state == SessionState::Idle);
    client.say("Second prompt");
    api.wait_for("Second prompt");
    running(&home, &id);
    api.open("second");
    session_when(&home, &id, "idle again", |session| session.state == SessionState::Idle);
    client.finish().expect_success();
    stopped(&home, &id);
    assert_nothing_lost_or_doubled(&home, &id, &capture);
}

/// A client in the midst of a turn.
fn in_a_turn(home: &Home, api: &FakeApi, capture: &Capture) -> (Running, String) {
    let client = headless(home, api, "Say hello", &[]);
    api.wait_for("Say hello");
    (client, id_captured(capture))
}

fn a_client_killed_in_a_turn_has_crashed() {
    // S0-28a, H-05: the process is gone, its registry entry stayed.
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::hang()]);
    let (client, id) = in_a_turn(&home, &api, &capture);
    running(&home, &id);
    client.kill();
    let session =
        session_when(&home, &id, "crashed", |session| session.state == SessionState::Crashed);
    assert_eq!(session.status, Status::Stopped);
    assert_eq!(session.owner.and_then(|owner| owner.alive), Some(false));
    assert!(session.evidence.iter().any(|evidence| evidence.source == "registry"));
    assert!(session.evidence.iter().any(|evidence| evidence.source == "process"));
}

fn an_unread_registry_proves_no_crash() {
    // H-05, H-14: a configuration directory that is not named is not read. The turn was open and
    // there is no pane to read, so nothing proves a crash and nothing a clean end.
    let (home, capture) = hooked();
    home.write_config("");
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::hang()]);
    let (client, id) = in_a_turn(&home, &api, &capture);
    running(&home, &id);
    client.kill();
    let session = session_when(&home, &id, "judged after its death", |session| {
        let gone = session.owner.as_ref().is_some_and(|owner| owner.alive == Some(false));
        gone && session.state != SessionState::Running
    });
    assert_eq!(session.state, SessionState::Unknown, "{session:#?}");
}

fn a_death_while_nobody_looked_is_a_crash() {
    // G10: the coordinator is away when the client dies, and finds out at its start.
    let (home, capture) = hooked();
    let coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::hang()]);
    let (client, id) = in_a_turn(&home, &api, &capture);
    running(&home, &id);
    coordinator.kill();
    client.kill();
    let _coordinator = Coordinator::start(&home);
    session_when(&home, &id, "crashed", |session| session.state == SessionState::Crashed);
    assert_nothing_lost_or_doubled(&home, &id, &capture);
}

fn sigterm_is_a_stop() {
    // S0-25f: an end with SessionEnd is a stop, in the midst of a turn too.
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::hang()]);
    let (client, id) = in_a_turn(&home, &api, &capture);
    client.signal(Signal::TERM);
    assert_eq!(client.finish().code(), Some(143));
    let session = stopped(&home, &id);
    assert!(session.pending_recovery.is_none());
    assert_nothing_lost_or_doubled(&home, &id, &capture);
}

fn an_interrupted_run_is_a_stop() {
    // S0-25f: no Stop says that the turn ended, and its exit code is that of a success; SessionEnd tells.
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::hang()]);
    let (client, id) = in_a_turn(&home, &api, &capture);
    running(&home, &id);
    client.signal(Signal::INT);
    assert_eq!(client.finish().code(), Some(0));
    stopped(&home, &id);
    assert!(!hook_events(&home, &id).contains(&"Stop".to_owned()));
}

fn a_closed_stdout_is_no_end() {
    // the client goes on with its turn.
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::text("At last.").behind("answer")]);
    let mut command = surround(home.command("sh"), &home, &api);
    command.args(["-c", "exec \"$0\" -p 'Say hello' >&-"]).arg(program());
    let client = Running::start(command, &home.tmp(), "claude");
    api.wait_for("Say hello");
    let id = id_captured(&capture);
    let owner = running(&home, &id).owner.expect("a running session has an owner");
    assert_eq!((owner.pid, owner.alive), (client.pid(), Some(true)));
    api.open("answer");
    client.finish().expect_success();
    stopped(&home, &id);
    assert_nothing_lost_or_doubled(&home, &id, &capture);
}

fn a_killed_coordinator_loses_nothing() {
    let (home, capture) = hooked();
    let coordinator = Coordinator::start(&home);
    let api = FakeApi::start([
        Turn::bash("true"),
        Turn::bash("echo after the kill").behind("killed"),
        Turn::bash("echo after the start").behind("started"),
        Turn::text("All done."),
    ]);
    let client = headless(&home, &api, "Run it", &["--allowedTools", "Bash"]);
    api.wait_for_nth("", 2);
    coordinator.kill();
    // G7: without a coordinator the hooks spool, and the client goes on.
    api.open("killed");
    api.wait_for("after the kill");
    let _coordinator = Coordinator::start(&home);
    api.open("started");
    let id = id_of(&client.finish().expect_success());
    stopped(&home, &id);
    assert_nothing_lost_or_doubled(&home, &id, &capture);
}

fn two_sessions_are_told_apart() {
    let (home, capture) = hooked();
    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([
        Turn::text("second").only_for("TAG-TWO"),
        Turn::text("first").only_for("TAG-ONE").behind("first"),
    ]);
    let (first, first_id) = {
        let client = headless(&home, &api, "TAG-ONE", &[]);
        api.wait_for("TAG-ONE");
        (client, id_captured(&capture))
    };
    let second = headless(&home, &api, "TAG-TWO", &[]);
    let second_id = id_of(&second.finish().expect_success());
    stopped(&home, &second_id);
    running(&home, &first_id);
    api.open("first");
    first.finish().expect_success();
    stopped(&home, &first_id);
    assert_eq!(inspect(&home).sessions.len(), 2);
}
