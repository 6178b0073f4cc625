//! `coord metrics --listen`: serves the metrics over HTTP to this machine, in a process of its own.
//!
//! It answers `GET /metrics` and nothing else. Heads, connections and times are bounded, and a request must name a
//! loopback host: a page that a browser shows could otherwise read the answer through a name of its own.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::text::{for_prometheus, is_openmetrics};
use crate::context::Context;
use crate::out::{Failure, complain};

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Most header fields of a request.
const HEADERS_MAX: usize = 64;
/// Connections that are served at once; further ones are refused.
const CONNECTIONS_MAX: usize = 16;
/// A connection is over after this time, whatever it sent.
const CONNECTION_TIME: Duration = Duration::from_secs(5);
/// What is read of a refused request before its connection is closed, in bytes.
const UNREAD_BYTES_MAX: usize = 64 * 1024;
/// The stack of a connection's thread, in bytes.
const STACK_BYTES: usize = 256 * 1024;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// A loopback address with its port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address(pub(super) SocketAddr);

/// Reads the value of `--listen`.
pub(super) fn address(text: &str) -> Result<Address, String> {
    const EXAMPLE: &str = "use one with a port, such as 127.0.0.1:9469";
    let port = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = local.or_else(|| text.parse().ok()).ok_or(EXAMPLE)?;
    if !address.ip().is_loopback() {
        return Err(format!("other machines could read the metrics; {EXAMPLE}"));
    }
    Ok(Address(address))
}

/// Serves until SIGTERM, SIGINT or SIGHUP.
pub(super) fn serve(address: SocketAddr, context: &Context) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
    listener.set_nonblocking(true)?;
    let (signalled, write) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    // Nobody may be reading; the metrics are served all the same.
    let at = listener.local_addr()?;
    drop(writeln!(io::stdout(), "coord: serving http://{at}/metrics"));
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let mut ready =
            [PollFd::new(&signalled, PollFlags::IN), PollFd::new(&listener, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result.map_err(io::Error::from)?,
        };
        if !ready[0].revents().is_empty() {
            return Ok(());
        }
        match listener.accept() {
            Ok((stream, _)) => begin(stream, &open, context),
            // The peer is gone again.
            Err(error) if is_passing(&error) => (),
            Err(error) => return Err(anyhow::Error::from(error).context("accept").into()),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    )
}

/// Serves a connection on a thread of its own, if there are not too many.
fn begin(stream: TcpStream, open: &Arc<AtomicUsize>, context: &Context) {
    if CONNECTIONS_MAX <= open.load(Ordering::Acquire) {
        return refuse(stream);
    }
    open.fetch_add(1, Ordering::AcqRel);
    let (context, count) = (context.clone(), Arc::clone(open));
    let thread = std::thread::Builder::new().name("metrics".to_owned()).stack_size(STACK_BYTES);
    let spawned = thread.spawn(move || {
        // A peer that leaves or stalls ends its own connection, and nothing else.
        drop(exchange(stream, &context));
        count.fetch_sub(1, Ordering::AcqRel);
    });
    if let Err(error) = spawned {
        open.fetch_sub(1, Ordering::AcqRel);
        complain("coord", &format!("a connection was dropped: {error}"));
    }
}

/// Answers without reading, and without waiting.
fn refuse(mut stream: TcpStream) {
    let answer = Answer::refusal(503, "Too many connections at once.");
    drop(stream.set_nonblocking(true).and_then(|()| stream.write_all(&answer.bytes(true))));
}

fn exchange(mut stream: TcpStream, context: &Context) -> io::Result<()> {
    let until = Instant::now() + CONNECTION_TIME;
    stream.set_nonblocking(false)?;
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    let (answer, has_body) = loop {
        match parse(&head) {
            Parsed::Whole(request) => break (answer(&request, context), !request.is_head),
            Parsed::Bad(answer) => break (answer, true),
            Parsed::Partial => (),
        }
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => head.extend_from_slice(buffer.get(..n).unwrap_or_default()),
        }
    };
    stream.set_write_timeout(Some(left(until)?))?;
    stream.write_all(&answer.bytes(has_body))?;
    if answer.status != 200 {
        // With something unread, closing at once would take the answer from the peer.
        stream.shutdown(Shutdown::Write)?;
        let mut unread = UNREAD_BYTES_MAX;
        while 0 < unread {
            stream.set_read_timeout(Some(left(until)?))?;
            match stream.read(&mut buffer)? {
                0 => break,
                n => unread = unread.saturating_sub(n),
            }
        }
    }
    Ok(())
}

/// The time until then.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    is_head: bool,
    wants_openmetrics: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// More is to come.
    Partial,
    Whole(Request),
    Bad(Answer),
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn refusal(status: u16, why: &str) -> Self {
        Self { status, content_type: PLAIN, body: format!("{why}\n") }
    }

    fn bytes(&self, has_body: bool) -> Vec<u8> {
        let Self { status, content_type, body } = self;
        let reason = match status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let allow = if *status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let n = body.len();
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {n}\r\n{allow}X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        let body = if has_body { body.as_str() } else { "" };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

fn answer(request: &Request, context: &Context) -> Answer {
    let text = super::read(context).unwrap_or_else(|_| coord_daemon::metrics::down());
    if request.wants_openmetrics && is_openmetrics(&text) {
        return Answer { status: 200, content_type: OPENMETRICS, body: text };
    }
    Answer { status: 200, content_type: PROMETHEUS, body: for_prometheus(&text) }
}

/// Reads what has come of a request's head.
fn parse(bytes: &[u8]) -> Parsed {
    let bad = |status, why: &str| Parsed::Bad(Answer::refusal(status, why));
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    match head.parse(bytes) {
        Ok(httparse::Status::Complete(n)) if n <= HEAD_BYTES_MAX => (),
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => return Parsed::Partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return bad(431, "The head is too long."),
        Err(_) => return bad(400, "This is no HTTP request."),
    }
    let values = |name: &str| {
        let fields = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        fields.map(|field| String::from_utf8_lossy(field.value)).collect::<Vec<_>>()
    };
    match values("host").as_slice() {
        [host] if is_loopback(host) => (),
        [_] => return bad(403, "The Host must be a loopback name, such as localhost."),
        _ => return bad(400, "One Host is needed."),
    }
    let path = head.path.unwrap_or_default();
    if path.split('?').next() != Some("/metrics") {
        return bad(404, "Only /metrics is here.");
    }
    let is_head = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return bad(405, "Only GET and HEAD are answered."),
    };
    Parsed::Whole(Request { is_head, wants_openmetrics: prefers_openmetrics(&values("accept")) })
}

/// Whether the value of a Host field names this machine by a loopback name, with or without a port.
fn is_loopback(host: &str) -> bool {
    let host = host.trim();
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, ""),
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or("none")),
        None => host.split_once(':').unwrap_or((host, "")),
    };
    let is_name = name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_name && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a scraper takes OpenMetrics 1.0 at least as gladly as plain text (RFC 9110, 12.5.1).
fn prefers_openmetrics(accept: &[impl AsRef<str>]) -> bool {
    let (mut openmetrics, mut plain) = (0_u32, 0_u32);
    for range in accept.iter().flat_map(|value| value.as_ref().split(',')) {
        let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
        let media = parts.next().unwrap_or_default();
        let (mut weight, mut version) = (1_000, None);
        for part in parts {
            match part.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
                Some(("q", value)) => weight = thousandths(value),
                Some(("version", value)) => version = Some(value.to_owned()),
                Some(_) | None => (),
            }
        }
        match media.as_str() {
            "application/openmetrics-text" if version.is_none_or(|one| one == "1.0.0") => {
                openmetrics = openmetrics.max(weight);
            }
            "text/plain" | "text/*" => plain = plain.max(weight),
            _ => (),
        }
    }
    0 < openmetrics && plain <= openmetrics
}

/// A weight of an Accept field, such as `0.5`, in thousandths; 0 for what is none.
fn thousandths(text: &str) -> u32 {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    match (whole, rest.len()) {
        ("0", 0..=3) => format!("{rest:0<3}").parse().unwrap_or(0),
        ("1", _) => 1_000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(fields: &str) -> Parsed {
        parse(format!("GET /metrics HTTP/1.1\r\n{fields}\r\n").as_bytes())
    }

    #[test]
    fn only_loopback_addresses_are_listened_on() {
        for text in ["127.0.0.1:9469", "127.9.9.9:1", "[::1]:9469", "localhost:0"] {
            assert!(address(text).is_ok(), "{text}");
        }
        for text in ["0.0.0.0:9469", "[::]:9469", "192.0.2.1:9469", "[fe80::1]:9469"] {
            let why = address(text).unwrap_err();
            assert!(why.contains("other machines"), "{text}: {why}");
        }
        for text in ["9469", ":9469", "example.com:9469", "127.0.0.1", "localhost:x", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_loopback_hosts_are_answered() {
        for host in
            ["localhost", "LOCALHOST:9469", "127.0.0.1:9469", "127.0.0.2", "[::1]", "[::1]:1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com:80",
            "localhost:80:80",
            "192.0.2.1",
            "[::1]x",
            "[::1",
            "0.0.0.0",
            "localhost@example.com",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn the_format_is_the_one_that_the_scraper_prefers() {
        for (accept, is_openmetrics) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
            ("application/openmetrics-text;version=0.0.1, text/plain;q=0.1", false),
            ("application/openmetrics-text; q=0.3 , text/plain ; q=0.4", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
        ] {
            assert_eq!(prefers_openmetrics(&[accept]), is_openmetrics, "{accept}");
        }
    }

    #[test]
    fn a_head_is_bounded_and_names_one_host() {
        let status = |parsed: Parsed| match &parsed {
            Parsed::Bad(answer) => answer.status,
            Parsed::Partial | Parsed::Whole(_) => panic!("{parsed:?}"),
        };
        let request = Request { is_head: false, wants_openmetrics: false };
        assert_eq!(get("Host: localhost\r\n"), Parsed::Whole(request));
        assert_eq!(status(get("")), 400);
        assert_eq!(status(get("Host: localhost\r\nHost: localhost\r\n")), 400);
        assert_eq!(status(get("Host: example.com\r\n")), 403);
        let long = format!("Host: localhost\r\nX: {}\r\n", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(status(get(&long)), 431);
        assert_eq!(status(parse(&b"GET /".repeat(HEAD_BYTES_MAX))), 400);
        assert_eq!(status(parse(format!("GET /{}", "x".repeat(HEAD_BYTES_MAX)).as_bytes())), 431);
        assert_eq!(status(get(&"X: y\r\n".repeat(HEADERS_MAX + 1))), 431);
        let whole = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..cut]), Parsed::Partial, "{cut}");
        }
    }
}
