//! Local work does not wait for the network (F-09).

use serde_json::json;

use super::cuts::Stopped;
use super::*;
use crate::contract::harness::Harness;

/// A session works, gets a message and is shown.
#[track_caller]
fn works(machine: &Machine, session: &str) {
    let mut harness = Harness::headless(&machine.home, session);
    harness.write_transcript();
    harness.begin_turn();
    let text = format!("read this, {session}");
    coord(&machine.home, &["send", session, &text]).expect_success();
    let tool = json!({"tool_name": "Bash", "permission_mode": "default"});
    let read = harness.answer("PostToolUse", &tool);
    assert!(read.contains(&text), "{read}");
    assert_eq!(harness.report("Stop", &json!({})), 0);
    let shown = inspect(&machine.home);
    let state = shown.sessions.iter().find(|one| one.session_id == session).map(|one| one.state);
    assert_eq!(state, Some(coord_model::SessionState::Idle));
}

// F-09: with a server that takes every byte and answers nothing, and with a relay that stands still, sessions report, get
// messages and are shown as ever; what happened meanwhile is published afterwards.
#[test]
fn f_09_local_work_does_not_wait_for_the_network() {
    let (server, [desk]) = fleet(["desk"]);
    works(&desk, "while-it-is-up");
    published(&desk);
    server.hang();
    works(&desk, "while-it-hangs");
    server.go_on();
    let relay = Stopped::relay(&desk);
    works(&desk, "while-the-relay-stands-still");
    relay.go_on();
    published(&desk);
    is_whole(&desk);
}
