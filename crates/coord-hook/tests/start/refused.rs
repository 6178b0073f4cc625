//! When SessionStart does not start the coordinator.

use crate::installed::Installed;
use crate::world::{self, EVENT, SESSION_START};
use coord_wire::api::InstallRecord;

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
        (SESSION_START, "SessionStart", "--init-only"),
        // H-24: its arguments do not say so, but nobody sees what it writes.
        (SESSION_START, "SessionStart", "x | cat"),
        (SESSION_START, "SessionStart", "x > /dev/null"),
        (SESSION_START, "SessionEnd", ""),
        (EVENT, "SessionStart", ""),
    ] {
        assert_not_started(&installed, hook, event, arguments);
    }
    std::fs::write(installed.world.paths.down(), "").unwrap();
    assert_not_started(&installed, SESSION_START, "SessionStart", "");
    std::fs::remove_file(installed.world.paths.down()).unwrap();
    let changes: [fn(&mut InstallRecord); 8] = [
        |record| record.machine = "another".to_owned(),
        |record| record.uid += 1,
        |record| record.pid_ns += 1,
        |record| record.coord = "coord".to_owned(),
        |record| record.coord.push_str("-missing"),
        // H-48: the record of another place, and one that does not say of which.
        |record| record.root = Some("/elsewhere".to_owned()),
        |record| record.root = None,
        |record| record.environment.clear(),
    ];
    for change in changes {
        installed.record(change);
        assert_not_started(&installed, SESSION_START, "SessionStart", "");
    }
    installed.record(|_| ());
    // H-48: what others can change is not started.
    let state = installed.world.paths.state.clone();
    let (program, record) = (installed.coord.clone(), installed.world.paths.install_record());
    let directory = installed.world.dir.path().to_owned();
    for (path, wrong, right) in [
        (&program, 0o777, 0o755),
        (&directory, 0o777, 0o700),
        (&record, 0o666, 0o600),
        (&state, 0o777, 0o700),
    ] {
        world::set_mode(path, wrong);
        assert_not_started(&installed, SESSION_START, "SessionStart", "");
        world::set_mode(path, right);
    }
    std::fs::write(installed.world.paths.install_record(), "{").unwrap();
    assert_not_started(&installed, SESSION_START, "SessionStart", "");

    // The proof that something would have been seen.
    installed.record(|_| ());
    installed.run_at_terminal(SESSION_START, "SessionStart", "");
    assert!(installed.report().starts_with("up --from-hook"));
}
