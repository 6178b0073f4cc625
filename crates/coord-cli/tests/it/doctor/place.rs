//! One installation that works, to be broken: hooks under a prefix, settings, a client.

use coord_tests::coord::{HOOKS, programs, run_coord};
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running, copy_program, write_program};
use coord_wire::frame;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// An installation.
pub(crate) struct Place {
    pub(crate) home: Home,
    /// Where the client is looked for, before `/usr/bin`.
    pub(crate) bin: PathBuf,
    /// Where the hooks are.
    pub(crate) hooks: PathBuf,
    /// `COORD_HOME`.
    pub(crate) root: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let (bin, hooks) = (home.dir().join("bin"), home.dir().join("new/lib/coord"));
        let place = Self { bin, hooks, root: home.root(), home };
        put_hooks(&place.hooks);
        fs::create_dir(&place.bin).unwrap();
        place.put_client("2.1.328 (Claude Code)");
        place.install(&place.hooks);
        place
    }

    /// A client that can say its version and no more.
    pub(crate) fn put_client(&self, version: &str) {
        let client = self.bin.join("claude");
        write_program(&client, &format!("#!/bin/sh\necho '{version}'\n"));
    }

    #[track_caller]
    pub(crate) fn install(&self, hooks: &Path) {
        let [hooks, config] =
            [hooks, &self.home.config_dir()].map(|dir| dir.to_str().unwrap().to_owned());
        self.coord(&["install", "--hooks-dir", &hooks, "--config-dir", &config]).expect_success();
    }

    #[track_caller]
    pub(crate) fn coord(&self, arguments: &[&str]) -> Finished {
        let mut command = self.home.command(programs().join("coord"));
        command.args(arguments).env("COORD_HOME", &self.root);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.bin.display()));
        run_coord(command, &self.home, arguments)
    }

    /// `coord doctor` with the hooks and settings of this place.
    #[track_caller]
    pub(crate) fn doctor(&self, arguments: &[&str]) -> Finished {
        let [hooks, config] =
            [&self.hooks, &self.home.config_dir()].map(|dir| dir.to_str().unwrap().to_owned());
        let own = ["doctor", "--hooks-dir", &hooks, "--config-dir", &config];
        self.coord(&[&own[..], arguments].concat())
    }

    /// What doctor found, as JSON; its exit code must agree.
    #[track_caller]
    pub(crate) fn findings(&self, arguments: &[&str]) -> Vec<Value> {
        let finished = self.doctor(&[&["--json"], arguments].concat());
        let answer: Value = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("{error}: {finished:?}"));
        let findings = answer["findings"].as_array().unwrap().clone();
        let is_ok = findings.iter().all(|finding| finding["level"] != "error");
        assert_eq!((&answer["schema"], &answer["ok"]), (&json!(1), &json!(is_ok)));
        assert_eq!(finished.code(), Some(i32::from(!is_ok)), "{finished:?}");
        findings
    }

    /// Everything that is not ok.
    #[track_caller]
    pub(crate) fn complaints(&self) -> Vec<String> {
        let findings = self.findings(&[]);
        let bad = findings.iter().filter(|finding| finding["level"] != "ok");
        bad.map(|finding| finding["check"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.home.config_dir().join("settings.json")
    }

    /// Changes the settings as text.
    pub(crate) fn edit_settings(&self, change: impl FnOnce(String) -> String) {
        let before = fs::read_to_string(self.settings()).unwrap();
        let after = change(before.clone());
        assert_ne!(after, before);
        fs::write(self.settings(), after).unwrap();
    }

    /// Changes the settings as JSON.
    pub(crate) fn edit_json(&self, change: impl FnOnce(&mut Value)) {
        self.edit_settings(|text| {
            let mut value = serde_json::from_str(&text).unwrap();
            change(&mut value);
            serde_json::to_string_pretty(&value).unwrap()
        });
    }

    /// Has a hook read this.
    #[track_caller]
    pub(crate) fn feed(&self, payload: &str, code: i32) {
        let mut command = self.home.command(self.hooks.join("coord-hook-event"));
        command.arg("--root").arg(&self.root).stdin(Stdio::piped());
        let mut hook = Running::start(command, &self.home.tmp(), "hook");
        hook.take_stdin().unwrap().write_all(payload.as_bytes()).unwrap();
        assert_eq!(hook.finish().code(), Some(code));
    }

    /// A journal of these entries, written at this time.
    pub(crate) fn write_journal(&self, at_ms: u64, entries: &[Value]) {
        let mut bytes = Vec::new();
        frame::push(&mut bytes, br#"{"store":1,"first_seq":1}"#);
        for (entry, seq) in entries.iter().zip(1u64..) {
            let record = json!({"seq": seq, "at": at_ms, "mono_ns": seq, "entry": entry});
            frame::push(&mut bytes, record.to_string().as_bytes());
        }
        let dir = self.home.paths().journal();
        fs::create_dir_all(&dir).unwrap();
        chmod(&dir, 0o700);
        let file = dir.join(format!("{:020}.seg", 1));
        fs::write(&file, bytes).unwrap();
        chmod(&file, 0o600);
    }
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Copies the hooks, as an installation does.
pub(crate) fn put_hooks(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    for name in HOOKS {
        copy_program(&programs().join(name), &dir.join(name));
        chmod(&dir.join(name), 0o755);
    }
}
