//! Every target on a bounded number of inputs, the same ones each time.
//!
//! `COORD_TEST_SEED` makes other inputs. Holds the random half of G1, G7, G8, G11, H-16, H-26 and
//! S4-07.

use coord_fuzz::{Budget, Counting, TARGETS, fuzz};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[track_caller]
fn check(name: &str, executions: u64) {
    let seed =
        std::env::var("COORD_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let report = fuzz(target, seed, Budget::Executions(executions), false).expect("a run");
    assert_eq!(report.failure, None, "COORD_TEST_SEED={seed}");
    assert!(1 < report.outcomes.len(), "all inputs fare alike: {:?}", report.outcomes);
}

macro_rules! bounded {
    ($($test:ident $name:literal $executions:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name, $executions);
        })*

        #[test]
        fn every_target_has_a_test() {
            let tested = [$($name),*];
            assert!(TARGETS.iter().all(|target| tested.contains(&target.name)));
        }
    };
}

bounded! {
    standard_input_of_hooks_g11_s4_07 "hook" 5000;
    envelopes "envelope" 20000;
    requests "http" 20000;
    journals_g1 "journal" 6000;
    snapshots "snapshot" 1500;
    spools_g1 "spool" 4000;
    settings_files_g8 "settings" 6000;
    registry_entries_r_21 "registry" 30000;
    transcripts "transcript" 3000;
    screens "screen" 5000;
    tmux_answers_h_16 "tmux" 15000;
    configurations "config" 8000;
    streams_r_14 "stream" 4000;
}
