//! What a release wrote is read by every later one, and neighbouring versions of hooks, coordinator
//! and store understand each other or say clearly that they do not (H-39, G1).
//!
//! `tests/compat` holds a directory for each release, recorded with its real programs by
//! `tests/compat/record`: snapshot, journal and spool, the settings it registered hooks in, and what
//! `coord inspect` has to say of them. The state is read with the recorded machine and a time shortly
//! behind the recording, so that no retention and no machine decides here. Words that explain a state
//! are free to become better ones: the records do not hold them.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use coord_host::here::Here;
use coord_host::registry::Readable;
use coord_model::envelope::Envelope;
use coord_model::{Now, STORE_VERSION};
use coord_tests::coord::{Coordinator, coord, events, health, install, programs};
use coord_tests::home::Home;
use coord_tests::process::Running;
use coord_tests::wait::wait_until;
use coord_view::{offline, sessions};
use coord_wire::exchange::{exchange, mono_ns, request};
use coord_wire::frame::{self, Frame, Frames};
use coord_wire::limits::BODY_BYTES_MAX;
use coord_wire::paths::Paths;
use coord_wire::spool::{CURRENT, HEADER_BYTES};
use serde_json::{Value, json};

/// The machine on which releases are recorded.
const MACHINE: &str = "5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e";
const HOUR_MS: u64 = 3_600_000;

fn releases() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat");
    let paths = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Copies a directory as a private one.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

/// The texts in a spool file, or in one that begins with a header of its kind.
fn records(file: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(file).unwrap();
    let texts = Frames::new(&bytes, HEADER_BYTES).map(|frame| match frame {
        Frame::Record { payload, .. } => payload.to_vec(),
        Frame::Damaged { .. } | Frame::Torn { .. } => panic!("{}: {frame:?}", file.display()),
    });
    texts.collect()
}

/// One envelope of each event, as the release's hooks wrote them.
fn envelopes(release: &Path) -> Vec<Value> {
    let texts = records(&release.join("state/spool").join(CURRENT));
    texts.iter().map(|text| serde_json::from_slice(text).unwrap()).collect()
}

/// Everything that `expected` has stands in `actual` as well; what is new there does not count.
#[track_caller]
fn is_within(expected: &Value, actual: &Value, at: &str) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (name, value) in expected {
                let there = actual.get(name).unwrap_or_else(|| panic!("{at}.{name} is gone"));
                is_within(value, there, &format!("{at}.{name}"));
            }
        }
        (Value::Array(expected), Value::Array(actual)) => {
            assert_eq!(expected.len(), actual.len(), "{at}: {actual:#?}");
            for (n, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                is_within(expected, actual, &format!("{at}[{n}]"));
            }
        }
        _ => assert_eq!(expected, actual, "{at}"),
    }
}

#[test]
fn g1_what_each_release_wrote_is_shown_as_it_was() {
    for release in releases() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(root.path()), MACHINE, 0, |_| None).unwrap();
        copy(&release.join("state"), &paths.state);
        let written = envelopes(&release).pop().unwrap();
        let written: Envelope = serde_json::from_value(written).unwrap();
        let written_ms = written.wall_ms().unwrap();
        let harness = written.harness.unwrap();
        let here = Here {
            machine: MACHINE.to_owned(),
            host: "compat".to_owned(),
            boot: "a later boot".to_owned(),
            boot_at_ms: written_ms + HOUR_MS,
            pid_ns: harness.pid_ns,
            uid: rustix::process::geteuid().as_raw(),
        };
        let now = Now { mono_ns: 60_000_000_000, wall_ms: written_ms + 2 * HOUR_MS };
        let machine = coord_cli::ThisMachine { here: &here, readable: Readable::default() };
        let store = offline::read(&paths, &machine, None, now).unwrap();
        assert_eq!(store.problems, Vec::<String>::new());
        assert_eq!(store.spool_pending, 13);
        let shown = serde_json::to_value(sessions::sessions(&store.state, now)).unwrap();
        let expected = fs::read_to_string(release.join("inspect.json")).unwrap_or_default();
        let expected = serde_json::from_str(&expected).unwrap_or_else(|error| {
            panic!("{error}: {}/inspect.json\n{shown:#}", release.display())
        });
        is_within(&expected, &shown, "sessions");
    }
}

// The real programs on the real files: nothing is refused, and nothing of the spool is lost.
#[test]
fn g1_a_coordinator_of_today_goes_on_from_each_release() {
    for release in releases() {
        let home = Home::new();
        copy(&release.join("state"), &home.paths().state);
        let _coordinator = Coordinator::start(&home);
        wait_until("the spool is taken in", || match health(&home) {
            Some(health) if health.spool_pending == 0 => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let status = health(&home).unwrap();
        // The recorded configuration directory lies outside this root.
        let is_of_place = |problem: &String| problem.contains("coord only observes its sessions");
        assert!(status.problems.iter().all(is_of_place), "{status:?}");
        assert_eq!(status.invariant_violations, 0);
        let of_spool = |event: &Value| event["source"] == "hook" && event["via"] == "spool";
        let names: Vec<Value> = events(&home, None)
            .into_iter()
            .filter(of_spool)
            .map(|one| one["name"].clone())
            .collect();
        let written: Vec<Value> =
            envelopes(&release).iter().map(|envelope| envelope["event"].clone()).collect();
        assert_eq!(names, written);
        let all = events(&home, None);
        assert!(all.iter().all(|event| event["name"] != "Unreadable"), "{all:#?}");
        let sessions: std::collections::BTreeSet<_> =
            all.iter().filter_map(|event| event["session_id"].as_str()).collect();
        assert_eq!(sessions.len(), 4, "{sessions:?}");
    }
}

/// Entries of the release are recognised, brought up to date and taken out, whatever their prefix.
#[test]
fn g8_the_entries_of_each_release_are_recognised() {
    for release in releases() {
        let home = Home::new();
        let settings = home.config_dir().join("settings.json");
        let put = || fs::copy(release.join("settings.json"), &settings).unwrap();
        let config_dir = home.config_dir();
        let uninstall = ["uninstall", "--config-dir", config_dir.to_str().unwrap()];
        for is_upgraded in [false, true] {
            put();
            if is_upgraded {
                install(&home);
                let text = fs::read_to_string(&settings).unwrap();
                assert!(!text.contains("/home/dev/.local/lib/coord"), "{text}");
            }
            coord(&home, &uninstall).expect_success();
            assert_eq!(fs::read_to_string(&settings).unwrap(), "{\n  \"model\": \"opus\"\n}\n");
        }
    }
}

fn post(home: &Home, envelope: &Value) -> u16 {
    let body = envelope.to_string();
    let ask = request("POST", "/v1/events", body.as_bytes());
    let deadline_ns = mono_ns() + 10_000_000_000;
    exchange(&home.paths().socket(), &ask, BODY_BYTES_MAX, deadline_ns).unwrap().status
}

// H-39: hooks of a neighbouring version, older or with more to say.
#[test]
fn h39_a_coordinator_takes_what_neighbouring_hooks_send() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    for release in releases() {
        for mut envelope in envelopes(&release) {
            assert_eq!(post(&home, &envelope), 204, "{envelope:#}");
            // The same event from a hook of a later minor version.
            let id = envelope["id"].as_str().unwrap().replace('0', "f");
            envelope["id"] = json!(id);
            envelope["from_the_future"] = json!({"kept": "as it came"});
            envelope["harness"]["also_new"] = json!([1]);
            assert_eq!(post(&home, &envelope), 204, "{envelope:#}");
        }
        let mut unknown = envelopes(&release).swap_remove(0);
        unknown["event"] = json!("SomethingNew");
        unknown["id"] = json!("f".repeat(32));
        assert_eq!(post(&home, &unknown), 204);
    }
    assert!(events(&home, None).iter().any(|event| event["name"] == "SomethingNew"));
    let journal = fs::read_dir(home.paths().journal()).unwrap();
    let bytes: Vec<u8> = journal.flat_map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(
        String::from_utf8_lossy(&bytes).contains("\"from_the_future\":{\"kept\":\"as it came\"}")
    );
}

/// An older coordinator reads by what it knows: each field that it got still comes, of the same kind.
#[test]
fn h39_hooks_of_today_send_all_that_older_coordinators_read() {
    for release in releases() {
        for recorded in envelopes(&release) {
            let home = Home::new();
            install(&home);
            let event = recorded["event"].as_str().unwrap();
            let today = envelope_of_today(&home, event);
            assert_eq!(today["v"], recorded["v"]);
            for (name, value) in recorded.as_object().unwrap() {
                let now = today.get(name).unwrap_or_else(|| panic!("{event}: {name} is gone"));
                let kind = |value: &Value| core::mem::discriminant(value);
                let fits = kind(now) == kind(value) || now.is_null() || value.is_null();
                assert!(fits, "{event}: {name} was {value} and is {now}");
            }
        }
    }
}

/// What today's hook says of the event, from the payload that releases are recorded with.
fn envelope_of_today(home: &Home, event: &str) -> Value {
    let payload = json!({
        "session_id": "5e55", "hook_event_name": event, "cwd": "/home/dev/project",
        "transcript_path": "/t.jsonl", "permission_mode": "default", "prompt_id": "p1",
        "source": "startup", "reason": "prompt_input_exit", "prompt": "Hello",
        "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1",
        "tool_response": {}, "error": "rate_limit", "notification_type": "permission_prompt",
        "agent_type": "Explore", "stop_hook_active": false, "background_tasks": [],
        "session_crons": [],
    });
    let file = home.tmp().join("payload");
    fs::write(&file, payload.to_string()).unwrap();
    let hook = programs().join(match event {
        "SessionStart" => "coord-hook-session-start",
        "PostToolUse" => "coord-hook-post-tool-use",
        "Stop" => "coord-hook-stop",
        _ => "coord-hook-event",
    });
    let mut harness = home.command("/bin/sh");
    harness.args(["-c", "CLAUDE_PID=$$ \"$1\" --root \"$2\" <\"$3\"; exit $?", "sh"]);
    harness.arg(hook).arg(home.root()).arg(file).stdin(Stdio::null());
    harness.env("CLAUDE_CONFIG_DIR", home.config_dir()).env("CLAUDECODE", "1");
    Running::start(harness, &home.tmp(), "harness").finish().expect_success();
    let mut texts = records(&home.paths().spool().join(CURRENT));
    serde_json::from_slice(&texts.pop().unwrap()).unwrap()
}

// H-39: what this coordinator cannot read is not lost to the one that can.
#[test]
fn h39_events_of_a_newer_hook_stay_in_the_spool() {
    let home = Home::new();
    install(&home);
    // Fresh ones: what lay in a spool for a week is history only.
    let mut newer = envelope_of_today(&home, "SessionStart");
    newer["v"] = json!(2);
    newer["session_id"] = json!({"of": "another shape"});
    let mut record = Vec::new();
    frame::push(&mut record, newer.to_string().as_bytes());
    let current = home.paths().spool().join(CURRENT);
    fs::OpenOptions::new().append(true).open(current).unwrap().write_all(&record).unwrap();
    envelope_of_today(&home, "PreToolUse");
    for _ in 0..2 {
        let coordinator = Coordinator::start(&home);
        wait_until("it says what it cannot take", || {
            let problems = health(&home).map(|health| health.problems).unwrap_or_default();
            let told = "newer version: run `coord up` of that version";
            if problems.iter().any(|problem| problem.contains(told)) {
                Ok(())
            } else {
                Err(problems)
            }
        });
        let names: Vec<Value> = events(&home, None)
            .into_iter()
            .filter(|event| event["source"] == "hook" || event["name"] == "Malformed")
            .map(|event| event["name"].clone())
            .collect();
        assert_eq!(names, ["SessionStart", "PreToolUse"], "each once");
        coordinator.kill();
        let kept = fs::read_dir(home.paths().spool()).unwrap().map(|file| file.unwrap().path());
        let kept = kept.filter(|path| path.is_file()).flat_map(|path| fs::read(path).unwrap());
        let kept: Vec<u8> = kept.collect();
        assert!(String::from_utf8_lossy(&kept).contains(&newer.to_string()));
    }
}

// An older coordinator on a newer store: one clear line, and the store as it was.
#[test]
fn a_newer_snapshot_is_refused_by_everything_that_reads_it() {
    let home = Home::new();
    copy(&releases()[0].join("state"), &home.paths().state);
    let snapshot = home.paths().state.join("snapshot");
    let bytes = fs::read(&snapshot).unwrap();
    let first = frame::record_at(&bytes, 0).unwrap();
    let newer = String::from_utf8(first.to_vec()).unwrap().replace("\"store\":1", "\"store\":9");
    let mut changed = Vec::new();
    frame::push(&mut changed, newer.as_bytes());
    changed.extend_from_slice(&bytes[changed.len()..]);
    fs::write(&snapshot, &changed).unwrap();
    for args in [&["serve"][..], &["inspect"], &["inspect", "5e550001"]] {
        let finished = coord(&home, args);
        assert_eq!(finished.code(), Some(1), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
        let found = format!("store version 9, this program knows {STORE_VERSION}");
        assert!(finished.stderr.contains(&found), "{finished:?}");
        assert!(finished.stderr.contains("run the newer coord"), "{finished:?}");
    }
    assert_eq!(fs::read(&snapshot).unwrap(), changed, "left as it was");
}
