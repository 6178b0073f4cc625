//! H-10, H-32: while sessions live, the journal says at least once a minute that somebody watched; people
//! who read the history do not see it.
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use coord_config::Config;
use coord_host::process::Caller;
use coord_model::{Event, Kind, Now, Record};
use coord_sim::SharedMachine;
use coord_sim::hooks::{Hook, envelope};
use coord_sim::machine::Pace;
use coord_sim::serving::{Post, Serving, paths};
use coord_store::journal::read_segments;
use coord_testkit::Random;
use coord_view::history::{self, Wanted};
use serde_json::json;

const SECOND: u64 = 1_000_000_000;

fn marks(machine: &SharedMachine) -> usize {
    let disk = machine.get().disk.clone();
    let mut marks = 0;
    for segment in read_segments(&disk, &paths().journal(), 0).unwrap() {
        let segment = segment.unwrap();
        let of = |payload| serde_json::from_slice::<Record>(payload).unwrap().entry;
        marks += segment.records().filter(|(_, payload)| matches!(of(payload), Event::Due)).count();
    }
    marks
}

/// Marks of five minutes in which nothing happens.
fn marks_of_five_minutes(has_session: bool) -> usize {
    let now = Now { mono_ns: 100 * SECOND, wall_ms: 1_767_225_600_000 };
    let machine = SharedMachine::new(now, Pace { disk: 2..4, look: 10..20 }, Random::new(1));
    let mut serving = Serving::start(&machine, &Config::default()).unwrap();
    if has_session {
        let process = machine.get().spawn(1000, Kind::Headless, 0);
        let hook = Hook::of_client(&machine.get(), process);
        let payload =
            json!({"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"});
        let body = serde_json::to_vec(&envelope(&hook, &payload).unwrap()).unwrap();
        let caller = Caller { pid: 1001, parent: Some(process.pid) };
        assert_eq!(serving.turn(&[Post { body, caller }], false), [204]);
    }
    while machine.get().now.mono_ns < 400 * SECOND {
        let at = serving.wake_at();
        let mut one = machine.get();
        let passed_ns = at.saturating_sub(one.now.mono_ns);
        one.now.mono_ns += passed_ns;
        one.now.wall_ms += passed_ns / 1_000_000;
        drop(one);
        serving.turn(&[], false);
    }
    let mut shown = Vec::new();
    let disk = machine.get().disk.clone();
    let all = Wanted::default();
    history::read(&disk, &paths().journal(), &all, |line| shown.push(line.name)).unwrap();
    assert!(!shown.is_empty() && !shown.contains(&"Due".to_owned()), "{shown:?}");
    marks(&machine)
}

#[test]
fn h_32_time_that_somebody_watched_is_recorded_while_sessions_live() {
    assert_eq!(marks_of_five_minutes(true), 5);
    assert_eq!(marks_of_five_minutes(false), 0);
}
