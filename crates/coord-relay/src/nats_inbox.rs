//! What arrives for a machine. Both queues are asked for items, and the requests stay open between calls.

use core::pin::pin;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::{Message, StatusCode, Subscriber};
use coord_fleet::{Delivery, EngineError, Settled, Verdict};
use coord_model::MachineId;
use futures_util::future::{Either, join_all, select};
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::nats::Link;
use crate::nats_error::Refusal;
use crate::nats_names::{self, FATES, MESSAGES};
use crate::nats_request::{delivered, is_status, refused};
use crate::nats_watch::WAIT;

/// As many items are asked for at once.
const BATCH: u64 = 64;
/// A request for items stays open so long.
const OPEN: Duration = Duration::from_secs(20);
/// The server says so often that nothing came.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A server that says nothing for so long has lost the request.
const SILENT: Duration = Duration::from_secs(12);
/// An item that cannot be taken now comes again after so long.
const LATER: Duration = Duration::from_secs(5);

/// What arrives for a machine.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    queues: Option<Queues>,
    /// Where it is said what became of an item that was returned, by its token.
    replies: BTreeMap<u64, String>,
    last_token: u64,
    /// What was taken in, and not returned yet: a call may be given up.
    items: Vec<Delivery>,
}

/// Both queues, as long as a connection lasts.
#[derive(Debug)]
struct Queues {
    connects: u64,
    refusals: broadcast::Receiver<Refusal>,
    messages: Queue,
    fates: Queue,
}

/// A queue.
#[derive(Debug)]
struct Queue {
    /// Where items are asked for.
    subject: String,
    /// Where they arrive.
    inbox: String,
    items: Subscriber,
    /// How many more the open request may bring; 0 if none is open.
    left: u64,
    heard: Instant,
}

impl Inbox {
    /// Says what became of items.
    pub(crate) async fn settle(
        &mut self,
        link: &Link,
        settled: Vec<Settled>,
    ) -> Result<(), EngineError> {
        let known = settled.into_iter().filter_map(|one| {
            let reply = self.replies.remove(&one.token)?;
            let what = match one.verdict {
                Verdict::Kept => "+ACK".to_owned(),
                Verdict::Refused => "+TERM".to_owned(),
                Verdict::Later => format!("-NAK {{\"delay\": {}}}", LATER.as_nanos()),
            };
            Some((reply, what))
        });
        let known: Vec<(String, String)> = known.collect();
        let heard =
            known.iter().map(|(reply, what)| link.request(reply, what.clone().into(), None));
        join_all(heard).await.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// The next items. Waits a moment for one.
    pub(crate) async fn take(
        &mut self,
        link: &Link,
        machine: MachineId,
    ) -> Result<Vec<Delivery>, EngineError> {
        let mut queues = match self.queues.take() {
            Some(queues) if link.is_still(queues.connects) => queues,
            Some(_) | None => Queues::begin(link, machine).await?,
        };
        queues.ask(link).await?;
        let until = tokio::time::Instant::now() + WAIT;
        self.queues = Some(queues);
        let taken = self.take_in(link, until).await;
        if let Err(error) = taken {
            self.queues = None;
            return Err(error);
        }
        Ok(core::mem::take(&mut self.items))
    }

    async fn take_in(
        &mut self,
        link: &Link,
        until: tokio::time::Instant,
    ) -> Result<(), EngineError> {
        let Self { queues, replies, last_token, items } = self;
        let Some(Queues { connects, refusals, messages, fates }) = queues else { return Ok(()) };
        while items.is_empty() {
            let subjects = [messages.subject.clone(), fates.subject.clone()];
            let subjects = [subjects[0].as_str(), subjects[1].as_str()];
            let next = tokio::select! {
                biased;
                next = tokio::time::timeout_at(until, next_of(messages, fates)) => next,
                refused = refused(refusals, &subjects) => return Err(refused.error()),
                error = link.lost(*connects) => return Err(error),
            };
            // Nothing came.
            let Ok((of_messages, message)) = next else { break };
            let queue = if of_messages { &mut *messages } else { &mut *fates };
            items.extend(queue.take(message, replies, last_token)?);
            queue.ask(link).await?;
        }
        for queue in [messages, fates] {
            while let Some(message) = queue.items.next().now_or_never() {
                items.extend(queue.take(message, replies, last_token)?);
            }
            if SILENT < queue.heard.elapsed() && queue.left != 0 {
                return Err(queue.silent());
            }
        }
        Ok(())
    }
}

/// The next message of either, and whether it is of the first.
async fn next_of(messages: &mut Queue, fates: &mut Queue) -> (bool, Option<Message>) {
    let [messages, fates] = [&mut messages.items, &mut fates.items];
    match select(pin!(messages.next()), pin!(fates.next())).await {
        Either::Left((message, _)) => (true, message),
        Either::Right((message, _)) => (false, message),
    }
}

impl Queues {
    async fn begin(link: &Link, machine: MachineId) -> Result<Self, EngineError> {
        let connects = link.up().await?;
        let refusals = link.refusals();
        let messages = Queue::begin(link, MESSAGES, machine).await?;
        let fates = Queue::begin(link, FATES, machine).await?;
        Ok(Self { connects, refusals, messages, fates })
    }

    /// Asks both for items, where no request is open.
    async fn ask(&mut self, link: &Link) -> Result<(), EngineError> {
        for queue in [&mut self.messages, &mut self.fates] {
            queue.ask(link).await?;
        }
        Ok(())
    }
}

impl Queue {
    async fn begin(link: &Link, queue: &str, machine: MachineId) -> Result<Self, EngineError> {
        let own = nats_names::consumer(machine);
        // Nobody answers a request for items of a consumer that is not there.
        let info = link.api::<Value>(&format!("CONSUMER.INFO.{queue}.{own}"), &json!({})).await?;
        info.map_err(|error| {
            let why = format!("{queue}, consumer {own}: {}", error.description);
            EngineError::Other(format!("{why}: set it up with `coord fleet init`"))
        })?;
        let inbox = link.client.new_inbox();
        let items = link.client.subscribe(inbox.clone()).await;
        let items = items.map_err(|error| EngineError::Other(format!("{queue}: {error}")))?;
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{queue}.{own}");
        Ok(Self { subject, inbox, items, left: 0, heard: Instant::now() })
    }

    async fn ask(&mut self, link: &Link) -> Result<(), EngineError> {
        if self.left != 0 {
            return Ok(());
        }
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let [expires, heartbeat] = [OPEN, HEARTBEAT].map(nanos);
        let body = json!({"batch": BATCH, "expires": expires, "idle_heartbeat": heartbeat});
        let (subject, inbox) = (self.subject.clone(), self.inbox.clone());
        let body = body.to_string().into();
        let asked = link.client.publish_with_reply(subject, inbox, body).await;
        asked.map_err(|error| EngineError::Unreachable(error.to_string()))?;
        (self.left, self.heard) = (BATCH, Instant::now());
        Ok(())
    }

    fn silent(&self) -> EngineError {
        EngineError::Unreachable(format!("no answer to {}", self.subject))
    }

    /// Takes what arrived in; none if it is no item.
    fn take(
        &mut self,
        message: Option<Message>,
        replies: &mut BTreeMap<u64, String>,
        last_token: &mut u64,
    ) -> Result<Option<Delivery>, EngineError> {
        let message = message.ok_or_else(|| self.silent())?;
        self.heard = Instant::now();
        if is_status(&message, StatusCode::IDLE_HEARTBEAT) {
            return Ok(None);
        }
        if is_status(&message, StatusCode::NO_RESPONDERS) {
            return Err(self.silent());
        }
        if message.status.is_some() {
            // The request has ended. Why does not matter: the next call makes another one.
            self.left = 0;
            return Ok(None);
        }
        self.left = self.left.saturating_sub(1);
        let (Some(told), Some(reply)) = (delivered(&message), &message.reply) else {
            return Ok(None);
        };
        let (from, item) = nats_names::item(&message.subject);
        *last_token = last_token.saturating_add(1);
        replies.insert(*last_token, reply.to_string());
        let bytes = message.payload.to_vec();
        Ok(Some(Delivery { token: *last_token, item, from, bytes, stored_ms: told.stored_ms }))
    }
}
