//! Every event takes effect exactly once, however it comes and however often (G1, G2, H-31, H-37).

use super::harness::{Harness, spool_is_empty};
use super::wire::{ask, client_event, post, with};
use coord_model::SessionState;
use coord_tests::coord::{
    Coordinator, coord, events, health, hook_events, install, session, session_when,
};
use coord_tests::home::Home;
use coord_tests::wait::wait_until;
use coord_wire::frame;
use coord_wire::spool::{CURRENT, HEADER_BYTES, HEADER_MAGIC, RECORDS_AT};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::PathBuf;

/// A spool file's content, as hooks write it.
fn spool_file(events: &[Value]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&HEADER_MAGIC);
    let at = usize::try_from(RECORDS_AT).unwrap();
    bytes[at..at + 8].copy_from_slice(&(events.len() as u64).to_le_bytes());
    for event in events {
        frame::push(&mut bytes, event.to_string().as_bytes());
    }
    bytes
}

/// A home with a state directory and an empty spool, no coordinator.
fn installed() -> Home {
    let home = Home::new();
    install(&home);
    fs::create_dir_all(home.paths().spool()).unwrap();
    home
}

fn current(home: &Home) -> PathBuf {
    home.paths().spool().join(CURRENT)
}

/// A prompt taken twice would need two Stops.
fn prompt_and_stop(session: &str) -> [Value; 2] {
    [client_event(session, "UserPromptSubmit", 1), client_event(session, "Stop", 2)]
}

#[track_caller]
fn assert_each_once(home: &Home, session_id: &str) {
    assert_eq!(hook_events(home, session_id), ["UserPromptSubmit", "Stop"]);
    assert_eq!(session(home, session_id).unwrap().state, SessionState::Idle);
}

#[test]
fn g2_an_event_that_comes_twice_by_socket_counts_once() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let [prompt, stop] = prompt_and_stop("session-one");
    post(&home, &prompt);
    post(&home, &prompt);
    post(&home, &json!([prompt, prompt, stop, prompt, stop]));
    assert_each_once(&home, "session-one");
    // Also after a restart.
    coordinator.kill();
    let _coordinator = Coordinator::start(&home);
    post(&home, &json!([prompt, stop]));
    assert_each_once(&home, "session-one");
}

#[test]
fn g2_an_event_that_comes_by_socket_and_by_spool_counts_once() {
    let home = installed();
    let [prompt, stop] = prompt_and_stop("session-one");
    let coordinator = Coordinator::start(&home);
    post(&home, &prompt);
    coordinator.kill();
    fs::write(current(&home), spool_file(&[prompt.clone(), stop.clone()])).unwrap();
    let _coordinator = Coordinator::start(&home);
    spool_is_empty(&home);
    assert_each_once(&home, "session-one");
    post(&home, &json!([stop, prompt]));
    assert_each_once(&home, "session-one");
}

// G2: the coordinator was killed after it had journaled a drained file and before it had removed it.
#[test]
fn g2_a_spool_file_that_is_read_twice_counts_once() {
    let home = installed();
    let drained = home.paths().spool().join("drain-00000000000000000001");
    let bytes = spool_file(&prompt_and_stop("session-one"));
    for _ in 0..3 {
        fs::write(&drained, &bytes).unwrap();
        let coordinator = Coordinator::start(&home);
        spool_is_empty(&home);
        coordinator.kill();
    }
    assert_each_once(&home, "session-one");
    let mut solo = Vec::new();
    frame::push(&mut solo, prompt_and_stop("session-one")[0].to_string().as_bytes());
    fs::write(home.paths().spool().join("solo-1"), solo).unwrap();
    let _coordinator = Coordinator::start(&home);
    spool_is_empty(&home);
    assert_each_once(&home, "session-one");
}

// G2: arrival in any order ends where the emission's order does.
#[test]
fn g2_late_and_reordered_events_never_move_a_session_backwards() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let names = ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"];
    let mut n = 0;
    // A SessionEnd alone opens no record, so it is not the first to arrive here.
    for order in permutations(&[0, 1, 2, 3]).into_iter().filter(|order| order[0] != 3) {
        n += 1;
        let id = format!("session-{n}");
        for step in order {
            let fields = json!({"source": "startup", "reason": "prompt_input_exit"});
            post(
                &home,
                &with(client_event(&id, names[step], u32::try_from(step).unwrap() + 1), fields),
            );
        }
        let state = session(&home, &id).map(|session| session.state);
        assert_eq!(state, Some(SessionState::Stopped), "{n}");
    }
}

fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    of.iter()
        .flat_map(|first| {
            let rest: Vec<usize> = of.iter().copied().filter(|one| one != first).collect();
            permutations(&rest).into_iter().map(|tail| [vec![*first], tail].concat())
        })
        .collect()
}

#[test]
fn g2_a_late_event_is_counted_and_changes_nothing() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    post(&home, &client_event("session-one", "Stop", 5));
    for (n, name) in [(1, "SessionStart"), (2, "UserPromptSubmit"), (3, "PreToolUse")] {
        post(&home, &client_event("session-one", name, n));
        let seen = session(&home, "session-one").unwrap();
        assert_eq!(seen.state, SessionState::Idle, "after a late {name}");
        assert_eq!(seen.last_event.unwrap().name, "Stop");
    }
    let metrics = ask(&home, "GET", "/metrics", "").expect(200).body;
    assert!(metrics.contains("\ncoord_hook_events_late_total 3\n"), "{metrics}");
    assert_eq!(hook_events(&home, "session-one").len(), 4, "the history has them all");
}

#[test]
fn g1_the_spool_is_taken_in_at_the_start() {
    let home = installed();
    let mut harness = Harness::headless(&home, "session-one");
    harness.begin_turn();
    // Without a coordinator the store and the spool together tell the truth.
    assert_eq!(session(&home, "session-one").unwrap().state, SessionState::Running);
    assert!(events(&home, None).is_empty(), "nothing is journaled yet");
    let _coordinator = Coordinator::start(&home);
    spool_is_empty(&home);
    assert_eq!(session(&home, "session-one").unwrap().state, SessionState::Running);
    assert_eq!(hook_events(&home, "session-one"), ["SessionStart", "UserPromptSubmit"]);
    assert!(
        fs::read_dir(home.paths().spool())
            .unwrap()
            .flatten()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with("drain-"))
    );
}

// H-37: hooks that remember a miss spool while the coordinator is there; it takes that in by itself.
#[test]
fn g1_what_lands_in_the_spool_meanwhile_is_taken_in() {
    let home = installed();
    let _coordinator = Coordinator::start(&home);
    let mut harness = Harness::headless(&home, "session-one");
    fs::write(home.paths().miss(), "").unwrap();
    harness.begin_turn();
    let seen = session_when(&home, "session-one", "running", |session| {
        session.state == SessionState::Running
    });
    assert_eq!(seen.last_event.unwrap().name, "UserPromptSubmit");
    let vias: Vec<Value> = events(&home, Some("session-one"))
        .into_iter()
        .filter(|line| line["source"] == "hook")
        .map(|line| line["via"].clone())
        .collect();
    assert_eq!(vias, ["spool", "spool"]);
}

// A hook that was stopped with the lock in its hands holds up neither other hooks nor the coordinator.
#[test]
fn g1_a_stopped_writer_holds_up_nobody_and_loses_nothing() {
    let home = installed();
    fs::write(current(&home), spool_file(&[client_event("waiting", "UserPromptSubmit", 1)]))
        .unwrap();
    let held = File::options().write(true).open(current(&home)).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut harness = Harness::headless(&home, "session-one");
    harness.begin_turn();
    let _coordinator = Coordinator::start(&home);
    session_when(&home, "session-one", "running", |session| session.state == SessionState::Running);
    assert_eq!(harness.report("Stop", &json!({})), 0);
    assert_eq!(session(&home, "session-one").unwrap().state, SessionState::Idle);
    // The two files of single records go once the journal is synced; the held file stays.
    wait_until("only the held file is left", || match health(&home).unwrap().spool_pending {
        1 => Ok(()),
        other => Err(other),
    });
    assert!(session(&home, "waiting").is_none());
    drop(held);
    session_when(&home, "waiting", "running", |session| session.state == SessionState::Running);
    spool_is_empty(&home);
}

// G1: what a killed hook left half written costs that event only.
#[test]
fn g1_a_torn_record_in_the_spool_costs_no_other() {
    let home = installed();
    let [prompt, stop] = prompt_and_stop("session-one");
    let mut bytes = spool_file(&[prompt]);
    let mut torn = Vec::new();
    frame::push(&mut torn, client_event("torn", "Stop", 1).to_string().as_bytes());
    bytes.extend_from_slice(&torn[..torn.len() / 2]);
    frame::push(&mut bytes, stop.to_string().as_bytes());
    frame::push(&mut bytes, b"{\"no\":\"envelope\"}");
    fs::write(current(&home), bytes).unwrap();
    let _coordinator = Coordinator::start(&home);
    spool_is_empty(&home);
    assert_each_once(&home, "session-one");
    wait_until("the record that is no event is in the history", || {
        let lines = events(&home, None);
        lines.iter().any(|line| line["name"] == "Malformed").then_some(()).ok_or(lines)
    });
    assert!(session(&home, "torn").is_none());
}

// H-31: what is older than the memory of ids is history only.
#[test]
fn h31_a_spooled_event_older_than_the_memory_of_ids_is_history() {
    let home = installed();
    let old = coord_model::stamp::rfc3339(coord_store::now().wall_ms - 8 * 24 * 3_600_000);
    let mut lines =
        vec![with(client_event("session-one", "UserPromptSubmit", 3), json!({"emitted_at": old}))];
    lines.push(client_event("session-two", "UserPromptSubmit", 3));
    fs::write(current(&home), spool_file(&lines)).unwrap();
    let _coordinator = Coordinator::start(&home);
    spool_is_empty(&home);
    assert!(session(&home, "session-one").is_none());
    assert_eq!(session(&home, "session-two").unwrap().state, SessionState::Running);
    assert!(coord(&home, &["events", "session-one"]).expect_success().stdout.contains("prompt"));
}
