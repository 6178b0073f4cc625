//! An attack with the real programs: variables of a session lead to a planted installation. The hooks
//! neither run its program nor report to it. Alone in its program, since it collects the children of
//! the whole process.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_tests::coord::{HOOKS, programs};
use coord_tests::process::{copy_program, write_program};
use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A home with the hooks installed, and a planted installation beside it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        // What a hook leaves behind becomes a child of this process and can be waited for.
        set_child_subreaper(Some(getpid())).unwrap();
        let place = Self { directory: tempfile::tempdir().unwrap() };
        for name in ["home/.claude", "bin"] {
            fs::create_dir_all(place.path(name)).unwrap();
        }
        for name in HOOKS.into_iter().chain(["coord"]) {
            copy_program(&programs().join(name), &place.path("bin").join(name));
        }
        place.coord(&["install", "--hooks-dir", place.path("bin").to_str().unwrap()]);
        place.plant();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn coord(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.path("bin/coord"));
        command.env_clear().env("HOME", self.path("home")).env("PATH", "/usr/bin:/bin");
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// The state directory of the installation.
    fn state(&self) -> PathBuf {
        let base = self.path("home/.local/state/coord");
        fs::read_dir(base).unwrap().next().unwrap().unwrap().path()
    }

    /// What the variables of the session lead to.
    fn variables(&self) -> [(&'static str, PathBuf); 5] {
        [
            ("HOME", self.path("planted")),
            ("COORD_HOME", self.path("planted/root")),
            ("XDG_STATE_HOME", self.path("planted/state")),
            ("XDG_CONFIG_HOME", self.path("planted/config")),
            ("XDG_RUNTIME_DIR", self.path("planted/run")),
        ]
    }

    /// An installation whose program leaves a trace, wherever a variable may lead.
    fn plant(&self) {
        let program = self.path("planted/program");
        let states = ["state/coord", ".local/state/coord", "root/state"];
        let machine = self.state().file_name().unwrap().to_owned();
        for state in states {
            let state = self.path("planted").join(state).join(&machine);
            fs::create_dir_all(&state).unwrap();
            let environment: Value =
                self.variables().iter().map(|(name, path)| (*name, json!(path))).collect();
            let record = json!({
                "v": 1, "coord": program, "machine": machine.to_str().unwrap(),
                "uid": rustix::process::geteuid().as_raw(),
                "pid_ns": fs::metadata("/proc/self/ns/pid").unwrap().ino(),
                "root": null, "environment": environment,
            });
            fs::write(state.join("install.json"), record.to_string()).unwrap();
        }
        for directory in ["planted/run/coord", "planted/config"] {
            fs::create_dir_all(self.path(directory)).unwrap();
        }
        let script = format!("#!/bin/sh\ntouch '{}'\n", self.path("ran").display());
        write_program(&program, &script);
    }

    /// Runs the registered hook of SessionStart below an interactive client with these variables.
    fn start_session(&self, variables: &[(&str, PathBuf)]) {
        let settings = fs::read(self.path("home/.claude/settings.json")).unwrap();
        let settings: Value = serde_json::from_slice(&settings).unwrap();
        let entry = &settings["hooks"]["SessionStart"][0]["hooks"][0];
        let words = [&entry["command"]].into_iter().chain(entry["args"].as_array().unwrap());
        let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
        let payload = json!({
            "session_id": "5e55-0001", "hook_event_name": "SessionStart", "cwd": "/",
            "source": "startup", "transcript_path": "/t.jsonl",
        });
        fs::write(self.path("payload"), payload.to_string()).unwrap();
        // A shell that waits for a command at once may turn its own output aside for it (dash), and then
        // the harness would not write to its terminal.
        let harness = format!(
            "export CLAUDE_PID=$$ CLAUDECODE=1\n{} < {payload} > {code}.out 2>&1 &\nwait $!\necho $? > {code}\n",
            words.join(" "),
            payload = self.path("payload").display(),
            code = self.path("code").display(),
        );
        fs::write(self.path("harness"), harness).unwrap();
        let status = Command::new("/usr/bin/script")
            .args(["-qec", &format!("/bin/sh {}", self.path("harness").display()), "/dev/null"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("SHELL", "/bin/sh")
            .env("HOME", self.path("home"))
            .envs(variables.iter().map(|(name, path)| (name, path)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(fs::read_to_string(self.path("code")).unwrap(), "0\n");
        assert_eq!(fs::read_to_string(self.path("code.out")).unwrap(), "");
    }
}

/// Whether a hook made a spool below this directory.
fn has_spooled(below: &Path) -> bool {
    let entries = fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
    let mut directories = entries.filter(|path| path.is_dir());
    directories.any(|path| path.ends_with("spool") || has_spooled(&path))
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whatever failed: no coordinator stays behind.
        let mut down = Command::new(self.path("bin/coord"));
        down.env_clear().env("HOME", self.path("home")).arg("down");
        drop(down.output());
    }
}

// H-48, H-24
#[test]
fn a_planted_installation_is_neither_run_nor_reported_to() {
    let place = Place::new();
    // The installation's own coordinator is not to be started yet.
    fs::write(place.state().join("down"), "").unwrap();
    place.start_session(&place.variables());
    assert_eq!(wait(WaitOptions::NOHANG).err(), Some(Errno::CHILD), "something was started");
    assert!(!place.path("ran").exists(), "the planted program ran");
    assert!(!has_spooled(&place.path("planted")));
    let inspect = place.coord(&["inspect", "--json"]).stdout;
    let inspect: Value = serde_json::from_slice(&inspect).unwrap();
    assert_eq!(inspect["coordinator"]["spool_pending"], 1, "{inspect}");

    // The installed coordinator is started, with the directories of the installation.
    fs::remove_file(place.state().join("down")).unwrap();
    place.start_session(&place.variables());
    let (_, ended) = wait(WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(ended.exit_status(), Some(0), "coord up");
    let health: Value = serde_json::from_slice(&place.coord(&["status", "--json"]).stdout).unwrap();
    let environ = fs::read(format!("/proc/{}/environ", health["pid"])).unwrap();
    let environ = String::from_utf8(environ).unwrap();
    let home = format!("HOME={}", place.path("home").display());
    assert!(environ.split('\0').any(|variable| variable == home), "{environ}");
    assert!(!environ.contains("planted"), "{environ}");
    assert!(!place.path("ran").exists() && !has_spooled(&place.path("planted")));
}
