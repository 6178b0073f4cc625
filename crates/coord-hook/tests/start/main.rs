//! How SessionStart starts the coordinator. A program of its own, see [`installed::Installed`].

mod installed;
mod refused;
#[allow(dead_code, reason = "this program uses a part of it")]
#[path = "../it/world.rs"]
mod world;

use installed::Installed;
use world::SESSION_START;

// R-16, H-41, R-15
#[test]
fn an_interactive_session_starts_it_detached() {
    let installed = Installed::new();
    installed.run_at_terminal(SESSION_START, "SessionStart", "--model x");
    let report = installed.report();
    let lines: Vec<_> = report.lines().collect();
    let root = installed.world.dir.path().to_str().unwrap();
    assert_eq!(lines[0], format!("up --from-hook --root {root}"));
    assert_eq!(lines[1], "/");
    // While it writes its report, the second stream is that file.
    assert_eq!((lines[2], lines[4]), ("/dev/null", "/dev/null"));
    assert!(report.contains("PATH=/usr/local/bin:/usr/bin:/bin\n") && report.contains("LANG=C"));
    assert!(!report.contains("CLAUDE") && !report.contains("T0ken"), "{report}");
    // H-48: places are those of the installation.
    assert!(report.contains("HOME=/recorded\n"), "{report}");
    assert!(report.contains("XDG_DATA_HOME=/recorded/data\n"), "{report}");
    assert!(!report.contains("/session"), "{report}");

    // A registration of an earlier version keeps its rules.
    installed.record(|record| record.environment.clear());
    let arguments = format!("--root {root}");
    installed.run_registered(SESSION_START, &arguments, "SessionStart", "");
    let report = installed.report();
    assert!(report.starts_with(&format!("up --from-hook --root {root}\n")), "{report}");
    assert!(report.contains("XDG_DATA_HOME=/session\n"), "{report}");
}
