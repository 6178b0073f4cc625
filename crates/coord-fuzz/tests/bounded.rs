//! Every target on a bounded number of inputs, the same ones each time.
//!
//! `COORD_TEST_SEED` makes other inputs. Holds the random half of G1, G7, G8, G11, H-16, H-26 and
//! S4-07.

use coord_fuzz::TARGETS;
use std::process::Command;

/// Lines of a failed run that are shown.
const LINES_SHOWN: usize = 60;

#[track_caller]
fn check(name: &str, executions: u64) {
    let seed = std::env::var("COORD_TEST_SEED").unwrap_or_else(|_| "1".to_owned());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut run = Command::new(env!("CARGO_BIN_EXE_coord-fuzz"));
    run.args([name, "--seed", &seed, "--dir"]).arg(dir.path()).env("TMPDIR", dir.path());
    let output = run.args(["--", &format!("-runs={executions}")]).output().expect("a run");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    if !output.status.success() {
        let lines: Vec<&str> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
        panic!(
            "COORD_TEST_SEED={seed}, {}, inputs are in {}\n{end}",
            output.status,
            dir.keep().display()
        );
    }
    let outcomes = text.lines().filter(|line| line.starts_with("outcome: ")).count();
    assert!(1 < outcomes, "all inputs fare alike:\n{text}");
}

/// Without a name all targets run, and each that fails is named.
#[test]
fn all_targets_run() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut run = Command::new(env!("CARGO_BIN_EXE_coord-fuzz"));
    run.args(["--minutes", "1", "--dir"]).arg(dir.path()).env("TMPDIR", dir.path());
    let output = run.arg("--").arg(dir.path().join("missing/input")).output().expect("a run");
    let text = String::from_utf8_lossy(&output.stderr);
    let named = text.lines().find_map(|line| line.strip_prefix("FAILED: "));
    let (named, _) = named.and_then(|line| line.split_once(';')).expect("a list of what failed");
    let mut named: Vec<&str> = named.split(", ").collect();
    let mut all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    named.sort_unstable();
    all.sort_unstable();
    assert_eq!((named, output.status.code()), (all, Some(1)), "{text}");
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
