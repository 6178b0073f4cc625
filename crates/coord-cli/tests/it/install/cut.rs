//! G8 for whatever cuts an install off: the settings are the old file or the new one.
//!
//! The program is killed some hundred times, at moments spread over its whole run. A loss of power
//! shows what a kill shows, and could besides lose what was not synced: the new text is synced before
//! the rename and the directory behind it (`settings_file.rs`), which no test here can see.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use coord_tests::wait::readable;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::scratch::Scratch;

const KILLS: u32 = 200;

/// Runs `coord`, and kills it after `life` if it still runs; whether it was.
fn kill_after(scratch: &Scratch, verb: &str, life: Duration) -> bool {
    let mut command = scratch.command(&[verb]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
    let has_ended = readable(&pidfd, life);
    child.kill().unwrap();
    let is_well = child.wait().unwrap().success();
    assert!(is_well || !has_ended, "it ends well or is killed");
    !has_ended
}

#[test]
fn a_killed_install_leaves_the_old_file_or_the_new_one_g8() {
    let scratch = Scratch::new();
    // Long enough that writing takes a while.
    let rules: Vec<String> = (0..4000).map(|n| format!("\"Bash(tool-{n} *)\"")).collect();
    let old = format!("{{\"permissions\": {{\"allow\": [{}]}}}}\n", rules.join(", "));
    scratch.write(&old);
    let began = Instant::now();
    scratch.said(&["install"]);
    let whole = began.elapsed();
    let new = scratch.read();
    let (mut n_killed, mut n_new) = (0, 0);
    for n in 0..KILLS {
        let verb = if scratch.read() == old { "install" } else { "uninstall" };
        n_killed += u32::from(kill_after(&scratch, verb, whole * n / KILLS));
        let text = scratch.read();
        assert!(text == old || text == new, "after {n} kills: {} bytes", text.len());
        n_new += u32::from(text == new);
        let backup = fs::read_to_string(scratch.path("home/.claude/settings.json.coord-backup"));
        // There is none after an uninstall.
        let is_whole = |backup: String| backup == old || backup == new;
        assert!(backup.map_or(true, is_whole), "the backup is one of them, whole");
    }
    assert!(0 < n_killed, "a run that is killed at once has not ended");
    // What the kills left lying about goes with the next change, and nothing holds it up.
    scratch.said(&["install"]);
    scratch.said(&["uninstall"]);
    scratch.said(&["install"]);
    assert_eq!(scratch.read(), new);
    scratch.said(&["uninstall"]);
    assert_eq!(scratch.read(), old, "{n_killed} killed, {n_new} times the new file");
    assert_eq!(scratch.n_config_files(), 1, "the settings alone");
}
