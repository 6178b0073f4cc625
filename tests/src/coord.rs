//! coord's built programs, run in a test's home.

use crate::home::Home;
use crate::process::{Finished, Running, run, run_as_orphan};
use crate::wait::{wait_beyond, wait_until};
use coord_wire::api::Health;
use coord_wire::exchange::{exchange, mono_ns, request};
use coord_wire::inspect::{Inspect, Session};
use coord_wire::limits::BODY_BYTES_MAX;
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The executables that coord installs for Claude Code: its hooks, and the program of its status line.
pub const HOOKS: [&str; 7] = [
    "coord-hook-event",
    "coord-hook-permission-request",
    "coord-hook-post-tool-use",
    "coord-hook-session-start",
    "coord-hook-statusline",
    "coord-hook-stop",
    "coord-hook-wake",
];

/// The directory of the built programs, which is where cargo put this test program too.
#[track_caller]
pub fn programs() -> PathBuf {
    let own = std::env::current_exe().expect("path of this test program");
    // target/PROFILE/deps/TEST-HASH
    let dir = own.ancestors().nth(2).expect("a test program lies in target/PROFILE/deps");
    for name in ["coord", "coord-hook-event"] {
        let program = dir.join(name);
        assert!(
            program.is_file(),
            "{} is missing; run: cargo build --workspace",
            program.display()
        );
    }
    dir.to_owned()
}

/// Registers the hooks of the built programs in the home's settings, as a user would. Without it
/// there is no state directory, and hooks are inert (G7).
#[track_caller]
pub fn install(home: &Home) {
    install_in(home, &home.config_dir());
}

/// The same in another configuration directory.
#[track_caller]
pub fn install_in(home: &Home, config_dir: &Path) {
    let (hooks_dir, config_dir) = (programs(), config_dir.to_string_lossy());
    let hooks_dir = hooks_dir.to_string_lossy();
    let arguments = ["install", "--hooks-dir", &hooks_dir, "--config-dir", &config_dir];
    coord(home, &arguments).expect_success();
}

/// A coordinator in the foreground. Dropping it kills it; [`Coordinator::kill`] says so aloud.
#[derive(Debug)]
pub struct Coordinator {
    process: Running,
}

impl Coordinator {
    /// Starts `coord serve` on the home's root and waits until it answers.
    #[track_caller]
    pub fn start(home: &Home) -> Self {
        let coordinator = Self::spawn(home);
        wait_until("GET /healthz of the coordinator answers 200", || {
            let process = &coordinator.process;
            assert!(!process.has_ended(), "the coordinator has ended: {:?}", process.output());
            health(home).ok_or("no answer")
        });
        coordinator
    }

    /// The same, unless a hook has started one meanwhile: then that one goes on. It ends with the
    /// home.
    #[track_caller]
    pub fn start_again(home: &Home) -> Self {
        let coordinator = Self::spawn(home);
        wait_until("GET /healthz of a coordinator answers 200", || {
            health(home).ok_or_else(|| coordinator.process.output())
        });
        coordinator
    }

    /// Starts `coord serve` and does not wait.
    #[track_caller]
    pub fn spawn(home: &Home) -> Self {
        let mut command = home.command(programs().join("coord"));
        command.arg("serve").arg("--root").arg(home.root()).current_dir("/");
        command.stdin(std::process::Stdio::null());
        Self { process: Running::start(command, &home.tmp(), "serve") }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// `kill -9`.
    #[track_caller]
    pub fn kill(self) {
        self.process.kill();
    }

    /// Signals it.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Asks it to end, and kills it if that takes longer than `limit`; whether it was killed.
    #[track_caller]
    pub fn end_within(self, limit: Duration) -> bool {
        self.signal(Signal::TERM);
        let finished = if self.process.ends_within(limit) {
            self.process.finish().expect_success()
        } else {
            self.process.kill()
        };
        finished.signal().is_some()
    }

    /// `kill -9` after `life`; it must not have ended by itself before.
    #[track_caller]
    pub fn kill_after(self, life: Duration) {
        let ended = self.process.ends_within(life);
        assert!(!ended, "the coordinator has ended by itself: {:?}", self.process.output());
        self.process.kill();
    }
}

/// What `/healthz` answers, if it answers.
pub fn health(home: &Home) -> Option<Health> {
    let deadline_ns = mono_ns() + 20_000_000_000;
    let ask = request("GET", "/healthz", b"");
    let answer = exchange(&home.paths().socket(), &ask, BODY_BYTES_MAX, deadline_ns).ok()?;
    if answer.status == 200 { serde_json::from_slice(&answer.body).ok() } else { None }
}

/// Runs `coord ARGUMENTS` on the home's root.
#[track_caller]
pub fn coord(home: &Home, arguments: &[&str]) -> Finished {
    let mut command = home.command(programs().join("coord"));
    command.args(arguments).env("COORD_HOME", home.root());
    run_coord(command, home, arguments)
}

/// Runs `coordctl ARGUMENTS` on the home's root, without a terminal.
#[track_caller]
pub fn coordctl(home: &Home, arguments: &[&str]) -> Finished {
    let mut command = home.command(programs().join("coordctl"));
    command.args(arguments).env("COORD_HOME", home.root());
    run(command, &home.tmp(), "coordctl")
}

/// Runs such a command, as nobody's child where its verb refuses agents.
#[track_caller]
pub fn run_coord(command: Command, home: &Home, arguments: &[&str]) -> Finished {
    if matches!(arguments, ["down", ..] | ["queue", "drop" | "retry", ..]) {
        run_as_orphan(&command, &home.tmp(), "coord")
    } else {
        run(command, &home.tmp(), "coord")
    }
}

/// `coord inspect --json`.
#[track_caller]
pub fn inspect(home: &Home) -> Inspect {
    let answer = coord(home, &["inspect", "--json"]).expect_success();
    serde_json::from_str(&answer.stdout)
        .unwrap_or_else(|error| panic!("coord inspect --json: {error}\n{}", answer.stdout))
}

/// One session of `coord inspect --json`, where it is known.
#[track_caller]
pub fn session(home: &Home, id: &str) -> Option<Session> {
    inspect(home).sessions.into_iter().find(|session| session.session_id == id)
}

/// Waits until `coord inspect --json` shows the session so that `fits` holds.
#[track_caller]
pub fn session_when(home: &Home, id: &str, what: &str, fits: impl Fn(&Session) -> bool) -> Session {
    session_beyond(Duration::ZERO, home, id, what, fits)
}

/// The same for what coord itself may take `own` time for.
#[track_caller]
pub fn session_beyond(
    own: Duration,
    home: &Home,
    id: &str,
    what: &str,
    fits: impl Fn(&Session) -> bool,
) -> Session {
    wait_beyond(own, &format!("session {id}: {what}"), || match session(home, id) {
        Some(session) if fits(&session) => Ok(session),
        other => Err(Box::new(other)),
    })
}

/// The lines of `coord events [ID] --json`.
#[track_caller]
pub fn events(home: &Home, id: Option<&str>) -> Vec<Value> {
    let arguments: Vec<&str> = ["events"].into_iter().chain(id).chain(["--json"]).collect();
    let answer = coord(home, &arguments).expect_success();
    let lines = answer.stdout.lines();
    lines.map(|line| serde_json::from_str(line).expect("coord events prints JSON lines")).collect()
}

/// The events of a session that hooks reported, by name, in the journal's order.
#[track_caller]
pub fn hook_events(home: &Home, id: &str) -> Vec<String> {
    let events = events(home, Some(id)).into_iter().filter(|event| event["source"] == "hook");
    events.map(|event| event["name"].as_str().unwrap_or("?").to_owned()).collect()
}
