//! A session with messages: sends them, takes up what the core offers as the daemon does, reads where they are.

use coord_core::{Admitted, Message, MessageState, SeenIds, Session, State};
use coord_model::{
    Address, DeliveryPath, Effect, Event, HookEvent, HookKind, Kind, MessageId, NewMessage,
    QueueEvent, Same, Sender, SessionKey,
};

use crate::crashes::PID;
use crate::world::{PROMPT, STOP, World, harness, queue_event};

pub(crate) const LEASE_MS: u64 = 300_000;
pub(crate) const LEASE_S: f64 = 300.0;
pub(crate) const DAY_S: f64 = 86_400.0;
/// The process of the second session.
pub(crate) const OTHER: u32 = 300;

pub(crate) fn id(n: u64) -> MessageId {
    MessageId::from_random(n)
}

impl World {
    pub(crate) fn queue(&mut self, event: QueueEvent) {
        self.take(&queue_event(event));
    }

    /// A message of its operator's for `s1`; its text is its number.
    pub(crate) fn mail(&self, n: u64) -> NewMessage {
        NewMessage {
            id: id(n),
            to: Address::Session(self.key()),
            from: Sender::Operator,
            is_urgent: false,
            depth: 0,
            same: Same::Text(n),
            bytes: 1,
            ttl_ms: None,
        }
    }

    /// Sends it, as the border does: asked first.
    pub(crate) fn sends(&mut self, new: NewMessage) -> Admitted {
        let admitted = self.state.admits(&new);
        match admitted {
            Admitted::New => self.queue(QueueEvent::Sent(new)),
            Admitted::Folded(id) => self.queue(QueueEvent::Folded(id)),
            Admitted::OtherText(_) | Admitted::Full(_) => (),
        }
        admitted
    }

    /// `s1` is sent these numbers by its operator.
    pub(crate) fn sent(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for n in numbers {
            let mail = self.mail(n);
            assert_eq!(self.sends(mail), Admitted::New);
        }
    }

    /// `s1` is sent one by this sender, as deep as that is now.
    pub(crate) fn sent_by(&mut self, n: u64, from: Sender) -> MessageId {
        let depth = self.state.depth_of(&from);
        let mail = NewMessage { from, depth, ..self.mail(n) };
        assert_eq!(self.sends(mail), Admitted::New);
        id(n)
    }

    pub(crate) fn message(&self, id: MessageId) -> &Message {
        self.state.message(id).unwrap()
    }

    pub(crate) fn reason(&self, id: MessageId) -> &str {
        match &self.message(id).state {
            MessageState::Failed { reason, .. } => reason,
            state => panic!("{state:?}"),
        }
    }

    pub(crate) fn why_waits(&self, id: MessageId) -> String {
        let message = self.message(id);
        self.state.waits_for(message, self.state.moment(self.now())).unwrap()
    }

    /// A hook of `s1`, changed; what its answer is offered to hold.
    pub(crate) fn asks(
        &mut self,
        kind: HookKind,
        change: impl FnOnce(&mut HookEvent),
    ) -> Option<(DeliveryPath, Vec<MessageId>)> {
        let mut event = self.event("s1", PID, kind, 0.0);
        change(&mut event);
        self.effects.clear();
        self.send(event.clone());
        self.seconds += 0.001;
        self.offer_of(&event)
    }

    /// What is offered to the hook that reported this event.
    fn offer_of(&self, reported: &HookEvent) -> Option<(DeliveryPath, Vec<MessageId>)> {
        let mut offers = self.effects.iter().filter_map(|effect| match effect {
            Effect::Offer { event, session, delivery } => Some((*event, *session, *delivery)),
            _ => None,
        });
        let (event, session, delivery) = offers.next()?;
        assert!(offers.next().is_none() && event == reported.id);
        let session = self.state.session(session).unwrap();
        Some((delivery, self.state.outgoing(session, delivery, self.state.moment(self.now()))))
    }

    /// The same, and all of it leaves.
    pub(crate) fn takes(&mut self, kind: HookKind) -> Vec<MessageId> {
        let Some((delivery, ids)) = self.asks(kind, |_| ()) else { return Vec::new() };
        ids.iter().for_each(|id| self.hand(*id, delivery));
        ids
    }

    pub(crate) fn hand(&mut self, id: MessageId, delivery: DeliveryPath) {
        self.queue(QueueEvent::Handed { id, delivery, lease_ms: LEASE_MS });
    }

    /// What would be handed to a wake hook now.
    pub(crate) fn wakes(&self) -> Vec<MessageId> {
        let at = self.state.moment(self.now());
        let waiting = self.state.sessions_with_messages();
        let waiting = waiting.filter_map(|key| self.state.session(key));
        waiting.flat_map(|one| self.state.outgoing(one, DeliveryPath::Wake, at)).collect()
    }

    /// The one message that is handed to a wake hook now.
    #[track_caller]
    pub(crate) fn wakes_with(&mut self, n: u64) {
        assert_eq!(self.wakes(), [id(n)], "{:?}", self.why_waits(id(n)));
        self.hand(id(n), DeliveryPath::Wake);
    }

    /// The turn that a wake started, or its user, up to its end.
    pub(crate) fn has_a_turn(&mut self) {
        for kind in [PROMPT, STOP] {
            assert_eq!(self.takes(kind), []);
        }
    }

    /// `s1` says in which mode it runs.
    pub(crate) fn runs_in(&mut self, mode: &str) {
        let mode = Some(mode.into());
        let kind = HookKind::Notification("idle_prompt".into());
        assert!(self.asks(kind, |event| event.permission_mode = mode).is_none());
    }

    /// A second session, at its prompt.
    pub(crate) fn other(&mut self) -> SessionKey {
        self.open("s2", OTHER, Kind::Interactive);
        self.session("s2").key
    }

    /// A headless run of this id and process.
    pub(crate) fn headless(&mut self, id: &str, pid: u32) -> HookEvent {
        let mut event = self.event(id, pid, crate::world::START, 0.0);
        let kind = Some(Kind::Headless);
        event.harness = Some(harness(pid, kind));
        event
    }

    /// The coordinator is started again from its snapshot.
    pub(crate) fn restart(&mut self) {
        self.reload();
        self.start_coordinator();
        self.locked();
    }

    pub(crate) fn locked(&mut self) {
        let config_dir = "/home/dev/.claude".into();
        self.take(&Event::ConfigDirLock { config_dir, held: true });
    }

    /// What a snapshot keeps is all that there is.
    pub(crate) fn reload(&mut self) {
        fn again<T: serde::Serialize + serde::de::DeserializeOwned>(one: &T) -> T {
            serde_json::from_str(&serde_json::to_string(one).unwrap()).unwrap()
        }
        let sessions: Vec<Session> = self.state.sessions().map(again).collect();
        let messages: Vec<Message> = self.state.messages().map(again).collect();
        let seen = SeenIds::from_bytes(&self.state.seen().to_bytes());
        let state = State::from_parts(again(self.state.header()), sessions, messages, seen);
        assert_eq!(state, self.state);
        self.state = state;
    }
}
