//! H-32: the loop tells when it did not turn, when the machine slept and when the wall clock was
//! set, and each is a record of the journal, so that a replay concludes as little. Nothing is told
//! of what a busy machine does anyway.
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use coord_config::Config;
use coord_model::{Event, Now, Record};
use coord_sim::SharedMachine;
use coord_sim::machine::Pace;
use coord_sim::serving::{Serving, paths};
use coord_store::journal::read_segments;
use coord_testkit::Random;

const HOUR_MS: i64 = 3_600_000;

/// The gaps in the journal, in milliseconds.
fn recorded(machine: &SharedMachine) -> Vec<u64> {
    let disk = machine.get().disk.clone();
    let mut gaps = Vec::new();
    for segment in read_segments(&disk, &paths().journal(), 0).unwrap() {
        for (_, payload) in segment.unwrap().records() {
            if let Event::Gap { ns } = serde_json::from_slice::<Record>(payload).unwrap().entry {
                gaps.push(ns / 1_000_000);
            }
        }
    }
    gaps
}

/// The gaps that are recorded when the loop turns again after this much awake and wall time, and
/// then as it should.
fn gaps_after(awake_ms: u64, wall_ms: i64) -> Vec<u64> {
    let now = Now { mono_ns: 1_000_000_000_000, wall_ms: 1_767_225_600_000 };
    let machine = SharedMachine::new(now, Pace { disk: 2..4, look: 10..20 }, Random::new(1));
    let mut serving = Serving::start(&machine, &Config::default()).unwrap();
    serving.turn(&[], false);
    for (awake_ms, wall_ms) in [(awake_ms, wall_ms), (5_000, 5_000), (5_000, 5_000)] {
        let mut one = machine.get();
        one.now.mono_ns += awake_ms * 1_000_000;
        one.now.wall_ms = one.now.wall_ms.checked_add_signed(wall_ms).unwrap();
        drop(one);
        serving.turn(&[], false);
    }
    recorded(&machine)
}

#[test]
fn h_32_a_loop_that_stood_still_says_for_how_long() {
    assert_eq!(gaps_after(20_000, 20_000), [15_000]);
    assert_eq!(gaps_after(15_001, 15_001), [10_001]);
}

#[test]
fn h_32_a_suspend_and_a_set_clock_are_gaps_without_awake_time() {
    assert_eq!(gaps_after(5_000, 8 * HOUR_MS), [0], "asleep");
    assert_eq!(gaps_after(1_000, HOUR_MS), [0], "set forward");
    assert_eq!(gaps_after(1_000, -HOUR_MS), [0], "set back");
    assert_eq!(gaps_after(20_000, 8 * HOUR_MS), [15_000], "both, told once");
}

#[test]
fn h_32_a_late_turn_and_a_small_step_are_none() {
    assert!(gaps_after(15_000, 15_000).is_empty());
    assert!(gaps_after(5_000, 14_900).is_empty());
    assert!(gaps_after(5_000, -4_900).is_empty());
}
