//! Floods by one sender, against a real coordinator (H-49): memory stays bounded, nobody else waits, and
//! nothing that was accepted is lost.

use crate::disk::SmallDisk;
use crate::wire::{Wire, ask, event, here, post, request, with};
use coord_daemon::process::stat;
use coord_tests::coord::{Coordinator, coord, health, hook_events, programs, session};
use coord_tests::home::Home;
use coord_tests::process::run;
use coord_tests::wait::wait_until;
use coord_wire::frame;
use coord_wire::spool::{CURRENT, HEADER_BYTES, HEADER_MAGIC};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most memory that the coordinator ever had, in MiB.
#[track_caller]
fn peak_mib(coordinator: &Coordinator) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", coordinator.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Puts events into the spool as hooks do, and makes the file this long.
fn spool(home: &Home, events: &[Value], len: u64) {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&HEADER_MAGIC);
    for event in events {
        frame::push(&mut bytes, event.to_string().as_bytes());
    }
    // Beside its place first: the coordinator takes what stands there.
    let (new, dir) = (home.tmp().join("spooled"), home.paths().spool());
    std::fs::write(&new, &bytes).unwrap();
    let file = OpenOptions::new().write(true).open(&new).unwrap();
    file.set_len(len.max(bytes.len() as u64)).unwrap();
    std::fs::rename(&new, dir.join(CURRENT)).unwrap();
    // Only a write is noticed at once.
    std::fs::write(dir.join("noticed"), "x").unwrap();
}

#[test]
fn h49_a_sparse_spool_file_costs_no_memory_and_is_set_aside() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    spool(&home, &[event("spooled", "SessionStart", 1)], 2 << 30);
    wait_until("what stood in it is taken in", || session(&home, "spooled").ok_or("not yet"));
    post(&home, &event("session-one", "SessionStart", 1));
    let status = wait_until("it is set aside", || {
        let status = coord(&home, &["status"]).expect_success().stdout;
        if status.contains("set aside") { Ok(status) } else { Err(status) }
    });
    assert!(status.contains("2147483648 bytes, more than hooks write"), "{status}");
    let peak = peak_mib(&coordinator);
    assert!(peak < 200, "{peak} MiB");
    std::fs::remove_file(home.paths().spool().join("too-long")).unwrap();
    let health = health(&home).unwrap();
    assert!(health.problems.is_empty(), "{health:?}");
    ask(&home, "GET", "/v1/sessions/session-one", "").expect(200);
}

#[test]
fn h49_a_full_spool_is_taken_in_while_others_are_served() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let events: Vec<_> = (1..20_000).map(|n| event("spooled", "Notification", n)).collect();
    let end = event("spooled", "SessionEnd", 20_000);
    spool(&home, &[events, vec![end]].concat(), 0);
    // An event at the socket is answered before the spool is empty.
    wait_until("it is being taken in", || session(&home, "spooled").ok_or("not yet"));
    post(&home, &event("session-one", "SessionStart", 1));
    let so_far = session(&home, "spooled").unwrap();
    assert!(so_far.last_event.unwrap().name != "SessionEnd", "all of it was taken in one go");
    wait_until("all of it is taken in", || {
        let name = session(&home, "spooled").unwrap().last_event.unwrap().name;
        if name == "SessionEnd" { Ok(()) } else { Err(name) }
    });
    let peak = peak_mib(&coordinator);
    assert!(peak < 200, "{peak} MiB");
}

/// An event of a session whose harness is whoever started this test: its sender is verified.
fn verified(session: &str, name: &str, n: u32) -> Value {
    let pid = std::os::unix::process::parent_id();
    let harness = json!({
        "pid": pid, "start_time": stat(pid).unwrap().start_time.to_string(),
        "pid_ns": here().pid_ns, "tty": 34_816, "kind": "interactive",
    });
    with(event(session, name, n), json!({"pid": std::process::id(), "harness": harness}))
}

/// Sends the beginnings of requests and keeps them open. Their number is that of the connections.
fn half_sent(home: &Home, n: usize) -> Vec<UnixStream> {
    let limit = getrlimit(Resource::Nofile);
    let _as_far_as_it_goes =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
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

// H-49: all of it at once.
#[test]
fn h49_a_combined_flood_delays_no_real_session_and_trims_no_history() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    post(&home, &verified("real", "SessionStart", 1));
    let is_over = AtomicBool::new(false);
    let mut worst = Duration::ZERO;
    let mut sent = 1;
    std::thread::scope(|scope| {
        let forging = scope.spawn(|| {
            for batch in 0..100_u32 {
                let forged: Vec<Value> = (0..100)
                    .map(|n| event(&format!("forged-{}", batch * 100 + n), "SessionStart", 1))
                    .collect();
                post(&home, &json!(forged));
            }
        });
        let sending = scope.spawn(|| half_sent(&home, 2000));
        spool(&home, &[event("real", "Notification", 900_000)], 2 << 30);
        let is_over = &is_over;
        scope.spawn(move || {
            let ended = [forging.join().is_ok(), sending.join().is_ok()];
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(ended, [true, true]);
        });
        while !is_over.load(Ordering::Relaxed) {
            sent += 1;
            let event = verified("real", "PostToolUse", sent);
            let begun = Instant::now();
            post(&home, &event);
            worst = worst.max(begun.elapsed());
        }
    });
    let names = wait_until("what the real session had spooled is taken in", || {
        let names = hook_events(&home, "real");
        if names.iter().any(|name| name == "Notification") { Ok(names) } else { Err(names.len()) }
    });
    let peak = peak_mib(&coordinator);
    println!("worst delay {worst:?} of {sent} events, {peak} MiB");
    assert!(peak < 200, "{peak} MiB");
    // 100 ms on a quiet machine with optimized programs; a busy one is given twenty times that.
    assert!(worst < Duration::from_secs(2), "{worst:?}");
    // What exceeds its own share of 1,200 tool events a minute may be counted only.
    let sent = usize::try_from(sent).unwrap();
    assert!(sent.min(1200) <= names.len(), "{} of {sent}", names.len());
    assert_eq!(names.first().map(String::as_str), Some("SessionStart"));
    let metrics = ask(&home, "GET", "/metrics", "").expect(200).body;
    let dropped =
        metrics.lines().find_map(|line| line.strip_prefix("coord_records_dropped_total "));
    assert!(9000 <= dropped.unwrap().parse::<u64>().unwrap(), "{metrics}");
    assert!(session(&home, "real").is_some());
    let status = coord(&home, &["status"]).expect_success().stdout;
    assert!(status.contains("known from unverified events alone"), "{status}");
}

// H-49: an event of any kind has a share, and what exceeds it is visible.
#[test]
fn h49_long_notifications_are_counted_beyond_their_share() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    post(&home, &verified("real", "SessionStart", 1));
    let padding = "x".repeat(60_000);
    for batch in 0..100_u32 {
        let long: Vec<Value> = (1..=10)
            .map(|n| {
                let one = event("talker", "Notification", batch * 10 + n);
                with(one, json!({"padding": padding}))
            })
            .collect();
        post(&home, &json!(long));
    }
    let journal: u64 = std::fs::read_dir(home.paths().journal())
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(journal < 20 << 20, "{journal} bytes");
    let health = health(&home).unwrap();
    assert!(health.problems.iter().any(|one| one.contains("a session's share")), "{health:?}");
    post(&home, &event("talker", "SessionEnd", 2000));
    let last = hook_events(&home, "talker").pop();
    assert_eq!(last.as_deref(), Some("SessionEnd"), "turn edges go last");
    assert_eq!(hook_events(&home, "real"), ["SessionStart"]);
}

// H-49: a history is answered in pages.
#[test]
fn h49_a_history_is_answered_in_pages() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    for batch in 0..11_u32 {
        let many: Vec<Value> = (1..=1000)
            .map(|n| event(&format!("session-{}", batch * 50 + n / 20), "PreToolUse", n))
            .collect();
        post(&home, &json!(many));
    }
    let first = ask(&home, "GET", "/v1/events", "").expect(200).json();
    let first = first.as_array().unwrap();
    assert_eq!(first.len(), 10_000);
    let next = first.last().unwrap()["seq"].as_u64().unwrap() + 1;
    let rest = ask(&home, "GET", &format!("/v1/events?since={next}"), "").expect(200).json();
    assert!(1000 <= rest.as_array().unwrap().len(), "{rest}");
    assert_eq!(rest[0]["seq"].as_u64(), Some(next));
}

// H-49: lists that many ask for at once are made once, in turn with others' events.
#[test]
fn h49_everybody_who_waits_for_a_list_gets_it() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    post(&home, &event("session-one", "SessionStart", 1));
    let mut asking: Vec<Wire> = (0..50).map(|_| Wire::open(&home)).collect();
    for wire in &mut asking {
        wire.send(request("GET", "/v1/sessions", ""));
    }
    for wire in &mut asking {
        let answer = wire.answer().expect("an answer").expect(200).json();
        assert_eq!(answer["sessions"][0]["session_id"], "session-one");
        // The connection is kept.
        wire.send(request("GET", "/healthz", "")).answer().expect("an answer").expect(200);
    }
}

// H-29: the texts of all messages have a limit together, and the refusal names the key.
#[test]
fn h29_the_texts_of_all_messages_have_a_limit() {
    let home = Home::new();
    home.write_config("[queue]\ntexts_mib = 1\n");
    let coordinator = Coordinator::start(&home);
    let send = |n: usize| {
        let text = format!("{n:05}{}", "x".repeat(60_000));
        ask(&home, "POST", "/v1/messages", &json!({"queue": "builds", "text": text}).to_string())
    };
    for n in 0..17 {
        send(n).expect(200);
    }
    let refused = send(17).expect(429);
    assert!(refused.body.contains("the limit is 1 MiB (queue.texts_mib)"), "{refused:?}");
    // A restart knows what is there.
    coordinator.kill();
    let _coordinator = Coordinator::start_again(&home);
    send(18).expect(429);
    coord(&home, &["queue", "claim", "builds", "--as", "w", "--json"]);
}

// H-49: what is read of standard input is bounded, and the error does not pretend to know the rest.
#[test]
fn a_message_that_is_too_long_is_said_to_have_more_than_the_limit() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut command = home.command("/bin/sh");
    command
        .args(["-c", "head -c 3000000 /dev/zero | tr '\\0' x | \"$0\" queue send builds -"])
        .arg(programs().join("coord"))
        .env("COORD_HOME", home.root());
    let refused = run(command, &home.tmp(), "send");
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("has more than 65536 bytes"), "{refused:?}");
}

// H-29: before the disk is full, status says that it runs low and what follows.
#[test]
fn h29_a_nearly_full_disk_is_told_in_status() {
    let disk = SmallDisk::new();
    let _serving = disk.serve();
    let status = disk.coord(&["status"]).expect_success().stdout;
    assert!(
        status.contains("degraded") && status.contains("MiB are free on the disk of"),
        "{status}"
    );
    assert!(status.contains("only turn edges are recorded"), "{status}");
}
