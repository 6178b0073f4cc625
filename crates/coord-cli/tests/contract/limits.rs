//! Floods by one sender, against a real coordinator (H-49): memory stays bounded, nobody else waits, and
//! nothing that was accepted is lost.

use crate::wire::{ask, event, post};
use coord_tests::coord::{Coordinator, coord, health, session};
use coord_tests::home::Home;
use coord_tests::wait::wait_until;
use coord_wire::frame;
use coord_wire::spool::{CURRENT, HEADER_BYTES, HEADER_MAGIC};
use std::fs::OpenOptions;

/// The most memory that the coordinator ever had, in MiB.
#[track_caller]
fn peak_mib(coordinator: &Coordinator) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", coordinator.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Puts events into the spool as hooks do, and makes the file this long.
fn spool(home: &Home, events: &[serde_json::Value], len: u64) {
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
