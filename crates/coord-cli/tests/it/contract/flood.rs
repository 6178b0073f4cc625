//! The combined flood of H-49, with the real coordinator, real hooks and a recognized client:
//!
//! ```sh
//! cargo test --release -p coord-cli --test it -- contract::flood:: --nocapture
//! ```
//!
//! prints the memory, the delay of the real session's events, and what is kept of its history. The delay
//! is measured and not asserted: it depends on what else the machine does.

use super::harness::Harness;
use super::limits::{peak_mib, spool};
use super::wire::{Wire, ask, event, post, request};
use coord_model::{Event, Record, Via};
use coord_store::RealDisk;
use coord_store::journal::Cursor;
use coord_tests::coord::{Coordinator, coord, hook_events, session};
use coord_tests::home::Home;
use coord_tests::wait::wait_until;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REAL: &str = "aaaa1111-session";
/// Within the share of tool events that a session has in a minute.
const EVENTS_MAX: usize = 1000;

/// Sends the beginnings of requests and keeps them open. Their number is that of the connections.
fn half_sent(home: &Home, n: usize) -> Vec<UnixStream> {
    let head = "POST /v1/events HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n";
    let body = vec![b' '; 200_000];
    let mut open = Vec::new();
    for _ in 0..n {
        let mut stream = UnixStream::connect(home.paths().socket()).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let _closed = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        open.push(stream);
    }
    open
}

/// Asks for the list of all sessions again and again, and reads no answer.
fn unread(home: &Home, n: usize) -> Vec<Wire> {
    let ask = |_| {
        let mut wire = Wire::open(home);
        for _ in 0..10 {
            wire.send(request("GET", "/v1/sessions", ""));
        }
        wire
    };
    (0..n).map(ask).collect()
}

fn forge(home: &Home) {
    // Short enough to hold little: the same process floods with half-sent bodies.
    for batch in 0..500_u32 {
        let forged: Vec<Value> = (0..20)
            .map(|n| event(&format!("forged-{}", batch * 20 + n), "SessionStart", 1))
            .collect();
        post(home, &json!(forged));
    }
}

/// How long each event of the real session took from its hook to the journal, and how many went through
/// the spool.
fn delays(home: &Home) -> (Vec<Duration>, usize) {
    let (mut cursor, mut delays, mut by_spool) = (Cursor::before(1), Vec::new(), 0);
    loop {
        let records = cursor.read(&RealDisk, &home.paths().journal()).unwrap();
        if records.is_empty() {
            return (delays, by_spool);
        }
        for (_, payload) in records {
            let record: Record = serde_json::from_slice(&payload).unwrap();
            let Event::Hook(event) = record.entry else { continue };
            if event.session_id == REAL && event.harness.is_some() {
                delays.push(Duration::from_nanos(record.mono_ns.saturating_sub(event.mono_ns)));
                by_spool += usize::from(event.via == Via::Spool);
            }
        }
    }
}

// H-49: all of it at once.
#[test]
fn h49_a_combined_flood_outgrows_nothing_and_trims_no_history() {
    let limit = getrlimit(Resource::Nofile);
    let _as_far_as_it_goes =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let mut client = Harness::headless(&home, REAL);
    assert_eq!(client.report("SessionStart", &json!({"source": "startup"})), 0);
    assert_eq!(client.report("UserPromptSubmit", &json!({"prompt": "x"})), 0);
    spool(&home, &[event(REAL, "Notification", 900_000)], 2 << 30);
    let is_over = AtomicBool::new(false);
    let (mut sent, mut slowest) = (2, Duration::ZERO);
    std::thread::scope(|scope| {
        let forging = scope.spawn(|| forge(&home));
        let sending = scope.spawn(|| half_sent(&home, 2000));
        let asking = scope.spawn(|| unread(&home, 100));
        let is_over = &is_over;
        scope.spawn(move || {
            let ended = [forging.join().is_ok(), sending.join().is_ok(), asking.join().is_ok()];
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(ended, [true; 3]);
        });
        while !is_over.load(Ordering::Relaxed) && sent < EVENTS_MAX {
            let begun = Instant::now();
            assert_eq!(client.report("PostToolUse", &json!({"tool_name": "Read"})), 0);
            slowest = slowest.max(begun.elapsed());
            sent += 1;
        }
    });
    // With what it had spooled before.
    let names = wait_until("all events of the real session are taken in", || {
        let names = hook_events(&home, REAL);
        if names.len() == sent + 1 { Ok(names) } else { Err(names.len()) }
    });
    assert_eq!(names.first().map(String::as_str), Some("SessionStart"));
    let kinds: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    assert!(kinds.contains("Notification"), "{kinds:?}");
    let peak = peak_mib(&coordinator);
    assert!(peak < 200, "{peak} MiB");
    let (delays, by_spool) = delays(&home);
    let worst = delays.iter().max().unwrap();
    println!(
        "flood: {peak} MiB at most (limit 200); {} of {sent} events of the real session kept, \
         worst delay {worst:?} (goal 100 ms), {by_spool} by the spool, slowest hook {slowest:?}",
        delays.len()
    );
    assert_eq!(delays.len(), sent);
    let metrics = ask(&home, "GET", "/metrics", "").expect(200).body;
    let dropped =
        metrics.lines().find_map(|line| line.strip_prefix("coord_records_dropped_total "));
    assert_eq!(dropped, Some("9000"), "all but 1,000 of the forged ones");
    assert_eq!(session(&home, REAL).map(|one| one.owner.unwrap().alive), Some(Some(true)));
    let status = coord(&home, &["status"]).expect_success().stdout;
    assert!(status.contains("known only from unverified events"), "{status}");
}
