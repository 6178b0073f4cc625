//! The part of HTTP/1.1 that the socket needs: bounded requests, one after another on a connection,
//! parsed by httparse and answered with a Content-Length. This module knows no routes.

use std::fmt;

use coord_view::json;
use coord_wire::api::{ErrorAnswer, ErrorBody};
use coord_wire::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX};

/// Most header fields that a request may have.
const HEADERS_MAX: usize = 32;

/// An HTTP request.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path without the query, not decoded: a percent-encoded part may contain a slash.
    pub path: String,
    /// The fields of the query, percent-decoded.
    pub query: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the peer wants to keep the connection open.
    pub keep_alive: bool,
}

/// Without the body and the values of the query, which may be secret.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, body, .. } = self;
        write!(f, "{method} {path} with {} bytes", body.len())
    }
}

impl Request {
    /// The value of a query field, or none.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The result of parsing the bytes read so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The request is not complete yet.
    Partial,
    /// A request, and its length in bytes.
    Whole(Request, usize),
    /// The bytes are no valid request: send this answer and close the connection.
    Bad(Response),
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// The content type of the body.
    pub content_type: &'static str,
}

impl Response {
    /// A response without a body, with status 204.
    pub fn no_content() -> Self {
        Self { status: 204, body: Vec::new(), content_type: "application/json" }
    }

    /// A response with `value` as JSON.
    pub fn json(value: &impl serde::Serialize) -> Self {
        match json::to_vec(value) {
            Ok(body) => Self { status: 200, body, content_type: "application/json" },
            Err(error) => Self::error(500, "internal", &error.to_string()),
        }
    }

    /// A response in plain text, such as what a wake hook hands over.
    pub fn text(body: String) -> Self {
        Self { status: 200, body: body.into_bytes(), content_type: "text/plain; charset=utf-8" }
    }

    /// An error response; all errors have this form.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        let error = ErrorBody { code: code.to_owned(), message: message.to_owned() };
        let body = json::to_vec(&ErrorAnswer { error }).unwrap_or_default();
        Self { status, body, content_type: "application/json" }
    }

    /// Appends the head and the body to `out`.
    pub fn write(&self, out: &mut Vec<u8>, keep_alive: bool) {
        let reason = match self.status {
            200 => "OK",
            204 => "No Content",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            409 => "Conflict",
            413 => "Content Too Large",
            429 => "Too Many Requests",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.body);
    }
}

/// Parses one request from the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(bytes) {
        Ok(httparse::Status::Complete(n)) if n <= HEAD_BYTES_MAX => n,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Parsed::Partial,
        Ok(_) => return bad("request head over 16 KiB"),
        Err(error) => return bad(&format!("not HTTP: {error}")),
    };
    let header = |name: &str| {
        head.headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .map(|one| one.value)
    };
    if header("transfer-encoding").is_some() {
        return bad("send a Content-Length instead of a Transfer-Encoding");
    }
    let is_length = |name: &str| name.eq_ignore_ascii_case("content-length");
    if 1 < head.headers.iter().filter(|header| is_length(header.name)).count() {
        return bad("more than one Content-Length");
    }
    let length = match header("content-length").map(length_in) {
        None => 0,
        Some(Some(length)) => length,
        Some(None) => return bad("Content-Length is not a number"),
    };
    if BODY_BYTES_MAX < length {
        let message = format!("body of {length} bytes, the limit is {BODY_BYTES_MAX}");
        return Parsed::Bad(Response::error(413, "too_large", &message));
    }
    let end = head_bytes.saturating_add(length);
    let Some(body) = bytes.get(head_bytes..end) else { return Parsed::Partial };
    let target = head.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let closes = header("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"));
    let request = Request {
        method: head.method.unwrap_or("GET").to_owned(),
        path: path.to_owned(),
        query: query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (decode(key), decode(value)))
            .collect(),
        body: body.to_vec(),
        keep_alive: head.version == Some(1) && !closes,
    };
    Parsed::Whole(request, end)
}

/// Parses a Content-Length: digits only, without a sign (RFC 9110, 8.6).
fn length_in(value: &[u8]) -> Option<usize> {
    let text = core::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn bad(message: &str) -> Parsed {
    Parsed::Bad(Response::error(400, "bad_request", message))
}

/// Decodes percent-encoding; malformed sequences stay as they are.
pub fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        let decoded = tail
            .get(..2)
            .filter(|_| *byte == b'%')
            .and_then(|digits| core::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded {
            Some(decoded) => {
                out.push(decoded);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_at_its_last_byte_and_not_before() {
        let text = b"POST /v1/events?since=3&x=a%20b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]), Parsed::Partial, "{cut}");
        }
        let Parsed::Whole(request, used) = parse(text) else { panic!("whole") };
        assert_eq!(used, text.len());
        assert_eq!((request.path.as_str(), request.query("x")), ("/v1/events", Some("a b")));
        assert_eq!(request.body, b"hi");
        assert!(request.keep_alive);
    }

    #[test]
    fn two_requests_in_one_read_are_told_apart() {
        let text =
            b"GET /healthz HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n";
        let Parsed::Whole(first, used) = parse(text) else { panic!("whole") };
        let Parsed::Whole(second, _) = parse(&text[used..]) else { panic!("whole") };
        assert_eq!((first.path.as_str(), second.path.as_str()), ("/healthz", "/metrics"));
        assert!(!second.keep_alive);
    }

    #[test]
    fn bodies_and_heads_are_bounded() {
        for (text, status) in [
            ("POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n".to_owned(), 413),
            ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(), 400),
            ("POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\nx".to_owned(), 400),
            ("GET / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n".to_owned(), 400),
            (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(HEAD_BYTES_MAX)), 400),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), 400),
            (format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_BYTES_MAX)), 400),
            ("\u{1}\u{2}\r\n\r\n".to_owned(), 400),
        ] {
            let Parsed::Bad(response) = parse(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(response.status, status);
        }
    }
}
