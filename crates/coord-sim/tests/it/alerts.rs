//! The alert rules of docs/monitoring, evaluated by Prometheus's own `promtool` on what the simulated coordinator tells
//! minute by minute: each fault raises its alert and no other.
//!
//! Some faults are not in the simulated world: there, a coordinator has no loop whose turns take time, and nothing
//! counts the events in its spool. Their series are those of a healthy hour, changed by hand.
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use coord_sim::play::play_and_sample;
use serde_json::{Value, json};

/// The metrics are read this often.
const MINUTE_NS: u64 = 60_000_000_000;
/// Wall time of a scenario's start, in seconds; `promtool` begins at 0.
const WALL_S: f64 = 1_767_225_600.0;

/// What each series was at each minute; the first is before the start.
type Series = BTreeMap<String, Vec<Option<f64>>>;

/// An hour of a session that works for a minute in every ten, with these steps in between.
fn hour(others: Vec<Value>) -> String {
    hours(60.0, others)
}

fn hours(minutes: f64, others: Vec<Value>) -> String {
    let hook = |at: f64, name: &str| json!({"at": at, "hook": {"session_id": "s1", "hook_event_name": name, "prompt_id": format!("p{at}"), "prompt": "x", "stop_hook_active": false, "background_tasks": [], "session_crons": []}});
    let entry =
        |at: f64, status: &str| json!({"at": at, "registry": {"pid": 100, "status": status}});
    let mut steps = vec![
        json!({"at": 0, "start": {"session": "s1", "pid": 100, "pane": "%1"}}),
        json!({"at": 0.6, "hook": {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"}}),
        entry(0.7, "idle"),
    ];
    let mut turn = 10.0;
    while turn < minutes * 60.0 {
        steps.extend([hook(turn, "UserPromptSubmit"), entry(turn + 0.1, "busy")]);
        steps.extend([hook(turn + 60.0, "Stop"), entry(turn + 60.1, "idle")]);
        turn += 600.0;
    }
    steps.extend(others);
    steps.push(json!({"at": minutes * 60.0 + 1.0, "clock": {"jump": 0}}));
    steps.sort_by(|one, other| {
        one["at"].as_f64().unwrap().total_cmp(&other["at"].as_f64().unwrap())
    });
    json!({"schema": 1, "config": {"tracking.settle": "1s"}, "steps": steps}).to_string()
}

/// Another session, which opens a turn and asks for permission.
fn asks(begins: f64) -> Vec<Value> {
    let hook = |at: f64, name: &str| json!({"at": at, "hook": {"session_id": "s2", "hook_event_name": name, "prompt_id": "p", "prompt": "x", "source": "startup", "tool_name": "Bash", "tool_input": {"command": "touch f"}, "tool_use_id": "t"}});
    vec![
        json!({"at": begins, "start": {"session": "s2", "pid": 200, "pane": "%2"}}),
        hook(begins + 0.6, "SessionStart"),
        hook(begins + 10.0, "UserPromptSubmit"),
        hook(begins + 12.0, "PermissionRequest"),
    ]
}

/// Another session, which dies in a turn.
fn dies(begins: f64, number: u32) -> Vec<Value> {
    let (id, pid, pane) = (format!("d{number}"), 300 + number, format!("%{}", 10 + number));
    let hook = |at: f64, name: &str| json!({"at": at, "hook": {"session_id": id, "hook_event_name": name, "prompt_id": "p", "prompt": "x", "source": "startup"}});
    vec![
        json!({"at": begins, "start": {"session": id, "pid": pid, "pane": pane}}),
        hook(begins + 0.6, "SessionStart"),
        json!({"at": begins + 0.7, "registry": {"pid": pid, "status": "idle"}}),
        hook(begins + 10.0, "UserPromptSubmit"),
        json!({"at": begins + 10.1, "registry": {"pid": pid, "status": "busy"}}),
        json!({"at": begins + 20.0, "exit": {"pid": pid, "signal": "KILL"}}),
    ]
}

/// Plays a scenario, and returns what the metrics were meanwhile.
#[track_caller]
fn series(scenario: &str) -> Series {
    let sampled = play_and_sample(scenario, MINUTE_NS);
    assert!(matches!(sampled.played.end, Ok(None)), "{:?}", sampled.played.end);
    let mut series = Series::new();
    let n = sampled.metrics.len();
    for (minute, text) in sampled.metrics.into_iter().enumerate() {
        let text = text.unwrap_or_else(coord_daemon::metrics::down);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            let is_time = matches!(name, "coord_read_time_seconds" | "coord_start_time_seconds");
            let value = if is_time { value - WALL_S } else { value };
            let values = series.entry(name.to_owned()).or_insert_with(|| vec![None; n + 1]);
            values[minute + 1] = Some(value);
        }
    }
    series
}

fn rules() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring/alerts.yml")
}

/// Has `promtool` evaluate the rules on these series, and fails unless exactly these alerts fired.
#[track_caller]
fn check(what: &str, series: &Series, ever: &[&str], at_end: &[&str]) {
    let values = |values: &[Option<f64>]| {
        let mut text = String::new();
        for value in values {
            match value {
                Some(value) => write!(text, "{value} ").unwrap(),
                None => text.push_str("_ "),
            }
        }
        text
    };
    let minutes = series.values().map(Vec::len).max().unwrap() - 1;
    let input: Vec<Value> = series
        .iter()
        .map(|(name, of_name)| json!({"series": name, "values": values(of_name)}))
        .collect();
    let wanted = |names: &[&str]| -> Vec<Value> {
        let sample = |name: &&str| json!({"labels": format!("{{alertname={name:?}}}"), "value": 1});
        names.iter().map(sample).collect()
    };
    let firing = "ALERTS{alertstate=\"firing\"}";
    let expressions = json!([
        {
            "expr": format!("max by (alertname) (max_over_time({firing}[1d]))"),
            "eval_time": format!("{minutes}m"),
            "exp_samples": wanted(ever),
        },
        {
            "expr": format!("max by (alertname) ({firing})"),
            "eval_time": format!("{minutes}m"),
            "exp_samples": wanted(at_end),
        },
    ]);
    let test = json!({
        "rule_files": [rules()],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": input, "promql_expr_test": expressions}],
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("test.yml");
    // JSON is YAML.
    std::fs::write(&file, test.to_string()).unwrap();
    let done = Command::new("promtool").args(["test", "rules"]).arg(&file).output();
    let done = done.expect("promtool of Prometheus; tests/install-promtool brings it");
    let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(done.status.success(), "{what}: {}", said.concat());
}

#[test]
fn a_healthy_hour_raises_nothing() {
    check("healthy", &series(&hour(Vec::new())), &[], &[]);
    let mut answered = asks(100.0);
    answered.push(json!({"at": 700, "hook": {"session_id": "s2", "hook_event_name": "Stop", "prompt_id": "p", "stop_hook_active": false, "background_tasks": [], "session_crons": []}}));
    check("a need answered in 10 minutes", &series(&hour(answered)), &[], &[]);
    check(
        "two crashes",
        &series(&hours(15.0, [dies(100.0, 1), dies(200.0, 2)].concat())),
        &[],
        &[],
    );
}

#[test]
fn each_fault_of_sessions_raises_its_alert_and_no_other() {
    let need = ["CoordNeedWaits"];
    check("an open need", &series(&hour(asks(100.0))), &need, &need);
    let mut late = asks(100.0);
    late.push(json!({"at": 1800, "hook": {"session_id": "s2", "hook_event_name": "Stop", "prompt_id": "p", "stop_hook_active": false, "background_tasks": [], "session_crons": []}}));
    check("a need answered after half an hour", &series(&hour(late)), &need, &[]);
    let crashes = [dies(60.0, 1), dies(120.0, 2), dies(180.0, 3)].concat();
    let loops = ["CoordCrashLoop"];
    // Later, the crashed sessions have needed a person for too long as well.
    check("three crashes", &series(&hours(14.0, crashes)), &loops, &loops);
    let mut fails = dies(60.0, 1);
    fails[0]["start"]["unattended"] = json!(true);
    fails.push(json!({"at": 0.01, "world": {"resume": "fails"}}));
    fails.push(json!({"at": 60.75, "pane": {"pane": "%11", "text": "\u{276f}\u{a0}"}}));
    fails.push(json!({"at": 70.2, "transcript": {"type": "user", "sessionId": "d1", "message": {"role": "user", "content": "x"}}}));
    let failed = ["CoordRecoveryFails"];
    check("a session that cannot be resumed", &series(&hours(14.0, fails)), &failed, &failed);
}

#[test]
fn each_fault_of_the_coordinator_raises_its_alert_and_no_other() {
    let kill = |at: u32| json!({"at": at, "coordinator": "kill"});
    let start = |at: u32| json!({"at": at, "coordinator": "start"});
    let down = ["CoordDown"];
    check("killed", &series(&hour(vec![kill(605)])), &down, &down);
    let back = vec![kill(605), start(1500)];
    check("killed and started again", &series(&hour(back)), &down, &[]);
    let restarts = [605, 905, 1205].map(|at| vec![kill(at), start(at + 5)]).concat();
    check("restarted three times", &series(&hour(restarts)), &["CoordRestarts"], &[]);
    let wrong = |content: &str, at: u32| json!({"at": at, "config_file": content});
    let rejected = ["CoordConfigRejected"];
    check("a wrong configuration", &series(&hour(vec![wrong("wrong", 605)])), &rejected, &rejected);
    let corrected = vec![wrong("wrong", 605), wrong("right", 1500)];
    check("a corrected configuration", &series(&hour(corrected)), &rejected, &[]);
    // Another coordinator holds the directory, so that this one only observes its sessions.
    let locked = json!({"at": 0, "world": {"config_dir": "locked"}});
    let problem = ["CoordProblem"];
    check("a directory of another coordinator", &series(&hour(vec![locked])), &problem, &problem);
}

#[test]
fn each_fault_of_the_disk_raises_its_alert_and_no_other() {
    let sync = |word: &str, at: u32| json!({"at": at, "disk": {"sync": word}});
    let failing = ["CoordJournalNotWritable"];
    check("syncs fail", &series(&hour(vec![sync("fails", 605)])), &failing, &failing);
    let again = vec![sync("fails", 605), sync("works", 1500)];
    check("syncs failed for a while", &series(&hour(again)), &failing, &[]);
    let room = |word: &str, at: u32| json!({"at": at, "disk": {"room": word}});
    let full = ["CoordDiskFull"];
    check("a full disk", &series(&hour(vec![room("none", 605)])), &full, &full);
    let again = vec![room("none", 605), room("plenty", 1500)];
    check("a disk that was full", &series(&hour(again)), &full, &[]);
    let low = ["CoordDiskSpaceLow"];
    check("little space", &series(&hour(vec![room("little", 605)])), &low, &low);
    let slow = ["CoordJournalSlow"];
    let pace = json!({"at": 605, "disk": {"pace": "slow"}});
    check("a slow disk", &series(&hour(vec![pace])), &slow, &slow);
}

/// Sets a series, from minute 20 on, to what `value` says for the minute.
fn set(series: &mut Series, name: &str, value: impl Fn(f64) -> f64) {
    let values = series.get_mut(name).unwrap_or_else(|| panic!("no series {name}"));
    for (minute, slot) in values.iter_mut().enumerate().skip(20) {
        *slot = Some(value(f64::from(u32::try_from(minute).unwrap())));
    }
}

#[test]
fn each_fault_that_is_not_simulated_raises_its_alert_and_no_other() {
    let healthy = series(&hour(Vec::new()));
    let with = |name: &str, value: fn(f64) -> f64| {
        let mut changed = healthy.clone();
        set(&mut changed, name, value);
        changed
    };
    let problem = |name: &str| with(&format!("coord_problems{{problem={name:?}}}"), |_| 1.0);
    for (alert, changed) in [
        ("CoordSpoolGrows", with("coord_spool_events", |minute| minute)),
        ("CoordMetricsStale", with("coord_read_time_seconds", |_| 1_200.0)),
        ("CoordMessagesStuck", with("coord_messages_stuck", |_| 1.0)),
        ("CoordBug", with("coord_invariant_violations_total", |_| 1.0)),
        ("CoordNoticesFail", with("coord_notice_channels_failing", |_| 1.0)),
        ("CoordJournalNotWritable", problem("record_refused")),
    ] {
        check(alert, &changed, &[alert], &[alert]);
    }
    // Simulated hooks do not keep the count of records that is in the head of a spool file.
    for (alert, name) in [
        ("CoordJournalNotWritable", "journal_not_writable"),
        ("CoordJournalNotWritable", "record_refused"),
        ("CoordDiskFull", "disk_full"),
    ] {
        let mut changed = problem(name);
        set(&mut changed, "coord_spool_events", |minute| minute);
        check("events are spooled meanwhile", &changed, &[alert], &[alert]);
    }
    // From then on, no hook is answered within the alert's bound.
    let mut slow = healthy.clone();
    let prefix = "coord_hook_exchange_seconds_bucket{le=\"";
    for (name, values) in healthy.iter().filter(|(name, _)| name.starts_with(prefix)) {
        let bound = name.trim_start_matches(prefix).trim_end_matches("\"}");
        let is_slow = 0.1 < bound.parse::<f64>().unwrap_or(f64::INFINITY);
        let before = values[19].unwrap();
        set(&mut slow, name, |minute| if is_slow { before + minute } else { before });
    }
    check("slow hooks", &slow, &["CoordHooksSlow"], &["CoordHooksSlow"]);
}

// The state keeps no such counts: they begin anew with each start, and nothing of before is counted again.
#[test]
fn crashes_and_recoveries_are_counted_once() {
    let file = "../../tests/scenarios/s0-21-a-failure-keeps-it-pending.json";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let mut scenario: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let steps = scenario["steps"].as_array_mut().unwrap();
    steps.extend([
        json!({"at": 90, "coordinator": "kill"}),
        json!({"at": 91, "coordinator": "start"}),
        json!({"at": 100, "command": {"attend": "s1", "unattended": false}}),
        json!({"at": 170, "clock": {"jump": 0}}),
    ]);
    // At 85 s and at 170 s.
    let sampled = play_and_sample(&scenario.to_string(), 85_000_000_000);
    assert!(matches!(sampled.played.end, Ok(None)), "{:?}", sampled.played.end);
    let value = |text: &Option<String>, name: &str| {
        let lines = text.as_ref().unwrap().lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        values.next().unwrap().parse::<u64>().unwrap()
    };
    for (name, before, after) in [
        ("coord_crashes_total", 1, 0),
        ("coord_recoveries_total{outcome=\"failed\"}", 1, 0),
        ("coord_recoveries_total{outcome=\"verified\"}", 1, 0),
        ("coord_recoveries_total{outcome=\"closed\"}", 0, 0),
        ("coord_decisions_total{rule=\"S0-28a\"}", 1, 0),
        ("coord_decisions_total{rule=\"H-06\"}", 1, 1),
        ("coord_decisions_total{rule=\"other\"}", 0, 0),
    ] {
        let [first, second] = sampled.metrics.as_slice() else { panic!("{:?}", sampled.metrics) };
        assert_eq!((value(first, name), value(second, name)), (before, after), "{name}");
    }
}

// An alert that no fault raises would never be known to work.
#[test]
fn every_alert_has_a_fault_that_raises_it() {
    let rules = std::fs::read_to_string(rules()).unwrap();
    let names: BTreeSet<String> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .map(ToOwned::to_owned)
        .collect();
    let own =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/alerts.rs"));
    let own = own.unwrap();
    let (_, tests) = own.split_once("a_healthy_hour_raises_nothing").unwrap();
    let raised: BTreeSet<String> = tests
        .split('"')
        .filter(|part| {
            part.starts_with("Coord") && part.bytes().all(|byte| byte.is_ascii_alphabetic())
        })
        .map(ToOwned::to_owned)
        .filter(|part| part != "Coord")
        .collect();
    assert_eq!(names, raised);
}
