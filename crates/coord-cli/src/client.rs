//! Talks to the coordinator over its socket.

use coord_wire::api::ErrorAnswer;
use coord_wire::exchange::{Answer, Miss, exchange, mono_ns, request};
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::out::Failure;

/// An answer is awaited this long; a coordinator that needs longer hangs.
const PATIENCE_NS: u64 = 2_000_000_000;
/// The longest answer taken: 200,000 sessions.
const ANSWER_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Sends one request.
pub(crate) fn call(context: &Context, method: &str, path: &str) -> Result<Answer, Miss> {
    let socket = context.paths.socket();
    let deadline = mono_ns().saturating_add(PATIENCE_NS);
    exchange(&socket, &request(method, path, b""), ANSWER_BYTES_MAX, deadline)
}

/// Gets JSON; the outer error is a miss, the inner one what the coordinator said.
pub(crate) fn get<T: DeserializeOwned>(
    context: &Context,
    path: &str,
) -> Result<Result<T, Failure>, Miss> {
    let answer = call(context, "GET", path)?;
    if answer.status != 200 {
        return Ok(Err(failure(&answer)));
    }
    serde_json::from_slice(&answer.body).map(Ok).map_err(|_| Miss::Broken)
}

/// The coordinator's own words for an error.
fn failure(answer: &Answer) -> Failure {
    match serde_json::from_slice::<ErrorAnswer>(&answer.body) {
        Ok(ErrorAnswer { error }) if error.code == "no_such_session" => {
            Failure::NoSuchSession(error.message)
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
