//! Nothing takes longer than its budget, or more memory than its bound.

use super::*;
use coord_tests::process::write_program;
use coord_tests::wait::wait_until;

fn fake(place: &Place, text: &str) -> PathBuf {
    let program = place.path("git");
    write_program(&program, text);
    program
}

#[test]
fn q_04_a_git_that_hangs_is_killed_with_its_children() {
    let place = Place::new();
    let told = place.path("told");
    let text = format!(
        "#!/bin/sh\n/bin/sleep 1000 &\necho $! $$ >'{0}.new'\n/bin/mv '{0}.new' '{0}'\n/bin/sleep 1000\n",
        told.display()
    );
    let program = fake(&place, &text);
    let begin = Instant::now();
    let work = look(&program, &place.path("repo"), SHORT);
    assert!(SHORT <= begin.elapsed(), "it was given its time");
    assert_eq!(shown(&work), "unknown: git config: it took too long");
    let told = fs::read_to_string(told).unwrap();
    for pid in told.split_whitespace() {
        let pid = pid.parse().unwrap();
        wait_until("the process is dead", || match crate::process::stat(pid) {
            None => Ok(()),
            Some(stat) if stat.is_zombie => Ok(()),
            Some(_) => Err(format!("{pid} lives")),
        });
    }
}

#[test]
fn q_04_what_a_git_leaves_behind_is_killed() {
    let place = Place::new();
    let told = place.path("told");
    // The child holds the pipe open.
    let text = format!("#!/bin/sh\n/bin/sleep 1000 &\necho $! >'{}'\nexit 3\n", told.display());
    let program = fake(&place, &text);
    let work = look(&program, &place.path("repo"), PATIENCE);
    assert_eq!(shown(&work), "unknown: git config failed (exit status: 3)");
    let pid = fs::read_to_string(told).unwrap().trim().parse().unwrap();
    wait_until("the child is dead", || match crate::process::stat(pid) {
        None => Ok(()),
        Some(stat) if stat.is_zombie => Ok(()),
        Some(_) => Err(format!("{pid} lives")),
    });
}

#[test]
fn q_04_an_answer_without_end_is_cut() {
    let place = Place::new();
    let text = "#!/bin/sh\nfor word in \"$@\"; do case $word in\nstatus) while :; do \
                printf '1 .M N... a\\0'; done;;\nls-files) while :; do printf 'aaaaaaa\\0'; done;;\n\
                rev-parse) echo hello;;\nesac; done\n";
    let program = fake(&place, text);
    let Work::Facts(facts) = look(&program, &place.path("repo"), PATIENCE) else { panic!() };
    assert_eq!((facts.head, facts.why_unknown), (None, None));
    for (count, bytes) in [(facts.changed, 12), (facts.untracked, 8)] {
        let PathCount { n, is_at_least } = count.unwrap();
        let most = u64::try_from(ANSWER_BYTES_MAX / bytes).unwrap();
        assert!(is_at_least && (most - 1..most + 10_000).contains(&n), "{n}");
    }
}

#[test]
fn q_04_no_git_is_unknown() {
    let place = Place::new();
    let shown = shown(&look(Path::new("/nowhere/git"), &place.path("repo"), PATIENCE));
    assert_eq!(shown, "unknown: git config: No such file or directory (os error 2)");
}

// git waits for whoever writes to the fifo.
#[test]
fn q_04_what_could_be_read_before_a_fifo_is_shown() {
    for (name, expected) in [
        (".gitignore", "main commit - 0/0/0/? git ls-files: it took too long"),
        (".git/info/exclude", "main commit - ?/?/?/? git status: it took too long"),
        (".git/index", "main commit - ?/?/?/? git status: it took too long"),
    ] {
        let place = Place::new();
        let file = format!("repo/{name}");
        let _ = fs::remove_file(place.path(&file));
        place.fifo(&file);
        let work = place.look_within("repo", 3 * SHORT);
        assert_eq!(shown(&work), expected, "{name}");
    }
}

#[test]
fn q_04_twenty_thousand_files_are_counted() {
    let place = Place::new();
    let name = |n: u32| format!("repo/{n}{}", "-".repeat(240));
    for n in 0..20_000 {
        fs::write(place.path("").join(name(n)), "").unwrap();
    }
    place.commit("many");
    place.write(&name(7), "changed\n");
    for n in 0..20_000 {
        fs::write(place.path("").join(name(n) + "new"), "").unwrap();
    }
    let begin = Instant::now();
    let Work::Facts(facts) = look(&program(), &place.path("repo"), PATIENCE) else { panic!() };
    println!("20,000 tracked and 20,000 untracked files: {:?}", begin.elapsed());
    assert_eq!(
        (facts.staged, facts.changed),
        (Some(PathCount::exactly(0)), Some(PathCount::exactly(1)))
    );
    let PathCount { n, is_at_least } = facts.untracked.unwrap();
    assert!(
        is_at_least && (16_000..20_000).contains(&n),
        "the answer is longer than its bound: {n}"
    );
}

#[test]
fn q_04_names_are_bounded() {
    let place = Place::new();
    let long = format!("{0}/{0}/{0}", "é".repeat(100));
    place.repo(&["checkout", "--quiet", "-b", &long]);
    let Work::Facts(facts) = place.look_within("repo", PATIENCE) else { panic!() };
    assert_eq!(facts.branch.unwrap().chars().count(), WorkFacts::BRANCH_CHARS_MAX);
    assert_eq!(facts.root, place.path("repo").to_str().unwrap());
    assert_eq!(facts.head.unwrap().len(), 40);
}

// Variables of the caller's environment lead nowhere.
#[test]
fn q_04_the_environment_says_nothing() {
    let place = Place::new();
    let program =
        fake(&place, &format!("#!/bin/sh\nexport >>'{}'\n", place.path("told").display()));
    let _ = look(&program, &place.path("repo"), PATIENCE);
    let told = fs::read_to_string(place.path("told")).unwrap();
    let names: std::collections::BTreeSet<&str> = told
        .lines()
        .filter_map(|line| line.strip_prefix("export ")?.split('=').next())
        .filter(|name| !matches!(*name, "PWD" | "OLDPWD" | "SHLVL" | "_"))
        .collect();
    let expected = [
        "GIT_ATTR_NOSYSTEM",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_DIR",
        "GIT_EXEC_PATH",
        "GIT_NO_LAZY_FETCH",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OPTIONAL_LOCKS",
        "GIT_PROTOCOL_FROM_USER",
        "GIT_TERMINAL_PROMPT",
        "GIT_WORK_TREE",
        "LC_ALL",
        "PATH",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
}
