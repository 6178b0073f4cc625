//! One test's own place: a home, Claude Code's configuration directory, a project that is a git
//! repository, and coord's root, all in one temporary directory that goes with the test.

use crate::process::{run, sweep};
use coord_wire::paths::{Paths, machine_id};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The API key the fake API is given; the client is told that its user approved it.
pub const API_KEY: &str = "sk-ant-no-key-at-all-0000000000";

/// A test's directories.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
}

impl Home {
    /// Makes the directories, the repository, and the state of a client whose user has been
    /// through its first start and trusts the project.
    #[track_caller]
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("coord-").tempdir().expect("temporary directory");
        let home = Self { dir };
        for dir in [home.home(), home.config_dir(), home.project(), home.root(), home.tmp()] {
            std::fs::create_dir_all(dir).expect("create a test directory");
        }
        // A terminal's socket lies there, and coord asks none that others could reach (H-27).
        std::fs::set_permissions(home.tmp(), std::fs::Permissions::from_mode(0o700))
            .expect("keep the directory to oneself");
        home.make_repository();
        home.seed_client(&home.config_dir());
        home
    }

    /// The whole of it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.dir().join("home")
    }

    /// `CLAUDE_CONFIG_DIR`.
    pub fn config_dir(&self) -> PathBuf {
        self.home().join("claude")
    }

    /// The folder that sessions start in.
    pub fn project(&self) -> PathBuf {
        self.dir().join("project")
    }

    /// coord's root: `COORD_HOME`, `--root`.
    pub fn root(&self) -> PathBuf {
        self.dir().join("coord")
    }

    /// `TMPDIR`.
    pub fn tmp(&self) -> PathBuf {
        self.dir().join("tmp")
    }

    /// Where coord's files lie under [`Home::root`].
    pub fn paths(&self) -> Paths {
        let file = std::fs::read_to_string("/etc/machine-id").ok();
        let uname = rustix::system::uname();
        let machine = machine_id(file.as_deref(), &uname.nodename().to_string_lossy());
        let uid = rustix::process::geteuid().as_raw();
        Paths::resolve(Some(&self.root()), &machine, uid, |_| None).expect("the root is absolute")
    }

    /// Writes coord's `config.toml`.
    #[track_caller]
    pub fn write_config(&self, text: &str) {
        let file = self.paths().config_file();
        std::fs::create_dir_all(file.parent().expect("a file has a directory"))
            .and_then(|()| std::fs::write(&file, text))
            .unwrap_or_else(|error| panic!("write {}: {error}", file.display()));
    }

    /// Puts the client's session registry where the client finds it and nobody else looks: behind a
    /// link, which is not followed (H-27).
    #[track_caller]
    pub fn hide_registry(&self) {
        let hidden = self.home().join("hidden-sessions");
        std::fs::create_dir(&hidden).expect("create a directory");
        symlink(hidden, self.config_dir().join("sessions")).expect("link a directory");
    }

    /// Makes another configuration directory of the same user.
    #[track_caller]
    pub fn other_config_dir(&self) -> PathBuf {
        let dir = self.home().join("claude-at-work");
        std::fs::create_dir(&dir).expect("create a directory");
        self.seed_client(&dir);
        dir
    }

    /// A command with the environment of this home and nothing else of the caller's but `PATH`.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TMPDIR", self.tmp())
            .env("LANG", "C.UTF-8")
            .current_dir(self.project());
        command
    }

    #[track_caller]
    fn make_repository(&self) {
        std::fs::write(self.project().join("README.md"), "demo\n").expect("write a file");
        for arguments in
            [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "first"]]
        {
            let mut git = self.command("git");
            git.args(["-c", "user.name=dev", "-c", "user.email=dev@example.com"]).args(arguments);
            run(git, &self.tmp(), "git").expect_success();
        }
    }

    fn seed_client(&self, config_dir: &Path) {
        let state = json!({
            "hasCompletedOnboarding": true,
            "lastOnboardingVersion": crate::client::VERSION,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [&API_KEY[API_KEY.len() - 20..]], "rejected": []},
            "projects": {self.project().to_string_lossy(): {
                "hasTrustDialogAccepted": true,
                "hasCompletedProjectOnboarding": true,
                "projectOnboardingSeenCount": 5,
                "allowedTools": [],
            }},
        });
        let file = config_dir.join(".claude.json");
        std::fs::write(file, state.to_string()).expect("write the client's state");
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        sweep(&self.home());
    }
}
