//! How often the channel `webhook` tries, and when it stops.

use crate::sender::{LINE, notice, request, send, send_with, tell};
use crate::server::{Reply, Server, channel, http, webhook};
use coord_wire::notice::{Channel, SendAnswer, SendRequest, Shape, Webhook};
use std::net::TcpListener;

#[track_caller]
fn tried(shape: Shape, replies: &[Reply]) -> (SendAnswer, Server) {
    let server = Server::start(replies.iter().cloned());
    let channel = channel(shape, &server.url("/canary"));
    let sent = send(&request(channel, tell(notice(), LINE, None)));
    sent.never_says("canary");
    (sent.answer(), server)
}

// N-03
#[test]
fn a_fault_of_the_server_is_tried_three_times() {
    let bad = || http("500 Internal Server Error", "canary");
    let (answer, server) = tried(Shape::Slack, &[bad(), http("200 OK", "ok")]);
    assert!(answer.is_sent && answer.tries == 2, "{answer:?}");
    assert_eq!(server.requests().len(), 2);
    let (answer, server) = tried(Shape::Slack, &[bad(), bad(), bad(), bad()]);
    assert_eq!((answer.saying.as_str(), answer.tries), ("HTTP 500 from 127.0.0.1", 3));
    assert!(!answer.is_sent && !answer.is_refused);
    assert_eq!(server.requests().len(), 3);
    // A server that answered has not taken it: the second one is no repeat.
    assert!(!server.requests()[2].body.contains("repeat"));
}

#[test]
fn what_the_server_refuses_is_not_tried_again() {
    for head in
        ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found", "410 Gone"]
    {
        let (answer, server) = tried(Shape::Slack, &[http(head, "canary"), http("200 OK", "ok")]);
        let status = &head[..3];
        assert_eq!(answer.saying, format!("HTTP {status} from 127.0.0.1"));
        assert!(!answer.is_sent && answer.is_refused && answer.tries == 1, "{answer:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn redirects_are_refused() {
    let elsewhere = Server::start([http("200 OK", "ok")]);
    for head in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let location = elsewhere.url("/canary");
        let head: &'static str = format!("{head}\r\nLocation: {location}").leak();
        let (answer, server) = tried(Shape::Slack, &[http(head, ""), http("200 OK", "ok")]);
        assert_eq!(answer.saying, "127.0.0.1 redirects to another address");
        assert!(!answer.is_sent && answer.is_refused, "{answer:?}");
        assert_eq!(server.requests().len(), 1);
    }
    assert!(elsewhere.requests().is_empty());
}

#[test]
fn a_limit_is_waited_for_if_there_is_time() {
    let soon = http("429 Too Many Requests\r\nRetry-After: 0", "");
    let (answer, _) = tried(Shape::Slack, &[soon, http("200 OK", "ok")]);
    assert!(answer.is_sent && answer.tries == 2, "{answer:?}");
    let unsaid = http("429 Too Many Requests", "");
    let (answer, _) = tried(Shape::Slack, &[unsaid.clone(), unsaid, http("200 OK", "ok")]);
    assert!(answer.is_sent && answer.tries == 3, "{answer:?}");
    let late = http("429 Too Many Requests\r\nRetry-After: 3600", "");
    let (answer, server) = tried(Shape::Slack, &[late, http("200 OK", "ok")]);
    assert_eq!((answer.is_sent, answer.is_refused, answer.tries), (false, false, 1));
    assert_eq!(answer.retry_after_ms, Some(3_600_000));
    assert_eq!(answer.saying, "HTTP 429 from 127.0.0.1");
    assert_eq!(server.requests().len(), 1);
    // Telegram says it in the body.
    let body = r#"{"ok":false,"parameters":{"retry_after":600}}"#;
    let (answer, _) = tried(Shape::Slack, &[http("429 Too Many Requests", body)]);
    assert_eq!(answer.retry_after_ms, Some(600_000));
}

#[test]
fn a_lost_answer_is_tried_once_more_where_it_may_double() {
    let (answer, server) = tried(Shape::Slack, &[Reply::Close, Reply::Close, Reply::Close]);
    assert_eq!((answer.saying.as_str(), answer.tries), ("127.0.0.1: the connection broke", 2));
    let bodies = server.requests();
    assert!(!bodies[0].body.contains("(repeat)") && bodies[1].body.contains("(repeat)"));
    // Whoever recognizes a copy is tried as often as any.
    let (answer, server) = tried(Shape::Generic, &[Reply::Close, Reply::Close, http("200 OK", "")]);
    assert!(answer.is_sent && answer.tries == 3, "{answer:?}");
    let requests = server.requests();
    let key =
        |at: usize| requests[at].head.lines().find(|line| line.starts_with("idempotency-key"));
    assert!(key(0).is_some() && key(0) == key(1) && key(1) == key(2), "{requests:?}");
    let is_marked = |at: usize| requests[at].json()["may_be_repeated"] == true;
    assert_eq!([0, 1, 2].map(is_marked), [false, true, true]);
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let server = Server::start([Reply::Silence, Reply::Silence, Reply::Silence]);
    let act = tell(notice(), LINE, None);
    let channel = channel(Shape::Ntfy, &server.url("/canary"));
    let sent = send(&SendRequest { channel, act, within_ms: 5_000 });
    sent.never_says("canary");
    let answer = sent.failed();
    assert!(answer.saying.starts_with("no answer from 127.0.0.1 within "), "{answer:?}");
    // The second try has what the first left.
    assert!(answer.tries <= 2 && !answer.is_refused, "{answer:?}");
}

#[test]
fn half_an_answer_is_none() {
    let half = Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec());
    let (answer, _) = tried(Shape::Slack, &[half, http("200 OK", "ok")]);
    assert!(answer.is_sent && answer.tries == 2, "{answer:?}");
    let noise = Reply::Bytes(b"\x1b]0;x\x07 canary SSH-2.0\r\n\r\n".to_vec());
    let (answer, _) = tried(Shape::Slack, &[noise]);
    assert_eq!(answer.saying, "127.0.0.1: its answer is no HTTP");
    assert!(!answer.is_sent && answer.tries == 1, "{answer:?}");
    let endless = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat();
    let (answer, _) = tried(Shape::Slack, &[Reply::Bytes(endless)]);
    assert!(!answer.is_sent, "{answer:?}");
    // The status counts if only the body breaks off.
    let cut = Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"id\":".to_vec());
    let (answer, _) = tried(Shape::Discord, &[cut]);
    assert!(answer.is_sent && answer.handle.is_none(), "{answer:?}");
}

#[test]
fn nobody_there_is_tried_three_times() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let channel = channel(Shape::Slack, &format!("http://localhost:{port}/canary"));
    let answer = send(&request(channel, tell(notice(), LINE, None))).failed();
    assert_eq!((answer.saying.as_str(), answer.tries), ("localhost: connection refused", 3));
}

/// A name that is not resolved is no lost answer: it is tried as often as anything.
#[test]
fn a_host_that_does_not_exist_was_told_nothing() {
    let channel = channel(Shape::Slack, "https://no-such-host.invalid/canary");
    let sent = send(&request(channel, tell(notice(), LINE, None)));
    let answer = sent.never_says("canary").failed();
    assert!(answer.saying.contains("no-such-host.invalid") && answer.tries == 3, "{answer:?}");
}

// N-03, H-24: only the configuration names a proxy.
#[test]
fn the_proxies_of_the_environment_are_not_used() {
    let proxy = Server::start([http("502 Bad Gateway", ""), http("502 Bad Gateway", "")]);
    let url = proxy.url("");
    let names =
        ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    let variables = names.map(|name| (name, url.as_str()));
    let server = Server::start([http("200 OK", "ok"), http("200 OK", "ok")]);
    let direct = webhook(Shape::Slack, &server.url("/canary"));
    let act = tell(notice(), LINE, None);
    let channel = Channel::Webhook(direct.clone());
    send_with(&request(channel, act.clone()), &variables).sent();
    assert!(proxy.requests().is_empty());
    let channel = Channel::Webhook(Webhook { proxy: Some(url), ..direct.clone() });
    send(&request(channel, act.clone())).failed();
    assert!(!proxy.requests().is_empty());
    for odd in ["socks5://127.0.0.1:1", "127.0.0.1:1", "http://", "canary"] {
        let channel = Channel::Webhook(Webhook { proxy: Some(odd.to_owned()), ..direct.clone() });
        let answer = send(&request(channel, act.clone())).failed();
        assert!(answer.is_refused && answer.saying.contains("the proxy's address"), "{answer:?}");
    }
    assert_eq!(server.requests().len(), 1);
}
