//! `install.sh` from a directory of prebuilt programs, with blanks in every path (H-39).

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use coord_tests::coord::HOOKS;
use coord_tests::process::copy_program;
use coord_wire::notice::SENDER;

/// A home with a blank and a letter beyond ASCII in its name.
const HOME: &str = "ho m\u{e9}";

/// A tarball's content with stand-in hooks, and a home.
struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Self { directory };
        for directory in ["tar ball/bin", "tar ball/lib/coord", "ho m\u{e9}/.claude"] {
            fs::create_dir_all(scratch.path(directory)).unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../install.sh");
        copy_program(&script, &scratch.path("tar ball/install.sh"));
        let program = Path::new(env!("CARGO_BIN_EXE_coord"));
        copy_program(program, &scratch.path("tar ball/bin/coord"));
        for name in HOOKS.into_iter().chain([SENDER]) {
            let file = scratch.path("tar ball/lib/coord").join(name);
            fs::write(&file, "first").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        scratch
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(self.path("tar ball/install.sh"));
        command.args(args).env_clear().env("HOME", self.path(HOME));
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.current_dir(self.path(HOME)).output().unwrap()
    }

    #[track_caller]
    fn said(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The installed hooks and the sender of notices: every file there but the list of directories that install.sh
    /// made.
    fn helpers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path(HOME).join(".local/lib/coord")).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        files.filter(|file| !file.ends_with("made")).collect()
    }
}

#[test]
fn an_upgrade_replaces_programs_by_rename_and_keeps_the_entries_h_39() {
    let scratch = Scratch::new();
    scratch.said(&["--no-start"]);
    let settings = scratch.path("ho m\u{e9}/.claude/settings.json");
    let hook = scratch.path("ho m\u{e9}/.local/lib/coord/coord-hook-stop");
    let before = (fs::read(&settings).unwrap(), fs::metadata(&hook).unwrap().ino());
    let mut open = fs::File::open(&hook).unwrap();
    fs::write(scratch.path("tar ball/lib/coord/coord-hook-stop"), "second").unwrap();
    let said = scratch.said(&["--no-start"]);
    assert!(said.contains("has all 13 events: nothing changed"), "{said}");
    assert!(said.contains("to your shell's profile: export PATH="), "{said}");
    assert_eq!(fs::read(&settings).unwrap(), before.0);
    assert!(!String::from_utf8_lossy(&before.0).contains(SENDER), "it is no hook");
    assert_ne!(fs::metadata(&hook).unwrap().ino(), before.1);
    assert_eq!(fs::read_to_string(&hook).unwrap(), "second");
    let old = std::io::read_to_string(&mut open).unwrap();
    assert_eq!(old, "first", "whoever runs the old one keeps it whole");
    assert_eq!(scratch.helpers().len(), 8, "nothing unfinished is left");
}

#[test]
fn programs_leave_only_when_no_entry_was_left_to_remove_h_39() {
    let scratch = Scratch::new();
    scratch.said(&["--no-start"]);
    let said = scratch.said(&["--uninstall"]);
    assert!(said.contains("run this again in 10 minutes"), "{said}");
    assert_eq!(scratch.helpers().len(), 8);
    let said = scratch.said(&["--uninstall"]);
    let state = scratch.path(HOME).join(".local/state/coord");
    let rest = format!("recorded state stays in {}: delete", state.display());
    assert!(said.contains("removed the programs") && said.contains(&rest), "{said}");
    assert!(state.is_dir() && !said.contains("--purge"), "the program that could is gone: {said}");
    assert!(!scratch.path("ho m\u{e9}/.local/lib/coord").exists());
    assert!(!scratch.path(HOME).join(".local/bin").exists(), "it came with the programs");
    assert_eq!(scratch.run(&["--uninstall"]).status.code(), Some(1));
}

#[test]
fn directories_that_were_there_or_hold_more_stay() {
    let scratch = Scratch::new();
    let (before, after) = (scratch.path(HOME).join("p/bin"), scratch.path(HOME).join("p/lib/x"));
    fs::create_dir_all(&before).unwrap();
    let prefix = scratch.path(HOME).join("p");
    let install = |more: &[&str]| {
        scratch.said(&[&["--prefix", prefix.to_str().unwrap()], more].concat());
    };
    install(&["--no-start", "--no-register"]);
    fs::write(&after, "the user's").unwrap();
    install(&["--uninstall"]);
    assert!(before.exists() && after.exists());
    assert!(!prefix.join("lib/coord").exists());
}

#[test]
fn programs_stay_while_the_plugin_names_them_h_39() {
    let scratch = Scratch::new();
    scratch.said(&["--no-start", "--no-register"]);
    let settings = scratch.path(HOME).join(".claude/settings.json");
    fs::write(&settings, r#"{"enabledPlugins": {"coord@coord": true}}"#).unwrap();
    let said = scratch.said(&["--uninstall"]);
    assert!(said.contains("claude plugin uninstall coord@coord"), "{said}");
    assert_eq!(scratch.helpers().len(), 8);
    fs::write(&settings, r#"{"enabledPlugins": {"coord@coord": false}}"#).unwrap();
    assert!(scratch.said(&["--uninstall"]).contains("removed the programs"));
}

// S0-25g
#[test]
fn the_recovery_mode_is_written_and_the_rest_of_the_file_stays() {
    let scratch = Scratch::new();
    let run = |more: &[&str]| scratch.said(&[&["--no-start", "--no-register"], more].concat());
    let install = |mode| run(&["--recovery", mode]);
    let config = scratch.path("ho m\u{e9}/.config/coord/config.toml");
    run(&[]);
    assert!(!config.exists(), "not asked for, not made");
    let said = install("observe");
    assert!(
        said.contains("wrote recovery mode \"observe\"")
            && said.contains(": coord brings nothing back")
    );
    assert_eq!(fs::read_to_string(&config).unwrap(), "[recovery]\nmode = \"observe\"\n");
    let users = "[recovery] # mine\n  mode = \"signature\" # so\n[log]\n";
    fs::write(&config, users).unwrap();
    assert!(install("signature").contains("already set: recovery mode \"signature\""));
    assert_eq!(fs::read_to_string(&config).unwrap(), users);
    assert!(install("act").contains("wrote recovery mode \"act\""));
    let now = users.replace("signature", "act");
    assert_eq!(fs::read_to_string(&config).unwrap(), now);
    run(&[]);
    assert_eq!(fs::read_to_string(&config).unwrap(), now);
    assert!(!scratch.path("ho m\u{e9}/.claude/settings.json").exists());
}

// H-22
#[test]
fn the_second_name_is_the_same_program() {
    let scratch = Scratch::new();
    scratch.said(&["--no-start", "--no-register"]);
    for upgrade in [false, true] {
        if upgrade {
            scratch.said(&["--no-start", "--no-register"]);
        }
        let [coord, coordctl] = ["coord", "coordctl"].map(|name| {
            fs::metadata(scratch.path(HOME).join(".local/bin").join(name)).unwrap().ino()
        });
        assert_eq!(coord, coordctl);
    }
    let help = Command::new(scratch.path(HOME).join(".local/bin/coordctl")).arg("help").output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    assert!(help.contains("reset-failed") && !help.contains("inspect "), "{help}");
}

#[test]
fn unknown_options_are_usage_errors() {
    let scratch = Scratch::new();
    for args in [&["--nope"][..], &["--scope", "x"], &["--prefix"], &["--recovery", "on"]] {
        let output = scratch.run(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains("Usage: ./install.sh"));
    }
}
