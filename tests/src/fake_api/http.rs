//! Just enough of HTTP/1.1 for one client: requests with a length or in chunks, answers with a
//! length or as an event stream.

use serde_json::Value;
use std::io::{self, Read, Write};

/// A request.
pub(super) struct Received {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

/// How a request's body is measured.
enum Length {
    Bytes(usize),
    Chunked,
}

/// The next request; none when the client closed the connection between two. `buffer` keeps what
/// was read beyond the request.
pub(super) fn receive(
    stream: &mut impl Read,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Received>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 100];
        let mut request = httparse::Request::new(&mut headers);
        if let httparse::Status::Complete(head_bytes) = request.parse(buffer).map_err(invalid)? {
            let method = request.method.unwrap_or_default().to_owned();
            let path = request.path.unwrap_or_default();
            let path = path.split('?').next().unwrap_or_default().to_owned();
            let length = length(request.headers)?;
            buffer.drain(..head_bytes);
            let body = match length {
                Length::Bytes(bytes) => take(stream, buffer, bytes)?,
                Length::Chunked => chunks(stream, buffer)?,
            };
            return Ok(Some(Received { method, path, body }));
        }
        if !more(stream, buffer)? {
            return Ok(None);
        }
    }
}

fn length(headers: &[httparse::Header<'_>]) -> io::Result<Length> {
    let value = |name: &str| {
        let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    if value("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        return Ok(Length::Chunked);
    }
    let bytes = value("content-length").map_or(Ok(0), |value| value.trim().parse());
    bytes.map(Length::Bytes).map_err(invalid)
}

fn chunks(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        match httparse::parse_chunk_size(buffer) {
            Ok(httparse::Status::Complete((head_bytes, bytes))) => {
                buffer.drain(..head_bytes);
                // The chunk, and the line end behind it.
                let bytes = usize::try_from(bytes).map_err(invalid)?;
                let chunk = take(stream, buffer, bytes + 2)?;
                if bytes == 0 {
                    return Ok(body);
                }
                body.extend_from_slice(&chunk[..bytes]);
            }
            Ok(httparse::Status::Partial) if more(stream, buffer)? => (),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn take(stream: &mut impl Read, buffer: &mut Vec<u8>, bytes: usize) -> io::Result<Vec<u8>> {
    while buffer.len() < bytes {
        if !more(stream, buffer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buffer.drain(..bytes).collect())
}

fn more(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 8 * 1024];
    let bytes = stream.read(&mut piece)?;
    buffer.extend_from_slice(&piece[..bytes]);
    Ok(bytes != 0)
}

fn invalid(error: impl core::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// An answer with a JSON body.
pub(super) fn reply(
    stream: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &Value,
) -> io::Result<()> {
    let body = body.to_string();
    write!(stream, "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n")?;
    send_headers(stream, headers)?;
    write!(stream, "content-length: {}\r\n\r\n{body}", body.len())
}

/// An answer without a body.
pub(super) fn reply_empty(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 -\r\ncontent-length: 0\r\n\r\n")
}

/// Begins an event stream.
pub(super) fn begin_stream(
    stream: &mut impl Write,
    headers: &[(String, String)],
) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 -\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
          cache-control: no-cache\r\ntransfer-encoding: chunked\r\n",
    )?;
    send_headers(stream, headers)?;
    stream.write_all(b"\r\n")
}

fn send_headers(stream: &mut impl Write, headers: &[(String, String)]) -> io::Result<()> {
    headers.iter().try_for_each(|(name, value)| write!(stream, "{name}: {value}\r\n"))
}

/// One event of a stream, named by its own `type`.
pub(super) fn send_event(stream: &mut impl Write, event: &Value) -> io::Result<()> {
    let name = event["type"].as_str().unwrap_or_default();
    let text = format!("event: {name}\ndata: {event}\n\n");
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}

/// Ends an event stream.
pub(super) fn end_stream(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(b"0\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_whole_and_the_next_one_stays() {
        let mut input = &b"POST /a?b=1 HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiPOST /c HTTP/1.1\r\n\
            Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"[..];
        let mut buffer = Vec::new();
        let first = receive(&mut input, &mut buffer).unwrap().unwrap();
        assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/a"));
        assert_eq!(first.body, b"hi");
        let second = receive(&mut input, &mut buffer).unwrap().unwrap();
        assert_eq!((second.path.as_str(), second.body.as_slice()), ("/c", &b"abc"[..]));
        assert!(receive(&mut input, &mut buffer).unwrap().is_none());
    }

    #[test]
    fn half_a_body_is_an_error() {
        let mut input = &b"POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nhi"[..];
        assert!(receive(&mut input, &mut Vec::new()).is_err());
    }
}
