//! Every payload of the real client through every hook, with a coordinator in every mood.
#![expect(clippy::unwrap_used, reason = "a test fails where its ground is missing")]

use crate::world::{self, Answer, Ended, HOOKS, NO_CONTENT, STOP, World};
use coord_model::envelope::Envelope;
use coord_wire::limits::{SPOOL_BYTES_MAX, SPOOL_RESERVE_BYTES, is_folded, is_reserved};
use coord_wire::spool::{CURRENT, FOLDED_AT, HEADER_BYTES, HEADER_MAGIC};
use serde_json::Value;

/// Stands in the fixtures wherever a prompt, a message, a tool input or a tool output had text.
const PRIVATE: &str = "PRIVATE";

/// Name and text of each fixture, with all text that may not be forwarded replaced by [`PRIVATE`].
fn fixtures() -> Vec<(String, String)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/payloads");
    let mut n_private = 0;
    let mut all: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut payload: Value = serde_json::from_str(&text).unwrap();
            let event = payload["hook_event_name"].as_str().unwrap().to_owned();
            for (name, value) in payload.as_object_mut().unwrap() {
                if !is_forwarded(&event, name) {
                    n_private += hide(value);
                }
            }
            (path.display().to_string(), serde_json::to_string_pretty(&payload).unwrap())
        })
        .collect();
    all.sort();
    assert!(80 < all.len() && 200 < n_private, "{n_private}");
    all
}

fn is_forwarded(event: &str, name: &str) -> bool {
    match name {
        "error" => event == "StopFailure",
        "reason" => event == "SessionEnd",
        "source" => event == "SessionStart",
        name => FORWARDED.contains(&name),
    }
}

/// Strings that may stand in an envelope.
const FORWARDED: [&str; 11] = [
    "session_id",
    "hook_event_name",
    "transcript_path",
    "cwd",
    "permission_mode",
    "prompt_id",
    "agent_id",
    "agent_type",
    "tool_name",
    "tool_use_id",
    "notification_type",
];

fn hide(value: &mut Value) -> usize {
    match value {
        // The one word inside a value that decides something.
        Value::String(text) if text == "subagent" => 0,
        Value::String(text) => {
            PRIVATE.clone_into(text);
            1
        }
        Value::Array(list) => list.iter_mut().map(hide).sum(),
        Value::Object(map) => map.values_mut().map(hide).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Checks one event as it was sent or spooled.
#[track_caller]
fn check(name: &str, payload: &str, body: &[u8]) {
    assert!(!String::from_utf8_lossy(body).contains(PRIVATE), "{name}");
    let payload: Value = serde_json::from_str(payload).unwrap();
    let envelope = Envelope::parse(body).unwrap();
    let text = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(Some(envelope.event.clone()), text("hook_event_name"), "{name}");
    assert_eq!(Some(envelope.session_id.clone()), text("session_id"), "{name}");
    assert_eq!(Some(envelope.cwd.clone()), text("cwd"), "{name}");
    assert_eq!(Some(envelope.transcript_path.clone()), text("transcript_path"), "{name}");
    for (got, wanted) in [
        (&envelope.permission_mode, "permission_mode"),
        (&envelope.prompt_id, "prompt_id"),
        (&envelope.agent_id, "agent_id"),
        (&envelope.agent_type, "agent_type"),
        (&envelope.tool_name, "tool_name"),
        (&envelope.tool_use_id, "tool_use_id"),
        (&envelope.notification_type, "notification_type"),
    ] {
        assert_eq!(*got, text(wanted), "{name}");
    }
    for (got, wanted, only_of) in [
        (&envelope.source, "source", "SessionStart"),
        (&envelope.reason, "reason", "SessionEnd"),
        (&envelope.error, "error", "StopFailure"),
    ] {
        let expected = text(wanted).filter(|_| envelope.event == only_of);
        assert_eq!(*got, expected, "{name}");
    }
    let count = |name: &str| {
        payload.get(name).and_then(Value::as_array).map(|list| u32::try_from(list.len()).unwrap())
    };
    assert_eq!(envelope.background_tasks, count("background_tasks"), "{name}");
    assert_eq!(envelope.session_crons, count("session_crons"), "{name}");
    assert_eq!(envelope.duration_ms, payload.get("duration_ms").and_then(Value::as_u64), "{name}");
    let flag = |name: &str| payload.get(name).and_then(Value::as_bool);
    assert_eq!(envelope.stop_hook_active, flag("stop_hook_active"), "{name}");
    assert_eq!(envelope.tool_input_digest.is_some(), payload.get("tool_input").is_some());
    assert_eq!(envelope.prompt_digest.is_some(), payload.get("prompt").is_some());
    assert!(envelope.cut.is_empty() && !envelope.incomplete);
}

// G1, G7, G11, R-18, S4-06, S4-08: the coordinator takes every event of every hook, all exit alike.
#[test]
fn coordinator_up() {
    let world = World::new();
    let bodies = world.coordinator(Answer::Text(NO_CONTENT));
    for (name, payload) in fixtures() {
        for hook in HOOKS {
            world.run(hook, &payload).assert_silent();
            check(&name, &payload, &bodies.recv().unwrap());
        }
    }
    assert!(world.spool_files().is_empty());
}

fn all_are_spooled(world: &World) {
    let mut n = 0;
    for (name, payload) in fixtures() {
        for hook in HOOKS {
            world.run(hook, &payload).assert_silent();
            let spooled = world.spooled();
            n += 1;
            assert_eq!(spooled.len(), n, "{name}");
            check(&name, &payload, &spooled[n - 1]);
        }
    }
}

// G1, G11
#[test]
fn coordinator_down() {
    all_are_spooled(&World::new());
}

// H-37: a coordinator that accepts and never answers.
#[test]
fn coordinator_hung() {
    let world = World::new();
    let _bodies = world.coordinator(Answer::Never);
    all_are_spooled(&world);
    assert!(world.paths.miss().exists());
}

// H-37: one that does not even accept, with a full backlog.
#[test]
fn coordinator_deaf_with_a_full_backlog() {
    let world = World::new();
    let _bodies = world.coordinator(Answer::Deaf);
    let mut waiting = Vec::new();
    loop {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let address = SocketAddrUnix::new(world.paths.socket()).unwrap();
        if rustix::net::connect(&socket, &address).is_err() {
            break;
        }
        waiting.push(socket);
    }
    world.run(STOP, world::payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 1);
}

#[test]
fn coordinator_answers_by_halves() {
    let world = World::new();
    let _bodies =
        world.coordinator(Answer::Text("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"conti"));
    all_are_spooled(&world);
}

// H-39: a coordinator that does not understand this version, or cannot store.
#[test]
fn a_refused_event_is_spooled() {
    for answer in [
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        "gibberish\r\n\r\n",
    ] {
        let world = World::new();
        let _bodies = world.coordinator(Answer::Text(answer));
        world.run(STOP, world::payload_of("Stop")).assert_silent();
        assert_eq!(world.spooled().len(), 1);
    }
}

// R-18, S4-08: one complete JSON object, or nothing.
#[test]
fn answers_are_printed_whole_or_not_at_all() {
    let printed = |answer| {
        let world = World::new();
        let _bodies = world.coordinator(Answer::Text(answer));
        let Ended { code, stdout, stderr } = world.run(STOP, world::payload_of("Stop"));
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(world.spooled().is_empty());
        stdout
    };
    assert_eq!(
        printed("HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{\"continue\": true}"),
        "{\"continue\": true}"
    );
    for no_object in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n{} {} ",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
    ] {
        assert_eq!(printed(no_object), "");
    }
}

// H-29: past the limit tool events are counted, turn edges are written, the rest is refused.
#[test]
fn spool_full() {
    let world = World::new();
    world.make_spool();
    let current = world.paths.spool().join(CURRENT);
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&HEADER_MAGIC);
    std::fs::write(&current, header).unwrap();
    let limit = SPOOL_BYTES_MAX - SPOOL_RESERVE_BYTES;
    std::fs::File::options().append(true).open(&current).unwrap().set_len(limit).unwrap();
    let (mut n_folded, mut n_written, mut n_said) = (0, 0, 0);
    for (name, payload) in fixtures() {
        let event = serde_json::from_str::<Value>(&payload).unwrap()["hook_event_name"].clone();
        let event = event.as_str().unwrap();
        let size = std::fs::metadata(&current).unwrap().len();
        let ended = world.run(world::EVENT, &payload);
        let grew = size < std::fs::metadata(&current).unwrap().len();
        assert_eq!(ended.stdout, "");
        n_folded += u64::from(is_folded(event));
        n_written += u64::from(is_reserved(event));
        n_said += usize::from(!ended.stderr.is_empty());
        let code = i32::from(!is_folded(event) && !is_reserved(event));
        assert_eq!((ended.code, grew), (Some(code), is_reserved(event)), "{name}");
    }
    assert_eq!(world.counter(FOLDED_AT), n_folded);
    assert_eq!(world.counter(coord_wire::spool::RECORDS_AT), n_written);
    assert!(0 < n_said, "a lost event is said");
}
