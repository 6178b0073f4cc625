//! Messages between two machines (F-05, F-06): the real coordinators and the real carrier, and between them an engine that
//! loses calls, answers, items and everything, reorders and delivers again. Whatever it does, a message takes effect once
//! at most, and its sender hears its fate.

#![expect(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test may fail loudly")]

mod notices;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use coord_config::Config;
use coord_daemon::http::{Request, Response};
use coord_daemon::routes::Route;
use coord_daemon::world::Membership;
use coord_fleet::{Allowed, Carrier, Incarnation, Keys, Local, RemoteMessage};
use coord_host::process::Caller;
use coord_model::{Fate, Kind, MessageId, Now, ProcessRef, RemoteWho};
use coord_sim::hooks::{Hook, envelope};
use coord_sim::machine::{Pace, SharedMachine};
use coord_sim::serving::{CONFIG_DIR, Serving, paths};
use coord_store::Disk as _;
use coord_testkit::fake_disk::Damage;
use coord_testkit::random::Random;
use coord_testkit::{EngineFaults, FakeDisk, FakeEngine, FakeServer, ready};
use coord_wire::fleet::{
    InboxAnswer, InboxItem, ItemKind, ItemVerdict, Outbox, OutboxAsk, SentFate,
};
use coord_wire::message::{MessageInfo, Messages, Sent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NOW: Now = Now { mono_ns: 3_600_000_000_000, wall_ms: 1_700_000_000_000 };
const SESSION: &str = "11111111-0000-4000-8000-000000000001";
const NOBODY: &str = "99999999-0000-4000-8000-000000000009";

fn keys(number: u8) -> Keys {
    Keys::from_seed(&[number; 32]).expect("a key")
}

/// A machine of the fleet.
struct Place {
    number: u8,
    machine: SharedMachine,
    serving: Serving,
    carrier: Carrier,
}

impl Place {
    /// Machine `number`, which lets the machines on the list send.
    fn new(number: u8, allowed: &[u8]) -> Self {
        let line = |other: &u8| format!("{} m{other} send\n", keys(*other).public());
        let list: Vec<String> = allowed.iter().map(line).collect();
        Self::with_list(number, &list.concat(), &Config::default())
    }

    /// Machine `number` with this list of machines.
    fn with_list(number: u8, list: &str, config: &Config) -> Self {
        let allowed = Allowed::parse(list).expect("a list");
        let membership = Membership { machine: keys(number).machine(), allowed };
        Self::on(number, FakeDisk::new(), membership, NOW, config)
    }

    fn on(number: u8, disk: FakeDisk, membership: Membership, now: Now, config: &Config) -> Self {
        let machine = SharedMachine::new(now, Pace { disk: 1..2, look: 1..2 }, Random::new(1));
        machine.get().disk = disk;
        machine.get().membership = Some(membership);
        let serving = Serving::start(&machine, config).expect("it starts");
        Self { number, machine, serving, carrier: Carrier::default() }
    }

    /// The power goes, and comes back.
    fn lose_power(&mut self, damage: Damage) {
        let (disk, membership, now) = {
            let machine = self.machine.get();
            (machine.disk.after_crash(damage), machine.membership.clone(), machine.now)
        };
        let membership = membership.expect("a member");
        *self = Self::on(self.number, disk, membership, now, &Config::default());
    }

    fn route(&mut self, method: &str, path: &str, body: &impl Serialize) -> Route {
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: Vec::new(),
            body: serde_json::to_vec(body).expect("JSON"),
            keep_alive: false,
        };
        self.serving.route(&request, Caller { pid: 1, parent: Some(0) })
    }

    /// What is answered once it is synced; else the refusal.
    fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Response> {
        let (seq, response) = match self.route("POST", path, body) {
            Route::AfterSync(seq, response) => (seq, response),
            Route::Answer(response) => return Err(response),
            other => panic!("{other:?}"),
        };
        while self.serving.coordinator().synced_through() < seq {
            self.turn();
        }
        Ok(serde_json::from_slice(&response.body).expect("an answer"))
    }

    fn get<T: DeserializeOwned>(&mut self, path: &str) -> Option<T> {
        match self.route("GET", path, &Value::Null) {
            Route::Answer(Response { status: 200, body, .. }) => serde_json::from_slice(&body).ok(),
            _ => None,
        }
    }

    fn turn(&mut self) {
        self.turn_within(60_000);
    }

    /// A turn of the loop, and the time until the next one, but no more than this. Returns it.
    fn turn_within(&mut self, ms_max: u64) -> u64 {
        self.serving.begin_turn();
        self.serving.end_turn(false);
        let at_ns = self.serving.wake_at();
        let mut machine = self.machine.get();
        let ms = at_ns.saturating_sub(machine.now.mono_ns) / 1_000_000 + 1;
        let ms = ms.min(ms_max);
        machine.now.mono_ns += ms * 1_000_000;
        machine.now.wall_ms += ms;
        ms
    }

    /// Time passes, and the loop turns meanwhile.
    fn pass(&mut self, mut ms: u64) {
        while 0 < ms {
            ms -= self.turn_within(ms);
        }
    }

    /// Begins the session that messages are for.
    fn begins_session(&mut self) -> ProcessRef {
        let client = self.machine.get().spawn(100, Kind::Interactive, 34_816);
        let start = json!({"hook_event_name": "SessionStart", "source": "startup"});
        let answer = self.hook(client, start);
        assert!(matches!(answer, Route::Answer(Response { status: 204, .. })), "{answer:?}");
        (0..3).for_each(|_| self.turn());
        client
    }

    /// What a hook of the session's client is answered.
    fn hook(&mut self, client: ProcessRef, mut payload: Value) -> Route {
        let transcript = format!("{CONFIG_DIR}/projects/p/{SESSION}.jsonl");
        for (field, value) in [
            ("session_id", SESSION),
            ("permission_mode", "default"),
            ("transcript_path", &transcript),
        ] {
            payload[field] = json!(value);
        }
        let hook = Hook::of_client(&self.machine.get(), client);
        let body = envelope(&hook, &payload).unwrap();
        let request = Request {
            method: "POST".to_owned(),
            path: "/v1/events".to_owned(),
            query: Vec::new(),
            body: serde_json::to_vec(&body).unwrap(),
            keep_alive: false,
        };
        self.serving.route(&request, Caller { pid: hook.pid, parent: Some(client.pid) })
    }

    /// Sends a message to a session of another machine.
    fn sends(&mut self, to: u8, session: &str, text: &str, ttl_ms: Option<u64>) -> String {
        let remote = json!({
            "machine": keys(to).machine(), "session": session, "name": format!("m{to}")
        });
        let ask = json!({"remote": remote, "text": text, "ttl_ms": ttl_ms});
        let sent: Sent = self.post("/v1/messages", &ask).unwrap();
        assert_eq!(sent.state, "pending");
        sent.id
    }

    fn message(&mut self, id: &str) -> Option<MessageInfo> {
        self.get(&format!("/v1/messages/{id}"))
    }

    /// The messages that are here, with their texts.
    fn messages(&mut self) -> Vec<MessageInfo> {
        let listed: Messages = self.get("/v1/messages").expect("a list");
        listed.messages.iter().filter_map(|one| self.message(&one.id)).collect()
    }

    /// The relay's turn, in both directions.
    fn carry(&mut self, engine: &mut FakeEngine) {
        let mut carrier = std::mem::take(&mut self.carrier);
        let incarnation = Incarnation(format!("journal of {}", self.number));
        let keys = keys(self.number);
        let _lost = ready(carrier.send(engine, self, (&keys, &incarnation)));
        let _lost = ready(carrier.receive(engine, self, None));
        self.carrier = carrier;
    }
}

impl Local for Place {
    fn outbox(&mut self, ask: &OutboxAsk) -> io::Result<Outbox> {
        self.post("/v1/fleet/outbox", ask)
            .map_err(|refused| io::Error::other(format!("{refused:?}")))
    }

    fn inbox(&mut self, item: &InboxItem) -> io::Result<InboxAnswer> {
        self.post("/v1/fleet/inbox", item)
            .map_err(|refused| io::Error::other(format!("{refused:?}")))
    }
}

/// Two machines and their connections.
struct Fleet {
    places: Vec<Place>,
    engines: [FakeEngine; 2],
}

impl Fleet {
    fn new(faults: EngineFaults, seed: u64) -> Self {
        let server = Rc::new(RefCell::new(FakeServer::default()));
        let engine = |number: u8| {
            FakeEngine::new(&server, keys(number).machine(), faults, seed + u64::from(number))
        };
        let engines = [engine(1), engine(2)];
        let mut places = vec![Place::new(1, &[]), Place::new(2, &[1])];
        places[1].begins_session();
        Self { places, engines }
    }

    fn carry(&mut self) {
        for (place, engine) in self.places.iter_mut().zip(&mut self.engines) {
            place.carry(engine);
        }
    }
}

fn fate(place: &mut Place, id: &str) -> (String, String) {
    let message = place.message(id).unwrap_or_else(|| panic!("{id} is gone"));
    (message.state, message.because)
}

#[test]
fn f_05_a_message_is_accepted_there_and_its_fate_is_heard_here() {
    let mut fleet = Fleet::new(EngineFaults::default(), 0);
    let id = fleet.places[0].sends(2, SESSION, "rebase", None);
    fleet.carry();
    let there = fleet.places[1].messages();
    assert_eq!(there.len(), 1);
    assert_eq!(
        (there[0].text.as_deref(), there[0].from.as_str(), there[0].session_id.as_deref()),
        (Some("rebase"), "machine m1", Some(SESSION)),
    );
    assert_ne!(there[0].id, id, "it has its own id there");
    (0..2).for_each(|_| fleet.carry());
    let (state, because) = fate(&mut fleet.places[0], &id);
    assert_eq!(state, "processing");
    assert_eq!(because, "kept on m2, where it waits for its session");
    // A person drops it there; its sender hears why.
    let local = there[0].id.clone();
    let _: Sent = fleet.places[1].post(&format!("/v1/messages/{local}/drop"), &json!({})).unwrap();
    (0..2).for_each(|_| fleet.carry());
    let dropped = ("failed".to_owned(), "m2: a person dropped it".to_owned());
    assert_eq!(fate(&mut fleet.places[0], &id), dropped);
    // What is sent again for any reason does nothing there.
    let again = json!({});
    let _: Sent = fleet.places[0].post(&format!("/v1/messages/{id}/retry"), &again).unwrap();
    (0..3).for_each(|_| fleet.carry());
    assert_eq!(fleet.places[1].messages(), []);
    assert_eq!(fate(&mut fleet.places[0], &id), dropped);
}

#[test]
fn f_05_what_never_can_be_delivered_fails_with_the_reason() {
    let mut fleet = Fleet::new(EngineFaults::default(), 0);
    let id = fleet.places[0].sends(2, NOBODY, "rebase", None);
    (0..3).for_each(|_| fleet.carry());
    let (state, because) = fate(&mut fleet.places[0], &id);
    assert_eq!(state, "failed");
    assert!(because.starts_with("m2: ") && because.contains(NOBODY), "{because}");
}

#[test]
fn f_05_without_a_word_from_there_it_is_undeliverable_in_the_end() {
    let mut fleet = Fleet::new(EngineFaults::default(), 0);
    let id = fleet.places[0].sends(2, SESSION, "rebase", Some(3 * 3_600_000));
    let here = &mut fleet.places[0];
    let mut handed = Vec::new();
    for _ in 0..400 {
        let outbox = here.outbox(&OutboxAsk { takes: true, ..OutboxAsk::default() }).unwrap();
        handed.extend(outbox.messages.iter().map(|_| here.machine.get().now.wall_ms));
        here.pass(30_000);
    }
    let pauses: Vec<u64> = handed.windows(2).map(|two| (two[1] - two[0]) / 60_000).collect();
    assert!(pauses.is_sorted() && pauses.first() == Some(&1), "{pauses:?}");
    assert!(handed.len() < 10, "{pauses:?}");
    let (state, because) = fate(here, &id);
    assert_eq!(state, "failed");
    assert_eq!(because, "undeliverable: m2 did not report its fate in time");
}

/// A message that machine `from` seals for machine `to`.
fn sealed(from: u8, to: u8, number: u64) -> String {
    let message = RemoteMessage {
        to: keys(to).machine(),
        session: SESSION.to_owned(),
        id: MessageId::from_random(number),
        incarnation: "j".to_owned(),
        number,
        who: RemoteWho::Operator,
        urgent: false,
        depth: 0,
        ttl_ms: 3_600_000,
        text: format!("text {number}"),
    };
    String::from_utf8(message.seal(&keys(from))).expect("text")
}

fn item(sealed: String) -> InboxItem {
    InboxItem { kind: ItemKind::Message, sealed, age_ms: 0 }
}

#[test]
fn f_06_nothing_gets_in_but_what_a_listed_key_signed_for_this_machine() {
    let mut place = Place::new(2, &[1]);
    place.begins_session();
    let good = sealed(1, 2, 1);
    let late = InboxItem { age_ms: 3_600_000, ..item(good.clone()) };
    let as_fate = InboxItem { kind: ItemKind::Fate, ..item(good.clone()) };
    for (what, tried, why) in [
        ("unsigned", item("do it".to_owned()), "it is not signed"),
        ("changed", item(good.replace("text 1", "text 2")), "its signature is wrong"),
        ("not on the list", item(sealed(3, 2, 1)), "is not on the list"),
        ("for another machine", item(sealed(1, 3, 1)), "it is for another machine"),
        ("expired", late, "its time is over"),
        ("for another purpose", as_fate, "its signature is wrong"),
    ] {
        let answer = place.inbox(&tried).unwrap();
        assert_eq!(answer.verdict, ItemVerdict::Refused, "{what}: {answer:?}");
        assert!(answer.why.contains(why), "{what}: {answer:?}");
        assert_eq!(place.messages(), [], "{what}");
    }
    let mut stranger = Place::new(2, &[]);
    stranger.begins_session();
    let answer = stranger.inbox(&item(good.clone())).unwrap();
    assert!(answer.why.contains("is not on the list"), "an empty list lets nothing in: {answer:?}");
    assert_eq!(place.inbox(&item(good.clone())).unwrap().verdict, ItemVerdict::Kept);
    let messages = place.messages();
    assert_eq!((messages.len(), messages[0].from.as_str()), (1, "operator on m1"));
    // Again: known, and of no effect. So it is after its record was dropped.
    assert_eq!(place.inbox(&item(good.clone())).unwrap().verdict, ItemVerdict::Kept);
    let id = &messages[0].id;
    let _: Sent = place.post(&format!("/v1/messages/{id}/drop"), &json!({})).unwrap();
    assert_eq!(place.inbox(&item(good)).unwrap().verdict, ItemVerdict::Kept);
    assert_eq!(place.messages(), []);
}

#[test]
fn f_06_a_message_that_comes_again_after_its_id_was_forgotten_is_refused() {
    const DAY_MS: u64 = 24 * 3_600_000;
    let mut place = Place::new(2, &[1]);
    place.begins_session();
    for number in [5, 6] {
        assert_eq!(place.inbox(&item(sealed(1, 2, number))).unwrap().verdict, ItemVerdict::Kept);
    }
    place.pass(9 * DAY_MS);
    assert_eq!(place.inbox(&item(sealed(1, 2, 7))).unwrap().verdict, ItemVerdict::Kept);
    for number in [5, 6, 4] {
        let answer = place.inbox(&item(sealed(1, 2, number))).unwrap();
        assert_eq!(
            (answer.verdict, answer.why.as_str()),
            (ItemVerdict::Refused, "it came before, long ago")
        );
    }
}

#[test]
fn f_05_a_message_whose_text_is_lost_is_taken_in_again_from_its_sender() {
    let mut place = Place::new(2, &[1]);
    let client = place.begins_session();
    let message = item(sealed(1, 2, 1));
    assert_eq!(place.inbox(&message).unwrap().verdict, ItemVerdict::Kept);
    let first = place.messages()[0].id.clone();
    let disk = place.machine.get().disk.clone();
    disk.remove(&paths().messages().join(&first)).unwrap();
    // It would leave with this prompt.
    let answer = place.hook(client, json!({"hook_event_name": "UserPromptSubmit"}));
    assert!(matches!(answer, Route::Answer(Response { status: 204, .. })), "{answer:?}");
    assert_eq!(place.messages(), []);
    let ask = OutboxAsk { takes: true, ..OutboxAsk::default() };
    assert_eq!(place.outbox(&ask).unwrap().fates, [], "its sender is told of no failure");
    assert_eq!(place.inbox(&message).unwrap().verdict, ItemVerdict::Kept);
    let texts: Vec<Option<String>> = place.messages().into_iter().map(|one| one.text).collect();
    assert_eq!(texts, [Some("text 1".to_owned())]);
}

#[test]
fn f_06_no_other_machine_says_what_became_of_a_message() {
    let mut fleet = Fleet::new(EngineFaults::default(), 0);
    let id = fleet.places[0].sends(2, SESSION, "rebase", None);
    let report = coord_fleet::FateReport {
        to: keys(1).machine(),
        id: MessageId::parse(&id).unwrap(),
        fate: Fate::Processed,
    };
    let told = |number: u8| InboxItem {
        kind: ItemKind::Fate,
        sealed: String::from_utf8(report.seal(&keys(number))).unwrap(),
        age_ms: 0,
    };
    let answer = fleet.places[0].inbox(&told(3)).unwrap();
    assert_eq!(answer.why, "the message was sent to another machine");
    assert_eq!(fate(&mut fleet.places[0], &id).0, "pending");
    assert_eq!(fleet.places[0].inbox(&told(2)).unwrap().verdict, ItemVerdict::Kept);
    assert_eq!(fate(&mut fleet.places[0], &id).0, "processed");
}

#[test]
fn f_05_a_fate_is_told_until_it_is_known_to_be_sent() {
    let mut place = Place::new(2, &[1]);
    place.begins_session();
    place.inbox(&item(sealed(1, 2, 1))).unwrap();
    let ask = OutboxAsk { takes: true, ..OutboxAsk::default() };
    let fates = place.outbox(&ask).unwrap().fates;
    let accepted = SentFate {
        machine: keys(1).machine(),
        id: MessageId::from_random(1),
        fate: Fate::Accepted,
    };
    assert_eq!(fates, [accepted]);
    assert_eq!(place.outbox(&ask).unwrap().fates, fates);
    place.lose_power(Damage::Dropped);
    assert_eq!(place.outbox(&ask).unwrap().fates, fates, "after a power loss too");
    let sent = OutboxAsk { sent: fates, takes: true };
    assert_eq!(place.outbox(&sent).unwrap().fates, []);
    // It comes again: its sender does not know.
    place.inbox(&item(sealed(1, 2, 1))).unwrap();
    assert_eq!(place.outbox(&ask).unwrap().fates, sent.sent);
}

// The random life itself, with its faults and checks, is crates/coord-sim/src/fleet.rs.
#[test]
fn f_05_whatever_the_engine_does_a_message_takes_effect_once_and_its_fate_is_heard() {
    for seed in 0..3 {
        let (tally, violation) = coord_sim::fleet::life(seed);
        assert_eq!(violation, None, "seed {seed}");
        assert!(0 < tally.processed, "seed {seed}: {tally:?}");
    }
}
