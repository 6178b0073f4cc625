//! Floods by one sender, against a real coordinator (H-49): memory stays bounded, nobody else waits, and
//! nothing that was accepted is lost.

use super::disk::SmallDisk;
use super::harness::Harness;
use super::wire::{Wire, ask, event, post, request, with};
use coord_tests::coord::{Coordinator, coord, health, hook_events, programs, session};
use coord_tests::home::Home;
use coord_tests::process::run;
use coord_tests::wait::wait_until;
use coord_wire::frame;
use coord_wire::spool::{CURRENT, HEADER_BYTES, HEADER_MAGIC};
use serde_json::{Value, json};
use std::fs::OpenOptions;

/// The most memory that the coordinator ever had, in MiB.
#[track_caller]
pub(crate) fn peak_mib(coordinator: &Coordinator) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", coordinator.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Puts events into the spool as hooks do, and makes the file this long.
pub(crate) fn spool(home: &Home, events: &[Value], len: u64) {
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
        if status.contains("set the file aside") { Ok(status) } else { Err(status) }
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

// H-49: an event of any kind has a share, and what exceeds it is visible.
#[test]
fn h49_long_notifications_are_counted_beyond_their_share() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut client = Harness::headless(&home, "real");
    assert_eq!(client.report("SessionStart", &json!({"source": "startup"})), 0);
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
    assert!(
        health.problems.iter().any(|one| one.contains("more events than its share")),
        "{health:?}"
    );
    post(&home, &event("talker", "SessionEnd", 2000));
    let last = hook_events(&home, "talker").pop();
    assert_eq!(last.as_deref(), Some("SessionEnd"), "turn edges go last");
    assert_eq!(hook_events(&home, "real"), ["SessionStart"]);
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
    assert!(refused.body.contains("over the limit of 1 MiB (queue.texts_mib)"), "{refused:?}");
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
    assert!(refused.stderr.contains("has more than 65,536 bytes"), "{refused:?}");
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
    assert!(status.contains("only the starts and ends of turns"), "{status}");
}
