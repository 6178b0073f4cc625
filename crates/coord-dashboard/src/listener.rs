//! Takes connections: so many at once, each from a process that may connect, each with a head that comes soon and is
//! short. What is refused is told why and closed, without being read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::peer::{Peer, Peers};
use crate::routes::FIELDS;
use crate::source::Source;

/// Connections that are served at once; a browser opens six.
const CONNECTIONS_MAX: usize = 64;
/// Connections that are told at once why they are refused.
const REFUSALS_MAX: usize = 16;
/// Connections of which it is found out at once whose they are.
const CHECKS_MAX: usize = 8;
/// A head has to come within this time.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Longest head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most fields of a head.
const FIELDS_MAX: usize = 64;
/// A connection that is refused is told so within this time.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// What takes connections.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) source: Arc<dyn Source>,
    /// Whether connections of root are taken, because a tunnel is used.
    pub(crate) takes_root: bool,
    peers: Peers,
    connections: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

impl Listener {
    pub(crate) fn new(source: Arc<dyn Source>, takes_root: bool) -> Self {
        Self {
            source,
            takes_root,
            peers: Peers::default(),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            checks: Arc::new(Semaphore::new(CHECKS_MAX)),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
        }
    }

    /// Takes connections for ever.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener, router: Router) {
        loop {
            let Ok((stream, there)) = listener.accept().await else {
                // The peer is gone again, or there are no descriptors left for a moment.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
                drop(stream);
                continue;
            };
            let (own, router) = (Arc::clone(&self), router.clone());
            tokio::spawn(async move { own.connection(stream, there, router, permit).await });
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        there: SocketAddr,
        router: Router,
        permit: OwnedSemaphorePermit,
    ) {
        match self.peer(&stream, there).await {
            Ok(peer) => talk(stream, peer, router).await,
            // What is refused takes nobody's place.
            Err(why) => {
                drop(permit);
                if let Ok(_permit) = self.refusals.try_acquire() {
                    drop(timeout(REFUSAL_TIME, refuse(stream, &why)).await);
                }
            }
        }
    }

    async fn peer(self: &Arc<Self>, stream: &TcpStream, there: SocketAddr) -> Result<Peer, String> {
        let here = stream.local_addr().map_err(|error| error.to_string())?;
        let permit = Arc::clone(&self.checks).acquire_owned().await;
        let own = Arc::clone(self);
        let checked = tokio::task::spawn_blocking(move || {
            let checked = own.peers.check((there, here), own.takes_root, own.source.as_ref());
            drop(permit);
            checked
        });
        checked.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// Answers the requests of a connection.
async fn talk(stream: TcpStream, peer: Peer, router: Router) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    builder.max_buf_size(HEAD_BYTES_MAX).max_headers(FIELDS_MAX);
    // A peer that leaves ends its own connection, and nothing else.
    drop(builder.serve_connection(TokioIo::new(stream), service).await);
}

/// Answers whatever is asked, unread.
async fn refuse(mut stream: TcpStream, why: &str) {
    let n = why.len() + 1;
    let fields: Vec<String> =
        FIELDS.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let fields = fields.concat();
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {n}\r\nConnection: close\r\n{fields}\r\n{why}\n"
    );
    drop(stream.write_all(answer.as_bytes()).await);
    drop(stream.shutdown().await);
    // With something unread, closing at once would take the answer from the peer.
    let mut buffer = [0; 4096];
    for _ in 0..4 {
        let read = async {
            stream.readable().await?;
            stream.try_read(&mut buffer)
        };
        if matches!(read.await, Ok(0) | Err(_)) {
            return;
        }
    }
}
