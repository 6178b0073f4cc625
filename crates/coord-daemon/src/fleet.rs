//! `/v1/fleet`: what the relay carries to and from other machines (F-05, F-06).
//!
//! The relay is believed nothing. What arrives is sealed by its sender, and the seal is opened here; whether its sender may
//! send is on this machine's own list. Every answer is durable before it is sent, so the relay may have the engine forget
//! what it was told is kept.

use coord_core::{Admitted, Arrival, REMOTE_TTL_MS_MAX};
use coord_fleet::{FateReport, RemoteMessage};
use coord_host::process::Caller;
use coord_model::{
    Address, Fate, MachineId, MessageId, NewMessage, Now, Origin, QueueEvent, RemoteSender,
    RemoteWho, Same, Sender,
};
use coord_view::lookup;
use coord_wire::fleet::{
    InboxAnswer, InboxItem, ItemKind, ItemVerdict, Outbox, OutboxAsk, OutgoingMessage, SentFate,
};
use coord_wire::message::TEXT_BYTES_MAX;

use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::messages::parsed;
use crate::operator::caller;
use crate::request_error::RequestError;
use crate::routes::Route;
use crate::world::{Membership, World};

/// Messages that the relay gets at once. It asks again when they are sent.
const OUTBOX_MAX: usize = 16;
/// Fates that the relay gets at once.
const FATES_MAX: usize = 256;

/// Why an item is not kept, and whether that is final.
struct NotKept {
    verdict: ItemVerdict,
    why: String,
}

fn refused(why: impl Into<String>) -> NotKept {
    NotKept { verdict: ItemVerdict::Refused, why: why.into() }
}

fn later(why: impl Into<String>) -> NotKept {
    NotKept { verdict: ItemVerdict::Later, why: why.into() }
}

impl From<RequestError> for NotKept {
    fn from(error: RequestError) -> Self {
        later(error.to_string())
    }
}

impl<W: World> Coordinator<W> {
    /// `POST /v1/fleet/outbox`: what is to be sent to other machines.
    pub(crate) fn post_outbox(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        let found = self
            .check_relay(caller)
            .and_then(|()| parsed(request))
            .and_then(|ask| self.outbox(&ask, now));
        match found {
            Ok(outbox) => self.after_sync(Response::json(&outbox)),
            Err(error) => Route::Answer(error.into()),
        }
    }

    /// `POST /v1/fleet/inbox`: an item that arrived.
    pub(crate) fn post_inbox(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        let item = self.check_relay(caller).and_then(|()| parsed(request));
        match item {
            Ok(item) => {
                let answer = self.take_item(&item, now);
                self.after_sync(Response::json(&answer))
            }
            Err(error) => Route::Answer(error.into()),
        }
    }

    /// H-50: an agent neither takes messages away from the relay nor says that they were sent.
    pub(crate) fn check_relay(&self, caller: Caller) -> Result<(), RequestError> {
        let checked = caller::check_no_agent(&caller::Machine, caller, &self.harnesses());
        checked.map(|_| ()).map_err(|refusal| RequestError::Forbidden {
            code: refusal.code(),
            why: refusal.line("`coord fleet relay`"),
        })
    }

    /// The messages and fates that the relay is to send. It has each message under a lease.
    ///
    /// # Errors
    /// Something could not be recorded.
    pub fn outbox(&mut self, ask: &OutboxAsk, now: Now) -> Result<Outbox, RequestError> {
        for SentFate { machine, id, fate } in &ask.sent {
            let what = format!("told {machine} of its fate");
            let (machine, id, fate) = (*machine, *id, fate.clone());
            self.record_message(id, &what, QueueEvent::FateSent { machine, id, fate }, now)?;
        }
        self.tick(now)?;
        let journal = self.engine.journal();
        let (durable, newest) = (journal.synced_through(), journal.next_seq().saturating_sub(1));
        let mut outbox = Outbox { durable, newest, ..Outbox::default() };
        if !ask.takes {
            return Ok(outbox);
        }
        let ids: Vec<MessageId> =
            self.engine.state().for_other_machines().take(OUTBOX_MAX).map(|one| one.id).collect();
        for id in ids {
            outbox.messages.extend(self.hand_to_relay(id, now)?);
        }
        let fates = self.engine.state().unsent_fates().take(FATES_MAX);
        let sent = |(machine, id, fate): (MachineId, MessageId, &Fate)| SentFate {
            machine,
            id,
            fate: fate.clone(),
        };
        outbox.fates = fates.map(sent).collect();
        Ok(outbox)
    }

    fn hand_to_relay(
        &mut self,
        id: MessageId,
        now: Now,
    ) -> Result<Option<OutgoingMessage>, RequestError> {
        let state = self.engine.state();
        let at = state.moment(now);
        let Some(message) = state.message(id) else { return Ok(None) };
        let Some(to) = message.remote().cloned() else { return Ok(None) };
        let (lease_ms, bytes) = (state.attempt_ms(message, at), message.bytes);
        let Some(text) = self.text_to_hand_out(id, bytes, now)? else { return Ok(None) };
        let claimed = QueueEvent::Claimed { id, holder: to.name.clone(), lease_ms };
        self.record_message(id, &format!("handed to the relay for {}", to.name), claimed, now)?;
        let Some(message) = self.engine.state().message(id) else { return Ok(None) };
        let left = message.expires.map(|expires| expires.awake.ms_since(at.awake));
        Ok(Some(OutgoingMessage {
            id,
            to,
            number: message.number,
            who: who(&message.from),
            urgent: message.is_urgent,
            depth: message.depth,
            ttl_ms: left.unwrap_or(REMOTE_TTL_MS_MAX),
            fence: message.lease().map_or(0, |lease| lease.fence),
            text,
        }))
    }

    /// Takes in what arrived, as far as its seal and this machine's list allow.
    pub fn take_item(&mut self, item: &InboxItem, now: Now) -> InboxAnswer {
        let taken = match self.world.membership() {
            Ok(Some(membership)) => match item.kind {
                ItemKind::Message => self.take_message(item, &membership, now),
                ItemKind::Fate => self.take_fate(item, &membership, now),
            },
            Ok(None) => Err(later("this machine has joined no fleet")),
            Err(why) => Err(later(why)),
        };
        match taken {
            Ok(()) => InboxAnswer { verdict: ItemVerdict::Kept, why: String::new() },
            Err(NotKept { verdict, why }) => {
                tracing::warn!(kind = ?item.kind, %why, "an item from another machine was not kept");
                InboxAnswer { verdict, why }
            }
        }
    }

    fn take_message(
        &mut self,
        item: &InboxItem,
        membership: &Membership,
        now: Now,
    ) -> Result<(), NotKept> {
        let opened = RemoteMessage::open(item.sealed.as_bytes());
        let (key, message) = opened.map_err(|why| refused(why.to_string()))?;
        if message.to != membership.machine {
            return Err(refused("it is for another machine"));
        }
        let allowed = membership.allowed.get(key.machine()).filter(|one| one.may_send);
        let Some(allowed) = allowed else {
            return Err(refused(format!("machine {} is not on the list", key.machine())));
        };
        let origin = message.origin(key.machine());
        let state = self.engine.state();
        match state.arrival(&origin, state.moment(now)) {
            Arrival::New => (),
            Arrival::Known(_) => {
                let Origin { machine, id, .. } = origin;
                let again = QueueEvent::CameAgain { machine, id };
                return Ok(self.record_message(id, "came again", again, now)?);
            }
            Arrival::TooOld => return Err(refused("it came before, long ago")),
            Arrival::Full => return Err(later("too many of its messages are remembered")),
        }
        let ttl_ms = message.ttl_ms.min(REMOTE_TTL_MS_MAX).saturating_sub(item.age_ms);
        if ttl_ms == 0 {
            return Err(refused("its time is over"));
        }
        let sender = RemoteSender {
            origin: origin.clone(),
            name: allowed.name.clone(),
            who: message.who.clone(),
        };
        match self.local_message(&message, sender, ttl_ms) {
            Ok(new) => match self.engine.state().admits(&new) {
                Admitted::New => {
                    self.has_room_for_text(message.text.len())?;
                    self.accept(new, &message.text, now)?;
                    Ok(())
                }
                Admitted::Full(cap) => {
                    Err(later(format!("{cap} messages wait for the session already")))
                }
                // Its origin is part of its sender, so none is the same.
                Admitted::Folded(_) | Admitted::OtherText(_) => Ok(()),
            },
            Err(why) => {
                let what = format!("from {} not taken: {why}", allowed.name);
                let id = origin.id;
                self.record_message(id, &what, QueueEvent::NotTaken { origin, why }, now)?;
                Ok(())
            }
        }
    }

    /// The message as it is kept here.
    ///
    /// # Errors
    /// Why it never can be, for its sender.
    fn local_message(
        &mut self,
        message: &RemoteMessage,
        sender: RemoteSender,
        ttl_ms: u64,
    ) -> Result<NewMessage, String> {
        if message.text.is_empty() || TEXT_BYTES_MAX < message.text.len() {
            return Err("its text is empty or too long".to_owned());
        }
        let found = lookup::find(self.engine.state(), &message.session);
        let found = found.map_err(|error| error.to_string())?;
        let key = found.iter().map(|session| session.key).max();
        let key = key.ok_or_else(|| format!("no session {}", message.session))?;
        Ok(NewMessage {
            id: self.new_message_id(),
            to: Address::Session(key),
            from: Sender::Remote(sender),
            is_urgent: message.urgent,
            depth: message.depth,
            same: Same::Text(self.text_digest(message.text.as_bytes())),
            bytes: u32::try_from(message.text.len()).unwrap_or(u32::MAX),
            ttl_ms: Some(ttl_ms),
        })
    }

    fn take_fate(
        &mut self,
        item: &InboxItem,
        membership: &Membership,
        now: Now,
    ) -> Result<(), NotKept> {
        let opened = FateReport::open(item.sealed.as_bytes());
        let (key, report) = opened.map_err(|why| refused(why.to_string()))?;
        if report.to != membership.machine {
            return Err(refused("it is for another machine"));
        }
        let Some(message) = self.engine.state().message(report.id) else {
            // Its retention is over: nobody asks any more.
            return Ok(());
        };
        // The machine that a message was sent to is the only one that knows.
        if message.remote().is_none_or(|to| to.machine != key.machine()) {
            return Err(refused("the message was sent to another machine"));
        }
        let what = match &report.fate {
            Fate::Accepted => "kept on the other machine".to_owned(),
            Fate::Processed => "delivered on the other machine".to_owned(),
            Fate::Failed(why) => format!("failed on the other machine: {why}"),
        };
        let FateReport { id, fate, .. } = report;
        Ok(self.record_message(id, &what, QueueEvent::FateHeard { id, fate }, now)?)
    }
}

/// Who sent a message, as another machine is told.
fn who(from: &Sender) -> RemoteWho {
    match from {
        Sender::Operator => RemoteWho::Operator,
        Sender::Session(id) => RemoteWho::Session(id.clone()),
        Sender::Agent | Sender::Program(_) | Sender::Coord | Sender::Remote(_) => RemoteWho::Other,
    }
}
