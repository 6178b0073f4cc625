//! Decides when a message leaves for its session, and by which *delivery path* (S4-24, H-02, H-13, H-21, H-30). A
//! message leaves in the answer to a hook that is waiting anyway, else by the wake hook. It is never typed, and
//! never goes to a subagent.
//!
//! A delivery path is open at one moment of the session's life, and closed for a reason that people can read. That
//! a message left does not prove that it arrived (`proof` of H-30). Until that proof it is in transit, under a
//! lease that ends with a last look.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use coord_model::{
    Address, DeliveryPath, Effect, HookEvent, HookKind, Kind, MessageId, Moment, SessionKey,
    SessionState, StartSource, ToolPhase, Via,
};

use crate::effects::Effects;
use crate::records::{
    Message, MessageState, Pending, Presence, Session, Sought, Starter, State, Turn,
};

/// Maximum size of an answer, in bytes. Of a longer context, the client gives its model only the beginning
/// (measured: 10,000 characters).
pub const ANSWER_BYTES_MAX: usize = 8_000;
/// Maximum number of messages in one answer.
const BATCH_MAX: usize = 8;
/// Approximate number of bytes that a frame adds to a text.
const FRAME_BYTES: usize = 500;
/// How long the last look may take, in milliseconds.
const LOOK_MS: u64 = 30_000;

impl State {
    /// Offers the pending messages of a session to the hook that reports this event, if that is a delivery path.
    pub(crate) fn offer(&self, session: &Session, event: &HookEvent, at: Moment, fx: &mut Effects) {
        let counts = self.messages.counts(&Address::Session(session.key));
        if !self.on_their_way(session.key).is_empty() {
            fx.ask(Effect::SeekMessages { session: session.key });
        }
        if session.unproved_replies().next().is_some() {
            fx.ask(Effect::SeekDecisions { session: session.key });
        }
        let is_its_own = event.is_verified() && event.via == Via::Socket && event.agent.is_none();
        let Some(delivery) =
            delivery_path_of(session, event, at).filter(|_| is_its_own && 0 < counts.pending)
        else {
            return;
        };
        if !self.outgoing(session, delivery, at).is_empty() {
            fx.ask(Effect::Offer { event: event.id, session: session.key, delivery });
        }
    }

    /// The messages that leave by this delivery path now, in order: urgent ones first, as many as fit. A wake
    /// takes only one.
    pub fn outgoing(
        &self,
        session: &Session,
        delivery: DeliveryPath,
        at: Moment,
    ) -> Vec<MessageId> {
        if self.why_blocked(session, delivery, at).is_some() {
            return Vec::new();
        }
        let n_max = if delivery == DeliveryPath::Wake { 1 } else { BATCH_MAX };
        let (mut all, mut bytes) = (Vec::new(), 0_usize);
        for message in self.messages.ready(&Address::Session(session.key)) {
            if delivery == DeliveryPath::Tool && !message.is_urgent {
                break;
            }
            if !self.takes(message, session) {
                continue;
            }
            let size = usize::try_from(message.bytes).unwrap_or(usize::MAX);
            bytes = bytes.saturating_add(size).saturating_add(FRAME_BYTES);
            if !all.is_empty() && ANSWER_BYTES_MAX < bytes {
                break;
            }
            all.push(message.id);
            if n_max <= all.len() {
                break;
            }
        }
        all
    }

    /// The sessions with pending messages that could leave.
    pub fn sessions_with_messages(&self) -> impl Iterator<Item = SessionKey> {
        self.messages.sessions_with_ready()
    }

    /// Why nothing is handed to this session now; none if messages can be handed over.
    fn why_blocked(&self, session: &Session, delivery: DeliveryPath, at: Moment) -> Option<String> {
        self.why_unreachable(session, at).or_else(|| match delivery {
            DeliveryPath::Start | DeliveryPath::Prompt | DeliveryPath::Tool => None,
            DeliveryPath::Stop => self.why_over_budget(session, at),
            DeliveryPath::Wake => {
                self.why_not_woken(session).or_else(|| self.why_over_budget(session, at))
            }
        })
    }

    /// Why nothing reaches the session's agent at all; none if messages can reach it.
    fn why_unreachable(&self, session: &Session, at: Moment) -> Option<String> {
        if session.two_owners {
            return Some("two processes hold the session".into());
        }
        if !self.is_local(session) || session.is_foreign {
            return Some("this coordinator does not manage the session".into());
        }
        if let Some(hold) = self.operators_hold(session, at.awake) {
            return Some(format!("{}; delivered after that", hold.reason));
        }
        if session.recovery.pending.as_ref().is_some_and(Pending::is_under_way) {
            return Some("the session is being recovered".into());
        }
        let gone = match *session.presence {
            Presence::Alive => None,
            Presence::Crashed { .. } => Some("the session crashed; delivered when it is recovered"),
            Presence::Ended { .. } | Presence::Interrupted { .. } => {
                Some("the session has ended; delivered when it is resumed")
            }
            Presence::Dying { .. } | Presence::Gone { .. } => Some(
                "the client is gone, and how it ended is unknown; delivered when the session is resumed",
            ),
        };
        if let Some(why) = gone {
            return Some(why.into());
        }
        session.quota.map(|quota| format!("the session waits for {}", quota.waited_for.words()))
    }

    /// Why the session is not woken; none if it can be.
    fn why_not_woken(&self, session: &Session) -> Option<String> {
        let is_ours = session.owner.as_ref().is_some_and(|owner| owner.has_reported)
            && self.header.config_dirs.get(&session.config_dir) == Some(&true);
        let why = if session.kind != Some(Kind::Interactive) {
            "the run is headless; delivered with its next turn"
        } else if !is_ours {
            "this coordinator may not wake the session; delivered with its next prompt"
        } else if session.registry_names_another() {
            "the client's registry names another conversation; delivered with the session's next prompt"
        } else if session.starter == Starter::Awaited || self.is_being_woken(session) {
            "the session was woken a moment ago; delivered when the turn ends"
        } else {
            not_at_rest(session)?
        };
        Some(why.into())
    }

    /// Whether a message left for the session by its wake hook, and the resulting turn was not reported yet.
    pub(crate) fn is_being_woken(&self, session: &Session) -> bool {
        self.messages.open(session.key).any(|message| message.left_by(DeliveryPath::Wake))
    }

    /// Why coord starts no turn in the session now; none if it may (H-21).
    fn why_over_budget(&self, session: &Session, at: Moment) -> Option<String> {
        let until = session.wakes.held_until(self.header.settings.wakes, at.awake)?;
        let (used, _) = session.wakes.used(at.awake);
        let minutes = until.ms_since(at.awake).div_ceil(60_000);
        Some(format!(
            "the wake budget of the session ({used}) is used up: held for {minutes} min more, or until its next prompt"
        ))
    }

    /// What a message that waits for a session waits for, in words.
    pub fn waits_for(&self, message: &Message, at: Moment) -> Option<String> {
        self.waits_beside(message, None, at)
    }

    /// As [`Self::waits_for`], if it is known whether a wake hook waits in the session.
    pub fn waits_beside(
        &self,
        message: &Message,
        has_waiter: Option<bool>,
        at: Moment,
    ) -> Option<String> {
        let session = self.get(message.session()?)?;
        // It is unknown in which mode a session that is gone will come back.
        let person = self
            .waits_for_person(message)
            .then(|| self.why_not_accepted(message, session))
            .flatten();
        let why = person
            .or_else(|| self.why_unreachable(session, at))
            .or_else(|| self.why_not_accepted(message, session))
            .or_else(|| busy_for(message, session))
            .or_else(|| self.why_blocked(session, DeliveryPath::Wake, at));
        let idle = match has_waiter {
            Some(true) => "the session is idle; its wake hook delivers the message now",
            Some(false) => {
                "the session is idle and has no wake hook; delivered with its next prompt or when its next turn ends"
            }
            None => "the session is idle; delivered by its wake hook or with its next prompt",
        };
        Some(why.unwrap_or_else(|| idle.into()))
    }

    /// Notes that a message left for its session.
    pub(super) fn hand_over(
        &mut self,
        id: MessageId,
        delivery: DeliveryPath,
        lease_ms: u64,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let message = self.messages.get(id).filter(|message| message.is_ready())?;
        let (key, depth) = (message.session()?, message.depth);
        let mut session = self.take(key)?;
        session.inbox.note_left(depth);
        let is_first = delivery == DeliveryPath::Wake || !session.inbox.is_continued;
        if delivery.is_charged() && is_first {
            session.wakes.charge(self.header.settings.wakes, at.awake);
        }
        match delivery {
            DeliveryPath::Wake => session.starter.expect_ours(),
            // The turn continues, and no prompt will report that.
            DeliveryPath::Stop => {
                session.inbox.begin_continuation();
                session.turn.begin(0, at);
                session.edge_at = at;
            }
            DeliveryPath::Start | DeliveryPath::Prompt | DeliveryPath::Tool => (),
        }
        let sought = Sought {
            delivery,
            path: session.transcript_path.clone(),
            config_dir: session.config_dir.clone(),
            is_last: false,
        };
        self.put(session);
        self.grant_lease(id, delivery.event(), Some(sought), lease_ms, at);
        let did = format!(
            "handed over by {}; the transcript will show whether it arrived",
            delivery.event()
        );
        fx.decide_about(id.to_string(), "S4-24", "the session can receive it now", &did);
        Some(key)
    }

    /// Marks a message as delivered: the transcript holds it in a request that was answered, however late that is
    /// seen (H-30).
    pub(super) fn arrived(&mut self, id: MessageId, at: Moment, fx: &mut Effects) {
        let Some(message) = self.messages.get(id) else { return };
        let was_handed = message.session().is_some() && 0 < message.attempts;
        if !was_handed || matches!(message.state, MessageState::Processed { .. }) {
            return;
        }
        let fence = message.lease().map_or(0, |lease| lease.fence);
        self.process(id, fence, at);
        let saw = "the transcript has an answer to the request with the message";
        fx.decide_about(id.to_string(), "H-30", saw, "delivered");
    }

    /// Gives back a message that the last look did not find. It may have been read.
    pub(super) fn missed(&mut self, id: MessageId, at: Moment, fx: &mut Effects) {
        if self.messages.get(id).and_then(Message::sought).is_some_and(|sought| sought.is_last) {
            self.forget_wake(id);
            let why = "the transcript has no answer to a request with the message";
            self.give_back(id, why, true, at, fx);
        }
    }

    /// Takes back a message that did not leave: nobody has seen it, and nothing was tried.
    pub(super) fn take_back(&mut self, id: MessageId, fence: u64, why: &str, fx: &mut Effects) {
        if self.held(id, fence).is_err() {
            return;
        }
        self.forget_wake(id);
        self.forget_continuation(id);
        self.messages.change(id, |message| {
            message.attempts = message.attempts.saturating_sub(1);
            message.last_failure = Some(why.into());
            message.state = MessageState::Pending { not_before: None };
        });
        fx.decide_about(id.to_string(), "S4-09", why, "the message waits again");
    }

    /// Ends the turn that the message should have continued, because the session was not told to continue.
    fn forget_continuation(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else { return };
        let stop = message.lease().filter(|_| message.left_by(DeliveryPath::Stop));
        let Some((at, key)) = stop.map(|lease| lease.since).zip(message.session()) else { return };
        let is_beside = |other: &Message| {
            let since =
                other.lease().filter(|_| other.left_by(DeliveryPath::Stop)).map(|one| one.since);
            other.id != id && since == Some(at)
        };
        if self.messages.open(key).any(is_beside) {
            // The turn continues with the other messages.
            return;
        }
        let Some(mut session) = self.take(key) else { return };
        match *session.turn {
            Turn::Open { since, .. } if since == at => {
                session.turn.end_continuation(at);
                session.inbox.end_continuation();
            }
            Turn::Open { .. } | Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => (),
        }
        self.put(session);
    }

    /// Notes that no turn followed the wake that carried the message: the next turn is the user's.
    pub(super) fn forget_wake(&mut self, id: MessageId) {
        let woken = self.messages.get(id).filter(|message| message.left_by(DeliveryPath::Wake));
        let key = woken.and_then(Message::session);
        if let Some(mut session) = key.and_then(|key| self.take(key)) {
            if session.starter == Starter::Awaited {
                session.starter.expect_user();
            }
            self.put(session);
        }
    }

    /// Looks at the transcript once more when a lease is over (H-30). Returns false if that was done already.
    pub(super) fn look_again(&mut self, id: MessageId, at: Moment, fx: &mut Effects) -> bool {
        let Some(sought) = self.messages.get(id).and_then(Message::sought) else { return false };
        if sought.is_last {
            return false;
        }
        self.messages.change(id, |message| {
            if let MessageState::Processing(lease) = &mut message.state {
                lease.until = at.awake.plus_ms(LOOK_MS);
                if let Some(sought) = &mut lease.sought {
                    sought.is_last = true;
                }
            }
        });
        fx.ask(Effect::SeekLast { message: id });
        true
    }

    /// The messages of a session that may have arrived unnoticed.
    pub fn on_their_way(&self, key: SessionKey) -> Vec<&Message> {
        self.messages.open(key).filter(|message| 0 < message.attempts).collect()
    }

    /// Fails the messages of a record that is dropped, because nobody will ever read them.
    pub(crate) fn fail_messages_of(
        &mut self,
        key: SessionKey,
        why: &str,
        at: Moment,
        fx: &mut Effects,
    ) {
        let ids: Vec<MessageId> = self.messages.open(key).map(|one| one.id).collect();
        for id in ids {
            self.fail_message(id, why, at, fx);
        }
    }
}

/// Why an urgent message waits for a tool result or the end of an open turn; none if it does not.
fn busy_for(message: &Message, session: &Session) -> Option<String> {
    let is_open = matches!(session.shown.state, SessionState::Running | SessionState::Stalled);
    (message.is_urgent && is_open).then(|| {
        "the session is working; delivered with its next tool result or when the turn ends".into()
    })
}

/// Why a session is not at its prompt, as far as is known; none if it is.
fn not_at_rest(session: &Session) -> Option<&'static str> {
    let is_quiet = !matches!(*session.turn, Turn::Open { .. })
        && session.waits.is_empty()
        && session.contested.is_none();
    match session.shown.state {
        SessionState::Idle | SessionState::Starting | SessionState::Background if is_quiet => None,
        SessionState::Running | SessionState::Stalled => {
            Some("the session is working; delivered when the turn ends")
        }
        SessionState::AwaitingPermission | SessionState::AwaitingInput => {
            Some("a dialog is open; delivered after it is answered")
        }
        SessionState::BlockedAuth | SessionState::BlockedBilling => {
            Some("the last turn ended with an account error; delivered with the next prompt")
        }
        SessionState::Suspended => {
            Some("the session is stopped by Ctrl-Z; delivered when it continues")
        }
        SessionState::Idle
        | SessionState::Starting
        | SessionState::Background
        | SessionState::QuotaWait
        | SessionState::Foreign
        | SessionState::Interrupted
        | SessionState::Crashed
        | SessionState::Elsewhere
        | SessionState::RecoveryPending
        | SessionState::Recovering
        | SessionState::Stopped
        | SessionState::Unknown => {
            Some("what the session is doing is unknown; delivered with its next prompt")
        }
    }
}

/// The delivery path that is open while this event is reported, if the event took effect.
fn delivery_path_of(session: &Session, event: &HookEvent, at: Moment) -> Option<DeliveryPath> {
    let is_headless = session.kind == Some(Kind::Headless);
    match (&event.kind, *session.turn) {
        (HookKind::SessionStart(source), _) => {
            (is_headless && *source != StartSource::Compact).then_some(DeliveryPath::Start)
        }
        // This prompt opened the turn; it was not typed during one.
        (HookKind::UserPromptSubmit, Turn::Open { since, queued: 0 }) => {
            (since == at).then_some(DeliveryPath::Prompt)
        }
        (HookKind::Tool(ToolPhase::After), Turn::Open { .. }) => Some(DeliveryPath::Tool),
        (HookKind::Stop(_), Turn::Closed { at: closed }) => {
            // The last answer of a headless run is what its caller asked for, so the run is not made to continue
            // (H-12).
            let is_free = !is_headless && !event.stop_hook_active && !session.inbox.is_continued;
            (closed == at && is_free).then_some(DeliveryPath::Stop)
        }
        _ => None,
    }
}
