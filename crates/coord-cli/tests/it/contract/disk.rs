//! A full disk and a session that talks too much (H-29): turn edges are recorded to the last, what is
//! not recorded is visible, and it heals by itself. The state lies on a small file system of its own,
//! in a mount namespace that goes with the test.

use super::wire::{ask, client_event, post, with};
use coord_model::SessionState;
use coord_tests::coord::{Coordinator, coord, events, hook_events, programs, session};
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running, run};
use coord_tests::wait::wait_until;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// A home whose state is on 16 MiB.
pub(crate) struct SmallDisk {
    pub(crate) home: Home,
    /// Keeps the namespace.
    holder: Running,
}

impl SmallDisk {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let state = home.paths().state_base;
        std::fs::create_dir_all(&state).unwrap();
        let mut command = home.command("unshare");
        let flags = if rustix::process::geteuid().is_root() { "-m" } else { "-mr" };
        command
            .args([flags, "sh", "-c"])
            .arg("mount -t tmpfs -o size=16m,mode=700 tmpfs \"$0\" && echo ready && exec cat")
            .arg(state)
            .stdin(Stdio::piped());
        let holder = Running::start(command, &home.tmp(), "holder");
        wait_until("the small disk is mounted", || {
            assert!(!holder.has_ended(), "{:?}", holder.output());
            if holder.output()[0] == "ready\n" { Ok(()) } else { Err(holder.output()) }
        });
        Self { home, holder }
    }

    /// A command that sees the small disk.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.home.command("nsenter");
        command.arg("-t").arg(self.holder.pid().to_string()).arg("-m");
        if !rustix::process::geteuid().is_root() {
            command.args(["-U", "--preserve-credentials"]);
        }
        command.arg("--").arg(program.as_ref());
        command
    }

    fn shell(&self, script: &str) -> Finished {
        let mut command = self.command("/bin/sh");
        command.args(["-c", script]).arg(self.home.paths().state_base);
        run(command, &self.home.tmp(), "sh")
    }

    /// Leaves not a byte.
    pub(crate) fn fill(&self) {
        let filled = self.shell("cat /dev/zero >\"$0/filler\"");
        assert!(filled.stderr.contains("No space left"), "{filled:?}");
    }

    pub(crate) fn make_room(&self) {
        self.shell("rm \"$0/filler\"").expect_success();
    }

    pub(crate) fn coord(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command(programs().join("coord"));
        command.args(arguments).env("COORD_HOME", self.home.root());
        run(command, &self.home.tmp(), "coord")
    }

    #[track_caller]
    pub(crate) fn serve(&self) -> Running {
        let mut command = self.command(programs().join("coord"));
        command.arg("serve").arg("--root").arg(self.home.root()).stdin(Stdio::null());
        let serving = Running::start(command, &self.home.tmp(), "serve");
        wait_until("the coordinator answers", || {
            assert!(!serving.has_ended(), "{:?}", serving.output());
            coord_tests::coord::health(&self.home).ok_or("no answer")
        });
        serving
    }

    /// Posts tool events until one is refused.
    #[track_caller]
    fn until_refused(&self, from: u32) {
        for n in from..from + 10_000 {
            let answer = ask(&self.home, "POST", "/v1/events", &tool_event(n).to_string());
            if answer.status != 204 {
                answer.expect(503);
                return;
            }
        }
        panic!("the small disk took everything");
    }

    /// Runs the hook of an event, with a payload of the second session.
    fn hook(&self, program: &str, name: &str) -> Finished {
        let payload =
            json!({"session_id": "session-two", "hook_event_name": name, "tool_name": "Bash"});
        let mut command = self.command("/bin/sh");
        command
            .args(["-c", "printf %s \"$2\" | \"$0\" --root \"$1\""])
            .arg(programs().join(program))
            .arg(self.home.root())
            .arg(payload.to_string());
        run(command, &self.home.tmp(), "hook")
    }
}

fn tool_event(n: u32) -> Value {
    with(client_event("session-one", "PreToolUse", n), json!({"tool_name": "Bash"}))
}

#[test]
fn h29_a_full_disk_takes_turn_edges_says_so_and_heals() {
    let disk = SmallDisk::new();
    let _serving = disk.serve();
    post(&disk.home, &client_event("session-one", "UserPromptSubmit", 1));
    disk.fill();
    disk.until_refused(10);
    let status = disk.coord(&["status"]).expect_success().stdout;
    assert!(status.contains("degraded") && status.contains("disk is full"), "{status}");
    // A tool event has nowhere to go, and its hook says so once.
    let lost = disk.hook("coord-hook-post-tool-use", "PostToolUse");
    assert_eq!((lost.code(), lost.stdout.as_str()), (Some(1), ""), "{lost:?}");
    assert_eq!(lost.stderr.lines().count(), 1, "{lost:?}");
    assert!(lost.stderr.contains("this event is lost") && lost.stderr.contains("full"), "{lost:?}");
    let again = disk.hook("coord-hook-post-tool-use", "PostToolUse");
    assert_eq!((again.code(), again.stderr.as_str()), (Some(1), ""), "silent within a minute");
    // Turn edges have the reserve.
    assert_eq!(disk.hook("coord-hook-session-start", "SessionStart").code(), Some(0));
    post(&disk.home, &client_event("session-one", "Stop", 20_000));
    let seen = ask(&disk.home, "GET", "/v1/sessions/session-one", "").expect(200).json();
    assert_eq!(seen["sessions"][0]["state"], "idle");
    ask(&disk.home, "POST", "/v1/events", &tool_event(20_001).to_string()).expect(503);
    let status = disk.coord(&["status"]).expect_success().stdout;
    assert!(status.contains("disk is full"), "{status}");
    disk.make_room();
    wait_until("the coordinator has its reserve again", || {
        let status = disk.coord(&["status"]).expect_success().stdout;
        if status.contains("disk is full") { Err(status) } else { Ok(()) }
    });
    post(&disk.home, &tool_event(20_002));
    assert_eq!(disk.hook("coord-hook-post-tool-use", "PostToolUse").code(), Some(0));
}

// G1: what was acknowledged before and through the reserve is there after kill -9.
#[test]
fn g1_a_full_disk_loses_nothing_that_was_acknowledged() {
    let disk = SmallDisk::new();
    let serving = disk.serve();
    post(&disk.home, &client_event("session-one", "UserPromptSubmit", 1));
    disk.fill();
    disk.until_refused(10);
    post(&disk.home, &client_event("session-one", "Stop", 20_000));
    post(&disk.home, &client_event("session-two", "SessionStart", 1));
    serving.kill();
    // It starts on the full disk, and knows.
    let _serving = disk.serve();
    for (id, state) in [("session-one", "idle"), ("session-two", "starting")] {
        let seen = ask(&disk.home, "GET", &format!("/v1/sessions/{id}"), "").expect(200).json();
        assert_eq!(seen["sessions"][0]["state"], state, "{id}");
    }
}

#[test]
fn h29_tool_events_over_a_sessions_share_are_counted_and_edges_kept() {
    let home = Home::new();
    home.write_config("[store]\ntool_events_per_minute = 5\n");
    let _coordinator = Coordinator::start(&home);
    let mut all = vec![client_event("session-one", "UserPromptSubmit", 1)];
    all.extend((2..12).map(|n| client_event("session-one", "PreToolUse", n)));
    all.push(client_event("session-one", "Stop", 12));
    all.push(client_event("session-two", "PreToolUse", 1));
    post(&home, &json!(all));
    let one = session(&home, "session-one").unwrap();
    assert_eq!((one.state, one.last_event.unwrap().name), (SessionState::Idle, "Stop".to_owned()));
    let metrics = ask(&home, "GET", "/metrics", "").expect(200).body;
    assert!(metrics.contains("\ncoord_hook_events_folded_total 5\n"), "{metrics}");
    let counted: Vec<Value> = events(&home, Some("session-one"))
        .into_iter()
        .filter(|line| line["detail"].as_str().unwrap().contains("only counted"))
        .collect();
    assert_eq!(counted.len(), 5, "{counted:?}");
    let names = hook_events(&home, "session-one");
    assert_eq!(
        (names.first().unwrap().as_str(), names.last().unwrap().as_str()),
        ("UserPromptSubmit", "Stop")
    );
    assert!(
        coord(&home, &["events", "session-two"]).expect_success().stdout.contains("tool started")
    );
}
