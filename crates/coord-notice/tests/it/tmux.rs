//! The channel `tmux`.

use crate::sender::{LINE, directory, notice, program, request, send, tell, text, withdrawal};
use crate::terminal::Server;
use coord_wire::notice::{Channel, PaneState, SendAct, TmuxState};
use rustix::process::Signal;

fn channel(servers: &[&Server]) -> Channel {
    let sockets = servers.iter().map(|server| server.socket()).collect();
    Channel::Tmux { program: program("tmux"), sockets, bell: false }
}

// N-02, H-26
#[test]
fn a_line_is_shown_on_every_client_as_it_is_and_runs_nothing() {
    let (inner, outer) = (Server::start(), Server::start());
    let records = outer.attach(&inner, 2);
    let dir = directory();
    let file = dir.path().join("made");
    let run = format!("#(touch {})", file.display());
    let line = format!(
        "{run} #{{pane_id}} %H%% #[fg=red]x #9 $HOME \"; kill-server \\; '~' \u{1b}[2J\u{202e}z"
    );
    let answer = send(&request(channel(&[&inner]), tell(notice(), &line, None))).sent();
    assert_eq!((answer.saying.as_str(), answer.tries), ("shown on 2 terminals", 1));
    let shown =
        format!("{run} #{{pane_id}} %H%% #[fg=red]x #9 $HOME \"; kill-server \\; '~' \u{fffd}[2Jz");
    for record in &records {
        record.shows(&shown);
        assert!(!record.read().contains('\u{7}'), "no bell was asked for");
    }
    // Another command of the server comes after whatever the line would have run.
    inner.tell(&["run-shell", "true"]);
    assert!(!file.exists());
}

#[test]
fn the_bell_rings_at_every_client() {
    let (inner, outer) = (Server::start(), Server::start());
    let records = outer.attach(&inner, 2);
    let Channel::Tmux { program, sockets, .. } = channel(&[&inner]) else { unreachable!() };
    let channel = Channel::Tmux { program, sockets, bell: true };
    send(&request(channel, tell(notice(), LINE, None))).sent();
    for record in &records {
        record.shows("\u{7}");
        record.shows(LINE);
    }
}

#[test]
fn a_server_that_hangs_holds_up_no_other() {
    let (healthy, hung, outer) = (Server::start(), Server::start(), Server::start());
    let records = outer.attach(&healthy, 1);
    hung.signal(Signal::STOP);
    let answer = send(&request(channel(&[&hung, &healthy]), tell(notice(), LINE, None))).sent();
    let expected =
        format!("shown on 1 terminal; {}: {}: not done within 2 s", hung.socket(), program("tmux"));
    assert_eq!(answer.saying, expected);
    records[0].shows(LINE);
    let answer = send(&request(channel(&[&hung]), tell(notice(), LINE, None))).failed();
    assert!(answer.saying.contains("not done within 2 s") && !answer.is_refused, "{answer:?}");
    let state =
        SendAct::ShowState(TmuxState { text: "1 needs you".to_owned(), ..TmuxState::default() });
    send(&request(channel(&[&hung, &healthy]), state)).failed();
    assert_eq!(healthy.tell(&["show-options", "-gv", "@coord_text"]), "1 needs you\n");
    hung.signal(Signal::CONT);
}

#[test]
fn without_a_client_nobody_was_told_and_no_server_is_started() {
    let server = Server::start();
    let answer = send(&request(channel(&[&server]), tell(notice(), LINE, None))).failed();
    assert_eq!((answer.saying.as_str(), answer.is_refused), ("no terminal is attached", false));
    let dir = directory();
    let left = dir.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    let sockets = ["none", "none/none", "left"].map(|name| text(&dir.path().join(name))).to_vec();
    let nowhere = Channel::Tmux { program: program("tmux"), sockets, bell: true };
    let answer = send(&request(nowhere.clone(), tell(notice(), LINE, None))).failed();
    assert_eq!(answer.saying, "no terminal is attached");
    send(&request(nowhere, SendAct::ShowState(TmuxState::default()))).sent();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only what was there");
}

#[test]
fn there_is_nothing_to_withdraw() {
    let (inner, outer) = (Server::start(), Server::start());
    let records = outer.attach(&inner, 1);
    let answer =
        send(&request(channel(&[&inner]), tell(withdrawal(), "coord: withdrawn", None))).sent();
    assert_eq!((answer.saying.as_str(), answer.tries), ("nothing to withdraw", 0));
    // A later message shows that the earlier one would have been there.
    send(&request(channel(&[&inner]), tell(notice(), LINE, None))).sent();
    records[0].shows(LINE);
    assert!(!records[0].read().contains("withdrawn"));
}

fn pane(server: &Server, pane: &str, state: Option<&str>, attention: Option<&str>) -> PaneState {
    let [state, attention] = [state, attention].map(|text| text.map(str::to_owned));
    PaneState { socket: server.socket(), pane: pane.to_owned(), state, attention }
}

#[track_caller]
fn show(servers: &[&Server], panes: Vec<PaneState>) -> String {
    let state = TmuxState { text: "3 need you".to_owned(), until_s: 1_700_000_000, panes };
    send(&request(channel(servers), SendAct::ShowState(state))).sent().saying
}

// N-07
#[test]
fn options_of_panes_and_windows_follow_the_states() {
    let (server, other) = (Server::start(), Server::start());
    for _ in 0..2 {
        server.tell(&["split-window", "-d", "-t", "w:0", "sleep 1000"]);
    }
    server.tell(&["new-window", "-d", "-t", "w:1", "sleep 1000"]);
    let options = |target: &[&str]| server.tell(&[&["show-options"], target].concat());
    let said = show(
        &[&server, &other],
        vec![
            pane(&server, "%99", Some("waiting"), Some("login")),
            pane(&server, "%0", Some("working"), None),
            pane(&server, "%1", Some("waiting"), Some("permission")),
            pane(&server, "%3", Some("idle"), None),
        ],
    );
    assert_eq!(said, "set on 2 servers");
    for one in [&server, &other] {
        assert_eq!(one.tell(&["show-options", "-gv", "@coord_text"]), "3 need you\n");
        assert_eq!(one.tell(&["show-options", "-gv", "@coord_until"]), "1700000000\n");
    }
    assert_eq!(options(&["-p", "-t", "%0"]), "@coord_state working\n");
    assert_eq!(options(&["-p", "-t", "%1"]), "@coord_attention permission\n@coord_state waiting\n");
    assert_eq!(options(&["-w", "-t", "@0"]), "@coord_attention permission\n@coord_state waiting\n");
    assert_eq!(options(&["-w", "-t", "@1"]), "@coord_state idle\n");
    // The pane that needed someone is closed: its window no longer does.
    server.tell(&["kill-pane", "-t", "%1"]);
    show(&[&server], vec![pane(&server, "%1", None, None)]);
    assert_eq!(options(&["-w", "-t", "@0"]), "@coord_state working\n");
    let gone = vec![pane(&server, "%0", None, Some("login")), pane(&server, "%3", None, None)];
    show(&[&server], gone);
    for target in [["-w", "-t", "@0"], ["-w", "-t", "@1"], ["-p", "-t", "%0"]] {
        assert_eq!(options(&target), "", "{target:?}");
    }
}

// N-07, H-26: what a status line expands is no format and no style.
#[test]
fn the_text_of_a_status_line_is_only_text() {
    let server = Server::start();
    let dir = directory();
    let file = dir.path().join("made");
    let text = format!("3 #(touch {})#[fg=red] need\u{1b} you", file.display());
    let state = TmuxState { text, ..TmuxState::default() };
    send(&request(channel(&[&server]), SendAct::ShowState(state))).sent();
    let shown = server.tell(&["display-message", "-p", "#{E:@coord_text}"]);
    assert_eq!(shown, format!("3 (touch {})[fg=red] need you\n", file.display()));
    server.tell(&["run-shell", "true"]);
    assert!(!file.exists());
}
