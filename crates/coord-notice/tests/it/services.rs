//! The shapes of the channel `webhook`, as each service documents them.

use crate::sender::{LINE, Sent, notice, request, send, tell, withdrawal};
use crate::server::{Reply, Server, channel, http, webhook};
use coord_wire::notice::{Channel, Notice, NoticeEvent, Secret, Shape, Webhook};
use serde_json::json;

const TOKEN: &str = "12345:tk_canary-A";

fn with_token(shape: Shape, url: &str) -> Channel {
    let token = Some(Secret::Plain(TOKEN.to_owned()));
    let chat = Some("-100123".to_owned());
    Channel::Webhook(Webhook { token, chat, ..webhook(shape, url) })
}

#[track_caller]
fn told(channel: Channel, notice: Notice, handle: Option<&str>) -> Sent {
    let sent = send(&request(channel, tell(notice, LINE, handle)));
    sent.never_says(TOKEN);
    sent
}

// N-02
#[test]
fn generic_is_the_notice_itself() {
    let server = Server::start([http("200 OK", ""), http("204 No Content", "")]);
    let channel = with_token(Shape::Generic, &server.url("/hook?key=1"));
    let answer = told(channel.clone(), notice(), None).sent();
    assert_eq!((answer.saying.as_str(), answer.tries), ("HTTP 200 from 127.0.0.1", 1));
    let answer = told(channel, withdrawal(), None).sent();
    assert_eq!(answer.saying, "HTTP 204 from 127.0.0.1");
    let [first, second] = &server.requests()[..] else { panic!("{:?}", server.requests()) };
    assert_eq!(first.line, "POST /hook?key=1");
    assert!(first.head.contains(&format!("authorization: bearer {}", TOKEN.to_lowercase())));
    assert_eq!(first.json(), serde_json::to_value(notice()).unwrap());
    assert!(first.head.contains("idempotency-key: coord-dev-a_4.2-told-0"), "{first:?}");
    assert_eq!(second.json()["event"], "withdrawn");
    assert_eq!(second.json()["how"], "answered at the terminal");
    assert_eq!(second.json()["id"], "a_4.2");
    assert!(second.head.contains("idempotency-key: coord-dev-a_4.2-withdrawn-0"), "{second:?}");
}

#[test]
fn ntfy_is_published_to_the_root_updated_and_deleted() {
    let taken = r#"{"id":"hwQ2YpKdmg","time":1,"event":"message","topic":"top_ic"}"#;
    let server =
        Server::start([http("200 OK", taken), http("200 OK", taken), http("200 OK", "{}")]);
    let channel = with_token(Shape::Ntfy, &server.url("/sub/top_ic"));
    let answer = told(channel.clone(), notice(), None).sent();
    assert_eq!(answer.handle.as_deref(), Some("coord-dev-a_4_2"));
    let repeat = Notice { repeat: 1, may_be_repeated: true, ..notice() };
    told(channel.clone(), repeat, answer.handle.as_deref()).sent();
    assert_eq!(told(channel, withdrawal(), answer.handle.as_deref()).sent().saying, "withdrawn");
    let [first, second, third] = &server.requests()[..] else { panic!("{:?}", server.requests()) };
    assert_eq!(first.line, "POST /sub/");
    assert!(first.head.contains(&format!("authorization: bearer {}", TOKEN.to_lowercase())));
    let expected = json!({
        "topic": "top_ic",
        "title": "parser asks to run Bash",
        "message": "~/src/parser · tmux work:api.1 · waits 20s · on dev",
        "tags": ["coord", "permission"],
        "priority": 4,
        "sequence_id": "coord-dev-a_4_2",
    });
    assert_eq!(first.json(), expected);
    assert_eq!(second.json()["sequence_id"], "coord-dev-a_4_2");
    assert_eq!(second.json()["title"], "parser asks to run Bash (repeat)");
    assert_eq!(third.line, "DELETE /sub/top_ic/coord-dev-a_4_2");
    assert!(third.head.contains("authorization: bearer "));
}

#[test]
fn an_older_ntfy_cannot_delete() {
    let server = Server::start([http("404 Not Found", r#"{"code":40401}"#)]);
    let channel = channel(Shape::Ntfy, &server.url("/topic"));
    assert_eq!(told(channel, withdrawal(), None).sent().saying, "nothing to withdraw");
    assert_eq!(server.request().line, "DELETE /topic/coord-dev-a_4_2");
}

#[test]
fn slack_gets_text_in_which_nothing_is_markup() {
    let server = Server::start([http("200 OK", "ok")]);
    let channel = channel(Shape::Slack, &server.url("/services/T0/B0/canary"));
    let hostile = Notice { text: "a & <!channel> *b*\u{202e}".to_owned(), ..notice() };
    let sent = told(channel.clone(), hostile, None);
    sent.never_says("canary");
    assert_eq!(sent.sent().handle, None);
    let request = server.request();
    assert_eq!(request.line, "POST /services/T0/B0/canary");
    let text = "coord: a &amp; &lt;!channel&gt; *b*\n\
                ~/src/parser · tmux work:api.1 · waits 20s · on dev";
    assert_eq!(request.json(), json!({"text": text, "mrkdwn": false}));
    let answer = told(channel, withdrawal(), None).sent();
    assert_eq!((answer.saying.as_str(), answer.tries), ("nothing to withdraw", 0));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn discord_mentions_nobody_and_the_message_goes_again() {
    let first = http("200 OK", r#"{"id":"111222333444555666","content":"x"}"#);
    let second = http("200 OK", r#"{"id":"777"}"#);
    let gone = http("204 No Content", "");
    let server = Server::start([first, second, gone.clone(), gone]);
    let channel = channel(Shape::Discord, &server.url("/api/webhooks/1/canary?thread_id=9"));
    let hostile = Notice { text: "**a** @everyone https://x".to_owned(), ..notice() };
    let answer = told(channel.clone(), hostile, None).sent();
    assert_eq!(answer.handle.as_deref(), Some("111222333444555666"));
    let answer = told(channel.clone(), notice(), answer.handle.as_deref()).sent();
    assert_eq!(answer.handle.as_deref(), Some("777"));
    let sent = told(channel, withdrawal(), answer.handle.as_deref());
    sent.never_says("canary");
    assert_eq!(sent.sent().saying, "withdrawn");
    let requests = server.requests();
    let lines: Vec<&str> = requests.iter().map(|request| request.line.as_str()).collect();
    // The new message is there before the old one goes.
    assert_eq!(
        lines,
        [
            "POST /api/webhooks/1/canary?thread_id=9&wait=true",
            "POST /api/webhooks/1/canary?thread_id=9&wait=true",
            "DELETE /api/webhooks/1/canary/messages/111222333444555666?thread_id=9",
            "DELETE /api/webhooks/1/canary/messages/777?thread_id=9",
        ]
    );
    let body = requests[0].json();
    assert_eq!(body["allowed_mentions"], json!({"parse": []}));
    let content = body["content"].as_str().unwrap();
    assert!(content.starts_with(r"coord\: \*\*a\*\* \@everyone https\://x"), "{content}");
}

#[test]
fn telegram_has_its_token_in_the_path_and_nowhere_else() {
    let taken = r#"{"ok":true,"result":{"message_id":42,"chat":{"id":-100123}}}"#;
    let server =
        Server::start([http("200 OK", taken), http("200 OK", r#"{"ok":true,"result":true}"#)]);
    let channel = with_token(Shape::Telegram, &server.url("/"));
    let answer = told(channel.clone(), notice(), None).sent();
    assert_eq!(answer.handle.as_deref(), Some("42"));
    assert_eq!(told(channel, withdrawal(), answer.handle.as_deref()).sent().saying, "withdrawn");
    let [first, second] = &server.requests()[..] else { panic!("{:?}", server.requests()) };
    assert_eq!(first.line, format!("POST /bot{TOKEN}/sendMessage"));
    assert!(!first.head.contains("authorization") && !first.body.contains(TOKEN));
    let text =
        "coord: parser asks to run Bash\n~/src/parser · tmux work:api.1 · waits 20s · on dev";
    assert_eq!(first.json(), json!({"chat_id": -100_123, "text": text}));
    assert_eq!(second.line, format!("POST /bot{TOKEN}/deleteMessage"));
    assert_eq!(second.json(), json!({"chat_id": -100_123, "message_id": 42}));
}

#[test]
fn what_can_no_longer_be_withdrawn_is_no_failure() {
    let gone = http("400 Bad Request", r#"{"ok":false,"error_code":400}"#);
    let server = Server::start([gone, http("404 Not Found", "{}")]);
    let telegram = with_token(Shape::Telegram, &server.url("/"));
    assert_eq!(told(telegram, withdrawal(), Some("42")).sent().saying, "nothing to withdraw");
    let discord = channel(Shape::Discord, &server.url("/api/webhooks/1/x"));
    assert_eq!(told(discord.clone(), withdrawal(), Some("42")).sent().tries, 1);
    // No handle, or one that is none.
    for handle in [None, Some("1/../2"), Some("")] {
        let answer = told(discord.clone(), withdrawal(), handle).sent();
        assert_eq!((answer.saying.as_str(), answer.tries), ("nothing to withdraw", 0));
    }
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_digest_is_a_list() {
    let server = Server::start([http("200 OK", "ok")]);
    let digest = Notice {
        event: NoticeEvent::Digest,
        id: None,
        kind: None,
        session: None,
        directory: None,
        place: None,
        age_s: None,
        text: "11 sessions need you".to_owned(),
        lines: vec!["docs asks a question, 41m".to_owned(), "api must log in, 2m".to_owned()],
        more: 9,
        ..notice()
    };
    told(channel(Shape::Slack, &server.url("/")), digest, None).sent();
    let text = "coord: 11 sessions need you\ndocs asks a question, 41m\napi must log in, 2m\nand 9 more\non dev";
    assert_eq!(server.request().json()["text"], text);
}

#[test]
fn an_answer_of_something_else_is_not_taken_for_success() {
    for (shape, name) in
        [(Shape::Ntfy, "ntfy"), (Shape::Discord, "Discord"), (Shape::Telegram, "Telegram")]
    {
        for body in ["<html>Log in</html>", "", "[]", r#"{"ok":false,"id":7}"#, "\u{0}\u{1b}"] {
            let server = Server::start([http("200 OK", body)]);
            let answer = told(with_token(shape, &server.url("/topic")), notice(), None).failed();
            assert_eq!(
                answer.saying,
                format!("127.0.0.1: its answer is not one of {name}"),
                "{body}"
            );
            assert_eq!((answer.tries, answer.is_refused), (1, false));
        }
    }
}

#[test]
fn a_huge_body_is_not_read_to_its_end() {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = [b"100000\r\n".to_vec(), vec![b'x'; 0x0010_0000], b"\r\n".to_vec()].concat();
    // More than the kernel holds for a reader.
    let body = [head, chunk.repeat(64)].concat();
    let server = Server::start([Reply::Bytes(body)]);
    let answer = told(channel(Shape::Discord, &server.url("/x")), notice(), None).sent();
    assert_eq!(answer.handle, None);
    server.wait_cut();
}

#[test]
fn what_a_service_needs_is_asked_for() {
    for (channel, why) in [
        (channel(Shape::Telegram, "https://api.telegram.org"), "telegram needs a chat"),
        (channel(Shape::Ntfy, "https://ntfy.sh/"), "the address does not end with a topic of ntfy"),
        (
            channel(Shape::Ntfy, "https://ntfy.sh/a.b"),
            "the address does not end with a topic of ntfy",
        ),
        (
            channel(Shape::Slack, "http://hooks.slack.com/canary"),
            "hooks.slack.com: http:// is for this machine only",
        ),
        (
            channel(Shape::Slack, "https://u:canary@hooks.slack.com/"),
            "the address holds a user name; use a token",
        ),
        (channel(Shape::Slack, "canary"), "the address is not a URL"),
    ] {
        let sent = told(channel, notice(), None);
        sent.never_says("canary");
        let answer = sent.failed();
        assert_eq!((answer.saying.as_str(), answer.is_refused, answer.tries), (why, true, 0));
    }
}
