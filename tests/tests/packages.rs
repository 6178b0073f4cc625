//! What a system's package manager installs: a .deb and a .rpm, each installed, used for a run of the real client, and
//! removed again, on a copy of this system that only the test sees. Holds P-01.

use coord_tests::client::{command, program};
use coord_tests::coord::programs;
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::netns::{self, test};
use coord_tests::process::{Finished, run};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    netns::run(vec![
        test("p_01_a_deb_installs_serves_and_leaves", || {
            let dpkg = "dpkg --log=/dev/null";
            serves("deb", dpkg, ["--install", "--install", "--remove"]);
        }),
        test("p_01_a_rpm_installs_serves_and_leaves", || {
            // What it needs is here, and not known to a package manager that is not this system's own.
            let rpm = "rpm --force-debian --nodeps";
            serves("rpm", rpm, ["--install", "--upgrade --replacepkgs", "--erase"]);
        }),
    ])
}

/// In a mount namespace of its own: what is written below /usr and /var/lib is in memory and goes with it, and the
/// accounts are those that the test names. `say` begins the output of a step.
const STEPS: &str = r#"
set -eu
package=$1 install=$2 upgrade=$3 remove=$4 accounts=$5 scratch=$6
shift 6
say() { printf '== %s\n' "$*"; }
put_there() { find /usr -path '*coord*' ! -path "$scratch/*" -cnewer "$accounts"; }
mount -t tmpfs none "$scratch"
for tree in /usr /var/lib; do
    own=$scratch/$tree
    mkdir -p "$own/upper" "$own/work"
    mount -t overlay overlay -o "lowerdir=$tree,upperdir=$own/upper,workdir=$own/work" "$tree"
done
mount --bind "$accounts" /etc/passwd
say install
$install "$package"
say version
/usr/bin/coordctl --version
say register
/usr/bin/coord install
/usr/bin/coord up
say run
"$@"
say inspect
/usr/bin/coord inspect --json
say refuse
if $remove coord 2>&1; then exit 9; fi
/usr/bin/coord --version
say upgrade
$upgrade "$package"
/usr/bin/coord status
say there
put_there
say leave
/usr/bin/coord uninstall
/usr/bin/coord down
$remove coord
say left
put_there
"#;

/// The package of this kind, as `cargo xtask dist` makes it.
#[track_caller]
fn package(home: &Home, kind: &str) -> PathBuf {
    let out = home.dir().join("out");
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let mut dist = Command::new(programs().join("xtask"));
    dist.args(["dist", "--only", kind, "--target", &target, "--out"]).arg(&out);
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

/// `manager` is the package manager, with how it is told to install, to upgrade and to remove.
fn serves(kind: &str, manager: &str, acts: [&str; 3]) {
    let home = Home::new();
    let package = package(&home, kind);
    symlink(home.config_dir(), home.home().join(".claude")).expect("link a directory");
    let accounts = home.dir().join("accounts");
    let account = format!("root:x:0:0::{}:/bin/sh\n", home.home().display());
    fs::write(&accounts, account).expect("write a file");
    let scratch = home.dir().join("scratch");
    fs::create_dir(&scratch).expect("create a directory");
    let api = FakeApi::start([Turn::text("Hello there.")]);
    let client = command(&home, &api, &[]);
    let mut steps = Command::new("unshare");
    steps.env_clear().envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
    steps.current_dir(home.project()).args(["--mount", "sh", "-c", STEPS, "sh"]);
    steps.arg(&package).args(acts.map(|act| format!("{manager} {act}")));
    steps.args([&accounts, &scratch]);
    steps.arg(program()).args(["-p", "Say hello"]);
    let finished = run(steps, &home.tmp(), "packages").expect_success();
    assert!(step(&finished, "version").contains(coord_wire::VERSION), "{finished:?}");
    assert!(step(&finished, "run").contains("Hello there."), "{finished:?}");
    let shown: Value = serde_json::from_str(step(&finished, "inspect")).expect("JSON");
    assert_eq!(shown["sessions"][0]["state"], "stopped", "{shown:#}");
    let refused = step(&finished, "refuse");
    assert!(refused.contains("'coord uninstall' first"), "{refused}");
    assert!(step(&finished, "there").contains("/usr/lib/coord/coord-hook-stop"), "{finished:?}");
    assert_eq!(step(&finished, "left"), "", "nothing is left");
    assert!(!Path::new("/usr/lib/coord").exists(), "nothing came out of it");
    if kind == "deb" {
        let mut lintian = home.command("lintian");
        lintian.args(["--allow-root", "--fail-on", "error,warning,info"]).arg(&package);
        run(lintian, &home.tmp(), "lintian").expect_success();
    }
}
