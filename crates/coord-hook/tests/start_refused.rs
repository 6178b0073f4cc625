//! When SessionStart does not start the coordinator. One test in a program of its own, see
//! [`installed::Installed`].

mod installed;
mod world;

use coord_wire::api::InstallRecord;
use installed::Installed;
use world::{EVENT, SESSION_START};

#[track_caller]
fn assert_not_started(installed: &Installed, hook: &str, event: &str, arguments: &str) {
    installed.run_at_terminal(hook, event, arguments);
    assert!(installed.has_started_nothing());
}

// H-15, R-16
#[test]
fn nobody_else_starts_it() {
    let installed = Installed::new();
    for (hook, event, arguments) in [
        (SESSION_START, "SessionStart", "-p"),
        (SESSION_START, "SessionStart", "--print x"),
        (SESSION_START, "SessionEnd", ""),
        (EVENT, "SessionStart", ""),
    ] {
        assert_not_started(&installed, hook, event, arguments);
    }
    std::fs::write(installed.world.paths.down(), "").unwrap();
    assert_not_started(&installed, SESSION_START, "SessionStart", "");
    std::fs::remove_file(installed.world.paths.down()).unwrap();
    let changes: [fn(&mut InstallRecord); 5] = [
        |record| record.machine = "another".to_owned(),
        |record| record.uid += 1,
        |record| record.pid_ns += 1,
        |record| record.coord = "coord".to_owned(),
        |record| record.coord.push_str("-missing"),
    ];
    for change in changes {
        installed.record(change);
        assert_not_started(&installed, SESSION_START, "SessionStart", "");
    }
    installed.record(|_| ());
    world::set_mode(&installed.coord, 0o777);
    assert_not_started(&installed, SESSION_START, "SessionStart", "");
    std::fs::write(installed.world.paths.install_record(), "{").unwrap();
    assert_not_started(&installed, SESSION_START, "SessionStart", "");

    // The proof that something would have been seen.
    installed.record(|_| ());
    world::set_mode(&installed.coord, 0o755);
    installed.run_at_terminal(SESSION_START, "SessionStart", "");
    assert!(installed.report().starts_with("up --from-hook"));
}
