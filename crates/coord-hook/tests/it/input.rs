//! Input that no client should send, and streams that are not as they should be.
#![expect(clippy::unwrap_used, reason = "a test fails where its ground is missing")]

use crate::world::{self, Answer, EVENT, Ended, NO_CONTENT, STOP, World, envelope, payload_of};
use coord_wire::limits::{MALFORMED_BYTES_MAX, MALFORMED_RECORDS_MAX};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

const SECRET: &str = "Tr0ub4dor";

#[track_caller]
fn assert_malformed(payload: &[u8]) -> String {
    let world = World::new();
    let ended = world.run(EVENT, payload);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(65), ""));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(world.spooled().is_empty());
    let kept = world.diagnoses("malformed");
    assert_eq!(kept.len(), 1);
    assert!(kept[0].len() <= MALFORMED_BYTES_MAX);
    kept.into_iter().next().unwrap()
}

// S4-07, G11: kept for diagnosis, without its content.
#[test]
fn what_is_no_payload_is_kept_masked() {
    let cut = format!(r#"{{"session_id":"{SECRET}","prompt":"{SECRET} 12 é","#);
    let kept = assert_malformed(cut.as_bytes());
    assert_eq!(
        kept,
        format!(
            "ended too early, bytes read {}\n{{\"session_id\":\"xx9xx9xxx\",\"prompt\":\"xx9xx9xxx 99 ??\",",
            cut.len()
        )
    );
    for (payload, why) in [
        (&b""[..], "ended too early"),
        (b"null", "not a JSON object at byte 0"),
        (b"[1]", "not a JSON object at byte 0"),
        (b"\xFF\xFE", "not a JSON object at byte 0"),
        (b"{\"a\" 1}", "not JSON at byte 5"),
        (b"{}", "session_id or hook_event_name is missing"),
        (b"{\"session_id\":\"s\"}", "session_id or hook_event_name is missing"),
        (b"{\"session_id\":\"\",\"hook_event_name\":\"Stop\"}", "session_id or"),
        (b"{\"session_id\":7,\"hook_event_name\":\"Stop\"}", "session_id or"),
    ] {
        let kept = assert_malformed(payload);
        assert!(kept.starts_with(why), "{kept}");
    }
    let long = [&b"{\"prompt\":"[..], SECRET.repeat(20_000).as_bytes()].concat();
    assert!(!assert_malformed(&long).contains("ub4"));
}

#[test]
fn malformed_payloads_are_bounded_in_number() {
    let world = World::new();
    for _ in 0..=MALFORMED_RECORDS_MAX {
        assert_eq!(world.run(EVENT, "nonsense").code, Some(65));
    }
    let n = u64::try_from(world.diagnoses("malformed").len()).unwrap();
    assert_eq!(n, MALFORMED_RECORDS_MAX);
}

// H-37: at most one line a minute.
#[test]
fn a_failing_hook_does_not_repeat_itself() {
    let world = World::new();
    assert_ne!(world.run(EVENT, "nonsense").stderr, "");
    assert_eq!(world.run(EVENT, "nonsense").stderr, "");
}

#[test]
fn deep_nesting_is_walked_or_refused_but_never_overflows() {
    let nested = |n: usize| {
        let (open, close) = ("[".repeat(n), "]".repeat(n));
        format!(r#"{{"session_id":"s","hook_event_name":"Stop","tool_input":{open}{close}}}"#)
    };
    let world = World::new();
    world.run(STOP, nested(4000)).assert_silent();
    assert_malformed(nested(1_000_000).as_bytes());
}

#[test]
fn bytes_that_are_no_text_do_not_lose_the_event() {
    let world = World::new();
    let payload = b"{\"session_id\":\"s\",\"hook_event_name\":\"Stop\",\"cwd\":\"/a\xFF\xC3\"}";
    world.run(STOP, payload).assert_silent();
    assert_eq!(envelope(&world.spooled()).cwd, "/a\u{FFFD}\u{FFFD}");
}

#[test]
fn long_fields_are_cut_and_named() {
    let world = World::new();
    let long = "\\u00e9".repeat(100_000);
    let fields = [
        "cwd",
        "transcript_path",
        "permission_mode",
        "prompt_id",
        "agent_id",
        "agent_type",
        "tool_name",
        "tool_use_id",
        "notification_type",
        "error",
    ]
    .map(|name| format!(",\"{name}\":\"{long}\""))
    .concat();
    let payload = format!(r#"{{"session_id":"s","hook_event_name":"StopFailure"{fields}}}"#);
    let mut command = world.command(STOP);
    command.env("CLAUDE_CONFIG_DIR", "\u{1}".repeat(60_000)).env("TMUX_PANE", "%1");
    command.env("TMUX", format!("/{},1,0", "\u{1}".repeat(60_000)));
    world::run(&mut command, payload).assert_silent();
    let envelope = envelope(&world.spooled());
    assert_eq!(envelope.cut.len(), 12, "{:?}", envelope.cut);
    assert!(envelope.cwd.starts_with("éé") && envelope.cwd.chars().all(|c| c == 'é'));
}

// G7: more than the limit, of which the beginning is enough.
#[test]
fn a_hundred_megabytes_are_reported_as_far_as_they_were_read() {
    let world = World::new();
    let mut payload =
        br#"{"session_id":"s","hook_event_name":"PostToolUse","tool_response":""#.to_vec();
    payload.resize(100 * 1024 * 1024, b'a');
    world.run(EVENT, &payload).assert_silent();
    let envelope = envelope(&world.spooled());
    assert!(envelope.incomplete);
    assert_eq!(envelope.event, "PostToolUse");
}

// G7: the client may keep stdin open.
#[test]
fn stdin_may_stay_open() {
    let world = World::new();
    let bodies = world.coordinator(Answer::Text(NO_CONTENT));
    let mut child = world.command(STOP).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(payload_of("Stop").as_bytes()).unwrap();
    world::ended(child).assert_silent();
    assert!(!envelope(&[bodies.recv().unwrap()]).incomplete);
    drop(stdin);
}

#[test]
fn a_payload_that_never_ends_is_reported_as_incomplete() {
    let world = World::new();
    let mut child = world.command(STOP).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(br#"{"session_id":"s","hook_event_name":"Stop","cwd":"/x","pro"#).unwrap();
    world::ended(child).assert_silent();
    let spooled = envelope(&world.spooled());
    assert!(spooled.incomplete);
    assert_eq!(spooled.cwd, "/x");
    drop(stdin);

    let mut child = world.command(STOP).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    assert_eq!(world::ended(child).code, Some(65));
    drop(stdin);
}

#[test]
fn closed_streams_are_no_error() {
    let world = World::new();
    let _bodies = world.coordinator(Answer::Text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
    let (stdout, reader) = UnixStream::pair().unwrap();
    drop(reader);
    let mut command = world.command(STOP);
    command.stdout(Stdio::from(std::os::fd::OwnedFd::from(stdout)));
    assert_eq!(world::run(&mut command, payload_of("Stop")).code, Some(0));

    let (stdout, reader) = (Stdio::piped(), ());
    let mut child = world.command(STOP).stdout(stdout).spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(payload_of("Stop").as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let () = reader;

    // All three closed: no file of ours may take their place.
    let script = format!("exec {STOP} --root \"$0\" <&- >&- 2>&-");
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg(world.dir.path()).env_clear();
    assert_eq!(command.status().unwrap().code(), Some(65));
}

#[test]
fn the_version_is_printed() {
    let world = World::new();
    let Ended { code, stdout, .. } = world::run(world.bare_command(STOP).arg("--version"), "");
    assert_eq!(code, Some(0));
    assert_eq!(stdout, concat!("coord-hook-stop ", env!("CARGO_PKG_VERSION"), "\n"));
}
