//! Repositories that name programs. None of them is run.

use super::*;
use coord_tests::process::write_program;
use std::os::unix::fs::symlink;

/// Names a program in the configuration. `PROGRAM` stands for its path, `DIR` for the place.
struct Trap {
    key: &'static str,
    value: &'static str,
    /// Whether a plain `git status` runs it.
    springs: bool,
}

const fn trap(key: &'static str, value: &'static str, springs: bool) -> Trap {
    Trap { key, value, springs }
}

const TRAPS: &[Trap] = &[
    trap("core.fsmonitor", "PROGRAM", true),
    trap("core.hooksPath", "DIR/hooks", true),
    trap("filter.x.clean", "PROGRAM", true),
    trap("filter.x.process", "PROGRAM", true),
    trap("include.path", "DIR/more", true),
    trap("includeIf.gitdir:**.path", "DIR/more", true),
    trap("filter.x.smudge", "PROGRAM", false),
    trap("core.pager", "PROGRAM", false),
    trap("pager.status", "PROGRAM", false),
    trap("alias.status", "!PROGRAM", false),
    trap("alias.ls-files", "!PROGRAM", false),
    trap("core.sshCommand", "PROGRAM", false),
    trap("core.gitProxy", "PROGRAM", false),
    trap("core.askPass", "PROGRAM", false),
    trap("core.editor", "PROGRAM", false),
    trap("core.alternateRefsCommand", "PROGRAM", false),
    trap("credential.helper", "!PROGRAM", false),
    trap("diff.external", "PROGRAM", false),
    trap("diff.x.command", "PROGRAM", false),
    trap("diff.x.textconv", "PROGRAM", false),
    trap("merge.x.driver", "PROGRAM", false),
    trap("gpg.program", "PROGRAM", false),
    trap("hook.x.command", "PROGRAM", false),
    trap("remote.origin.uploadpack", "PROGRAM", false),
    trap("remote.origin.vcs", "PROGRAM", false),
    trap("submodule.sub.update", "!PROGRAM", false),
    trap("uploadpack.packObjectsHook", "PROGRAM", false),
    trap("trace2.eventTarget", "DIR/sprung", false),
];

/// A repository whose files pass filters and must be compared, and a program that leaves a mark.
fn place() -> Place {
    let place = Place::new();
    place.write("repo/.gitattributes", "* filter=x diff=x merge=x\n");
    place.commit("attributes");
    let sprung = place.path("sprung");
    let text = format!("#!/bin/sh\necho \"$0\" >>'{}'\n", sprung.display());
    write_program(&place.path("program"), &text);
    fs::create_dir(place.path("hooks")).unwrap();
    for hook in
        ["post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"]
    {
        symlink("../program", place.path(&format!("hooks/{hook}"))).unwrap();
        let file = place.path(&format!("repo/.git/hooks/{hook}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        symlink(place.path("program"), file).unwrap();
    }
    let program = place.path("program");
    place.write("more", &format!("[filter \"x\"]\n\tclean = {}\n", program.display()));
    // Same length: only the content tells whether it is changed.
    place.write("repo/a", "x\n");
    place.touch("repo/b");
    let _ = fs::remove_file(sprung);
    place
}

#[test]
fn q_04_no_program_of_a_repository_is_run() {
    for Trap { key, value, springs } in TRAPS {
        let place = place();
        let dir = place.path("");
        let dir = dir.to_str().unwrap().trim_end_matches('/');
        let value = value.replace("PROGRAM", &format!("{dir}/program")).replace("DIR", dir);
        // The hooks of the repository itself would spring too.
        if *key != "core.hooksPath" {
            fs::remove_dir_all(place.path("repo/.git/hooks")).unwrap();
        }
        let text = fs::read_to_string(place.path("repo/.git/config")).unwrap();
        place.repo(&["config", key, &value]);
        let _ = fs::remove_file(place.path("sprung"));
        assert_eq!(place.look("repo"), "main commit - 0/1/0/0", "{key}");
        assert!(!place.path("sprung").exists(), "{key}");
        // The trap works: git itself runs the program.
        place.try_git(&["-C", "repo", "status"]);
        assert_eq!(place.path("sprung").exists(), *springs, "{key}: {text}");
    }
}

#[test]
fn q_04_an_object_that_is_missing_is_not_fetched() {
    let place = place();
    let program = place.path("program");
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", "."),
        ("remote.origin.uploadpack", program.to_str().unwrap()),
    ] {
        place.repo(&["config", key, value]);
    }
    fs::remove_dir_all(place.path("repo/.git/hooks")).unwrap();
    let id = place.try_git(&["-C", "repo", "rev-parse", "HEAD^{tree}"]).stdout;
    let id = String::from_utf8(id).unwrap();
    let (dir, file) = id.trim().split_at(2);
    fs::remove_file(place.path(&format!("repo/.git/objects/{dir}/{file}"))).unwrap();
    let _ = fs::remove_file(place.path("sprung"));
    let expected = "main commit - ?/?/?/? git status failed (exit status: 128)";
    assert_eq!(place.look("repo"), expected);
    place.try_git(&["-C", "repo", "status"]);
    assert!(place.path("sprung").exists(), "git itself fetches");
}

#[test]
fn q_04_a_work_trees_own_configuration_is_not_believed_either() {
    let place = place();
    fs::remove_dir_all(place.path("repo/.git/hooks")).unwrap();
    place.repo(&["config", "extensions.worktreeConfig", "true"]);
    let program = place.path("program");
    place.repo(&["config", "--worktree", "filter.x.clean", program.to_str().unwrap()]);
    place.repo(&["config", "--worktree", "core.fileMode", "false"]);
    fs::set_permissions(place.path("repo/b"), fs::Permissions::from_mode(0o755)).unwrap();
    let _ = fs::remove_file(place.path("sprung"));
    assert_eq!(place.look("repo"), "main commit - 0/1/0/0");
    place.try_git(&["-C", "repo", "status"]);
    assert!(place.path("sprung").exists(), "git itself runs it");
}

// A repository in the tree has a configuration of its own.
#[test]
fn q_04_no_program_of_a_submodule_is_run() {
    let place = place();
    fs::remove_dir_all(place.path("repo/.git/hooks")).unwrap();
    place.git(&["clone", "--quiet", "repo", "origin"]);
    place.repo(&["submodule", "--quiet", "add", "../origin", "sub"]);
    place.git(&[
        "-C",
        "repo/sub",
        "config",
        "core.fsmonitor",
        place.path("program").to_str().unwrap(),
    ]);
    place.write("repo/sub/a", "y\n");
    let _ = fs::remove_file(place.path("sprung"));
    assert_eq!(place.look("repo"), "main commit - 2/1/0/0");
    place.try_git(&["-C", "repo", "status"]);
    assert!(place.path("sprung").exists(), "git itself runs it");
}

// Filters are not run, so a filtered file is changed as soon as it is touched.
#[test]
fn q_04_a_filtered_file_counts_as_changed_when_it_is_touched() {
    let place = Place::new();
    place.write("repo/.gitattributes", "big filter=x\n");
    place.repo(&["config", "filter.x.clean", "while read line; do echo TEXT; done"]);
    place.write("repo/big", "text\n");
    place.commit("filtered");
    place.repo(&["update-index", "--refresh"]);
    place.touch("repo/big");
    place.repo(&["update-index", "--refresh"]);
    assert_eq!(place.look("repo"), "main commit - 0/0/0/0");
    File::options()
        .append(true)
        .open(place.path("repo/big"))
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(place.look("repo"), "main commit - 0/1/0/0");
}
