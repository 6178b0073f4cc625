//! What a session left in its repository when its client died.

use std::fs;

use coord_model::SessionState;
use coord_tests::coord::{Coordinator, coord, install, session_when};
use coord_tests::home::Home;
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

use super::control::at_terminal;
use super::harness::{Harness, Tmux};
use super::notice::{channel, recorder, told};
use super::recover::{has_seen_pane, quick};

// the notice, the explanation, the history and the order to recover tell what is left, and as it was at the
// crash, whatever has changed since.
#[test]
fn q_04_a_crash_tells_what_it_left_in_the_repository() {
    let home = Home::new();
    home.write_config(&(quick(&home, "signature") + &channel("desk", &recorder(&home))));
    install(&home);
    let _coordinator = Coordinator::start(&home);
    let tmux = Tmux::start(&home);
    let work = home.tmp().join("work");
    let mut git = home.command("git");
    git.args(["init", "-q", "-b", "main"]).arg(&work);
    assert!(git.status().unwrap().success());
    fs::write(work.join("secret-name"), "x").unwrap();

    let (mut client, pane) = Harness::in_shell(&tmux, "aaaa1111");
    client.write_transcript();
    client.register();
    assert_eq!(client.report("SessionStart", &json!({"source": "startup", "cwd": work})), 0);
    assert_eq!(client.report("UserPromptSubmit", &json!({"prompt": "go", "cwd": work})), 0);
    session_when(&home, "aaaa1111", "its pane was seen", has_seen_pane);
    client.kill();
    tmux.shows_prompt(&pane);
    session_when(&home, "aaaa1111", "crashed, and its work was seen", |session| {
        session.state == SessionState::Crashed && session.git.is_some()
    });
    wait_until("the crash is told", || {
        let told = told(&home);
        if told.iter().any(|notice| notice["kind"] == "crashed") { Ok(()) } else { Err(told) }
    });
    let notices = told(&home);
    let crash = notices.iter().find(|notice| notice["kind"] == "crashed").unwrap();
    assert_eq!(crash["work"], "1 new", "{crash}");
    assert!(!crash.to_string().contains("secret-name"), "{crash}");

    fs::write(work.join("later"), "x").unwrap();
    let explained = coord(&home, &["explain", "aaaa"]).expect_success().stdout;
    assert!(explained.contains("  work      main no commit yet · 1 new"), "{explained}");
    let json = coord(&home, &["explain", "aaaa", "--json"]).expect_success().stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["git"]["untracked"]["n"], 1, "{json}");
    let history = coord(&home, &["events", "aaaa", "--all"]).expect_success().stdout;
    assert!(history.contains("main no commit yet · 1 new"), "{history}");
    let now = coord(&home, &["inspect", "aaaa"]).expect_success().stdout;
    assert!(now.contains("git        main no commit yet · 2 new"), "{now}");
    let order = at_terminal(&home, &tmux, "recover aaaa --dry-run", "");
    assert!(order.text.contains(": main no commit yet · 2 new"), "{}", order.text);
}
