//! A Messages API on loopback that says what a test tells it to.
//!
//! The script is data: a list of [`Turn`]s, each the answer to one request of the main model.
//! Requests without tools (titles, probes, summaries) and those for a subagent's label get a harmless answer and use
//! up no turn.
//! Nothing here waits for a time: a turn can be held until the test opens its gate, and the test
//! can wait for a request.

mod answer;
mod http;

use answer::answer;
use http::{Received, receive};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::wait::PATIENCE;

/// With these words the client asks now and then what a subagent of its session is doing; the subagent's messages and
/// tools come along (measured, 2.1.328: within 40 s).
const LABEL_WANTED: &str = "most recent action in 3-5 words";

/// The answer to one request.
#[derive(Debug, Clone)]
pub struct Turn {
    answer: Answer,
    headers: Vec<(String, String)>,
    only_for: Option<String>,
    only_after: Option<String>,
    gate: Option<String>,
    lasts: bool,
}

/// What a turn answers.
#[derive(Debug, Clone)]
enum Answer {
    /// A message: text, then tool calls.
    Message { text: Option<String>, calls: Vec<(String, Value)>, is_cut_off: bool },
    /// An HTTP error.
    Error { status: u16, kind: String, message: String },
    /// Nothing, until the client leaves.
    Hang,
    /// A stream that breaks off in the midst of this text.
    Cut { text: String },
    /// A message whose text comes in pieces, each behind a gate of its own.
    Pieces { pieces: Vec<String> },
}

impl Turn {
    fn new(answer: Answer) -> Self {
        let headers = Vec::new();
        Self { answer, headers, only_for: None, only_after: None, gate: None, lasts: false }
    }

    /// A message of text, which ends the client's turn.
    pub fn text(text: &str) -> Self {
        let text = Some(text.to_owned());
        Self::new(Answer::Message { text, calls: Vec::new(), is_cut_off: false })
    }

    /// A message that ends at the limit of output tokens, as often as it is asked for.
    pub fn too_long(text: &str) -> Self {
        let text = Some(text.to_owned());
        Self::new(Answer::Message { text, calls: Vec::new(), is_cut_off: true }).lasting()
    }

    /// A message of one tool call; [`Turn::and_tool`] adds more.
    pub fn tool(name: &str, input: Value) -> Self {
        let calls = vec![(name.to_owned(), input)];
        Self::new(Answer::Message { text: None, calls, is_cut_off: false })
    }

    /// A call of the Bash tool.
    pub fn bash(command: &str) -> Self {
        Self::tool("Bash", json!({"command": command, "description": "A test's command"}))
    }

    /// A further tool call in the same message.
    #[must_use]
    pub fn and_tool(mut self, name: &str, input: Value) -> Self {
        if let Answer::Message { calls, .. } = &mut self.answer {
            calls.push((name.to_owned(), input));
        }
        self
    }

    /// An HTTP error, and every later request the same: the client retries.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let (kind, message) = (kind.to_owned(), message.to_owned());
        Self::new(Answer::Error { status, kind, message }).lasting()
    }

    /// A header of the answer, such as `retry-after` or `x-should-retry`.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The request is taken and never answered.
    pub fn hang() -> Self {
        Self::new(Answer::Hang)
    }

    /// The stream breaks off half way through the text; its gate stands there, so a closed one
    /// makes a stream that falls silent.
    pub fn cut(text: &str) -> Self {
        Self::new(Answer::Cut { text: text.to_owned() })
    }

    /// A message of text that comes in pieces; the first waits at the gate `piece 1`, and so on.
    pub fn pieces(pieces: &[&str]) -> Self {
        let pieces = pieces.iter().map(|piece| (*piece).to_owned()).collect();
        Self::new(Answer::Pieces { pieces })
    }

    /// Only for a request whose messages hold `tag`; such turns come before all others. This is
    /// how subagents and several sessions at once get answers of their own.
    #[must_use]
    pub fn only_for(mut self, tag: &str) -> Self {
        self.only_for = Some(tag.to_owned());
        self
    }

    /// Only for a request whose last user message holds `tag`: a subagent's first one, or a prompt
    /// that later requests carry along too.
    #[must_use]
    pub fn only_after(mut self, tag: &str) -> Self {
        self.only_after = Some(tag.to_owned());
        self
    }

    /// Held back until [`FakeApi::open`] names this gate.
    #[must_use]
    pub fn behind(mut self, gate: &str) -> Self {
        self.gate = Some(gate.to_owned());
        self
    }

    /// Used up by one request, as all but errors are by themselves.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.lasts = false;
        self
    }

    /// Never used up.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasts = true;
        self
    }

    /// Whether it is meant for this very request.
    fn is_for(&self, messages: &str, last: &str) -> bool {
        let is_in = |tag: &Option<String>, text: &str| {
            tag.as_ref().is_some_and(|tag| text.contains(tag.as_str()))
        };
        is_in(&self.only_for, messages) || is_in(&self.only_after, last)
    }

    fn is_for_any(&self) -> bool {
        self.only_for.is_none() && self.only_after.is_none()
    }
}

/// A request as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Method and path, without the query.
    pub what: String,
    /// The model asked for.
    pub model: String,
    /// The text of the last user message.
    pub last_user_text: String,
    /// The messages and the system prompt, as JSON.
    pub whole: String,
    /// A request without tools or for a subagent's label: not the main model's.
    pub is_background: bool,
    /// Whether the answer is to be an event stream.
    pub is_stream: bool,
}

/// The fake. Dropping it closes every connection and ends its threads.
#[derive(Debug)]
pub struct FakeApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    turns: Vec<Turn>,
    requests: Vec<Request>,
    open_gates: BTreeSet<String>,
    closing: bool,
    connections: Vec<(TcpStream, JoinHandle<()>)>,
}

impl FakeApi {
    /// Starts one that answers `turns`, and `done.` after the last.
    #[track_caller]
    pub fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen on loopback");
        let address = listener.local_addr().expect("address of a listener");
        let shared = Arc::new(Shared::default());
        shared.lock().turns.extend(turns);
        let for_acceptor = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &for_acceptor));
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Its base address, for `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a turn behind the others.
    pub fn push(&self, turn: Turn) {
        self.shared.lock().turns.push(turn);
    }

    /// Opens a gate for good.
    pub fn open(&self, gate: &str) {
        self.shared.lock().open_gates.insert(gate.to_owned());
        self.shared.changed.notify_all();
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Waits for a request of the main model whose last user text holds `text`.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> Request {
        self.wait_for_nth(text, 1)
    }

    /// Waits for the `nth` such request, from 1.
    #[track_caller]
    pub fn wait_for_nth(&self, text: &str, nth: usize) -> Request {
        self.wait_for_nth_beyond(Duration::ZERO, text, nth)
    }

    /// The same for a request that the client makes only after `own` time of its own.
    #[track_caller]
    pub fn wait_for_nth_beyond(&self, own: Duration, text: &str, nth: usize) -> Request {
        let limit = own + PATIENCE;
        let deadline = Instant::now() + limit;
        let mut state = self.shared.lock();
        loop {
            let fits = |r: &&Request| !r.is_background && r.last_user_text.contains(text);
            if let Some(request) = state.requests.iter().filter(fits).nth(nth - 1) {
                return request.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                let seen = state.requests.clone();
                drop(state);
                panic!("waited {limit:?} in vain for request {nth} with {text:?}: {seen:#?}");
            }
            state = self.shared.changed.wait_timeout(state, left).expect("no panic under it").0;
        }
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        let connections = {
            let mut state = self.shared.lock();
            state.closing = true;
            std::mem::take(&mut state.connections)
        };
        self.shared.changed.notify_all();
        // A connection of our own wakes the acceptor, which then sees that it is to end.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
        for (stream, thread) in connections {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
        let _ = self.acceptor.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the script")
    }

    /// Records a request of `/v1/messages` and takes its turn.
    fn take_turn(&self, what: &str, body: &Value) -> Turn {
        let messages = body["messages"].to_string();
        let last = last_user_text(body);
        let is_background =
            body["tools"].as_array().is_none_or(Vec::is_empty) || last.contains(LABEL_WANTED);
        let mut state = self.lock();
        state.requests.push(Request {
            what: what.to_owned(),
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            last_user_text: last.clone(),
            whole: format!("{messages}{}", body["system"]),
            is_background,
            is_stream: body["stream"] == true,
        });
        self.changed.notify_all();
        let turns = &mut state.turns;
        if is_background {
            return Turn::text(r#"{"title": "A test", "isNewTopic": false}"#);
        }
        let named = turns.iter().position(|turn| turn.is_for(&messages, &last));
        match named.or_else(|| turns.iter().position(Turn::is_for_any)) {
            Some(at) if turns[at].lasts => turns[at].clone(),
            Some(at) => turns.remove(at),
            None => Turn::text("done."),
        }
    }

    /// Waits at a turn's gate; an error when the fake is closing.
    fn pass(&self, gate: Option<&str>) -> io::Result<()> {
        let mut state = self.lock();
        while !state.closing && gate.is_some_and(|gate| !state.open_gates.contains(gate)) {
            state = self.changed.wait(state).expect("no panic under it");
        }
        if state.closing { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

/// The text of the last user message; of tool results the JSON.
fn last_user_text(body: &Value) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(last) = messages.iter().rfind(|message| message["role"] == "user") else {
        return String::new();
    };
    let Some(blocks) = last["content"].as_array() else {
        return last["content"].as_str().unwrap_or_default().to_owned();
    };
    let text = |block: &Value| match block["text"].as_str() {
        Some(text) => text.to_owned(),
        None => block["content"].to_string(),
    };
    blocks.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut state = shared.lock();
        if state.closing {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(to_close) = stream.try_clone() else { continue };
        let for_thread = Arc::clone(shared);
        // A client that leaves early is no error of the fake's: it ends the connection.
        let thread = std::thread::spawn(move || drop(serve(stream, &for_thread)));
        state.connections.push((to_close, thread));
    }
}

/// Answers the requests of one connection until one side has had enough.
fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(Received { method, path, body }) = receive(&mut stream, &mut buffer)? {
        let what = format!("{method} {path}");
        match what.as_str() {
            "POST /v1/messages" => {
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let turn = shared.take_turn(&what, &body);
                let pass = |gate: Option<&str>| shared.pass(gate);
                if !answer(&mut stream, &turn, &body, pass)? {
                    return stream.shutdown(Shutdown::Both);
                }
            }
            "POST /v1/messages/count_tokens" => {
                http::reply(&mut stream, 200, &[], &json!({"input_tokens": 100}))?;
            }
            _ if method == "HEAD" => http::reply_empty(&mut stream)?,
            _ if method == "POST" => http::reply(&mut stream, 200, &[], &json!({}))?,
            _ => {
                http::reply(&mut stream, 404, &[], &answer::error("not_found_error", "not found"))?;
            }
        }
    }
    Ok(())
}
