//! A random life of the simulated fleet: three machines that send to each other, and between them an engine that loses calls,
//! answers, items, tails and everything, reorders and delivers again. A seed decides all of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use coord_core::MessageState;
use coord_fleet::{Engine as _, FateReport, Item, Parcel};
use coord_model::{Fate, MachineId, MessageId, Origin, RemoteSession, Sender};
use coord_testkit::{Damage, EngineFaults, FakeEngine, FakeServer, Random, ready};
use coord_wire::message::Send;
use serde_json::json;

use super::Tally;
use super::agents::{Hearing, session};
use super::checks::Accepted;
use super::place::{Place, keys, name, wrong};
use super::published;
use crate::Violation;

/// Machines.
const MACHINES: u8 = 3;
/// Sessions of each.
const SESSIONS: u8 = 2;
/// Nobody's session.
const NOBODY: u8 = 9;
/// Steps until the engine and everything else work.
const STEPS: u32 = 150;
/// A message to a machine that does not listen lives for so long at most, milliseconds.
const TTL_MAX: u64 = 7_200_000;
/// Rounds of two minutes until everything is heard of that is heard of: longer than the time of a message, and two of the
/// longest waits before it is sent again.
const ROUNDS: u32 = 160;
const ROUND_MS: u64 = 120_000;

/// The fleet.
pub(super) struct Life {
    random: Random,
    pub(super) places: Vec<Place>,
    server: Rc<RefCell<FakeServer>>,
    engines: Vec<FakeEngine>,
    seed: u64,
    /// Who may not send to whom.
    barred: Option<(u8, u8)>,
    /// Whether the relays know the engine's clock.
    has_clock: bool,
    pub(super) accepted: Vec<Accepted>,
    /// What messages from elsewhere are called where they were taken in.
    pub(super) local: BTreeMap<(u8, MessageId), Origin>,
    /// The name that a message was taken in by, once that is on disk.
    pub(super) pinned: BTreeMap<(u8, MessageId), MessageId>,
    /// How often a model has read a message, as if it were new.
    pub(super) read: BTreeMap<(u8, MessageId), u64>,
    /// Keys that were used: the ask, and the message.
    keyed: Vec<(u8, Send, MessageId)>,
    texts: u32,
    pub(super) tally: Tally,
}

impl Life {
    pub(super) fn new(seed: u64) -> Result<Self, Violation> {
        let mut random = Random::new(seed);
        let barred = (random.below(3) == 0).then(|| {
            let from = random.index(3);
            let to = (from + 1 + random.index(2)) % 3;
            (number(from), number(to))
        });
        let faults = EngineFaults { lost_call: 0.1, lost_answer: 0.1, redelivered: 0.2 };
        let server = Rc::new(RefCell::new(FakeServer::default()));
        let mut places = Vec::new();
        let mut engines = Vec::new();
        for to in 1..=MACHINES {
            let may = |from: &u8| *from != to && barred != Some((*from, to));
            let allowed: Vec<u8> = (1..=MACHINES).filter(may).collect();
            let mut place = Place::new(to, &allowed, seed)?;
            (0..SESSIONS).try_for_each(|k| place.begins(k))?;
            place.cut = 0.05;
            engines.push(FakeEngine::new(&server, place.id(), faults, seed + u64::from(to)));
            places.push(place);
        }
        server.borrow_mut().now_ms = 1_700_000_000_000;
        Ok(Self {
            has_clock: random.coin(),
            random,
            places,
            server,
            engines,
            seed,
            barred,
            accepted: Vec::new(),
            local: BTreeMap::new(),
            pinned: BTreeMap::new(),
            read: BTreeMap::new(),
            keyed: Vec::new(),
            texts: 0,
            tally: Tally::default(),
        })
    }

    /// Lives, and comes to rest.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        for _ in 0..STEPS {
            self.step()?;
            self.check()?;
        }
        self.calm();
        let mut missing = None;
        for _ in 0..ROUNDS {
            self.round()?;
            missing = self.missing()?;
            if missing.is_none() {
                break;
            }
        }
        if let Some(missing) = missing {
            return Err(wrong(format!("still without its fate: {missing}")));
        }
        self.check_published()?;
        self.count();
        Ok(())
    }

    pub(super) fn place(&mut self, at: usize) -> Result<&mut Place, Violation> {
        self.places.get_mut(at).ok_or_else(|| wrong(format!("no machine {at}")))
    }

    pub(super) fn number_of(&self, machine: MachineId) -> Result<u8, Violation> {
        let found = self.places.iter().find(|place| place.id() == machine);
        found.map(|place| place.number).ok_or_else(|| wrong(format!("no machine {machine}")))
    }

    pub(super) fn is_allowed(&self, from: u8, to: u8) -> bool {
        self.barred != Some((from, to))
    }

    fn step(&mut self) -> Result<(), Violation> {
        let at = self.random.index(usize::from(MACHINES));
        match self.random.below(40) {
            0..6 => self.sends(at),
            6 => self.sends_again(at),
            7 => self.check_published().map(|()| self.server.borrow_mut().wipe()),
            8 => {
                self.check_published()?;
                let n = self.random.index(4);
                self.server.borrow_mut().lose_tail(n);
                Ok(())
            }
            9 => {
                self.server.borrow_mut().lose_item(&mut self.random);
                Ok(())
            }
            10 => {
                let is_down = self.random.coin();
                self.server.borrow_mut().is_down = is_down;
                Ok(())
            }
            11 => self.loses_power(at),
            12 => {
                self.tally.kills += 1;
                self.place(at)?.kill()
            }
            13 => self.place(at).map(Place::restart_relay),
            14 | 15 => self.orders(at),
            16..20 => self.prompts(at),
            20 => {
                let (k, is_told) = (self.any_session(), self.random.coin());
                self.place(at)?.ends(k, is_told)
            }
            21 | 22 => {
                let k = self.any_session();
                self.place(at)?.begins(k)
            }
            23 => self.forges(at),
            24..27 => {
                let ms = self.random.range(1_000..600_000);
                self.pass(ms)
            }
            _ => self.carries(at),
        }
    }

    fn any_session(&mut self) -> u8 {
        u8::try_from(self.random.index(usize::from(SESSIONS))).unwrap_or(0)
    }

    fn pass(&mut self, ms: u64) -> Result<(), Violation> {
        self.server.borrow_mut().now_ms += ms;
        self.places.iter_mut().try_for_each(|place| place.pass(ms))
    }

    fn carries(&mut self, at: usize) -> Result<(), Violation> {
        let engine_ms = self.has_clock.then(|| self.server.borrow().now_ms);
        let Some((place, engine)) = self.places.get_mut(at).zip(self.engines.get_mut(at)) else {
            return Ok(());
        };
        place.carry(engine, engine_ms)?;
        place.publish(engine)
    }

    /// Somebody on a machine sends a message to another one.
    fn sends(&mut self, at: usize) -> Result<(), Violation> {
        let to = (at + 1 + self.random.index(usize::from(MACHINES) - 1)) % usize::from(MACHINES);
        let (from, to) = (number(at), number(to));
        let k = if self.random.below(6) == 0 { NOBODY } else { self.any_session() };
        let is_allowed = self.is_allowed(from, to);
        let is_short = !is_allowed || self.random.below(4) == 0;
        self.texts += 1;
        let key = (self.random.below(3) == 0).then(|| format!("key {}", self.random.below(8)));
        let remote = RemoteSession {
            machine: self.place(usize::from(to) - 1)?.id(),
            session: session(to, k),
            name: name(to),
        };
        let ask = Send {
            remote: Some(remote),
            text: format!("text {}", self.texts),
            key,
            urgent: self.random.below(5) == 0,
            ttl_ms: is_short.then(|| self.random.range(60_000..TTL_MAX)),
            ..Send::default()
        };
        let who = if self.random.coin() { Sender::Operator } else { Sender::Agent };
        let Some(sent) = self.place(at)?.send(&ask, who)? else { return Ok(()) };
        let id = MessageId::parse(&sent.id).ok_or_else(|| wrong(sent.id.clone()))?;
        if sent.folded {
            return Ok(());
        }
        if ask.key.is_some() {
            self.keyed.push((from, ask, id));
        }
        let has_session = k != NOBODY;
        let one = Accepted { id, from, to, has_session, is_allowed, is_dropped: false, last: None };
        self.accepted.push(one);
        Ok(())
    }

    /// The same message once more, with the same key: it is the same one while it is there.
    fn sends_again(&mut self, at: usize) -> Result<(), Violation> {
        let of_place: Vec<&(u8, Send, MessageId)> =
            self.keyed.iter().filter(|(from, ..)| *from == number(at)).collect();
        let Some((_, ask, id)) = self.random.pick(&of_place).map(|one| (*one).clone()) else {
            return Ok(());
        };
        let place = self.place(at)?;
        let state = place.serving()?.coordinator().state();
        let Some(sender) = state.message(id).map(|message| message.from.clone()) else {
            return Ok(());
        };
        if let Some(sent) = place.send(&ask, sender)?
            && sent.id != id.to_string()
        {
            return Err(wrong(format!("{id} was sent again with its key, as {}", sent.id)));
        }
        self.tally.folded += 1;
        Ok(())
    }

    fn loses_power(&mut self, at: usize) -> Result<(), Violation> {
        self.tally.power_cuts += 1;
        let damage = match self.random.below(3) {
            0 => Damage::Kept,
            1 => Damage::Dropped,
            _ => Damage::Torn(self.random.next()),
        };
        self.place(at)?.lose_power(damage)
    }

    /// A person drops a message, or has one retried.
    fn orders(&mut self, at: usize) -> Result<(), Violation> {
        let place = self.place(at)?;
        let is_free = |one: &&coord_core::Message| one.lease().is_none();
        let state = place.serving()?.coordinator().state();
        let free: Vec<(MessageId, bool)> = state
            .messages()
            .filter(is_free)
            .map(|one| (one.id, matches!(one.state, MessageState::Failed { .. })))
            .collect();
        let Some((id, is_failed)) = self.random.pick(&free).copied() else { return Ok(()) };
        let verb = if is_failed && self.random.below(4) != 0 { "retry" } else { "drop" };
        let path = format!("/v1/messages/{id}/{verb}");
        let done = self.place(at)?.post(&path, &json!({}))?;
        let is_its = |one: &&mut Accepted| one.id == id && one.from == number(at);
        if done.is_ok()
            && let Some(one) = self.accepted.iter_mut().find(is_its)
        {
            one.is_dropped |= verb == "drop";
        }
        Ok(())
    }

    fn prompts(&mut self, at: usize) -> Result<(), Violation> {
        let k = self.any_session();
        let hearing = match self.random.below(6) {
            0 => Hearing::Interrupted,
            1 => Hearing::Lost,
            _ => Hearing::Answered,
        };
        let read = self.place(at)?.prompt(k, hearing)?;
        self.hears(number(at), &read)
    }

    /// A machine says of a message that was not sent to it that it was delivered.
    fn forges(&mut self, at: usize) -> Result<(), Violation> {
        let others: Vec<&Accepted> =
            self.accepted.iter().filter(|one| one.to != number(at)).collect();
        let Some((id, from)) = self.random.pick(&others).map(|one| (one.id, one.from)) else {
            return Ok(());
        };
        let to = self.place(usize::from(from) - 1)?.id();
        let bytes = FateReport { to, id, fate: Fate::Processed }.seal(&keys(number(at))?);
        if let Some(engine) = self.engines.get_mut(at) {
            let _lost = ready(engine.send(&Parcel { to, item: Item::Fate, bytes }));
        }
        self.tally.forged += 1;
        Ok(())
    }

    /// From now on nothing fails any more.
    fn calm(&mut self) {
        self.server.borrow_mut().is_down = false;
        let (server, seed) = (Rc::clone(&self.server), self.seed);
        for (place, engine) in self.places.iter_mut().zip(&mut self.engines) {
            place.cut = 0.0;
            *engine = FakeEngine::new(&server, place.id(), EngineFaults::default(), seed);
        }
    }

    /// Two minutes in which people release what waits for them, and every agent takes a prompt.
    fn round(&mut self) -> Result<(), Violation> {
        self.pass(ROUND_MS)?;
        for at in 0..self.places.len() {
            self.place(at)?.releases()?;
            for k in 0..SESSIONS {
                let place = self.place(at)?;
                place.begins(k)?;
                let read = place.prompt(k, Hearing::Answered)?;
                self.hears(number(at), &read)?;
            }
            self.carries(at)?;
        }
        self.check()
    }

    /// Looks at the journals that the engine holds.
    fn check_published(&mut self) -> Result<(), Violation> {
        let server = self.server.borrow();
        for place in &mut self.places {
            self.tally.batches += published::check(place, &server)?;
        }
        Ok(())
    }
}

fn number(at: usize) -> u8 {
    u8::try_from(at + 1).unwrap_or(u8::MAX)
}
