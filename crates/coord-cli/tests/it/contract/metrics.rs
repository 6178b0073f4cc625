//! `coord metrics`: what it prints, writes and serves, with the real programs, and Prometheus's own `promtool`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::harness::Harness;
use super::wire::{client_event, event, post, with};
use coord_tests::coord::{Coordinator, coord, install, programs, session_when};
use coord_tests::home::Home;
use coord_tests::process::Running;
use coord_tests::wait::{PATIENCE, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const DOWN: &str =
    "# TYPE coord_up gauge\n# HELP coord_up Whether the coordinator answers.\ncoord_up 0\n";

/// Has `promtool` check a text, and returns what it says; nothing if all is well.
#[track_caller]
fn promtool(arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool; tests/install-promtool brings it");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let said = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(done.status.success(), "{said}\n{input}");
    said
}

/// The values of the samples.
fn values(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

/// A family of metrics: its type and its help.
type Families = BTreeMap<String, (String, String)>;

fn families(text: &str) -> Families {
    let mut families = Families::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "TYPE", name, kind] => {
                let before =
                    families.insert((*name).to_owned(), ((*kind).to_owned(), String::new()));
                assert_eq!(before, None, "{name} is there twice");
            }
            ["#", "HELP", name, help] => families.get_mut(*name).unwrap().1.push_str(help),
            _ => (),
        }
    }
    families
}

/// A coordinator with two sessions, and what `coord metrics` prints of it. Events of one are posted; the other's real
/// hooks report that it asks for permission.
struct Place {
    text: String,
    _harness: Harness,
    coordinator: Coordinator,
    home: Home,
}

fn populated() -> Place {
    let home = Home::new();
    install(&home);
    let coordinator = Coordinator::start(&home);
    post(&home, &client_event("session-one", "UserPromptSubmit", 1));
    post(&home, &client_event("session-one", "UserPromptSubmit", 1));
    let mut harness = Harness::at_terminal(&home, "session-two");
    harness.begin_turn();
    assert_eq!(harness.report("PermissionRequest", &json!({"tool_name": "Bash"})), 0);
    session_when(&home, "session-two", "it needs somebody", |session| session.need.is_some());
    let text = coord(&home, &["metrics"]).expect_success().stdout;
    Place { text, _harness: harness, coordinator, home }
}

#[test]
fn q05_what_happened_is_counted() {
    let Place { home, text, .. } = &populated();
    let values = values(text);
    for (sample, value) in [
        ("coord_up", 1.0),
        ("coord_hook_events_total", 4.0),
        ("coord_hook_events_duplicate_total", 1.0),
        ("coord_hook_exchange_seconds_count", 5.0),
        ("coord_invariant_violations_total", 0.0),
        ("coord_sessions{state=\"running\"}", 1.0),
        ("coord_sessions{state=\"awaiting_permission\"}", 1.0),
        ("coord_sessions{state=\"crashed\"}", 0.0),
        ("coord_needs{kind=\"permission\"}", 1.0),
        ("coord_needs{kind=\"two_owners\"}", 0.0),
        ("coord_need_age_seconds_gcount", 1.0),
        ("coord_decisions_total{rule=\"U-01\"}", 1.0),
        ("coord_decisions_total{rule=\"other\"}", 0.0),
        ("coord_recoveries_total{outcome=\"verified\"}", 0.0),
        ("coord_problems{problem=\"journal_not_writable\"}", 0.0),
        ("coord_spool_events", 0.0),
    ] {
        assert_eq!(values.get(sample), Some(&value), "{sample} in\n{text}");
    }
    let version = format!("coord_build_info{{version=\"{}\"}}", coord_wire::VERSION);
    assert_eq!(values.get(&version), Some(&1.0), "{text}");
    assert!(0.0 < values["coord_journal_bytes"] && 0.0 < values["coord_disk_free_bytes"]);
    // The sync of what was posted may still be in progress at the first look.
    wait_until("a sync of the journal is counted", || {
        let text = coord(home, &["metrics"]).expect_success().stdout;
        let n = self::values(&text)["coord_journal_sync_seconds_count"];
        if 0.0 < n { Ok(()) } else { Err(text) }
    });
}

#[test]
fn q05_both_formats_are_right_for_prometheus() {
    let Place { home, text, .. } = &populated();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    // The one command of promtool that reads OpenMetrics wants samples with times.
    let timed: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(_) => format!("{line}\n"),
            None => format!("{line} 1700000000\n"),
        })
        .collect();
    let dir = home.tmp();
    let (file, blocks) = (dir.join("timed"), dir.join("blocks"));
    fs::write(&file, timed).unwrap();
    let (file, blocks) = (file.display().to_string(), blocks.display().to_string());
    promtool(&["tsdb", "create-blocks-from", "openmetrics", &file, &blocks], "");
    let prom = dir.join("coord.prom");
    coord(home, &["metrics", "--textfile", &prom.display().to_string()]).expect_success();
    let older = fs::read_to_string(&prom).unwrap();
    assert_eq!(promtool(&["check", "metrics"], &older), "", "{older}");
    assert!(!older.contains("# EOF") && !older.contains("# UNIT"), "{older}");
    let names = |text: &str| values(text).into_keys().collect::<BTreeSet<_>>();
    let renamed = text.replace("_gcount", "_count").replace("_gsum", "_sum");
    assert_eq!(names(&older), names(&renamed), "the same series in both");
    promtool(&["check", "rules", &monitoring("alerts.yml").display().to_string()], "");
}

#[test]
fn q05_a_textfile_is_replaced_whole_and_tells_of_a_coordinator_that_is_down() {
    let Place { home, coordinator, .. } = populated();
    let dir = home.dir().join("collector");
    fs::create_dir(&dir).unwrap();
    let prom = dir.join("coord.prom");
    fs::write(&prom, "old").unwrap();
    let mut reader = fs::File::open(&prom).unwrap();
    let file = prom.display().to_string();
    coord(&home, &["metrics", "--textfile", &file]).expect_success();
    let mut old = String::new();
    reader.read_to_string(&mut old).unwrap();
    assert_eq!(old, "old", "who reads the old file reads it to its end");
    assert_eq!(fs::metadata(&prom).unwrap().permissions().mode() & 0o777, 0o644);
    assert!(fs::read_to_string(&prom).unwrap().contains("\ncoord_up 1\n"));
    coordinator.kill();
    let done = coord(&home, &["metrics", "--textfile", &file]);
    assert_eq!(
        (done.code(), done.stderr.as_str()),
        (Some(4), "coord: Coordinator not running. → coord up\n")
    );
    assert_eq!(fs::read_to_string(&prom).unwrap(), DOWN);
    let done = coord(&home, &["metrics"]);
    assert_eq!((done.code(), done.stdout.as_str()), (Some(4), ""));
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(names, ["coord.prom"], "nothing else is left there");
    let done = coord(
        &home,
        &["metrics", "--textfile", &home.dir().join("no/x.prom").display().to_string()],
    );
    assert_eq!(done.code(), Some(1), "{done:?}");
}

/// `coord metrics --listen`, and where it listens.
fn listening(home: &Home) -> (Running, SocketAddr) {
    let mut command = home.command(programs().join("coord"));
    command.args(["metrics", "--listen", "127.0.0.1:0"]).env("COORD_HOME", home.root());
    let process = Running::start(command, &home.tmp(), "listen");
    let address = wait_until("it says where it listens", || {
        assert!(!process.has_ended(), "{:?}", process.output());
        let [output, _] = process.output();
        let url = output.split("http://").nth(1).and_then(|rest| rest.split("/metrics\n").next());
        url.and_then(|address| address.parse().ok()).ok_or(output.clone())
    });
    (process, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes, and returns the answer up to the end of the connection.
#[track_caller]
fn exchange(address: SocketAddr, bytes: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn q05_metrics_are_served_to_this_machine_alone() {
    let Place { home, coordinator, .. } = populated();
    let (process, address) = listening(&home);
    let get = |fields: &str| exchange(address, &format!("GET /metrics HTTP/1.1\r\n{fields}\r\n"));
    let host = format!("Host: {address}\r\n");
    let plain = get(&host);
    assert!(
        plain.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"),
        "{plain}"
    );
    let (_, body) = plain.split_once("\r\n\r\n").unwrap();
    assert_eq!(promtool(&["check", "metrics"], body), "");
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3\r\n";
    let open = get(&format!("{host}{accept}"));
    assert!(
        open.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0"),
        "{open}"
    );
    assert!(open.ends_with("\n# EOF\n"), "{open}");
    let head = exchange(address, &format!("HEAD /metrics HTTP/1.1\r\n{host}\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let long = format!("X: {}\r\n", "x".repeat(20_000));
    for (request, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), 403),
        ("GET /metrics HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("POST /metrics HTTP/1.1\r\n{host}Content-Length: 0\r\n\r\n"), 405),
        (format!("GET / HTTP/1.1\r\n{host}\r\n"), 404),
        (format!("GET /v1/sessions HTTP/1.1\r\n{host}\r\n"), 404),
        (format!("GET /metrics HTTP/1.1\r\n{host}{long}\r\n"), 431),
        ("\u{1}\r\n\r\n".to_owned(), 400),
    ] {
        let answer = exchange(address, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        assert!(!answer.contains("coord_up"), "{request:?}: {answer}");
    }
    coordinator.kill();
    let down = get(&host);
    assert!(down.starts_with("HTTP/1.1 200 ") && down.ends_with(DOWN), "{down}");
    process.signal(Signal::TERM);
    let finished = process.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

// No sender of half requests keeps others out for ever, and there are never more than sixteen.
#[test]
fn q05_connections_are_bounded() {
    let Place { home, .. } = &populated();
    let (_process, address) = listening(home);
    let open = |_| {
        let mut stream = connect(address);
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
        stream
    };
    let mut silent: Vec<TcpStream> = (0..16).map(open).collect();
    let mut refused = String::new();
    // They are accepted in order.
    drop(connect(address).read_to_string(&mut refused));
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed without an answer");
    }
    wait_until("a request is answered again", || {
        let answer = exchange(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if answer.starts_with("HTTP/1.1 200 ") { Ok(()) } else { Err(answer) }
    });
}

#[test]
fn q05_other_machines_are_not_served() {
    let home = Home::new();
    for (address, why) in [
        ("0.0.0.0:9469", "other machines could read the metrics"),
        ("192.0.2.1:9469", "other machines could read the metrics"),
        ("9469", "use one with a port, such as 127.0.0.1:9469"),
    ] {
        let done = coord(&home, &["metrics", "--listen", address]);
        assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""), "{done:?}");
        assert!(done.stderr.contains(why) && done.stderr.lines().count() == 1, "{done:?}");
    }
}

// G11, H-26: a label that held what a session says would tell others of it, and grow without bound.
#[test]
fn q05_nothing_that_a_session_says_is_in_the_metrics() {
    let Place { home, text: before, .. } = &populated();
    let hostile = "evil\"} 1\ncoord_up 0\n# EOF \u{1b}[2J<b>";
    for n in 0..20 {
        let id = format!("evil{n}{hostile}");
        let fields = json!({
            "cwd": format!("/evil/{hostile}"), "tool_name": hostile, "permission_mode": hostile, "host": hostile,
            "transcript_path": hostile, "config_dir": hostile, "source": hostile, "prompt_id": hostile,
        });
        for (number, name) in [(1, "UserPromptSubmit"), (2, "PermissionRequest"), (3, hostile)] {
            post(home, &with(event(&id, name, number), fields.clone()));
            post(home, &with(client_event(&format!("c{id}"), name, number), fields.clone()));
        }
    }
    let after = coord(home, &["metrics"]).expect_success().stdout;
    let series = |text: &str| values(text).into_keys().collect::<BTreeSet<_>>();
    assert_eq!(
        series(&after),
        series(before),
        "other sessions are other values, never other series"
    );
    for text in ["evil", "/", "session-one", "\u{1b}", "<b>"] {
        assert!(!after.contains(text), "{text:?} in\n{after}");
    }
    let known = values(&after).into_iter().filter(|(name, _)| name.starts_with("coord_sessions{"));
    assert!(40.0 <= known.map(|(_, n)| n).sum(), "{after}");
}

fn monitoring(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring").join(file)
}

/// The names of metrics in a text, without the suffixes of samples.
fn names_in(text: &str, families: &Families) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("coord_"));
    words
        .map(|word| {
            let suffixes = ["_bucket", "_count", "_sum", "_gcount", "_gsum", "_total", "_info"];
            let short = suffixes.iter().filter_map(|suffix| word.strip_suffix(suffix));
            let family = short.chain([word]).find(|name| {
                let suffix = word.strip_prefix(*name).unwrap_or_default();
                families.get(*name).is_some_and(|(kind, _)| fits(kind, suffix))
            });
            family.unwrap_or(word).to_owned()
        })
        .collect()
}

/// Whether samples of this type of family end like this.
fn fits(kind: &str, suffix: &str) -> bool {
    match kind {
        "counter" => suffix == "_total",
        "info" => suffix == "_info",
        "histogram" => ["_bucket", "_count", "_sum"].contains(&suffix),
        // The two formats name the others differently, so that no query can use them.
        "gaugehistogram" => suffix == "_bucket",
        _ => suffix.is_empty(),
    }
}

#[test]
fn q05_alerts_and_board_ask_for_metrics_that_exist() {
    let Place { text, .. } = &populated();
    let families = families(text);
    let series: BTreeSet<String> = values(text).into_keys().collect();
    let board = fs::read_to_string(monitoring("dashboard.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<String> =
        targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    assert!(20 < queries.len());
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has its own id");
    let alerts = fs::read_to_string(monitoring("alerts.yml")).unwrap();
    for text in queries.iter().chain([&alerts]) {
        for name in names_in(text, &families) {
            assert!(families.contains_key(&name), "{name} of {text}");
        }
        // So do the values of labels, or a query would never match.
        for label in ["le", "problem", "state", "kind", "outcome"] {
            for part in text.split(&format!("{label}=\"")).skip(1) {
                let value = part.split('"').next().unwrap();
                let wanted = format!("{label}=\"{value}\"");
                assert!(series.iter().any(|one| one.contains(&wanted)), "{wanted} of {text}");
            }
            for operator in ["=~", "!~"] {
                for part in text.split(&format!("{label}{operator}\"")).skip(1) {
                    for value in part.split('"').next().unwrap().split('|') {
                        let wanted = format!("{label}=\"{value}\"");
                        assert!(
                            series.iter().any(|one| one.contains(&wanted)),
                            "{wanted} of {text}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn q05_the_documentation_has_every_metric_as_it_is() {
    let Place { text, .. } = &populated();
    let row = |(name, (kind, help)): (&String, &(String, String))| {
        let sample = match kind.as_str() {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.clone(),
        };
        let prefix = format!("{sample}{{");
        let labelled = text.lines().find_map(|line| line.strip_prefix(&prefix));
        let label = labelled.and_then(|rest| rest.split('=').next());
        let label = label.filter(|_| !kind.contains("histogram"));
        let label = label.map(|label| format!("{{{label}}}")).unwrap_or_default();
        format!("| `{sample}{label}` | {kind} | {help} |")
    };
    let rows = families(text).iter().map(row).collect::<Vec<_>>();
    let page = fs::read_to_string(monitoring("../monitoring.md")).unwrap();
    let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| `coord_")).collect();
    assert_eq!(table, rows, "docs/monitoring.md must have these rows:\n{}", rows.join("\n"));
    for problem in
        values(text).keys().filter_map(|one| one.strip_prefix("coord_problems{problem=\""))
    {
        let name = problem.trim_end_matches("\"}");
        assert!(
            page.contains(&format!("| `{name}` |")),
            "docs/monitoring.md lacks the problem {name}"
        );
    }
    let alerts = fs::read_to_string(monitoring("alerts.yml")).unwrap();
    for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(
            page.contains(&format!("| {alert} |")),
            "docs/monitoring.md lacks the alert {alert}"
        );
    }
}
