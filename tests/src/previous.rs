//! What the previous release left on a machine: the state and the settings that its real programs wrote, from
//! `tests/compat`.

use crate::home::Home;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The sessions in its state, each of which has this at the beginning of its id.
pub const SESSION_PREFIX: &str = "5e55000";
/// How many these are.
pub const N_SESSIONS: usize = 4;

/// Where its hooks were when it was recorded.
const HOOKS: &str = "/home/dev/.local/lib/coord";

/// Puts its state where coord keeps it if nothing else is said, and its settings, which name the hooks in `hooks`.
#[track_caller]
pub fn leave(home: &Home, hooks: &Path) {
    let release = newest();
    let paths = home.paths();
    let machine = paths.state.file_name().expect("the machine's id");
    let state = home.home().join(".local/state/coord").join(machine);
    copy(&release.join("state"), &state);
    let settings = fs::read_to_string(release.join("settings.json")).expect("read a file");
    assert!(settings.contains(HOOKS), "{settings}");
    let settings = settings.replace(HOOKS, &hooks.to_string_lossy());
    fs::write(home.config_dir().join("settings.json"), settings).expect("write a file");
}

/// What the settings are once the hooks are out of them.
pub const SETTINGS: &str = "{\n  \"model\": \"opus\"\n}\n";

/// The ids of its sessions among the lines of `coord events --json`.
#[track_caller]
pub fn sessions(events: &str) -> Vec<String> {
    let ids = events.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).expect("coord events prints JSON lines");
        event["session_id"].as_str().map(str::to_owned)
    });
    let mut ids: Vec<String> = ids.filter(|id| id.starts_with(SESSION_PREFIX)).collect();
    ids.sort();
    ids.dedup();
    ids
}

fn newest() -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("compat");
    let entries = fs::read_dir(all).expect("list a directory").flatten();
    let releases = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    releases.max().expect("a release was recorded")
}

/// Copies a directory as a private one, as coord keeps its state.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("create a directory");
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).expect("keep it to oneself");
    for entry in fs::read_dir(from).expect("list a directory").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copy a file");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).expect("keep it");
        }
    }
}
