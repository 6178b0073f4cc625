//! Hands messages to sessions (S4-24), in a hook's answer or through the wake hook that waits, and looks
//! for the proof that they arrived (H-30).
//!
//! The core decides what leaves, when, on which path, and what counts as proved. That a message leaves
//! is durable before it does, so that it is never handed out again as if it had not left.

use std::collections::{BTreeMap, BTreeSet};

use coord_core::{ANSWER_BYTES_MAX, Admitted, framed_message};
use coord_host::transcript::MessageWish;
use coord_model::{
    Address, DeliveryPath, EventId, MessageId, NewMessage, Now, QueueEvent, Same, Sender,
    SessionKey,
};
use coord_wire::limits::WAKE_BYTES_MAX;
use serde_json::json;

use crate::conditions::Condition;
use crate::coordinator::Coordinator;
use crate::http::Response;
use crate::routes::Route;
use crate::world::World;

/// What the core offers to the hook that reported an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offered {
    pub(crate) event: EventId,
    session: SessionKey,
    delivery: DeliveryPath,
}

impl Offered {
    /// Offers the messages that wait for this session on this path.
    pub(crate) fn new(event: EventId, session: SessionKey, delivery: DeliveryPath) -> Self {
        Self { event, session, delivery }
    }
}

/// A message that is about to go to a wake hook.
#[derive(Debug)]
pub(crate) struct Leaving {
    session: SessionKey,
    id: MessageId,
    fence: u64,
    text: String,
    /// The record that says that the message leaves.
    seq: u64,
}

impl<W: World> Coordinator<W> {
    /// The answer to a hook with all messages that leave in it; none if no message leaves.
    pub(crate) fn hand_to_hook(&mut self, offered: &Offered, now: Now) -> Option<Route> {
        let Offered { session, delivery, .. } = *offered;
        if !self.has_room_for("") {
            return None;
        }
        let (mut context, mut leases) = (String::new(), Vec::new());
        for id in self.outgoing(session, delivery, now) {
            // The first message is cut if it is too long. Those that do not fit after it leave with the
            // next answer.
            let is_first = context.is_empty();
            let bytes_max = if is_first { ANSWER_BYTES_MAX } else { usize::MAX };
            let Some(text) = self.framed(id, bytes_max, now) else { continue };
            let gap = if is_first { "" } else { "\n\n" };
            let has_room = context.len() + gap.len() + text.len() <= ANSWER_BYTES_MAX;
            if !is_first && !has_room {
                break;
            }
            let Some(fence) = self.record_handed(id, delivery, now) else { break };
            leases.push((id, fence));
            context.push_str(gap);
            context.push_str(&text);
        }
        let output = json!({"hookEventName": delivery.event(), "additionalContext": context});
        let answer = Response::json(&json!({"hookSpecificOutput": output}));
        let seq = self.engine.journal().next_seq().saturating_sub(1);
        (!leases.is_empty()).then_some(Route::Handed(seq, answer, leases))
    }

    /// Takes messages back whose hook was gone before it could be answered: they have not left.
    pub fn take_back(&mut self, leases: &[(MessageId, u64)], now: Now) {
        for (id, fence) in leases {
            let why = "its hook did not wait for the disk".to_owned();
            let returned = QueueEvent::Returned { id: *id, fence: *fence, why: why.clone() };
            self.note_message(*id, &why, returned, now);
        }
    }

    fn outgoing(&self, session: SessionKey, delivery: DeliveryPath, now: Now) -> Vec<MessageId> {
        let state = self.engine.state();
        let session = state.session(session);
        session.map_or_else(Vec::new, |one| state.outgoing(one, delivery, state.moment(now)))
    }

    /// A message as its agent reads it. If the text cannot be read, the message fails, and its record
    /// says why.
    fn framed(&mut self, id: MessageId, bytes_max: usize, now: Now) -> Option<String> {
        let bytes = self.engine.state().message(id)?.bytes;
        let text = self.bodies.read(&id.to_string(), u64::from(bytes));
        match text.and_then(|text| String::from_utf8(text).map_err(std::io::Error::other)) {
            Ok(text) => {
                let state = self.engine.state();
                Some(framed_message(state, state.message(id)?, &text, bytes_max))
            }
            Err(error) => {
                let why = format!("its text cannot be read: {error}");
                self.note_message(id, &why, QueueEvent::Lost { id, why: why.clone() }, now);
                None
            }
        }
    }

    /// Records that a message leaves, and returns the fence of its lease.
    fn record_handed(&mut self, id: MessageId, delivery: DeliveryPath, now: Now) -> Option<u64> {
        let lease_ms = self.config.queue.lease.0;
        let what = format!("handed over by {}", delivery.event());
        self.note_message(id, &what, QueueEvent::Handed { id, delivery, lease_ms }, now);
        self.engine.state().message(id)?.lease().map(|lease| lease.fence)
    }

    /// Records which messages leave for idle sessions in which a wake hook waits.
    pub(crate) fn prepare_wakes(&mut self, now: Now) {
        if !self.has_room_for("") {
            return;
        }
        let waiting = self.engine.state().sessions_with_messages();
        let waiting: Vec<SessionKey> = waiting.filter(|key| self.is_waiting(*key)).collect();
        for session in waiting {
            let Some(id) = self.outgoing(session, DeliveryPath::Wake, now).first().copied() else {
                continue;
            };
            let Some(text) = self.framed(id, WAKE_BYTES_MAX, now) else { continue };
            if let Some(fence) = self.record_handed(id, DeliveryPath::Wake, now) {
                let seq = self.engine.journal().next_seq().saturating_sub(1);
                self.leaving.push_back(Leaving { session, id, fence, text, seq });
            }
        }
        if !self.leaving.is_empty() {
            self.sync_if_due(true, now);
        }
    }

    /// Wakes the sessions whose messages are recorded durably as leaving. A message that no wake hook
    /// takes has not left.
    pub(crate) fn wake_with_messages(&mut self, now: Now) {
        let synced = self.engine.journal().synced_through();
        while self.leaving.front().is_some_and(|one| one.seq <= synced) {
            let Some(leaving) = self.leaving.pop_front() else { return };
            let Leaving { session, id, fence, text, .. } = leaving;
            if self.hand_over(session, &text) {
                continue;
            }
            let why = "the wake hook was gone before the message left".to_owned();
            let returned = QueueEvent::Returned { id, fence, why: why.clone() };
            self.note_message(id, &why, returned, now);
        }
    }

    /// Returns the messages that were about to go to wake hooks, so that they wait again.
    pub(crate) fn return_leaving(&mut self, why: &str, now: Now) {
        for Leaving { id, fence, .. } in std::mem::take(&mut self.leaving) {
            let returned = QueueEvent::Returned { id, fence, why: why.to_owned() };
            self.note_message(id, why, returned, now);
        }
    }

    /// Whether messages to this session have left and their arrival is unproved.
    pub(crate) fn seeks_messages(&self, session: SessionKey) -> bool {
        !self.engine.state().on_their_way(session).is_empty()
    }

    /// Looks for the arrival of a session's messages in its transcript, now and at each change of the
    /// file.
    pub(crate) fn seek_messages(&mut self, key: SessionKey) {
        let state = self.engine.state();
        let Some(session) = state.session(key) else { return };
        let (path, config_dir) = (&session.transcript_path, &session.config_dir);
        let mut wishes: BTreeMap<(String, String), BTreeSet<MessageId>> = BTreeMap::new();
        for message in state.on_their_way(key) {
            let sought = message.sought();
            let place = sought.map_or((path, config_dir), |one| (&one.path, &one.config_dir));
            wishes.entry((place.0.clone(), place.1.clone())).or_default().insert(message.id);
        }
        let owner = session.owner.as_ref().filter(|_| session.may_live() && !wishes.is_empty());
        if let Some(process) = owner.map(|owner| owner.id.process) {
            let path = path.clone();
            self.world.watch_transcript(process, &path);
        }
        for ((path, config_dir), ids) in wishes {
            self.world.seek_messages(MessageWish { path, config_dir, ids, is_last: false });
        }
    }

    /// Takes the last look for a message whose lease is over.
    pub(crate) fn seek_last(&mut self, id: MessageId) {
        let sought = self.engine.state().message(id).and_then(coord_core::Message::sought).cloned();
        if let Some(sought) = sought {
            let ids = BTreeSet::from([id]);
            let wish = MessageWish {
                path: sought.path,
                config_dir: sought.config_dir,
                ids,
                is_last: true,
            };
            self.world.seek_messages(wish);
        }
    }

    /// Records which messages a look found, and which it missed.
    pub(crate) fn on_messages_seen(
        &mut self,
        arrived: &[MessageId],
        missed: &[MessageId],
        now: Now,
    ) {
        for id in arrived {
            let open = self.engine.state().message(*id);
            if open.is_some_and(|message| message.word() != "processed") {
                self.note_message(*id, "delivered", QueueEvent::Proved(*id), now);
            }
        }
        for id in missed {
            self.note_message(*id, "not found in the transcript", QueueEvent::Unproved(*id), now);
        }
    }

    /// Sends a session a notice of another session's end.
    pub(crate) fn send_notice(
        &mut self,
        to: SessionKey,
        (about, name): (SessionKey, String),
        text: &str,
        now: Now,
    ) {
        let new = NewMessage {
            id: self.new_message_id(),
            to: Address::Session(to),
            from: Sender::Coord,
            is_urgent: false,
            depth: 0,
            same: Same::Key(name, self.text_digest(text.as_bytes())),
            bytes: u32::try_from(text.len()).unwrap_or(u32::MAX),
            ttl_ms: None,
        };
        match self.engine.state().admits(&new) {
            Admitted::Folded(_) | Admitted::OtherText(_) => (),
            Admitted::New => {
                if let Err(error) = self.accept(new, text, now) {
                    // The next look at the session that ended, or the next start, tries again.
                    tracing::error!(?about, %error, "the notice of an end was not sent");
                    let text = format!("the notice of a session's end was not sent: {error}");
                    self.conditions.raise(Condition::EndNotice, text);
                } else {
                    self.conditions.clear(Condition::EndNotice);
                }
            }
            Admitted::Full(cap) => {
                let why = format!(
                    "{cap} messages wait for a session: a notice of an end was not sent to it"
                );
                self.conditions.raise(Condition::EndNotice, why);
            }
        }
    }

    /// Records a change of a message whose result nobody waits for. A failure is shown to people.
    fn note_message(&mut self, id: MessageId, what: &str, event: QueueEvent, now: Now) {
        if self.record_message(id, what, event, now).is_err() {
            let text = format!("a change of a message was not recorded: {what}");
            self.conditions.raise(Condition::Message, text);
        } else {
            self.conditions.clear(Condition::Message);
        }
    }
}
