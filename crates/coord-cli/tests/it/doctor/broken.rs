//! Each set-up that is broken in one way is named, with its remedy.

use super::place::{Place, chmod, put_hooks};
use coord_host::here::Here;
use coord_model::stamp::rfc3339;
use coord_store::now;
use coord_tests::coord::Coordinator;
use coord_tests::process::copy_program;
use coord_wire::api::Health;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

/// Breaks a place in one way.
type Break = fn(&mut Place);

/// The page that has each finding with its remedy.
const PAGE: &str = include_str!("../../../../../docs/what-can-go-wrong.md");

/// Wants the finding `check` with this in its remedy, there and on the page.
#[track_caller]
fn expect(place: &Place, check: &str, remedy: &str) {
    let findings = place.findings(&[]);
    let found = findings.iter().find(|finding| {
        finding["check"] == check
            && finding["level"] != "ok"
            && finding["remedy"].as_str().is_some_and(|text| text.contains(remedy))
    });
    assert!(found.is_some(), "{check} with {remedy:?} in {findings:#?}");
    let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{check}`")));
    assert!(
        row.is_some_and(|row| row.replace('`', "").contains(remedy)),
        "{check}: no {remedy:?} in {row:?}"
    );
}

#[track_caller]
fn expect_all(table: &[(Break, &str, &str)]) {
    for (break_it, check, remedy) in table {
        let mut place = Place::new();
        break_it(&mut place);
        expect(&place, check, remedy);
    }
}

/// Programs of a debug build are dynamic; nothing else may be found of what works.
#[test]
fn a_set_up_that_works_has_no_complaint() {
    let place = Place::new();
    let _coordinator = Coordinator::start(&place.home);
    let complaints = place.complaints();
    assert!(complaints.iter().all(|check| check == "programs.static"), "{complaints:?}");
    let probe = place.findings(&[]).pop().unwrap();
    assert_eq!(probe["check"], "probe.arrived");
    assert!(probe["found"].as_str().unwrap().contains("in the journal, by the socket"), "{probe}");
    // The probe is in the history and is no session.
    let sessions = place.coord(&["inspect", "--json"]).expect_success().stdout;
    assert!(sessions.contains("\"sessions\":[]"), "{sessions}");
    let events = place.coord(&["events"]).expect_success().stdout;
    assert!(events.contains("CoordProbe"), "{events}");
}

#[test]
fn without_a_coordinator_the_probe_waits_in_the_spool() {
    let place = Place::new();
    let findings = place.findings(&[]);
    let probe = findings.last().unwrap();
    assert!(probe["found"].as_str().unwrap().contains("in the spool"), "{probe}");
    let inspect = place.coord(&["inspect", "--json"]).expect_success().stdout;
    let inspect: Value = serde_json::from_str(&inspect).unwrap();
    assert_eq!(inspect["sessions"], json!([]));
    assert_eq!(inspect["coordinator"]["problems"], json!([]));
}

/// Puts another program in the place of a hook.
fn put(place: &mut Place, program: &str, hook: &str) {
    copy_program(program.as_ref(), &place.hooks.join(hook));
}

// H-39
#[test]
fn broken_programs_are_named_h39() {
    expect_all(&[
        (
            |place| fs::remove_file(place.hooks.join("coord-hook-stop")).unwrap(),
            "programs.missing",
            "install.sh",
        ),
        (
            |place| chmod(&place.hooks.join("coord-hook-stop"), 0o644),
            "programs.executable",
            "chmod 755",
        ),
        (
            |place| chmod(&place.hooks.join("coord-hook-stop"), 0o777),
            "programs.writable",
            "chmod 755",
        ),
        (
            |place| fs::write(place.hooks.join("coord-hook-stop"), "#!/bin/sh\n").unwrap(),
            "programs.format",
            "install.sh",
        ),
        (|place| put(place, "/bin/true", "coord-hook-stop"), "programs.static", "install.sh"),
        (|place| put(place, "/bin/true", "coord-hook-stop"), "programs.version", "install.sh"),
        (|place| put(place, "/bin/true", "coord-hook-event"), "probe.arrived", "coord install"),
        (|place| put(place, "/bin/false", "coord-hook-event"), "probe.hook", "coord doctor"),
    ]);
}

fn double_stop(place: &mut Place) {
    place.edit_json(|settings| {
        let groups = settings["hooks"]["Stop"].as_array_mut().unwrap();
        groups.push(groups[0].clone());
    });
}

fn add_plugin(place: &mut Place) {
    let dir = place.home.config_dir().join("plugins/cache/market/coord/1.0/hooks");
    fs::create_dir_all(&dir).unwrap();
    fs::copy(place.settings(), dir.join("hooks.json")).unwrap();
}

fn move_prefix(place: &mut Place) {
    let old = place.home.dir().join("old/lib/coord");
    put_hooks(&old);
    place.install(&old);
}

fn register_in_project(place: &mut Place) {
    let dir = place.home.project().join(".claude");
    fs::create_dir(&dir).unwrap();
    fs::copy(place.settings(), dir.join("settings.local.json")).unwrap();
}

// G8, H-24
#[test]
fn broken_settings_are_named_h24() {
    expect_all(&[
        (
            |place| fs::remove_file(place.settings()).unwrap(),
            "settings.registered",
            "coord install",
        ),
        (|place| place.edit_settings(|_| "{ not json".into()), "settings.file", "repair"),
        (
            |place| {
                fs::remove_file(place.settings()).unwrap();
                symlink("/nonexistent/settings.json", place.settings()).unwrap();
            },
            "settings.file",
            "repair",
        ),
        (
            |place| place.edit_json(|all| all["disableAllHooks"] = true.into()),
            "settings.disabled",
            "remove \"disableAllHooks\"",
        ),
        (
            |place| {
                place.edit_json(|all| drop(all["hooks"].as_object_mut().unwrap().remove("Stop")));
            },
            "settings.events",
            "coord install",
        ),
        (double_stop, "settings.doubled", "coord install"),
        (add_plugin, "settings.plugin", "disable that plugin"),
        (register_in_project, "settings.doubled", "coord uninstall --scope local"),
        (
            |place| {
                let root = place.root.display().to_string();
                place.edit_settings(|text| text.replace(&root, "/another/root"));
            },
            "settings.root",
            "coord install",
        ),
        // H-48: as an earlier version registered it.
        (
            |place| {
                place.edit_json(|settings| {
                    for groups in settings["hooks"].as_object_mut().unwrap().values_mut() {
                        for group in groups.as_array_mut().unwrap() {
                            let args = group["hooks"][0]["args"].as_array_mut().unwrap();
                            args.truncate(2);
                        }
                    }
                });
            },
            "settings.directories",
            "coord install",
        ),
        (move_prefix, "settings.prefix", "coord install"),
        (
            |place| {
                place.edit_settings(|text| {
                    text.replace("\"timeout\": 5,", "\"timeout\": 6,")
                        .replace("\"timeout\": 5\n", "\"timeout\": 6\n")
                });
            },
            "settings.outdated",
            "coord install",
        ),
    ]);
}

fn record_of(place: &Place, field: &str, value: Value) {
    let path = place.home.paths().install_record();
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record[field] = value;
    fs::write(&path, record.to_string()).unwrap();
}

// G11, H-15
#[test]
fn broken_state_is_named_g11_h15() {
    expect_all(&[
        (
            |place| place.home.write_config("[approvals]\nremote = true\n"),
            "approvals.passphrase",
            "coordctl passphrase",
        ),
        (
            |place| {
                place.home.write_config(
                    "[approvals]\nremote = true\nheadless = true\n[notice.channel.here]\nvia = \"tmux\"\nkinds = [\"crashed\"]\n",
                );
            },
            "approvals.headless",
            "permission",
        ),
        (
            |place| place.home.write_config("[tracking]\nsetle = \"5s\"\n"),
            "state.config",
            "coord config check",
        ),
        (
            |place| fs::remove_dir_all(place.home.paths().state).unwrap(),
            "state.directory",
            "coord install",
        ),
        (|place| chmod(&place.home.paths().state, 0o755), "state.mode", "chmod 700"),
        (|place| chmod(&place.home.paths().digest_key(), 0o644), "state.mode", "chmod 600"),
        (
            |place| fs::write(place.home.paths().digest_key(), "cut").unwrap(),
            "state.key",
            "coord install",
        ),
        (
            |place| fs::remove_file(place.home.paths().install_record()).unwrap(),
            "state.record",
            "coord install",
        ),
        (|place| record_of(place, "machine", json!("another")), "state.record", "coord install"),
        (|place| record_of(place, "pid_ns", json!(7)), "state.record", "coord install"),
        (
            |place| record_of(place, "coord", json!("/nonexistent/coord")),
            "state.record",
            "coord install",
        ),
        // H-48
        (|place| record_of(place, "environment", json!({})), "state.record", "coord install"),
        (
            |place| {
                let program = place.home.dir().join("everybodys");
                fs::write(&program, "").unwrap();
                chmod(&program, 0o777);
                record_of(place, "coord", json!(program));
            },
            "state.record",
            "chmod go-w",
        ),
    ]);
}

fn fill_spool(place: &mut Place) {
    let mut header = vec![0; coord_wire::spool::HEADER_BYTES];
    header[..8].copy_from_slice(&coord_wire::spool::HEADER_MAGIC);
    header[16..24].copy_from_slice(&coord_wire::limits::SPOOL_RECORDS_MAX.to_le_bytes());
    fs::write(place.home.paths().spool().join("current"), header).unwrap();
}

fn cut_tail(place: &mut Place) {
    place.write_journal(now().wall_ms, &[json!({"gap": {"ns": 0}})]);
    let segment = place.home.paths().journal().join(format!("{:020}.seg", 1));
    let whole = fs::read(&segment).unwrap();
    fs::write(&segment, &whole[..whole.len() - 3]).unwrap();
}

/// Bytes that a sync had covered, by a mark behind them.
fn damage_middle(place: &mut Place) {
    place.write_journal(now().wall_ms, &[json!({"gap": {"ns": 0}}), json!({"gap": {"ns": 1}})]);
    let segment = place.home.paths().journal().join(format!("{:020}.seg", 1));
    let mut bytes = fs::read(&segment).unwrap();
    let mark = format!(r#"{{"store":1,"synced":{}}}"#, bytes.len());
    coord_wire::frame::push(&mut bytes, mark.as_bytes());
    bytes[60] ^= 0xff;
    fs::write(&segment, bytes).unwrap();
}

// G1, H-29
#[test]
fn a_broken_store_is_named_h29() {
    expect_all(&[
        (fill_spool, "store.spool", "coord up"),
        (|place| place.feed("no payload", 65), "store.malformed", "spool/malformed"),
        (cut_tail, "store.tail", "coord up"),
        (damage_middle, "store.journal", "keep a copy"),
        (
            |place| place.write_journal(now().wall_ms + 3_600_000, &[json!({"gap": {"ns": 0}})]),
            "store.clock",
            "timedatectl",
        ),
    ]);
}

fn leave_socket(place: &mut Place) {
    let run = place.home.paths().run;
    fs::create_dir_all(&run).unwrap();
    chmod(&run, 0o700);
    drop(UnixListener::bind(place.home.paths().socket()).unwrap());
}

// U-06: the remedy for a file that is wrong is to correct it; a coordinator that ends could not start again.
#[test]
fn a_configuration_that_a_running_coordinator_refuses_is_named_once() {
    let place = Place::new();
    let refused =
        "/c/config.toml: line 3: not TOML; the values read before stay in force; fix the file";
    let answer = health(coord_wire::VERSION, 0, &[refused, "something is odd"]);
    let _none = in_place_of_a_coordinator(&place, Some(answer));
    let doctor = place.doctor(&["--json"]);
    assert!(!doctor.stdout.contains("stay in force"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("something is odd"), "{}", doctor.stdout);
}

#[test]
fn a_broken_coordinator_is_named() {
    expect_all(&[
        (|_| (), "coordinator.runs", "coord up"),
        (|place| drop(place.coord(&["down"]).expect_success()), "coordinator.down", "coord up"),
        (leave_socket, "coordinator.socket", "coord up"),
        (
            |place| place.root = place.home.dir().join("deep/".repeat(30)),
            "coordinator.socket_path",
            "shorter",
        ),
    ]);
}

/// Answers every request in the place of a coordinator, or none.
fn in_place_of_a_coordinator(place: &Place, answer: Option<String>) -> Option<UnixListener> {
    let run = place.home.paths().run;
    fs::create_dir_all(&run).unwrap();
    chmod(&run, 0o700);
    let listener = UnixListener::bind(place.home.paths().socket()).unwrap();
    let Some(body) = answer else { return Some(listener) };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _asked = stream.read(&mut request);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _gone = stream.write_all((head + &body).as_bytes());
        }
    });
    None
}

/// What a coordinator with these problems says of itself.
fn health(version: &str, invariant_violations: u64, problems: &[&str]) -> String {
    let health = Health {
        status: "degraded".into(),
        pid: 1,
        version: version.into(),
        uptime_s: 1,
        mode: "observe".into(),
        seq: 0,
        unsynced_ms: 0,
        timer_late_ms: 0,
        spool_pending: 0,
        sessions: 0,
        unattended: 0,
        records_dropped: 0,
        events_counted: 0,
        invariant_violations,
        problems: problems.iter().map(|&problem| problem.to_owned()).collect(),
        notices: Vec::new(),
        config_changed_at: None,
        config_changes: Vec::new(),
    };
    serde_json::to_string(&health).unwrap()
}

#[test]
fn a_coordinator_that_hangs_is_named() {
    let place = Place::new();
    let _hung = in_place_of_a_coordinator(&place, None);
    expect(&place, "coordinator.hangs", "coord down");
}

#[test]
fn a_coordinator_of_another_version_is_named_and_gets_no_probe() {
    let place = Place::new();
    let answer = health("0.0.1", 1, &["something is odd"]);
    let _none = in_place_of_a_coordinator(&place, Some(answer));
    expect(&place, "coordinator.version", "coord up");
    expect(&place, "coordinator.problem", "coord down");
    expect(&place, "coordinator.invariants", "--bundle");
    expect(&place, "probe.sent", "coord up");
}

#[test]
fn a_broken_client_is_named() {
    expect_all(&[
        (
            |place| fs::remove_file(place.bin.join("claude")).unwrap(),
            "client.claude",
            "install Claude Code",
        ),
        (|place| place.put_client("1.0.7 (Claude Code)"), "client.version", "claude update"),
        (|place| place.put_client("\u{1b}[2J"), "client.version", "claude update"),
        (|place| place.put_client("9.0.0 (Claude Code)"), "client.untried", "upgrade coord"),
    ]);
}

#[test]
fn sessions_with_old_hooks_or_without_any_are_named() {
    let place = Place::new();
    let other = place.home.dir().join("other-claude");
    fs::create_dir(&other).unwrap();
    place
        .home
        .write_config(&format!("[tracking]\nconfig_dirs = [{:?}]\n", other.to_str().unwrap()));
    let here = Here::read(now().wall_ms);
    let envelope = json!({
        "v": 1, "id": "0".repeat(32), "event": "UserPromptSubmit", "session_id": "aaaa1111-old",
        "emitted_at": rfc3339(now().wall_ms), "mono_ns": 1, "boot": here.boot, "host": here.host,
        "machine": here.machine, "pid": 1, "cwd": "/", "hook": "0.0.9",
    });
    let entry = json!({"hook": {"via": "socket", "verified": false, "envelope": envelope}});
    place.write_journal(now().wall_ms, &[entry]);
    expect(&place, "sessions.config_dir", "coord install --config-dir");
    expect(&place, "sessions.old_hooks", "install.sh");
}

// H-26
#[test]
fn foreign_text_cannot_steer_a_terminal_h26() {
    let place = Place::new();
    place.home.write_config("[tracking]\n\"\\u001b[2J\" = 1\n");
    let told = place.doctor(&[]);
    assert!(!told.stdout.contains(|c: char| c.is_control() && c != '\n'), "{told:?}");
    assert!(told.stdout.contains("→ correct it"), "{told:?}");
}
