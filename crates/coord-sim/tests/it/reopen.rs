//! A coordinator whose disk fails under it, and what becomes of events meanwhile (G1, H-52).
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use coord_config::Config;
use coord_daemon::engine::Engine;
use coord_host::process::Caller;
use coord_model::stamp::rfc3339;
use coord_model::{Event, Kind, Now, ProcessRef, Record};
use coord_sim::SharedMachine;
use coord_sim::hooks::{Hook, envelope};
use coord_sim::machine::Pace;
use coord_sim::serving::{Post, Serving, paths};
use coord_store::Disk;
use coord_store::disk::DiskFile;
use coord_store::journal::read_segments;
use coord_testkit::{Damage, Fault, Random};
use serde_json::{Value, json};

struct World {
    machine: SharedMachine,
    serving: Serving,
    events: u64,
}

impl World {
    fn new() -> Self {
        Self::with("")
    }

    fn with(config: &str) -> Self {
        let now = Now { mono_ns: 1_000_000_000_000, wall_ms: 1_767_225_600_000 };
        let machine = SharedMachine::new(now, Pace { disk: 2..4, look: 10..20 }, Random::new(1));
        let serving = Serving::start(&machine, &Config::parse(config).unwrap()).unwrap();
        let mut world = Self { machine, serving, events: 0 };
        world.pass(1_000);
        world
    }

    /// So much time passes, in turns of 50 ms.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 50 {
            let mut machine = self.machine.get();
            machine.now.mono_ns += 50_000_000;
            machine.now.wall_ms += 50;
            drop(machine);
            self.serving.turn(&[], false);
        }
    }

    /// A hook reports the next event; its id and the status it is answered with.
    fn report(&mut self) -> (u128, u16) {
        self.events += 1;
        let now = self.machine.get().now;
        let id = format!("{:012x}{:020x}", now.wall_ms, self.events);
        let event = json!({
            "v": 1, "id": id, "event": "UserPromptSubmit", "session_id": "s",
            "emitted_at": rfc3339(now.wall_ms), "mono_ns": now.mono_ns, "boot": "boot",
            "machine": "machine", "pid": 7,
        });
        let caller = Caller { pid: 7, parent: Some(1) };
        let post = Post { body: event.to_string().into_bytes(), caller };
        let status = self.serving.turn(&[post], false)[0];
        (u128::from_str_radix(&id, 16).unwrap(), status)
    }

    /// A client's first hook; the status it is answered with.
    fn begin(&mut self, client: ProcessRef) -> u16 {
        self.hook(client, &json!({"hook_event_name": "SessionStart", "source": "startup"}))
    }

    /// A hook of a client; the status it is answered with.
    fn hook(&mut self, client: ProcessRef, fields: &Value) -> u16 {
        let hook = Hook::of_client(&self.machine.get(), client);
        let mut payload = fields.clone();
        payload["session_id"] = "of-client".into();
        let body = serde_json::to_vec(&envelope(&hook, &payload).unwrap()).unwrap();
        let caller = Caller { pid: hook.pid, parent: Some(client.pid) };
        self.serving.turn(&[Post { body, caller }], false)[0]
    }

    fn problems(&mut self) -> String {
        let answer = self.serving.ask("/healthz").unwrap();
        serde_json::from_slice::<Value>(&answer.body).unwrap()["problems"].to_string()
    }

    /// Whether the event is there after a power loss now.
    fn is_durable(&self, id: u128) -> bool {
        let disk = self.machine.get().disk.after_crash(Damage::Dropped);
        let (engine, _) = Engine::open(&disk, &paths().state, &paths().journal()).unwrap();
        engine.state().has_seen(id)
    }

    fn entries(&self) -> Vec<Event> {
        let disk = self.machine.get().disk.clone();
        let dir = paths().journal();
        let segments = read_segments(&disk, &dir, 0).unwrap();
        let records = segments.flat_map(|segment| {
            let segment = segment.unwrap();
            let records = segment.records();
            records
                .map(|(_, text)| serde_json::from_slice::<Record>(text).unwrap())
                .collect::<Vec<_>>()
        });
        records.map(|record| record.entry).collect()
    }
}

// G1, H-52
#[test]
fn a_journal_that_could_not_be_synced_is_reopened_and_says_so() {
    let mut world = World::new();
    world.machine.get().disk.arm(Fault::Sync);
    let (before, status) = world.report();
    assert_eq!(status, 204);
    world.pass(10_000);
    assert!(world.serving.coordinator().is_read_only());
    assert!(!world.is_durable(before), "its sync failed");
    assert_eq!(world.report().1, 503, "it is to be spooled");
    assert!(world.problems().contains("could not be synced"), "{}", world.problems());
    // The disk works again.
    world.machine.get().disk.disarm();
    world.pass(60_000);
    assert!(!world.serving.coordinator().is_read_only());
    assert!(world.is_durable(before), "what was accepted before is there");
    let (after, status) = world.report();
    assert_eq!(status, 204);
    world.pass(1_000);
    assert!(world.is_durable(after));
    assert_eq!(world.problems(), "[]");
    let mut said = Vec::new();
    for entry in world.entries() {
        if let Event::JournalReopened { after_ms, .. } = entry {
            said.push(after_ms);
        }
    }
    assert!(matches!(said[..], [10_000..=70_000]), "{said:?}");
}

// H-18, H-52: a process that ended while nothing could be recorded is found dead afterwards: when it ended is not
// known, so a key that came since is no key of before.
#[test]
fn an_end_that_could_not_be_recorded_is_no_fresh_one() {
    for is_full in [false, true] {
        let mut world = World::new();
        let client = world.machine.get().spawn(100, Kind::Interactive, 34_816);
        assert_eq!(world.begin(client), 204);
        world.pass(5_000);
        let seen_ms = world.machine.get().now.wall_ms;
        if is_full {
            world.machine.get().disk.arm(Fault::Sync);
            assert_eq!(world.report().1, 204);
            world.pass(10_000);
            assert!(world.serving.coordinator().is_read_only());
        }
        world.machine.get().end(client);
        world.pass(30_000);
        let ended_ms = world.machine.get().now.wall_ms;
        world.machine.get().disk.disarm();
        world.pass(60_000);
        let state = world.serving.coordinator().state();
        let owner = state.session_of(client).and_then(|session| (*session.owner).clone()).unwrap();
        assert!(matches!(owner.seen_alive, Some((false, _))), "{owner:?}");
        let lived_ms = if is_full { 0..=seen_ms } else { seen_ms..=ended_ms };
        assert!(lived_ms.contains(&owner.lived_until_ms), "{is_full} {lived_ms:?} {owner:?}");
    }
}

// A snapshot that could not be written is no snapshot: it is tried again, and shown until then.
#[test]
fn a_failed_snapshot_is_tried_again_and_shown_meanwhile() {
    let mut world = World::new();
    let lock = world.machine.get().disk.open_append(&paths().state_lock()).unwrap();
    assert!(lock.try_lock().unwrap(), "somebody reads the store");
    // No more in a minute than a session's share.
    for _ in 0..5 {
        for _ in 0..500 {
            world.report();
        }
        world.pass(60_000);
    }
    assert!(world.problems().contains("snapshot could not be written"), "{}", world.problems());
    let snapshot = paths().state.join("snapshot");
    let disk = world.machine.get().disk.clone();
    assert!(disk.read(&snapshot, u64::MAX).is_err(), "none is there");
    drop(lock);
    world.pass(31_000);
    world.report();
    world.pass(1_000);
    assert!(disk.read(&snapshot, u64::MAX).is_ok(), "it was tried again");
    assert_eq!(world.problems(), "[]");
}

// N-03: a notice waits for the sync of its decision, so that a loss of power makes no second one without a mark.
#[test]
fn n_03_a_notice_waits_for_the_sync_of_its_decision() {
    let mut world = World::with("[notice]\ndelays = {}\n");
    let client = world.machine.get().spawn(7, Kind::Interactive, 34_816);
    assert_eq!(world.begin(client), 204);
    world.hook(client, &json!({"hook_event_name": "UserPromptSubmit", "prompt": "x"}));
    world.pass(1_000);
    world.machine.get().pace.disk = 5_000..5_001;
    let asked =
        json!({"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {}});
    world.hook(client, &asked);
    world.pass(4_000);
    assert_eq!(world.machine.get().channels.take_shown(), []);
    world.pass(10_000);
    assert_eq!(world.machine.get().channels.take_shown().len(), 1);
}
