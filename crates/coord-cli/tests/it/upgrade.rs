//! An upgrade under load: the program is replaced while hooks report, and `coord up` hands over.
//! Nothing is lost and nothing is doubled. Holds G1, G2, H-39.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_tests::coord::{HOOKS, events, health, programs};
use coord_tests::home::Home;
use coord_tests::process::copy_program;
use coord_tests::process::{Finished, Running, run};
use coord_tests::wait::wait_until;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const WRITERS: usize = 3;
const UPGRADES: usize = 4;
/// Hooks that report between two upgrades, at least.
const HOOKS_BETWEEN: usize = 20;
/// A writer stops here by itself, so that a failure ends.
const HOOKS_MAX: usize = 400;

/// The programs under a prefix of their own.
struct Installed {
    home: Home,
    prefix: PathBuf,
}

impl Installed {
    fn new() -> Self {
        let home = Home::new();
        let prefix = home.dir().join("pre fix \u{e9}");
        for directory in ["bin", "lib/coord"] {
            fs::create_dir_all(prefix.join(directory)).unwrap();
        }
        for name in HOOKS {
            copy_program(&programs().join(name), &prefix.join("lib/coord").join(name));
        }
        let installed = Self { home, prefix };
        installed.replace_program();
        installed.coord(&["install"]).expect_success();
        installed
    }

    /// As install.sh does it: beside the old one, then renamed over it.
    fn replace_program(&self) {
        let (new, old) = (self.prefix.join("bin/.coord.new"), self.prefix.join("bin/coord"));
        copy_program(&programs().join("coord"), &new);
        fs::rename(new, old).unwrap();
    }

    fn coord(&self, arguments: &[&str]) -> Finished {
        let mut command = self.home.command(self.prefix.join("bin/coord"));
        command.args(arguments).env("COORD_HOME", self.home.root());
        command.env("CLAUDE_CONFIG_DIR", self.home.config_dir());
        run(command, &self.home.tmp(), "coord")
    }

    /// Replaces the program and has `coord up` hand over; the new coordinator's pid.
    fn upgrade(&self) -> u32 {
        self.replace_program();
        let said = self.coord(&["up"]).expect_success().stdout;
        assert!(said.starts_with("replacing the coordinator"), "{said}");
        health(&self.home).unwrap().pid
    }

    /// Reports a prompt of a session of its own, as a client does.
    fn report(&self, session: &str) {
        let mut hook = self.home.command(self.prefix.join("lib/coord/coord-hook-event"));
        hook.arg("--root").arg(self.home.root()).stdin(Stdio::piped());
        let mut hook = Running::start(hook, &self.home.tmp(), "hook");
        let payload = json!({
            "session_id": session, "hook_event_name": "UserPromptSubmit", "prompt": "x",
            "cwd": self.home.project(), "transcript_path": Path::new("/nowhere.jsonl"),
        });
        // A hook stops reading once it has what it needs.
        let _ = hook.take_stdin().unwrap().write_all(payload.to_string().as_bytes());
        hook.finish().expect_success();
    }
}

#[test]
fn g1_g2_h_39_an_upgrade_under_load_loses_and_doubles_nothing() {
    let installed = Installed::new();
    installed.coord(&["up"]).expect_success();
    let mut pids = BTreeSet::from([health(&installed.home).unwrap().pid]);
    let (reported, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let n_reported = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (installed, reported, is_over) = (&installed, &reported, &is_over);
            scope.spawn(move || {
                for n in 0..HOOKS_MAX {
                    installed.report(&format!("{writer}-{n}"));
                    reported.fetch_add(1, Ordering::SeqCst);
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        for upgrade in 1..=UPGRADES {
            let enough = upgrade * HOOKS_BETWEEN;
            wait_until("hooks have reported", || {
                let so_far = reported.load(Ordering::SeqCst);
                if enough <= so_far { Ok(()) } else { Err(so_far) }
            });
            pids.insert(installed.upgrade());
        }
        is_over.store(true, Ordering::SeqCst);
        &reported
    });
    assert_eq!(pids.len(), UPGRADES + 1, "each upgrade is another process: {pids:?}");
    wait_until("the spool is taken in", || match health(&installed.home) {
        Some(health) if health.spool_pending == 0 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for event in events(&installed.home, None).into_iter().filter(|one| one["source"] == "hook") {
        *times.entry(event["session_id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(times.len(), n_reported.load(Ordering::SeqCst), "none is lost");
    assert!(times.values().all(|times| *times == 1), "none is doubled: {times:?}");
    let health = health(&installed.home).unwrap();
    assert_eq!(health.invariant_violations, 0);
}

#[test]
fn a_coordinator_whose_program_stands_goes_on() {
    let installed = Installed::new();
    installed.coord(&["up"]).expect_success();
    let pid = health(&installed.home).unwrap().pid;
    let said = installed.coord(&["up"]).expect_success().stdout;
    assert!(said.contains(&format!("already running (pid {pid})")), "{said}");
    assert_eq!(health(&installed.home).unwrap().pid, pid);
}
