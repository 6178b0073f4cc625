//! The paths of the page: three files, and what its script asks for. Each request passes the gate, each answer has the same
//! protective fields, and all but the files and the code need the token.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::code::Access;
use crate::gate::{self, Names};
use crate::live::Live;
use crate::peer::Peer;
use crate::source::{Done, Source};
use crate::stream;
use crate::view::{Act, Acted};

/// The field with the token.
const TOKEN: HeaderName = HeaderName::from_static("coord-token");
/// Longest body, in bytes: a message of 64 KiB of which every character is escaped.
const BODY_BYTES_MAX: usize = 512 * 1024;
/// A body has to come within this time.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long answers are taken after the passphrase was given.
const UNLOCKED: Duration = Duration::from_secs(8 * 60 * 60);
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The fields of every answer.
pub(crate) const FIELDS: [(HeaderName, &str); 9] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-embedder-policy"), "require-corp"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// What all requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) live: Arc<Live>,
    pub(crate) names: Names,
    pub(crate) access: Mutex<Access>,
    /// Until when answers are taken without the passphrase.
    pub(crate) unlocked_at: Mutex<Option<Instant>>,
    /// Whether the page acts: `coordctl dashboard`.
    pub(crate) acts: bool,
}

/// An answer that is none of what was asked for.
struct Refusal(StatusCode, String);

type Answer = Result<Response, Refusal>;

/// The paths.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(|| file("text/html; charset=utf-8", include_str!("page/index.html"))))
        .route("/page.css", get(|| file("text/css; charset=utf-8", include_str!("page/page.css"))))
        .route(
            "/page.js",
            get(|| {
                file(
                    "text/javascript; charset=utf-8",
                    concat!(include_str!("page/page.js"), include_str!("page/acts.js")),
                )
            }),
        )
        .route("/api/token", post(trade))
        .route("/api/stream", get(streamed))
        .route("/api/history", get(history))
        .route("/api/explain", get(explain))
        .route("/api/act", post(act))
        .route("/api/passphrase", post(passphrase))
        .fallback(async || plain(StatusCode::NOT_FOUND, "There is nothing here."))
        .method_not_allowed_fallback(async || {
            plain(StatusCode::METHOD_NOT_ALLOWED, "That is not how this is asked for.")
        })
        .layer(from_fn_with_state(Arc::clone(&app), guard))
        .with_state(app)
}

/// Answers only what passes the gate, and adds the fields of every answer.
async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let checked = match peer {
        Some(peer) => {
            gate::check(request.method(), request.uri(), request.headers(), peer, &app.names)
        }
        None => Err((StatusCode::FORBIDDEN, "Nobody knows whose connection this is.")),
    };
    let mut answer = match checked {
        Ok(()) => next.run(request).await,
        Err((status, why)) => plain(status, why),
    };
    for (name, value) in FIELDS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn file(kind: &'static str, text: &'static str) -> std::future::Ready<Response> {
    std::future::ready(with_type(StatusCode::OK, kind, text))
}

fn with_type(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn plain(status: StatusCode, why: &str) -> Response {
    with_type(status, PLAIN, format!("{why}\n"))
}

fn json(value: &impl Serialize) -> Answer {
    let mut body = Vec::new();
    match coord_view::json::to_writer(&mut body, value) {
        Ok(()) => Ok(with_type(StatusCode::OK, JSON, body)),
        Err(error) => Err(Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

/// The answer, with the words of a refusal as its body.
fn answered(answer: Answer) -> Response {
    answer.unwrap_or_else(|Refusal(status, why)| plain(status, &why))
}

/// The body of a request.
async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    let bad = |why: &str| Refusal(StatusCode::BAD_REQUEST, why.to_owned());
    let bytes: Bytes = match timeout(BODY_TIME, to_bytes(request.into_body(), BODY_BYTES_MAX)).await
    {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, "The body is too long.".to_owned()));
        }
        Err(_) => return Err(bad("The body did not come in time.")),
    };
    // What the parser says might quote a secret.
    serde_json::from_slice(&bytes).map_err(|_| bad("The body is not what this takes."))
}

impl App {
    fn check_token(&self, request: &Request) -> Result<(), Refusal> {
        let token = request.headers().get(TOKEN).and_then(|token| token.to_str().ok());
        let access = self.access.lock().unwrap_or_else(PoisonError::into_inner);
        match token {
            Some(token) if access.holds(token) => Ok(()),
            Some(_) | None => Err(Refusal(StatusCode::UNAUTHORIZED, stream::ENDED.to_owned())),
        }
    }

    fn is_unlocked(&self, now: Instant) -> bool {
        let unlocked_at = *self.unlocked_at.lock().unwrap_or_else(PoisonError::into_inner);
        unlocked_at.is_some_and(|at| now.saturating_duration_since(at) < UNLOCKED)
    }

    /// Runs what may block beside all else.
    async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&dyn Source) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let source = Arc::clone(&self.live.source);
        let done = tokio::task::spawn_blocking(move || job(source.as_ref())).await;
        done.map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    code: String,
}

#[derive(Serialize)]
struct Traded {
    token: String,
    acts: bool,
}

/// Trades the code for the token.
async fn trade(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(trade_code(&app, request).await)
}

async fn trade_code(app: &App, request: Request) -> Answer {
    let Code { code } = read(request).await?;
    let traded = {
        let mut access = app.access.lock().unwrap_or_else(PoisonError::into_inner);
        access.trade(&code, Instant::now())
    };
    match traded {
        Ok(Ok(token)) => json(&Traded { token, acts: app.acts }),
        Ok(Err(refused)) => Err(Refusal(StatusCode::FORBIDDEN, refused.to_string())),
        Err(error) => Err(Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

/// What the query of a request says; only what the page itself writes is understood.
fn query(request: &Request, name: &str) -> String {
    let pairs = request.uri().query().unwrap_or_default().split('&');
    let found = pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    found.map(|(_, value)| decoded(value)).unwrap_or_default()
}

/// A percent-encoded value.
fn decoded(value: &str) -> String {
    let mut parts = value.split('%');
    let mut bytes: Vec<u8> = parts.next().unwrap_or_default().bytes().collect();
    for part in parts {
        let hex = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.extend(hex);
        bytes.extend(part.bytes().skip(2));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn streamed(State(app): State<Arc<App>>, request: Request) -> Response {
    answered(app.check_token(&request).map(|()| {
        let body = stream::body(&app.live, query(&request, "session"), &query(&request, "from"));
        with_type(StatusCode::OK, "application/x-ndjson", body)
    }))
}

/// A list, or why there is none.
fn listed<T: Serialize>(lines: Result<Vec<T>, String>) -> Answer {
    match lines {
        Ok(lines) => json(&lines),
        Err(why) => Err(Refusal(StatusCode::NOT_FOUND, why)),
    }
}

async fn history(State(app): State<Arc<App>>, request: Request) -> Response {
    let answer = async move {
        app.check_token(&request)?;
        let id = query(&request, "session");
        listed(app.ask(move |source| source.history(&id)).await?)
    };
    answered(answer.await)
}

async fn explain(State(app): State<Arc<App>>, request: Request) -> Response {
    let answer = async move {
        app.check_token(&request)?;
        let id = query(&request, "session");
        listed(app.ask(move |source| source.explain(&id)).await?)
    };
    answered(answer.await)
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    dry_run: bool,
    what: Act,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "acted")]
enum ActAnswer {
    Said(Acted),
    PassphraseNeeded,
}

/// Acts, or says what is to be confirmed.
async fn act(State(app): State<Arc<App>>, request: Request) -> Response {
    let answer = async move {
        app.check_token(&request)?;
        let Asked { dry_run, what } = read(request).await?;
        if !app.acts {
            let why = "Answering needs coordctl dashboard.".to_owned();
            return Err(Refusal(StatusCode::FORBIDDEN, why));
        }
        if !dry_run && matches!(what, Act::Reply { .. }) && !app.is_unlocked(Instant::now()) {
            return json(&ActAnswer::PassphraseNeeded);
        }
        match app.ask(move |source| source.act(&what, dry_run)).await? {
            Ok(Done::Said(acted)) => json(&ActAnswer::Said(acted)),
            Ok(Done::PassphraseNeeded) => json(&ActAnswer::PassphraseNeeded),
            Err(why) => json(&ActAnswer::Said(Acted { is_done: false, lines: vec![why] })),
        }
    };
    answered(answer.await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    passphrase: String,
}

/// Takes the passphrase, which lets this page answer for 8 hours.
async fn passphrase(State(app): State<Arc<App>>, request: Request) -> Response {
    let answer = async move {
        app.check_token(&request)?;
        if !app.acts {
            let why = "Answering needs coordctl dashboard.".to_owned();
            return Err(Refusal(StatusCode::FORBIDDEN, why));
        }
        let Given { passphrase } = read(request).await?;
        match app.ask(move |source| source.unlock(passphrase)).await? {
            Ok(()) => {
                *app.unlocked_at.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Instant::now());
                json(&serde_json::json!({}))
            }
            Err(why) => Err(Refusal(StatusCode::FORBIDDEN, why)),
        }
    };
    answered(answer.await)
}
