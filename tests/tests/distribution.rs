//! What others get: the tarball in a home without Rust, from install to uninstall with a real
//! session in between, by its own script, by `cargo binstall` and by Homebrew, and the hooks as a plugin of the
//! real client. Holds P-01, R-17, H-39.

use coord_model::SessionState;
use coord_tests::client::{self, headless, result};
use coord_tests::coord::{
    Coordinator, coord, hook_events, inspect, install, programs, run_coord, session_when,
};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::machine::{is_emulated, machine, target};
use coord_tests::netns::{self, test};
use coord_tests::previous;
use coord_tests::process::{Finished, copy_program, run};
use coord_wire::notice::SENDER;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

fn main() -> ExitCode {
    let code = netns::run(vec![
        test("h_39_a_tarball_installs_serves_and_leaves", a_tarball_installs_serves_and_leaves),
        test("p_01_a_tarball_upgrades_what_0_1_0_left", a_tarball_upgrades),
        test("p_01_what_cargo_binstall_takes_serves_and_leaves", binstall_serves_and_leaves),
        test("p_01_what_homebrew_installs_serves_and_leaves", homebrew_serves_and_leaves),
        test("r_17_the_client_takes_the_plugin", the_client_takes_the_plugin),
        test("g2_plugin_and_settings_together_end_in_the_true_state", plugin_and_settings),
    ]);
    if let Some(dir) = MADE.get() {
        fs::remove_dir_all(dir).expect("remove a directory");
    }
    code
}

/// Programs of the system only: no cargo.
const PATH: &str = "/usr/bin:/bin";

/// A tarball, and the directory it was unpacked to.
struct Unpacked {
    tarball: PathBuf,
    tree: PathBuf,
}

/// Where the tarball is, with the formula that names it. Made once for all tests here.
static MADE: OnceLock<PathBuf> = OnceLock::new();

/// Makes the tarball of this machine, twice, and compares.
fn make() -> PathBuf {
    let dir = tempfile::Builder::new().prefix("coord-dist-").tempdir().expect("a directory").keep();
    let [out, again] = ["out", "again"].map(|name| dir.join(name));
    for out in [&out, &again] {
        // With the caller's environment, since cargo is built with; nothing can be fetched in here.
        let mut dist = Command::new(programs().join("xtask"));
        dist.args(["dist", "--only", "tarball", "--target", &target()]);
        dist.args(["--url", "https://coord.invalid", "--out"]).arg(out);
        run_long(dist.env("CARGO_NET_OFFLINE", "true"), "cargo xtask dist");
    }
    let sums = |out: &Path| fs::read_to_string(out.join("SHA256SUMS")).expect("the checksums");
    assert_eq!(sums(&out), sums(&again), "the same sources give the same bytes");
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(&out);
    run_long(&mut check, "sha256sum");
    dir
}

/// Unpacks the tarball in a directory with a blank in its name.
fn unpacked(home: &Home) -> Unpacked {
    let name = format!("coord-{}-{}.tar.gz", coord_wire::VERSION, target());
    unpack(home, MADE.get_or_init(make).join("out").join(name), "down loads")
}

#[track_caller]
fn unpack(home: &Home, tarball: PathBuf, to: &str) -> Unpacked {
    let to = home.dir().join(to);
    fs::create_dir(&to).expect("create a directory");
    let mut tar = home.command("tar");
    tar.arg("-xzf").arg(&tarball).arg("-C").arg(&to);
    run(tar, &home.tmp(), "tar").expect_success();
    let name = tarball.file_name().expect("a file").to_string_lossy().replace(".tar.gz", "");
    Unpacked { tarball, tree: to.join(name) }
}

/// A build may take longer than anything else here is waited for.
#[track_caller]
fn run_long(command: &mut Command, name: &str) {
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

/// One turn of the real client; the session's id.
#[track_caller]
fn session_of(home: &Home) -> String {
    let api = FakeApi::start([Turn::text("Hello there.")]);
    let finished = headless(home, &api, "Say hello", &[]).finish().expect_success();
    result(&finished)["session_id"].as_str().expect("a session id").to_owned()
}

/// A command of the installed programs in `bin`, where coord's own directories are the default ones.
#[track_caller]
fn installed(home: &Home, bin: &Path, arguments: &[&str]) -> String {
    let mut coord = home.command(bin.join("coord"));
    coord.args(arguments).env("CLAUDE_CONFIG_DIR", home.config_dir());
    run_coord(coord, home, arguments).expect_success().stdout
}

/// The second name decides which verbs the program has.
#[track_caller]
fn has_both_names(home: &Home, bin: &Path) {
    let mut coordctl = home.command(bin.join("coordctl"));
    coordctl.arg("--version");
    let version = run(coordctl, &home.tmp(), "coordctl").expect_success().stdout;
    assert!(version.starts_with("coordctl "), "{version}");
}

/// The sessions that `coord inspect` shows, with their states.
#[track_caller]
fn sessions(home: &Home, bin: &Path) -> BTreeMap<String, String> {
    let shown: Value =
        serde_json::from_str(&installed(home, bin, &["inspect", "--json"])).expect("JSON");
    let sessions = shown["sessions"].as_array().expect("sessions").iter().map(|session| {
        let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
        (text("session_id"), text("state"))
    });
    sessions.collect()
}

fn a_tarball_installs_serves_and_leaves() {
    let home = Home::new();
    let from = unpacked(&home).tree;
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

    let bin = home.home().join(".local/bin");
    let id = session_of(&home);
    let sessions = sessions(&home, &bin);
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
    assert_eq!(sessions[&id], "stopped");

    let said = install_sh(&home, &from, &["--uninstall"]).stdout;
    assert!(said.contains("run this again in 10 minutes"), "{said}");
    assert!(home.home().join(".local/lib/coord/coord-hook-stop").exists());
    let said = install_sh(&home, &from, &["--uninstall"]).stdout;
    assert!(said.contains("removed the programs"), "{said}");
    assert_eq!(tree(&home), before);
}

/// From the state and the settings of 0.1.0 by its own script, to nothing but state. Its programs are those of
/// `COORD_TEST_PREVIOUS`, a tarball; without it, these ones stand in for them.
fn a_tarball_upgrades() {
    let home = Home::new();
    let from = unpacked(&home);
    let given = std::env::var_os("COORD_TEST_PREVIOUS").map(PathBuf::from);
    let tarball = given.unwrap_or_else(|| from.tarball.clone());
    let old = unpack(&home, tarball, "down loads of then").tree;
    let bin = home.home().join(".local/bin");
    let before = tree(&home);
    previous::leave(&home, &home.home().join(".local/lib/coord"));
    let settings =
        || fs::read_to_string(home.config_dir().join("settings.json")).expect("settings");
    let registered = settings();
    install_sh(&home, &old, &["--no-register", "--no-start"]);
    installed(&home, &bin, &["up"]);
    let first = session_of(&home);

    let said = install_sh(&home, &from.tree, &[]).stdout;
    let is_replaced = said.contains("replacing the coordinator");
    assert!(is_replaced || is_emulated(), "{said}");
    assert!(said.contains("registered 13 events"), "{said}");
    assert_ne!(settings(), registered);
    let hook = |tree: &Path| fs::read(tree.join("lib/coord/coord-hook-stop")).expect("a hook");
    assert!(hook(&home.home().join(".local")) == hook(&from.tree), "the settings name new hooks");
    let second = session_of(&home);
    let shown = sessions(&home, &bin);
    for id in [&first, &second] {
        assert_eq!(shown.get(id).map(String::as_str), Some("stopped"), "{shown:#?}");
    }
    let kept = previous::sessions(&installed(&home, &bin, &["events", "--json"]));
    assert_eq!(kept.len(), previous::N_SESSIONS, "{kept:?}");

    for said in ["run this again in 10 minutes", "removed the programs"] {
        let finished = install_sh(&home, &from.tree, &["--uninstall"]);
        assert!(finished.stdout.contains(said), "{finished:?}");
    }
    assert_eq!(settings(), previous::SETTINGS);
    fs::remove_file(home.config_dir().join("settings.json")).expect("remove a file");
    assert_eq!(tree(&home), before);
}

/// The packages that a user names to `cargo binstall`.
const BINSTALL: [&str; 3] = ["coord-cli", "coord-hook", "coord-notice"];

/// Does what `cargo binstall` does: puts each program of the packages into one directory, from where their metadata
/// says it is in the tarball. It takes regular files only.
#[track_caller]
fn binstall(home: &Home, from: &Unpacked) -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]);
    let metadata = cargo.arg(manifest).output().expect("cargo metadata");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let mut tar = home.command("tar");
    tar.arg("-tvzf").arg(&from.tarball);
    let listed = run(tar, &home.tmp(), "tar").expect_success().stdout;
    let to = home.home().join(".cargo/bin");
    fs::create_dir_all(&to).expect("create a directory");
    let packages = metadata["packages"].as_array().expect("packages");
    for package in packages.iter().filter(|one| BINSTALL.iter().any(|name| one["name"] == *name)) {
        let how = &package["metadata"]["binstall"];
        assert_eq!(how["pkg-fmt"], "tgz");
        let filled = |template: &Value, bin: &str| {
            let text = template.as_str().expect("a template").to_owned();
            let target = target();
            [("repo", "R"), ("version", coord_wire::VERSION), ("target", &target), ("bin", bin)]
                .iter()
                .fold(text, |text, (name, value)| text.replace(&format!("{{ {name} }}"), value))
        };
        assert!(package["repository"].is_string(), "{package:#}");
        let name = from.tarball.file_name().expect("a file").to_string_lossy();
        let url = format!("R/releases/download/v{}/{name}", coord_wire::VERSION);
        assert_eq!(filled(&how["pkg-url"], ""), url);
        let targets = package["targets"].as_array().expect("targets").iter();
        for bin in targets.filter(|target| target["kind"][0] == "bin") {
            let bin = bin["name"].as_str().expect("a name");
            let path = filled(&how["bin-dir"], bin);
            let is_file = |line: &str| line.starts_with('-') && line.ends_with(&format!(" {path}"));
            assert!(listed.lines().any(is_file), "{path} is no regular file:\n{listed}");
            copy_program(&from.tree.with_file_name("").join(path), &to.join(bin));
        }
    }
    to
}

fn binstall_serves_and_leaves() {
    let home = Home::new();
    let from = unpacked(&home);
    let before = tree(&home);
    let bin = binstall(&home, &from);
    let said = installed(&home, &bin, &["install"]);
    assert!(said.contains("registered 13 events"), "{said}");
    let settings = fs::read_to_string(home.config_dir().join("settings.json")).expect("settings");
    assert!(settings.contains(&format!("{}/coord-hook-stop", bin.display())), "{settings}");
    installed(&home, &bin, &["up"]);
    let id = session_of(&home);
    assert_eq!(sessions(&home, &bin).get(&id).map(String::as_str), Some("stopped"));
    has_both_names(&home, &bin);

    installed(&home, &bin, &["uninstall"]);
    installed(&home, &bin, &["down"]);
    fs::remove_dir_all(home.home().join(".cargo")).expect("remove a directory");
    assert_eq!(tree(&home), before);
}

/// By the formula, in as much of Homebrew as it uses.
fn homebrew_serves_and_leaves() {
    let home = Home::new();
    let from = unpacked(&home);
    let before = tree(&home);
    let prefix = home.home().join("homebrew");
    let mut brew = home.command("ruby");
    brew.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homebrew.rb"));
    brew.arg(from.tarball.with_file_name("coord.rb")).args([&from.tarball, &prefix]);
    brew.arg(machine());
    let caveats = run(brew, &home.tmp(), "ruby").expect_success().stdout;
    let line =
        caveats.lines().find_map(|line| line.trim().strip_prefix("coord install --hooks-dir "));
    let bin = prefix.join("bin");
    let said = installed(&home, &bin, &["install", "--hooks-dir", line.expect("how to register")]);
    assert!(said.contains("registered 13 events"), "{said}");
    let settings = fs::read_to_string(home.config_dir().join("settings.json")).expect("settings");
    assert!(!settings.contains("Cellar"), "the hooks' path outlives an upgrade: {settings}");
    installed(&home, &bin, &["up"]);
    let id = session_of(&home);
    assert_eq!(sessions(&home, &bin).get(&id).map(String::as_str), Some("stopped"));
    has_both_names(&home, &bin);

    installed(&home, &bin, &["uninstall"]);
    installed(&home, &bin, &["down"]);
    fs::remove_dir_all(prefix).expect("remove a directory");
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
