//! `coord install` and `coord uninstall` as a user runs them, in a home of their own (G8, R-17).

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::scratch::Scratch;

const SETTINGS: &str = "{\r\n\t\"model\": \"opus\",\r\n\t\"env\": {\"A\":  \"1\"}\r\n}";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn install_and_uninstall_keep_bytes_line_ends_and_mode_g8() {
    let scratch = Scratch::new();
    scratch.write(SETTINGS);
    fs::set_permissions(scratch.settings(), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(
        scratch.said(&["install"]),
        "registered 13 events in ~/.claude/settings.json \
         (backup: ~/.claude/settings.json.coord-backup)\n"
    );
    let registered = scratch.read();
    let kept = SETTINGS.trim_end_matches("\r\n}");
    assert!(
        registered.starts_with(&format!("{kept},\r\n\t\"hooks\": {{\r\n\t\t\"")),
        "{registered}"
    );
    assert_eq!(registered.matches('\n').count(), registered.matches("\r\n").count());
    let value: serde_json::Value = serde_json::from_str(&registered).unwrap();
    let entry = &value["hooks"]["Stop"][0]["hooks"][0];
    let hook = scratch.path("pre fix/lib/coord/coord-hook-stop");
    assert_eq!(entry["command"], hook.to_str().unwrap());
    let [config, state] = [".config/coord", ".local/state/coord"]
        .map(|path| scratch.path("home").join(path).to_str().unwrap().to_owned());
    assert_eq!(entry["args"], serde_json::json!(["--config", config, "--state", state]));
    assert_eq!(mode(&scratch.settings()), 0o640);
    let backup = scratch.path("home/.claude/settings.json.coord-backup");
    assert_eq!(fs::read_to_string(&backup).unwrap(), SETTINGS);
    assert_eq!(mode(&backup), 0o600);

    let said = scratch.said(&["uninstall"]);
    assert!(said.starts_with("removed 13 events from ~/.claude/settings.json"), "{said}");
    assert!(!backup.exists(), "the other bytes are back: it has nothing to give");
    assert_eq!(scratch.read(), SETTINGS);
    assert_eq!(mode(&scratch.settings()), 0o640);
    let said = scratch.said(&["uninstall"]);
    assert_eq!(said, "~/.claude/settings.json has no coord hooks: nothing changed\n");
    assert_eq!(scratch.n_config_files(), 1);
}

#[test]
fn a_second_install_changes_nothing_g8() {
    let scratch = Scratch::new();
    scratch.write(SETTINGS);
    scratch.said(&["install"]);
    let files = [
        scratch.settings(),
        scratch.path("home/.claude/settings.json.coord-backup"),
        scratch.state().join("digest.key"),
        scratch.state().join("install.json"),
    ];
    let identities = || {
        files.each_ref().map(|path| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), fs::read(path).unwrap())
        })
    };
    let before = identities();
    let said = scratch.said(&["install"]);
    assert_eq!(said, "~/.claude/settings.json has all 13 events: nothing changed\n");
    assert_eq!(identities(), before);
}

#[test]
fn state_is_private_and_records_who_installed_h_15_h_41() {
    let scratch = Scratch::new();
    scratch.said(&["install"]);
    let state = scratch.state();
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join("digest.key")), 0o600);
    assert_eq!(fs::metadata(state.join("digest.key")).unwrap().len(), 16);
    let record = fs::read(state.join("install.json")).unwrap();
    let record: coord_wire::api::InstallRecord = serde_json::from_slice(&record).unwrap();
    assert_eq!(record.v, 1);
    assert_eq!(Path::new(&record.coord), Path::new(env!("CARGO_BIN_EXE_coord")));
    assert_eq!(state.file_name().unwrap().to_str().unwrap(), record.machine);
    assert_eq!(record.pid_ns, fs::metadata("/proc/self/ns/pid").unwrap().ino());
    assert_eq!(record.root, None);
}

// H-24: what the coordinator runs is found once, by who installs, and not by a PATH of later.
#[test]
fn the_tmux_of_who_installs_is_recorded_h_24() {
    let scratch = Scratch::new();
    scratch.said(&["install"]);
    let record = fs::read(scratch.state().join("install.json")).unwrap();
    let record: coord_wire::api::InstallRecord = serde_json::from_slice(&record).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let tmux = std::env::split_paths(&path).map(|place| place.join("tmux"));
    let tmux = tmux.into_iter().find(|program| program.is_file()).unwrap();
    assert_eq!(record.tmux.as_deref(), tmux.to_str());
}

/// The hooks get the root from their arguments, since a project can set their environment.
#[test]
fn a_root_stands_in_the_arguments_of_the_hooks_h_24() {
    let scratch = Scratch::new();
    let root = scratch.path("ro ot");
    scratch.said(&["install", "--root", root.to_str().unwrap()]);
    let value: serde_json::Value = serde_json::from_str(&scratch.read()).unwrap();
    let [config, state, run] =
        ["config", "state", "run"].map(|name| root.join(name).to_str().unwrap().to_owned());
    let expected = serde_json::json!([
        "--root",
        root.to_str().unwrap(),
        "--config",
        config,
        "--state",
        state,
        "--run",
        run
    ]);
    for (event, groups) in value["hooks"].as_object().unwrap() {
        assert_eq!(groups[0]["hooks"][0]["args"], expected, "{event}");
    }
    assert!(root.join("state").is_dir());
    assert!(!scratch.path("home/.local").exists());
}

#[test]
fn dry_runs_show_a_diff_and_change_nothing_g8() {
    let scratch = Scratch::new();
    scratch.write("{}\n");
    let said = scratch.said(&["install", "--dry-run"]);
    assert!(said.starts_with("--- "), "{said}");
    assert!(said.contains("+    \"SessionStart\": ["), "{said}");
    assert_eq!(scratch.read(), "{}\n");
    assert!(!scratch.path("home/.local").exists());
    assert_eq!(scratch.n_config_files(), 1);

    scratch.said(&["install"]);
    let registered = scratch.read();
    let said = scratch.said(&["uninstall", "--purge", "--dry-run"]);
    assert!(said.contains("-    \"SessionStart\": ["), "{said}");
    assert!(said.contains("\nwould remove ~/.local/state/coord/"), "{said}");
    assert_eq!(scratch.read(), registered);
    assert!(scratch.state().join("digest.key").exists());
}

#[test]
fn a_file_made_by_install_is_removed_again_g8() {
    let scratch = Scratch::new();
    fs::remove_dir(scratch.path("home/.claude")).unwrap();
    let said = scratch.said(&["install"]);
    assert_eq!(said, "registered 13 events in ~/.claude/settings.json (new file)\n");
    assert_eq!(mode(&scratch.settings()), 0o600);
    let said = scratch.said(&["uninstall"]);
    assert!(said.starts_with("removed ~/.claude/settings.json, which held nothing else"), "{said}");
    assert!(!scratch.settings().exists());
    scratch.said(&["uninstall"]);
    assert!(!scratch.settings().exists());
}

#[test]
fn a_link_stays_a_link_g8() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("home/dotfiles")).unwrap();
    let target = scratch.path("home/dotfiles/claude.json");
    fs::write(&target, SETTINGS).unwrap();
    symlink("../dotfiles/claude.json", scratch.settings()).unwrap();
    let said = scratch.said(&["install"]);
    let written = "registered 13 events in ~/.claude/settings.json -> ~/dotfiles/claude.json (";
    assert!(said.starts_with(written), "{said}");
    assert!(scratch.settings().is_symlink());
    assert!(fs::read_to_string(&target).unwrap().contains("coord-hook-stop"));
    scratch.said(&["uninstall"]);
    assert!(scratch.settings().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), SETTINGS);
    assert_eq!(fs::read_dir(scratch.path("home/dotfiles")).unwrap().count(), 1);
}

// A link in the settings' place may lead to what another user reads and writes.
#[test]
fn a_link_into_a_file_of_another_user_is_refused() {
    let scratch = Scratch::new();
    let others = scratch.path("home/others");
    fs::create_dir(&others).unwrap();
    let target = others.join("settings.json");
    fs::write(&target, "{}").unwrap();
    if std::os::unix::fs::chown(&target, Some(12345), Some(12345)).is_err() {
        // Who cannot give a file away links to one of root.
        assert_ne!(
            fs::metadata("/etc/hostname").unwrap().uid(),
            fs::metadata(&target).unwrap().uid()
        );
        fs::remove_file(&target).unwrap();
        symlink("/etc/hostname", &target).unwrap();
    }
    symlink(&target, scratch.settings()).unwrap();
    for arguments in [&["install"][..], &["install", "--dry-run"], &["uninstall"]] {
        let error = scratch.refused(arguments);
        assert!(
            error.contains("settings.json is a link to ") && error.contains("user "),
            "{error}"
        );
        assert!(error.contains("nothing was changed"), "{error}");
    }
    // The same where the directory is the link.
    fs::remove_dir_all(scratch.path("home/.claude")).unwrap();
    symlink(&others, scratch.path("home/.claude")).unwrap();
    let error = scratch.refused(&["install"]);
    assert!(error.contains("is a link to "), "{error}");
    assert!(!scratch.path("home/.local").exists(), "nothing is prepared for a refused file");
}

// H-48: an entry of an earlier version, which left its directories to the environment, is brought up
// to date by a new `install`, and either is removed.
#[test]
fn entries_of_an_earlier_version_are_replaced_or_removed() {
    let scratch = Scratch::new();
    scratch.write(SETTINGS);
    scratch.said(&["install"]);
    let current = scratch.read();
    for old_args in [serde_json::json!([]), serde_json::json!(["--root", "/x"])] {
        let mut value: serde_json::Value = serde_json::from_str(&current).unwrap();
        for groups in value["hooks"].as_object_mut().unwrap().values_mut() {
            for group in groups.as_array_mut().unwrap() {
                group["hooks"][0]["args"] = old_args.clone();
            }
        }
        let old = serde_json::to_string_pretty(&value).unwrap();
        scratch.write(&old);
        scratch.said(&["install"]);
        let now: serde_json::Value = serde_json::from_str(&scratch.read()).unwrap();
        assert_eq!(now, serde_json::from_str::<serde_json::Value>(&current).unwrap());
        scratch.write(&old);
        scratch.said(&["uninstall"]);
        assert!(!scratch.read().contains("coord-hook"));
    }
}

// H-48: hooks use the directories of the installation whatever the environment says, and so does
// every verb; where a root leads elsewhere, that is said.
#[test]
fn directories_are_those_of_the_installation_h_48() {
    let scratch = Scratch::new();
    let run = scratch.path("run user");
    fs::create_dir(&run).unwrap();
    let with_run = |arguments: &[&str], run: Option<&Path>| {
        let mut command = scratch.command(arguments);
        command.envs(run.map(|run| ("XDG_RUNTIME_DIR", run)));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    let named_run = || {
        let value: serde_json::Value = serde_json::from_str(&scratch.read()).unwrap();
        let args = value["hooks"]["Stop"][0]["hooks"][0]["args"].as_array().unwrap().clone();
        let at = args.iter().position(|arg| arg == "--run")?;
        Some(PathBuf::from(args[at + 1].as_str().unwrap()))
    };
    with_run(&["install"], Some(&run));
    assert_eq!(named_run(), Some(run.join("coord")));
    // After `su` the variable is missing: the directory stays.
    with_run(&["install"], None);
    assert_eq!(named_run(), Some(run.join("coord")));
    let status = || String::from_utf8(scratch.coord(&["status"]).stderr).unwrap();
    assert!(status().contains("Coordinator not running."), "{}", status());
    fs::create_dir(run.join("coord")).unwrap();
    let _silent = UnixListener::bind(run.join("coord/coord.sock")).unwrap();
    assert!(status().contains("Coordinator does not answer."), "{}", status());
}

#[test]
fn hooks_that_report_elsewhere_are_told() {
    let scratch = Scratch::new();
    scratch.said(&["install"]);
    let said = |verb: &str, root: Option<&Path>| {
        let mut command = scratch.command(&[verb]);
        command.envs(root.map(|root| ("COORD_HOME", root)));
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let root = scratch.path("home/place");
    for verb in ["inspect", "status"] {
        let warning = said(verb, Some(&root));
        let warning = warning.lines().next().unwrap_or_default();
        assert_eq!(
            warning,
            "coord: warning: the hooks in ~/.claude/settings.json report to ~/.local/state/coord, \
             but this coord uses ~/place/state; unset COORD_HOME, or run `coord install` with it"
        );
        assert!(!said(verb, None).contains("warning"));
    }
}

#[test]
fn a_config_directory_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let error = scratch.refused(&["install", "--config-dir", "typo"]);
    assert!(error.contains("home/typo: no such directory"), "{error}");
    assert!(!scratch.path("home/typo").exists() && !scratch.path("home/.local").exists());
}

#[test]
fn what_cannot_be_parsed_is_refused_and_left_alone_g8() {
    let scratch = Scratch::new();
    let cases: [(&[u8], &str); 5] = [
        (b"{\n  \"a\": 1, // why\n}", ":2:11: not strict JSON: comments are not allowed"),
        (b"{\n  \"a\": 1,\n}", ":2:9: not strict JSON: trailing commas are not allowed"),
        (b"{\"hooks\": {}, \"hooks\": {}}", ":1:15: the key \"hooks\" is here twice"),
        (b"{\"hooks\": {\"Stop\": {}}}", ":1:20: \"hooks\".\"Stop\" is not an array"),
        (b"{\n\"a\": \"\xff\"}", ":2:7: not UTF-8"),
    ];
    for (settings, expected) in cases {
        fs::write(scratch.settings(), settings).unwrap();
        for verb in ["install", "uninstall"] {
            let error = scratch.refused(&[verb]);
            assert!(error.contains(&format!("settings.json{expected}")), "{error}");
            assert_eq!(fs::read(scratch.settings()).unwrap(), settings);
        }
    }
    assert!(!scratch.path("home/.local").exists(), "nothing is prepared for a refused file");
    assert_eq!(scratch.n_config_files(), 1);
}

#[test]
fn several_config_directories_are_changed_together_or_not_at_all_g8() {
    let scratch = Scratch::new();
    let other = scratch.path("home/b/settings.json");
    fs::create_dir(other.parent().unwrap()).unwrap();
    let args = ["install", "--config-dir", ".claude", "--config-dir", "b"];
    fs::write(&other, "{,}").unwrap();
    scratch.refused(&args);
    assert!(!scratch.settings().exists());
    fs::write(&other, "{}").unwrap();
    assert_eq!(scratch.said(&args).lines().count(), 2);
    // What only shows when it is written comes too late for the first one, which is then named.
    scratch.said(&["uninstall", "--config-dir", ".claude"]);
    let no_place = "/proc";
    let error = scratch.refused(&["install", "--config-dir", ".claude", "--config-dir", no_place]);
    assert!(error.contains("cannot write in /proc"), "{error}");
    assert!(error.contains("; already changed: ~/.claude/settings.json"), "{error}");
    let report = scratch.said(&["uninstall", "--json", "--config-dir", "b"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["schema"], 1);
    assert_eq!(report["files"][0]["events_before"], 13);
    assert_eq!(report["files"][0]["changed"], true);
    assert_eq!(report["state_fate"], "kept");
    assert_eq!(fs::read_to_string(&other).unwrap(), "{}");
}

#[test]
fn a_file_that_git_tracks_is_refused_for_a_project() {
    let scratch = Scratch::new();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(scratch.path("home")).env("HOME", scratch.path("home"));
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "--quiet"]);
    let install = ["install", "--scope", "project"];
    scratch.said(&install);
    scratch.said(&["uninstall", "--scope", "project"]);
    scratch.write("{}");
    git(&["add", "-f", ".claude/settings.json"]);
    let error = scratch.refused(&install);
    assert!(error.contains("git tracks") && error.contains("--scope user"), "{error}");
    assert_eq!(scratch.read(), "{}");
    scratch.said(&["install", "--scope", "local"]);
    assert!(scratch.path("home/.claude/settings.local.json").exists());
    assert_eq!(scratch.read(), "{}");
    // In a repository that git cannot read, nobody knows.
    fs::remove_file(scratch.path("home/.git/HEAD")).unwrap();
    let error = scratch.refused(&install);
    assert!(error.contains("cannot tell whether git tracks"), "{error}");
}

#[test]
fn hooks_that_are_not_there_are_not_registered_h_39() {
    let scratch = Scratch::new();
    scratch.write("{}");
    fs::remove_file(scratch.path("pre fix/lib/coord/coord-hook-event")).unwrap();
    let error = scratch.refused(&["install"]);
    assert!(error.contains("coord-hook-event is not an executable file"), "{error}");
    assert_eq!(scratch.read(), "{}");
}

#[test]
fn silenced_hooks_are_warned_about() {
    let scratch = Scratch::new();
    scratch.write("{\"disableAllHooks\": true}");
    let output = scratch.coord(&["install"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "coord: warning: ~/.claude/settings.json sets disableAllHooks: the hooks will not run\n"
    );
}

#[test]
fn purge_removes_the_state_unless_a_coordinator_runs() {
    let scratch = Scratch::new();
    scratch.write("{}");
    scratch.said(&["install"]);
    let registered = scratch.read();
    let lock = fs::File::create(scratch.state().join("coordinator.lock")).unwrap();
    lock.lock().unwrap();
    let error = scratch.refused(&["uninstall", "--purge"]);
    assert!(error.contains("coord down"), "{error}");
    assert_eq!(scratch.read(), registered);
    drop(lock);
    let said = scratch.said(&["uninstall", "--purge"]);
    assert!(said.contains("\nremoved ~/.local/state/coord/"), "{said}");
    assert!(!scratch.path("home/.local/state/coord").exists());
    assert_eq!(scratch.n_config_files(), 1);
    assert_eq!(scratch.read(), "{}");
}

#[test]
fn wrong_usage_is_told() {
    let scratch = Scratch::new();
    assert_eq!(scratch.coord(&["install", "--nonsense"]).status.code(), Some(2));
    let error = scratch.refused(&["install", "--scope", "local", "--config-dir", "x"]);
    assert!(error.contains("--config-dir works only with --scope user"), "{error}");
}

/// Under `sudo` with the user's HOME nothing is written; root keeps the owner of a user's file.
#[test]
fn another_users_home_is_refused_and_owners_are_kept_h_29_g8() {
    let scratch = Scratch::new();
    scratch.write("{}");
    let is_root = fs::metadata(scratch.path("home")).unwrap().uid() == 0;
    let home = if is_root {
        std::os::unix::fs::chown(scratch.settings(), Some(12345), Some(12345)).unwrap();
        scratch.said(&["install"]);
        let metadata = fs::metadata(scratch.settings()).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (12345, 12345));
        scratch.said(&["uninstall", "--purge"]);
        std::os::unix::fs::chown(scratch.path("home"), Some(12345), None).unwrap();
        scratch.path("home")
    } else {
        PathBuf::from("/")
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_coord"));
    command.arg("install").arg("--hooks-dir").arg(scratch.path("pre fix/lib/coord"));
    command.arg("--config-dir").arg(scratch.path("home/.claude"));
    let output = command.env_clear().env("HOME", &home).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("run as that user, or set COORD_HOME"), "{error}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(scratch.read(), "{}");
}
