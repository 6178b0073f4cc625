//! The coordinator under a service manager: what the manager is told, and whether it understands
//! the unit. The manager itself is played by a socket.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_tests::coord::{health, install, programs};
use coord_tests::home::Home;
use coord_tests::process::{Running, run};
use coord_tests::wait::{PATIENCE, readable};
use rustix::process::Signal;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

/// The next word that the manager hears.
#[track_caller]
fn heard(manager: &UnixDatagram) -> String {
    assert!(readable(manager, PATIENCE), "the coordinator says nothing");
    let mut buffer = [0; 64];
    let length = manager.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn the_manager_hears_of_readiness_progress_and_the_end() {
    let home = Home::new();
    install(&home);
    let socket = home.tmp().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let mut serve = home.command(programs().join("coord"));
    serve.arg("serve").arg("--root").arg(home.root()).stdin(Stdio::null());
    serve.env("NOTIFY_SOCKET", &socket);
    let serve = Running::start(serve, &home.tmp(), "serve");
    assert_eq!(heard(&manager), "READY=1");
    assert!(health(&home).is_some(), "it said that it takes events");
    // Again and again, though nothing happens.
    assert_eq!([heard(&manager), heard(&manager)], ["WATCHDOG=1", "WATCHDOG=1"]);
    serve.signal(Signal::TERM);
    let last = std::iter::repeat_with(|| heard(&manager)).find(|word| word != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    serve.finish().expect_success();
}

/// `coord` in a directory of its own, as `coord service` writes its own path.
fn installed(home: &Home, prefix: &str) -> std::path::PathBuf {
    let coord = home.dir().join(prefix).join("bin/coord");
    fs::create_dir_all(coord.parent().unwrap()).unwrap();
    // By another process: a file that this one holds open for writing while another test starts a
    // program cannot be run (ETXTBSY).
    let mut copy = home.command("/bin/cp");
    copy.arg(programs().join("coord")).arg(&coord);
    run(copy, &home.tmp(), "cp").expect_success();
    coord
}

/// What `systemd-analyze verify` has to say of a unit: nothing, if it is right.
#[track_caller]
fn verify(home: &Home, unit: &str) -> String {
    let file = home.tmp().join("coord.service");
    fs::write(&file, unit).unwrap();
    let program = Path::new("/usr/bin/systemd-analyze");
    assert!(program.exists(), "systemd-analyze is missing: install the package systemd");
    let mut analyze = home.command(program);
    analyze.args(["--user", "verify"]).arg(&file).env("XDG_RUNTIME_DIR", home.tmp());
    let finished = run(analyze, &home.tmp(), "systemd-analyze");
    finished.stdout + &finished.stderr
}

// R-16, H-41
#[test]
fn systemd_understands_the_unit_whatever_the_prefix() {
    let home = Home::new();
    for prefix in ["plain", "with blanks", "n\u{f6}n-\u{e4}scii 50% $x"] {
        let mut dry = home.command(installed(&home, prefix));
        dry.args(["service", "install", "--dry-run"]).env("TMUX_TMPDIR", "/t \u{e9} 100%");
        let unit = run(dry, &home.tmp(), "coord").expect_success().stdout;
        assert!(unit.contains("KillMode=process\n") && unit.contains("ConditionPathExists=!"));
        assert_eq!(verify(&home, &unit), "", "{unit}");
        let said = verify(&home, &unit.replace("WatchdogSec", "WatchdogSecs"));
        assert!(said.contains("WatchdogSecs"), "a fault would be seen: {said}");
        let said = verify(&home, &unit.replace("bin/coord\" serve", "bin/gone\" serve"));
        assert!(said.contains("gone"), "a program that is not there would be seen: {said}");
    }
}

#[test]
fn a_service_needs_its_manager_and_ones_own_directories() {
    let home = Home::new();
    let refused = |change: &dyn Fn(&mut Command)| {
        let mut coord = home.command(programs().join("coord"));
        coord.args(["service", "install"]);
        change(&mut coord);
        let finished = run(coord, &home.tmp(), "coord");
        assert_eq!(finished.code(), Some(1), "{finished:?}");
        finished.stderr
    };
    let said = refused(&|coord| {
        coord.env("COORD_HOME", home.root());
    });
    assert!(said.contains("without --root and COORD_HOME"), "{said}");
    assert!(refused(&|_| ()).contains("`coord up` works without it"));
    assert!(!home.home().join(".config/systemd").exists(), "nothing is written");
}
