//! What the page is told while it is shown, and what its acts do (W-01 to W-03).

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;

use coord_tests::coord::{Coordinator, events, session, session_when};
use coord_tests::home::Home;
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

use super::super::harness::{Harness, Tmux};
use super::super::wire::{client_event, post, with};
use super::{Answer, PASSPHRASE, Page, started};

/// The stream of a page.
struct Stream {
    connection: TcpStream,
    text: String,
    lines: VecDeque<Value>,
}

impl Stream {
    #[track_caller]
    fn open(page: &Page, token: &str, query: &str) -> Self {
        let mut connection = page.connect();
        let request = page.request("GET", &format!("/api/stream?{query}"), &[token], "");
        connection.write_all(request.as_bytes()).unwrap();
        Self { connection, text: String::new(), lines: VecDeque::new() }
    }

    /// The next update.
    #[track_caller]
    fn next(&mut self) -> Value {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return line;
            }
            let mut buffer = [0; 8 * 1024];
            let n = self.connection.read(&mut buffer).unwrap();
            assert!(0 < n, "the stream has ended: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&buffer[..n]));
            while let Some(at) = self.text.find('\n') {
                let line: String = self.text.drain(..=at).collect();
                // What is no update is the length of a piece, or the line of each second.
                self.lines.extend(serde_json::from_str(line.trim()).ok().filter(Value::is_object));
            }
        }
    }

    /// The first update for which this holds.
    #[track_caller]
    fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..10_000 {
            let update = self.next();
            if fits(&update) {
                return update;
            }
        }
        panic!("no update in which {what}")
    }
}

// W-02, H-26: the same list, live; nothing that cannot be seen, and nothing that is markup, reaches the page as such.
#[test]
fn w_02_the_page_is_told_of_every_change_and_of_no_more() {
    let (home, coordinator) = started();
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    let hostile = json!({"cwd": "/srv/<img src=x onerror=alert(1)>\u{202e}\u{1b}[2J"});
    post(&home, &with(client_event("aaaa2222", "UserPromptSubmit", 1), hostile));
    let page = Page::looks(&home, &[]);
    let token = page.token();
    let mut stream = Stream::open(&page, &token, "session=aaaa2222&from=");
    let first = stream.next();
    assert_eq!((&first["is_whole"], &first["lost"]), (&json!(true), &json!("")));
    assert_eq!(first["summary"][0], "Nobody needs you");
    let view = first["session"]["view"].to_string();
    assert!(view.contains("<img src=x onerror=alert(1)>"), "{view}");
    assert!(
        !view.contains('\u{202e}') && !view.contains("u202e") && !view.contains("u001b"),
        "{view}"
    );
    // A change is told alone.
    post(&home, &client_event("aaaa1111", "Stop", 2));
    let idle = |update: &Value| update["rows"]["aaaa1111"]["state"] == "idle";
    let update = stream.until("it is idle", idle);
    assert_eq!(update["is_whole"], json!(false));
    assert!(update["rows"].get("aaaa2222").is_none_or(|row| row["state"] == "running"));
    // A page that comes back is told what it missed, and nothing else.
    let from = update["id"].as_str().unwrap().to_owned();
    drop(stream);
    post(&home, &client_event("aaaa2222", "Stop", 2));
    let mut stream = Stream::open(&page, &token, &format!("session=&from={from}"));
    let update = stream
        .until("the other one is idle", |update| update["rows"]["aaaa2222"]["state"] == "idle");
    assert_eq!(update["is_whole"], json!(false), "{update}");
    // The coordinator's end is told, and its return.
    coordinator.kill();
    let lost = stream.until("it is lost", |update| update["lost"] != "");
    let words = lost["lost"].as_str().unwrap();
    assert!(
        words.starts_with("Connection lost at ")
            && words.ends_with(". Shown is what was known then. Retrying."),
        "{words}"
    );
    let _coordinator = Coordinator::start(&home);
    stream.until("it is found", |update| update["lost"] == "");
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 3));
    stream.until("it works again", |update| update["rows"]["aaaa1111"]["state"] == "running");
    // What happened, and why.
    for (path, expected) in [("history", "prompt"), ("explain", "because")] {
        let answer = page.ask("GET", &format!("/api/{path}?session=aaaa1111"), &[&token], "");
        assert!(answer.status == 200 && answer.body.contains(expected), "{path}: {answer:?}");
    }
    let answer = page.ask("GET", "/api/explain?session=nobody99", &[&token], "");
    assert_eq!(answer.status, 404, "{answer:?}");
}

/// The lines that came of an act, and whether it was done.
#[track_caller]
fn said(answer: &Answer) -> (bool, String) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    assert_eq!(json["is"], "said", "{json}");
    let lines = json["acted"]["lines"].as_array().unwrap();
    let lines: Vec<&str> = lines.iter().map(|line| line.as_str().unwrap()).collect();
    (json["acted"]["is_done"] == true, lines.join("\n"))
}

/// All that is recorded of a session that has just begun, once its process and registry were looked at.
#[track_caller]
fn recorded_at_first(home: &Home) -> Vec<Value> {
    post(home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    wait_until("it is looked at", || {
        let events = events(home, None);
        if events.iter().any(|line| line["name"] == "RegistryRead") {
            Ok(events)
        } else {
            Err(events)
        }
    })
}

// W-03: the page that looks does not act, whatever it is asked for.
#[test]
fn w_03_a_page_that_looks_does_not_act() {
    let (home, _coordinator) = started();
    let before = recorded_at_first(&home);
    let page = Page::looks(&home, &[]);
    let token = page.token();
    for act in [
        json!({"act": "hold", "session": "aaaa1111"}),
        json!({"act": "recover", "session": "aaaa1111"}),
        json!({"act": "send", "session": "aaaa1111", "text": "hello"}),
        json!({"act": "reply", "need": "a_1.1", "hook": "1.1", "reply": "allow"}),
    ] {
        for dry_run in [true, false] {
            let answer = page.act(&token, dry_run, &act);
            assert_eq!(
                (answer.status, answer.body.trim()),
                (403, "Answering needs coordctl dashboard.")
            );
        }
    }
    assert_eq!(events(&home, None), before);
}

// W-03, H-22: orders of a person's page are recorded as those of coordctl are, after a dry run that records nothing.
#[test]
fn w_03_a_persons_page_holds_releases_recovers_and_sends() {
    let (home, _coordinator) = started();
    let before = recorded_at_first(&home);
    let tmux = Tmux::start(&home);
    let page = Page::acts(&home, &tmux);
    let token = page.token();
    let act = |dry_run, what: Value| said(&page.act(&token, dry_run, &what));
    for verb in ["hold", "release", "recover"] {
        let (_, words) = act(true, json!({"act": verb, "session": "aaaa1111"}));
        assert!(!words.is_empty(), "{verb}");
    }
    assert_eq!(events(&home, None), before);
    assert!(act(false, json!({"act": "hold", "session": "aaaa1111"})).0);
    session_when(&home, "aaaa1111", "it is held", |session| session.hold.is_some());
    assert!(act(false, json!({"act": "release", "session": "aaaa1111"})).0);
    session_when(&home, "aaaa1111", "it is released", |session| session.hold.is_none());
    let (is_done, words) = act(false, json!({"act": "recover", "session": "aaaa1111"}));
    assert!(!is_done && words.contains("refused"), "{words}");
    let (is_done, words) =
        act(false, json!({"act": "send", "session": "aaaa1111", "text": "hello"}));
    assert!(is_done && words.starts_with("m_"), "{words}");
    let (is_done, words) = act(false, json!({"act": "send", "session": "aaaa1111", "text": " "}));
    assert_eq!((is_done, words.as_str()), (false, "The text is empty; nothing was sent."));
    let orders = events(&home, None);
    let orders: Vec<&str> = orders
        .iter()
        .filter(|line| line["name"] == "Operator")
        .filter_map(|line| line["detail"].as_str())
        .collect();
    assert_eq!(orders, ["hold", "release", "recover"]);
}

/// A session that asks for a call, beside which the real hook waits.
#[track_caller]
pub(super) fn asking(home: &Home, harness: &mut Harness, tool: &str, input: &Value) {
    asks(home, harness, &json!({"tool_name": tool, "tool_input": input}));
}

/// The same in a directory.
#[track_caller]
pub(super) fn asking_in(
    home: &Home,
    harness: &mut Harness,
    tool: &str,
    input: &Value,
    cwd: &Value,
) {
    asks(home, harness, &json!({"tool_name": tool, "tool_input": input, "cwd": cwd}));
}

/// Where the machine is slow, the hook spools its request and does not wait. Then the call is over, and asked for again.
#[track_caller]
fn asks(home: &Home, harness: &mut Harness, fields: &Value) {
    let call = with(fields.clone(), json!({"tool_use_id": "toolu_1"}));
    let mut is_asked = false;
    wait_until("a request beside which a hook waits", || {
        if !is_asked {
            is_asked = true;
            assert_eq!(harness.report("PreToolUse", &call), 0);
            harness.register_as_waiting();
            harness.report_in_background("PermissionRequest", fields);
        }
        let seen = session(home, harness.session_id()).map(Box::new);
        if harness.background_has_ended() {
            is_asked = false;
            harness.register();
            assert_eq!(harness.report("PostToolUse", &call), 0);
            return Err(seen);
        }
        let mut needs = seen.iter().flat_map(|one| &one.needs);
        if needs.any(|need| need.request.is_some()) { Ok(()) } else { Err(seen) }
    });
}

/// The first request that can be answered.
#[track_caller]
pub(super) fn request(page: &Page, token: &str) -> Value {
    wait_until("a request that can be answered", || {
        let update = Stream::open(page, token, "session=&from=").next();
        let first = update["requests"]["open"][0].clone();
        if first["choices"].as_array().is_some_and(|all| !all.is_empty()) {
            Ok(first)
        } else {
            Err(update.to_string())
        }
    })
}

// W-03, H-23, A-08: a reply needs the passphrase on the page, and is for the one hook whose input was shown.
#[test]
fn w_03_a_request_is_answered_once_with_the_passphrase() {
    let home = Home::new();
    let (tmux, _coordinator) = super::answerable(&home);
    let mut harness = Harness::in_tmux(&tmux, "session-one");
    harness.register();
    harness.begin_turn();
    asking(&home, &mut harness, "Bash", &json!({"command": "echo \u{202e}hi"}));
    let page = Page::acts(&home, &tmux);
    let token = page.token();
    let request = request(&page, &token);
    assert_eq!(request["input"], json!(["echo ⟨U+202E⟩hi"]));
    assert_eq!(request["title"], "asks to run Bash");
    let reply = |hook: &str, reply: &str| json!({"act": "reply", "need": request["need"], "hook": hook, "reply": reply});
    let hook = request["hook"].as_str().unwrap();
    let asked = said(&page.act(&token, true, &reply(hook, "allow")));
    assert_eq!(asked, (true, "Allow this one call?".to_owned()));
    let locked = page.act(&token, false, &reply(hook, "allow"));
    assert_eq!(locked.json()["is"], "passphrase_needed", "{locked:?}");
    let give = |text: &str| {
        page.ask("POST", "/api/passphrase", &[&token], &json!({"passphrase": text}).to_string())
    };
    let wrong = give("a wrong one");
    assert_eq!((wrong.status, wrong.body.trim()), (403, "Wrong passphrase; nothing was sent."));
    wait_until("the passphrase is taken", || {
        let given = give(PASSPHRASE);
        if given.status == 200 { Ok(()) } else { Err(given) }
    });
    let stale = said(&page.act(&token, false, &reply("1.1", "allow")));
    assert_eq!(stale, (false, "This request is over. Nothing was sent.".to_owned()));
    let other = said(&page.act(&token, false, &reply(hook, "answer")));
    assert!(!other.0, "{other:?}");
    let before = events(&home, None).len();
    let sent = said(&page.act(&token, false, &reply(hook, "deny")));
    assert!(before < events(&home, None).len(), "{sent:?}");
    let printed = wait_until("the hook has printed", || {
        let text = harness.background();
        if text.is_empty() { Err(text) } else { Ok(text) }
    });
    assert!(printed.contains("\"deny\""), "{printed}");
    let again = said(&page.act(&token, false, &reply(hook, "allow")));
    assert!(!again.0, "{again:?}");
}
