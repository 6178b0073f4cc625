//! Decides what becomes of a message (S4-01, S4-19, S4-20, S4-22, S4-23): done, returned with a delay, failed with
//! a reason, or dropped after its retention period.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use coord_model::{
    Address, Awake, Effect, Fate, MessageId, Moment, NewMessage, QueueEvent, RemoteSender, Sender,
    SessionKey,
};

use crate::effects::Effects;
use crate::records::{LineCounts, Message, MessageState, State};

/// Why an operation on a message is refused. Shown in one line, with what to do instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// There is no such message.
    Gone,
    /// Its lease ran out, and somebody else has the message.
    Taken {
        /// The present holder.
        holder: String,
    },
    /// Nobody has the message.
    NotHeld {
        /// The name of its state.
        state: &'static str,
    },
    /// Somebody works on it.
    WorkedOn {
        /// The present holder.
        holder: String,
    },
    /// It is done.
    Done,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => {
                f.write_str("the message no longer exists: it was dropped or has expired")
            }
            Self::Taken { holder } => write!(
                f,
                "this lease ran out and {holder} has the message now, so its work may be done twice; claim with a longer --lease, or renew in time"
            ),
            Self::NotHeld { state } => write!(
                f,
                "this lease has ended, and the message is {state}: claim with a longer --lease, or renew in time"
            ),
            Self::WorkedOn { holder } => {
                write!(
                    f,
                    "{holder} is working on the message; wait until it is done or the lease runs out"
                )
            }
            Self::Done => f.write_str("the message is already done; send it again instead"),
        }
    }
}

impl State {
    /// The message with this id.
    pub fn message(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(id)
    }

    /// All messages.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.messages.all()
    }

    /// The messages whose ids begin with these letters, `m_` or not.
    pub fn messages_with_prefix(&self, prefix: &str) -> impl Iterator<Item = &Message> {
        let letters = prefix.strip_prefix(MessageId::PREFIX).unwrap_or(prefix);
        let range = MessageId::beginning(letters);
        range.into_iter().flat_map(|[from, to]| self.messages.between(from, to))
    }

    /// All receivers that have messages, and how many of these are in which state.
    pub fn message_lines(&self) -> impl Iterator<Item = (&Address, LineCounts)> {
        self.messages.lines()
    }

    /// How many messages of this receiver are in which state.
    pub fn message_counts(&self, to: &Address) -> LineCounts {
        self.messages.counts(to)
    }

    /// Whether the message was done under this lease. A consumer that did not hear the answer asks again.
    pub fn was_done_by(&self, id: MessageId, lease: u64) -> bool {
        let is_it = |state: &MessageState| match state {
            MessageState::Processed { fence, .. } => *fence == lease,
            MessageState::Pending { .. }
            | MessageState::Processing(_)
            | MessageState::Failed { .. } => false,
        };
        self.messages.get(id).is_some_and(|message| is_it(&message.state))
    }

    /// Checks whether a person may have the message retried or dropped.
    ///
    /// # Errors
    /// The message does not exist, is being worked on, or is done.
    pub fn is_free(&self, id: MessageId) -> Result<(), Refused> {
        match &self.messages.get(id).ok_or(Refused::Gone)?.state {
            MessageState::Pending { .. } | MessageState::Failed { .. } => Ok(()),
            MessageState::Processing(lease) => {
                Err(Refused::WorkedOn { holder: lease.holder.clone() })
            }
            MessageState::Processed { .. } => Err(Refused::Done),
        }
    }

    /// Applies what happened to a message. A report that is late does nothing. Returns the session that changed.
    pub(crate) fn on_queue(
        &mut self,
        event: &QueueEvent,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        match event {
            QueueEvent::Sent(new) => {
                if let Sender::Remote(RemoteSender { origin, .. }) = &new.from {
                    self.header.from_machines.receive(origin, Fate::Accepted, at.awake);
                }
                self.accept(new, at);
                return self.note_sent(&new.to);
            }
            QueueEvent::Handed { id, delivery, lease_ms } => {
                return self.hand_over(*id, *delivery, *lease_ms, at, fx);
            }
            QueueEvent::Folded(id) => self.fold(*id),
            QueueEvent::Claimed { id, holder, lease_ms } => self.claim(*id, holder, *lease_ms, at),
            QueueEvent::Renewed { id, fence, lease_ms } => self.renew(*id, *fence, *lease_ms, at),
            QueueEvent::Done { id, fence } => self.done(*id, *fence, at),
            QueueEvent::Failed { id, fence, why, is_final } => {
                if self.held(*id, *fence).is_err() {
                    return None;
                }
                if *is_final {
                    self.fail_message(*id, why, at, fx);
                } else {
                    self.give_back(*id, why, false, at, fx);
                }
            }
            QueueEvent::Proved(id) => self.arrived(*id, at, fx),
            QueueEvent::Unproved(id) => self.missed(*id, at, fx),
            QueueEvent::Returned { id, fence, why } => {
                self.take_back(*id, *fence, why, fx);
                return self.messages.get(*id).and_then(Message::session);
            }
            QueueEvent::Lost { id, why } => {
                if !self.take_again(*id, why, fx) {
                    self.fail_message(*id, why, at, fx);
                }
            }
            QueueEvent::Retried(id) => self.retry(*id, fx),
            QueueEvent::Released(id) => self.release(*id, fx),
            QueueEvent::Dropped(id) => self.drop_message(*id, fx),
            QueueEvent::NotTaken { origin, why } => {
                self.header.from_machines.receive(origin, Fate::Failed(why.clone()), at.awake);
            }
            QueueEvent::CameAgain { machine, id } => {
                self.header.from_machines.send_again(*machine, *id);
            }
            QueueEvent::FateSent { machine, id, fate } => {
                self.header.from_machines.note_sent(*machine, *id, fate);
            }
            QueueEvent::FateHeard { id, fate } => self.on_fate(*id, fate, at, fx),
        }
        None
    }

    /// Notes that a session was sent a message: from then on it keeps a waiter (H-02).
    fn note_sent(&mut self, to: &Address) -> Option<SessionKey> {
        let Address::Session(key) = to else { return None };
        let mut session = self.take(*key)?;
        session.inbox.note_sent();
        self.put(session);
        Some(*key)
    }

    fn fold(&mut self, id: MessageId) {
        let head = &mut self.header.queue;
        head.folded = head.folded.saturating_add(1);
        self.messages.change(id, |message| message.folded = message.folded.saturating_add(1));
    }

    fn done(&mut self, id: MessageId, fence: u64, at: Moment) {
        if self.held(id, fence).is_ok() {
            self.process(id, fence, at);
        }
    }

    /// Marks a message as done under this lease.
    pub(super) fn process(&mut self, id: MessageId, fence: u64, at: Moment) {
        let head = &mut self.header.queue;
        head.processed = head.processed.saturating_add(1);
        let until = at.awake.plus_ms(self.header.settings.queue.processed_kept_ms);
        self.messages.change(id, |one| one.state = MessageState::Processed { at, until, fence });
        self.note_fate(id, Fate::Processed);
    }

    fn retry(&mut self, id: MessageId, fx: &mut Effects) {
        if self.is_free(id).is_ok() {
            self.messages.change(id, |message| {
                message.attempts = 0;
                message.state = MessageState::Pending { not_before: None };
            });
            decide(id, "S4-19", "a person asked for it", "retried", fx);
        }
    }

    fn release(&mut self, id: MessageId, fx: &mut Effects) {
        if self.is_free(id).is_ok() {
            self.messages.change(id, |message| message.is_released = true);
            decide(id, "H-21", "a person asked for it", "released", fx);
        }
    }

    fn drop_message(&mut self, id: MessageId, fx: &mut Effects) {
        if self.is_free(id).is_ok() {
            let head = &mut self.header.queue;
            head.failed = head.failed.saturating_add(1);
            self.note_fate(id, Fate::Failed("a person dropped it".into()));
            self.forget(id, fx);
            decide(id, "S4-01", "a person asked for it", "dropped", fx);
        }
    }

    /// Updates the messages that change by time alone.
    pub(crate) fn messages_due(&mut self, at: Moment, fx: &mut Effects) {
        for id in self.messages.due(at.awake) {
            let Some(message) = self.messages.get(id) else { continue };
            let is_expired = message.expires.is_some_and(|expires| expires.awake <= at.awake);
            match message.state {
                MessageState::Pending { .. } if is_expired => {
                    let remote = message.remote().map(|to| to.name.clone());
                    let why = remote.map_or_else(
                        || "its time (--ttl) ran out".to_string(),
                        |name| format!("undeliverable: {name} did not report its fate in time"),
                    );
                    self.fail_message(id, &why, at, fx);
                }
                MessageState::Pending { .. } => {
                    self.messages
                        .change(id, |one| one.state = MessageState::Pending { not_before: None });
                }
                MessageState::Processing(_) => self.end_lease(id, at, fx),
                MessageState::Processed { .. } | MessageState::Failed { .. } => {
                    self.forget(id, fx);
                }
            }
        }
        self.sweep(at, fx);
    }

    /// When a message changes by time alone.
    pub(crate) fn message_deadline(&self) -> Option<Awake> {
        self.messages.next_deadline().into_iter().chain(self.sweep_at()).min()
    }

    /// Adapts the messages to a new boot, whose clock restarted. Holders of messages are gone, and a retention
    /// period keeps its remaining time (H-32).
    pub(crate) fn rebase_messages(&mut self, at: Moment, fx: &mut Effects) {
        self.header.queue.swept = at.awake;
        let limits = self.header.settings.queue;
        let ids: alloc::vec::Vec<MessageId> = self.messages.all().map(|one| one.id).collect();
        for id in ids {
            let rest = |since: Moment, kept_ms: u64| {
                at.awake.plus_ms(kept_ms.saturating_sub(at.wall_ms.saturating_sub(since.wall_ms)))
            };
            self.messages.change(id, |message| {
                if let Some(expires) = &mut message.expires {
                    expires.awake = at.awake.plus_ms(expires.wall_ms.saturating_sub(at.wall_ms));
                }
                match &mut message.state {
                    MessageState::Pending { not_before } => *not_before = None,
                    MessageState::Processing(lease) => lease.until = at.awake,
                    MessageState::Processed { at, until, .. } => {
                        *until = rest(*at, limits.processed_kept_ms);
                    }
                    MessageState::Failed { at, until, .. } => {
                        *until = rest(*at, limits.failed_kept_ms);
                    }
                }
            });
        }
        self.messages_due(at, fx);
    }

    fn accept(&mut self, new: &NewMessage, at: Moment) {
        let head = &mut self.header.queue;
        head.sent = head.sent.saturating_add(1);
        head.next_number = head.next_number.saturating_add(1);
        let expires = new.ttl_ms.map(|ttl_ms| Moment {
            awake: at.awake.plus_ms(ttl_ms),
            wall_ms: at.wall_ms.saturating_add(ttl_ms),
        });
        self.messages.put(Message {
            id: new.id,
            number: head.next_number,
            to: new.to.clone(),
            from: new.from.clone(),
            is_urgent: new.is_urgent,
            depth: new.depth,
            is_released: false,
            same: new.same.clone(),
            bytes: new.bytes,
            sent: at,
            expires,
            folded: 0,
            attempts: 0,
            maybe_duplicate: false,
            last_failure: None,
            accepted: None,
            state: MessageState::Pending { not_before: None },
        });
    }

    /// Ends a failed attempt: the message is retried later, or not at all.
    pub(super) fn give_back(
        &mut self,
        id: MessageId,
        why: &str,
        may_be_done: bool,
        at: Moment,
        fx: &mut Effects,
    ) {
        let limits = self.header.settings.queue;
        let Some(attempts) = self.messages.get(id).map(|message| message.attempts) else { return };
        self.messages.change(id, |message| message.maybe_duplicate |= may_be_done);
        if limits.retries < attempts {
            let tried = format!("{why}; tried {attempts} times");
            return self.fail_message(id, &tried, at, fx);
        }
        let delay_ms = limits.delay.after_ms(attempts);
        self.messages.change(id, |message| {
            message.last_failure = Some(why.into());
            message.state = MessageState::Pending { not_before: Some(at.awake.plus_ms(delay_ms)) };
        });
        let did = format!("attempt {attempts} failed; the next one is in {} s", delay_ms / 1_000);
        decide(id, "S4-23", why, &did, fx);
    }

    pub(super) fn fail_message(&mut self, id: MessageId, why: &str, at: Moment, fx: &mut Effects) {
        let head = &mut self.header.queue;
        head.failed = head.failed.saturating_add(1);
        let until = at.awake.plus_ms(self.header.settings.queue.failed_kept_ms);
        let reason: String = why.into();
        self.messages.change(id, |one| one.state = MessageState::Failed { at, until, reason });
        self.note_fate(id, Fate::Failed(why.into()));
        decide(id, "S4-23", why, "failed; kept until retried or dropped", fx);
        if let Some(message) = self.messages.get(id) {
            self.request_failure_notice(message, at, fx);
        }
    }

    pub(super) fn forget(&mut self, id: MessageId, fx: &mut Effects) {
        if self.messages.remove(id) {
            fx.effects.push(Effect::RemoveBody { message: id });
        }
    }
}

fn decide(id: MessageId, rule: &'static str, saw: &str, did: &str, fx: &mut Effects) {
    fx.decide_about(id.to_string(), rule, saw, did);
}
