//! A machine publishes thousands of records while its coordinator, its relay and the server are killed at random moments:
//! the server then holds each record once (F-04). `cargo xtask soak relay` runs this at full size.
//!
//! The seed repeats the choices, not the machine's timing.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use coord_fleet::{Batch, Engine as _};
use coord_model::MachineId;
use coord_relay::{Connection, Settings};
use coord_testkit::Random;
use coord_tests::coord::coord;
use coord_tests::nats::NatsServer;
use coord_tests::wait::wait_until;
use coord_wire::exchange::{exchange, mono_ns, request};
use coord_wire::limits::BODY_BYTES_MAX;
use serde_json::Value;

use super::{Machine, fleet, is_whole, kill_relay, set_up, status};
use crate::contract::wire::client_event;

/// Events in a test run. `COORD_TEST_RECORDS` asks for another number (`cargo xtask soak relay`).
const RECORDS: u32 = 600;
/// Coordinator and relay are each killed once in so many events.
const KILLED_ONE_IN: u32 = 200;
/// Events of one session, fewer than a session may have in a minute.
const OF_A_SESSION: u32 = 250;
/// The events of the poster that may be ahead of the faults.
const AHEAD: usize = 16;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Relay,
    Coordinator,
    /// The server is killed, and stays away for a while.
    ServerLeaves,
    ServerReturns,
    /// The server returns without what it had.
    ServerIsWiped,
}

/// What goes wrong, each after so many events.
fn plan(random: &mut Random, records: u32) -> Vec<(u32, Fault)> {
    let below = |random: &mut Random, n: u32| u32::try_from(random.below(n.into())).unwrap();
    let mut plan = Vec::new();
    for fault in [Fault::Relay, Fault::Coordinator] {
        for _ in 0..records / KILLED_ONE_IN {
            plan.push((below(random, records), fault));
        }
    }
    // In the first, the second and the third part of the events, away for a sixth of it at least.
    let part = records / 3;
    for (n, back) in
        [Fault::ServerIsWiped, Fault::ServerReturns, Fault::ServerReturns].iter().enumerate()
    {
        let begin = part * u32::try_from(n).unwrap();
        let leaves = begin + below(random, part / 3);
        let returns = leaves + part / 6 + below(random, part / 3);
        plan.extend([(leaves, Fault::ServerLeaves), (returns, *back)]);
    }
    plan.sort_unstable();
    plan
}

/// The seed of this run: `COORD_TEST_SEED`, else a fresh one.
fn seed() -> u64 {
    std::env::var("COORD_TEST_SEED")
        .map_or_else(|_| RandomState::new().hash_one(0), |seed| seed.parse().expect("a number"))
}

/// Posts events, and says so after each. An event that a coordinator did not answer for is posted again.
fn post_all(socket: &Path, records: u32, posted: &SyncSender<()>) {
    let sessions = (records / OF_A_SESSION).max(5);
    for n in 0..records {
        let id = format!("{:08}-0000-4000-8000-000000000000", n % sessions);
        let event = if (n / sessions).is_multiple_of(2) { "UserPromptSubmit" } else { "Stop" };
        let body = client_event(&id, event, n + 1).to_string();
        let ask = request("POST", "/v1/events", body.as_bytes());
        wait_until("a coordinator takes the event", || {
            let deadline = mono_ns() + 20_000_000_000;
            match exchange(socket, &ask, BODY_BYTES_MAX, deadline) {
                Ok(answer) if answer.status == 204 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        if posted.send(()).is_err() {
            return;
        }
    }
}

/// What was killed.
#[derive(Debug, Default)]
struct Killed {
    relays: u32,
    coordinators: u32,
    servers: u32,
    wiped: u32,
}

/// Lets go wrong what was planned, while events are posted. If it fails, so does the poster: nobody hears it any more.
#[expect(clippy::needless_pass_by_value, reason = "the poster is to see its end")]
fn disturb(
    plan: &[(u32, Fault)],
    posted: Receiver<()>,
    machine: &mut Machine,
    server: &mut NatsServer,
) -> Killed {
    let mut killed = Killed::default();
    let mut n = 0;
    for (at, fault) in plan {
        while n < *at {
            posted.recv().expect("the events are posted");
            n += 1;
        }
        match fault {
            Fault::Relay => {
                kill_relay(machine);
                killed.relays += 1;
            }
            Fault::Coordinator => {
                machine.coordinator.take().expect("it runs").kill();
                machine.starts();
                killed.coordinators += 1;
            }
            Fault::ServerLeaves => {
                // A store that is wiped takes with it what was wrong.
                held(machine, server);
                server.kill();
                killed.servers += 1;
            }
            Fault::ServerReturns => server.start_again(),
            Fault::ServerIsWiped => {
                server.wipe();
                set_up(server, &[machine]);
                killed.wiped += 1;
            }
        }
    }
    while posted.recv().is_ok() {}
    killed
}

/// All batches of a machine, as the server's administrator reads them.
fn batches(machine: &Machine, server: &NatsServer) -> Vec<Batch> {
    let login_seed = std::fs::read_to_string(machine.home.dir().join("admin.seed")).unwrap();
    let login_seed = login_seed.trim().to_owned();
    let ca = Some(server.ca());
    let settings = Settings { url: server.url(), login_seed, ca, cert: None, key: None };
    let id = MachineId::parse(&machine.id).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut engine = Connection::open(&settings, id).await.unwrap().engine();
        let (mut batches, mut place) = (Vec::new(), 0);
        while let Some(held) = engine.batch_after(id, place).await.unwrap() {
            place = held.place;
            let (key, batch) = Batch::open(&held.bytes).unwrap();
            assert_eq!(key.machine(), id);
            batches.push(batch);
        }
        batches
    })
}

/// What the server holds, which is every record up to one, once and in order: the events among them, and the number of the next
/// record.
fn held(machine: &Machine, server: &NatsServer) -> (BTreeMap<u64, Value>, u64) {
    let mut next = 1;
    let mut held: BTreeMap<u64, Value> = BTreeMap::new();
    for batch in batches(machine, server) {
        assert!(batch.first == next && !batch.is_gap, "after record {}: {batch:?}", next - 1);
        for line in batch.lines.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let seq = line["seq"].as_u64().unwrap();
            assert!((batch.first..=batch.last).contains(&seq), "{seq} is in {batch:?}");
            assert!(held.insert(seq, line).is_none(), "record {seq} is there twice");
        }
        next = batch.last + 1;
    }
    (held, next)
}

/// The server holds every record up to the newest, and what happened to sessions as the journal has it. Returns the number of
/// records.
fn compare(machine: &Machine, server: &NatsServer, newest: u64) -> u64 {
    let (held, next) = held(machine, server);
    assert!(newest < next, "{newest} records were durable, {} are held", next - 1);
    let listed = coord(&machine.home, &["events", "--all", "--json"]).expect_success().stdout;
    let here: BTreeMap<u64, Value> = listed
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["seq"].as_u64().unwrap(), line)
        })
        .collect();
    for (seq, line) in &held {
        assert_eq!(here.get(seq), Some(line), "record {seq}");
    }
    // Of what coord observed nothing is published, of tools and notifications a part.
    let is_kept_back =
        |line: &Value| ["observation", "activity"].map(Value::from).contains(&line["kind"]);
    let wanted = here.iter().filter(|(seq, line)| **seq < next && !is_kept_back(line));
    let missing: BTreeSet<u64> =
        wanted.map(|(seq, _)| *seq).filter(|seq| !held.contains_key(seq)).collect();
    assert!(missing.is_empty(), "not published: {missing:?}");
    next - 1
}

/// Each event was recorded once. Returns the record of the newest one.
fn each_was_recorded_once(machine: &Machine, records: u32) -> u64 {
    let listed = coord(&machine.home, &["events", "--json"]).expect_success().stdout;
    let of_hook = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let is_posted = matches!(line["name"].as_str(), Some("UserPromptSubmit" | "Stop"));
        (line["source"] == "hook" && is_posted).then(|| line["seq"].as_u64().unwrap())
    };
    let seqs: Vec<u64> = listed.lines().filter_map(of_hook).collect();
    assert_eq!(seqs.len(), usize::try_from(records).unwrap());
    *seqs.last().unwrap()
}

// F-04: gapless, and nothing twice.
#[test]
fn f_04_what_is_killed_while_it_publishes_leaves_no_gap_and_nothing_twice() {
    let records =
        std::env::var("COORD_TEST_RECORDS").map_or(RECORDS, |n| n.parse().expect("a number"));
    let seed = seed();
    print(&format!("COORD_TEST_SEED={seed}"));
    let (mut server, [mut desk]) = fleet(["desk"]);
    let plan = plan(&mut Random::new(seed), records);
    let (sender, posted) = sync_channel(AHEAD);
    let killed = std::thread::scope(|scope| {
        let socket = desk.home.paths().socket();
        scope.spawn(move || post_all(&socket, records, &sender));
        disturb(&plan, posted, &mut desk, &mut server)
    });
    let newest = each_was_recorded_once(&desk, records);
    let status = wait_until("all of it is published", || {
        let status = status(&desk.home);
        let held = status["relay"]["held_through"].as_u64();
        if held.is_some_and(|held| newest <= held) { Ok(status) } else { Err(status) }
    });
    assert_eq!(status["relay"]["duplicate"], Value::Null, "{status}");
    let checked = is_whole(&desk);
    assert!(checked.starts_with("Records 1 to "), "{checked}");
    let held = compare(&desk, &server, newest);
    assert!(u64::from(records) <= held);
    let Killed { relays, coordinators, servers, wiped } = killed;
    print(&format!(
        "relay: {held} records, {relays} relays killed, {coordinators} coordinators killed, {servers} servers killed, \
         {wiped} servers wiped"
    ));
}

#[expect(clippy::print_stdout, reason = "what `cargo xtask soak relay` reads")]
fn print(line: &str) {
    println!("{line}");
}
