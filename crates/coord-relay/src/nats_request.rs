//! A request and its answer. A request without a permission gets none: the server reports the refusal beside it.

use async_nats::{HeaderMap, HeaderValue, Message, Request, RequestErrorKind, StatusCode};
use coord_fleet::EngineError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::nats::Link;
use crate::nats_error::{ApiError, Refusal};

/// The answer to a message that a stream took.
#[derive(Debug, Deserialize)]
struct Taken {
    seq: u64,
}

/// What a reply subject says of a delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// Its number among the consumer's deliveries.
    pub(crate) number: u64,
    /// When it was stored, milliseconds since 1970.
    pub(crate) stored_ms: u64,
    /// How many are still to be delivered.
    pub(crate) pending: u64,
}

impl Link {
    /// Sends a request, and returns the answer.
    pub(crate) async fn request(
        &self,
        subject: &str,
        payload: Vec<u8>,
        headers: Option<HeaderMap>,
    ) -> Result<Message, EngineError> {
        let connects = self.up().await?;
        let (mut refusals, own) = (self.refusals(), [subject]);
        let mut request = Request::new().payload(payload.into());
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        let answer = tokio::select! {
            biased;
            answer = self.client.send_request(subject.to_owned(), request) => answer,
            refused = refused(&mut refusals, &own) => return Err(refused.error()),
            error = self.lost(connects) => return Err(error),
        };
        answer.map_err(|error| match error.kind() {
            RequestErrorKind::TimedOut => self.unanswered(subject),
            RequestErrorKind::NoResponders => EngineError::Other(format!(
                "nothing at the server answers {subject}: set it up with `coord fleet init`"
            )),
            RequestErrorKind::InvalidSubject
            | RequestErrorKind::MaxPayloadExceeded
            | RequestErrorKind::Other => EngineError::Other(format!("{subject}: {error}")),
        })
    }

    /// Publishes a message that a stream is to keep, and returns its place in the stream.
    pub(crate) async fn publish(
        &self,
        subject: &str,
        payload: Vec<u8>,
        headers: Option<HeaderMap>,
    ) -> Result<u64, EngineError> {
        let answer = self.request(subject, payload, headers).await?;
        Ok(parse::<Taken>(&answer)??.seq)
    }

    /// Sends a request of JetStream, and returns its answer or the server's error.
    pub(crate) async fn api<T: DeserializeOwned>(
        &self,
        subject: &str,
        body: &impl Serialize,
    ) -> Result<Result<T, ApiError>, EngineError> {
        let body =
            serde_json::to_vec(body).map_err(|error| EngineError::Other(error.to_string()))?;
        let answer = self.request(&format!("$JS.API.{subject}"), body, None).await?;
        parse(&answer)
    }
}

/// The answer of JetStream, or its error.
fn parse<T: DeserializeOwned>(answer: &Message) -> Result<Result<T, ApiError>, EngineError> {
    let odd = |error| EngineError::Other(format!("the server's answer is not understood: {error}"));
    let mut answer: Value = serde_json::from_slice(&answer.payload).map_err(odd)?;
    match answer.get_mut("error").map(Value::take) {
        Some(error) => serde_json::from_value(error).map_err(odd).map(Err),
        None => serde_json::from_value(answer).map_err(odd).map(Ok),
    }
}

/// The next refusal of one of these subjects.
pub(crate) async fn refused(
    refusals: &mut broadcast::Receiver<Refusal>,
    subjects: &[&str],
) -> Refusal {
    loop {
        match refusals.recv().await {
            Ok(one) if one.what == "publish" && subjects.contains(&one.subject.as_str()) => {
                return one;
            }
            Ok(_) | Err(RecvError::Lagged(_)) => (),
            // The connection is gone: whoever waits sees that.
            Err(RecvError::Closed) => core::future::pending().await,
        }
    }
}

/// Reads a reply subject: `$JS.ACK.STREAM.CONSUMER.TRIES.PLACE.NUMBER.TIME.PENDING`, where newer servers put two
/// tokens before the stream, and perhaps one behind.
pub(crate) fn delivered(message: &Message) -> Option<Delivered> {
    let reply = message.reply.as_ref()?;
    let rest: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let numbers = match rest.len() {
        7 => rest.get(2..7)?,
        9.. => rest.get(4..9)?,
        _ => return None,
    };
    let number = |at: usize| numbers.get(at).and_then(|one| one.parse::<u64>().ok());
    Some(Delivered { number: number(2)?, stored_ms: number(3)? / 1_000_000, pending: number(4)? })
}

/// A header of a message.
pub(crate) fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.headers.as_ref().and_then(|headers| headers.get(name)).map(HeaderValue::as_str)
}

/// Whether a message is a status of this code.
pub(crate) fn is_status(message: &Message, code: StatusCode) -> bool {
    message.status == Some(code)
}
