//! `--fix` repairs what is safe to repair, says what it did, and lifts no `coord down`.

use super::place::{Place, chmod};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn what_is_safe_is_repaired_and_told() {
    let place = Place::new();
    let hook = place.hooks.join("coord-hook-stop");
    let state = place.home.paths().state;
    chmod(&hook, 0o644);
    chmod(&state, 0o755);
    place.edit_json(|all| drop(all["hooks"].as_object_mut().unwrap().remove("Stop")));
    let settings = fs::read(place.settings()).unwrap();

    // What is not executable is not registered: the modes come first.
    let planned = place.doctor(&["--fix", "--dry-run"]).stdout;
    assert!(planned.contains("would do: chmod 755"), "{planned}");
    assert_eq!(fs::read(place.settings()).unwrap(), settings);
    assert_eq!(fs::metadata(&hook).unwrap().permissions().mode() & 0o777, 0o644);

    let done = place.doctor(&["--fix"]).stdout;
    for what in ["chmod 755", "chmod 700", "coord up", "coord install"] {
        assert!(done.contains(&format!("done: {what}")), "{what}: {done}");
    }
    let left = place.complaints();
    assert!(left.iter().all(|check| check == "programs.static"), "{left:?}");
}

#[test]
fn what_was_ended_on_purpose_stays_ended() {
    let place = Place::new();
    place.coord(&["down"]).expect_success();
    let told = place.doctor(&["--fix"]).expect_success();
    assert!(!told.stdout.contains("done: "), "{told:?}");
    assert!(place.home.paths().down().exists());
    assert!(place.complaints().contains(&"coordinator.down".to_owned()));
}
