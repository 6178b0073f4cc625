//! The calls of an engine on a connection.

use async_nats::{HeaderMap, Message, StatusCode};
use coord_fleet::{
    Delivery, Engine, EngineError, Held, Logged, Parcel, Settled, StateKey, Watched,
};
use coord_model::MachineId;
use coord_model::stamp::parse_rfc3339;
use serde_json::{Value, json};

use crate::nats::Link;
use crate::nats_inbox::Inbox;
use crate::nats_names::{self, JOURNAL, SESSIONS, bucket_stream};
use crate::nats_request::{header, is_status};
use crate::nats_watch::Watch;

/// A machine's engine on its connection. A clone shares the connection, and begins its looks and its inbox anew: the tokens of
/// one engine mean nothing to another.
#[derive(Debug)]
pub struct NatsEngine {
    link: Link,
    machine: MachineId,
    watch: Option<Watch>,
    inbox: Inbox,
}

impl Clone for NatsEngine {
    fn clone(&self) -> Self {
        Self::new(self.link.clone(), self.machine)
    }
}

impl NatsEngine {
    pub(crate) fn new(link: Link, machine: MachineId) -> Self {
        Self { link, machine, watch: None, inbox: Inbox::default() }
    }

    /// The first batch of a machine, or of any, that stands at this place in the log of all machines or after it; none if none
    /// does.
    pub(crate) async fn logged(
        &self,
        of: Option<MachineId>,
        place: u64,
    ) -> Result<Option<Logged>, EngineError> {
        let subject = of.map_or_else(nats_names::journals, nats_names::journal);
        self.get_logged(&json!({"seq": place.max(1), "next_by_subj": subject})).await
    }

    /// The newest batch of a machine, or of any; none if there is none.
    pub(crate) async fn newest_logged(
        &self,
        of: Option<MachineId>,
    ) -> Result<Option<Logged>, EngineError> {
        let subject = of.map_or_else(nats_names::journals, nats_names::journal);
        self.get_logged(&json!({"last_by_subj": subject})).await
    }

    async fn get_logged(&self, asked: &Value) -> Result<Option<Logged>, EngineError> {
        let subject = format!("$JS.API.DIRECT.GET.{JOURNAL}");
        match self.link.request(&subject, asked.to_string().into_bytes(), None).await {
            Err(EngineError::Unreachable(why)) if self.link.status().is_up => {
                Err(self.unheld(why).await)
            }
            answer => logged(answer?),
        }
    }

    /// Why nobody said what is held. A request for a batch of a stream that is not there gets no answer at all, so it is
    /// asked for something of which the server says that it is not there.
    async fn unheld(&self, why: String) -> EngineError {
        let subject = format!("STREAM.INFO.{}", bucket_stream(SESSIONS));
        match self.link.api::<Value>(&subject, &json!({})).await {
            Ok(Err(error)) => EngineError::Other(format!(
                "{}: set it up with `coord fleet init`",
                error.description
            )),
            Ok(Ok(_)) | Err(_) => EngineError::Unreachable(why),
        }
    }
}

impl Engine for NatsEngine {
    async fn held(&mut self) -> Result<Option<Held>, EngineError> {
        let own = nats_names::journal(self.machine);
        let subject = format!("$JS.API.DIRECT.GET.{JOURNAL}.{own}");
        let answer = match self.link.request(&subject, Vec::new(), None).await {
            Err(EngineError::Unreachable(why)) if self.link.status().is_up => {
                return Err(self.unheld(why).await);
            }
            answer => answer?,
        };
        batch(answer)
    }

    async fn batch_after(
        &mut self,
        machine: MachineId,
        place: u64,
    ) -> Result<Option<Held>, EngineError> {
        let subject = nats_names::journal(machine);
        let body = json!({"seq": place.saturating_add(1), "next_by_subj": subject});
        let body = body.to_string().into_bytes();
        batch(self.link.request(&format!("$JS.API.DIRECT.GET.{JOURNAL}"), body, None).await?)
    }

    async fn append(&mut self, batch: &[u8], after: u64) -> Result<u64, EngineError> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Stream", JOURNAL);
        headers.insert("Nats-Expected-Last-Subject-Sequence", after.to_string());
        let subject = nats_names::journal(self.machine);
        self.link.publish(&subject, batch.to_vec(), Some(headers)).await
    }

    async fn put_state(&mut self, key: &StateKey, value: Option<&[u8]>) -> Result<(), EngineError> {
        let removed = || {
            let mut headers = HeaderMap::new();
            headers.insert("KV-Operation", "DEL");
            headers
        };
        let headers = value.is_none().then(removed);
        let bytes = value.unwrap_or_default().to_vec();
        self.link.publish(&nats_names::key(key), bytes, headers).await.map(|_| ())
    }

    async fn watch(&mut self) -> Result<Watched, EngineError> {
        if let Some(watch) = self.watch.as_mut().filter(|watch| watch.is_current(&self.link)) {
            let changes = watch.changes(&self.link).await;
            // A look that failed begins anew.
            return match changes {
                Ok(changes) => Ok(Watched { is_whole: false, changes }),
                Err(error) => {
                    self.watch = None;
                    Err(error)
                }
            };
        }
        self.watch = None;
        let (watch, changes) = Watch::begin(&self.link).await?;
        self.watch = Some(watch);
        Ok(Watched { is_whole: true, changes })
    }

    async fn inbox(&mut self, settled: Vec<Settled>) -> Result<Vec<Delivery>, EngineError> {
        self.inbox.settle(&self.link, settled).await?;
        self.inbox.take(&self.link, self.machine).await
    }

    async fn send(&mut self, parcel: &Parcel) -> Result<(), EngineError> {
        let subject = nats_names::parcel(self.machine, parcel);
        self.link.publish(&subject, parcel.bytes.clone(), None).await.map(|_| ())
    }
}

/// The batch of any machine in an answer to a request for one; none if the server says that it holds none.
fn logged(answer: Message) -> Result<Option<Logged>, EngineError> {
    // Whoever may publish everything may publish under a name that is no machine's: nobody has signed that.
    let machine = header(&answer, "Nats-Subject")
        .map(|subject| nats_names::journal_of(subject).unwrap_or(MachineId(0)));
    let stored_ms = header(&answer, "Nats-Time-Stamp").and_then(stored_ms);
    let Some(Held { place, bytes }) = batch(answer)? else { return Ok(None) };
    let (Some(machine), Some(stored_ms)) = (machine, stored_ms) else {
        let why = "a batch is not understood: it has no machine, or no time";
        return Err(EngineError::Other(why.to_owned()));
    };
    Ok(Some(Logged { machine, place, stored_ms, bytes }))
}

/// Milliseconds since 1970. The server leaves out zeros at the end.
fn stored_ms(text: &str) -> Option<u64> {
    let whole = text.strip_suffix('Z')?;
    let (seconds, digits) = whole.split_once('.').unwrap_or((whole, ""));
    parse_rfc3339(&format!("{seconds}.{digits:0<3}Z"))
}

/// The batch in an answer to a request for one; none if the server says that it holds none.
fn batch(answer: Message) -> Result<Option<Held>, EngineError> {
    if is_status(&answer, StatusCode::NOT_FOUND) {
        return Ok(None);
    }
    let place = header(&answer, "Nats-Sequence").and_then(|place| place.parse().ok());
    let Some(place) = place else {
        let why = answer.description.unwrap_or_else(|| "it has no place".to_owned());
        return Err(EngineError::Other(format!("a batch is not understood: {why}")));
    };
    Ok(Some(Held { place, bytes: answer.payload.to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_batch_is_read_to_the_millisecond() {
        for (text, ms) in [
            ("1970-01-01T00:00:01Z", Some(1_000)),
            ("1970-01-01T00:00:01.5Z", Some(1_500)),
            ("1970-01-01T00:00:01.0456789Z", Some(1_045)),
            ("1970-01-01T00:00:01+01:00", None),
            ("", None),
        ] {
            assert_eq!(stored_ms(text), ms, "{text}");
        }
    }
}
