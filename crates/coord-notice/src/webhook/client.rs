//! One HTTP exchange, by ureq.
//!
//! TLS is always verified, against the roots of Mozilla that are part of the program: a static program then needs
//! no file of the system, and no variable can add a root. With `ca_file`, the certificates in that file count
//! instead. Redirects are not followed. The environment's proxies are not used.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use rustls::CertificateError;
use ureq::http::{Method, Request as HttpRequest, Response, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, AsSendBody, Body, Error, Proxy, Timeout};

use super::address::Address;
use super::service::Request;
use crate::answer::Failure;
use crate::budget::Budget;
use crate::text::duration;

/// Longest body of a reply that is read, in bytes.
const BODY_BYTES_MAX: u64 = 64 * 1024;
/// Longest head of a reply, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Longest file of certificates, in bytes.
const CA_BYTES_MAX: u64 = 1024 * 1024;

/// A client for one address.
pub(super) struct Client {
    agent: Agent,
    host: String,
}

/// What a server answered.
#[derive(Debug)]
pub(super) struct Reply {
    /// HTTP status.
    pub(super) status: u16,
    /// The header `Retry-After`.
    pub(super) retry_after: Option<String>,
    /// The body, or its beginning.
    pub(super) body: Vec<u8>,
    /// Whether that is all of it.
    pub(super) is_whole: bool,
}

/// There was no answer.
pub(super) struct Miss {
    /// Why.
    pub(super) failure: Failure,
    /// Whether the request may have reached the server all the same.
    pub(super) may_have_arrived: bool,
    /// Whether another try at once may do better.
    pub(super) may_pass: bool,
}

impl Client {
    /// A client. Nothing is connected yet.
    pub(super) fn new(
        address: &Address,
        proxy: Option<&str>,
        ca_file: Option<&str>,
    ) -> Result<Self, Failure> {
        let roots = ca_file.map_or(Ok(RootCerts::WebPki), roots)?;
        let proxy = proxy.map(parse_proxy).transpose()?;
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .https_only(address.is_https())
            .proxy(proxy)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_response_header_size(HEAD_BYTES_MAX)
            .max_idle_connections(0)
            .user_agent(format!("coord/{}", coord_wire::VERSION))
            .build();
        Ok(Self { agent: config.new_agent(), host: address.host().to_owned() })
    }

    /// The host, for people.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// A failure that begins with the host.
    pub(super) fn named(&self, failure: &Failure) -> Failure {
        Failure { why: format!("{}: {}", self.host, failure.why), ..failure.clone() }
    }

    /// Sends a request and waits for the reply.
    pub(super) fn exchange(&self, request: &Request, budget: Budget) -> Result<Reply, Miss> {
        let limit = budget.left();
        // A connection that does not come up is told from an answer that does not come.
        let connect_limit = limit * 2 / 3;
        let mut http = HttpRequest::builder().uri(&request.url);
        if let Some(token) = &request.bearer {
            http = http.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(key) = &request.idempotency_key {
            http = http.header("Idempotency-Key", key);
        }
        let result = match &request.body {
            Some(body) => {
                let http = http.method(Method::POST);
                let http = http.header(header::CONTENT_TYPE, "application/json; charset=utf-8");
                self.run(http.body(body.as_bytes()), limit, connect_limit)
            }
            None => self.run(http.method(Method::DELETE).body(()), limit, connect_limit),
        };
        match result {
            Ok(response) => Ok(reply(response)),
            Err(error) => Err(miss(&self.host, &error, limit, connect_limit)),
        }
    }
}

impl Client {
    fn run<B: AsSendBody>(
        &self,
        request: Result<HttpRequest<B>, ureq::http::Error>,
        limit: Duration,
        connect_limit: Duration,
    ) -> Result<Response<Body>, Error> {
        let config = self.agent.configure_request(request?);
        let config = config.timeout_global(Some(limit)).timeout_connect(Some(connect_limit));
        self.agent.run(config.build())
    }
}

fn reply(response: Response<Body>) -> Reply {
    let status = response.status().as_u16();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    // The status counts even if the body breaks off.
    let read = response.into_body().into_reader().take(BODY_BYTES_MAX + 1).read_to_end(&mut body);
    let is_whole = read.is_ok() && body.len() as u64 <= BODY_BYTES_MAX;
    Reply { status, retry_after, body, is_whole }
}

/// What an error means. Its own text is not used: it can hold the address.
fn miss(host: &str, error: &Error, limit: Duration, connect_limit: Duration) -> Miss {
    let miss = |why: &str, may_have_arrived, may_pass| Miss {
        failure: Failure::new(format!("{host}: {why}")),
        may_have_arrived,
        may_pass,
    };
    let late =
        |what: &str, limit| Failure::new(format!("no {what} {host} within {}", duration(limit)));
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is no answer of the network")]
    match error {
        Error::Timeout(Timeout::Resolve | Timeout::Connect) => Miss {
            failure: late("connection to", connect_limit),
            may_have_arrived: false,
            may_pass: true,
        },
        Error::Timeout(_) => {
            Miss { failure: late("answer from", limit), may_have_arrived: true, may_pass: true }
        }
        Error::HostNotFound => miss("host name not resolved", false, true),
        Error::Io(error) => {
            if let Some(why) = error.get_ref().and_then(|inner| inner.downcast_ref()).map(tls) {
                return miss(why, false, false);
            }
            let (why, may_have_arrived) = broken(error);
            miss(why, may_have_arrived, true)
        }
        Error::Rustls(error) => miss(tls(error), false, false),
        Error::ConnectProxyFailed(_) => miss("the proxy does not connect to it", false, true),
        Error::ConnectionFailed => miss("no connection", false, true),
        Error::Protocol(_) | Error::LargeResponseHeader(..) => {
            miss("its answer is no HTTP", true, false)
        }
        _ => miss("the request failed", true, false),
    }
}

/// What broke, and whether the request may have arrived before. Without a connection, it has not.
fn broken(error: &io::Error) -> (&'static str, bool) {
    let kind = error.kind();
    let ends_connection = matches!(
        kind,
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
    );
    if ends_connection {
        ("the connection broke", true)
    } else if kind == io::ErrorKind::ConnectionRefused {
        ("connection refused", false)
    } else if error.raw_os_error().is_none() {
        // The system's resolver has codes of its own, which come without an error number.
        ("host name not resolved", false)
    } else {
        ("not reachable", false)
    }
}

/// What is wrong with a secure connection.
fn tls(error: &rustls::Error) -> &'static str {
    let rustls::Error::InvalidCertificate(error) = error else { return "no secure connection" };
    #[expect(clippy::wildcard_enum_match_arm, reason = "for the rest, one reason is enough")]
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate expired"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "certificate is for another host"
        }
        // `openssl req -x509` makes such ones.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "certificate is that of an authority; make one that is not (basicConstraints CA:FALSE)"
        }
        _ => "certificate not trusted",
    }
}

/// The certificates in a file.
fn roots(path: &str) -> Result<RootCerts, Failure> {
    let failed = |why: String| Failure::refused(format!("{path}: {why}"));
    let mut pem = Vec::new();
    let file = File::open(path).map_err(|error| failed(error.kind().to_string()))?;
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        return Err(failed("is not a regular file".to_owned()));
    }
    let read = file.take(CA_BYTES_MAX + 1).read_to_end(&mut pem);
    read.map_err(|error| failed(error.kind().to_string()))?;
    if CA_BYTES_MAX < pem.len() as u64 {
        return Err(failed("longer than 1 MiB".to_owned()));
    }
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            Ok(_) | Err(_) => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(failed("holds no certificate in PEM".to_owned()));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

/// A proxy. Its address may hold a password, so that no reason repeats it.
fn parse_proxy(text: &str) -> Result<Proxy, Failure> {
    let is_http = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    let proxy = Proxy::new(text).ok().filter(|_| is_http);
    proxy.ok_or_else(|| Failure::refused("the proxy's address is unusable; write http://HOST:PORT"))
}
