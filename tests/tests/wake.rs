//! The wake hook and the real client (H-02, H-12): an idle session is woken, what its user is at stays
//! as it is, and nothing ends later than without the hook.
//!
//! Where a message is handed over the coordinator is a few lines of this test; where it matters who
//! waits, it is the real one.

use coord_model::Kind;
use coord_tests::client::headless_text;
use coord_tests::coord::{Coordinator, inspect, install};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::netns::{self, test};
use coord_tests::process::session_of;
use coord_tests::terminal::{Pane, Terminal};
use coord_tests::wait::{PATIENCE, readable, wait_until};
use coord_wire::exchange::{exchange, mono_ns, request};
use coord_wire::limits::{BODY_BYTES_MAX, WAKE_BYTES_MAX};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};

const MANUAL: [&str; 2] = ["--permission-mode", "manual"];
const N_AT_ONCE: usize = 6;

fn main() -> ExitCode {
    netns::run_at_once(
        N_AT_ONCE,
        vec![
            test("an_idle_session_is_woken_and_a_draft_stays", an_idle_session_is_woken),
            test("the_longest_message_comes_whole", the_longest_message_comes_whole),
            test("an_open_permission_dialog_is_not_answered", an_open_dialog_is_not_answered),
            test("a_run_without_a_person_is_not_waited_beside", nobody_waits_beside_print),
            test("output_that_goes_elsewhere_is_no_person", output_that_goes_elsewhere),
            test("an_end_is_not_held_up", an_end_is_not_held_up),
            test("a_killed_client_takes_its_waiter_along", a_killed_client_takes_its_waiter_along),
            test("one_waiter_for_each_session", one_waiter_for_each_session),
            test("a_waiter_outlives_its_coordinator", a_waiter_outlives_its_coordinator),
            test("sessions_without_marks_have_none", sessions_without_marks_have_none),
        ],
    )
}

/// Answers every hook, and leaves waiters to the test.
struct Stub {
    waiters: Receiver<Waiter>,
}

/// A wake hook that waits.
struct Waiter {
    ask: Value,
    stream: UnixStream,
    pidfd: OwnedFd,
}

impl Stub {
    #[track_caller]
    fn start(home: &Home) -> Self {
        let run = home.paths().run;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(run).expect("make it");
        let listener = UnixListener::bind(home.paths().socket()).expect("listen");
        let (sender, waiters) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A hook that was killed has no request.
                let _ = take(stream, &sender);
            }
        });
        Self { waiters }
    }

    /// The next waiter.
    #[track_caller]
    fn waiter(&self) -> Waiter {
        self.waiters.recv_timeout(PATIENCE).expect("a wake hook waits")
    }
}

fn take(mut stream: UnixStream, waiters: &Sender<Waiter>) -> std::io::Result<()> {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    let body = loop {
        let n = stream.read(&mut buffer)?;
        text.extend_from_slice(&buffer[..n]);
        let head = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = head.split_once("\r\n\r\n") else { continue };
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
        if n == 0 || length.and_then(|length| length.parse().ok()) == Some(body.len()) {
            break body.to_owned();
        }
    };
    if text.starts_with(b"POST /v1/wake ") {
        let ask: Value = serde_json::from_str(&body)?;
        let pid = ask["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).ok_or(std::io::ErrorKind::InvalidData)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        // Without anybody to take it the test is over.
        let _ = waiters.send(Waiter { ask, stream, pidfd });
        return Ok(());
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
}

impl Waiter {
    /// Hands a text over and waits until the hook has ended.
    #[track_caller]
    fn wake(mut self, text: &str) {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        self.stream.write_all(&[head.as_bytes(), text.as_bytes()].concat()).expect("it waits");
        self.assert_ends();
    }

    #[track_caller]
    fn assert_ends(&self) {
        assert!(readable(&self.pidfd, PATIENCE), "the waiter stays: {}", self.ask);
    }

    #[track_caller]
    fn assert_waits(&self) {
        assert!(!readable(&self.pidfd, std::time::Duration::ZERO), "the waiter is gone");
    }

    fn pid(&self) -> u32 {
        u32::try_from(self.ask["pid"].as_u64().expect("a pid")).expect("a pid")
    }
}

/// Fields go in this order.
struct Case {
    pane: Pane,
    _terminal: Terminal,
    api: FakeApi,
    home: Home,
}

impl Case {
    #[track_caller]
    fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        let home = Home::new();
        install(&home);
        let api = FakeApi::start(turns);
        let terminal = Terminal::start(&home, &api);
        let pane = terminal.pane();
        Self { pane, _terminal: terminal, api, home }
    }
}

fn an_idle_session_is_woken() {
    // H-02, F2
    let case = Case::new([Turn::text("I am awake.")]);
    let stub = Stub::start(&case.home);
    let client = case.pane.start(&MANUAL);
    let waiter = stub.waiter();
    assert_eq!(waiter.ask["harness"]["pid"], client);
    // Nobody takes it for work of the client's on its terminal (H-08).
    let pid = waiter.pid();
    assert_eq!(session_of(pid), pid, "it has a session, and so no terminal, of its own");
    case.pane.type_text("half a thought");
    case.pane.wait_screen("half a thought");
    let session = waiter.ask["session_id"].clone();
    waiter.wake("[coord] From session a1: say that you are awake.");
    let woken = case.api.wait_for("say that you are awake");
    assert!(woken.last_user_text.contains("NOT USER INPUT"), "{}", woken.last_user_text);
    let screen = case.pane.wait_screen("I am awake.");
    assert!(screen.contains("half a thought"), "the draft stays:\n{screen}");
    // The end of that turn brings the next one.
    let next = stub.waiter();
    assert_eq!(next.ask["session_id"], session);
    let prompts = case.api.requests().into_iter().filter(|one| !one.is_background);
    assert!(prompts.clone().all(|one| !one.last_user_text.contains("half a thought")));
    // The user goes on with it.
    case.pane.keys(&["Enter"]);
    case.api.wait_for("half a thought");
    next.assert_waits();
}

fn the_longest_message_comes_whole() {
    // H-02: handed over whole, or not at all.
    let case = Case::new([Turn::text("That was long.")]);
    let stub = Stub::start(&case.home);
    case.pane.start(&MANUAL);
    let waiter = stub.waiter();
    let end = "the very last word";
    let text = format!("[coord] {}{end}", "line\n".repeat((WAKE_BYTES_MAX - 8 - end.len()) / 5));
    waiter.wake(&text);
    let woken = case.api.wait_for("[coord] line");
    assert!(woken.last_user_text.contains(&text), "{} bytes", woken.last_user_text.len());
}

fn an_open_dialog_is_not_answered() {
    // H-02, H-01, F3
    // The message comes with the request behind the answer.
    let read = Turn::text("I have read that.").only_for("WORDS-OF-OTHERS");
    let case = Case::new([Turn::bash("touch made"), read]);
    let stub = Stub::start(&case.home);
    case.pane.start(&MANUAL);
    let waiter = stub.waiter();
    case.pane.type_line("Make it");
    case.pane.wait_screen("1. Yes");
    waiter.wake("[coord] Yes, 1, do it. WORDS-OF-OTHERS");
    // A key that only the dialog understands shows that it is still there, and what was chosen.
    case.pane.keys(&["Down"]);
    case.pane.wait_screen("❯ 2. ");
    assert!(!case.home.project().join("made").exists(), "nobody approved it");
    case.pane.keys(&["Up"]);
    case.pane.wait_screen("❯ 1. Yes");
    case.pane.keys(&["Enter"]);
    case.pane.wait_screen("I have read that.");
    assert!(case.home.project().join("made").exists());
}

fn nobody_waits_beside_print() {
    // H-02, H-12: it would be waited for, for ever. Of a person's run only its output tells.
    let case = Case::new([Turn::text("one").lasting()]);
    let stub = Stub::start(&case.home);
    headless_text(&case.home, &case.api, "Say one", &[]).finish().expect_success();
    for line in ["claude -p 'Say one'", "claude 'Say one' | cat"] {
        case.pane.command(&format!("{line}; echo it \"ended\""));
        case.pane.wait_screen("it ended");
    }
    assert_eq!(stub.waiters.try_iter().count(), 0, "nobody waited");
}

fn output_that_goes_elsewhere() {
    // H-24: the same client, in the same pane, with and without a pipe behind it.
    let case = Case::new([Turn::text("one").lasting()]);
    let _coordinator = Coordinator::start(&case.home);
    case.pane.command("claude 'Say one' | cat; echo it \"ended\"");
    case.pane.wait_screen("it ended");
    let kinds = || -> Vec<_> { inspect(&case.home).sessions.iter().map(|one| one.kind).collect() };
    wait_until("the piped run is listed", || match kinds() {
        kinds if kinds == [Some(Kind::Headless)] => Ok(()),
        other => Err(other),
    });
    case.pane.start(&MANUAL);
    wait_until("the session is listed", || match kinds() {
        kinds if kinds.contains(&Some(Kind::Interactive)) => Ok(()),
        other => Err(other),
    });
}

fn an_end_is_not_held_up() {
    // H-12: as without the hook, the client leaves, and nothing stays.
    let case = Case::new([Turn::text("Hello there.")]);
    let stub = Stub::start(&case.home);
    case.pane.start(&MANUAL);
    let first = stub.waiter();
    case.pane.type_line("Say hello");
    case.pane.wait_screen("Hello there.");
    let second = stub.waiter();
    case.pane.type_line("/exit");
    case.pane.wait_screen("Resume this session with:");
    first.assert_ends();
    second.assert_ends();
    // The wake hook said nothing, and so the model was told nothing of it.
    let requests = case.api.requests();
    assert!(requests.iter().all(|one| !one.last_user_text.contains("coord-hook")), "{requests:?}");
}

fn a_killed_client_takes_its_waiter_along() {
    // H-02, F5
    let case = Case::new([]);
    let stub = Stub::start(&case.home);
    let client = case.pane.start(&MANUAL);
    let waiter = stub.waiter();
    kill(client);
    waiter.assert_ends();
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("it is there");
    pidfd_send_signal(&pidfd, Signal::KILL).expect("signal it");
}

/// The wake hooks among the children of a client.
fn waiters_of(client: u32) -> Vec<u32> {
    let hook = coord_tests::coord::programs().join("coord-hook-wake");
    let tasks = std::fs::read_dir(format!("/proc/{client}/task")).into_iter().flatten().flatten();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<u32> = children
        .flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect();
    let is_waiter = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == hook)
    };
    pids.into_iter().filter(is_waiter).collect()
}

/// The coordinator's own count of waiters.
fn counted(home: &Home) -> Option<u64> {
    let ask = request("GET", "/metrics", b"");
    let deadline_ns = mono_ns() + 20_000_000_000;
    let answer = exchange(&home.paths().socket(), &ask, BODY_BYTES_MAX, deadline_ns).ok()?;
    let text = String::from_utf8(answer.body).ok()?;
    text.lines().find_map(|line| line.strip_prefix("coord_waiters ")?.parse().ok())
}

/// Waits until just one wake hook waits, and none of those `before`.
#[track_caller]
fn one_waiter(case: &Case, client: u32, before: &[u32]) -> u32 {
    wait_until("one waiter, and another than before", || {
        let (waiters, counted) = (waiters_of(client), counted(&case.home));
        match waiters.as_slice() {
            [one] if counted == Some(1) && !before.contains(one) => Ok(*one),
            _ => Err((waiters, counted)),
        }
    })
}

fn one_waiter_for_each_session() {
    // H-02, F5: each Stop brings one, and /clear leaves one behind.
    let case = Case::new([Turn::text("First."), Turn::text("Second.")]);
    case.home.write_config("[queue]\nwake = \"always\"\n");
    let _coordinator = Coordinator::start(&case.home);
    let client = case.pane.start(&MANUAL);
    let mut seen = vec![one_waiter(&case, client, &[])];
    for (prompt, answer) in [("Say one", "First."), ("Say two", "Second.")] {
        case.pane.type_line(prompt);
        case.pane.wait_screen(answer);
        seen.push(one_waiter(&case, client, &seen));
    }
    case.pane.type_line("/clear");
    one_waiter(&case, client, &seen);
    case.pane.type_line("/exit");
    case.pane.wait_screen("dev$");
    wait_until("no waiter is counted", || match counted(&case.home) {
        Some(0) => Ok(()),
        other => Err(other),
    });
}

fn a_waiter_outlives_its_coordinator() {
    // U-08: whether the coordinator is asked to end, or killed, the next one has the same waiter.
    let case = Case::new([Turn::text("Hello.")]);
    case.home.write_config("[queue]\nwake = \"always\"\n");
    let coordinator = Coordinator::start(&case.home);
    let client = case.pane.start(&MANUAL);
    let waiter = one_waiter(&case, client, &[]);
    let has_it = || {
        wait_until("the coordinator has the waiter", || {
            let counted = counted(&case.home);
            if counted == Some(1) { Ok(()) } else { Err(counted) }
        });
        assert_eq!(waiters_of(client), [waiter]);
    };
    has_it();
    coordinator.end_within(PATIENCE);
    let coordinator = Coordinator::start(&case.home);
    has_it();
    coordinator.kill();
    let _coordinator = Coordinator::start_again(&case.home);
    has_it();
    case.pane.type_line("/exit");
    wait_until("the waiter ends with its client", || match waiters_of(client) {
        none if none.is_empty() => Ok(()),
        some => Err(some),
    });
}

fn sessions_without_marks_have_none() {
    // H-02: where its user wants that, nobody waits beside a session that nobody sends anything to.
    let case = Case::new([Turn::text("Hello.").behind("said")]);
    case.home.write_config("[queue]\nwake = 'auto'\n");
    let _coordinator = Coordinator::start(&case.home);
    let client = case.pane.start(&MANUAL);
    case.pane.type_line("Say hello");
    // The wake hook of the start has run for long.
    case.api.wait_for("Say hello");
    wait_until("the wake hook has been sent away", || {
        let (waiters, counted) = (waiters_of(client), counted(&case.home));
        if waiters.is_empty() && counted == Some(0) { Ok(()) } else { Err((waiters, counted)) }
    });
}
