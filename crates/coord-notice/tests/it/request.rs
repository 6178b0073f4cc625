//! What the program does with a request that is none, and with one that takes too long.

use crate::sender::{LINE, command, directory, notice, request, send, send_bytes, tell, text};
use coord_tests::process::Running;
use coord_wire::notice::{Channel, SendAct, SendRequest, TmuxState};
use std::process::Stdio;

#[test]
fn what_is_no_request_is_refused_without_a_word_of_it() {
    let secret = "tk_canary";
    for bytes in [
        String::new(),
        "{".to_owned(),
        format!("\"{secret}\""),
        format!("{{\"channel\":\"{secret}\",\"act\":{{}},\"within_ms\":1}}"),
        format!("{}{}", " ".repeat(256 * 1024), secret),
    ] {
        let sent = send_bytes(bytes.as_bytes(), &[]);
        assert_eq!((sent.code, sent.stdout.as_str()), (Some(64), ""), "{sent:?}");
        assert!(sent.stderr.contains("is unreadable"), "{sent:?}");
        sent.never_says(secret);
    }
}

#[test]
fn a_request_that_does_not_arrive_is_given_up() {
    let dir = directory();
    let mut command = command();
    command.stdin(Stdio::piped());
    let mut running = Running::start(command, dir.path(), "sender");
    // Held open, and never written to.
    let stdin = running.take_stdin();
    let finished = running.finish();
    drop(stdin);
    assert_eq!(finished.code(), Some(64), "{finished:?}");
}

// H-24
#[test]
fn a_program_is_named_by_an_absolute_path() {
    for name in ["sh", "./sh", ""] {
        let name = name.to_owned();
        for channel in
            [Channel::Desktop { program: name.clone() }, Channel::Command { program: name.clone() }]
        {
            let answer = send(&request(channel, tell(notice(), LINE, None))).failed();
            assert!(answer.is_refused && answer.saying.contains("absolute path"), "{answer:?}");
        }
    }
}

#[test]
fn only_tmux_shows_states() {
    let channel = Channel::Command { program: "/bin/true".to_owned() };
    let act = SendAct::ShowState(TmuxState::default());
    assert!(send(&request(channel, act)).failed().is_refused);
}

/// A program that does not end ends with the budget, whatever the channel.
#[test]
fn the_budget_of_the_request_holds() {
    let dir = directory();
    let script = crate::command::script(dir.path(), "hang", "exec sleep 1000");
    for channel in
        [Channel::Command { program: text(&script) }, Channel::Desktop { program: text(&script) }]
    {
        let act = tell(notice(), LINE, None);
        let answer = send(&SendRequest { channel, act, within_ms: 300 }).failed();
        assert!(answer.saying.contains("not done within"), "{answer:?}");
        assert!(!answer.is_refused);
    }
}
