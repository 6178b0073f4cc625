//! `tests/run` itself, on a tree where every tool is a script: it goes on after a failure, and ends with a
//! list of what failed (P-06).

use coord_tests::process::{Finished, run, write_program};
use coord_tests::wait::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{create_dir, read_to_string};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// What `cargo test --no-fail-fast` prints where one program has a failed test and another is killed.
const FAILED_TESTS: &str = "
     Running unittests src/lib.rs (target/debug/deps/coord_core-0a1b2c)
test a ... ok
test b::c ... FAILED

failures:

---- b::c stdout ----
    no name of a test

failures:
    b::c

test result: FAILED. 1 passed; 1 failed
     Running tests/wake.rs (target/debug/deps/wake-0a1b2c)
error: 2 targets failed:
    `-p coord-core --lib`
    `-p coord-tests --test wake`
";
const TOOLS: [&str; 19] = [
    "apt-get",
    "cc",
    "c++",
    "readelf",
    "git",
    "tmux",
    "ip",
    "unshare",
    "flock",
    "node",
    "npm",
    "shellcheck",
    "curl",
    "script",
    "setpriv",
    "systemd-analyze",
    "rustc",
    "rustup",
    "timeout",
];

/// Makes what the checks of the tarball's programs look at.
const XTASK: &str = "if [ $1 = dist ]; then
    built=target/dist/build/$5
    mkdir -p \"$built/hook\" \"$built/release\"
    cp -- \"$0\" \"$built/hook/coord-hook-a\"
    cp -- \"$0\" \"$built/release/coord-notice-send\"
fi";

/// A tree that holds nothing but `tests/run` and its tools.
struct Tree(TempDir);

impl Tree {
    /// `cargo` is a script that notes its arguments and then does this.
    #[track_caller]
    fn new(cargo: &str) -> Self {
        let tree = Self(TempDir::new().expect("temporary directory"));
        for dir in ["tests", "tools", "target", "target/debug"] {
            create_dir(tree.0.path().join(dir)).expect("create a directory");
        }
        for tool in TOOLS {
            tree.script(&format!("tools/{tool}"), "");
        }
        tree.script("tools/cargo", &format!("echo \"$*\" >>\"$TREE/asked\"\n{cargo}"));
        tree.script("target/debug/xtask", &format!("echo \"xtask $*\" >>\"$TREE/asked\"\n{XTASK}"));
        let hooks = tree.0.path().join("hooks.json");
        std::fs::write(hooks, "\"/lib/coord-hook-a\"").expect("write hooks.json");
        tree.script("tests/install-claude", "echo a client");
        tree.script("tests/install-promtool", "echo /nowhere");
        tree.script("tests/install-nats", "echo /nowhere");
        tree.script("tests/install-browsers", "echo /nowhere");
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("run");
        std::fs::copy(own, tree.0.path().join("tests/run")).expect("copy tests/run");
        tree
    }

    #[track_caller]
    fn script(&self, name: &str, text: &str) {
        write_program(&self.0.path().join(name), &format!("#!/usr/bin/env bash\n{text}\n"));
    }

    #[track_caller]
    fn run(&self) -> Finished {
        let path = std::env::var("PATH").expect("PATH is set");
        let mut command = Command::new("bash");
        command.arg(self.0.path().join("tests/run"));
        command.env("PATH", format!("{}:{path}", self.0.path().join("tools").display()));
        command.env("TREE", self.0.path()).env("TMPDIR", self.0.path());
        command.env_remove("CARGO_TARGET_DIR");
        run(command, self.0.path(), "run")
    }

    fn asked(&self) -> String {
        read_to_string(self.0.path().join("asked")).unwrap_or_default()
    }
}

// P-06
#[test]
fn a_run_goes_on_after_failures_and_lists_them() {
    let tree = Tree::new(&format!(
        "case $1 in fmt) echo badly formatted; exit 1;; run) echo a finding; exit 1;; test) cat <<'END'\n{FAILED_TESTS}\nEND\nexit 101;; esac"
    ));
    let output = tree.run();
    let said = &output.stdout;
    assert_eq!(output.code(), Some(1), "{said}");
    assert!(said.contains("badly formatted") && said.contains("--- tidy: ok"), "{said}");
    assert!(said.contains("\n--- simulation\na finding\n"), "{said}");
    let (_, list) = said.split_once("\nFAILED, after ").expect("a list of what failed");
    let (_, list) = list.split_once('\n').expect("a line of its own");
    let expected = "format (exit 1)\n\
                    tests (exit 101)\n    coord_core::b::c\n                no name of a test\n    \
                    again: cargo test -p coord-core --lib\n    \
                    again: cargo test -p coord-tests --test wake\nsimulation (exit 1)\n";
    assert_eq!(list, expected, "{said}");
    let asked = tree.asked();
    for later in [
        "clippy",
        "build",
        "xtask",
        "test --locked --workspace --no-fail-fast",
        "run",
        "doc",
        "deny",
    ] {
        assert!(asked.lines().any(|line| line.starts_with(later)), "{later} did not run: {asked}");
    }
}

// P-06
#[test]
fn a_run_without_failures_says_so() {
    let output = Tree::new("").run();
    let said = &output.stdout;
    assert_eq!(output.code(), Some(0), "{said}");
    assert!(said.lines().last().is_some_and(|line| line.starts_with("all passed in ")), "{said}");
    assert!(!said.contains("FAILED"), "{said}");
}

// P-06: what was not built is not run.
#[test]
fn a_failed_build_skips_what_is_built_alone() {
    let tree = Tree::new("case \"$*\" in *'--workspace') [ $1 != build ];; esac");
    let said = tree.run().stdout;
    assert!(said.ends_with(" s in all:\nbuild (exit 1)\n"), "{said}");
    let asked = tree.asked();
    let ran = |step| asked.lines().any(|line: &str| line.starts_with(step));
    assert!(!ran("test") && !ran("xtask") && ran("doc") && ran("deny"), "{asked}");
}

// P-06: a process that a test left behind fails the run, and does not hold it up.
#[test]
fn a_process_left_behind_is_found() {
    let sleep = "cp \"$(type -P sleep)\" target/left; target/left 1000 & echo $! >\"$TREE/left\"";
    let tree = Tree::new(&format!("if [ $1 = test ]; then {sleep}; fi"));
    let said = tree.run().stdout;
    let left = read_to_string(tree.0.path().join("left")).expect("it was started");
    let left = Pid::from_raw(left.trim().parse().expect("a pid")).expect("a pid");
    kill_process(left, Signal::KILL).expect("it is still there");
    assert!(said.contains("nothing left behind (exit 1)"), "{said}");
    assert!(said.contains(&format!("left behind: pid {}", left.as_raw_nonzero())), "{said}");
    wait_until("it is gone", || match rustix::process::test_kill_process(left) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Err(other),
    });
}
