//! The store and its locks, as a user meets them: one coordinator, private files, and a store that
//! is refused where going on would lose something. Holds G1, G11, H-15, H-29.

use super::wire::{Wire, ask, event, here, post};
use coord_model::STORE_VERSION;
use coord_tests::coord::{Coordinator, coord, events, health, programs, session};
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running, run};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `coord serve`, which is expected to end by itself with exit 1 and one line.
#[track_caller]
fn refused(home: &Home) -> String {
    one_line(&coord(home, &["serve"]), 1)
}

/// The one line of standard error that goes with an exit code.
#[track_caller]
fn one_line(finished: &Finished, code: i32) -> String {
    assert_eq!(finished.code(), Some(code), "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    assert!(finished.stderr.starts_with("coord: "), "{finished:?}");
    finished.stderr.trim_end().to_owned()
}

/// The only segment of the journal.
fn segment(home: &Home) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(home.paths().journal())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some("seg".as_ref()))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// A store with synced records of one session, its coordinator killed.
fn killed_store() -> Home {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    for n in 1..=20 {
        let event = event("session-one", "PreToolUse", n).to_string();
        ask(&home, "POST", "/v1/events?sync=1", &event).expect(204);
    }
    coordinator.kill();
    home
}

#[test]
fn a_second_coordinator_is_refused_until_the_first_is_gone() {
    let home = Home::new();
    let first = Coordinator::start(&home);
    let line = refused(&home);
    assert!(line.contains(&format!("pid {}", first.pid())), "{line}");
    assert_eq!(health(&home).map(|health| health.pid), Some(first.pid()));
    first.kill();
    let second = Coordinator::start(&home);
    assert_eq!(health(&home).map(|health| health.pid), Some(second.pid()));
}

// A pid in a file proves nothing: only the lock counts.
#[test]
fn a_lock_file_left_behind_holds_nobody_up() {
    let home = killed_store();
    fs::write(home.paths().coordinator_lock(), format!("pid {}\n", std::process::id())).unwrap();
    drop(Coordinator::start(&home));
}

// G11
#[test]
fn g11_everything_is_private_whatever_the_umask() {
    for umask in ["000", "077", "777"] {
        let home = Home::new();
        let mut command = home.command("/bin/sh");
        command
            // What is first made by another verb is as private.
            .args([
                "-c",
                &format!(
                    "umask {umask}; \"$0\" down --root \"$1\"; exec \"$0\" serve --root \"$1\""
                ),
            ])
            .arg(programs().join("coord"))
            .arg(home.root());
        let _serving = Running::start(command, &home.tmp(), "serve");
        coord_tests::wait::wait_until("it answers", || health(&home).ok_or("no answer"));
        let posted = event("session-one", "Stop", 1).to_string();
        ask(&home, "POST", "/v1/events?sync=1", &posted).expect(204);
        let paths = home.paths();
        let mut files = 0;
        for base in [&paths.state_base, &paths.run] {
            for path in everything(base) {
                let metadata = fs::symlink_metadata(&path).unwrap();
                let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
                let mode = metadata.permissions().mode() & 0o7777;
                assert_eq!(mode, wanted, "{} under umask {umask}: {mode:o}", path.display());
                files += 1;
            }
        }
        assert!(10 < files, "state and socket were looked at: {files}");
        assert!(fs::metadata(paths.socket()).unwrap().file_type().is_socket());
    }
}

/// A directory with all that is in it.
fn everything(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Whether this test may become other users.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

const OTHER_UID: u32 = 65_534;

/// A command of another user: as root by `setpriv`, else as a user namespace maps one.
fn as_other_user(home: &Home, program: impl AsRef<Path>) -> Command {
    let mut command = home.command("setpriv");
    command.args(["--reuid", &OTHER_UID.to_string(), "--clear-groups"]).arg(program.as_ref());
    command
}

// G11: the kernel says who the peer is, and only the coordinator's own user is served, root not
// either. Only root can be the other user here; without it the modes above are the proof.
#[test]
fn g11_another_user_is_refused_by_modes_and_by_the_peer_check() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    fs::set_permissions(home.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let _coordinator = Coordinator::start(&home);
    let mut inspect = as_other_user(&home, programs().join("coord"));
    inspect.arg("inspect").env("COORD_HOME", home.root());
    let finished = run(inspect, &home.tmp(), "coord");
    let line = one_line(&finished, 1);
    assert!(line.contains("belongs to user 0"), "{line}");
    // The modes opened, there is still the peer check.
    for (path, mode) in [(home.paths().run, 0o777), (home.paths().socket(), 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(home.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = home.paths().socket();
    let mut curl = as_other_user(&home, "curl");
    curl.args(["-sS", "--max-time", "60", "--unix-socket"])
        .arg(&socket)
        .arg("http://coord/v1/sessions");
    let finished = run(curl, &home.tmp(), "curl");
    assert!(!finished.status.success(), "{finished:?}");
    assert_eq!(finished.stdout, "", "{finished:?}");
    Wire::open(&home).send(super::wire::request("GET", "/healthz", "")).answer().expect("ours");
}

// H-29: `sudo coord` must leave no file of root where the user's coordinator cannot write.
#[test]
fn h29_the_state_of_another_user_is_refused_and_left_alone() {
    if !is_root() {
        return;
    }
    let home = killed_store();
    let paths = home.paths();
    for path in everything(&paths.state_base).iter().chain(&everything(&paths.run)) {
        std::os::unix::fs::chown(path, Some(OTHER_UID), Some(OTHER_UID)).unwrap();
    }
    let before = everything(&home.root());
    for verb in ["serve", "up", "down"] {
        let line = one_line(&coord(&home, &[verb]), 1);
        assert!(line.contains("belongs to user 65534"), "{verb}: {line}");
    }
    for verb in ["inspect", "events"] {
        let line = one_line(&coord(&home, &[verb]), 1);
        assert!(line.contains("belongs to user 65534"), "{verb}: {line}");
    }
    assert_eq!(everything(&home.root()), before);
    for path in before.iter().filter(|path| path.starts_with(&paths.state_base)) {
        assert_eq!(fs::metadata(path).unwrap().uid(), OTHER_UID, "{}", path.display());
    }
}

#[test]
fn a_newer_store_is_refused_by_everything_that_reads_it() {
    let home = killed_store();
    let mut newer = Vec::new();
    coord_wire::frame::push(&mut newer, br#"{"store":9,"first_seq":1}"#);
    let segment = segment(&home);
    let tail = fs::read(&segment).unwrap()[newer.len()..].to_vec();
    fs::write(&segment, [newer, tail].concat()).unwrap();
    let before = fs::read(&segment).unwrap();
    for verb in ["serve", "inspect", "events"] {
        let line = one_line(&coord(&home, &[verb]), 1);
        let found = format!("store version 9, this program knows {STORE_VERSION}");
        assert!(line.contains(&found), "{line}");
        assert!(line.contains("run the newer coord"), "{line}");
    }
    assert_eq!(fs::read(&segment).unwrap(), before, "left as it was");
}

#[test]
fn g1_a_damaged_middle_is_refused_with_what_can_be_saved() {
    let home = killed_store();
    let segment = segment(&home);
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&segment, &bytes).unwrap();
    for verb in ["serve", "inspect"] {
        let line = one_line(&coord(&home, &[verb]), 1);
        assert!(line.contains("is damaged at offset"), "{line}");
        assert!(line.contains("records before and") && line.contains("can be saved"), "{line}");
    }
    assert_eq!(fs::read(&segment).unwrap(), bytes, "left as it was");
}

#[test]
fn g1_a_torn_tail_is_repaired_and_shown() {
    let home = killed_store();
    let before = events(&home, Some("session-one")).len();
    let segment = segment(&home);
    let whole = fs::read(&segment).unwrap();
    let mut torn = whole.clone();
    let mut record = Vec::new();
    coord_wire::frame::push(&mut record, br#"{"seq":99,"at":1,"mono_ns":1,"entry":"half"}"#);
    torn.extend_from_slice(&record[..record.len() - 5]);
    fs::write(&segment, &torn).unwrap();
    let _coordinator = Coordinator::start(&home);
    let status = coord(&home, &["status"]).expect_success().stdout;
    assert!(status.contains("degraded"), "{status}");
    assert!(status.contains("cut off") && status.contains("unsynced bytes"), "{status}");
    assert!(coord(&home, &["inspect"]).expect_success().stdout.contains("cut off"));
    assert_eq!(events(&home, Some("session-one")).len(), before);
    post(&home, &event("session-one", "Stop", 21));
    assert_eq!(session(&home, "session-one").unwrap().last_event.unwrap().name, "Stop");
}

// H-15: a state directory that a coordinator keeps for one machine is not another machine's.
#[test]
fn state_is_kept_for_each_machine() {
    let home = killed_store();
    let machine = here().machine;
    assert_eq!(home.paths().state, home.paths().state_base.join(&machine));
    let other = home.paths().state_base.join("another-machine");
    fs::rename(home.paths().state, &other).unwrap();
    let _coordinator = Coordinator::start(&home);
    assert!(session(&home, "session-one").is_none());
}

// A coordinator that is asked to end makes everything durable and leaves no socket behind.
#[test]
fn every_way_to_end_leaves_a_whole_store() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let home = Home::new();
        let mut command = home.command(programs().join("coord"));
        command.arg("serve").arg("--root").arg(home.root());
        let serving = Running::start(command, &home.tmp(), "serve");
        coord_tests::wait::wait_until("it answers", || health(&home).ok_or("no answer"));
        post(&home, &event("session-one", "Stop", 1));
        let pid = Pid::from_raw(i32::try_from(serving.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(serving.finish().code(), Some(0), "{signal:?}");
        assert!(!home.paths().socket().exists());
        assert!(
            fs::read_dir(home.paths().state).unwrap().any(|entry| entry
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with("snapshot"))
        );
        assert_eq!(events(&home, Some("session-one")).len(), 1);
    }
}
