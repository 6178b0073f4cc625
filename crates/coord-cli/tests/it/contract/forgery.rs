//! Attacks on who is believed (H-44 to H-47): each forges what another process would have to say, with the
//! real programs, and changes nothing that it must not change.

use super::harness::Harness;
use super::wire::{event, here, post, with};
use coord_host::process::stat;
use coord_model::SessionState;
use coord_tests::coord::{Coordinator, coord, install, programs, session, session_when};
use coord_tests::home::Home;
use coord_wire::inspect::Session;
use serde_json::{Value, json};
use std::fs;
use std::process::{Child, Command, Stdio};

const ONE: &str = "aaaa1111-session";
const TWO: &str = "bbbb2222-session";

/// A process that is no client.
struct Stranger(Child);

impl Stranger {
    fn start() -> Self {
        let child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Self(child.unwrap())
    }

    fn fields(&self) -> Value {
        fields_of(self.0.id())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// The harness part of an envelope that names this process.
fn fields_of(pid: u32) -> Value {
    let start_time = stat(pid).unwrap().start_time.to_string();
    let (pid_ns, mono_ns) = (here().pid_ns, coord_store::now().mono_ns);
    json!({
        "harness": {"pid": pid, "start_time": start_time, "pid_ns": pid_ns, "tty": 0,
            "kind": "interactive"},
        "mono_ns": mono_ns,
    })
}

fn began() -> (Home, Coordinator, Harness) {
    let home = Home::new();
    install(&home);
    // Its registry is read.
    let config_dir = home.config_dir();
    home.write_config(&format!("[tracking]\nconfig_dirs = ['{}']\n", config_dir.display()));
    let coordinator = Coordinator::start(&home);
    let mut harness = Harness::headless(&home, ONE);
    assert_eq!(harness.report("SessionStart", &json!({"source": "startup"})), 0);
    let prompt = json!({"prompt": "x", "permission_mode": "plan"});
    assert_eq!(harness.report("UserPromptSubmit", &prompt), 0);
    (home, coordinator, harness)
}

#[track_caller]
fn seen(home: &Home, id: &str) -> Session {
    session(home, id).unwrap_or_else(|| panic!("no session {id}"))
}

/// An agent of `harness` sends a message to a queue; in whose name it arrives.
#[track_caller]
fn sender(home: &Home, harness: &mut Harness) -> String {
    let out = home.tmp().join("sent");
    let line = format!(
        "COORD_HOME='{}' '{}' queue send builds 'a text' --json >'{}'",
        home.root().display(),
        programs().join("coord").display(),
        out.display()
    );
    assert_eq!(harness.run(&line), 0);
    let sent: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let id = sent["id"].as_str().unwrap().to_owned();
    let shown = coord(home, &["queue", "show", &id, "--json"]).expect_success().stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["from"].as_str().unwrap().to_owned()
}

// H-44, H-45: an event that nobody verified sets no permission mode, and no place of files.
#[test]
fn a_forged_event_changes_no_mode_and_no_directory() {
    let (home, _coordinator, harness) = began();
    let before = seen(&home, ONE);
    assert_eq!(before.permission_mode.as_deref(), Some("plan"));
    for (n, named) in [(1, json!({})), (2, fields_of(harness.process.pid))] {
        let forged = json!({
            "permission_mode": "bypassPermissions", "config_dir": "/tmp/planted",
            "transcript_path": "/tmp/planted/t.jsonl", "cwd": "/tmp/planted",
            "tmux": {"socket": "/tmp/s", "server_pid": 1, "server_start": "1", "pane": "%9"},
            "mono_ns": coord_store::now().mono_ns,
        });
        post(&home, &with(with(event(ONE, "PostToolUse", n), named), forged));
    }
    let after = seen(&home, ONE);
    assert_eq!(after.permission_mode, before.permission_mode);
    assert_eq!(after.config_dir, before.config_dir);
    assert_eq!(after.transcript_path, before.transcript_path);
    assert_eq!(after.cwd, before.cwd);
    assert!(after.tmux.is_none(), "{after:?}");
}

// H-47: a start that names another session makes nobody send in that session's name.
#[test]
fn a_forged_takeover_renames_no_sender() {
    let (home, _coordinator, mut harness) = began();
    let mut other = Harness::headless(&home, TWO);
    other.begin_turn();
    assert_eq!(sender(&home, &mut harness), format!("session {ONE}"));
    // From a stranger.
    let takeover = with(event(TWO, "SessionStart", 1), fields_of(harness.process.pid));
    post(&home, &with(takeover, json!({"source": "resume"})));
    assert_eq!(sender(&home, &mut harness), format!("session {ONE}"));
    // From a child of the agent's own client.
    let takeover = json!({"session_id": TWO, "source": "resume"});
    assert_eq!(harness.report("SessionStart", &takeover), 0);
    assert_ne!(sender(&home, &mut harness), format!("session {TWO}"));
}

// H-46: a program that calls itself the harness gets no message and takes no conversation.
#[test]
fn a_program_that_calls_itself_the_harness_gets_nothing() {
    let (home, _coordinator, mut harness) = began();
    assert_eq!(harness.report("Stop", &json!({"stop_hook_active": false})), 0);
    harness.end("prompt_input_exit");
    coord(&home, &["send", ONE, "a secret"]).expect_success();
    let mut payload = json!({
        "session_id": ONE, "cwd": "/", "transcript_path": "/t.jsonl", "source": "resume",
    });
    let script = home.dir().join("not-the-client");
    fs::write(&script, "CLAUDE_PID=$$; export CLAUDE_PID; \"$1\" --root \"$2\" <\"$3\"; exit $?\n")
        .unwrap();
    let mut printed = String::new();
    for (name, hook) in
        [("SessionStart", "coord-hook-session-start"), ("UserPromptSubmit", "coord-hook-event")]
    {
        payload["hook_event_name"] = json!(name);
        let file = home.tmp().join("payload");
        fs::write(&file, payload.to_string()).unwrap();
        let mut forger = home.command("/bin/sh");
        forger.arg(&script).arg(programs().join(hook)).arg(home.root()).arg(&file);
        forger.env("CLAUDE_CONFIG_DIR", home.config_dir()).stdin(Stdio::null());
        let done = forger.output().unwrap();
        printed.push_str(&String::from_utf8_lossy(&done.stdout));
    }
    assert!(!printed.contains("a secret"), "{printed}");
    assert_eq!(seen(&home, ONE).state, SessionState::Stopped);
}

// H-44: an event that names any living process makes no session doubtful.
#[test]
fn a_living_pid_makes_no_two_owners() {
    let (home, _coordinator, _harness) = began();
    let stranger = Stranger::start();
    post(&home, &with(event(ONE, "SessionStart", 1), stranger.fields()));
    let after = seen(&home, ONE);
    assert_eq!(after.state, SessionState::Running, "{after:?}");
}

// H-44: an event that names no process opens a record that shows nothing of what it says, and its session is
// none the worse for it.
#[test]
fn an_event_without_a_process_shows_nothing() {
    let home = Home::new();
    install(&home);
    let _coordinator = Coordinator::start(&home);
    for (n, name) in [(1, "SessionStart"), (2, "UserPromptSubmit"), (3, "Stop"), (4, "SessionEnd")]
    {
        post(&home, &with(event(ONE, name, n), json!({"reason": "prompt_input_exit"})));
        let shown = seen(&home, ONE);
        assert_eq!((shown.state, shown.owner.is_none()), (SessionState::Unknown, true), "{name}");
        assert!(shown.because.contains("only unverified events"), "{}", shown.because);
    }
    let mut harness = Harness::headless(&home, ONE);
    assert_eq!(harness.report("SessionStart", &json!({"source": "startup"})), 0);
    assert_eq!(harness.report("UserPromptSubmit", &json!({"prompt": "x"})), 0);
    assert_eq!(seen(&home, ONE).state, SessionState::Running);
}

// H-46: a program that is no client takes no session from a living client by a registry file of its own.
#[test]
fn a_planted_registry_file_takes_no_session() {
    let (home, _coordinator, harness) = began();
    harness.register();
    let stranger = Stranger::start();
    let pid = stranger.0.id();
    let start_time = stat(pid).unwrap().start_time.to_string();
    let entry = json!({"pid": pid, "procStart": start_time, "sessionId": ONE, "status": "idle"});
    let file = home.config_dir().join(format!("sessions/{pid}.json"));
    fs::write(file, entry.to_string()).unwrap();
    // Its own event says the same, and is taken after the file was read.
    post(&home, &with(event(ONE, "SessionStart", 1), stranger.fields()));
    // Who has no session to take is known by its entry, as a client with a program of its own is.
    let other = Stranger::start();
    let pid = other.0.id();
    let start_time = stat(pid).unwrap().start_time.to_string();
    let entry = json!({"pid": pid, "procStart": start_time, "sessionId": TWO, "status": "idle"});
    let file = home.config_dir().join(format!("sessions/{pid}.json"));
    fs::write(file, entry.to_string()).unwrap();
    session_when(&home, TWO, "it is listed", |session| session.owner.is_some());
    let after = seen(&home, ONE);
    assert_eq!(after.state, SessionState::Running, "{after:?}");
    assert_eq!(after.owner.unwrap().pid, harness.process.pid);
}

// H-44, H-11: strangers that die trip no breaker.
#[test]
fn dying_strangers_trip_no_breaker() {
    let (home, _coordinator, harness) = began();
    harness.register();
    for id in ["s1", "s2", "s3", "s4"] {
        let stranger = Stranger::start();
        for (n, name) in [(1, "SessionStart"), (2, "UserPromptSubmit")] {
            post(&home, &with(event(id, name, n), stranger.fields()));
        }
        drop(stranger);
    }
    let shown = coord(&home, &["inspect", "--json"]).expect_success().stdout;
    assert!(!shown.contains("clients crashed within"), "{shown}");
    for id in ["s1", "s2", "s3", "s4"] {
        assert_eq!(seen(&home, id).state, SessionState::Unknown);
    }
}

// H-44: events with many configuration directories use up none.
#[test]
fn many_directories_use_up_no_slots() {
    let (home, _coordinator, harness) = began();
    for n in 0..70 {
        let fields = with(
            fields_of(harness.process.pid),
            json!({
                "config_dir": format!("/tmp/planted/{n}"),
            }),
        );
        post(&home, &with(event(ONE, "PostToolUse", n + 1), fields));
    }
    let shown = coord(&home, &["inspect", "--json"]).expect_success().stdout;
    assert!(!shown.contains("/tmp/planted"), "{shown}");
}
