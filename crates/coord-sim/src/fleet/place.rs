//! A machine of the simulated fleet: the real coordinator and the real relay's steps. Whatever passes between the two may be
//! cut: before the coordinator hears of it, before what it did is on disk, and before its answer arrives.

use std::collections::BTreeMap;
use std::io;

use coord_config::Config;
use coord_daemon::http::{Request, Response};
use coord_daemon::routes::Route;
use coord_daemon::world::Membership;
use coord_fleet::{Allowed, Carrier, Incarnation, Keys, Local, Outbox as Publisher, Writer};
use coord_host::process::Caller;
use coord_model::{MachineId, Now, ProcessRef, Sender};
use coord_testkit::{Damage, FakeDisk, FakeEngine, Random, ready};
use coord_wire::fleet::{InboxAnswer, InboxItem, Outbox, OutboxAsk};
use coord_wire::message::{Send, Sent};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::published::Cursor;
use crate::Violation;
use crate::machine::{Pace, SharedMachine};
use crate::serving::Serving;

const START: Now = Now { mono_ns: 3_600_000_000_000, wall_ms: 1_700_000_000_000 };
const MS: u64 = 1_000_000;
/// What is on its way to the disk is there after fewer turns.
const TURNS_MAX: u32 = 1_000;
/// Batches that are published in one turn of the relay.
const BATCHES_MAX: u32 = 4;
/// Who asks for what a person or the relay asks for: nobody's child, and no agent's.
const ASKER: Caller = Caller { pid: 1, parent: Some(0) };

pub(super) fn wrong(what: impl Into<String>) -> Violation {
    Violation::new("F-05", what.into())
}

/// The keys of a machine, by its number.
pub(super) fn keys(number: u8) -> Result<Keys, Violation> {
    Keys::from_seed(&[number; 32]).map_err(|error| wrong(format!("no key: {error:?}")))
}

/// The name under which others have a machine on their lists.
pub(super) fn name(number: u8) -> String {
    format!("m{number}")
}

/// A machine.
pub(super) struct Place {
    pub(super) number: u8,
    pub(super) keys: Keys,
    pub(super) machine: SharedMachine,
    serving: Option<Serving>,
    carrier: Carrier,
    publisher: Publisher,
    pub(super) is_published: bool,
    pub(super) cursor: Option<Cursor>,
    /// How probable a cut is of what passes between relay and coordinator.
    pub(super) cut: f64,
    /// Whether something was cut of which it is unknown whether it is on disk.
    pub(super) is_unsure: bool,
    pub(super) clients: BTreeMap<u8, ProcessRef>,
    pub(super) last_pid: u32,
    boots: u64,
    relays: u64,
    random: Random,
}

/// How a call of the relay's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    None,
    Before,
    Unsynced,
    Unheard,
}

impl Place {
    /// Machine `number`, which lets the machines on the list send.
    pub(super) fn new(number: u8, allowed: &[u8], seed: u64) -> Result<Self, Violation> {
        let keys = keys(number)?;
        let mut list = Vec::new();
        for other in allowed {
            list.push(format!("{} {} send\n", self::keys(*other)?.public(), name(*other)));
        }
        let allowed =
            Allowed::parse(&list.concat()).map_err(|error| wrong(format!("{error:?}")))?;
        let pace = Pace { disk: 1..20, look: 1..20 };
        let random = Random::new(seed ^ (u64::from(number) << 32));
        let machine = SharedMachine::new(START, pace, Random::new(seed + u64::from(number)));
        machine.get().membership = Some(Membership { machine: keys.machine(), allowed });
        let serving = Some(start(&machine)?);
        let publisher = Publisher::new(writer(number, 0));
        Ok(Self {
            number,
            keys,
            machine,
            serving,
            carrier: Carrier::default(),
            publisher,
            is_published: false,
            cursor: None,
            cut: 0.0,
            is_unsure: false,
            clients: BTreeMap::new(),
            last_pid: 1_000,
            boots: 0,
            relays: 0,
            random,
        })
    }

    /// Its id.
    pub(super) fn id(&self) -> MachineId {
        self.keys.machine()
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        incarnation(self.number)
    }

    pub(super) fn now(&self) -> Now {
        self.machine.get().now
    }

    pub(super) fn disk(&self) -> FakeDisk {
        self.machine.get().disk.clone()
    }

    /// Its coordinator.
    pub(super) fn serving(&mut self) -> Result<&mut Serving, Violation> {
        self.serving.as_mut().ok_or_else(|| wrong("no coordinator runs"))
    }

    /// The power goes, and comes back.
    pub(super) fn lose_power(&mut self, damage: Damage) -> Result<(), Violation> {
        self.end();
        self.boots += 1;
        let (disk, now) = (self.disk().after_crash(damage), self.now());
        let now = Now { mono_ns: 60_000 * MS, wall_ms: now.wall_ms + 60_000 };
        self.machine.get().reboot(format!("boot-{}", self.boots + 1), now, disk);
        self.clients.clear();
        self.restart_relay();
        self.is_unsure = false;
        self.serving = Some(start(&self.machine)?);
        Ok(())
    }

    /// The coordinator is killed, and another one starts.
    pub(super) fn kill(&mut self) -> Result<(), Violation> {
        self.end();
        self.is_unsure = false;
        self.serving = Some(start(&self.machine)?);
        Ok(())
    }

    fn end(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.kill();
        }
    }

    /// The relay is killed, and another one starts.
    pub(super) fn restart_relay(&mut self) {
        self.carrier = Carrier::default();
        self.relays += 1;
        self.publisher = Publisher::new(writer(self.number, self.relays));
        self.cursor = None;
    }

    /// A turn of the loop, and the time until the next one, but no more than this. Returns it.
    pub(super) fn turn_within(&mut self, ms_max: u64) -> Result<u64, Violation> {
        let serving = self.serving()?;
        serving.begin_turn();
        serving.end_turn(false);
        let at_ns = serving.wake_at();
        let now = self.now();
        let state = self.serving()?.coordinator();
        let is_met = state.has_met_deadlines(now);
        let met = if is_met { state.state().violations(now) } else { 0 };
        let violations = state.invariant_violations().max(met);
        if violations != 0 {
            let what =
                format!("m{}: {violations} violations of the core's invariants", self.number);
            return Err(Violation::new("G3", what));
        }
        let mut machine = self.machine.get();
        let ms = (at_ns.saturating_sub(machine.now.mono_ns) / MS + 1).min(ms_max);
        machine.now.mono_ns += ms * MS;
        machine.now.wall_ms += ms;
        let now_ms = machine.now.wall_ms;
        machine.disk.set_now(now_ms);
        Ok(ms)
    }

    pub(super) fn turn(&mut self) -> Result<u64, Violation> {
        self.turn_within(60_000)
    }

    /// Time passes, and the loop turns meanwhile.
    pub(super) fn pass(&mut self, mut ms: u64) -> Result<(), Violation> {
        while 0 < ms {
            ms -= self.turn_within(ms)?;
        }
        Ok(())
    }

    /// Turns until this record is on disk, and with it all before.
    fn sync(&mut self, seq: u64) -> Result<(), Violation> {
        for _ in 0..TURNS_MAX {
            if seq <= self.serving()?.coordinator().synced_through() {
                self.is_unsure = false;
                return Ok(());
            }
            self.turn()?;
        }
        Err(wrong(format!("record {seq} does not come to the disk")))
    }

    /// What a person or the relay asks for; else the refusal.
    pub(super) fn post(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Result<Vec<u8>, Response>, Violation> {
        match self.route(path, body)? {
            Ok((seq, response)) => self.sync(seq).map(|()| Ok(response.body)),
            Err(response) => Ok(Err(response)),
        }
    }

    fn route(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Result<(u64, Response), Response>, Violation> {
        let request = Request {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: Vec::new(),
            body: serde_json::to_vec(body).map_err(|error| wrong(error.to_string()))?,
            keep_alive: false,
        };
        match self.serving()?.route(&request, ASKER) {
            Route::AfterSync(seq, response) => Ok(Ok((seq, response))),
            Route::Answer(response) => Ok(Err(response)),
            other @ (Route::Handed(..)
            | Route::History(_)
            | Route::Wait(_)
            | Route::WaitForReply(_)
            | Route::Verified
            | Route::Down) => Err(wrong(format!("{path}: {other:?}"))),
        }
    }

    fn draw_cut(&mut self) -> Cut {
        if !self.random.chance(self.cut) {
            return Cut::None;
        }
        match self.random.below(3) {
            0 => Cut::Before,
            1 => Cut::Unsynced,
            _ => Cut::Unheard,
        }
    }

    /// A call of the relay's, which may be cut.
    fn call<T: DeserializeOwned>(&mut self, path: &str, body: &impl Serialize) -> io::Result<T> {
        let lost = || Err(io::Error::other("cut"));
        let cut = self.draw_cut();
        if cut == Cut::Before {
            return lost();
        }
        let failed = |violation: Violation| io::Error::other(violation.to_string());
        let (seq, response) = self
            .route(path, body)
            .map_err(failed)?
            .map_err(|refused| io::Error::other(format!("{refused:?}")))?;
        if cut == Cut::Unsynced {
            self.is_unsure = true;
            return lost();
        }
        self.sync(seq).map_err(failed)?;
        if cut == Cut::Unheard {
            return lost();
        }
        serde_json::from_slice(&response.body).map_err(io::Error::other)
    }

    /// Somebody sends a message. None: nobody was told that it is accepted.
    pub(super) fn send(&mut self, ask: &Send, from: Sender) -> Result<Option<Sent>, Violation> {
        let is_told = self.draw_cut() == Cut::None;
        let Ok(sent) = self.serving()?.send(ask, from) else { return Ok(None) };
        if !is_told {
            self.is_unsure = true;
            return Ok(None);
        }
        for _ in 0..TURNS_MAX {
            if self.serving()?.take_accepted().contains(&sent) {
                self.is_unsure = false;
                return Ok(Some(sent));
            }
            self.turn()?;
        }
        Err(wrong("a message is not accepted"))
    }

    /// The relay's turn, in both directions.
    pub(super) fn carry(
        &mut self,
        engine: &mut FakeEngine,
        engine_ms: Option<u64>,
    ) -> Result<(), Violation> {
        let mut carrier = std::mem::take(&mut self.carrier);
        let (keys, incarnation) = (keys(self.number)?, self.incarnation());
        let _lost = ready(carrier.send(engine, self, (&keys, &incarnation)));
        let _lost = ready(carrier.receive(engine, self, engine_ms));
        self.carrier = carrier;
        Ok(())
    }

    /// The relay publishes what is new in the journal.
    pub(super) fn publish(&mut self, engine: &mut FakeEngine) -> Result<(), Violation> {
        let mut publisher = std::mem::replace(
            &mut self.publisher,
            Publisher::new(writer(self.number, self.relays)),
        );
        let keys = keys(self.number)?;
        let mut result = Ok(());
        for _ in 0..BATCHES_MAX {
            match ready(publisher.turn(engine, self, &keys)) {
                Ok(coord_fleet::Turn::Published { .. } | coord_fleet::Turn::Conflict) => (),
                Ok(coord_fleet::Turn::Idle) => break,
                Err(coord_fleet::TurnError::Duplicate(duplicate)) => {
                    result = Err(Violation::new("F-07", format!("{}: {duplicate}", self.number)));
                    break;
                }
                Err(coord_fleet::TurnError::Engine(_) | coord_fleet::TurnError::Journal(_)) => {
                    break;
                }
            }
        }
        // From time to time it asks again.
        if self.random.below(8) == 0 {
            publisher.doubt();
        }
        self.publisher = publisher;
        result
    }

    /// The last record that the engine is known to hold.
    pub(super) fn held_through(&self) -> Option<u64> {
        self.publisher.held_through
    }
}

fn incarnation(number: u8) -> Incarnation {
    Incarnation(format!("journal of {number}"))
}

fn writer(number: u8, relays: u64) -> Writer {
    Writer { incarnation: incarnation(number), relay: format!("relay {}", relays + 1) }
}

fn start(machine: &SharedMachine) -> Result<Serving, Violation> {
    let started = Serving::start(machine, &Config::default());
    started.map_err(|error| Violation::new("G1", format!("it does not start: {error:#}")))
}

impl Local for Place {
    fn outbox(&mut self, ask: &OutboxAsk) -> io::Result<Outbox> {
        self.call("/v1/fleet/outbox", ask)
    }

    fn inbox(&mut self, item: &InboxItem) -> io::Result<InboxAnswer> {
        self.call("/v1/fleet/inbox", item)
    }
}
