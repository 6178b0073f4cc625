//! The time between the decision to end a harness and the end of its recovery: whenever the coordinator is
//! stopped or killed in it, and however long it is away, the session comes back exactly once (G10, S0-25).
//! And the lives of seeds in which a client was ended that worked.
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use std::process::Command;

use coord_sim::play::play;
use serde_json::Value;

/// At rest in an unattended session after a crash signature. SIGTERM is decided at about 81.2, the harness is
/// gone half a second later, and the resumed client is verified within ten seconds after that.
const BEFORE: &str = r#"
  {"at": 0.0, "start": {"session": "s1", "pid": 100, "pane": "%1", "unattended": true}},
  {"at": 0.6, "hook": {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"}},
  {"at": 0.7, "registry": {"pid": 100, "status": "idle"}},
  {"at": 0.7, "pane": {"pane": "%1", "text": "❯\u00a0"}},
  {"at": 40, "hook": {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt_id": "p1", "permission_mode": "default", "prompt": "x"}},
  {"at": 40.1, "registry": {"pid": 100, "status": "busy"}},
  {"at": 40.1, "transcript": {"type": "user", "sessionId": "s1", "message": {"role": "user", "content": "x"}}},
  {"at": 42, "pane": {"pane": "%1", "text": "RangeError: Maximum call stack size exceeded\n❯\u00a0"}},
  {"at": 50, "hook": {"session_id": "s1", "hook_event_name": "Stop", "prompt_id": "p1", "stop_hook_active": false, "background_tasks": [], "session_crons": []}},
  {"at": 50.1, "registry": {"pid": 100, "status": "idle"}},
  {"at": 50.1, "transcript": {"type": "assistant", "sessionId": "s1", "message": {"role": "assistant", "content": [{"type": "text", "text": "done"}]}}},"#;

/// It is back, by one SIGTERM. An attempt may be lost with the coordinator; then the next one counts.
const AFTER: &str = r#"
  {"at": 260, "expect": {"session": "s1", "state": "idle", "pending_recovery": null, "needs_operator": null, "recovery": {"last_outcome": "verified"}}},
  {"at": 260, "expect_effects": [{"kind": "signal", "signal": "TERM", "pid": 100}, {"kind": "type_text", "pane": "%1", "contains": "resume-exec"}], "forbid_effects": [{"kind": "signal", "signal": "KILL"}, {"kind": "new_window"}]}"#;

/// Why the scenario with these steps in the window does not hold; none if it does.
fn failure(steps: &str) -> Option<String> {
    let played = play(&format!(r#"{{"schema": 1, "steps": [{BEFORE}{steps}{AFTER}]}}"#));
    let lines = || {
        let shown =
            played.lines.iter().filter(|line| line.contains("effect") && !line.contains("capture"));
        shown.cloned().collect::<Vec<String>>().join("\n")
    };
    match &played.end {
        Ok(None) => {
            let clients = played.lines.iter().filter(|line| line.contains("--resume s1")).count();
            (clients != 1).then(|| format!("{clients} clients were started\n{}", lines()))
        }
        Ok(Some(why)) => Some(format!("{why}\n{}", lines())),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// Milliseconds of the window, tried one by one where much happens.
fn moments() -> impl Iterator<Item = u32> {
    (81_000..82_600).step_by(20).chain((82_600..89_000).step_by(400))
}

fn seconds(ms: u32) -> f64 {
    f64::from(ms) / 1_000.0
}

/// When this was decided in the scenario without a disturbance, milliseconds.
fn decided(did: &str) -> f64 {
    let played = play(&format!(r#"{{"schema": 1, "steps": [{BEFORE}{AFTER}]}}"#));
    let lines = played.lines.iter().map(|line| serde_json::from_str(line).unwrap());
    let mut of = lines.filter(|line: &Value| line["did"] == did);
    of.next().and_then(|line| line["t"].as_f64()).unwrap() * 1_000.0
}

// G10: the moments that are tried begin before the decision and end after the last step.
#[test]
fn every_step_from_the_signal_to_the_verification_is_tried() {
    let (first, last) = (moments().min().unwrap(), moments().max().unwrap());
    let (signal, verified) = (decided("SIGTERM to the client"), decided("recovered and verified"));
    assert!(f64::from(first) < signal, "{first} ms, {signal} ms");
    assert!(verified < f64::from(last), "{verified} ms, {last} ms");
}

// G10, S0-25, G6: what coord ended comes back, whatever happens to coord meanwhile.
#[test]
fn a_session_that_coord_ended_comes_back_once_whenever_coord_stops() {
    let mut failed = Vec::new();
    for word in ["stop", "kill"] {
        for down_ms in [300, 5_000] {
            for at in moments() {
                let (from, until) = (seconds(at), seconds(at + down_ms));
                let steps = format!(
                    r#"{{"at": {from}, "coordinator": "{word}"}}, {{"at": {until}, "coordinator": "start"}},"#
                );
                if let Some(why) = failure(&steps) {
                    failed.push(format!("{word} at {from} for {down_ms} ms: {why}"));
                }
            }
        }
    }
    let n = failed.len();
    assert!(failed.is_empty(), "{n} fail; the first: {}", failed[0]);
}

// G10, H-11: so it does where the disk refused to sync, until the coordinator is started anew.
#[test]
fn a_session_that_coord_ended_comes_back_once_after_a_failed_sync() {
    let mut failed = Vec::new();
    for at in moments() {
        let [fails, works, start] = [at, at + 700, at + 1_000].map(seconds);
        let steps = format!(
            r#"{{"at": {fails}, "disk": {{"sync": "fails"}}}},
               {{"at": {works}, "coordinator": "kill"}},
               {{"at": {works}, "disk": {{"sync": "works"}}}},
               {{"at": {start}, "coordinator": "start"}},"#
        );
        if let Some(why) = failure(&steps) {
            failed.push(format!("a failed sync at {fails}: {why}"));
        }
    }
    let n = failed.len();
    assert!(failed.is_empty(), "{n} fail; the first: {}", failed[0]);
}

// H-07, H-53, H-01: seeds in which a client that worked was killed, or ended by an order of half an hour
// before; and one in which a line was typed into the shell of a suspended client.
#[test]
fn no_working_client_is_ended_in_the_lives_in_which_one_was() {
    for seed in ["7002797", "8000114", "177381065"] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_coord-sim"));
        let run = run.args(["run", "--seeds", "1", "--from", seed]).arg("--logs").arg(dir.path());
        let output = run.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{seed}: {text}");
    }
}
