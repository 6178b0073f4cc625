//! Orders over the socket: who may give them, judged by real processes, and what is a good one (H-22).

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_config::Config;
use coord_daemon::http::{Request, Response};
use coord_daemon::routes::Route;
use coord_host::process::{Caller, stat};
use coord_model::{Command as Order, Event, Kind, MarkChange, Now, ProcessRef, SessionKey, Whom};
use coord_sim::machine::{MACHINE, PID_NS, Pace, SharedMachine};
use coord_sim::serving::{Post, Serving};
use coord_testkit::random::Random;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A person's terminal: the pane of a tmux server, which no agent is above of.
struct Pane {
    directory: tempfile::TempDir,
    pid: u32,
}

impl Pane {
    fn open() -> Self {
        let mut pane = Self { directory: tempfile::tempdir().unwrap(), pid: 0 };
        let output = pane
            .tmux(&["new-session", "-d", "-P", "-F", "#{pane_pid}", "exec cat"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        pane.pid = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        // tmux names the process before that has taken its terminal.
        while stat(pane.pid).unwrap().tty == 0 {
            std::thread::yield_now();
        }
        pane
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        let socket: PathBuf = self.directory.path().join("socket");
        command.args(["-f", "/dev/null", "-S"]).arg(socket).args(arguments).env_remove("TMUX");
        command
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _is_gone = self.tmux(&["kill-server"]).output();
    }
}

fn caller(pid: u32) -> Caller {
    Caller { pid, parent: stat(pid).map(|stat| stat.ppid) }
}

/// A real process, said to be a client on the simulated machine.
fn real(machine: &SharedMachine, pid: u32) -> ProcessRef {
    let start_time = stat(pid).unwrap().start_time;
    let mut on_machine = machine.get();
    on_machine.spawn(pid, Kind::Interactive, 7);
    on_machine.processes.get_mut(&pid).unwrap().start_time = start_time;
    ProcessRef { pid, start_time }
}

/// The body of an event of a client's hook.
fn event(machine: &SharedMachine, session: &str, n: u32, client: ProcessRef) -> Vec<u8> {
    let start_time = client.start_time.to_string();
    let harness = json!({"pid": client.pid, "start_time": start_time, "pid_ns": PID_NS, "tty": 7});
    let body = json!({
        "v": 1, "id": format!("018bcfe56800{n:020x}"), "event": "UserPromptSubmit",
        "session_id": session, "emitted_at": "2023-11-14T22:13:20.000Z", "mono_ns": n,
        "boot": machine.get().boot, "host": "host", "machine": MACHINE, "pid": 9,
        "harness": harness, "cwd": "/home/dev",
    });
    body.to_string().into_bytes()
}

fn serving() -> (SharedMachine, Serving) {
    let now = Now { mono_ns: 3_600_000_000_000, wall_ms: 1_700_000_000_000 };
    let machine = SharedMachine::new(now, Pace { disk: 1..2, look: 1..2 }, Random::new(1));
    let mut serving = Serving::start(&machine, &Config::default()).unwrap();
    for (n, id) in (1..).zip(["aaaa1111", "aaaa2222", "bbbb3333"]) {
        // No real process has these pids.
        let client = machine.get().spawn((1 << 22) + n, Kind::Interactive, 7);
        report(&machine, &mut serving, id, n, client);
    }
    (machine, serving)
}

fn report(machine: &SharedMachine, serving: &mut Serving, id: &str, n: u32, client: ProcessRef) {
    let body = event(machine, id, n, client);
    let post = Post { body, caller: Caller { pid: 9, parent: Some(client.pid) } };
    assert_eq!(serving.post(&post), 204);
}

fn post(serving: &mut Serving, path: &str, body: &str, caller: Caller) -> Route {
    let request = Request {
        method: "POST".to_owned(),
        path: path.to_owned(),
        query: Vec::new(),
        body: body.as_bytes().to_vec(),
        keep_alive: false,
    };
    serving.route(&request, caller)
}

/// Status and body; a success only once it is durable, unless nothing was to be recorded.
#[track_caller]
fn answer(route: Route, is_recorded: bool) -> (u16, Value) {
    let (Response { status, body, .. }, waits) = match route {
        Route::Answer(response) => (response, false),
        Route::AfterSync(_, response) => (response, true),
        other @ (Route::Handed(..)
        | Route::History(_)
        | Route::Wait(_)
        | Route::WaitForReply(_)
        | Route::Verified
        | Route::Down) => {
            panic!("{other:?}")
        }
    };
    assert_eq!(waits, is_recorded, "{}", String::from_utf8_lossy(&body));
    (status, serde_json::from_slice(&body).unwrap())
}

fn seq(serving: &mut Serving) -> u64 {
    let health: Value = serde_json::from_slice(&serving.ask("/healthz").unwrap().body).unwrap();
    health["seq"].as_u64().unwrap()
}

#[test]
fn a_request_is_taken_whole_or_not_at_all() {
    let (_machine, mut serving) = serving();
    let pane = Pane::open();
    let person = caller(pane.pid);
    let before = seq(&mut serving);
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("{}", 400),
        (r#"{"verb": "approve", "all": true}"#, 400),
        (r#"{"verb": "hold"}"#, 400),
        (r#"{"verb": "hold", "all": true, "sessions": ["aaaa1111"]}"#, 400),
        (r#"{"verb": "hold", "all": true, "dryrun": true}"#, 400),
        (r#"{"verb": "hold", "all": true, "for_ms": 0}"#, 400),
        (r#"{"verb": "hold", "all": true, "for_ms": -1}"#, 400),
        (r#"{"verb": "hold", "sessions": ["aaaa1111", "bbbb3333"]}"#, 400),
        (r#"{"verb": "release", "all": true, "for_ms": 1}"#, 400),
        (r#"{"verb": "recover", "all": true}"#, 400),
        (r#"{"verb": "restore", "all": true}"#, 400),
        (r#"{"verb": "restore", "directory": "/x"}"#, 400),
        (r#"{"verb": "recover", "sessions": ["aaaa1111"], "marks": {"recover": true}}"#, 400),
        (r#"{"verb": "attend", "sessions": ["aaaa1111"]}"#, 400),
        (r#"{"verb": "attend", "all": true, "marks": {"recover": true}}"#, 400),
        (r#"{"verb": "attend", "directory": "x", "marks": {"recover": true}}"#, 400),
        (r#"{"verb": "attend", "directory": "/x", "marks": {"name": "x"}}"#, 400),
        (r#"{"verb": "attend", "directory": "/x", "marks": {"task_dir": "/x"}}"#, 400),
        (r#"{"verb": "attend", "directory": "/x", "marks": {"answers": true}}"#, 400),
        (r#"{"verb": "attend", "sessions": ["aaaa1111"], "marks": {"name": ""}}"#, 400),
        (r#"{"verb": "attend", "sessions": ["aaaa1111"], "marks": {"name": "a\u001bb"}}"#, 400),
        (r#"{"verb": "attend", "sessions": ["aaaa1111"], "marks": {"task_dir": "x"}}"#, 400),
        (r#"{"verb": "attend", "sessions": ["aaaa1111"], "marks": {"parent": "zzzz"}}"#, 404),
        (r#"{"verb": "hold", "sessions": ["zzzz"]}"#, 404),
        (r#"{"verb": "hold", "sessions": ["aaaa"]}"#, 404),
        (r#"{"verb": "restore", "sessions": ["aaaa1111", "zzzz"]}"#, 404),
    ] {
        let (said, error) = answer(post(&mut serving, "/v1/operator", body, person), false);
        assert_eq!(said, status, "{body}: {error}");
    }
    let (status, error) =
        answer(post(&mut serving, "/v1/sessions/bbbb/recover", "[1]", person), false);
    assert_eq!(status, 400, "{error}");
    for (path, body) in [
        (
            "/v1/operator",
            r#"{"verb": "restore", "sessions": ["bbbb", "aaaa1111"], "dry_run": true}"#,
        ),
        ("/v1/sessions/bbbb/recover", r#"{"dry_run": true}"#),
    ] {
        let (status, said) = answer(post(&mut serving, path, body, person), false);
        assert_eq!((status, &said["results"][0]["outcome"]), (200, &json!("refused")), "{said}");
        assert_eq!(said["results"][0]["session_id"], "bbbb3333");
    }
    assert_eq!(seq(&mut serving), before, "nothing of all that is recorded");
    let (status, said) = answer(post(&mut serving, "/v1/sessions/bbbb/recover", "", person), true);
    assert_eq!((status, &said["results"][0]["outcome"]), (200, &json!("refused")));
    let hold = r#"{"verb": "hold", "all": true}"#;
    let (status, said) = answer(post(&mut serving, "/v1/operator", hold, person), true);
    assert_eq!((status, &said["results"][0]["outcome"]), (200, &json!("accepted")));
    let body = r#"{"verb": "restore", "sessions": ["bbbb", "aaaa1111", "bbbb3333"]}"#;
    let (_, said) = answer(post(&mut serving, "/v1/operator", body, person), true);
    assert_eq!(said["results"].as_array().unwrap().len(), 2, "each once: {said}");
    assert!(before < seq(&mut serving));
}

// S1-26: one session for each task directory, as long as it lives.
#[test]
fn a_task_directory_has_one_session() {
    let (_machine, mut serving) = serving();
    let pane = Pane::open();
    let person = caller(pane.pid);
    let mut attend = |id: &str, dir: &str, is_recorded| {
        let body = json!({"verb": "attend", "sessions": [id], "marks": {"task_dir": dir}});
        answer(post(&mut serving, "/v1/operator", &body.to_string(), person), is_recorded)
    };
    assert_eq!(attend("aaaa1111", "/task", true).0, 200);
    let (status, error) = attend("bbbb", "/task", false);
    assert_eq!((status, &error["error"]["code"]), (409, &json!("task_taken")));
    assert!(error["error"]["message"].as_str().unwrap().contains("aaaa1111"), "{error}");
    assert_eq!(attend("aaaa1111", "/task", true).0, 200, "it is its own");
    assert_eq!(attend("aaaa1111", "/other", true).0, 200);
    assert_eq!(attend("bbbb", "/task", true).0, 200, "it is free");
}

/// A process with neither terminal nor session of anybody.
struct Detached(Child);

impl Detached {
    fn start() -> Self {
        let mut command = Command::new("setsid");
        let child = command.arg("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        while std::fs::read(format!("/proc/{pid}/comm")).unwrap() != b"cat\n" {
            std::thread::yield_now();
        }
        Self(child)
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        let _is_gone = (self.0.kill(), self.0.wait());
    }
}

// H-22: real processes, a real terminal.
#[test]
fn orders_are_a_persons_at_a_terminal() {
    let (machine, mut serving) = serving();
    let (pane, other) = (Pane::open(), Pane::open());
    let person = caller(pane.pid);
    let hold = r#"{"verb": "hold", "all": true, "dry_run": true}"#;
    let said = |serving: &mut Serving, caller: Caller| {
        let (status, body) = answer(post(serving, "/v1/operator", hold, caller), false);
        match status {
            200 => "taken".to_owned(),
            403 => body["error"]["code"].as_str().unwrap().to_owned(),
            _ => panic!("{status} {body}"),
        }
    };
    assert_eq!(said(&mut serving, person), "taken");
    let detached = Detached::start();
    let code = said(&mut serving, caller(detached.0.id()));
    // The test itself may run below an agent.
    assert!(["no_terminal", "below_harness"].contains(&code.as_str()), "{code}");
    let gone = caller(detached.0.id());
    drop(detached);
    assert_eq!(said(&mut serving, gone), "unseen_caller");
    assert_eq!(said(&mut serving, Caller { parent: Some(1 << 22), ..person }), "unseen_caller");
    assert_eq!(said(&mut serving, Caller { pid: 0, parent: None }), "elsewhere");
    // A session is held on the other terminal, and then on this one.
    report(&machine, &mut serving, "cccc4444", 4, real(&machine, other.pid));
    assert_eq!(said(&mut serving, person), "taken");
    assert_eq!(said(&mut serving, caller(other.pid)), "below_harness");
    let server = stat(pane.pid).unwrap().ppid;
    report(&machine, &mut serving, "dddd5555", 5, real(&machine, server));
    assert_eq!(said(&mut serving, person), "below_harness");
}

// G10: what was recorded is the command that the core takes in, now and at every replay.
#[test]
fn the_recorded_command_is_the_one_that_was_meant() {
    let key = SessionKey(7);
    let marks =
        MarkChange { recover: Some(true), name: Some("x".to_owned()), ..Default::default() };
    for command in [
        Order::Hold { session: Some(key), for_ms: Some(600_000) },
        Order::Hold { session: None, for_ms: None },
        Order::Release { session: Some(key) },
        Order::Attend { whom: Whom::Session(key), marks: marks.clone() },
        Order::Attend { whom: Whom::Directory("/x".to_owned()), marks },
        Order::Recover { session: key, restart: false, when_idle: false },
        Order::Recover { session: key, restart: true, when_idle: true },
        Order::Restore { sessions: vec![key, SessionKey(3)] },
        Order::ResetFailed { session: None },
    ] {
        let event = Event::Operator { session_id: None, what: String::new(), command };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
    }
}
