//! The list's way to a session's pane and back, in a real tmux (U-02, U-04).

use std::fs;
use std::process::Stdio;

use coord_tests::coord::{coord, session_when};
use coord_tests::home::Home;
use coord_tests::process::Running;
use coord_tests::wait::wait_until;
use serde_json::json;

use super::control::watched;
use super::harness::{Harness, Tmux};
use super::wire::with;

/// A terminal that shows a session of the server.
pub(super) fn attached(home: &Home, tmux: &Tmux<'_>) -> (Running, String) {
    let mut command = home.command("script");
    let line = format!("exec tmux -S '{}' attach -t first", tmux.socket().display());
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped());
    let terminal = Running::start(command, &home.tmp(), "attach");
    let client = wait_until("a client is attached", || {
        let clients = tmux.run(&["list-clients", "-F", "#{client_name}"]);
        let name = clients.lines().next().unwrap_or_default().to_owned();
        if name.is_empty() { Err(clients) } else { Ok(name) }
    });
    (terminal, client)
}

/// What a command in a pane of this server said and returned.
fn in_pane(home: &Home, tmux: &Tmux<'_>, words: &str) -> String {
    let (said, script) = (home.tmp().join("said"), home.tmp().join("go"));
    let program = coord_tests::coord::programs().join("coord");
    let line = format!(
        "COORD_HOME='{}' '{}' {words} >'{s}.new' 2>&1; echo \"code $?\" >>'{s}.new'; mv '{s}.new' '{s}'\n",
        home.root().display(),
        program.display(),
        s = said.display(),
    );
    fs::write(&script, line).unwrap();
    tmux.run(&["run-shell", "-b", &format!("/bin/sh '{}'", script.display())]);
    let text =
        wait_until("it has ended", || fs::read_to_string(&said).map_err(|one| one.to_string()));
    fs::remove_file(&said).unwrap();
    text
}

#[test]
fn u_04_go_next_and_back_move_the_callers_own_client() {
    let (home, _coordinator) = watched();
    let tmux = Tmux::start(&home);
    let (_terminal, client) = attached(&home, &tmux);
    let shown = || {
        let pane = tmux.run(&["display-message", "-p", "-c", &client, "#{pane_id}"]);
        pane.trim().to_owned()
    };
    let before = shown();
    let [mut first, mut second] =
        ["session-one", "session-two"].map(|id| Harness::in_tmux(&tmux, id));
    for (id, harness) in [("session-one", &mut first), ("session-two", &mut second)] {
        harness.begin_turn();
        let fields = with(json!({"session_id": id}), json!({"tool_name": "Bash"}));
        assert_eq!(harness.report("PermissionRequest", &fields), 0);
    }
    let [one, two] = ["session-one", "session-two"].map(|id| {
        session_when(&home, id, "its pane is known, and it needs somebody", |session| {
            session.need.is_some()
                && session.place.as_ref().is_some_and(|place| place.kind == "tmux")
        })
    });
    let pane = |session: &coord_wire::inspect::Session| session.tmux.clone().unwrap().pane;
    // U-02: who has waited longest stands first, with the place as tmux calls it.
    let list = coord(&home, &["inspect", "--needs-me", "--width", "120"]).expect_success().stdout;
    let rows: Vec<&str> = list.lines().filter(|line| line.starts_with('!')).collect();
    let [a, b] = rows.as_slice() else { panic!("{list}") };
    for (row, session) in [(a, &one), (b, &two)] {
        let name = session.display_name.as_deref().unwrap();
        let place = &session.place.as_ref().unwrap().text;
        assert!(row.contains(name) && row.contains(place.as_str()), "{row}: {session:?}");
        assert!(row.contains("asks to run Bash") && place.starts_with("first:"), "{row}");
    }

    let at = format!("--client '{client}'");
    let name = one.display_name.clone().unwrap();
    assert_eq!(in_pane(&home, &tmux, &format!("go {name} {at}")), "code 0\n");
    assert_eq!(shown(), pane(&one));
    assert_eq!(in_pane(&home, &tmux, &format!("next {at}")), "code 0\n");
    assert_eq!(shown(), pane(&two), "from there, the next one");
    assert_eq!(in_pane(&home, &tmux, &format!("next {at}")), "code 0\n");
    assert_eq!(shown(), pane(&one), "and around");
    for expected in [pane(&two), pane(&one), before] {
        assert_eq!(in_pane(&home, &tmux, &format!("back {at}")), "code 0\n");
        assert_eq!(shown(), expected);
    }
    let none = in_pane(&home, &tmux, &format!("back {at}"));
    assert_eq!(none, "coord: No earlier place.\ncode 1\n");
}

#[test]
fn u_04_where_no_client_can_be_moved_the_way_is_told() {
    let (home, _coordinator) = watched();
    let mut headless = Harness::headless(&home, "session-one");
    headless.begin_turn();
    let said = coord(&home, &["go", "session-one"]);
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.stderr.contains("is headless. → coord inspect"), "{said:?}");
    let said = coord(&home, &["next"]);
    assert_eq!((said.code(), said.stderr.as_str()), (Some(1), "coord: Nobody needs you.\n"));
    let tmux = Tmux::start(&home);
    let mut paned = Harness::in_tmux(&tmux, "session-two");
    paned.begin_turn();
    let known = session_when(&home, "session-two", "its pane is known", |session| {
        session.place.as_ref().is_some_and(|place| place.kind == "tmux")
    });
    let said = coord(&home, &["go", "session-two"]);
    let place = &known.place.unwrap().text;
    assert!(said.stderr.contains(&format!("is in tmux {place}. → tmux -S ")), "{said:?}");
}

// H-16: a server that was started anew gives the same pane ids to other programs.
#[test]
fn u_04_a_pane_of_another_server_is_not_gone_to() {
    let (home, _coordinator) = watched();
    let tmux = Tmux::start(&home);
    let mut harness = Harness::in_tmux(&tmux, "session-one");
    harness.begin_turn();
    let session = session_when(&home, "session-one", "its pane is known", |session| {
        session.place.as_ref().is_some_and(|place| place.kind == "tmux")
    });
    let pane = session.tmux.unwrap().pane;
    tmux.kill();
    let tmux = Tmux::start(&home);
    let (_terminal, client) = attached(&home, &tmux);
    for _ in 0..3 {
        tmux.run(&["new-window", "-d", "exec cat"]);
    }
    let panes = tmux.run(&["list-panes", "-a", "-F", "#{pane_id}"]);
    assert!(panes.lines().any(|one| one == pane), "{pane} is there again: {panes}");
    let shown = || tmux.run(&["display-message", "-p", "-c", &client, "#{pane_id}"]);
    let before = shown();
    let said = in_pane(&home, &tmux, &format!("go session-one --client '{client}'"));
    assert!(said.ends_with("code 1\n"), "{said}");
    assert_eq!(shown(), before, "{said}");
}
