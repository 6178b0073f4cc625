//! Tests the loop with real sockets: the test is the wake hook, and the process that started it is the
//! harness.

use super::*;
use crate::coordinator::Parts;
use crate::engine::Engine;
use crate::serve::adapters;
use coord_config::Config;
use coord_host::clients::Clients;
use coord_host::here::Here;
use coord_host::notices::Programs;
use coord_host::registry::Readable;
use coord_host::worker::Supervisor;
use coord_host::{process, state_dir};
use coord_model::stamp::rfc3339;
use coord_model::{MarkChange, SessionKey};
use coord_store::{Disk, RealDisk};
use coord_wire::api::{OperatorRequest, OperatorVerb};
use coord_wire::limits::WAKE_BYTES_MAX;
use coord_wire::paths::Paths;
use serde_json::json;
use std::io::{ErrorKind, Read, Write};

/// Longest wait of a test, in nanoseconds; nothing takes this long on any machine.
const PATIENCE_NS: u64 = 60_000_000_000;

/// A coordinator whose loop turns only when the test turns it.
struct World {
    server: Server<RealDisk>,
    events: Events,
    n_events: u32,
    dir: tempfile::TempDir,
}

/// An answer as status and body, or none if the connection was closed.
type Answered = Option<(u16, String)>;

impl World {
    fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(dir.path()), "m", 0, |_| None).unwrap();
        state_dir::prepare(&paths).unwrap();
        RealDisk.create_dir(&paths.run).unwrap();
        let (engine, _) = Engine::open(&RealDisk, &paths.state, &paths.journal()).unwrap();
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).unwrap());
        // The harness is a process that this test did not start: the coordinator must not act on it.
        let config = format!("[recovery]\nmode = \"observe\"\n{config}");
        std::fs::create_dir_all(&paths.config).unwrap();
        std::fs::write(paths.config_file(), &config).unwrap();
        let config = Config::parse(&config).unwrap();
        let (sources, tools) = adapters(Some(&dir.path().to_owned()), &config, &paths);
        let supervisor = Supervisor::new(Arc::clone(&waker));
        let config_watch = ConfigWatch::start(paths.config_file(), &supervisor).unwrap();
        let registry = poll.registry().try_clone().unwrap();
        let clients =
            Clients::new([std::fs::read_link(format!("/proc/{}/exe", harness().pid)).unwrap()]);
        let programs = Programs {
            sender: None,
            tmux: Vec::new(),
            notify_send: None,
            readable: Readable { root: None, named: Vec::new() },
        };
        let adapters = (sources, tools);
        let world =
            RealWorld::start(registry, clients, adapters, programs, &paths, None, supervisor);
        let parts = Parts {
            world: world.unwrap(),
            disk: RealDisk,
            paths: paths.clone(),
            here: Here::read(now().wall_ms),
            config,
            engine,
        };
        let coordinator = Coordinator::start(parts, now()).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(paths.socket()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let inputs = Inputs {
            listener,
            signals: StdStream::pair().unwrap().0,
            spool_watch: inotify::init(inotify::CreateFlags::NONBLOCK).unwrap(),
            waker,
            notifier: Notifier::new(None).unwrap(),
            config_watch,
        };
        let server = Server::new(poll, coordinator, inputs).unwrap();
        Self { server, events: Events::with_capacity(64), n_events: 0, dir }
    }

    fn turn(&mut self) {
        self.server.turn(&mut self.events).unwrap();
    }

    #[track_caller]
    fn turn_until(&mut self, what: &str, is_so: impl Fn(&Server<RealDisk>) -> bool) {
        let deadline = now().mono_ns + PATIENCE_NS;
        while !is_so(&self.server) {
            assert!(now().mono_ns < deadline, "never: {what}");
            self.turn();
        }
    }

    fn connect(&self) -> StdStream {
        let stream = StdStream::connect(self.server.coordinator.paths.socket()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }

    fn send(&self, path: &str, body: &serde_json::Value) -> StdStream {
        let mut stream = self.connect();
        let body = body.to_string();
        let n = body.len();
        write!(stream, "POST {path} HTTP/1.1\r\nContent-Length: {n}\r\n\r\n{body}").unwrap();
        stream
    }

    /// Sends this session a message from a person.
    #[track_caller]
    fn send_to(&mut self, session: &str) -> MessageId {
        let ask = coord_wire::message::Send {
            session: Some(session.to_owned()),
            text: "rebase".to_owned(),
            ..coord_wire::message::Send::default()
        };
        let sent = self.coordinator().send(&ask, coord_model::Sender::Operator, now()).unwrap();
        MessageId::parse(&sent.id).unwrap()
    }

    /// Sends the request of a wake hook of this session.
    fn ask(&self, session: &str) -> StdStream {
        self.send("/v1/wake", &asking(session))
    }

    /// Sends the request of a wake hook of this session, and turns until its connection is accepted.
    #[track_caller]
    fn wait(&mut self, session: &str) -> StdStream {
        let before = self.server.next_token;
        let stream = self.ask(session);
        self.turn_until("it is accepted", |server| before < server.next_token);
        stream
    }

    /// Sends an event of a hook of this session, and waits for the answer.
    #[track_caller]
    fn report(&mut self, session: &str, name: &str, fields: &serde_json::Value) {
        let mut stream = self.begin_report(session, name, fields);
        assert_eq!(self.answer(&mut stream), Some((204, String::new())));
    }

    /// Sends an event of a hook of this session, without waiting for the answer.
    fn begin_report(&mut self, session: &str, name: &str, fields: &serde_json::Value) -> StdStream {
        let here = Here::read(now().wall_ms);
        self.n_events += 1;
        let mut event = json!({
            "v": 1, "id": format!("{:012x}{:020x}", now().wall_ms, self.n_events), "event": name,
            "session_id": session, "emitted_at": rfc3339(now().wall_ms), "mono_ns": now().mono_ns,
            "boot": here.boot, "host": here.host, "machine": here.machine,
            "pid": std::process::id(), "cwd": "/",
            "harness": harness_as("interactive"),
        });
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.send("/v1/events", &event)
    }

    /// Starts a session without a known harness.
    #[track_caller]
    fn orphan(&mut self, session: &str) {
        self.report(session, "SessionStart", &json!({"source": "startup", "harness": null}));
    }

    #[track_caller]
    fn attend(&mut self, session: &str, marks: MarkChange) {
        let sessions = vec![session.to_owned()];
        let new = OperatorRequest::new(OperatorVerb::Attend);
        let order = OperatorRequest { sessions, marks, ..new };
        self.coordinator().order(&order, now()).unwrap();
    }

    #[track_caller]
    fn start_session(&mut self, session: &str) -> SessionKey {
        self.report(session, "SessionStart", &json!({"source": "startup"}));
        self.key(session)
    }

    fn key(&self, session: &str) -> SessionKey {
        self.server.coordinator.state().sessions_with_id(session).next().unwrap().key
    }

    /// Turns the loop until the peer has its answer.
    #[track_caller]
    fn answer(&mut self, stream: &mut StdStream) -> Answered {
        let (mut text, deadline) = (Vec::new(), now().mono_ns + PATIENCE_NS);
        loop {
            if let Some(answered) = read(stream, &mut text) {
                return answered;
            }
            let so_far = String::from_utf8_lossy(&text);
            assert!(now().mono_ns < deadline, "no answer: {so_far:?}");
            self.turn();
        }
    }

    /// Turns the loop for long enough to do whatever is due, and asserts that the peer still waits.
    #[track_caller]
    fn assert_waits(&mut self, stream: &mut StdStream) {
        let swept_from = now().mono_ns;
        self.turn_until("waiters are looked through", |_| {
            swept_from + 1_500_000_000 < now().mono_ns
        });
        assert_eq!(read(stream, &mut Vec::new()), None, "it waits");
    }

    fn coordinator(&mut self) -> &mut Coordinator<RealWorld<RealDisk>> {
        &mut self.server.coordinator
    }
}

/// Reads what has arrived so far; none if the answer is not complete yet.
fn read(stream: &mut StdStream, text: &mut Vec<u8>) -> Option<Answered> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Some(None),
            Ok(n) => text.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("{error}"),
        }
        if let Ok(Some(answer)) = coord_wire::exchange::whole_answer(text, usize::MAX) {
            return Some(Some((answer.status, String::from_utf8(answer.body).unwrap())));
        }
    }
}

fn harness() -> coord_model::ProcessRef {
    let pid = std::os::unix::process::parent_id();
    coord_model::ProcessRef { pid, start_time: process::stat(pid).unwrap().start_time }
}

/// The harness as an event names it.
fn harness_as(kind: &str) -> serde_json::Value {
    let pid_ns = Here::read(now().wall_ms).pid_ns;
    let mut harness = serde_json::to_value(harness()).unwrap();
    let more = json!({"pid_ns": pid_ns, "tty": 34_816, "kind": kind});
    harness.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    harness
}

fn asking(session: &str) -> serde_json::Value {
    json!({"session_id": session, "harness": harness(), "pid": std::process::id()})
}

const ALWAYS: &str = "[queue]\nwake = \"always\"\n";
const AUTO: &str = "[queue]\nwake = \"auto\"\n";
const NOTHING: Answered = Some((204, String::new()));

// H-02: the waiter of an idle session is answered with the message, once.
#[test]
fn a_message_is_handed_over() {
    let mut world = World::new(ALWAYS);
    let session = world.start_session("s1");
    assert!(!world.coordinator().is_waiting(session));
    assert!(!world.coordinator().hand_over(session, "hello"), "nobody waits");
    let mut waiter = world.wait("s1");
    assert!(world.coordinator().is_waiting(session));
    assert!(!world.coordinator().hand_over(session, ""));
    assert!(!world.coordinator().hand_over(session, &"x".repeat(WAKE_BYTES_MAX + 1)));
    world.assert_waits(&mut waiter);
    let text = "x".repeat(WAKE_BYTES_MAX);
    assert!(world.coordinator().hand_over(session, &text));
    assert!(!world.coordinator().hand_over(session, &text), "it has one already");
    assert_eq!(world.answer(&mut waiter), Some((200, text)));
    assert!(!world.coordinator().is_waiting(session));
}

// H-02: each Stop brings another waiter.
#[test]
fn a_newer_waiter_ends_the_older_one() {
    let mut world = World::new(ALWAYS);
    let session = world.start_session("s1");
    let mut first = world.wait("s1");
    let mut second = world.wait("s1");
    assert_eq!(world.answer(&mut first), NOTHING);
    assert!(world.coordinator().hand_over(session, "hello"));
    assert_eq!(world.answer(&mut second), Some((200, "hello".to_owned())));
}

// H-02: at SessionStart the wake hook may arrive first; nothing is handed over before its harness is
// proved to hold the session.
#[test]
fn a_waiter_may_come_before_its_session_does() {
    let mut world = World::new(ALWAYS);
    let mut waiter = world.wait("s1");
    assert_eq!(world.server.coordinator.waiters.len(), 1);
    let session = world.start_session("s1");
    world.turn_until("it is proved", |server| server.coordinator.is_waiting(session));
    world.assert_waits(&mut waiter);
}

// H-02, F5: /clear leaves a waiter, whose message would reach the next conversation.
#[test]
fn a_waiter_of_an_earlier_conversation_is_ended() {
    let mut world = World::new(ALWAYS);
    let session = world.start_session("s1");
    let mut old = world.wait("s1");
    // In this order, the next waiter arrives before the event that makes its session current.
    let mut next = world.wait("s2");
    assert!(world.coordinator().is_waiting(session));
    world.report("s1", "SessionEnd", &json!({"reason": "clear"}));
    assert!(
        !world.coordinator().is_waiting(session) && !world.coordinator().hand_over(session, "x")
    );
    assert_eq!(world.answer(&mut old), NOTHING);
    world.report("s2", "SessionStart", &json!({"source": "clear"}));
    let session = world.key("s2");
    world.turn_until("it is proved", |server| server.coordinator.is_waiting(session));
    assert!(world.coordinator().hand_over(session, "hello"));
    assert_eq!(world.answer(&mut next), Some((200, "hello".to_owned())));
}

// H-02: a straggler of the old conversation does not replace the waiter of the new one.
#[test]
fn a_late_waiter_takes_nobodys_place() {
    let mut world = World::new(ALWAYS);
    world.start_session("s1");
    world.report("s1", "SessionEnd", &json!({"reason": "clear"}));
    world.report("s2", "SessionStart", &json!({"source": "clear"}));
    let mut current = world.wait("s2");
    let _late = world.wait("s1");
    world.assert_waits(&mut current);
    let session = world.key("s2");
    assert!(world.coordinator().is_waiting(session));
}

// H-25: only a child of the named harness may wait, under its own pid, and only while the harness lives.
#[test]
fn nobody_else_waits() {
    let mut world = World::new(ALWAYS);
    world.start_session("s1");
    let own = process::stat(std::process::id()).unwrap().start_time;
    let changes = [
        ("pid", json!(1)),
        ("harness", json!({"pid": std::process::id(), "start_time": own.to_string()})),
        ("harness", json!({"pid": harness().pid, "start_time": "1"})),
    ];
    for (field, value) in changes {
        let mut ask = asking("s1");
        ask[field] = value;
        let mut stream = world.send("/v1/wake", &ask);
        let (status, body) = world.answer(&mut stream).unwrap();
        assert_eq!(status, 403, "{body}");
    }
    for bad in [json!([]), json!({"session_id": "s1"})] {
        let mut stream = world.send("/v1/wake", &bad);
        assert_eq!(world.answer(&mut stream).unwrap().0, 400);
    }
    assert_eq!(world.server.coordinator.waiters.len(), 0);
}

// H-02: with `auto`, only sessions with marks have a waiter; with `never`, none has; and a session
// without a person never has.
#[test]
fn sessions_that_are_not_armed_have_none() {
    for config in [AUTO, "[queue]\nwake = \"never\"\n"] {
        let mut world = World::new(config);
        world.start_session("s1");
        let mut waiter = world.wait("s1");
        assert_eq!(world.answer(&mut waiter), NOTHING, "{config}");
        // The event that names the harness of the session may arrive later.
        let mut waiter = world.wait("s2");
        world.report("s2", "SessionStart", &json!({"source": "clear"}));
        assert_eq!(world.answer(&mut waiter), NOTHING, "{config}");
    }
    let mut world = World::new(ALWAYS);
    let mut waiter = world.wait("s1");
    world.report("s1", "SessionStart", &json!({"harness": harness_as("headless")}));
    assert_eq!(world.answer(&mut waiter), NOTHING);
}

// H-02: a person's marks arm a session for the next waiter; a child arms its parent.
#[test]
fn marks_arm_a_session() {
    let mut world = World::new(AUTO);
    world.start_session("parent-1");
    let marks = MarkChange { unattended: Some(true), ..MarkChange::default() };
    world.attend("parent-1", marks);
    let mut first = world.wait("parent-1");
    world.assert_waits(&mut first);
    world.attend("parent-1", MarkChange { unattended: Some(false), ..MarkChange::default() });
    assert_eq!(world.answer(&mut first), NOTHING, "its user came back");
    // The process of the child does not matter.
    world.orphan("child-1");
    let parent = Some("parent-1".to_owned());
    world.attend("child-1", MarkChange { parent, ..MarkChange::default() });
    let mut second = world.wait("parent-1");
    world.assert_waits(&mut second);
}

// H-02: a waiter waits without limit: neither idleness nor a crowd of connections closes it, and the
// crowd is served.
#[test]
fn a_waiter_is_neither_idle_nor_in_the_way() {
    let mut world = World::new(ALWAYS);
    let session = world.start_session("s1");
    let mut waiter = world.wait("s1");
    let mut idle = world.connect();
    world.turn_until("it is accepted", |server| server.connections.len() == 2);
    world.server.connections.values_mut().for_each(|one| one.used_ns = 0);
    world.server.close_idle();
    assert_eq!(world.answer(&mut idle), None);
    let crowd: Vec<StdStream> = (0..CONNECTIONS_MAX + 8)
        .map(|_| {
            let stream = world.connect();
            let n = world.server.next_token;
            world.turn_until("it is accepted", |server| n < server.next_token);
            stream
        })
        .collect();
    assert_eq!(world.server.connections.len(), CONNECTIONS_MAX + 1);
    assert!(world.coordinator().is_waiting(session));
    drop(crowd);
    // Out of descriptors, other connections are closed first; the waiter is closed last.
    world.turn_until("they are gone", |server| server.connections.len() == 1);
    let _other = world.connect();
    world.turn_until("it is accepted", |server| server.connections.len() == 2);
    world.server.close_idlest();
    assert!(world.coordinator().is_waiting(session));
    world.server.close_idlest();
    assert_eq!(world.answer(&mut waiter), None);
    assert!(!world.coordinator().is_waiting(session));
}

// H-02: a waiter that leaves is forgotten, and whatever it sent belongs to no request.
#[test]
fn a_waiter_that_leaves_is_forgotten() {
    let mut world = World::new(ALWAYS);
    let session = world.start_session("s1");
    drop(world.wait("s1"));
    world.turn_until("it is forgotten", |server| !server.coordinator.is_waiting(session));
    let mut chatty = world.wait("s1");
    chatty.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    world.turn_until("it is closed", |server| !server.coordinator.is_waiting(session));
    assert_eq!(world.server.connections.len(), 0);
}

// U-08: at the end a waiter is not sent away: it asks the next coordinator.
#[test]
fn at_the_end_they_get_no_answer() {
    let mut world = World::new(ALWAYS);
    world.start_session("s1");
    let mut waiter = world.wait("s1");
    let World { mut server, dir, .. } = world;
    server.is_ending = true;
    server.run().unwrap();
    assert_eq!(read(&mut waiter, &mut Vec::new()), Some(None));
    drop(dir);
}

// S4-09, S4-24: a hook that does not wait for the disk takes no message; one that waits gets it.
#[test]
fn a_hook_that_leaves_takes_no_message_along() {
    let mut world = World::new("");
    let session = world.start_session("s1");
    let id = world.send_to("s1");
    let has_left = move |server: &Server<RealDisk>| {
        server.coordinator.state().message(id).is_some_and(|one| one.lease().is_some())
    };
    let prompt = json!({"permission_mode": "default"});
    let stream = world.begin_report("s1", "UserPromptSubmit", &prompt);
    world.turn_until("it leaves", has_left);
    drop(stream);
    world.turn_until("it waits again", |server| !has_left(server));
    let message = world.server.coordinator.state().message(id).unwrap();
    assert!(message.is_ready() && !message.maybe_duplicate && message.attempts == 0);
    world.report("s1", "Stop", &json!({"stop_hook_active": true}));
    let mut stream = world.begin_report("s1", "UserPromptSubmit", &prompt);
    let (status, body) = world.answer(&mut stream).unwrap();
    assert!(status == 200 && body.contains(&id.to_string()), "{body}");
    assert!(has_left(&world.server));
    assert_eq!(world.key("s1"), session);
}

// H-02: after a session was sent a message, it has a waiter, whatever its marks.
#[test]
fn a_message_arms_a_session() {
    let mut world = World::new(AUTO);
    let session = world.start_session("s1");
    let mut early = world.wait("s1");
    assert_eq!(world.answer(&mut early), NOTHING, "nobody sends it anything");
    world.send_to("s1");
    let mut waiter = world.wait("s1");
    world.assert_waits(&mut waiter);
    assert!(world.coordinator().is_waiting(session));
}

// H-52: after a worker is lost, nothing is accepted and nothing is answered.
#[test]
fn the_loop_ends_at_once_when_a_worker_ends_unasked() {
    let mut world = World::new("");
    world.turn();
    let mut stream = world.connect();
    write!(stream, "GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    let supervisor = world.server.coordinator.world.supervisor().clone();
    let _brief = supervisor.start("coord-brief", |_| ()).unwrap();
    while supervisor.lost().is_none() {
        std::thread::yield_now();
    }
    let ended = world.server.turn(&mut world.events).unwrap_err();
    assert!(ended.to_string().contains("coord-brief"), "{ended}");
    assert_eq!(stream.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Replaces the configuration as editors do: by renaming another file over it.
fn configure(world: &World, text: &str) {
    let paths = &world.server.coordinator.paths;
    let new = paths.config.join("config.toml~");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, paths.config_file()).unwrap();
}

// U-06: a change is in force at once and recorded, and a replay agrees; an invalid file changes nothing
// and is shown; a change that needs a restart is named.
#[test]
fn a_changed_configuration_takes_effect_without_a_restart() {
    let mut world = World::new("");
    let mode = |server: &Server<RealDisk>| server.coordinator.mode();
    let problems = |server: &Server<RealDisk>| server.coordinator.all_problems(now()).join("; ");
    configure(&world, "[recovery]\nmode = \"act\"\n[log]\nlevel = \"debug\"\n");
    world.turn_until("it is in force", |server| mode(server) == coord_model::Mode::Act);
    let settings = world.coordinator().state().header().settings.clone();
    assert_eq!(settings.mode, coord_model::Mode::Act);
    let health = world.coordinator().health(now());
    let change = "recovery.mode: \"observe\" → \"act\"".to_owned();
    assert!(health.config_changes.contains(&change), "{health:?}");
    assert!(problems(&world.server).contains("log.level"), "it waits for a restart");
    configure(&world, "[recovery]\nmode = 7\n");
    world.turn_until("it is found wrong", |server| problems(server).contains("line 2"));
    assert_eq!(mode(&world.server), coord_model::Mode::Act);
    // Without the file, the defaults are in force.
    std::fs::remove_file(world.server.coordinator.paths.config_file()).unwrap();
    world.turn_until("it is gone", |server| mode(server) == coord_model::Mode::Signature);
    assert_eq!(problems(&world.server), "");
    let paths = world.coordinator().paths.clone();
    let (again, _) = Engine::open(&RealDisk, &paths.state, &paths.journal()).unwrap();
    assert_eq!(again.state().header().settings, world.coordinator().state().header().settings);
    let mut told = Vec::new();
    let all = Wanted::default();
    history::read(&RealDisk, &paths.journal(), &all, |line| told.push(line)).unwrap();
    let mut told = told.iter().filter(|line| line.name == "ConfigChanged");
    assert!(told.next_back().unwrap().detail.contains("\"act\" → \"signature\""));
}
