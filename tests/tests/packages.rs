//! What a system's package manager installs: a .deb and a .rpm, each installed over a previous release, used for runs of
//! the real client, and removed again, on a copy of this system that only the test sees. Holds P-01.

use coord_tests::client::{command, program};
use coord_tests::coord::programs;
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::machine::{is_emulated, target};
use coord_tests::netns::{self, test};
use coord_tests::previous;
use coord_tests::process::{Finished, run};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    netns::run(vec![
        test("p_01_a_deb_upgrades_serves_and_leaves", || serves(&DEB)),
        test("p_01_a_rpm_upgrades_serves_and_leaves", || serves(&RPM)),
    ])
}

/// A package manager.
struct Manager {
    /// How its packages' names end.
    kind: &'static str,
    install: &'static str,
    upgrade: &'static str,
    remove: &'static str,
    /// Prints the version that is installed.
    query: &'static str,
}

const DEB: Manager = Manager {
    kind: "deb",
    install: "dpkg --log=/dev/null --force-architecture --install",
    upgrade: "dpkg --log=/dev/null --force-architecture --install",
    remove: "dpkg --log=/dev/null --remove",
    query: "dpkg-query --show --showformat=${Version}\\n",
};

/// What it needs is here, and not known to a package manager that is not this system's own.
const RPM: Manager = Manager {
    kind: "rpm",
    install: "rpm --force-debian --nodeps --ignorearch --install",
    upgrade: "rpm --force-debian --nodeps --ignorearch --upgrade",
    remove: "rpm --force-debian --nodeps --erase",
    query: "rpm --query --queryformat %{VERSION}-%{RELEASE}\\n",
};

/// What the previous release calls itself.
const PREVIOUS: &str = "0.0.9";

/// In a mount namespace of its own: what is written below /usr and /var/lib is in memory and goes with it, and the
/// accounts are those that the test names. `say` begins the output of a step.
const STEPS: &str = r#"
set -eu
previous=$1 package=$2 install=$3 upgrade=$4 remove=$5 query=$6 accounts=$7 scratch=$8 layers=$9
shift 9
say() { printf '== %s\n' "$*"; }
put_there() {
    find /usr -type d ! -readable -prune -o -path '*coord*' ! -path "$scratch/*" -cnewer "$accounts" -print
}
mount -t tmpfs none "$scratch"
for tree in /usr /var/lib; do
    own=$scratch/$tree
    mkdir -p "$own/upper" "$own/work"
    mount -t overlay overlay -o "lowerdir=$tree,upperdir=$own/upper,workdir=$own/work$layers" "$tree"
done
mount --bind "$accounts" /etc/passwd
say previous
$install "$previous"
$query coord
/usr/bin/coordctl --version
/usr/bin/coord up
say before
"$@"
say refuse
if $remove coord 2>&1; then exit 9; fi
/usr/bin/coord --version
say upgrade
$upgrade "$package"
$query coord
/usr/bin/coord install
/usr/bin/coord up
say run
"$@"
say inspect
/usr/bin/coord inspect --json
say events
/usr/bin/coord events --json
say there
put_there
say leave
/usr/bin/coord uninstall
/usr/bin/coord down
$remove coord
say left
put_there
"#;

/// The package of this kind, as `cargo xtask dist` makes it, with this version.
#[track_caller]
fn package(home: &Home, kind: &str, version: &str) -> PathBuf {
    let out = home.dir().join("out").join(version);
    let mut dist = Command::new(programs().join("xtask"));
    dist.args(["dist", "--only", kind, "--target", &target()]);
    dist.args(["--package-version", version, "--out"]).arg(&out);
    // Nothing can be fetched in here. A build may take longer than anything else is waited for.
    let made = dist.env("CARGO_NET_OFFLINE", "true").output().expect("cargo xtask dist");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let files = fs::read_dir(&out).expect("list a directory").flatten();
    let mut packages = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == kind));
    packages.next().expect("the package")
}

/// What a step printed.
#[track_caller]
fn step<'a>(finished: &'a Finished, name: &str) -> &'a str {
    let (_, rest) = finished
        .stdout
        .split_once(&format!("== {name}\n"))
        .unwrap_or_else(|| panic!("{name}: {finished:?}"));
    rest.split("== ").next().unwrap_or_default()
}

/// From a home that the previous release left, through an upgrade, to nothing but state.
fn serves(manager: &Manager) {
    let home = Home::new();
    let kind = manager.kind;
    let [previous, package] =
        [PREVIOUS, coord_wire::VERSION].map(|version| package(&home, kind, version));
    previous::leave(&home, Path::new("/usr/lib/coord"));
    symlink(home.config_dir(), home.home().join(".claude")).expect("link a directory");
    let accounts = home.dir().join("accounts");
    let account = format!("root:x:0:0::{}:/bin/sh\n", home.home().display());
    fs::write(&accounts, account).expect("write a file");
    let scratch = home.dir().join("scratch");
    fs::create_dir(&scratch).expect("create a directory");
    let api = FakeApi::start([Turn::text("Hello there."), Turn::text("Hello again.")]);
    let client = command(&home, &api, &[]);
    let mut steps = Command::new("unshare");
    steps.env_clear().envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
    steps.current_dir(home.project()).args(["--mount", "sh", "-c", STEPS, "sh"]);
    let Manager { install, upgrade, remove, query, .. } = manager;
    steps.args([&previous, &package]).args([install, upgrade, remove, query]);
    // In a user namespace, only attributes of the user's can say that a directory was moved.
    steps.args([&accounts, &scratch]).arg(if is_emulated() { ",userxattr" } else { "" });
    steps.arg(program()).args(["-p", "Say hello"]);
    let finished = run(steps, &home.tmp(), "packages").expect_success();
    for (name, version) in [("previous", PREVIOUS), ("upgrade", coord_wire::VERSION)] {
        let line = format!("{version}-1");
        assert!(step(&finished, name).lines().any(|one| one == line), "{finished:?}");
    }
    assert!(step(&finished, "previous").contains("coordctl "), "{finished:?}");
    assert!(step(&finished, "before").contains("Hello there."), "{finished:?}");
    let refused = step(&finished, "refuse");
    assert!(refused.contains("'coord uninstall' first"), "{refused}");
    let upgraded = step(&finished, "upgrade");
    assert!(upgraded.contains("registered 13 events"), "{upgraded}");
    let is_replaced = upgraded.contains("replacing the coordinator");
    assert!(is_replaced || is_emulated(), "{upgraded}");
    assert!(step(&finished, "run").contains("Hello again."), "{finished:?}");
    let shown: Value = serde_json::from_str(step(&finished, "inspect")).expect("JSON");
    let sessions = shown["sessions"].as_array().expect("sessions");
    let is_ours = |id: &str| !id.starts_with(previous::SESSION_PREFIX);
    let ours = sessions.iter().filter(|one| one["session_id"].as_str().is_some_and(is_ours));
    let states: Vec<_> = ours.map(|session| &session["state"]).collect();
    assert_eq!(states, ["stopped", "stopped"], "{shown:#}");
    let kept = previous::sessions(step(&finished, "events"));
    assert_eq!(kept.len(), previous::N_SESSIONS, "{kept:?}");
    assert!(step(&finished, "there").contains("/usr/lib/coord/coord-hook-stop"), "{finished:?}");
    assert_eq!(step(&finished, "left"), "", "nothing is left");
    assert!(!Path::new("/usr/lib/coord").exists(), "nothing came out of it");
    let settings = fs::read_to_string(home.config_dir().join("settings.json")).expect("settings");
    assert_eq!(settings, previous::SETTINGS);
    if kind == "deb" {
        let mut lintian = home.command("lintian");
        lintian.args(["--allow-root", "--fail-on", "error,warning,info"]).arg(&package);
        run(lintian, &home.tmp(), "lintian").expect_success();
    }
}
