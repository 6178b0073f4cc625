//! What is tried against the page: each attempt is refused, and the journal stays as it was (H-28).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use coord_tests::coord::{Coordinator, events};
use coord_tests::home::Home;
use coord_tests::process::run;
use coord_tests::wait::wait_until;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::json;

use super::super::control::{by_agent, disguises};
use super::super::harness::{Harness, Tmux};
use super::super::wire::{client_event, post};
use super::{Page, started};

/// A page beside a coordinator with one session.
fn place() -> (Home, Coordinator, Page) {
    let (home, coordinator) = started();
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    let page = Page::looks(&home, &[]);
    (home, coordinator, page)
}

/// The requests that would do something, were they taken.
fn trade(page: &Page) -> String {
    json!({"code": page.code}).to_string()
}

#[test]
fn h_28_what_does_not_come_from_the_page_is_refused_and_records_nothing() {
    let (home, _coordinator, page) = place();
    let before = events(&home, None);
    let body = trade(&page);
    let port = page.at.port();
    for (status, fields) in [
        (400, &["Host:"][..]),
        (403, &["Host: evil.example"]),
        (403, &[&format!("Host: evil.example:{port}")]),
        (403, &["Host: 127.0.0.1:1"]),
        (403, &["Host: [::1]:80"]),
        (403, &["Origin:"]),
        (403, &["Origin: null"]),
        (403, &["Origin: https://evil.example"]),
        (403, &["Origin: http://127.0.0.1:1"]),
        (403, &[&format!("Origin: http://127.0.0.1:{port}.evil.example")]),
        (403, &["Sec-Fetch-Site: cross-site"]),
        (403, &["Sec-Fetch-Site: same-site"]),
        (403, &["Sec-Fetch-Site:"]),
        (415, &["Content-Type: text/plain"]),
        (415, &["Content-Type: application/x-www-form-urlencoded"]),
        (415, &["Content-Type:"]),
    ] {
        let answer = page.ask("POST", "/api/token", fields, &body);
        assert_eq!(answer.status, status, "{fields:?}: {answer:?}");
        assert!(!answer.body.contains("token\""), "{answer:?}");
    }
    for (method, path, status) in [
        ("OPTIONS", "/api/token", 405),
        ("PUT", "/api/act", 405),
        ("GET", "/api/act", 405),
        ("POST", "/", 405),
        ("GET", "/v1/sessions", 404),
        ("GET", "/../config.toml", 404),
        ("GET", "http://evil.example/", 400),
        ("CONNECT", "evil.example:443", 400),
    ] {
        let answer = page.ask(method, path, &[], "");
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    // Without the token, or with another one, there is nothing to see and nothing to do.
    let token = format!("Coord-Token: {}", "0".repeat(64));
    for field in [&[][..], &["Coord-Token: "], &[token.as_str()]] {
        for path in
            ["/api/stream", "/api/history?session=aaaa1111", "/api/explain?session=aaaa1111"]
        {
            assert_eq!(page.ask("GET", path, field, "").status, 401, "{path}");
        }
        let act = json!({"what": {"act": "hold", "session": "aaaa1111"}}).to_string();
        assert_eq!(page.ask("POST", "/api/act", field, &act).status, 401);
        let given = json!({"passphrase": "x"}).to_string();
        assert_eq!(page.ask("POST", "/api/passphrase", field, &given).status, 401);
    }
    for body in
        ["", "{}", "[]", "{\"code\": 5}", "{\"code\": \"x\", \"more\": 1}", &"[".repeat(100_000)]
    {
        assert_eq!(page.ask("POST", "/api/token", &[], body).status, 400, "{}", body.len());
    }
    assert_eq!(page.ask("POST", "/api/token", &[], &" ".repeat(600_000)).status, 413);
    assert_eq!(page.said(b"hello\r\n\r\n").status, 400);
    assert_eq!(events(&home, None), before);
    // None of it used the code up.
    page.token();
}

// H-28: every answer, also a refusal, keeps its content out of frames, caches and other pages.
#[test]
fn h_28_every_answer_has_the_protective_fields() {
    let (_home, _coordinator, page) = place();
    for (path, fields) in [
        ("/", &[][..]),
        ("/page.js", &[]),
        ("/page.css", &[]),
        ("/api/stream", &[]),
        ("/nothing", &[]),
        ("/", &["Host: evil.example"]),
    ] {
        let answer = page.ask("GET", path, fields, "");
        for field in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(field), "{path}: {field}: {answer:?}");
        }
        assert!(!answer.head.contains("set-cookie"), "{answer:?}");
        assert!(!answer.head.contains("access-control"), "{answer:?}");
    }
    let html = page.ask("GET", "/", &[], "").body;
    for word in ["http://", "https://", "<style", " style=", "onclick"] {
        assert!(!html.contains(word), "{word}");
    }
}

// W-05: the page asks for no push, and leaves nothing behind that works without it.
#[test]
fn w_05_the_page_offers_no_push() {
    let (_home, _coordinator, page) = place();
    let script = page.ask("GET", "/page.js", &[], "").body;
    assert!(script.contains("/api/stream"));
    for word in ["serviceWorker", "PushManager", "Notification", "localStorage", "indexedDB"] {
        assert!(!script.contains(word), "{word}");
    }
}

// H-28: the code is traded once; a wrong one five times ends it.
#[test]
fn h_28_a_code_opens_one_tab() {
    let (home, _coordinator, page) = place();
    page.token();
    let again = page.ask("POST", "/api/token", &[], &trade(&page));
    assert_eq!(
        (again.status, again.body.trim()),
        (403, "This code was used. Restart coord dashboard.")
    );
    let guessed = Page::looks(&home, &[]);
    for _ in 0..5 {
        let wrong = guessed.ask("POST", "/api/token", &[], "{\"code\": \"AAAA-AAA1\"}");
        assert_eq!(wrong.status, 403);
    }
    let locked = guessed.ask("POST", "/api/token", &[], &trade(&guessed));
    assert_eq!(
        (locked.status, locked.body.trim()),
        (403, "Too many wrong codes. Restart coord dashboard.")
    );
}

// H-28: no secret is in an argument, an environment or a file.
#[test]
fn h_28_the_token_is_in_memory_only() {
    let (home, _coordinator, page) = place();
    let token = page.token();
    let token = token.split(' ').nth(1).unwrap();
    let pid = page.process.as_ref().unwrap().pid();
    for file in ["cmdline", "environ"] {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains(token) && !text.contains(&page.code), "{file}");
    }
    let mut find = home.command("grep");
    find.args(["-rlF", "--", token]).arg(home.dir()).stdin(Stdio::null());
    let found = run(find, &home.tmp(), "grep");
    assert_eq!((found.code(), found.stdout.as_str()), (Some(1), ""));
}

/// `curl` of the page, as a browser would ask.
fn curl(page: &Page) -> String {
    format!("curl -sSi -m 60 -H 'Sec-Fetch-Site: none' http://{}/", page.at)
}

// H-28: another user's process is told so, and sees nothing.
#[test]
fn h_28_another_user_is_refused() {
    let (home, _coordinator, page) = place();
    let mut command = home.command("setpriv");
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"];
    command.args(user).arg(curl(&page)).current_dir("/").stdin(Stdio::null());
    let said = run(command, &home.tmp(), "curl").expect_success();
    let (head, body) = said.stdout.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.trim(), "Refused: this page belongs to another user.");
    assert!(head.contains("frame-ancestors 'none'"), "{head}");
    let mut command = home.command("sh");
    command.args(["-c", &curl(&page)]).stdin(Stdio::null());
    let own = run(command, &home.tmp(), "curl").expect_success();
    assert!(own.stdout.contains("\r\n\r\n<!doctype html>"), "{own:?}");
}

// H-28, H-50: an agent's own program is refused, also one that detached itself.
#[test]
fn h_28_an_agents_program_is_refused() {
    let (home, _coordinator, page) = place();
    let tmux = Tmux::start(&home);
    let mut harness = Harness::in_tmux(&tmux, "harness-one");
    harness.begin_turn();
    let out = home.tmp().join("curled");
    for before in ["", "setsid --wait "] {
        let line =
            format!("{before}sh -c \"{}\" >'{}'", curl(&page).replace('\'', "\\\""), out.display());
        harness.run(&line);
        let said = std::fs::read_to_string(&out).unwrap();
        assert!(said.contains("\r\n\r\nRefused: "), "{before}: {said}");
    }
    // Nor does it serve a page that acts.
    for (what, as_) in disguises(&home) {
        let said = by_agent(&home, &mut harness, "coordctl", "dashboard", &as_);
        assert!(said.code == 1 && said.text.starts_with("coordctl: Refused: "), "{what}: {said:?}");
    }
}

/// Reads until the peer closes.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).is_ok()
}

// H-28: heads that never end, or are long, and connections without number cost the page nothing.
#[test]
fn h_28_slow_long_and_many_connections_do_not_hurt() {
    let (_home, _coordinator, page) = place();
    let mut slow = page.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    assert!(is_closed(&mut slow), "a head that does not come ends its connection");
    let long = page.request("GET", "/", &[&format!("X: {}", "x".repeat(10 * 1024 * 1024))], "");
    let answer = page.said(long.as_bytes());
    assert!(matches!(answer.status, 0 | 400 | 431), "{answer:?}");
    let many = "X: y\r\n".repeat(500);
    let head = format!("GET / HTTP/1.1\r\nHost: {}\r\n{many}\r\n", page.at);
    assert!(matches!(page.said(head.as_bytes()).status, 0 | 400 | 431));
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).unwrap();
    let open: Vec<TcpStream> = (0..1000).map(|_| page.connect()).collect();
    // While all of them are open, it goes on.
    wait_until("the page answers", || {
        let answer = page.ask("GET", "/", &[], "");
        if answer.status == 200 { Ok(()) } else { Err(answer) }
    });
    let own = page.process.as_ref().unwrap().pid();
    let status = std::fs::read_to_string(format!("/proc/{own}/status")).unwrap();
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap().trim();
    assert!(threads.parse::<u32>().unwrap() < 40, "{threads} threads");
    drop(open);
}

// W-01: it ends when it is told to, and says so to the page.
#[test]
fn w_01_a_page_hears_that_it_has_ended() {
    let (_home, _coordinator, page) = place();
    let token = page.token();
    let mut stream = page.connect();
    stream.write_all(page.request("GET", "/api/stream", &[&token], "").as_bytes()).unwrap();
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains("\"summary\"") {
        let n = stream.read(&mut buffer).unwrap();
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    let process = page.process.unwrap();
    process.signal(Signal::INT);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("coord dashboard has ended. Start it again for a new code."), "{rest}");
    process.finish().expect_success();
}
