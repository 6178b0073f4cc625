//! HTTP over the socket (interfaces.md), byte by byte: every route, every refusal, and peers that
//! stop in the middle. Holds G2 and G11.

use super::wire::{Wire, ask, client_event, event, post, request, with};
use coord_model::SessionState;
use coord_tests::coord::{Coordinator, events, health, programs, session};
use coord_tests::home::Home;
use coord_tests::process::Running;
use coord_tests::wait::wait_until;
use coord_wire::api::Health;
use coord_wire::inspect::Inspect;
use coord_wire::limits::BODY_BYTES_MAX;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn started() -> (Home, Coordinator) {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    (home, coordinator)
}

#[test]
fn every_route_answers() {
    let (home, coordinator) = started();
    post(&home, &client_event("session-one", "UserPromptSubmit", 1));
    let all: Inspect =
        serde_json::from_str(&ask(&home, "GET", "/v1/sessions", "").expect(200).body).unwrap();
    assert_eq!((all.schema, all.sessions.len()), (1, 1));
    let one = ask(&home, "GET", "/v1/sessions/sess", "").expect(200).json();
    assert_eq!(one["sessions"][0]["session_id"], "session-one");
    assert_eq!(one["sessions"][0]["state"], "running");
    let health: Health =
        serde_json::from_str(&ask(&home, "GET", "/healthz", "").expect(200).body).unwrap();
    assert_eq!((health.pid, health.sessions), (coordinator.pid(), 1));
    assert_eq!(health.invariant_violations, 0);
    assert!(2 <= health.seq, "the start and the event are in the journal: {health:?}");
    ask(&home, "GET", "/metrics", "").expect(200);
    let history = ask(&home, "GET", "/v1/events", "").expect(200).json();
    assert!(history.as_array().unwrap().iter().any(|line| line["name"] == "UserPromptSubmit"));
    ask(&home, "POST", "/v1/down", "").expect(204);
}

#[test]
fn wrong_methods_and_paths_are_told_apart() {
    let (home, _coordinator) = started();
    for (method, path, status) in [
        ("DELETE", "/v1/events", 405),
        ("POST", "/v1/sessions", 405),
        ("POST", "/v1/sessions/session-one", 405),
        ("PUT", "/v1/sessions/session-one/decisions", 405),
        ("GET", "/v1/down", 405),
        ("GET", "/v1/operator", 405),
        ("GET", "/v1/sessions/session-one/recover", 405),
        ("POST", "/healthz", 405),
        ("POST", "/metrics", 405),
        ("GET", "/", 404),
        ("GET", "/v2/events", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/event", 404),
        ("GET", "/v1/events/1", 404),
        ("GET", "/v1/sessions/session-one/nothing", 404),
        ("GET", "/v1/sessions/session-one", 404),
        ("GET", "/v1/sessions/session-one/decisions", 404),
        ("GET", "/healthz/more", 404),
    ] {
        let answer = ask(&home, method, path, "");
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        answer.expect(status);
    }
}

#[test]
fn a_bad_body_is_refused_and_changes_nothing() {
    let (home, _coordinator) = started();
    let good = client_event("session-one", "UserPromptSubmit", 1);
    let array = |bad: Value| json!([good, bad]).to_string();
    let before = events(&home, None).len();
    for body in [
        String::new(),
        "{".to_owned(),
        "7".to_owned(),
        "[".to_owned(),
        "{} {}".to_owned(),
        "\u{0}".to_owned(),
        format!("{good} {good}"),
        array(json!({})),
        array(with(good.clone(), json!({"v": 2}))),
        array(with(good.clone(), json!({"id": "x"}))),
        array(with(good.clone(), json!({"session_id": ""}))),
        array(with(good.clone(), json!({"emitted_at": "yesterday"}))),
        array(with(good.clone(), json!({"cwd": "x".repeat(70_000)}))),
        json!(vec![good.clone(); 1001]).to_string(),
    ] {
        let answer = ask(&home, "POST", "/v1/events", &body).expect(400);
        assert!(answer.body.len() < 1000, "a short reason: {answer:?}");
    }
    assert_eq!(events(&home, None).len(), before);
    assert!(session(&home, "session-one").is_none());
    ask(&home, "POST", "/v1/events", "[]").expect(204);
    ask(&home, "GET", "/v1/events?since=x", "").expect(400);
    // Fields of a newer version are accepted.
    post(&home, &with(good, json!({"a_new_field": {"x": [1]}})));
}

#[test]
fn a_body_over_the_limit_is_refused_unread() {
    let (home, _coordinator) = started();
    let mut wire = Wire::open(&home);
    let n = BODY_BYTES_MAX + 1;
    wire.send(format!("POST /v1/events HTTP/1.1\r\nContent-Length: {n}\r\n\r\n"));
    wire.answer().expect("an answer").expect(413);
    assert_eq!(wire.answer(), None, "the connection is closed");
    // One that fits is read whole, and judged.
    let body = format!("[{}]", " ".repeat(BODY_BYTES_MAX - 2));
    ask(&home, "POST", "/v1/events", &body).expect(204);
}

#[test]
fn what_is_no_http_is_refused() {
    let (home, _coordinator) = started();
    for text in [
        "hello\r\n\r\n".to_owned(),
        "GET /healthz\r\n\r\n".to_owned(),
        "POST /v1/events HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(),
        "POST /v1/events HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\n", "a".repeat(17 * 1024)),
        format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(50)),
    ] {
        let mut wire = Wire::open(&home);
        wire.send(&text).answer().expect("an answer").expect(400);
        assert_eq!(wire.answer(), None, "the connection is closed");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (home, _coordinator) = started();
    let (first, second) = (
        client_event("session-one", "UserPromptSubmit", 1),
        client_event("session-one", "Stop", 2),
    );
    let mut wire = Wire::open(&home);
    wire.send(
        [
            request("POST", "/v1/events?sync=1", &first.to_string()),
            request("GET", "/v1/sessions/session-one", ""),
            request("GET", "/v1/events?session=session-one", ""),
            request("POST", "/v1/events?sync=1", &second.to_string()),
            request("GET", "/v1/sessions/session-one", ""),
            request("GET", "/nowhere", ""),
        ]
        .concat(),
    );
    let mut answer = |status| wire.answer().expect("an answer").expect(status);
    answer(204);
    assert_eq!(answer(200).json()["sessions"][0]["state"], "running");
    assert_eq!(answer(200).json().as_array().unwrap().len(), 1);
    answer(204);
    assert_eq!(answer(200).json()["sessions"][0]["state"], "idle");
    answer(404);
}

#[test]
fn a_request_may_come_in_pieces_or_not_at_all() {
    let (home, _coordinator) = started();
    let text = request("POST", "/v1/events", &client_event("session-one", "Stop", 1).to_string());
    let (half, rest) = text.split_at(text.len() / 2);
    let mut slow = Wire::open(&home);
    slow.send(half);
    // Another one breaks off in the middle of its body: nothing of it counts.
    Wire::open(&home).send(&text[..text.len() - 1]);
    ask(&home, "GET", "/healthz", "").expect(200);
    assert!(session(&home, "session-one").is_none());
    slow.send(rest).answer().expect("an answer").expect(204);
    assert_eq!(session(&home, "session-one").unwrap().state, SessionState::Idle);
    // And one leaves without waiting for its answer: its event counts all the same.
    Wire::open(&home).send(request(
        "POST",
        "/v1/events",
        &client_event("left", "Stop", 1).to_string(),
    ));
    ask(&home, "GET", "/v1/sessions/left", "").expect(200);
}

// H-37: many hooks at once; each is answered.
#[test]
fn a_thousand_connections_are_served_at_once() {
    let (home, _coordinator) = started();
    let mut wires: Vec<Wire> = (0..1000).map(|_| Wire::open(&home)).collect();
    for (n, wire) in (1..).zip(&mut wires) {
        let event = event(&format!("session-{n}"), "Stop", 1);
        wire.send(request("POST", "/v1/events", &event.to_string()));
    }
    for wire in &mut wires {
        wire.answer().expect("an answer").expect(204);
    }
    let answer = ask(&home, "GET", "/v1/sessions", "").expect(200).json();
    let ids: BTreeSet<&str> = answer["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 1000);
}

// A reader that does not read holds up nobody, and gets all of its answer in the end.
#[test]
fn a_slow_reader_holds_up_nobody() {
    let (home, _coordinator) = started();
    for chunk in 0..20 {
        let many: Vec<Value> = (0..100)
            .map(|n| event(&format!("session-{chunk}-{n}"), "UserPromptSubmit", 1))
            .collect();
        post(&home, &json!(many));
    }
    // Its record is there before the lists are made: from now on none takes another's place.
    post(&home, &event("busy", "PreToolUse", 1));
    let mut slow = Wire::open(&home);
    slow.send(request("GET", "/v1/sessions", "").repeat(3));
    for n in 1..50 {
        post(&home, &event("busy", "PreToolUse", n + 1));
    }
    for _ in 0..3 {
        let answer = slow.answer().expect("an answer").expect(200);
        assert!(1_000_000 < answer.body.len(), "more than a socket's buffer holds");
        let n = answer.json()["sessions"].as_array().unwrap().len();
        assert_eq!(n, coord_core::UNVERIFIED_MAX, "as many as nobody has verified");
    }
}

// the rest of it is in `metrics`.
#[test]
fn metrics_are_openmetrics_text() {
    let (home, _coordinator) = started();
    let mut wire = Wire::open(&home);
    let request = request("GET", "/metrics", "");
    let head = wire.send(request).head();
    let kind = "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(head.contains(kind), "{head}");
    let text = wire.answer().expect("an answer").expect(200).body;
    assert!(text.starts_with("# TYPE coord_up gauge\n") && text.ends_with("\n# EOF\n"), "{text}");
}

#[test]
fn the_history_is_filtered_by_session_and_position() {
    let (home, _coordinator) = started();
    for n in 1..=3 {
        post(&home, &event("session-one", "PreToolUse", n));
        post(&home, &event("session-two", "PreToolUse", n));
    }
    let lines = |query: &str| {
        let answer = ask(&home, "GET", &format!("/v1/events{query}"), "").expect(200).json();
        answer.as_array().unwrap().clone()
    };
    let one = lines("?session=session-one");
    assert_eq!(one.len(), 3);
    assert!(one.iter().all(|line| line["session_id"] == "session-one"));
    let since = one[1]["seq"].as_u64().unwrap();
    assert_eq!(lines(&format!("?session=session-one&since={since}")), one[1..]);
    assert!(
        lines(&format!("?since={since}")).iter().all(|line| since <= line["seq"].as_u64().unwrap())
    );
}

// Out of descriptors: an idle connection makes room, and a new one is served.
#[test]
fn connections_are_served_when_descriptors_run_out() {
    let home = Home::new();
    let mut command = home.command("prlimit");
    command.args(["--nofile=64:64"]).arg(programs().join("coord"));
    command.arg("serve").arg("--root").arg(home.root());
    let _serving = Running::start(command, &home.tmp(), "serve");
    wait_until("it answers", || health(&home).ok_or("no answer"));
    let mut kept = Vec::new();
    for n in 0..200 {
        let mut wire = Wire::open(&home);
        let event = event(&format!("session-{n}"), "Stop", 1).to_string();
        wire.send(request("POST", "/v1/events", &event)).answer().expect("an answer").expect(204);
        kept.push(wire);
    }
    assert_eq!(health(&home).expect("an answer").sessions, 200);
}
