//! A web server of the test on loopback. It gives scripted replies, one for each connection, and keeps every
//! request.

use coord_tests::wait::wait_until;
use coord_wire::notice::{Channel, Secret, Shape, Webhook};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// What the server does with a connection.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Answers with this status line and these headers, and this body.
    Http(&'static str, String),
    /// Answers with these bytes.
    Bytes(Vec<u8>),
    /// Reads the request, and never answers.
    Silence,
    /// Reads the request, and closes.
    Close,
}

/// A reply with a body.
pub(crate) fn http(head: &'static str, body: &str) -> Reply {
    Reply::Http(head, body.to_owned())
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// `POST /path`.
    pub(crate) line: String,
    /// The head, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert!(self.head.contains("content-type: application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }
}

/// The server. It ends with the tests.
pub(crate) struct Server {
    pub(crate) port: u16,
    kept: Arc<Mutex<Kept>>,
}

/// What happened so far.
#[derive(Debug, Default)]
struct Kept {
    requests: Vec<Request>,
    /// Replies that were not read to their end.
    n_cut: usize,
}

impl Server {
    /// A server without TLS. Connections beyond the replies are closed without a request being read.
    #[track_caller]
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start_with(replies, None)
    }

    #[track_caller]
    pub(crate) fn start_with(
        replies: impl IntoIterator<Item = Reply>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (replies, to_keep) = (replies.into_iter().collect::<Vec<_>>(), Arc::clone(&kept));
        std::thread::spawn(move || serve(&listener, replies, tls.as_ref(), &to_keep));
        Self { port, kept }
    }

    /// An address of this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.kept.lock().unwrap().requests.clone()
    }

    /// Waits until a client has closed its connection in the middle of a reply.
    #[track_caller]
    pub(crate) fn wait_cut(&self) {
        wait_until("the client has heard enough", || {
            if 0 < self.kept.lock().unwrap().n_cut { Ok(()) } else { Err(()) }
        });
    }

    /// The only request.
    #[track_caller]
    pub(crate) fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }
}

fn serve(
    listener: &TcpListener,
    replies: Vec<Reply>,
    tls: Option<&Arc<ServerConfig>>,
    kept: &Mutex<Kept>,
) {
    // Held open, so that nobody takes an end for an answer.
    let mut silent: Vec<Box<dyn Stream>> = Vec::new();
    let mut replies = replies.into_iter();
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let Some(reply) = replies.next() else { continue };
        let mut stream: Box<dyn Stream> = match tls {
            Some(config) => {
                let Ok(connection) = ServerConnection::new(Arc::clone(config)) else { continue };
                Box::new(StreamOwned::new(connection, stream))
            }
            None => Box::new(stream),
        };
        // A client that does not trust the certificate sends no request.
        let Some(request) = read(&mut stream) else { continue };
        kept.lock().unwrap().requests.push(request);
        let bytes = match reply {
            Reply::Http(head, body) => {
                let length = body.len();
                format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
            }
            Reply::Bytes(bytes) => bytes,
            Reply::Silence => {
                silent.push(stream);
                continue;
            }
            Reply::Close => continue,
        };
        if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() {
            kept.lock().unwrap().n_cut += 1;
        }
    }
}

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

fn read(stream: &mut Box<dyn Stream>) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            let body = &bytes[end + 4..];
            if length <= body.len() {
                let body = String::from_utf8(body.to_vec()).unwrap();
                return Some(Request { line, head, body });
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
        }
    }
}

/// A webhook with nothing but an address.
pub(crate) fn webhook(shape: Shape, url: &str) -> Webhook {
    Webhook {
        shape,
        url: Secret::Plain(url.to_owned()),
        token: None,
        chat: None,
        proxy: None,
        ca_file: None,
    }
}

/// The same as a channel.
pub(crate) fn channel(shape: Shape, url: &str) -> Channel {
    Channel::Webhook(webhook(shape, url))
}
