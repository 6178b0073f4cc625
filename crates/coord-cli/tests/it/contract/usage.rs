//! Wrong commands and options are answered in one line that names the right ones (U-09).

use std::fs;

use coord_model::SessionState;
use coord_tests::coord::{coord, coordctl, programs, session_when};
use coord_tests::home::Home;
use coord_tests::process::run;

use super::harness::{Harness, Tmux};

/// The one line on standard error.
#[track_caller]
fn says(home: &Home, program: &str, words: &[&str]) -> String {
    let done = if program == "coord" { coord(home, words) } else { coordctl(home, words) };
    assert_eq!(done.code(), Some(2), "{words:?}: {done:?}");
    assert_eq!(done.stdout, "", "{words:?}");
    let line = done.stderr.trim_end().to_owned();
    assert_eq!(line.lines().count(), 1, "{words:?}: {line}");
    line.strip_prefix(&format!("{program}: ")).expect("its own name first").to_owned()
}

#[test]
fn u_09_what_was_meant_is_named() {
    let home = Home::new();
    for (program, words, line) in [
        ("coord", &["inspct"][..], "No command \"inspct\". Did you mean inspect?"),
        ("coord", &["ls"], "No command \"ls\". → coord inspect"),
        ("coord", &["list"], "No command \"list\". → coord inspect"),
        ("coord", &["ps"], "No command \"ps\". → coord inspect"),
        ("coord", &["watch"], "No command \"watch\". → coord inspect --watch"),
        ("coord", &["recover", "site"], "recover acts on a session. → coordctl recover site"),
        ("coord", &["attend"], "attend acts on a session. → coordctl attend"),
        ("coord", &["recovr", "site"], "No command \"recovr\". Did you mean coordctl recover?"),
        ("coord", &["xyzzy"], "No command \"xyzzy\". → coord --help"),
        ("coord", &["inspect", "--need"], "No option --need. Did you mean --needs-me?"),
        ("coord", &["inspect", "--jsn"], "No option --jsn. Did you mean --json?"),
        ("coordctl", &["inspect"], "inspect belongs to coord. → coord inspect"),
        ("coordctl", &["recver", "site"], "No command \"recver\". Did you mean recover?"),
    ] {
        assert_eq!(says(&home, program, words), line, "{words:?}");
    }
}

// U-09: help of a verb, and what each state means.
#[test]
fn u_09_help_is_about_verbs_and_states() {
    let home = Home::new();
    let help = |words: &[&str]| coord(&home, &[&["help"], words].concat());
    let states = help(&["states"]).expect_success().stdout;
    assert_eq!(states.lines().count(), 19, "{states}");
    assert!(states.contains("\nsuspended            stopped by Ctrl-Z; type fg\n"), "{states}");
    let verb = help(&["wait"]).expect_success().stdout;
    assert_eq!(verb, coord(&home, &["wait", "--help"]).expect_success().stdout);
    assert_eq!(
        help(&[]).expect_success().stdout,
        coord(&home, &["--help"]).expect_success().stdout
    );
    assert_eq!(help(&["wiat"]).stderr, "coord: No help about \"wiat\". Did you mean wait?\n");
}

// U-09: a value that is missing or wrong is answered in one line as well, with what would be right.
#[test]
fn u_09_what_is_missing_or_wrong_is_said_with_what_would_be_right() {
    let home = Home::new();
    for (words, line) in [
        (&["send", "parser"][..], "No text. → coord send parser 'TEXT'"),
        (&["wait", "parser"], "Wait for what? → coord wait parser --until idle"),
        (
            &["wait", "p", "--until", "idel"],
            "No state \"idel\". Did you mean idle? → coord help states",
        ),
        (&["wait", "p", "--until", "xyzzy"], "No state \"xyzzy\". → coord help states"),
        (&["events", "--since", "5x"], "\"5x\" is no duration. Examples: 90s, 10m, 2h, 1d."),
        (&["completions", "foo"], "No shell \"foo\". Use bash, elvish, fish, powershell or zsh."),
        (&["inspect", "-o", "jsn"], "No format \"jsn\". Did you mean json?"),
        (&["inspect", ""], "[ID] is empty. → coord inspect --help"),
        (&["go"], "<NAME> is missing. → coord go --help"),
    ] {
        assert_eq!(says(&home, "coord", words), line, "{words:?}");
    }
    let fails = |words: &[&str], code: i32, line: &str| {
        let done = coord(&home, words);
        let said = (done.code(), done.stderr.as_str());
        assert_eq!(said, (Some(code), format!("coord: {line}\n").as_str()), "{words:?}");
    };
    fails(&["inspect", "zzzz"], 3, "No session \"zzzz\". → coord inspect --all");
    fails(&["events", "zzzz"], 3, "No session \"zzzz\". Events are kept 30 days.");
    home.write_config("[store]\njournal_kept = '7d'\n");
    fails(&["events", "zzzz"], 3, "No session \"zzzz\". Events are kept 7 days.");
    fails(&["config", "show", "recovry"], 1, "No table \"recovry\". Did you mean recovery?");
    fails(&["send", "p", "x"], 4, "Coordinator not running; nothing was sent. → coord up");
    let shown = coord(&home, &["config", "show", "store"]).expect_success().stdout;
    assert!(shown.contains("\n[store]\n") && shown.contains("journal_kept"), "{shown}");
    assert!(!shown.contains("[recovery]"), "{shown}");
}

// What is wrong with a verb of a verb is not taken for a verb of the program.
#[test]
fn u_09_a_verb_of_a_verb_is_not_confused_with_one() {
    let home = Home::new();
    let wrong = says(&home, "coord", &["queue", "ls"]);
    assert_eq!(wrong, "No command \"queue ls\". → coord queue --help");
    let wrong = says(&home, "coord", &["queue", "retri", "m_1"]);
    assert_eq!(wrong, "No command \"queue retri\". Did you mean retry?");
    let option = says(&home, "coord", &["queue", "send", "--bad"]);
    assert_eq!(option, "No option --bad. → coord queue send --help");
}

// U-09: `coord` alone is the list.
#[test]
fn u_09_without_a_verb_the_list_is_shown() {
    let home = Home::new();
    let shown = coord(&home, &[]).expect_success().stdout;
    assert_eq!(shown, coord(&home, &["inspect"]).expect_success().stdout);
}

#[test]
fn u_09_the_help_names_every_verb_by_task() {
    let home = Home::new();
    let help = coord(&home, &["--help"]).expect_success().stdout;
    for group in ["See", "Move", "Talk", "Run", "Set up", "coordctl --help"] {
        assert!(help.contains(group), "{group}: {help}");
    }
    for verb in verbs(&home) {
        assert!(help.contains(&verb), "{verb}: {help}");
    }
}

/// The verbs of `coord` that people see, as its completions have them.
pub(super) fn verbs(home: &Home) -> Vec<String> {
    let verbs = completed(home, "coord", &[""]);
    let verbs: Vec<String> = verbs.into_iter().filter(|word| !word.starts_with('-')).collect();
    assert!(20 < verbs.len(), "{verbs:?}");
    verbs
}

/// What bash completes the last word to, with the script that the program prints.
fn completed(home: &Home, program: &str, words: &[&str]) -> Vec<String> {
    let script = home.tmp().join("completions.bash");
    let shown = if program == "coord" { coord } else { coordctl }(home, &["completions", "bash"]);
    fs::write(&script, shown.expect_success().stdout).unwrap();
    let mut bash = home.command("bash");
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap());
    bash.env("PATH", path).env("COORD_HOME", home.root());
    let ask = "source \"$1\"; program=$2; shift 2; COMP_WORDS=($program \"$@\"); COMP_CWORD=$#; COMP_TYPE=9; \
               _clap_complete_$program $program \"${@: -1}\" x; printf '%s\\n' \"${COMPREPLY[@]}\"";
    bash.args(["-c", ask, "bash"]).arg(&script).arg(program).args(words);
    let said = run(bash, &home.tmp(), "bash").expect_success();
    said.stdout.lines().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

// U-03: what a shell completes is what there is at that moment.
#[test]
fn u_03_names_and_ids_of_sessions_are_completed_live() {
    let (home, _coordinator) = super::control::watched();
    assert_eq!(completed(&home, "coord", &["explain", "har"]), [""; 0]);
    let mut harness = Harness::headless(&home, "3f2a0000-one");
    harness.begin_turn();
    let known =
        session_when(&home, "3f2a0000-one", "it is named", |one| one.display_name.is_some());
    let name = known.display_name.unwrap();
    for (program, verb) in [("coord", "explain"), ("coord", "send"), ("coordctl", "hold")] {
        let words = &completed(&home, program, &[verb, "har"]);
        assert_eq!(words, &[name.as_str()], "{program} {verb}");
        assert_eq!(completed(&home, program, &[verb, "3f2a"]), ["3f2a0000-one"], "an id");
    }
    // Only what the verb is for.
    for (program, verb) in [("coord", "go"), ("coordctl", "recover"), ("coordctl", "dismiss")] {
        assert_eq!(completed(&home, program, &[verb, "har"]), [""; 0], "{program} {verb}");
    }
    assert_eq!(completed(&home, "coord", &["inspect", "--ou"]), ["--output"]);
    assert_eq!(completed(&home, "coordctl", &["reco"]), ["recover"]);
    assert_eq!(completed(&home, "coord", &["wait", "x", "--until", "awa"]).len(), 2, "states");
    // Whatever is in the environment, a command is a command.
    let mut command = home.command(programs().join("coord"));
    command
        .args(["inspect", "--json"])
        .env("COORD_COMPLETE", "bash")
        .env("COORD_HOME", home.root());
    assert!(run(command, &home.tmp(), "coord").expect_success().stdout.contains("3f2a0000-one"));
    // What has a pane can be gone to; what crashed can be brought back, and needs somebody.
    let tmux = Tmux::start(&home);
    let (mut paned, _pane) = Harness::in_shell(&tmux, "4b3c0000-two");
    paned.write_transcript();
    paned.register();
    paned.begin_turn();
    let known = session_when(&home, "4b3c0000-two", "its place is known", |one| {
        one.place.as_ref().is_some_and(|place| place.kind == "tmux")
    });
    let name = known.display_name.unwrap();
    assert_eq!(completed(&home, "coord", &["go", "har"]), [name.as_str()]);
    assert_eq!(completed(&home, "coordctl", &["recover", "har"]), [""; 0]);
    paned.kill();
    session_when(&home, "4b3c0000-two", "it crashed", |one| {
        one.state == SessionState::Crashed && one.need.is_some()
    });
    for verb in ["recover", "dismiss"] {
        assert_eq!(completed(&home, "coordctl", &[verb, "har"]), [name.as_str()], "{verb}");
    }
}

// No colour without a terminal, unless it is asked for.
#[test]
fn u_02_colours_are_as_chosen() {
    let (home, _coordinator) = super::control::watched();
    let mut harness = Harness::headless(&home, "3f2a0000-one");
    harness.begin_turn();
    let shown = |words: &[&str]| coord(&home, words).expect_success().stdout;
    for never in [&["inspect"][..], &["inspect", "--color", "never"], &["--color", "auto"]] {
        assert!(!shown(never).contains('\u{1b}'), "{never:?}");
    }
    assert!(shown(&["inspect", "3f2a", "--color", "always"]).contains("\u{1b}["));
    let wrong = coord(&home, &["inspect", "--color", "green"]);
    assert_eq!(wrong.code(), Some(2));
    assert!(wrong.stderr.contains("green") && wrong.stderr.lines().count() == 1, "{wrong:?}");
}
