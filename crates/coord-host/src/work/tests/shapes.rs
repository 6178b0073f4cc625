//! Shapes of repositories that people have.

use super::*;

const SHAPES: &[Shape] = &[
    ("as committed", |_| (), "repo", "main commit - 0/0/0/0"),
    ("from below", |p| p.write("repo/d/e/f", ""), "repo/d/e", "main commit - 0/0/0/1"),
    ("staged", |p| staged(p), "repo", "main commit - 2/0/0/0"),
    ("changed", |p| p.write("repo/a", "more\n"), "repo", "main commit - 0/1/0/0"),
    ("changed to the same size", |p| p.write("repo/a", "x\n"), "repo", "main commit - 0/1/0/0"),
    ("touched", |p| p.touch("repo/a"), "repo", "main commit - 0/0/0/0"),
    ("staged and changed again", |p| twice(p), "repo", "main commit - 1/1/0/0"),
    ("removed", |p| p.repo(&["rm", "--quiet", "a"]), "repo", "main commit - 1/0/0/0"),
    ("renamed", |p| p.repo(&["mv", "a", "c"]), "repo", "main commit - 2/0/0/0"),
    ("untracked", |p| untracked(p), "repo", "main commit - 0/0/0/2"),
    ("ignored", |p| ignored(p), "repo", "main commit - 0/0/0/1"),
    ("to be added", |p| intended(p), "repo", "main commit - 0/1/0/0"),
    ("a mode", |p| mode(p), "repo", "main commit - 0/1/0/0"),
    ("modes that do not count", |p| no_mode(p), "repo", "main commit - 0/0/0/0"),
    ("line ends", |p| line_ends(p), "repo", "main commit - 0/0/0/0"),
    ("unborn", |p| unborn(p), "new", "main no-commit - 0/0/0/1"),
    ("unborn and staged", |p| unborn_staged(p), "new", "main no-commit - 1/0/0/0"),
    (
        "detached",
        |p| p.repo(&["checkout", "--quiet", "--detach"]),
        "repo",
        "detached commit - 0/0/0/0",
    ),
    ("a branch with a slash", |p| branch(p, "a/b"), "repo", "a/b commit - 0/0/0/0"),
    (
        "a branch named like no branch",
        |p| branch(p, "(detached)"),
        "repo",
        "(detached) commit - 0/0/0/0",
    ),
    ("packed references", |p| p.repo(&["pack-refs", "--all"]), "repo", "main commit - 0/0/0/0"),
    ("packed objects", |p| p.repo(&["gc", "--quiet"]), "repo", "main commit - 0/0/0/0"),
    ("a merge", |p| merge(p, "a"), "repo", "main commit Merge 0/0/1/0"),
    ("a merge, resolved", |p| resolved(p), "repo", "main commit Merge 1/0/0/0"),
    ("a rebase", |p| conflict(p, &["rebase", "side"]), "repo", "detached commit Rebase 0/0/1/0"),
    (
        "a rebase by patches",
        |p| conflict(p, &["rebase", "--apply", "side"]),
        "repo",
        "detached commit Rebase 0/0/1/0",
    ),
    ("a rebase that rests", |p| rests(p), "repo", "detached commit Rebase 0/0/0/0"),
    (
        "a cherry-pick",
        |p| conflict(p, &["cherry-pick", "side"]),
        "repo",
        "main commit CherryPick 0/0/1/0",
    ),
    ("a cherry-pick between steps", |p| between(p), "repo", "main commit CherryPick 1/0/0/0"),
    ("a revert", |p| revert(p), "repo", "main commit Revert 0/0/1/0"),
    ("a bisect", |p| bisect(p), "repo", "detached commit Bisect 0/0/0/0"),
    ("am", |p| am(p), "repo", "main commit Am 0/0/0/0"),
    ("a stash", |p| stash(p), "repo", "main commit - 0/0/0/0"),
    ("a submodule", |p| submodule(p), "repo", "main commit - 0/0/0/0"),
    ("a changed submodule", |p| in_submodule(p), "repo", "main commit - 0/0/0/0"),
    ("a submodule at another commit", |p| moved_submodule(p), "repo", "main commit - 0/1/0/0"),
    ("a new submodule", |p| new_submodule(p), "repo", "main commit - 2/0/0/0"),
    ("inside of a submodule", |p| in_submodule(p), "repo/sub", "main commit - 0/1/0/0"),
    (
        "a repository in it",
        |p| p.git(&["init", "--quiet", "repo/inner"]),
        "repo",
        "main commit - 0/0/0/1",
    ),
    ("a sparse checkout", |p| sparse(p, "--no-sparse-index"), "repo", "main commit - 0/1/0/0"),
    ("a sparse index", |p| sparse(p, "--sparse-index"), "repo", "main commit - 0/1/0/0"),
    ("a linked work tree", |p| linked(p), "linked", "other commit - 0/1/0/1"),
    ("beside a linked work tree", |p| linked(p), "repo", "main commit - 0/0/0/0"),
    ("a linked work tree of a bare repository", |p| of_bare(p), "linked", "main commit - 0/0/0/1"),
    (
        "a merge in a linked work tree",
        |p| merge_in_linked(p),
        "linked",
        "other commit Merge 0/0/1/0",
    ),
    ("shallow", |p| shallow(p), "shallow", "main commit - 0/0/0/0"),
    (
        "borrowed objects",
        |p| p.git(&["clone", "--quiet", "--shared", "repo", "copy"]),
        "copy",
        "main commit - 0/0/0/0",
    ),
    ("a partial clone", |p| partial(p), "partial", "main commit - 0/1/0/0"),
    ("another hash", |p| sha256(p), "new", "main commit - 0/1/0/0"),
    ("a reftable", |p| reftable(p), "new", "main commit - 0/1/0/0"),
    ("git's directory elsewhere", |p| separate(p), "new", "main no-commit - 0/0/0/1"),
];

#[test]
fn q_04_repositories_of_every_shape_are_read() {
    check(SHAPES);
}

fn staged(p: &Place) {
    p.write("repo/a", "new\n");
    p.write("repo/c", "c\n");
    p.repo(&["add", "--all"]);
}

fn twice(p: &Place) {
    p.write("repo/a", "new\n");
    p.repo(&["add", "a"]);
    p.write("repo/a", "newer\n");
}

fn untracked(p: &Place) {
    p.write("repo/c", "");
    p.write("repo/d/e/f", "");
    p.write("repo/d/g", "");
    fs::create_dir_all(p.path("repo/empty/deep")).unwrap();
}

fn ignored(p: &Place) {
    p.write("repo/.gitignore", "*.o\ntarget/\n");
    p.commit("ignore");
    p.write("repo/.git/info/exclude", "mine\n");
    for name in ["repo/x.o", "repo/target/y", "repo/mine", "repo/theirs"] {
        p.write(name, "");
    }
}

fn intended(p: &Place) {
    p.write("repo/c", "c\n");
    p.repo(&["add", "--intent-to-add", "c"]);
}

fn mode(p: &Place) {
    fs::set_permissions(p.path("repo/a"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn no_mode(p: &Place) {
    p.repo(&["config", "core.fileMode", "false"]);
    mode(p);
}

fn line_ends(p: &Place) {
    p.repo(&["config", "core.autocrlf", "true"]);
    p.write("repo/a", "a\r\n");
    p.repo(&["add", "a"]);
    p.touch("repo/a");
}

fn unborn(p: &Place) {
    p.git(&["init", "--quiet", "new"]);
    p.write("new/a", "");
}

fn unborn_staged(p: &Place) {
    unborn(p);
    p.git(&["-C", "new", "add", "a"]);
}

fn branch(p: &Place, name: &str) {
    p.repo(&["checkout", "--quiet", "-b", name]);
}

/// Runs a command that stops at a conflict.
fn conflict(p: &Place, words: &[&str]) {
    p.diverged();
    assert!(!p.try_git(&[&["-C", "repo"], words].concat()).status.success(), "{words:?}");
}

fn merge(p: &Place, _file: &str) {
    conflict(p, &["merge", "side"]);
}

fn resolved(p: &Place) {
    conflict(p, &["merge", "side"]);
    p.write("repo/a", "both\n");
    p.repo(&["add", "a"]);
}

fn rests(p: &Place) {
    p.write("repo/a", "more\n");
    p.commit("second");
    p.repo(&["-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "--quiet", "-i", "HEAD~1"]);
}

/// Two commits are picked, and the conflict of the first one is resolved.
fn between(p: &Place) {
    p.diverged();
    p.repo(&["checkout", "--quiet", "side"]);
    p.write("repo/c", "c\n");
    p.commit("more");
    p.repo(&["checkout", "--quiet", "main"]);
    assert!(!p.try_git(&["-C", "repo", "cherry-pick", "side~1", "side"]).status.success());
    p.write("repo/a", "both\n");
    p.repo(&["add", "a"]);
    fs::remove_file(p.path("repo/.git/CHERRY_PICK_HEAD")).unwrap();
}

fn revert(p: &Place) {
    for text in ["one\n", "two\n"] {
        p.write("repo/a", text);
        p.commit(text);
    }
    assert!(!p.try_git(&["-C", "repo", "revert", "--no-edit", "HEAD~1"]).status.success());
}

fn bisect(p: &Place) {
    for text in ["one\n", "two\n", "three\n"] {
        p.write("repo/a", text);
        p.commit(text);
    }
    p.repo(&["bisect", "start", "HEAD", "HEAD~3"]);
}

fn am(p: &Place) {
    p.diverged();
    p.repo(&["format-patch", "--quiet", "--output=../side.patch", "-1", "side"]);
    assert!(!p.try_git(&["-C", "repo", "am", "../side.patch"]).status.success());
}

fn stash(p: &Place) {
    p.write("repo/a", "new\n");
    p.repo(&["stash", "push", "--quiet"]);
}

fn new_submodule(p: &Place) {
    p.git(&["clone", "--quiet", "repo", "origin"]);
    p.repo(&["submodule", "--quiet", "add", "../origin", "sub"]);
}

fn submodule(p: &Place) {
    new_submodule(p);
    p.commit("submodule");
}

fn moved_submodule(p: &Place) {
    in_submodule(p);
    p.git(&["-C", "repo/sub", "commit", "--quiet", "--all", "--message", "moved"]);
}

fn in_submodule(p: &Place) {
    submodule(p);
    p.write("repo/sub/a", "changed\n");
}

fn sparse(p: &Place, index: &str) {
    for name in ["repo/in/a", "repo/out/a", "repo/out/b"] {
        p.write(name, "text\n");
    }
    p.commit("directories");
    p.repo(&["sparse-checkout", "set", "--cone", index, "in"]);
    assert!(!p.path("repo/out").exists());
    p.write("repo/in/a", "changed\n");
}

fn linked(p: &Place) {
    p.repo(&["worktree", "add", "--quiet", "-b", "other", "../linked"]);
    p.write("linked/a", "changed\n");
    p.write("linked/c", "");
}

fn of_bare(p: &Place) {
    p.git(&["clone", "--quiet", "--bare", "repo", "bare"]);
    p.git(&["-C", "bare", "worktree", "add", "--quiet", "../linked", "main"]);
    p.write("linked/c", "");
}

fn merge_in_linked(p: &Place) {
    p.diverged();
    p.repo(&["worktree", "add", "--quiet", "-b", "other", "../linked"]);
    assert!(!p.try_git(&["-C", "linked", "merge", "side"]).status.success());
}

fn shallow(p: &Place) {
    p.write("repo/a", "new\n");
    p.commit("second");
    let origin = format!("file://{}", p.path("repo").display());
    p.git(&["clone", "--quiet", "--depth=1", &origin, "shallow"]);
}

fn partial(p: &Place) {
    p.repo(&["config", "uploadpack.allowFilter", "true"]);
    let origin = format!("file://{}", p.path("repo").display());
    p.git(&["clone", "--quiet", "--filter=blob:none", &origin, "partial"]);
    p.write("partial/a", "changed\n");
}

fn sha256(p: &Place) {
    p.git(&["init", "--quiet", "--object-format=sha256", "new"]);
    committed(p);
}

/// A git before 2.45 knows no reftable.
fn reftable(p: &Place) {
    if !p.try_git(&["init", "--quiet", "--ref-format=reftable", "new"]).status.success() {
        p.git(&["init", "--quiet", "new"]);
    }
    committed(p);
}

/// Commits a file in `new`, and changes it.
fn committed(p: &Place) {
    p.write("new/a", "a\n");
    p.git(&["-C", "new", "add", "a"]);
    p.git(&["-C", "new", "commit", "--quiet", "--message", "first"]);
    p.write("new/a", "changed\n");
}

fn separate(p: &Place) {
    p.git(&["init", "--quiet", "--separate-git-dir", "elsewhere", "new"]);
    p.write("new/a", "");
}
