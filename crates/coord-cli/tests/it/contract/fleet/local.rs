//! Local work does not wait for the network (F-09).

use serde_json::json;

use super::cuts::Stopped;
use super::*;
use crate::contract::harness::Harness;

/// A session works, is sent a message and is shown.
#[track_caller]
fn works(machine: &Machine, session: &str) {
    let mut harness = Harness::headless(&machine.home, session);
    harness.write_transcript();
    harness.begin_turn();
    let told = coord(&machine.home, &["send", session, "read this"]).expect_success().stdout;
    assert!(told.contains(" pending: "), "{told}");
    let tool = json!({"tool_name": "Bash", "permission_mode": "default"});
    assert_eq!(harness.report("PostToolUse", &tool), 0);
    assert_eq!(harness.report("Stop", &json!({})), 0);
    let shown = inspect(&machine.home);
    let state = shown.sessions.iter().find(|one| one.session_id == session).map(|one| one.state);
    assert_eq!(state, Some(coord_model::SessionState::Idle));
}

// F-09: with a server that takes every byte and answers nothing, and with a relay that stands still, sessions report, are sent
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
