//! A home of its own, a prefix with hooks that do nothing, and the program run there.

use coord_tests::coord::HOOKS;
use coord_tests::process::write_program;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A prefix with hooks that do nothing, and a home.
pub(crate) struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Self { directory };
        let hooks = scratch.path("pre fix/lib/coord");
        fs::create_dir(scratch.path("bin")).unwrap();
        fs::create_dir_all(&hooks).unwrap();
        fs::create_dir_all(scratch.path("home/.claude")).unwrap();
        for name in HOOKS {
            let path = hooks.join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        scratch.claude_says("echo '2.1.328 (Claude Code)'");
        scratch
    }

    /// Puts a `claude` first on the path that runs this: the one of this machine is not asked.
    pub(crate) fn claude_says(&self, script: &str) {
        write_program(&self.path("bin/claude"), &format!("#!/bin/sh\n{script}\n"));
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(relative)
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.path("home/.claude/settings.json")
    }

    pub(crate) fn write(&self, text: &str) {
        fs::write(self.settings(), text).unwrap();
    }

    #[track_caller]
    pub(crate) fn read(&self) -> String {
        fs::read_to_string(self.settings()).unwrap()
    }

    pub(crate) fn coord(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The program in this home, with nothing of the caller's environment but `PATH`, behind `bin`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coord"));
        command.args(args).current_dir(self.path("home")).env_clear();
        if args[0] == "install" {
            command.arg("--hooks-dir").arg(self.path("pre fix/lib/coord"));
        }
        let path = std::env::var_os("PATH").unwrap();
        let places = [self.path("bin")].into_iter().chain(std::env::split_paths(&path));
        command.env("HOME", self.path("home")).env("PATH", std::env::join_paths(places).unwrap());
        command
    }

    /// Runs it, wants success and silence on standard error, and returns what it said.
    #[track_caller]
    pub(crate) fn said(&self, args: &[&str]) -> String {
        let output = self.coord(args);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs it, wants exit 1 and one line, and returns that line.
    #[track_caller]
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let output = self.coord(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
        assert_eq!(output.stdout, b"");
        error
    }

    pub(crate) fn state(&self) -> PathBuf {
        let base = self.path("home/.local/state/coord");
        fs::read_dir(base).unwrap().next().unwrap().unwrap().path()
    }

    /// Number of files beside the settings, themselves included.
    pub(crate) fn n_config_files(&self) -> usize {
        fs::read_dir(self.path("home/.claude")).unwrap().count()
    }
}
