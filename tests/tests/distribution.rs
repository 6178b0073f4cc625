//! What others get: the tarball in a home without Rust, from install to uninstall with a real
//! session in between, and the hooks as a plugin of the real client. Holds R-17, H-39.

use coord_model::SessionState;
use coord_tests::client::{self, headless, result};
use coord_tests::coord::{
    Coordinator, coord, hook_events, inspect, install, programs, session_when,
};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::netns::{self, test};
use coord_tests::process::{Finished, run};
use coord_wire::notice::SENDER;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    netns::run(vec![
        test("h_39_a_tarball_installs_serves_and_leaves", a_tarball_installs_serves_and_leaves),
        test("r_17_the_client_takes_the_plugin", the_client_takes_the_plugin),
        test("g2_plugin_and_settings_together_end_in_the_true_state", plugin_and_settings),
    ])
}

/// Programs of the system only: no cargo.
const PATH: &str = "/usr/bin:/bin";

/// Makes the tarball of this machine and unpacks it in a directory with a blank in its name.
fn unpacked(home: &Home) -> PathBuf {
    let (out, to) = (home.dir().join("out"), home.dir().join("down loads"));
    fs::create_dir(&to).expect("create a directory");
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    // With the caller's environment, since cargo is built with; nothing can be fetched in here.
    let mut dist = Command::new(programs().join("xtask"));
    dist.args(["dist", "--only", "tarball", "--target", &target, "--out"])
        .arg(&out)
        .env("CARGO_NET_OFFLINE", "true");
    run_long(dist, "cargo xtask dist");
    let mut sums = home.command("sha256sum");
    sums.args(["--check", "--strict", "SHA256SUMS"]).current_dir(&out);
    run(sums, &home.tmp(), "sha256sum").expect_success();
    let tarball = out.join(format!("coord-{}-{target}.tar.gz", coord_wire::VERSION));
    let mut tar = home.command("tar");
    tar.arg("-xzf").arg(tarball).arg("-C").arg(&to);
    run(tar, &home.tmp(), "tar").expect_success();
    to.join(format!("coord-{}-{target}", coord_wire::VERSION))
}

/// A build may take longer than anything else here is waited for.
#[track_caller]
fn run_long(mut command: Command, name: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// `install.sh` in a home where coord's own directories are the default ones.
#[track_caller]
fn install_sh(home: &Home, from: &Path, arguments: &[&str]) -> Finished {
    let mut command = home.command(from.join("install.sh"));
    command.args(arguments).env("PATH", PATH).env("CLAUDE_CONFIG_DIR", home.config_dir());
    run(command, &home.tmp(), "install").expect_success()
}

/// Every path below the home with its content, but for the state, which stays until a purge, and what
/// the client keeps for itself.
fn tree(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    let (top, mut found) = (home.home(), BTreeMap::new());
    let mut directories = vec![top.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("list a directory").flatten() {
            let path = entry.path();
            let relative = path.strip_prefix(&top).expect("below the home").to_owned();
            let is_clients = path != home.config_dir()
                && path.starts_with(home.config_dir())
                && !relative.as_os_str().as_bytes().windows(8).any(|part| part == b"settings");
            // The directories above the state are there because it is.
            let is_states = Path::new(".local/state/coord").starts_with(&relative)
                || relative.starts_with(".local/state/coord");
            if is_clients || (is_states && relative == Path::new(".local/state/coord")) {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
                if !is_states {
                    found.insert(relative, Vec::new());
                }
            } else {
                found.insert(relative, fs::read(path).expect("read a file"));
            }
        }
    }
    found
}

fn a_tarball_installs_serves_and_leaves() {
    let home = Home::new();
    let from = unpacked(&home);
    for name in [
        "share/man/man1/coord-inspect.1",
        "share/man/man1/coordctl-recover.1",
        "share/completions/_coord",
        "share/completions/coordctl.bash",
        "LICENSE-MIT",
    ] {
        assert!(from.join(name).is_file(), "{name} is missing");
    }
    let before = tree(&home);
    let said = install_sh(&home, &from, &[]).stdout;
    assert!(said.contains("programs: the ones beside this script"), "{said}");
    assert!(said.contains("coordinator started"), "{said}");
    let installed = tree(&home);
    for name in ["coord-hook-stop", SENDER] {
        assert!(installed.contains_key(&Path::new(".local/lib/coord").join(name)), "{name}");
    }
    let [coord, coordctl] = ["coord", "coordctl"].map(|name| {
        let file = home.home().join(".local/bin").join(name);
        fs::metadata(file).expect("it is installed").ino()
    });
    assert_eq!(coord, coordctl, "one program by two names");

    let api = FakeApi::start([Turn::text("Hello there.")]);
    let finished = headless(&home, &api, "Say hello", &[]).finish().expect_success();
    let id = result(&finished)["session_id"].as_str().expect("a session id").to_owned();
    let ask = |arguments: &[&str]| {
        let mut coord = home.command(home.home().join(".local/bin/coord"));
        coord.args(arguments);
        run(coord, &home.tmp(), "coord").expect_success().stdout
    };
    let shown: Value = serde_json::from_str(&ask(&["inspect", "--json"])).expect("JSON");
    let sessions = shown["sessions"].as_array().expect("sessions");
    assert_eq!(sessions.len(), 1, "{shown:#}");
    assert_eq!(sessions[0]["session_id"], id.as_str());
    assert_eq!(sessions[0]["state"], "stopped");

    let said = install_sh(&home, &from, &["--uninstall"]).stdout;
    assert!(said.contains("run this again in 10 minutes"), "{said}");
    assert!(home.home().join(".local/lib/coord/coord-hook-stop").exists());
    let said = install_sh(&home, &from, &["--uninstall"]).stdout;
    assert!(said.contains("removed the programs"), "{said}");
    assert_eq!(tree(&home), before);
}

/// The plugin of the built programs, and what its making said.
#[track_caller]
fn plugin(home: &Home) -> (PathBuf, Finished) {
    let dir = home.dir().join("plug in \u{e9}");
    let (to, hooks) = (dir.to_string_lossy(), programs());
    let finished = coord(home, &["plugin", &to, "--hooks-dir", &hooks.to_string_lossy()]);
    (dir.clone(), finished)
}

/// `claude ARGUMENTS`, nothing of a session.
#[track_caller]
fn claude(home: &Home, arguments: &[&str]) -> String {
    let mut command = home.command(client::program());
    command.args(arguments).env("CLAUDE_CONFIG_DIR", home.config_dir());
    command.env("DISABLE_AUTOUPDATER", "1").env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    run(command, &home.tmp(), "claude").expect_success().stdout
}

/// Puts the plugin into the client as its user would.
#[track_caller]
fn enable(home: &Home, dir: &Path) {
    claude(home, &["plugin", "marketplace", "add", &dir.to_string_lossy()]);
    claude(home, &["plugin", "install", "coord@coord"]);
}

/// One turn with a tool, reported to a coordinator; the session's id.
#[track_caller]
fn session(home: &Home) -> String {
    let api = FakeApi::start([Turn::bash("echo from the tool"), Turn::text("It said so.")]);
    let run = headless(home, &api, "Run it", &["--allowedTools", "Bash"]);
    let finished = run.finish().expect_success();
    let id = result(&finished)["session_id"].as_str().expect("a session id").to_owned();
    session_when(home, &id, "has ended", |session| session.state == SessionState::Stopped);
    id
}

const EVENTS: [&str; 6] =
    ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"];

fn the_client_takes_the_plugin() {
    let home = Home::new();
    let (dir, made) = plugin(&home);
    made.expect_success();
    for what in ["", ".claude-plugin/plugin.json"] {
        let said = claude(&home, &["plugin", "validate", &dir.join(what).to_string_lossy()]);
        assert!(said.contains("Validation passed"), "{said}");
    }
    enable(&home, &dir);
    let _coordinator = Coordinator::start(&home);
    let id = session(&home);
    assert_eq!(hook_events(&home, &id), EVENTS);
}

/// Both at once are refused where it shows; where they come together all the same, the history is
/// longer and the state is as true.
fn plugin_and_settings() {
    let home = Home::new();
    let (dir, made) = plugin(&home);
    made.expect_success();
    enable(&home, &dir);
    install(&home);
    let _coordinator = Coordinator::start(&home);
    let id = session(&home);
    let reported = hook_events(&home, &id);
    assert_eq!(reported, EVENTS.map(|event| [event, event]).concat(), "the client runs both");
    let shown = inspect(&home).sessions;
    assert_eq!(shown.len(), 1);
    assert!(shown[0].disagreement.is_none(), "{:?}", shown[0].disagreement);
    let mut again = home.command(programs().join("coord"));
    again.arg("plugin").arg(&dir).arg("--hooks-dir").arg(programs());
    again.env("COORD_HOME", home.root()).env("CLAUDE_CONFIG_DIR", home.config_dir());
    let refused = run(again, &home.tmp(), "coord");
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("reported twice"), "{refused:?}");
}
