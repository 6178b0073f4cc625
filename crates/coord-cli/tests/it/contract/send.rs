//! Messages to sessions, through the command line (S4-24 to S4-26, H-04, H-21): whom they are for, what they wait
//! for and how that is said, with a coordinator and without.

use super::harness::{Harness, Tmux, by_person};
use super::wire::{event, here, post, with};
use coord_model::SessionState;
use coord_tests::coord::{Coordinator, coord, install, programs, session_when};
use coord_tests::home::Home;
use coord_tests::process::{Finished, copy_program};
use coord_tests::wait::wait_until;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

const ONE: &str = "aaaa1111-session";
const TWO: &str = "aaaa2222-session";

/// A process that is said to be a session's client; it ends with the test.
struct Client {
    child: Child,
}

impl Client {
    /// It begins a session and is seen at its prompt.
    fn start(home: &Home, session: &str) -> Self {
        // By the client's name, which makes it a client (H-46).
        let program = home.dir().join(format!("{session}-bin")).join("claude");
        std::fs::create_dir(program.parent().unwrap()).unwrap();
        copy_program("/bin/cat".as_ref(), &program);
        let child =
            Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let client = Self { child };
        client.reports(home, session, "SessionStart", 1, json!({"source": "startup"}));
        client
    }

    fn reports(&self, home: &Home, session: &str, name: &str, n: u32, fields: Value) {
        let pid = self.child.id();
        let start_time = coord_host::process::stat(pid).unwrap().start_time.to_string();
        let harness = json!({
            "pid": pid, "start_time": start_time, "pid_ns": here().pid_ns, "tty": 0,
            "kind": "interactive",
        });
        let common = json!({"harness": harness, "permission_mode": "default"});
        post(home, &with(with(event(session, name, n), common), fields));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn send(home: &Home, arguments: &[&str]) -> Finished {
    coord(home, &[&["send"], arguments].concat())
}

#[track_caller]
fn json_of(home: &Home, arguments: &[&str]) -> Value {
    let done = coord(home, &[arguments, &["--json"]].concat()).expect_success();
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[track_caller]
fn sent(home: &Home, arguments: &[&str]) -> String {
    word(&json_of(home, &[&["send"], arguments].concat())["id"])
}

#[track_caller]
fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no word: {value}")).to_owned()
}

/// A session at its prompt, and one whose user left it.
fn two_sessions() -> (Home, Coordinator, [Client; 2]) {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let clients = [Client::start(&home, ONE), Client::start(&home, TWO)];
    clients[0].reports(&home, ONE, "SessionEnd", 2, json!({"reason": "prompt_input_exit"}));
    (home, coordinator, clients)
}

/// What is said of a message to a session that its user left.
const ENDED: &str = "the session has ended; delivered when it is resumed";

// S4-24: each bad input is one line that names the thing, and nothing is sent.
#[test]
fn what_cannot_be_sent_to_a_session_is_refused() {
    let (home, _coordinator, _clients) = two_sessions();
    let long = "x".repeat(64 * 1024 + 1);
    for (arguments, code, words) in [
        (&["nobody", "x"][..], 3, "nobody"),
        (&["aaaa", "x"], 3, "aaaa"),
        (&["aaaa1111-session-x", "x"], 3, "aaaa1111-session-x"),
        (&[ONE, ""], 1, "The text is empty"),
        (&[ONE, &long], 1, "65,537 bytes"),
        (&[ONE, "x", "--ttl", "0s"], 1, "time to live"),
        (&[ONE, "x", "--key", ""], 1, "key must be one line"),
        (&["", "x"], 2, "<ID>"),
        (&[ONE], 2, "TEXT"),
    ] {
        let refused = send(&home, arguments);
        assert_eq!(refused.code(), Some(code), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(words) && refused.stdout.is_empty(), "{refused:?}");
        if code != 2 {
            assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        }
    }
    let unclear = send(&home, &["aaaa", "x"]).stderr;
    assert!(unclear.contains(ONE) && unclear.contains(TWO), "{unclear}");
    assert_eq!(json_of(&home, &["queue"])["messages"], json!([]));
}

// S4-25, G12, S0-33: a message to a session that is over waits, and says for what, wherever it is looked at.
#[test]
fn a_message_says_what_it_waits_for() {
    let (home, coordinator, _clients) = two_sessions();
    let told = send(&home, &["aaaa1", "wake up"]).expect_success();
    let (id, rest) = told.stdout.trim_end().split_once(' ').unwrap();
    assert_eq!(rest, format!("pending: {ENDED}"));
    let answer = json_of(&home, &["send", ONE, "and again"]);
    assert_eq!(answer["state"], "pending");
    assert_eq!((&answer["because"], &answer["folded"]), (&json!(ENDED), &json!(false)));
    let mut fields: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["because", "folded", "id", "state"], "{answer}");
    let elsewhere = sent(&home, &[TWO, "for another"]);

    let listed = coord(&home, &["queue"]).expect_success().stdout;
    let line = listed.lines().find(|line| line.contains(id)).unwrap();
    assert!(line.starts_with("pending") && line.contains("aaaa1111"), "{line}");
    assert!(line.contains("the session has ended"), "cut to the width: {line}");
    let shown = coord(&home, &["queue", "show", id]).expect_success().stdout;
    assert!(shown.contains(&format!("pending: {ENDED}")), "{shown}");
    assert!(shown.contains(&format!("session {ONE}")) && shown.contains("wake up"), "{shown}");
    let explained = || coord(&home, &["explain", id]).expect_success().stdout;
    assert!(explained().starts_with(&format!("{id}  pending: {ENDED}\n")), "G9: {}", explained());
    let inspected = || {
        let answer = json_of(&home, &["inspect", ONE]);
        assert_eq!(answer["sessions"].as_array().unwrap().len(), 1, "{answer}");
        answer["sessions"][0]["messages"].clone()
    };
    let counts = json!({"pending": 2, "processing": 0, "failed": 0});
    assert_eq!(inspected(), counts, "S4-18");
    let of_one = json_of(&home, &["queue", "--session", "aaaa1"]);
    let ids: Vec<String> =
        of_one["messages"].as_array().unwrap().iter().map(|one| word(&one["id"])).collect();
    assert_eq!(ids, [word(&answer["id"]), id.to_owned()], "newest first");

    // Without a coordinator all of it is the same: by the journal, and by the snapshot.
    coordinator.kill();
    assert_eq!(inspected(), counts, "from the journal");
    let coordinator = Coordinator::start_again(&home);
    coord(&home, &["down"]).expect_success();
    drop(coordinator);
    assert_eq!(inspected(), counts, "from the snapshot, of which only that session is read");
    assert!(explained().starts_with(&format!("{id}  pending: {ENDED}\n")), "{}", explained());
    let offline = json_of(&home, &["queue", "--session", ONE]);
    assert_eq!(offline["messages"], of_one["messages"], "from the snapshot");
    let listed = coord(&home, &["queue", "--session", "aaaa2"]).expect_success().stdout;
    assert!(listed.contains(&elsewhere) && !listed.contains(id), "{listed}");
    assert!(listed.contains("the last recorded state"), "{listed}");
    let unknown = coord(&home, &["queue", "--session", "nobody"]);
    assert_eq!(unknown.code(), Some(3), "{unknown:?}");
}

// S4-25: a sender may wait for the fate; what nobody reads in time fails, with the reason.
#[test]
fn a_sender_learns_the_fate() {
    let (home, _coordinator, _clients) = two_sessions();
    let late = send(&home, &[ONE, "one", "--wait", "0s"]);
    assert_eq!(late.code(), Some(5), "{late:?}");
    assert!(late.stderr.contains("still pending: the session has ended"), "{late:?}");
    let expired = send(&home, &[ONE, "two", "--ttl", "1s", "--wait", "60s"]);
    assert_eq!(expired.code(), Some(1), "{expired:?}");
    assert!(expired.stdout.ends_with(" failed\n"), "{expired:?}");
    assert!(expired.stderr.contains("its time (--ttl) ran out"), "{expired:?}");
    let id = expired.stdout.split(' ').next().unwrap();
    let shown = json_of(&home, &["queue", "show", id]);
    assert_eq!((&shown["state"], &shown["session_id"]), (&json!("failed"), &json!(ONE)));
    assert_eq!(shown["because"], "its time (--ttl) ran out");
    let counts = &json_of(&home, &["inspect", ONE])["sessions"][0]["messages"];
    assert_eq!(*counts, json!({"pending": 1, "processing": 0, "failed": 1}));
}

// S4-27: a run tells its parent how it ended, and ends as its command did whether it can or not.
#[test]
fn a_run_tells_its_parent_how_it_ended() {
    let (home, coordinator, _clients) = two_sessions();
    let run = |script: &str| {
        let options = ["run", "--name", "nightly", "--parent", ONE, "--"];
        coord(&home, &[&options[..], &["/bin/sh", "-c", script]].concat())
    };
    let ended = run("echo output; exit 3");
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(3), "output\n"), "{ended:?}");
    assert_eq!(ended.stderr, "");
    let messages = json_of(&home, &["queue"])["messages"].clone();
    let [message] = <[Value; 1]>::try_from(messages.as_array().unwrap().clone()).unwrap();
    assert_eq!(message["session_id"], ONE);
    let shown = json_of(&home, &["queue", "show", &word(&message["id"])]);
    let text = word(&shown["text"]);
    assert!(text.starts_with("The run run_"), "{text}");
    assert!(text.contains(" (nightly) has ended: crash, no result, exit code 3, "), "{text}");
    coordinator.kill();
    let ended = run("exit 4");
    assert_eq!(ended.code(), Some(4), "{ended:?}");
    assert!(
        ended.stderr.contains("aaaa1111-session got no message about the end of the run"),
        "{ended:?}"
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
}

// S4-26: the same text waits once, a key is one message, and another text needs another key.
#[test]
fn the_same_is_sent_once() {
    let (home, _coordinator, _clients) = two_sessions();
    let first = sent(&home, &[ONE, "the same"]);
    let again = json_of(&home, &["send", "aaaa1", "the same"]);
    assert_eq!((&again["id"], &again["folded"]), (&json!(first), &json!(true)));
    assert!(again["because"] == ENDED, "{again}");
    assert_ne!(sent(&home, &[TWO, "the same"]), first, "to another session it is another one");
    let keyed = sent(&home, &[ONE, "with a key", "--key", "k"]);
    assert_eq!(sent(&home, &[ONE, "with a key", "--key", "k"]), keyed);
    let other = send(&home, &[ONE, "another text", "--key", "k"]);
    assert_eq!(other.code(), Some(1), "{other:?}");
    assert!(other.stderr.contains("another key") && other.stderr.contains(&keyed), "{other:?}");
    assert_eq!(other.stderr.lines().count(), 1, "{other:?}");
    assert_eq!(json_of(&home, &["queue", "show", &first])["folded"], 1);
}

// H-04, S4-24: a session may be meant by its name; who sends from a terminal is its operator.
#[test]
fn a_session_is_found_by_its_name() {
    let (home, _coordinator, _clients) = two_sessions();
    let tmux = Tmux::start(&home);
    for (session, code) in [(TWO, 0), (ONE, 0)] {
        let (is, said) =
            by_person(&home, &tmux, "coordctl", &format!("attend {session} --name tests"));
        assert_eq!(is, code, "{said}");
    }
    let id = sent(&home, &["tests", "by name"]);
    let shown = json_of(&home, &["queue", "show", &id]);
    assert_eq!(shown["session_id"], TWO, "the one that lives has the name");
    let (code, said) = by_person(&home, &tmux, "coord", "send tests hello");
    assert_eq!(code, 0, "{said}");
    let id = said.split(' ').next().unwrap();
    assert_eq!(json_of(&home, &["queue", "show", id])["from"], "operator");
    // Two of a name are none.
    let again = Client::start(&home, "bbbb3333-session");
    let (code, said) = by_person(&home, &tmux, "coordctl", "attend bbbb3333-session --name tests");
    assert_eq!(code, 0, "{said}");
    let unclear = send(&home, &["tests", "x"]);
    assert_ne!(unclear.code(), Some(0), "{unclear:?}");
    assert!(unclear.stderr.contains(TWO) && unclear.stderr.contains("bbbb3333"), "{unclear:?}");
    drop(again);
}

/// A home in which coord knows the client's registry.
fn known() -> Home {
    let home = Home::new();
    let dir = home.config_dir();
    home.write_config(&format!("[tracking]\nconfig_dirs = ['{}']\n", dir.display()));
    install(&home);
    home
}

// U-08: an idle session without name or marks is woken by a message, and `send` says how it arrives.
#[test]
fn an_idle_session_is_woken() {
    let home = known();
    let _coordinator = Coordinator::start(&home);
    let tmux = Tmux::start(&home);
    let mut harness = Harness::in_tmux(&tmux, ONE);
    let registered = json!({
        "pid": harness.process.pid, "procStart": harness.process.start_time.to_string(),
        "sessionId": ONE, "status": "idle",
    });
    harness.register_as(&registered.to_string());
    let starts = json!({"source": "startup", "permission_mode": "default"});
    harness.report_verified(&home, "SessionStart", &starts);
    session_when(&home, ONE, "idle", |session| session.state == SessionState::Idle);
    // Without a wake hook nothing is promised.
    let told = send(&home, &[ONE, "one"]).expect_success().stdout;
    let wanted = "pending: the session is idle and has no wake hook; delivered with its next prompt or when its next turn ends\n";
    assert!(told.ends_with(wanted), "{told}");
    let id = told.split(' ').next().unwrap();
    coord(&home, &["queue", "drop", id]).expect_success();
    let waiters = || {
        let deadline = coord_wire::exchange::mono_ns() + 2_000_000_000;
        let ask = coord_wire::exchange::request("GET", "/metrics", b"");
        let answer =
            coord_wire::exchange::exchange(&home.paths().socket(), &ask, 1 << 20, deadline);
        String::from_utf8(answer.unwrap().body).unwrap()
    };
    let woken = home.tmp().join("woken");
    harness.wait_for_messages(&woken);
    wait_until("the wake hook waits", || {
        let metrics = waiters();
        if metrics.lines().any(|line| line.ends_with("waiters 1")) { Ok(()) } else { Err(metrics) }
    });
    let told = send(&home, &[ONE, "two"]).expect_success().stdout;
    assert!(
        told.ends_with("the session is idle; its wake hook delivers the message now\n"),
        "{told}"
    );
    wait_until("the message is handed over", || {
        let text = std::fs::read_to_string(&woken).unwrap_or_default();
        if text.contains("two") { Ok(()) } else { Err(text) }
    });
    // One that works: an urgent message comes earlier.
    harness.register();
    assert_eq!(harness.report("UserPromptSubmit", &json!({"prompt": "x"})), 0);
    session_when(&home, ONE, "running", |session| session.state == SessionState::Running);
    let told = send(&home, &[ONE, "three"]).expect_success().stdout;
    assert!(told.ends_with("; delivered when the turn ends\n"), "{told}");
    let told = send(&home, &[ONE, "four", "--urgent"]).expect_success().stdout;
    assert!(told.contains("delivered with its next tool result"), "{told}");
}

/// The agent of this harness sends an urgent message; its id.
#[track_caller]
fn agent_sends(home: &Home, harness: &mut Harness, to: &str, text: &str) -> String {
    let (root, file) = (home.root(), home.tmp().join(format!("sent-{text}")));
    let (coord, root) = (programs().join("coord"), root.display());
    let command = format!(
        "COORD_HOME='{root}' '{}' send {to} {text} --urgent --json >'{}'",
        coord.display(),
        file.display()
    );
    assert_eq!(harness.run(&command), 0);
    let text = std::fs::read_to_string(&file).unwrap();
    word(&serde_json::from_str::<Value>(&text).unwrap()["id"])
}

/// A tool of this harness ends, and brings it this message. A disk that is slow at that moment keeps it back.
#[track_caller]
fn agent_reads(home: &Home, harness: &mut Harness, id: &str) {
    wait_until("a tool's result brings the message", || {
        let tool = json!({"tool_name": "Bash", "permission_mode": "default"});
        assert_eq!(harness.report("PostToolUse", &tool), 0);
        let shown = json_of(home, &["queue", "show", id]);
        if shown["state"] == "processing" { Ok(()) } else { Err(shown) }
    });
}

// H-21: agents that answer each other are stopped by depth, and only a person lets the next one pass.
#[test]
fn a_chain_of_agents_waits_for_a_person() {
    let home = Home::new();
    install(&home);
    let _coordinator = Coordinator::start(&home);
    let mut one = Harness::headless(&home, ONE);
    let mut two = Harness::headless(&home, TWO);
    one.begin_turn();
    two.begin_turn();
    for n in 0..4 {
        let (from, to, name) =
            if n % 2 == 0 { (&mut one, &mut two, TWO) } else { (&mut two, &mut one, ONE) };
        let id = agent_sends(&home, from, name, &format!("text-{n}"));
        agent_reads(&home, to, &id);
    }
    let id = agent_sends(&home, &mut one, TWO, "text-4");
    let shown = json_of(&home, &["queue", "show", &id]);
    assert_eq!(
        (&shown["state"], &shown["from"]),
        (&json!("pending"), &json!(format!("session {ONE}")))
    );
    let why = word(&shown["because"]);
    assert!(
        why.starts_with("4 messages led to this one") && why.contains("has to release it"),
        "{why}"
    );
    assert!(why.contains(&format!("coord queue retry {id}")), "{why}");
    // No program and no agent lets it pass.
    let refused = coord(&home, &["queue", "retry", &id]);
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("only a person may let this message pass"), "{refused:?}");
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    let coord_program = programs().join("coord");
    let root = home.root();
    let by_agent = format!(
        "COORD_HOME='{}' '{}' queue retry {id} 2>/dev/null",
        root.display(),
        coord_program.display()
    );
    assert_eq!(two.run(&by_agent), 1);
    let held = word(&json_of(&home, &["queue", "show", &id])["because"]);
    assert_eq!(held, why);
    let tmux = Tmux::start(&home);
    let (code, said) = by_person(&home, &tmux, "coord", &format!("queue retry {id}"));
    assert_eq!(code, 0, "{said}");
    let released = word(&json_of(&home, &["queue", "show", &id])["because"]);
    assert!(!released.contains("led to this one"), "{released}");
    agent_reads(&home, &mut two, &id);
}
