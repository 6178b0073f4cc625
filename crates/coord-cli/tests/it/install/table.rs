//! G8 over a table of settings files (`tests/settings`), each a manner of writing that people or
//! programs have: what goes in comes out again byte for byte, and what cannot be read strictly is
//! refused with its place and left alone. The name of a refused file ends in line and column.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::scratch::Scratch;

/// The files of one folder with their names.
#[track_caller]
fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/settings").join(folder);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(30 <= paths.len(), "the table is there: {paths:?}");
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

/// Install, install again, uninstall.
#[track_caller]
fn goes_there_and_back(scratch: &Scratch, name: &str, settings: &[u8]) {
    fs::write(scratch.settings(), settings).unwrap();
    let said = scratch.said(&["install"]);
    assert!(said.starts_with("registered 13 events"), "{name}: {said}");
    let registered = fs::read(scratch.settings()).unwrap();
    let said = scratch.said(&["install"]);
    assert!(said.contains("nothing changed"), "{name}: {said}");
    assert_eq!(fs::read(scratch.settings()).unwrap(), registered, "{name}");
    scratch.said(&["uninstall"]);
    let back = fs::read(scratch.settings()).unwrap();
    assert!(back == settings, "{name}:\n{}", String::from_utf8_lossy(&back));
}

#[test]
fn every_accepted_file_comes_back_byte_for_byte_g8() {
    let scratch = Scratch::new();
    let files = files("accepted");
    for (name, settings) in &files {
        goes_there_and_back(&scratch, name, settings);
    }
    assert_eq!(scratch.n_config_files(), 1, "the settings alone");
}

#[test]
fn a_byte_order_mark_and_a_huge_file_come_back_g8() {
    let scratch = Scratch::new();
    for (name, settings) in files("accepted").iter().take(12) {
        let marked = [b"\xef\xbb\xbf", settings.as_slice()].concat();
        goes_there_and_back(&scratch, name, &marked);
    }
    let rules: Vec<String> = (0..50_000).map(|n| format!("\"Bash(tool-{n} *)\"")).collect();
    let huge = format!("{{\n  \"permissions\": {{\"allow\": [{}]}}\n}}\n", rules.join(",\n    "));
    goes_there_and_back(&scratch, "huge", huge.as_bytes());
}

/// What `--dry-run` prints is what install does: applied as a patch, it gives the same bytes.
#[test]
fn the_diff_of_a_dry_run_is_the_change_itself_g8() {
    let scratch = Scratch::new();
    for (name, settings) in files("accepted") {
        fs::write(scratch.settings(), &settings).unwrap();
        let diff = scratch.path("diff");
        fs::write(&diff, scratch.said(&["install", "--dry-run"])).unwrap();
        scratch.said(&["install"]);
        let installed = fs::read(scratch.settings()).unwrap();
        fs::write(scratch.settings(), &settings).unwrap();
        let mut git = Command::new("git");
        git.args(["apply", "--unsafe-paths", "--whitespace=nowarn", "-p1"]).arg(&diff);
        let applied = git.current_dir("/").output().unwrap();
        assert!(applied.status.success(), "{name}: {}", String::from_utf8_lossy(&applied.stderr));
        assert!(fs::read(scratch.settings()).unwrap() == installed, "{name}");
    }
}

/// The user writes a setting before and a setting behind everything while our entries stand there.
#[test]
fn the_users_own_edits_in_between_stay_g8() {
    let scratch = Scratch::new();
    for (name, settings) in files("accepted") {
        let settings = String::from_utf8(settings).unwrap();
        let value: serde_json::Value = serde_json::from_str(&settings).unwrap();
        // An empty object has no member to put another one beside.
        if value == serde_json::json!({}) {
            continue;
        }
        let edited = |text: &str| {
            let text = text.replacen('{', "{\n   \"_before\": [ 1 ],", 1);
            let (text, end) = text.rsplit_once('}').unwrap();
            format!("{text}, \"_behind\": {{}}\n}}{end}")
        };
        scratch.write(&settings);
        scratch.said(&["install"]);
        let registered = scratch.read();
        scratch.write(&edited(&registered));
        scratch.said(&["install"]);
        scratch.said(&["uninstall"]);
        assert_eq!(scratch.read(), edited(&settings), "{name}");
    }
}

#[test]
fn every_refused_file_is_named_with_its_place_and_left_alone_g8() {
    let scratch = Scratch::new();
    let files = files("refused");
    for (name, settings) in &files {
        fs::write(scratch.settings(), settings).unwrap();
        let place = name.rsplit_once('.').unwrap().1.replace('-', ":");
        for args in [&["install"][..], &["install", "--dry-run"], &["uninstall"]] {
            let error = scratch.refused(args);
            assert!(error.contains(&format!("settings.json:{place}: ")), "{name}: {error}");
            assert!(error.contains("nothing was changed"), "{name}: {error}");
            assert_eq!(fs::read(scratch.settings()).unwrap(), *settings, "{name}");
        }
    }
    assert_eq!(scratch.n_config_files(), 1, "no backup of what was not changed");
    assert!(!scratch.path("home/.local").exists(), "nothing is prepared for a refused file");
}
