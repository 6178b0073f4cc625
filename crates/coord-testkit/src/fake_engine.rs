//! An engine for a fleet in memory, which loses, repeats and refuses as a real one may, by chance that a seed repeats.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use coord_fleet::{
    Change, Delivery, Engine, EngineError, Held, Item, Parcel, Settled, StateKey, Verdict, Watched,
};
use coord_model::MachineId;

use crate::random::Random;

/// What goes wrong, as probabilities of each call.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineFaults {
    /// The call is not carried out, and there is no answer.
    pub lost_call: f64,
    /// The call is carried out, and the answer is lost.
    pub lost_answer: f64,
    /// An item that was delivered before is delivered once more.
    pub redelivered: f64,
}

/// The server that all machines share.
#[derive(Debug, Default)]
pub struct FakeServer {
    place: u64,
    /// The journals' batches with their places.
    journals: BTreeMap<MachineId, Vec<(u64, Vec<u8>)>>,
    /// The values of keys, with when each was stored.
    states: BTreeMap<StateKey, (u64, Vec<u8>)>,
    /// Changes of keys, in order.
    changes: Vec<Change>,
    /// What waits for each machine.
    inboxes: BTreeMap<MachineId, Vec<Waiting>>,
    token: u64,
    /// Whether nobody reaches it.
    pub is_down: bool,
    /// How often it was wiped: whoever watches begins again.
    wiped: u64,
    /// Its own clock, milliseconds since 1970.
    pub now_ms: u64,
}

#[derive(Debug, Clone)]
struct Waiting {
    token: u64,
    from: MachineId,
    item: Item,
    bytes: Vec<u8>,
    stored_ms: u64,
}

impl FakeServer {
    /// Loses everything.
    pub fn wipe(&mut self) {
        self.journals.clear();
        self.states.clear();
        self.changes.clear();
        self.inboxes.clear();
        self.wiped += 1;
    }

    /// Loses the newest batches of every machine, so many of each.
    pub fn lose_tail(&mut self, n: usize) {
        for batches in self.journals.values_mut() {
            batches.truncate(batches.len().saturating_sub(n));
        }
    }

    /// The batches of a machine, oldest first.
    pub fn batches(&self, machine: MachineId) -> impl Iterator<Item = &[u8]> {
        self.journals.get(&machine).into_iter().flatten().map(|(_, bytes)| bytes.as_slice())
    }

    /// Loses an item that waits, if there is any.
    pub fn lose_item(&mut self, random: &mut Random) {
        let mut all: Vec<&mut Vec<Waiting>> =
            self.inboxes.values_mut().filter(|inbox| !inbox.is_empty()).collect();
        let chosen = random.index(all.len());
        if let Some(inbox) = all.get_mut(chosen) {
            let at = random.index(inbox.len());
            inbox.remove(at);
        }
    }
}

/// One machine's connection.
#[derive(Debug)]
pub struct FakeEngine {
    server: Rc<RefCell<FakeServer>>,
    machine: MachineId,
    faults: EngineFaults,
    random: Random,
    /// How many changes were seen, and after how many wipes; none before the first look.
    seen: Option<(u64, usize)>,
}

impl FakeEngine {
    /// Connects a machine.
    pub fn new(
        server: &Rc<RefCell<FakeServer>>,
        machine: MachineId,
        faults: EngineFaults,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed);
        Self { server: Rc::clone(server), machine, faults, random, seen: None }
    }

    /// Carries a call out, unless it or its answer is lost.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut FakeServer, MachineId, &mut Random) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let lost = || EngineError::Unreachable("no answer".to_owned());
        if self.server.borrow().is_down || self.random.chance(self.faults.lost_call) {
            return Err(lost());
        }
        let answer = call(&mut self.server.borrow_mut(), self.machine, &mut self.random);
        if self.random.chance(self.faults.lost_answer) { Err(lost()) } else { answer }
    }
}

impl Engine for FakeEngine {
    async fn held(&mut self) -> Result<Option<Held>, EngineError> {
        self.call(|server, machine, _| {
            let newest = server.journals.get(&machine).and_then(|batches| batches.last());
            Ok(newest.map(|(place, bytes)| Held { place: *place, bytes: bytes.clone() }))
        })
    }

    async fn append(&mut self, batch: &[u8], after: u64) -> Result<u64, EngineError> {
        self.call(|server, machine, _| {
            let batches = server.journals.entry(machine).or_default();
            if batches.last().map_or(0, |(place, _)| *place) != after {
                return Err(EngineError::Conflict);
            }
            server.place += 1;
            batches.push((server.place, batch.to_vec()));
            Ok(server.place)
        })
    }

    async fn batch_after(
        &mut self,
        machine: MachineId,
        place: u64,
    ) -> Result<Option<Held>, EngineError> {
        self.call(|server, _, _| {
            let mut batches = server.journals.get(&machine).into_iter().flatten();
            let next = batches.find(|(at, _)| place < *at);
            Ok(next.map(|(place, bytes)| Held { place: *place, bytes: bytes.clone() }))
        })
    }

    async fn put_state(&mut self, key: &StateKey, value: Option<&[u8]>) -> Result<(), EngineError> {
        self.call(|server, _, _| {
            let stored_ms = server.now_ms;
            let change = Change { key: key.clone(), value: value.map(<[u8]>::to_vec), stored_ms };
            server.changes.push(change);
            match value {
                Some(value) => _ = server.states.insert(key.clone(), (stored_ms, value.to_vec())),
                None => _ = server.states.remove(key),
            }
            Ok(())
        })
    }

    async fn watch(&mut self) -> Result<Watched, EngineError> {
        let seen = self.seen.take();
        let (watched, now) = self.call(|server, _, _| {
            let now = (server.wiped, server.changes.len());
            let watched = match seen {
                Some((wiped, n)) if wiped == server.wiped => Watched {
                    is_whole: false,
                    changes: server.changes.get(n..).unwrap_or_default().to_vec(),
                },
                Some(_) | None => {
                    let all = server.states.iter().map(|(key, (stored_ms, value))| Change {
                        key: key.clone(),
                        value: Some(value.clone()),
                        stored_ms: *stored_ms,
                    });
                    Watched { is_whole: true, changes: all.collect() }
                }
            };
            Ok((watched, now))
        })?;
        self.seen = Some(now);
        Ok(watched)
    }

    async fn inbox(&mut self, settled: Vec<Settled>) -> Result<Vec<Delivery>, EngineError> {
        let redelivered = self.faults.redelivered;
        self.call(|server, machine, random| {
            let inbox = server.inboxes.entry(machine).or_default();
            inbox.retain(|waiting| {
                let is_over = settled
                    .iter()
                    .any(|one| one.token == waiting.token && one.verdict != Verdict::Later);
                !is_over || random.chance(redelivered)
            });
            Ok(inbox
                .iter()
                .map(|waiting| Delivery {
                    token: waiting.token,
                    item: waiting.item.clone(),
                    from: Some(waiting.from),
                    bytes: waiting.bytes.clone(),
                    stored_ms: waiting.stored_ms,
                })
                .collect())
        })
    }

    async fn send(&mut self, parcel: &Parcel) -> Result<(), EngineError> {
        self.call(|server, machine, random| {
            server.token += 1;
            let waiting = Waiting {
                token: server.token,
                from: machine,
                item: parcel.item.clone(),
                bytes: parcel.bytes.clone(),
                stored_ms: server.now_ms,
            };
            let inbox = server.inboxes.entry(parcel.to).or_default();
            // Across machines nothing has an order.
            let at = random.index(inbox.len() + 1);
            inbox.insert(at, waiting);
            Ok(())
        })
    }
}

/// What a future that never waits comes to.
///
/// # Panics
/// If it waits.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an engine in memory has nothing to wait for"),
    }
}
