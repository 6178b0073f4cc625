//! `/v1/messages` and `/v1/queues`: messages are sent, claimed and settled here (S4).
//!
//! This module decides who a sender is (H-04) and what a request means. The core decides whether the
//! request is admitted, before anything is recorded. Every answer is durable before it is sent: a
//! message that was accepted, a lease that was granted, an end that was reported. Texts are stored in
//! files of their own, and in no record.

mod delivery;

pub(crate) use delivery::{Leaving, Offered};

use std::collections::BTreeSet;
use std::hash::Hasher;

use coord_core::{
    Admitted, LEASE_MS_MAX, Message, QUEUE_NAME_CHARS_MAX, REMOTE_TTL_MS_MAX, Refused,
    is_queue_name,
};
use coord_host::process::{self, Caller};
use coord_model::{
    Address, Event, MessageId, NewMessage, Now, ProcessRef, QueueEvent, RemoteSession, Same,
    Sender, SessionKey,
};
use coord_view::lookup::{self, LookupError};
use coord_view::messages::{self, Wanted};
use coord_view::text::thousands;
use coord_wire::message::{
    Claim, Claimed, MessageInfo, Send, Sent, Settle, TEXT_BYTES_MAX, WORD_BYTES_MAX,
};
use serde::de::DeserializeOwned;
use siphasher::sip::SipHasher13;

use crate::conditions::Condition;
use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::operator::caller::{self, Refusal, Who};
use crate::request_error::RequestError;
use crate::routes::Route;
use crate::world::World;

/// Shortest accepted beginning of a message id, in characters.
const PREFIX_MIN: usize = 4;
/// Messages listed if the request names no limit.
const LISTED: usize = 100;
/// Most messages listed; the number of those left out is part of the answer.
const LISTED_MAX: usize = 10_000;

impl<W: World> Coordinator<W> {
    /// `POST /v1/messages`: sends a message.
    pub(crate) fn post_message(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        let from = match self.who(caller) {
            Who::Person => Sender::Operator,
            Who::Program(name) => Sender::Program(name),
            Who::Harness(pid) => self.sender_of(pid),
            Who::Agent => Sender::Agent,
        };
        let sent = parsed(request).and_then(|ask| self.send(&ask, from, now));
        self.answered(sent)
    }

    fn who(&self, caller: Caller) -> Who {
        caller::who(&caller::Machine, caller, &self.harnesses())
    }

    /// Whether a message waits until a person lets it pass (H-21).
    fn is_for_person(&self, id: MessageId) -> bool {
        let state = self.engine.state();
        state.message(id).is_some_and(|one| one.is_pending() && state.waits_for_person(one))
    }

    /// Accepts a message whose sender was established.
    ///
    /// # Errors
    /// Why the message was not accepted.
    pub fn send(&mut self, ask: &Send, from: Sender, now: Now) -> Result<Sent, RequestError> {
        check(ask)?;
        if !self.has_room_for("") {
            return Err(RequestError::DiskFull);
        }
        let digest = self.text_digest(ask.text.as_bytes());
        let same = match &ask.key {
            Some(key) => Same::Key(key.clone(), digest),
            None => Same::Text(digest),
        };
        let to = self.address(ask)?;
        // A message to another machine lives for a while, and no longer: it is kept until its fate is known.
        let ttl_ms = match to {
            Address::Remote(_) => Some(ask.ttl_ms.unwrap_or(REMOTE_TTL_MS_MAX)),
            Address::Queue(_) | Address::Session(_) => ask.ttl_ms,
        };
        let new = NewMessage {
            id: self.new_message_id(),
            to,
            depth: self.engine.state().depth_of(&from),
            from,
            is_urgent: ask.urgent,
            same,
            bytes: u32::try_from(ask.text.len()).unwrap_or(u32::MAX),
            ttl_ms,
        };
        let id = match self.engine.state().admits(&new) {
            Admitted::New => {
                self.has_room_for_text(ask.text.len())?;
                return self.accept(new, &ask.text, now);
            }
            Admitted::Folded(id) => id,
            Admitted::OtherText(id) => return Err(RequestError::KeyInUse(id)),
            Admitted::Full(waiting) => {
                let receiver = messages::receiver(self.engine.state(), &new.to);
                return Err(RequestError::ReceiverFull { waiting, receiver });
            }
        };
        self.record_message(id, "sent again: folded", QueueEvent::Folded(id), now)?;
        Ok(Sent { folded: true, ..self.fate(id, now)? })
    }

    /// Whether the texts of all messages leave room for one more (H-29).
    pub(crate) fn has_room_for_text(&self, bytes: usize) -> Result<(), RequestError> {
        let limit_mib = self.config.queue.texts_mib.0;
        let texts = u64::try_from(bytes).unwrap_or(u64::MAX);
        let bytes = self.bodies.total().saturating_add(texts);
        if bytes <= limit_mib.saturating_mul(1024 * 1024) {
            return Ok(());
        }
        Err(RequestError::TextsFull { bytes, limit_mib })
    }

    /// The receiver of a message: a queue or a session.
    fn address(&self, ask: &Send) -> Result<Address, RequestError> {
        match (&ask.queue, &ask.session, &ask.remote) {
            (Some(queue), None, None) => check_name(queue).map(|()| Address::Queue(queue.clone())),
            (None, Some(id), None) => Ok(Address::Session(self.receiver(id)?)),
            (None, None, Some(to)) => self.remote(to).map(Address::Remote),
            _ => Err(RequestError::bad("name either a queue or a session")),
        }
    }

    /// A session of another machine.
    fn remote(&self, to: &RemoteSession) -> Result<RemoteSession, RequestError> {
        check_word("session", &to.session)?;
        check_word("machine", &to.name)?;
        match self.world.membership() {
            Ok(Some(own)) if own.machine == to.machine => {
                Err(RequestError::bad("this is the machine itself: name the session alone"))
            }
            Ok(Some(_)) => Ok(to.clone()),
            Ok(None) => {
                Err(RequestError::bad("this machine has joined no fleet: coord fleet join URL"))
            }
            Err(why) => Err(RequestError::Bad(why)),
        }
    }

    /// The session with this name or id.
    fn receiver(&self, word: &str) -> Result<SessionKey, RequestError> {
        let found = lookup::find(self.engine.state(), word)?;
        // Records with the same id follow each other, so the newest one is meant.
        found
            .iter()
            .map(|session| session.key)
            .max()
            .ok_or_else(|| LookupError::Unknown { id: word.to_owned(), meant: None }.into())
    }

    pub(crate) fn accept(
        &mut self,
        new: NewMessage,
        text: &str,
        now: Now,
    ) -> Result<Sent, RequestError> {
        let (id, name) = (new.id, new.id.to_string());
        let receiver = messages::receiver(self.engine.state(), &new.to);
        let what = format!("sent to {receiver} by {}", messages::sender(&new.from));
        if let Err(error) = self.bodies.write(&name, text.as_bytes()) {
            tracing::error!(%error, "a message's text was not written");
            return Err(RequestError::NotKept(error));
        }
        if let Err(error) = self.record_message(id, &what, QueueEvent::Sent(new), now) {
            // If the file cannot be removed, the next start removes it.
            drop(self.bodies.remove(&name));
            return Err(error);
        }
        self.fate(id, now)
    }

    /// `GET /v1/messages?queue=&state=&limit=`: lists messages.
    pub(crate) fn get_messages(
        &self,
        request: &Request,
        now: Now,
    ) -> Result<Response, RequestError> {
        let limit = request.query("limit").map_or(Ok(LISTED), str::parse);
        let limit =
            limit.map_err(|_| RequestError::bad("limit takes a number, such as limit=20"))?;
        let word = |name| request.query(name).map(ToOwned::to_owned);
        let limit = LISTED_MAX.min(limit);
        let session = word("session").map(|id| self.receiver(&id)).transpose()?;
        let wanted = Wanted { queue: word("queue"), session, state: word("state"), limit };
        let state = self.engine.state();
        let mut listed = messages::list(state, &wanted, now);
        for one in &mut listed.messages {
            let message = MessageId::parse(&one.id).and_then(|id| state.message(id));
            if let Some(because) = message.and_then(|message| self.because(message, now)) {
                one.because = because;
            }
        }
        Ok(Response::json(&listed))
    }

    /// `GET /v1/messages/{id}`: shows one message with its text, unless it is none of the caller's business (U-13).
    pub(crate) fn get_message(
        &self,
        id: &str,
        caller: Caller,
        now: Now,
    ) -> Result<Response, RequestError> {
        let state = self.engine.state();
        let message = state.message(self.found_message(id)?);
        let message = message.ok_or_else(|| RequestError::NoSuchMessage(id.to_owned()))?;
        let text = self.bodies.read(&message.id.to_string(), u64::from(message.bytes));
        let text_withheld = !self.may_read(message, caller);
        let text = text.ok().and_then(|text| String::from_utf8(text).ok());
        let text = text.filter(|_| !text_withheld);
        let shown = messages::shown(state, message, now);
        let because = self.because(message, now).unwrap_or(shown.because);
        Ok(Response::json(&MessageInfo { text, text_withheld, because, ..shown }))
    }

    /// Whether the caller is no agent, or the one that sent the message or is to read it (U-13).
    fn may_read(&self, message: &Message, caller: Caller) -> bool {
        let pid = match self.who(caller) {
            Who::Person | Who::Program(_) => return true,
            Who::Agent => return false,
            Who::Harness(pid) => pid,
        };
        let Sender::Session(own) = self.sender_of(pid) else { return false };
        let mut records = self.engine.state().sessions_with_id(&own);
        records.any(|one| {
            let is_from = matches!(&message.from, Sender::Session(id) if one.has_id(id));
            is_from || message.session() == Some(one.key)
        })
    }

    /// `POST /v1/queues/{name}/claim`: claims the next message of a queue.
    pub(crate) fn post_claim(&mut self, queue: &str, request: &Request, now: Now) -> Route {
        match parsed(request).and_then(|ask| self.claim(queue, &ask, now)) {
            Ok(Some(claimed)) => self.after_sync(Response::json(&claimed)),
            Ok(None) => Route::Answer(Response::no_content()),
            Err(error) => Route::Answer(error.into()),
        }
    }

    /// Claims the next message of a queue under a lease, if one waits.
    ///
    /// # Errors
    /// Why no message can be claimed.
    pub fn claim(
        &mut self,
        queue: &str,
        ask: &Claim,
        now: Now,
    ) -> Result<Option<Claimed>, RequestError> {
        check_word("as", &ask.holder)?;
        check_name(queue)?;
        // Expires messages first, so that none is handed out after its time to live.
        self.tick(now)?;
        let lease_ms = self.lease_ms(ask.lease_ms)?;
        while let Some(next) = self.engine.state().next_in_queue(queue) {
            let id = next.id;
            let Some(text) = self.text_to_hand_out(id, next.bytes, now)? else { continue };
            let claimed = QueueEvent::Claimed { id, holder: ask.holder.clone(), lease_ms };
            self.record_message(id, &format!("claimed by {}", ask.holder), claimed, now)?;
            let Some(message) = self.engine.state().message(id) else { break };
            let fence = message.lease().map_or(0, |lease| lease.fence);
            return Ok(Some(Claimed {
                message: messages::shown(self.engine.state(), message, now),
                text,
                fence,
            }));
        }
        Ok(None)
    }

    /// The text of a message that is about to be handed out; none if it is lost, which is recorded.
    pub(crate) fn text_to_hand_out(
        &mut self,
        id: MessageId,
        bytes: u32,
        now: Now,
    ) -> Result<Option<String>, RequestError> {
        let text = self.bodies.read(&id.to_string(), u64::from(bytes));
        match text.and_then(|text| String::from_utf8(text).map_err(std::io::Error::other)) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let why = format!("its text cannot be read: {error}");
                self.record_message(id, &why, QueueEvent::Lost { id, why: why.clone() }, now)?;
                Ok(None)
            }
        }
    }

    /// `POST /v1/messages/{id}/VERB`: settles, renews, retries or drops a message.
    pub(crate) fn post_verb(
        &mut self,
        id: &str,
        verb: &str,
        request: &Request,
        caller: Caller,
        now: Now,
    ) -> Route {
        let id = match self.found_message(id) {
            Ok(id) => id,
            Err(error) => return Route::Answer(error.into()),
        };
        let done = match verb {
            "retry" if self.is_for_person(id) => match self.who(caller) {
                Who::Person => self.order_message(id, QueueEvent::Released(id), now),
                Who::Program(_) | Who::Harness(_) | Who::Agent => Err(RequestError::OnlyAPerson),
            },
            "retry" => self
                .check_may_change(id, verb, caller)
                .and_then(|()| self.order_message(id, QueueEvent::Retried(id), now)),
            "drop" => self
                .check_may_change(id, verb, caller)
                .and_then(|()| self.order_message(id, QueueEvent::Dropped(id), now)),
            verb => parsed(request).and_then(|settle| self.settle(id, verb, &settle, now)),
        };
        self.answered(done)
    }

    /// Settles or renews the lease of a consumer on the message that it claimed.
    ///
    /// # Errors
    /// Why the lease was not changed; usually because it is over.
    pub fn settle(
        &mut self,
        id: MessageId,
        verb: &str,
        settle: &Settle,
        now: Now,
    ) -> Result<Sent, RequestError> {
        let fence = settle.fence;
        let (what, event) = match (verb, &settle.why) {
            ("done", _) => ("done".to_owned(), QueueEvent::Done { id, fence }),
            ("renew", _) => {
                let lease_ms = self.lease_ms(settle.lease_ms)?;
                ("renewed".to_owned(), QueueEvent::Renewed { id, fence, lease_ms })
            }
            (_, Some(why)) => {
                check_word("why", why)?;
                let event =
                    QueueEvent::Failed { id, fence, why: why.clone(), is_final: settle.is_final };
                (format!("failed: {why}"), event)
            }
            (_, None) => return Err(RequestError::bad("the body names why")),
        };
        let is_told_again = verb == "done" && self.engine.state().was_done_by(id, fence);
        if !is_told_again {
            self.tick(now)?;
            self.engine.state().held(id, fence)?;
            self.record_message(id, &what, event, now)?;
        }
        self.fate(id, now)
    }

    fn lease_ms(&self, asked: Option<u64>) -> Result<u64, RequestError> {
        match asked {
            None => Ok(self.config.queue.lease.0),
            Some(ms @ 1..=LEASE_MS_MAX) => Ok(ms),
            Some(_) => {
                Err(RequestError::bad("a lease lasts at most 24 hours: renew it for longer work"))
            }
        }
    }

    /// H-50: an agent may drop and retry only the messages that its own session sent.
    fn check_may_change(
        &self,
        id: MessageId,
        verb: &str,
        caller: Caller,
    ) -> Result<(), RequestError> {
        let checked = caller::check_no_agent(&caller::Machine, caller, &self.harnesses());
        let Err(refusal) = checked else { return Ok(()) };
        if let Refusal::BelowHarness(pid) = refusal
            && let Sender::Session(agent) = self.sender_of(pid)
            && self.engine.state().message(id).is_some_and(|one| one.from == Sender::Session(agent))
        {
            return Ok(());
        }
        let why = refusal.line(&format!("`coord queue {verb} {id}`"));
        Err(RequestError::Forbidden { code: refusal.code(), why })
    }

    /// Records a person's order to retry, release or drop a message.
    fn order_message(
        &mut self,
        id: MessageId,
        event: QueueEvent,
        now: Now,
    ) -> Result<Sent, RequestError> {
        self.engine.state().is_free(id)?;
        let is_dropped = event == QueueEvent::Dropped(id);
        let what = if is_dropped { "dropped" } else { "to be tried again" };
        self.record_message(id, what, event, now)?;
        if !is_dropped {
            return self.fate(id, now);
        }
        let (id, state) = (id.to_string(), "dropped".to_owned());
        Ok(Sent { id, state, folded: false, because: None })
    }

    /// Whether a wake hook waits in the session that a message is for; none for a message to a queue.
    fn has_waiter(&self, message: &Message) -> Option<bool> {
        message.session().map(|session| self.is_waiting(session))
    }

    /// Why a message that is ready has not left yet.
    fn because(&self, message: &Message, now: Now) -> Option<String> {
        let state = self.engine.state();
        let is_free = message.is_ready();
        let waits = state.waits_beside(message, self.has_waiter(message), state.moment(now));
        waits.filter(|_| is_free)
    }

    fn fate(&self, id: MessageId, now: Now) -> Result<Sent, RequestError> {
        let state = self.engine.state();
        let message = state.message(id).ok_or(Refused::Gone)?;
        let waits = state.waits_beside(message, self.has_waiter(message), state.moment(now));
        Ok(Sent {
            id: id.to_string(),
            state: message.word().to_owned(),
            folded: false,
            because: waits.filter(|_| message.is_pending()),
        })
    }

    /// Removes the files of messages whose end is durable.
    pub(crate) fn remove_bodies(&mut self) {
        let synced = self.engine.journal().synced_through();
        let gone = std::mem::take(&mut self.gone_bodies);
        for (id, seq) in gone {
            if synced < seq {
                self.gone_bodies.push((id, seq));
            } else if let Err(error) = self.bodies.remove(&id.to_string()) {
                // The next start removes it.
                tracing::warn!(%error, %id, "a message's text was not removed");
            }
        }
    }

    /// Removes the files that belong to no message.
    pub(crate) fn sweep_bodies(&mut self) {
        let names: BTreeSet<String> =
            self.engine.state().messages().map(|message| message.id.to_string()).collect();
        match self.bodies.keep_only(&names) {
            Ok(0) => (),
            Ok(n) => tracing::info!(n, "texts without a message were removed"),
            Err(error) => {
                let text = format!("texts of old messages were not removed: {error}");
                self.conditions.raise(Condition::OldTexts, text);
            }
        }
    }

    pub(crate) fn record_message(
        &mut self,
        id: MessageId,
        what: &str,
        event: QueueEvent,
        now: Now,
    ) -> Result<(), RequestError> {
        let entry = Event::Message { id: id.to_string(), what: what.to_owned(), event };
        Ok(self.record(&entry, now)?)
    }

    pub(crate) fn new_message_id(&mut self) -> MessageId {
        loop {
            let id = MessageId::from_random(self.world.random());
            if self.engine.state().message(id).is_none() {
                return id;
            }
        }
    }

    /// A keyed digest of a text: only the holder of the key can search for the text by it (G11).
    pub(crate) fn text_digest(&self, text: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.text_key);
        hasher.write(text);
        hasher.finish()
    }

    /// The sender that a process below this harness stands for: the harness's session, or an unknown
    /// agent.
    fn sender_of(&self, pid: u32) -> Sender {
        let start_time = process::stat(pid).map(|stat| stat.start_time);
        let process = start_time.map(|start_time| ProcessRef { pid, start_time });
        match process.and_then(|process| self.engine.state().session_in_whose_name(process)) {
            Some(session) => Sender::Session(session.session_id.clone()),
            None => Sender::Agent,
        }
    }

    /// The message with this id, or with the only id that begins with `text`.
    fn found_message(&self, text: &str) -> Result<MessageId, RequestError> {
        if let Some(id) = MessageId::parse(text) {
            let found = self.engine.state().message(id).map(|message| message.id);
            return found.ok_or_else(|| RequestError::NoSuchMessage(text.to_owned()));
        }
        if text.strip_prefix(MessageId::PREFIX).unwrap_or(text).len() < PREFIX_MIN {
            return Err(RequestError::IdTooShort { id: text.to_owned(), min: PREFIX_MIN });
        }
        let mut found = self.engine.state().messages_with_prefix(text);
        let first = found.next().ok_or_else(|| RequestError::NoSuchMessage(text.to_owned()))?;
        match found.next() {
            None => Ok(first.id),
            Some(second) => {
                let found = [first.id, second.id];
                Err(RequestError::AmbiguousId { id: text.to_owned(), found })
            }
        }
    }

    fn answered(&self, result: Result<Sent, RequestError>) -> Route {
        match result {
            Ok(sent) => self.after_sync(Response::json(&sent)),
            Err(error) => Route::Answer(error.into()),
        }
    }
}

pub(crate) fn parsed<T: DeserializeOwned>(request: &Request) -> Result<T, RequestError> {
    serde_json::from_slice(&request.body).map_err(RequestError::bad)
}

fn check(ask: &Send) -> Result<(), RequestError> {
    ask.key.as_ref().map_or(Ok(()), |key| check_word("key", key))?;
    if ask.text.is_empty() {
        return Err(RequestError::bad("The text is empty; nothing was sent."));
    }
    if TEXT_BYTES_MAX < ask.text.len() {
        let (n, max) = (thousands(ask.text.len()), thousands(TEXT_BYTES_MAX));
        let why = format!("The text has {n} bytes; {max} at most. Send a file's path instead.");
        return Err(RequestError::Bad(why));
    }
    if ask.ttl_ms == Some(0) {
        return Err(RequestError::bad("the time to live is 0: leave it out, or use one over 0"));
    }
    Ok(())
}

fn check_name(queue: &str) -> Result<(), RequestError> {
    if is_queue_name(queue) {
        return Ok(());
    }
    Err(RequestError::Bad(format!(
        "{queue:?} is not a valid queue name: use up to {QUEUE_NAME_CHARS_MAX} letters, digits, `-`, `_` and `.`"
    )))
}

fn check_word(name: &str, word: &str) -> Result<(), RequestError> {
    if word.is_empty() || WORD_BYTES_MAX < word.len() || word.chars().any(char::is_control) {
        let why = format!("{name} must be one line of 1 to {WORD_BYTES_MAX} bytes");
        return Err(RequestError::Bad(why));
    }
    Ok(())
}
