//! Coordinator and caller in different pid namespaces (H-15).

use super::wire::{ask, event};
use coord_tests::coord::{coord, install, programs};
use coord_tests::home::Home;
use coord_tests::process::{Running, run};
use coord_tests::wait::wait_until;
use serde_json::json;
use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// The journal's text.
fn journal(home: &Home) -> String {
    let segments = fs::read_dir(home.paths().journal()).unwrap();
    let texts = segments.map(|segment| fs::read(segment.unwrap().path()).unwrap());
    texts.map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
}

// H-15: it sees the pids below it only, and who is above cannot be judged by it.
#[test]
fn h15_a_coordinator_in_a_pid_namespace_below_takes_nothing_over_its_socket() {
    let home = Home::new();
    install(&home);
    let mut command = home.command("unshare");
    let flags = if rustix::process::geteuid().is_root() { "-pf" } else { "-rpf" };
    command.args([flags, "--kill-child"]).arg(programs().join("coord"));
    command.arg("serve").arg("--root").arg(home.root()).stdin(Stdio::null());
    let serving = Running::start(command, &home.tmp(), "serve");
    wait_until("the coordinator listens", || {
        assert!(!serving.has_ended(), "{:?}", serving.output());
        UnixStream::connect(home.paths().socket())
    });
    ask(&home, "GET", "/healthz", "").expect(403);
    let refused = event("session-one", "Stop", 1);
    ask(&home, "POST", "/v1/events", &refused.to_string()).expect(403);
    assert_eq!(coord(&home, &["down"]).code(), Some(1), "it is not ours to end");

    let payload = json!({"session_id": "session-one", "hook_event_name": "Stop"}).to_string();
    let mut command = home.command("/bin/sh");
    command.args(["-c", "printf %s \"$2\" | \"$0\" --root \"$1\""]);
    command.arg(programs().join("coord-hook-stop")).arg(home.root()).arg(payload);
    run(command, &home.tmp(), "hook").expect_success();
    wait_until("the event came by the spool", || {
        let journal = journal(&home);
        if journal.contains(r#""via":"spool""#) { Ok(()) } else { Err(journal) }
    });
    assert!(!journal(&home).contains(r#""via":"socket""#));
}
