//! The looks at the keys of all machines. Each bucket is read by a consumer of this connection's own, which the server
//! forgets soon after the connection broke: the next look then begins with all keys again.

use core::pin::pin;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::{Message, StatusCode, Subject, Subscriber};
use coord_fleet::{Change, EngineError, StateKey};
use futures_util::future::{Either, select};
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::json;

use crate::nats::{ANSWER_WITHIN, Link};
use crate::nats_names::{self, HOSTS, SESSIONS, bucket_stream};
use crate::nats_request::{delivered, header, is_status};

/// A look waits so long for something.
pub(crate) const WAIT: Duration = Duration::from_secs(1);
/// The server says so often that nothing changed.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// A server that says nothing for so long delivers nothing any more.
const SILENT: Duration = Duration::from_secs(8);
/// The server forgets a consumer that nobody listens to.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Both buckets, as they are followed.
#[derive(Debug)]
pub(crate) struct Watch {
    connects: u64,
    sessions: View,
    hosts: View,
    /// What was taken in, and not returned yet: a call may be given up.
    changes: Vec<Change>,
}

/// A bucket, as it is followed.
#[derive(Debug)]
struct View {
    bucket: &'static str,
    messages: Subscriber,
    /// How many deliveries were taken in.
    delivered: u64,
    /// How many are to be taken in until all keys were seen once.
    pending: u64,
    heard: Instant,
}

/// The answer to the creation of a consumer.
#[derive(Debug, Deserialize)]
struct Created {
    #[serde(default)]
    num_pending: u64,
}

impl Watch {
    /// Begins, and returns all keys.
    pub(crate) async fn begin(link: &Link) -> Result<(Self, Vec<Change>), EngineError> {
        let connects = link.up().await?;
        let mut sessions = View::begin(link, SESSIONS).await?;
        let mut hosts = View::begin(link, HOSTS).await?;
        let mut changes = Vec::new();
        for view in [&mut hosts, &mut sessions] {
            while view.pending != 0 {
                let next = tokio::select! {
                    biased;
                    next = tokio::time::timeout(ANSWER_WITHIN, view.messages.next()) => next,
                    error = link.lost(connects) => return Err(error),
                };
                let message = next.map_err(|_| view.silent())?.ok_or_else(|| view.silent())?;
                changes.extend(view.take(link, &message).await?);
            }
        }
        Ok((Self { connects, sessions, hosts, changes: Vec::new() }, there_are(changes)))
    }

    /// Whether it follows what the server has now.
    pub(crate) fn is_current(&self, link: &Link) -> bool {
        link.is_still(self.connects)
    }

    /// What changed since. Waits a moment for something.
    pub(crate) async fn changes(&mut self, link: &Link) -> Result<Vec<Change>, EngineError> {
        let Self { connects, sessions, hosts, changes } = self;
        let until = tokio::time::Instant::now() + WAIT;
        while changes.is_empty() {
            let next = next_of(sessions, hosts);
            let next = tokio::select! {
                biased;
                next = tokio::time::timeout_at(until, next) => next,
                error = link.lost(*connects) => return Err(error),
            };
            // Nothing came.
            let Ok((of_sessions, message)) = next else { break };
            let view = if of_sessions { &mut *sessions } else { &mut *hosts };
            let message = message.ok_or_else(|| view.silent())?;
            changes.extend(view.take(link, &message).await?);
        }
        for view in [sessions, hosts] {
            while let Some(message) = view.messages.next().now_or_never() {
                let message = message.ok_or_else(|| view.silent())?;
                changes.extend(view.take(link, &message).await?);
            }
            if SILENT < view.heard.elapsed() {
                return Err(view.silent());
            }
        }
        Ok(core::mem::take(changes))
    }
}

/// The keys that there are after these changes. A key that changes while all are read comes twice.
fn there_are(changes: Vec<Change>) -> Vec<Change> {
    let newest: BTreeMap<StateKey, Change> =
        changes.into_iter().map(|change| (change.key.clone(), change)).collect();
    newest.into_values().filter(|change| change.value.is_some()).collect()
}

/// The next message of either, and whether it is of the first.
async fn next_of(sessions: &mut View, hosts: &mut View) -> (bool, Option<Message>) {
    let [sessions, hosts] = [&mut sessions.messages, &mut hosts.messages];
    match select(pin!(sessions.next()), pin!(hosts.next())).await {
        Either::Left((message, _)) => (true, message),
        Either::Right((message, _)) => (false, message),
    }
}

impl View {
    async fn begin(link: &Link, bucket: &'static str) -> Result<Self, EngineError> {
        let stream = bucket_stream(bucket);
        let inbox = link.client.new_inbox();
        let failed = |error| EngineError::Other(format!("{stream}: {error}"));
        let messages = link.client.subscribe(inbox.clone()).await;
        let messages = messages.map_err(|error| failed(error.to_string()))?;
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let body = json!({
            "stream_name": stream,
            "config": {
                "deliver_subject": inbox,
                "deliver_policy": "last_per_subject",
                "filter_subject": format!("$KV.{bucket}.>"),
                "ack_policy": "none",
                "max_deliver": 1,
                "replay_policy": "instant",
                "flow_control": true,
                "idle_heartbeat": nanos(HEARTBEAT),
                "inactive_threshold": nanos(FORGOTTEN),
                "mem_storage": true,
                "num_replicas": 1,
            },
        });
        let created = link.api::<Created>(&format!("CONSUMER.CREATE.{stream}"), &body).await?;
        let created = created.map_err(|error| failed(error.description))?;
        let pending = created.num_pending;
        Ok(Self { bucket, messages, delivered: 0, pending, heard: Instant::now() })
    }

    fn silent(&self) -> EngineError {
        EngineError::Unreachable(format!(
            "the server delivers no changes of {} any more",
            self.bucket
        ))
    }

    /// Takes a delivery in; none if it changes no key.
    async fn take(
        &mut self,
        link: &Link,
        message: &Message,
    ) -> Result<Option<Change>, EngineError> {
        self.heard = Instant::now();
        if is_status(message, StatusCode::IDLE_HEARTBEAT) {
            self.beat(link, message).await?;
            return Ok(None);
        }
        let told = delivered(message).filter(|_| message.status.is_none());
        let Some(told) = told else {
            return Err(self.silent());
        };
        let expected = self.delivered.saturating_add(1);
        if told.number != expected {
            return Err(self.missed());
        }
        self.delivered = expected;
        self.pending = self.pending.saturating_sub(1).min(told.pending);
        let Some(key) = nats_names::state_key(&message.subject) else { return Ok(None) };
        let is_removed = matches!(header(message, "KV-Operation"), Some("DEL" | "PURGE"));
        let value = (!is_removed).then(|| message.payload.to_vec());
        Ok(Some(Change { key, value, stored_ms: told.stored_ms }))
    }

    /// The server says that nothing changed, or asks whether it may go on.
    async fn beat(&mut self, link: &Link, message: &Message) -> Result<(), EngineError> {
        let asked = message.reply.as_ref().map(Subject::as_str);
        let asked = asked.or_else(|| header(message, "Nats-Consumer-Stalled"));
        if let Some(subject) = asked {
            let answered = link.client.publish(subject.to_owned(), Vec::new().into()).await;
            answered.map_err(|error| EngineError::Unreachable(error.to_string()))?;
        }
        let Some(last) = header(message, "Nats-Last-Consumer") else { return Ok(()) };
        if last.parse() != Ok(self.delivered) {
            return Err(self.missed());
        }
        // It has nothing more to deliver, whatever it counted at first.
        self.pending = 0;
        Ok(())
    }

    fn missed(&self) -> EngineError {
        EngineError::Unreachable(format!("changes of {} were missed", self.bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::MachineId;

    #[test]
    fn a_key_that_changes_while_all_are_read_is_as_it_was_last() {
        let change = |session: &str, value: Option<&str>| Change {
            key: StateKey { machine: MachineId(1), session: Some(session.to_owned()) },
            value: value.map(|value| value.as_bytes().to_vec()),
            stored_ms: 1,
        };
        let read = vec![
            change("removed", Some("old")),
            change("changed", Some("old")),
            change("back", None),
            change("removed", None),
            change("changed", Some("new")),
            change("back", Some("new")),
        ];
        let expected = [change("back", Some("new")), change("changed", Some("new"))];
        assert_eq!(there_are(read), expected);
    }
}
