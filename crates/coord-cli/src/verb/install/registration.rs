//! The closed list of events that coord registers, and how an entry of it looks in a settings file.
//!
//! Decides which event runs which executables for how long. Does not decide where entries stand in
//! a file. Holds R-17 and H-12; `hooks.json` at the top of the repository says the same for people
//! and other tools.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, bail};
use coord_wire::paths::Paths;
use serde::Serialize;

use super::status_line;

/// Every executable of ours begins with this; by it our entries are recognised.
pub(crate) const PROGRAM_PREFIX: &str = "coord-hook-";

/// The argument behind which the state directory stands; an entry of an earlier version has none.
pub(super) const STATE_ARGUMENT: &str = "--state";

/// One event and what it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hook {
    /// The client's name of the event.
    pub event: &'static str,
    /// File name of the executable.
    pub program: &'static str,
    /// The client kills the hook after this many seconds.
    pub timeout_s: u32,
    /// Whether it runs beside the session, and wakes it by its exit code (H-02).
    pub is_waiter: bool,
}

/// A hook ends by itself within one second. Five leave room for a machine under heavy load and
/// still bound what a frozen one could cost the session. At SessionEnd they also raise the 1.5 s
/// that the client would give.
const TIMEOUT_S: u32 = 5;

/// What waits stays for a day at most: beside an open prompt, which its terminal can still answer later, and beside an
/// idle session, whose next turn's end starts the next waiter.
const TIMEOUT_WAIT_S: u32 = 24 * 3600;

/// All that is registered, the hooks of an event one behind the other. An event is listed only if a hook that says nothing and exits 0 leaves
/// the client as it was without it.
pub(super) const HOOKS: [Hook; 16] = [
    hook("SessionStart", "coord-hook-session-start", TIMEOUT_S),
    waiter("SessionStart"),
    hook("SessionEnd", "coord-hook-event", TIMEOUT_S),
    hook("UserPromptSubmit", "coord-hook-event", TIMEOUT_S),
    hook("PreToolUse", "coord-hook-event", TIMEOUT_S),
    hook("PostToolUse", "coord-hook-post-tool-use", TIMEOUT_S),
    hook("PostToolUseFailure", "coord-hook-event", TIMEOUT_S),
    hook("PermissionRequest", "coord-hook-permission-request", TIMEOUT_WAIT_S),
    hook("PermissionDenied", "coord-hook-event", TIMEOUT_S),
    hook("Notification", "coord-hook-event", TIMEOUT_S),
    hook("Stop", "coord-hook-stop", TIMEOUT_S),
    waiter("Stop"),
    hook("StopFailure", "coord-hook-event", TIMEOUT_S),
    waiter("StopFailure"),
    hook("SubagentStart", "coord-hook-event", TIMEOUT_S),
    hook("SubagentStop", "coord-hook-event", TIMEOUT_S),
];

const fn hook(event: &'static str, program: &'static str, timeout_s: u32) -> Hook {
    Hook { event, program, timeout_s, is_waiter: false }
}

const fn waiter(event: &'static str) -> Hook {
    Hook { event, program: "coord-hook-wake", timeout_s: TIMEOUT_WAIT_S, is_waiter: true }
}

/// The registered events, each with its hooks.
pub(super) fn events() -> impl Iterator<Item = (&'static str, &'static [Hook])> {
    let events = HOOKS.chunk_by(|one, next| one.event == next.event);
    events.filter_map(|hooks| Some((hooks.first()?.event, hooks)))
}

/// What the entries of one installation have in common.
#[derive(Debug, Clone)]
pub(super) struct Registration {
    directory: String,
    args: Vec<String>,
    /// Whether the status line is registered too; where it is already, it stays in any case.
    pub adds_status_line: bool,
}

/// The object in `hooks`: runs one program, without a shell.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Entry {
    #[serde(rename = "type")]
    kind: &'static str,
    command: String,
    args: Vec<String>,
    timeout: u32,
    /// The client does not wait for it.
    #[serde(rename = "async", skip_serializing_if = "is_false")]
    is_async: bool,
    /// Its exit 2 starts a turn with what it wrote to standard error.
    #[serde(rename = "asyncRewake", skip_serializing_if = "is_false")]
    is_rewake: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The object in an event's list. It has no matcher: every tool and every source counts.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Group {
    hooks: [Entry; 1],
}

impl Registration {
    /// Entries that name the executables in `directory` and hand them their directories, which the
    /// environment of a session must not decide (H-48), and `root` where there is one.
    pub(super) fn new(
        directory: &Path,
        root: Option<&Path>,
        paths: &Paths,
    ) -> anyhow::Result<Self> {
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).with_context(|| {
                format!("{} is not UTF-8, and settings are: use another directory", path.display())
            })
        };
        if !directory.is_absolute() {
            bail!("the hook directory {} is not an absolute path", directory.display());
        }
        let uid = rustix::process::geteuid().as_raw();
        let directories = [
            ("--root", root),
            ("--config", Some(&paths.config)),
            (STATE_ARGUMENT, Some(&paths.state_base)),
            ("--run", paths.named_run(uid)),
        ];
        let mut args = Vec::new();
        for (name, path) in directories {
            if let Some(path) = path {
                args.extend([name.to_owned(), text(path)?]);
            }
        }
        Ok(Self { directory: text(directory)?, args, adds_status_line: false })
    }

    /// The path of an executable.
    pub(super) fn program(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.trim_end_matches('/'))
    }

    /// What every executable is handed.
    pub(super) fn arguments(&self) -> &[String] {
        &self.args
    }

    /// The entry for `hook`.
    pub(super) fn entry(&self, hook: &Hook) -> Entry {
        Entry {
            kind: "command",
            command: self.program(hook.program),
            args: self.args.clone(),
            timeout: hook.timeout_s,
            is_async: hook.is_waiter,
            is_rewake: hook.is_waiter,
        }
    }

    /// The entry for `hook` in a group of its own.
    pub(super) fn group(&self, hook: &Hook) -> Group {
        Group { hooks: [self.entry(hook)] }
    }

    /// The groups for the hooks of an event.
    pub(super) fn groups(&self, hooks: &[Hook]) -> Vec<Group> {
        hooks.iter().map(|hook| self.group(hook)).collect()
    }
}

/// Refuses a directory that lacks an executable: every event of every running session would fail
/// with it (H-39).
pub(super) fn check_programs(directory: &Path) -> anyhow::Result<()> {
    let programs: BTreeSet<_> = HOOKS.iter().map(|hook| hook.program).collect();
    for program in programs.into_iter().chain([status_line::PROGRAM]) {
        let path = directory.join(program);
        let runs = path.is_file() && rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok();
        if !runs {
            bail!(
                "{} is not an executable file: build and install the hooks first, or name their \
                 directory with --hooks-dir",
                path.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// `hooks.json` says what the code registers, and nothing else (R-17).
    #[test]
    fn hooks_json_is_the_table_r_17() {
        let file: Value = serde_json::from_str(include_str!("../../../../../hooks.json")).unwrap();
        assert_eq!(file.as_object().unwrap().len(), 1);
        let args = ["--config", "{{config}}", "--state", "{{state}}", "--run", "{{run}}"];
        let args = args.map(str::to_owned).into();
        let registration =
            Registration { directory: "{{hooks}}".to_owned(), args, adds_status_line: false };
        let events = file["hooks"].as_object().unwrap();
        assert_eq!(events.len(), super::events().count());
        for (event, hooks) in super::events() {
            let groups = serde_json::to_value(registration.groups(hooks)).unwrap();
            assert_eq!(events[event], groups, "{event}");
        }
    }

    /// An event on this list was seen to leave the client unchanged by a silent hook (H-12).
    #[test]
    fn only_events_known_to_be_harmless_are_registered_h_12() {
        let harmless = [
            "SessionStart",
            "SessionEnd",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "PermissionRequest",
            "PermissionDenied",
            "Notification",
            "Stop",
            "StopFailure",
            "SubagentStart",
            "SubagentStop",
        ];
        let harmful = [
            "WorktreeCreate",
            "WorktreeRemove",
            "MessageDisplay",
            "Elicitation",
            "ElicitationResult",
            "FileChanged",
            "PreCompact",
            "PostCompact",
        ];
        let events: BTreeSet<_> = HOOKS.iter().map(|hook| hook.event).collect();
        assert_eq!(events, BTreeSet::from(harmless));
        assert!(harmful.iter().all(|event| !events.contains(event)));
        assert_eq!(events.len(), super::events().count(), "an event's hooks stand together");
        for (event, hooks) in super::events() {
            let reports = hooks.iter().filter(|hook| !hook.is_waiter);
            assert_eq!(reports.count(), 1, "{event}: one command that reports it (R-17)");
        }
    }

    /// The wake hook stands at SessionStart, Stop and StopFailure, behind which a session waits for its
    /// quota (S1-22), in the background and with its exit code heard (H-02); what reports an event is waited for (H-12).
    #[test]
    fn the_wake_hook_is_registered_where_a_session_comes_to_rest_h_02() {
        let registration =
            Registration { directory: "/h".to_owned(), args: Vec::new(), adds_status_line: false };
        let waiters: Vec<_> = HOOKS.iter().filter(|hook| hook.is_waiter).collect();
        assert_eq!(
            waiters.iter().map(|hook| hook.event).collect::<Vec<_>>(),
            ["SessionStart", "Stop", "StopFailure"]
        );
        for hook in waiters {
            assert_eq!(
                serde_json::to_value(registration.entry(hook)).unwrap(),
                serde_json::json!({
                    "type": "command", "command": "/h/coord-hook-wake", "args": [],
                    "timeout": 86400, "async": true, "asyncRewake": true,
                })
            );
        }
        for hook in HOOKS.iter().filter(|hook| !hook.is_waiter) {
            let entry = serde_json::to_value(registration.entry(hook)).unwrap();
            assert!(entry.get("async").is_none() && entry.get("asyncRewake").is_none());
        }
    }

    /// Exec form, one second and more of room, SessionEnd above its 1.5 s, permission above 590 s.
    #[test]
    fn entries_run_without_a_shell_and_with_room_in_time_r_17() {
        let root = Path::new("/r");
        let paths = Paths::resolve(Some(root), "m1234567", 5, |_| None).unwrap();
        let registration = Registration::new(Path::new("/a b"), Some(root), &paths).unwrap();
        let args = serde_json::json!([
            "--root",
            "/r",
            "--config",
            "/r/config",
            "--state",
            "/r/state",
            "--run",
            "/r/run"
        ]);
        for hook in &HOOKS {
            let entry = serde_json::to_value(registration.entry(hook)).unwrap();
            assert_eq!(entry["command"], format!("/a b/{}", hook.program));
            assert_eq!(entry["args"], args);
            assert!(hook.program.starts_with(PROGRAM_PREFIX));
            let least = if hook.event == "PermissionRequest" { TIMEOUT_WAIT_S } else { 2 };
            assert!(least <= hook.timeout_s, "{hook:?}");
        }
    }
}
