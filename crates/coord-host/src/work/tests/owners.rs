//! Whose repositories are read.

use super::*;
use std::os::unix::fs::lchown;

const OTHER: u32 = 12345;

/// What has to be this user's, in a linked work tree.
const PARTS: [&str; 4] = ["linked", "linked/.git", "repo/.git/worktrees/linked", "repo/.git"];

fn linked() -> Place {
    let place = Place::new();
    place.repo(&["worktree", "add", "--quiet", "-b", "other", "../linked"]);
    place
}

#[test]
fn q_04_another_users_repository_is_not_read() {
    let own = rustix::process::geteuid().as_raw();
    let place = linked();
    assert!(matches!(repository::find(&place.path("linked"), own), Ok(Search::Found(_))));
    assert!(matches!(repository::find(&place.path("linked"), own + 1), Ok(Search::NotOurs)));
}

// Only root can give its files to others.
#[test]
fn q_04_every_part_of_a_repository_has_to_be_ours() {
    let is_root = rustix::process::geteuid().is_root();
    for part in PARTS {
        let place = linked();
        place.write("home/.gitconfig", "[safe]\n\tdirectory = *\n");
        let given = lchown(place.path(part), Some(OTHER), None);
        assert_eq!(given.is_ok(), is_root, "{part}");
        if is_root {
            assert_eq!(place.look("linked"), "not ours", "{part}");
        }
    }
}
