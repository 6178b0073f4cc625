//! Messages and a power loss (S4-05, S4-22): what was answered is there again, whole, whatever of the
//! unsynced is gone; what was dropped or kept for long enough takes its text along, and not before.

#![expect(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test may fail loudly")]

use coord_core::Now;
use coord_daemon::config::Config;
use coord_daemon::http::{Request, Response};
use coord_daemon::process::Caller;
use coord_daemon::routes::Route;
use coord_sim::fake_disk::{Damage, FakeDisk};
use coord_sim::machine::{Pace, SharedMachine};
use coord_sim::random::Random;
use coord_sim::serving::{Serving, paths};
use coord_store::Disk;
use coord_wire::message::{Claimed, MessageInfo};
use serde_json::{Value, json};

const NOW: Now = Now { mono_ns: 3_600_000_000_000, wall_ms: 1_700_000_000_000 };

struct Place {
    machine: SharedMachine,
    serving: Serving,
}

impl Place {
    fn new() -> Self {
        Self::on(FakeDisk::new())
    }

    /// A machine that comes up with this disk.
    fn on(disk: FakeDisk) -> Self {
        let machine = SharedMachine::new(NOW, Pace { disk: 1..2, look: 1..2 }, Random::new(1));
        machine.get().disk = disk;
        let serving = Serving::start(&machine, &Config::defaults()).unwrap();
        Self { machine, serving }
    }

    fn post(&mut self, path: &str, body: &Value) -> Route {
        let request = Request {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: Vec::new(),
            body: body.to_string().into_bytes(),
            keep_alive: false,
        };
        self.serving.route(&request, Caller { pid: 2, parent: Some(1) })
    }

    /// What is answered once it is synced.
    fn answered(&mut self, path: &str, body: &Value) -> Vec<u8> {
        let (seq, response) = match self.post(path, body) {
            Route::AfterSync(seq, response) => (seq, response),
            other => panic!("{other:?}"),
        };
        while self.serving.coordinator().synced_through() < seq {
            self.turn();
        }
        assert_eq!(response.status, 200);
        response.body
    }

    fn turn(&mut self) {
        self.serving.begin_turn();
        self.serving.end_turn(false);
        let at_ns = self.serving.wake_at();
        let mut machine = self.machine.get();
        let passed_ms = at_ns.saturating_sub(machine.now.mono_ns) / 1_000_000 + 1;
        machine.now.mono_ns += passed_ms * 1_000_000;
        machine.now.wall_ms += passed_ms;
    }

    fn send(&mut self, text: &str) -> String {
        let sent = self.answered("/v1/messages", &json!({"queue": "builds", "text": text}));
        serde_json::from_slice::<Value>(&sent).unwrap()["id"].as_str().unwrap().to_owned()
    }

    fn claim(&mut self) -> Option<Claimed> {
        match self.post("/v1/queues/builds/claim", &json!({"holder": "a"})) {
            Route::AfterSync(_, Response { body, .. }) => {
                Some(serde_json::from_slice(&body).unwrap())
            }
            Route::Answer(Response { status: 204, .. }) => None,
            other => panic!("{other:?}"),
        }
    }

    fn after(&self, damage: Damage) -> Self {
        Self::on(self.machine.get().disk.after_crash(damage))
    }

    fn texts(&self) -> Vec<String> {
        self.machine.get().disk.list(&paths().messages()).unwrap_or_default()
    }
}

fn damages() -> impl Iterator<Item = Damage> {
    [Damage::Kept, Damage::Dropped].into_iter().chain((0..20).map(Damage::Torn))
}

#[test]
fn what_was_accepted_is_there_whole_after_a_power_loss() {
    let mut place = Place::new();
    let sent: Vec<String> = (0..3).map(|n| place.send(&format!("text {n}"))).collect();
    // A fourth one is under way: nobody was told that it is there.
    let under_way = json!({"queue": "builds", "text": "text 3"});
    assert!(matches!(place.post("/v1/messages", &under_way), Route::AfterSync(..)));
    for damage in damages() {
        let mut after = place.after(damage);
        for (n, id) in sent.iter().enumerate() {
            let claimed = after.claim().unwrap_or_else(|| panic!("{id} is lost: {damage:?}"));
            assert_eq!(
                (&claimed.message.id, claimed.text),
                (id, format!("text {n}")),
                "{damage:?}"
            );
        }
        let fourth = after.claim().map(|claimed| claimed.text);
        assert!(fourth.is_none_or(|text| text == "text 3"), "whole or not at all: {damage:?}");
    }
}

// S4-13, S4-14: a fence that was told is never told again.
#[test]
fn no_fence_comes_twice_after_a_power_loss() {
    let mut place = Place::new();
    place.send("one");
    place.send("two");
    let claimed = place.answered("/v1/queues/builds/claim", &json!({"holder": "a"}));
    let claimed: Claimed = serde_json::from_slice(&claimed).unwrap();
    for damage in damages() {
        let next = place.after(damage).claim().unwrap();
        assert_eq!(next.text, "two", "the first one is somebody's: {damage:?}");
        assert!(claimed.fence < next.fence, "{damage:?}");
    }
}

// S4-01: a drop that no sync has covered may not have been, and then the text is needed.
#[test]
fn a_text_goes_behind_its_message() {
    let mut place = Place::new();
    let id = place.send("one");
    let dropped = place.post(&format!("/v1/messages/{id}/drop"), &json!({}));
    assert!(matches!(dropped, Route::AfterSync(..)), "{dropped:?}");
    assert_eq!(place.texts(), [id.as_str()]);
    for damage in damages() {
        let mut after = place.after(damage);
        let answer = after.serving.ask(&format!("/v1/messages/{id}")).unwrap();
        if answer.status == 200 {
            let message: MessageInfo = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(message.text.as_deref(), Some("one"), "{damage:?}");
            assert_eq!(after.claim().map(|claimed| claimed.text).as_deref(), Some("one"));
        }
    }
    (0..5).for_each(|_| place.turn());
    assert!(place.texts().is_empty());
}
