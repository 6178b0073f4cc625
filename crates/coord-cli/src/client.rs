//! Talks to the coordinator over its socket.

use coord_wire::api::{ErrorAnswer, PASSPHRASE_NEEDED};
use coord_wire::exchange::{Answer, Miss, exchange, mono_ns, request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::out::Failure;

/// An answer is awaited this long; a coordinator that needs longer hangs.
const PATIENCE_NS: u64 = 2_000_000_000;
/// The longest answer taken: 200,000 sessions.
const ANSWER_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Sends one request without a body.
pub(crate) fn call(context: &Context, method: &str, path: &str) -> Result<Answer, Miss> {
    send(context, &request(method, path, b""))
}

fn send(context: &Context, request: &[u8]) -> Result<Answer, Miss> {
    send_within(context, request, PATIENCE_NS)
}

fn send_within(context: &Context, request: &[u8], patience_ns: u64) -> Result<Answer, Miss> {
    let socket = context.paths.socket();
    let deadline = mono_ns().saturating_add(patience_ns);
    exchange(&socket, request, ANSWER_BYTES_MAX, deadline)
}

/// Gets JSON; the outer error is a miss, the inner one what the coordinator said.
pub(crate) fn get<T: DeserializeOwned>(
    context: &Context,
    path: &str,
) -> Result<Result<T, Failure>, Miss> {
    read(&call(context, "GET", path)?)
}

/// Posts JSON and gets JSON; errors as with [`get`].
pub(crate) fn post<T: DeserializeOwned>(
    context: &Context,
    path: &str,
    body: &impl Serialize,
) -> Result<Result<T, Failure>, Miss> {
    match serde_json::to_vec(body) {
        Ok(body) => read(&send(context, &request("POST", path, &body))?),
        Err(error) => Ok(Err(error.into())),
    }
}

/// The same where the answer may be that there is nothing.
pub(crate) fn take<T: DeserializeOwned>(
    context: &Context,
    path: &str,
    body: &impl Serialize,
) -> Result<Result<Option<T>, Failure>, Miss> {
    let body = match serde_json::to_vec(body) {
        Ok(body) => body,
        Err(error) => return Ok(Err(error.into())),
    };
    let answer = send(context, &request("POST", path, &body))?;
    if answer.status == 204 { Ok(Ok(None)) } else { Ok(read(&answer)?.map(Some)) }
}

/// What came of something that was sent.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The coordinator took it.
    Taken,
    /// It did not: the word for programs, and the reason.
    Refused {
        /// The word.
        code: String,
        /// The reason.
        message: String,
    },
}

/// Posts JSON that is answered with nothing, and tells why it was refused.
pub(crate) fn put(context: &Context, path: &str, body: &impl Serialize) -> Result<Sent, Miss> {
    let body = serde_json::to_vec(body).map_err(|_| Miss::Broken)?;
    let answer = send(context, &request("POST", path, &body))?;
    if answer.status == 204 {
        return Ok(Sent::Taken);
    }
    let ErrorAnswer { error } = serde_json::from_slice(&answer.body).map_err(|_| Miss::Broken)?;
    Ok(Sent::Refused { code: error.code, message: error.message })
}

/// Posts JSON whose answer has no body and may take `patience_ns` nanoseconds.
pub(crate) fn post_for_nothing(
    context: &Context,
    path: &str,
    body: &impl Serialize,
    patience_ns: u64,
) -> Result<Result<(), Failure>, Miss> {
    let body = match serde_json::to_vec(body) {
        Ok(body) => body,
        Err(error) => return Ok(Err(error.into())),
    };
    let answer = send_within(context, &request("POST", path, &body), patience_ns)?;
    Ok(if answer.status == 204 { Ok(()) } else { Err(failure(&answer)) })
}

fn read<T: DeserializeOwned>(answer: &Answer) -> Result<Result<T, Failure>, Miss> {
    if answer.status != 200 {
        return Ok(Err(failure(answer)));
    }
    serde_json::from_slice(&answer.body).map(Ok).map_err(|_| Miss::Broken)
}

/// The coordinator's own words for an error.
pub(crate) fn failure(answer: &Answer) -> Failure {
    match serde_json::from_slice::<ErrorAnswer>(&answer.body) {
        Ok(ErrorAnswer { error }) if error.code == "no_such_session" => {
            Failure::NoSuchSession(error.message)
        }
        Ok(ErrorAnswer { error }) if error.code == PASSPHRASE_NEEDED => {
            Failure::PassphraseNeeded(error.message)
        }
        Ok(ErrorAnswer { error }) if answer.status == 404 => Failure::UnclearId(error.message),
        Ok(ErrorAnswer { error }) => Failure::Failed(anyhow::anyhow!(error.message)),
        Err(_) => Failure::Failed(anyhow::anyhow!("the coordinator answered {}", answer.status)),
    }
}

/// Percent-encodes one path segment.
pub(crate) fn segment(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}
