//! Damaged, unusual and disturbed repositories, and directories that are in none.

use super::*;
use coord_tests::process::write_program;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

const FAILED: &str = "main commit - ?/?/?/? git status failed (exit status: 128)";

const SHAPES: &[Shape] = &[
    ("no repository", |p| p.write("other/a", ""), "other", "none"),
    ("bare", |p| p.git(&["clone", "--quiet", "--bare", "repo", "bare"]), "bare", "none"),
    ("inside of .git", |_| (), "repo/.git/objects", "main commit - 0/0/0/0"),
    (
        "through a link",
        |p| symlink("repo", p.path("link")).unwrap(),
        "link",
        "main commit - 0/0/0/0",
    ),
    ("an empty .git", |p| fs::create_dir_all(p.path("x/.git")).unwrap(), "x", "none"),
    (
        "an empty .git in a repository",
        |p| fs::create_dir_all(p.path("repo/x/.git")).unwrap(),
        "repo/x",
        "main commit - 0/0/0/0",
    ),
    ("a fifo .git", |p| fifo_git(p), "x", "none"),
    (
        "a .git file of anything",
        |p| p.write("x/.git", "hello\n"),
        "x",
        "unknown: .git: it names no git directory",
    ),
    (
        "a .git file to nowhere",
        |p| p.write("x/.git", "gitdir: nowhere\n"),
        "x",
        "unknown: .git: No such file or directory (os error 2)",
    ),
    ("a .git file to itself", |p| p.write("x/.git", "gitdir: .git\n"), "x", "none"),
    ("a linked .git", |p| linked_git(p), "x", "main commit - 0/0/0/0"),
    ("HEAD as a link", |p| head_link(p), "repo", "main commit - 0/0/0/0"),
    (
        "HEAD of anything",
        |p| p.write("repo/.git/HEAD", "hello\n"),
        "repo",
        "detached no-commit - ?/?/?/? git status failed (exit status: 128)",
    ),
    ("names that are no UTF-8", |p| strange_names(p), "repo", "main commit - 0/1/0/3"),
    ("a root that is no UTF-8", |p| strange_root(p), "link", "main commit - 0/0/0/0"),
    ("a fifo", |p| p.fifo("repo/fifo"), "repo", "main commit - 0/0/0/0"),
    ("a fifo for a file", |p| fifo_for_file(p), "repo", "main commit - 0/1/0/0"),
    ("links in a circle", |p| circle(p), "repo", "main commit - 0/0/0/2"),
    ("a link for a directory", |p| link_for_dir(p), "repo", "main commit - 0/1/0/1"),
    (
        "no index",
        |p| fs::remove_file(p.path("repo/.git/index")).unwrap(),
        "repo",
        "main commit - 2/0/0/2",
    ),
    ("an index of an unknown version", |p| of_version_9(p), "repo", FAILED),
    ("an index of anything", |p| p.write("repo/.git/index", "hello"), "repo", FAILED),
    ("a split index", |p| split(p), "repo", "main commit - 1/1/0/0"),
    ("a split index without its half", |p| half(p), "repo", FAILED),
    ("an untracked cache", |p| untracked_cache(p), "repo", "main commit - 0/0/0/1"),
    ("fsmonitor's part of the index", |p| fsmonitor(p), "repo", "main commit - 0/1/0/0"),
    (
        "an index that others lock",
        |p| p.write("repo/.git/index.lock", ""),
        "repo",
        "main commit - 0/0/0/0",
    ),
    ("a missing tree", |p| missing(p), "repo", FAILED),
    (
        "a damaged configuration",
        |p| p.write("repo/.git/config", "[core\n"),
        "repo",
        "unknown: git config failed (exit status: 128)",
    ),
    (
        "no configuration",
        |p| fs::remove_file(p.path("repo/.git/config")).unwrap(),
        "repo",
        "main commit - 0/0/0/0",
    ),
    ("a fifo for the configuration", |p| fifo_config(p), "repo", "main commit - 0/0/0/0"),
    (
        "a long configuration",
        |p| p.write("repo/.git/config", &"\n".repeat(2 << 20)),
        "repo",
        "unknown: config: it is too long",
    ),
    (
        "an unknown extension",
        |p| extension(p),
        "repo",
        "unknown: the repository has an extension that is not known",
    ),
    (
        "a work tree elsewhere",
        |p| elsewhere(p),
        "repo",
        "unknown: the repository's work tree is elsewhere",
    ),
    (
        "no such directory",
        |_| (),
        "nowhere",
        "unknown: the directory: No such file or directory (os error 2)",
    ),
    ("a file", |_| (), "repo/a", "main commit - 0/0/0/0"),
];

#[test]
fn q_04_odd_repositories_are_read_as_far_as_they_can_be() {
    check(SHAPES);
}

// What only root may read is readable for the tests that run as root.
#[test]
fn q_04_a_directory_that_may_not_be_read_is_unknown() {
    let place = Place::new();
    place.write("repo/d/e", "");
    place.repo(&["add", "--all"]);
    let dir = place.path("repo/d");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o000)).unwrap();
    let shown = shown(&look(&program(), &dir, PATIENCE));
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    let expected = if rustix::process::geteuid().is_root() {
        "main commit - 1/0/0/0"
    } else {
        "unknown: .git: Permission denied (os error 13)"
    };
    assert_eq!(shown, expected);
}

fn fifo_git(p: &Place) {
    fs::create_dir(p.path("x")).unwrap();
    p.fifo("x/.git");
}

fn linked_git(p: &Place) {
    p.write("x/a", "a\n");
    p.write("x/b", "b\n");
    symlink("../repo/.git", p.path("x/.git")).unwrap();
}

fn head_link(p: &Place) {
    fs::remove_file(p.path("repo/.git/HEAD")).unwrap();
    symlink("refs/heads/main", p.path("repo/.git/HEAD")).unwrap();
}

fn strange_names(p: &Place) {
    p.write("repo/two\nlines", "1\n");
    p.commit("strange");
    p.write("repo/two\nlines", "changed\n");
    p.write("repo/? new\nline", "");
    p.write("repo/\u{1b}[2J\"\\", "");
    fs::write(p.path("repo").join(OsStr::from_bytes(b"\xff\xfe")), "").unwrap();
}

fn strange_root(p: &Place) {
    let root = p.path("").join(OsStr::from_bytes(b"\xff \n"));
    fs::rename(p.path("repo"), &root).unwrap();
    symlink(root, p.path("link")).unwrap();
}

fn fifo_for_file(p: &Place) {
    fs::remove_file(p.path("repo/a")).unwrap();
    p.fifo("repo/a");
}

fn circle(p: &Place) {
    symlink("two", p.path("repo/one")).unwrap();
    symlink("one", p.path("repo/two")).unwrap();
}

fn link_for_dir(p: &Place) {
    p.write("repo/d/f", "f\n");
    p.commit("directory");
    fs::rename(p.path("repo/d"), p.path("d")).unwrap();
    symlink("../d", p.path("repo/d")).unwrap();
}

fn of_version_9(p: &Place) {
    let file = p.path("repo/.git/index");
    let mut index = fs::read(&file).unwrap();
    index[7] = 9;
    fs::write(file, index).unwrap();
}

fn split(p: &Place) {
    p.repo(&["update-index", "--split-index"]);
    p.write("repo/a", "staged\n");
    p.repo(&["add", "a"]);
    p.write("repo/b", "changed\n");
    for entry in fs::read_dir(p.path("repo/.git")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.starts_with("sharedindex.") {
            p.touch(&format!("repo/.git/{name}"));
            return;
        }
    }
    panic!("the index is not split");
}

fn half(p: &Place) {
    split(p);
    for entry in fs::read_dir(p.path("repo/.git")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("sharedindex.") {
            fs::remove_file(path).unwrap();
        }
    }
}

fn untracked_cache(p: &Place) {
    p.repo(&["update-index", "--force-untracked-cache"]);
    p.repo(&["status"]);
    p.write("repo/c", "");
}

/// The index says that a file is unchanged since the daemon's last word, but there is no daemon.
fn fsmonitor(p: &Place) {
    write_program(&p.path("yes"), "#!/bin/sh\nprintf 'token\\0'\n");
    p.repo(&["config", "core.fsmonitor", p.path("yes").to_str().unwrap()]);
    p.repo(&["update-index", "--fsmonitor"]);
    p.repo(&["status"]);
    p.write("repo/a", "changed\n");
}

fn missing(p: &Place) {
    let output = p.try_git(&["-C", "repo", "rev-parse", "HEAD^{tree}"]);
    let id = String::from_utf8(output.stdout).unwrap();
    let (dir, file) = id.trim().split_at(2);
    fs::remove_file(p.path(&format!("repo/.git/objects/{dir}/{file}"))).unwrap();
}

fn fifo_config(p: &Place) {
    fs::remove_file(p.path("repo/.git/config")).unwrap();
    p.fifo("repo/.git/config");
}

fn extension(p: &Place) {
    p.repo(&["config", "core.repositoryFormatVersion", "1"]);
    p.repo(&["config", "extensions.news", "true"]);
}

fn elsewhere(p: &Place) {
    p.repo(&["config", "core.worktree", p.path("").to_str().unwrap()]);
}
