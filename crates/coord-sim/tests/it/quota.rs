//! S1-22, H-21: many unattended sessions of one account meet its usage limit at once. They are woken apart from
//! each other, seldom, and all of them go on once there is quota again.
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use std::collections::btree_map::OccupiedEntry;
use std::collections::{BTreeMap, BTreeSet};

use coord_config::Config;
use coord_host::process::Caller;
use coord_model::{Harness, Kind, MarkChange, Now, ProcessRef, SessionState};
use coord_sim::SharedMachine;
use coord_sim::hooks::{Hook, envelope};
use coord_sim::machine::{MACHINE, PID_NS, Pace};
use coord_sim::serving::{CONFIG_DIR, Post, Serving, WakeHook};
use coord_testkit::Random;
use coord_wire::api::{OperatorRequest, OperatorVerb};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const SESSIONS: u32 = 200;
/// The limit holds from the first turn's end until then.
const WINDOW_END: u64 = 100 * MINUTE;

/// The clients of one account, and the coordinator that watches them.
struct World {
    machine: SharedMachine,
    serving: Serving,
    clients: BTreeMap<ProcessRef, String>,
    hooks: u32,
    /// Turns that wakes begin, and when.
    turns: BTreeMap<(u64, u32), ProcessRef>,
    /// When somebody was woken.
    woken: Vec<u64>,
    /// Sessions whose last turn ended well.
    well: BTreeSet<String>,
}

impl World {
    fn new() -> Self {
        let now = Now { mono_ns: 100 * SECOND, wall_ms: 1_767_225_600_000 };
        let machine = SharedMachine::new(now, Pace { disk: 2..4, look: 10..20 }, Random::new(1));
        machine.get().set_registry(CONFIG_DIR, true);
        let serving = Serving::start(&machine, &Config::default()).unwrap();
        let (clients, turns, well) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { machine, serving, clients, hooks: 0, turns, woken: Vec::new(), well }
    }

    fn at(&self) -> u64 {
        self.machine.get().now.mono_ns
    }

    /// A hook of a client, with the wake hook that it starts beside some of them.
    fn fire(&mut self, process: ProcessRef, event: &str, about: (&str, &str)) {
        self.hooks += 1;
        let pid = 1_000_000 + self.hooks;
        let known = Hook::of_client(&self.machine.get(), process);
        let id = (u128::from(known.wall_ms) << 80) | u128::from(self.hooks);
        let kind = (event == "SessionStart").then_some(Kind::Interactive);
        let harness = known.harness.map(|harness| Harness { kind, ..harness });
        let hook = Hook { id, pid, harness, ..known };
        let session_id = self.clients[&process].clone();
        let payload = json!({"session_id": session_id, "hook_event_name": event, about.0: about.1});
        let body = serde_json::to_vec(&envelope(&hook, &payload).unwrap()).unwrap();
        let caller = Caller { pid, parent: Some(process.pid) };
        assert_eq!(self.serving.turn(&[Post { body, caller }], false), [204], "{event}");
        if matches!(event, "SessionStart" | "Stop" | "StopFailure") {
            self.serving.wait(WakeHook { session_id, harness: process, pid });
        }
    }

    /// A client writes its registry entry.
    fn registry(&self, process: ProcessRef, status: &str) {
        let now = self.machine.get().now;
        let entry: Value = json!({
            "pid": process.pid,
            "procStart": process.start_time.to_string(),
            "pidDomain": format!("linux:{MACHINE}:pid:[{PID_NS}]"),
            "sessionId": self.clients[&process],
            "cwd": "/home/dev/project",
            "kind": "interactive",
            "version": "2.1.328",
            "status": status,
            "statusUpdatedAt": now.wall_ms,
        });
        let text = Some(entry.to_string());
        self.machine.get().write_registry(CONFIG_DIR, process.pid, text);
    }

    fn starts(&mut self, number: u32) -> ProcessRef {
        let pid = 1_000 + number;
        let tty = 40_000 + u64::from(pid);
        let process = self.machine.get().spawn(pid, Kind::Interactive, tty);
        self.clients.insert(process, format!("session-{number}"));
        self.registry(process, "idle");
        self.fire(process, "SessionStart", ("source", "startup"));
        process
    }

    /// A turn, which ends at the limit or well.
    fn turn(&mut self, process: ProcessRef) {
        self.registry(process, "busy");
        self.fire(process, "UserPromptSubmit", ("prompt", "x"));
        self.pass(10_000_000);
        let session_id = self.clients[&process].clone();
        if self.at() < WINDOW_END {
            self.fire(process, "StopFailure", ("error", "rate_limit"));
        } else {
            self.fire(process, "Stop", ("permission_mode", "default"));
            assert!(self.well.insert(session_id.clone()), "{session_id} was woken once more");
        }
        self.registry(process, "idle");
    }

    fn pass(&mut self, ns: u64) {
        let mut one = self.machine.get();
        let before_ms = one.now.mono_ns / 1_000_000;
        one.now.mono_ns += ns;
        one.now.wall_ms += one.now.mono_ns / 1_000_000 - before_ms;
    }

    /// Lets time pass up to there; whoever is woken begins a turn half a second later.
    fn run_until(&mut self, end: u64) {
        loop {
            let turn_at = self.turns.keys().next().map(|(at, _)| *at);
            let next = self.serving.wake_at().min(turn_at.unwrap_or(u64::MAX));
            if end <= next {
                return;
            }
            self.pass(next.saturating_sub(self.at()));
            let due = self.turns.first_entry().filter(|entry| entry.key().0 <= next);
            if let Some(process) = due.map(OccupiedEntry::remove) {
                self.turn(process);
            }
            self.serving.turn(&[], false);
            for (hook, text) in self.serving.take_wakes() {
                assert!(text.contains("usage limit"), "{text}");
                self.woken.push(self.at());
                self.turns.insert((self.at() + SECOND / 2, hook.harness.pid), hook.harness);
            }
        }
    }

    fn words(&self) -> BTreeMap<String, SessionState> {
        let all = self.serving.coordinator().state().sessions();
        all.map(|session| (session.session_id.clone(), session.shown.state)).collect()
    }
}

#[test]
fn s1_22_two_hundred_sessions_of_one_account_go_on_after_one_window() {
    let mut world = World::new();
    let processes: Vec<ProcessRef> = (0..SESSIONS).map(|number| world.starts(number)).collect();
    let marks = MarkChange { unattended: Some(true), ..MarkChange::default() };
    world.serving.begin_turn();
    for session in world.clients.values().cloned() {
        let new = OperatorRequest::new(OperatorVerb::Attend);
        let order = OperatorRequest { sessions: vec![session], marks: marks.clone(), ..new };
        world.serving.order(&order).unwrap();
    }
    world.serving.end_turn(false);
    for process in &processes {
        world.turn(*process);
    }
    let began = world.at();
    world.run_until(began + MINUTE);
    assert!(
        world.words().values().all(|word| *word == SessionState::QuotaWait),
        "{:?}",
        world.words()
    );
    // The limits: the first three probes of a window of 100 minutes go before it is over, the fourth is
    // due within two hours and a fifth of it.
    world.run_until(WINDOW_END + 145 * MINUTE);
    let words = world.words();
    assert_eq!(world.well.len(), processes.len(), "{words:?}");
    assert!(words.values().all(|word| *word == SessionState::Idle), "{words:?}");
    let mut in_second: BTreeMap<u64, usize> = BTreeMap::new();
    world.woken.iter().for_each(|at| *in_second.entry(at / SECOND).or_default() += 1);
    let most = in_second.values().max().copied().unwrap_or(0);
    assert!(most <= 10, "{most} probes in one second");
    let wakes = world.woken.len();
    assert!(processes.len() <= wakes && wakes <= 4 * processes.len(), "{wakes} wakes");
}
