//! What holds whatever happens, in whatever order: sends, hooks through all delivery paths, wakes, proofs that come late or
//! twice, ends of leases, crashes, restarts (G3, H-21, H-30, S4-13).

use std::collections::{BTreeMap, BTreeSet};

use coord_core::{MessageState, Turn};
use coord_model::{
    DeliveryPath, HookEvent, HookKind, MessageId, NewMessage, QueueEvent, Sender, StartSource,
};
use proptest::prelude::*;

use super::mail::LEASE_S;
use crate::crashes::{PID, at_rest, launch};
use crate::world::{PROMPT, STOP, TOOL, World, present};

#[derive(Debug, Clone)]
enum Step {
    Send { is_urgent: bool, bytes: u32, from: Sender, ttl_s: Option<u64> },
    Hook(Hook, bool),
    Wake,
    Proved(usize),
    Unproved(usize),
    Returned(usize, bool),
    Lost(usize),
    Released(usize),
    Retried(usize),
    Dropped(usize),
    Pass(u32),
    Crash,
    Resume,
    Restart,
    Reboot,
}

#[derive(Debug, Clone, Copy)]
enum Hook {
    Start,
    Prompt,
    Tool,
    Stop,
    StopActive,
    Subagent,
    Spooled,
}

fn senders() -> impl Strategy<Value = Sender> {
    prop_oneof![
        3 => Just(Sender::Operator),
        1 => Just(Sender::Session("s1".into())),
        1 => Just(Sender::Agent),
        1 => Just(Sender::Program("make".into())),
    ]
}

fn hooks() -> impl Strategy<Value = Hook> {
    prop_oneof![
        1 => Just(Hook::Start),
        4 => Just(Hook::Prompt),
        3 => Just(Hook::Tool),
        4 => Just(Hook::Stop),
        1 => Just(Hook::StopActive),
        1 => Just(Hook::Subagent),
        1 => Just(Hook::Spooled),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = || 0..12_usize;
    let one = prop_oneof![
        6 => (any::<bool>(), 1..6_000_u32, senders(), proptest::option::of(1..2_000_u64))
            .prop_map(|(is_urgent, bytes, from, ttl_s)| Step::Send { is_urgent, bytes, from, ttl_s }),
        12 => (hooks(), any::<bool>()).prop_map(|(hook, leaves)| Step::Hook(hook, leaves)),
        4 => Just(Step::Wake),
        3 => n().prop_map(Step::Proved),
        3 => n().prop_map(Step::Unproved),
        2 => (n(), any::<bool>()).prop_map(|(n, is_old)| Step::Returned(n, is_old)),
        1 => n().prop_map(Step::Lost),
        1 => n().prop_map(Step::Released),
        1 => n().prop_map(Step::Retried),
        1 => n().prop_map(Step::Dropped),
        4 => prop_oneof![Just(1), Just(30), Just(300), 0..2_000_u32].prop_map(Step::Pass),
        1 => Just(Step::Crash),
        2 => Just(Step::Resume),
        1 => Just(Step::Restart),
        1 => Just(Step::Reboot),
    ];
    proptest::collection::vec(one, 1..80)
}

/// What was seen so far.
struct Seen {
    world: World,
    pid: u32,
    reboots: u32,
    accepted: u64,
    gone: u64,
    /// Leases that were given, newest last.
    leases: Vec<(MessageId, u64)>,
    /// How often each was handed over and not taken back since a person had it tried again.
    handed: BTreeMap<MessageId, u32>,
    /// What a Stop of this turn was answered with, and no hook gave back.
    continued_by: BTreeSet<MessageId>,
    proved: BTreeSet<MessageId>,
}

impl Seen {
    fn new() -> Self {
        Self {
            world: at_rest(),
            pid: PID,
            reboots: 0,
            accepted: 0,
            gone: 0,
            leases: Vec::new(),
            handed: BTreeMap::new(),
            continued_by: BTreeSet::new(),
            proved: BTreeSet::new(),
        }
    }

    /// The `n`-th message that was sent, of those that are there.
    fn nth(&self, n: usize) -> Option<MessageId> {
        let mut all: Vec<_> = self.world.state.messages().map(|one| (one.number, one.id)).collect();
        all.sort_unstable();
        all.get(n).map(|(_, id)| *id)
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Send { is_urgent, bytes, from, ttl_s } => {
                self.accepted += 1;
                let depth = self.world.state.depth_of(&from);
                let to = coord_model::Address::Session(self.world.key());
                let new = NewMessage { to, is_urgent, bytes, from, depth, ..self.mail() };
                let ttl_ms = ttl_s.map(|ttl_s| ttl_s * 1_000);
                self.world.queue(QueueEvent::Sent(NewMessage { ttl_ms, ..new }));
            }
            Step::Hook(hook, leaves) => return self.hook(hook, leaves),
            Step::Wake => {
                for one in self.world.wakes() {
                    let session = self.world.session("s1");
                    let is_open = matches!(*session.turn, Turn::Open { .. });
                    prop_assert!(!is_open && session.may_live(), "H-02: {:?}", session.turn);
                    self.hand(one, DeliveryPath::Wake)?;
                }
            }
            Step::Proved(n) => {
                if let Some(id) = self.nth(n) {
                    if 0 < self.world.message(id).attempts {
                        self.proved.insert(id);
                    }
                    self.world.queue(QueueEvent::Proved(id));
                }
            }
            Step::Returned(n, is_old) => {
                if let Some((id, fence)) = self.leases.iter().rev().nth(n).copied() {
                    let fence = fence - u64::from(is_old);
                    if self.world.state.held(id, fence).is_ok() {
                        *self.handed.entry(id).or_default() -= 1;
                        self.continued_by.remove(&id);
                    }
                    self.world.queue(QueueEvent::Returned { id, fence, why: "gone".into() });
                }
            }
            Step::Retried(n) => {
                if let Some(id) = self.nth(n).filter(|id| self.world.state.is_free(*id).is_ok()) {
                    self.handed.insert(id, 0);
                    self.world.queue(QueueEvent::Retried(id));
                }
            }
            Step::Unproved(n) => self.order(n, QueueEvent::Unproved),
            Step::Lost(n) => {
                // What was read from its file once is not read again.
                let is_new = |id: &MessageId| self.world.message(*id).is_ready();
                if let Some(id) = self.nth(n).filter(is_new) {
                    self.world.queue(QueueEvent::Lost { id, why: "gone".into() });
                }
            }
            Step::Released(n) => self.order(n, QueueEvent::Released),
            Step::Dropped(n) => self.order(n, QueueEvent::Dropped),
            Step::Pass(seconds) => self.world.pass(f64::from(seconds)),
            Step::Crash => self.world.die(self.pid, present("s1")),
            Step::Resume => self.resume(),
            Step::Restart => self.world.restart(),
            // A third one without a session in between would take its record along: 35 days are over.
            Step::Reboot if self.reboots < 2 => {
                self.reboots += 1;
                self.world.reload();
                self.world.reboot();
                self.world.locked();
            }
            Step::Reboot => (),
        }
        Ok(())
    }

    fn mail(&self) -> NewMessage {
        self.world.mail(self.accepted)
    }

    fn order(&mut self, n: usize, order: fn(MessageId) -> QueueEvent) {
        if let Some(id) = self.nth(n) {
            self.world.queue(order(id));
        }
    }

    /// Its user resumes it in another process, if it does not live.
    fn resume(&mut self) {
        if self.world.session("s1").may_live() {
            return;
        }
        self.pid += 1;
        self.continued_by.clear();
        self.world.hook("s1", self.pid, HookKind::SessionStart(StartSource::Resume));
        self.world.launched(self.pid, launch());
    }

    fn hook(&mut self, hook: Hook, leaves: bool) -> Result<(), TestCaseError> {
        if !self.world.session("s1").may_live() {
            return Ok(());
        }
        let kind = match hook {
            Hook::Start => HookKind::SessionStart(StartSource::Resume),
            Hook::Prompt => PROMPT,
            Hook::Tool | Hook::Subagent => TOOL,
            Hook::Stop | Hook::StopActive | Hook::Spooled => STOP,
        };
        let was_open = matches!(*self.world.session("s1").turn, Turn::Open { .. });
        let pid = self.pid;
        let change = |event: &mut HookEvent| {
            event.harness = Some(crate::world::harness(pid, None));
            match hook {
                Hook::StopActive => event.stop_hook_active = true,
                Hook::Subagent => event.agent = Some("a1".into()),
                Hook::Spooled => event.via = coord_model::Via::Spool,
                Hook::Start | Hook::Prompt | Hook::Tool | Hook::Stop => (),
            }
        };
        let offered = self.world.asks(kind.clone(), change);
        let is_plain = !matches!(hook, Hook::StopActive | Hook::Subagent | Hook::Spooled);
        prop_assert!(offered.is_none() || is_plain, "{hook:?}");
        if matches!(hook, Hook::Start) || (matches!(hook, Hook::Prompt) && !was_open) {
            self.continued_by.clear();
        }
        let Some((delivery, ids)) = offered.filter(|_| leaves) else { return Ok(()) };
        prop_assert!(!was_open || delivery != DeliveryPath::Prompt, "H-30");
        if delivery == DeliveryPath::Stop {
            prop_assert!(self.continued_by.is_empty(), "H-21: never two in a turn");
            self.continued_by.extend(&ids);
        }
        for id in ids {
            self.hand(id, delivery)?;
        }
        Ok(())
    }

    fn hand(&mut self, id: MessageId, delivery: DeliveryPath) -> Result<(), TestCaseError> {
        let message = self.world.message(id);
        prop_assert!(message.is_ready(), "S4-02: {message:?}");
        prop_assert!(message.depth < 4 || message.is_released, "H-21");
        prop_assert!(!self.proved.contains(&id), "H-30: it arrived");
        self.world.hand(id, delivery);
        let fence = self.world.message(id).lease().unwrap().fence;
        prop_assert!(self.leases.iter().all(|(_, earlier)| *earlier < fence), "S4-13");
        self.leases.push((id, fence));
        let handed = self.handed.entry(id).or_default();
        *handed += 1;
        prop_assert!(*handed <= 4, "S4-23");
        Ok(())
    }

    /// Each is in one state, and nobody has one but by a lease that was given. `World::take` checks that the
    /// indexes are what they would be if they were made anew, and that no lease outlives its deadline.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let removed = self.world.effects.drain(..);
        let is_gone =
            |one: &coord_model::Effect| matches!(one, coord_model::Effect::RemoveBody { .. });
        self.gone += removed.filter(is_gone).count() as u64;
        let state = &self.world.state;
        prop_assert_eq!(state.messages().len() as u64 + self.gone, self.accepted, "none is lost");
        let mut in_states = [0; 4];
        for message in state.messages() {
            let place = match &message.state {
                MessageState::Pending { .. } => 0,
                MessageState::Processing(lease) => {
                    prop_assert!(self.leases.contains(&(message.id, lease.fence)));
                    1
                }
                MessageState::Failed { reason, .. } => {
                    prop_assert!(!reason.is_empty(), "S4-23");
                    2
                }
                MessageState::Processed { .. } => {
                    prop_assert!(self.proved.contains(&message.id), "H-30: by proof alone");
                    3
                }
            };
            in_states[place] += 1;
            let waits = state.waits_for(message, state.moment(self.world.now()));
            prop_assert!(waits.is_some_and(|why| !why.is_empty()), "G12");
        }
        let counts = state.message_counts(&coord_model::Address::Session(self.world.key()));
        prop_assert_eq!(&[counts.pending, counts.processing, counts.failed], &in_states[..3]);
        let at = state.moment(self.world.now());
        let (in_10_min, in_a_day) = self.world.session("s1").wakes.used(at.awake);
        prop_assert!(in_10_min <= 6 && in_a_day <= 60, "H-21");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_message_is_lost_doubled_or_stuck(steps in steps()) {
        let mut seen = Seen::new();
        for step in steps {
            seen.take(step)?;
            seen.check()?;
        }
        // What is on its way is settled by time alone.
        seen.world.pass(LEASE_S + 31.0);
        seen.check()?;
        prop_assert!(seen.world.state.messages().all(|one| one.lease().is_none()), "G3");
    }
}
