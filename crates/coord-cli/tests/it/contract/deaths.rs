//! What a death means (H-05, H-10, H-14, H-15, S0-25f, S0-28a, R-09), with harnesses that really
//! die.

use super::harness::{Harness, Tmux};
use super::wire::{ask, event, here, post, with};
use coord_model::{SessionState, Status};
use coord_tests::coord::{Coordinator, coord, events, install, programs, session, session_when};
use coord_tests::home::Home;
use coord_wire::frame;
use coord_wire::inspect::Session;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;

/// A home whose client registry may be read, with a coordinator. Ends count as near each other
/// however slow the machine is.
fn watched() -> (Home, Coordinator) {
    let home = Home::new();
    let config_dir = home.config_dir();
    home.write_config(&format!(
        "[tracking]\nconfig_dirs = ['{}']\ninterrupted_within = '1h'\n",
        config_dir.display()
    ));
    install(&home);
    let coordinator = Coordinator::start(&home);
    (home, coordinator)
}

/// The session after its process was seen dead and its death was judged.
#[track_caller]
fn judged(home: &Home, id: &str) -> Session {
    session_when(home, id, "judged after its death", |session| {
        let is_gone = session.owner.as_ref().is_some_and(|owner| owner.alive == Some(false));
        is_gone && !session.because.contains("coord is checking")
    })
}

/// What was decided of a session.
fn decisions(home: &Home, id: &str) -> Vec<String> {
    let lines = ask(home, "GET", &format!("/v1/sessions/{id}/decisions"), "").expect(200).json();
    let lines = lines.as_array().unwrap().iter();
    lines.map(|line| line["detail"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn h05_a_registry_entry_left_behind_is_a_crash() {
    let (home, _coordinator) = watched();
    let mut harness = Harness::headless(&home, "session-one");
    harness.register();
    harness.begin_turn();
    let alive = session(&home, "session-one").unwrap();
    assert_eq!((alive.state, alive.owner.unwrap().alive), (SessionState::Running, Some(true)));
    harness.kill();
    let dead = judged(&home, "session-one");
    assert_eq!((dead.state, dead.status), (SessionState::Crashed, Status::Stopped));
    let decisions = decisions(&home, "session-one");
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert!(
        decisions[0].starts_with("H-05: ") && decisions[0].ends_with("crashed"),
        "{decisions:?}"
    );
}

#[test]
fn h05_a_registry_entry_removed_is_a_stop() {
    let (home, _coordinator) = watched();
    let mut harness = Harness::headless(&home, "session-one");
    harness.register();
    harness.begin_turn();
    session_when(&home, "session-one", "its registry entry is read", |one| {
        one.evidence.iter().any(|fact| fact.source == "registry")
    });
    harness.unregister();
    harness.kill();
    let dead = judged(&home, "session-one");
    assert_eq!(dead.state, SessionState::Stopped, "{dead:?}");
}

#[test]
fn h05_without_a_registry_nothing_is_proved() {
    let (home, _coordinator) = watched();
    let mut harness = Harness::headless(&home, "session-one");
    harness.begin_turn();
    harness.kill();
    let dead = judged(&home, "session-one");
    assert_eq!((dead.state, dead.status), (SessionState::Unknown, Status::Unknown), "{dead:?}");
    // The directory is there and holds no entry, before and after: nothing is proved either.
    fs::create_dir(home.config_dir().join("sessions")).unwrap();
    let mut harness = Harness::headless(&home, "session-two");
    harness.begin_turn();
    harness.kill();
    assert_eq!(judged(&home, "session-two").state, SessionState::Unknown);
}

// tolerated in any shape, and no proof in a strange one.
#[test]
fn h05_a_strange_registry_entry_proves_nothing() {
    let (home, _coordinator) = watched();
    for (n, text) in ["", "{", "[1]", "{\"pid\": \"x\"}", "{\"pid\": 1}"].into_iter().enumerate() {
        let id = format!("session-{n}");
        let mut harness = Harness::headless(&home, &id);
        harness.register_as(text);
        harness.begin_turn();
        harness.kill();
        assert_eq!(judged(&home, &id).state, SessionState::Unknown, "{text:?}");
    }
    // One of another process with that pid, and one that turns strange before the death.
    let mut harness = Harness::headless(&home, "session-reused");
    harness.register_as(
        &json!({
            "pid": harness.process.pid, "procStart": (harness.process.start_time + 1).to_string(),
            "sessionId": "session-reused",
        })
        .to_string(),
    );
    harness.begin_turn();
    harness.kill();
    assert_eq!(judged(&home, "session-reused").state, SessionState::Unknown);
    let mut harness = Harness::headless(&home, "session-turned");
    harness.register();
    harness.begin_turn();
    harness.register_as("{");
    harness.kill();
    assert_eq!(judged(&home, "session-turned").state, SessionState::Unknown);
}

/// The harness part of an envelope.
fn harness_fields(harness: &Harness, pid_ns: u64) -> Value {
    let start_time = harness.process.start_time.to_string();
    json!({"harness": {"pid": harness.process.pid, "start_time": start_time, "pid_ns": pid_ns, "tty": 0}})
}

// H-05: the SessionEnd of a session that was judged crashed turns up in the spool.
#[test]
fn h05_a_late_session_end_corrects_a_crash() {
    let (home, _coordinator) = watched();
    let mut harness = Harness::headless(&home, "session-one");
    harness.register();
    harness.begin_turn();
    let fields = harness_fields(&harness, here().pid_ns);
    harness.kill();
    assert_eq!(judged(&home, "session-one").state, SessionState::Crashed);
    let mono_ns = coord_store::now().mono_ns;
    let late = with(event("session-one", "SessionEnd", 9), fields);
    let late = with(late, json!({"mono_ns": mono_ns, "reason": "prompt_input_exit"}));
    let mut solo = Vec::new();
    frame::push(&mut solo, late.to_string().as_bytes());
    fs::write(home.paths().spool().join("solo-late"), solo).unwrap();
    let seen =
        session_when(&home, "session-one", "stopped", |one| one.state == SessionState::Stopped);
    assert!(seen.because.contains("a person ended it"), "{seen:?}");
}

// H-05: socket and spool first, then the judgement: a SessionEnd that had to go to the spool is not
// overtaken by the death.
#[test]
fn h05_the_spool_is_emptied_before_a_death_is_judged() {
    let (home, coordinator) = watched();
    let mut harness = Harness::headless(&home, "session-one");
    harness.register();
    harness.begin_turn();
    let pid = Pid::from_raw(i32::try_from(coordinator.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    assert_eq!(harness.report("SessionEnd", &json!({"reason": "other"})), 0);
    harness.kill();
    kill_process(pid, Signal::CONT).unwrap();
    session_when(&home, "session-one", "stopped", |one| one.state == SessionState::Stopped);
    assert_eq!(decisions(&home, "session-one"), Vec::<String>::new());
}

#[test]
fn s025f_an_end_with_session_end_is_a_stop() {
    let (home, _coordinator) = watched();
    for (n, reason) in ["prompt_input_exit", "logout", "other", "a new one"].into_iter().enumerate()
    {
        let id = format!("session-{n}");
        let mut harness = Harness::headless(&home, &id);
        harness.register();
        harness.begin_turn();
        harness.end(reason);
        let seen = session_when(&home, &id, "its death is known", |one| {
            one.owner.as_ref().is_some_and(|owner| owner.alive == Some(false))
        });
        assert_eq!(seen.state, SessionState::Stopped, "{reason}");
    }
}

// H-10
#[test]
fn h10_three_interactive_ends_together_are_an_interruption() {
    let (home, _coordinator) = watched();
    let mut all: Vec<Harness> =
        (1..=4).map(|n| Harness::at_terminal(&home, &format!("session-{n}"))).collect();
    for harness in &mut all {
        harness.begin_verified_turn(&home);
    }
    let by_hand = all.pop().unwrap();
    by_hand.end("prompt_input_exit");
    for (n, harness) in (1..).zip(all) {
        harness.end("other");
        let wanted = if n < 3 { SessionState::Stopped } else { SessionState::Interrupted };
        session_when(&home, &format!("session-{n}"), "judged", |one| one.state == wanted);
    }
    for n in 1..=3 {
        assert_eq!(
            session(&home, &format!("session-{n}")).unwrap().state,
            SessionState::Interrupted
        );
    }
    // What its user ended stays ended.
    assert_eq!(session(&home, "session-4").unwrap().state, SessionState::Stopped);
}

// H-10: a batch of headless runs ends all the time.
#[test]
fn h10_a_headless_batch_is_not_interrupted() {
    let (home, _coordinator) = watched();
    for n in 1..=4 {
        let mut harness = Harness::headless(&home, &format!("session-{n}"));
        harness.begin_turn();
        assert_eq!(harness.report("Stop", &json!({})), 0);
        harness.end("other");
    }
    for n in 1..=4 {
        assert_eq!(session(&home, &format!("session-{n}")).unwrap().state, SessionState::Stopped);
    }
}

// S0-25f, H-10: the death of a tmux server is one event for all its sessions.
#[test]
fn h10_the_death_of_a_tmux_server_interrupts_its_sessions() {
    let (home, _coordinator) = watched();
    let tmux = Tmux::start(&home);
    let mut inside: Vec<Harness> =
        (1..=3).map(|n| Harness::in_tmux(&tmux, &format!("session-{n}"))).collect();
    let mut outside = Harness::at_terminal(&home, "outside");
    for harness in inside.iter_mut().chain([&mut outside]) {
        harness.register();
        harness.begin_verified_turn(&home);
    }
    let seen = session(&home, "session-1").unwrap();
    assert!(seen.tmux.is_some_and(|tmux| tmux.pane.starts_with('%')), "the pane is known");
    inside.pop().unwrap().end("prompt_input_exit");
    tmux.kill();
    for n in 1..=2 {
        let id = format!("session-{n}");
        let seen =
            session_when(&home, &id, "interrupted", |one| one.state == SessionState::Interrupted);
        assert!(seen.because.contains("tmux server"), "{seen:?}");
    }
    assert_eq!(session(&home, "session-3").unwrap().state, SessionState::Stopped);
    assert_eq!(session(&home, "outside").unwrap().state, SessionState::Running);
}

// H-15: shown, never judged.
#[test]
fn h15_another_machine_and_another_pid_namespace_are_elsewhere() {
    let (home, _coordinator) = watched();
    let harness = Harness::headless(&home, "unused");
    let pid_ns = here().pid_ns;
    let far = with(event("far", "UserPromptSubmit", 1), harness_fields(&harness, pid_ns));
    let inside = with(event("inside", "UserPromptSubmit", 1), harness_fields(&harness, pid_ns + 1));
    harness.kill();
    post(&home, &with(far, json!({"machine": "another-machine-1234"})));
    post(&home, &inside);
    for id in ["far", "inside"] {
        let seen = session(&home, id).unwrap();
        assert_eq!(
            (seen.state, seen.status),
            (SessionState::Elsewhere, Status::Unknown),
            "{seen:?}"
        );
        assert_eq!(seen.owner.unwrap().alive, None, "it was not even looked at");
    }
    assert!(events(&home, None).iter().all(|line| line["source"] != "process"));
}

// the pid is taken by another process; that one's life is not the harness's.
#[test]
fn r09_a_reused_pid_is_another_process() {
    let (home, _coordinator) = watched();
    let other = Harness::headless(&home, "other");
    other.register();
    let mut fields = harness_fields(&other, here().pid_ns);
    fields["harness"]["start_time"] = json!((other.process.start_time - 1).to_string());
    fields["config_dir"] = json!(home.config_dir());
    post(&home, &with(event("session-one", "UserPromptSubmit", 1), fields));
    let seen = session(&home, "session-one").unwrap();
    assert_eq!(seen.state, SessionState::Unknown, "the entry is the other process's: {seen:?}");
    assert!(seen.owner.is_none(), "{seen:?}");
}

// H-25: only a child of the harness speaks for it; others are applied and marked.
#[test]
fn h25_an_event_of_a_stranger_is_marked() {
    let (home, _coordinator) = watched();
    let mut harness = Harness::headless(&home, "session-one");
    harness.begin_verified_turn(&home);
    let fields = harness_fields(&harness, here().pid_ns);
    let mono_ns = coord_store::now().mono_ns;
    let forged = with(event("session-one", "Stop", 1), fields);
    post(&home, &with(forged, json!({"mono_ns": mono_ns, "pid": std::process::id()})));
    // A child of the harness that passes off another process's event is a stranger too.
    let forged = with(event("session-one", "Stop", 2), harness_fields(&harness, here().pid_ns));
    let forged = with(forged, json!({"mono_ns": mono_ns + 1, "pid": std::process::id()}));
    let file = home.tmp().join("forged");
    fs::write(&file, forged.to_string()).unwrap();
    let (socket, file) = (home.paths().socket(), file.display().to_string());
    let curl = format!(
        "curl -sS --unix-socket '{}' -d '@{file}' http://coord/v1/events",
        socket.display()
    );
    assert_eq!(harness.run(&curl), 0);
    let verified: Vec<Value> = events(&home, Some("session-one"))
        .into_iter()
        .filter(|line| line["source"] == "hook")
        .map(|line| line["verified"].clone())
        .collect();
    assert!(verified.ends_with(&[true.into(), false.into(), false.into()]), "{verified:?}");
    let depth = coord(&home, &["inspect", "session-one"]).expect_success().stdout;
    assert!(depth.contains("not verified"), "{depth}");
}

// H-14: two coordinators, one configuration directory: the second observes and says so.
#[test]
fn h14_the_second_coordinator_of_a_config_dir_observes_and_says_so() {
    let (home, _coordinator) = watched();
    let second = Home::new();
    let config_dir = home.config_dir();
    second.write_config(&format!("[tracking]\nconfig_dirs = ['{}']\n", config_dir.display()));
    let _second = Coordinator::start(&second);
    let mut harness = Harness::headless(&home, "session-one");
    harness.begin_turn();
    let payload = second.tmp().join("payload");
    let stop = json!({"session_id": "session-one", "hook_event_name": "Stop", "cwd": "/"});
    fs::write(&payload, stop.to_string()).unwrap();
    let hook = programs().join("coord-hook-stop");
    let (hook, root, payload) = (hook.display(), second.root(), payload.display());
    assert_eq!(harness.run(&format!("'{hook}' --root '{}' <'{payload}'", root.display())), 0);
    let [first, second] =
        [&home, &second].map(|home| coord(home, &["status"]).expect_success().stdout);
    assert!(!first.contains("only observes"), "{first}");
    assert!(second.contains("degraded"), "{second}");
    assert!(
        second.contains(config_dir.to_str().unwrap()) && second.contains("only observes"),
        "{second}"
    );
}

// H-05: without a coordinator `inspect` looks at the processes itself; the dead do not pass for alive.
#[test]
fn h05_without_a_coordinator_the_truth_is_looked_up() {
    let (home, coordinator) = watched();
    let mut all: Vec<Harness> = ["crashed", "stopped", "running"]
        .into_iter()
        .map(|id| Harness::headless(&home, &format!("session-{id}")))
        .collect();
    for harness in &mut all {
        harness.register();
        harness.begin_turn();
    }
    coordinator.kill();
    let (_running, mut stopped, crashed) =
        (all.pop().unwrap(), all.pop().unwrap(), all.pop().unwrap());
    assert_eq!(stopped.report("SessionEnd", &json!({"reason": "other"})), 0);
    stopped.kill();
    crashed.kill();
    let journal = || {
        fs::read_dir(home.paths().journal())
            .unwrap()
            .flatten()
            .map(|entry| fs::read(entry.path()).unwrap())
            .collect::<Vec<_>>()
    };
    let before = journal();
    for (id, state) in [
        ("session-crashed", SessionState::Crashed),
        ("session-stopped", SessionState::Stopped),
        ("session-running", SessionState::Running),
    ] {
        assert_eq!(session(&home, id).unwrap().state, state, "{id}");
    }
    assert_eq!(journal(), before, "reading changes nothing");
    // A coordinator that starts comes to the same.
    let _coordinator = Coordinator::start(&home);
    session_when(&home, "session-crashed", "crashed", |one| one.state == SessionState::Crashed);
    assert_eq!(session(&home, "session-running").unwrap().state, SessionState::Running);
}
