//! Messages and a power loss (S4-05, S4-22): what was answered is there again, whole, whatever of the
//! unsynced is gone; what was dropped or kept for long enough takes its text along, and not before. What is
//! handed to a session is on disk as handed before anybody hears it (S4-24, H-30).

#![expect(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test may fail loudly")]

use coord_config::Config;
use coord_core::ANSWER_BYTES_MAX;
use coord_daemon::http::{Request, Response};
use coord_daemon::routes::Route;
use coord_host::process::Caller;
use coord_model::{Kind, MarkChange, Now, ProcessRef};
use coord_sim::hooks::{Hook, envelope};
use coord_sim::machine::{Pace, SharedMachine};
use coord_sim::serving::{CONFIG_DIR, Serving, WakeHook, paths};
use coord_store::Disk;
use coord_testkit::fake_disk::{Damage, FakeDisk, Fault};
use coord_testkit::random::Random;
use coord_wire::api::{OperatorRequest, OperatorVerb};
use coord_wire::message::{Claimed, MessageInfo, Messages};
use serde_json::{Value, json};
use std::io::ErrorKind;

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
        let serving = Serving::start(&machine, &Config::default()).unwrap();
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
        // The first process is nobody's child, and no agent's.
        self.serving.route(&request, Caller { pid: 1, parent: Some(0) })
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
        let disk = self.machine.get().disk.after_crash(damage);
        Self::on(disk)
    }

    /// The client of a session, at its prompt.
    fn client(&mut self, session: &str, pid: u32) -> ProcessRef {
        let process = self.machine.get().spawn(pid, Kind::Interactive, 34_816);
        self.reports(
            session,
            process,
            json!({"hook_event_name": "SessionStart", "source": "startup"}),
        );
        (0..3).for_each(|_| self.turn());
        process
    }

    /// What a hook of this client is answered.
    fn hook(&mut self, session: &str, client: ProcessRef, mut payload: Value) -> Route {
        self.turn();
        let fields = payload.as_object_mut().unwrap();
        fields.insert("session_id".to_owned(), json!(session));
        fields.insert("permission_mode".to_owned(), json!("default"));
        fields.insert(
            "transcript_path".to_owned(),
            json!(format!("{CONFIG_DIR}/projects/p/{session}.jsonl")),
        );
        let hook = Hook::of_client(&self.machine.get(), client);
        let request = Request {
            method: "POST".to_owned(),
            path: "/v1/events".to_owned(),
            query: Vec::new(),
            body: serde_json::to_vec(&envelope(&hook, &payload).unwrap()).unwrap(),
            keep_alive: false,
        };
        self.serving.route(&request, Caller { pid: hook.pid, parent: Some(client.pid) })
    }

    /// A hook that is answered with nothing.
    fn reports(&mut self, session: &str, client: ProcessRef, payload: Value) {
        let answer = self.hook(session, client, payload);
        assert!(matches!(answer, Route::Answer(Response { status: 204, .. })), "{answer:?}");
    }

    /// A prompt's hook; the context in its answer, and behind which record it waits.
    fn prompt(&mut self, session: &str, client: ProcessRef) -> (u64, String) {
        match self.hook(session, client, json!({"hook_event_name": "UserPromptSubmit"})) {
            Route::Handed(seq, response, _) => {
                let output: Value = serde_json::from_slice(&response.body).unwrap();
                let output = &output["hookSpecificOutput"];
                assert_eq!(output["hookEventName"], "UserPromptSubmit", "R-18: {output}");
                (seq, output["additionalContext"].as_str().unwrap().to_owned())
            }
            other => panic!("{other:?}"),
        }
    }

    fn send_to(&mut self, session: &str, text: &str) -> String {
        let sent = self.answered("/v1/messages", &json!({"session": session, "text": text}));
        serde_json::from_slice::<Value>(&sent).unwrap()["id"].as_str().unwrap().to_owned()
    }

    fn message(&mut self, id: &str) -> MessageInfo {
        let answer = self.serving.ask(&format!("/v1/messages/{id}")).unwrap();
        assert_eq!(answer.status, 200, "{id}");
        serde_json::from_slice(&answer.body).unwrap()
    }

    fn messages_for(&mut self, session: &str) -> Messages {
        let request = Request {
            method: "GET".to_owned(),
            path: "/v1/messages".to_owned(),
            query: vec![("session".to_owned(), session.to_owned())],
            body: Vec::new(),
            keep_alive: false,
        };
        match self.serving.route(&request, Caller { pid: 2, parent: Some(1) }) {
            Route::Answer(Response { status: 200, body, .. }) => {
                serde_json::from_slice(&body).unwrap()
            }
            other => panic!("{other:?}"),
        }
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

const S1: &str = "11111111-0000-4000-8000-000000000001";
const S2: &str = "22222222-0000-4000-8000-000000000002";

/// A session to which one message was sent.
fn sent_to_session() -> (Place, ProcessRef, String) {
    let mut place = Place::new();
    let client = place.client(S1, 100);
    let id = place.send_to(S1, "rebase, please");
    (place, client, id)
}

// S4-24, S4-25, H-30: what a hook is answered was on its way on disk before: a power loss before the sync takes
// both, one behind it leaves a message that is looked for.
#[test]
fn what_leaves_by_a_hook_is_on_disk_before_it_does() {
    let (mut place, client, id) = sent_to_session();
    let (seq, context) = place.prompt(S1, client);
    assert!(context.contains(&format!("[coord] Message {id} was sent by")), "{context}");
    assert!(context.contains("\n> rebase, please\n"), "{context}");
    assert!(place.serving.coordinator().synced_through() < seq, "nobody was answered yet");
    let before = place.after(Damage::Dropped).message(&id);
    assert_eq!((before.state.as_str(), before.attempts), ("pending", 0));
    while place.serving.coordinator().synced_through() < seq {
        place.turn();
    }
    for damage in damages() {
        let after = place.after(damage).message(&id);
        assert_eq!((after.state.as_str(), after.attempts), ("processing", 1), "{damage:?}");
        assert_eq!(after.holder.as_deref(), Some("UserPromptSubmit"));
    }
}

// H-02, H-30: a wake hook is handed its text once that it left is on disk.
#[test]
fn what_leaves_by_a_wake_is_on_disk_before_it_does() {
    let (mut place, client, id) = sent_to_session();
    place.serving.wait(WakeHook { session_id: S1.to_owned(), harness: client, pid: 109 });
    place.serving.begin_turn();
    place.serving.end_turn(false);
    assert_eq!(place.message(&id).state, "processing");
    assert_eq!(place.serving.take_wakes(), [], "not before it is on disk");
    let before = place.after(Damage::Dropped).message(&id);
    assert_eq!((before.state.as_str(), before.maybe_duplicate), ("pending", false));
    let mut woken = Vec::new();
    for _ in 0..5 {
        place.turn();
        woken.extend(place.serving.take_wakes());
        if !woken.is_empty() {
            break;
        }
    }
    let [(hook, text)] = &woken[..] else { panic!("{woken:?}") };
    assert!(hook.pid == 109 && text.starts_with(&format!("[coord] Message {id} ")), "{text}");
    let after = place.after(Damage::Dropped).message(&id);
    assert_eq!((after.state.as_str(), after.attempts), ("processing", 1));
}

// S4-09: its wake hook is gone between the two: nobody has seen it, and it waits as it did before.
#[test]
fn a_wake_hook_that_vanishes_takes_nothing_along() {
    let (mut place, client, id) = sent_to_session();
    place.serving.wait(WakeHook { session_id: S1.to_owned(), harness: client, pid: 109 });
    place.serving.begin_turn();
    place.serving.end_turn(false);
    assert_eq!(place.message(&id).state, "processing");
    place.machine.get().end(client);
    (0..5).for_each(|_| place.turn());
    assert_eq!(place.serving.take_wakes(), []);
    let message = place.message(&id);
    assert_eq!((message.state.as_str(), message.attempts), ("pending", 0), "{message:?}");
    assert!(!message.maybe_duplicate, "S4-25: it was not seen");
    let listed = place.messages_for(S1);
    assert_eq!((listed.totals.pending, listed.totals.processing), (1, 0));
}

// S4-09, S4-24: a hook that does not wait for a slow disk takes nothing along, and the turn that was to go on is
// over.
#[test]
fn a_hook_that_does_not_wait_takes_nothing_along() {
    let (mut place, client, id) = sent_to_session();
    place.reports(S1, client, json!({"hook_event_name": "SessionStart", "source": "compact"}));
    let Route::Handed(_, _, leases) = place.hook(S1, client, json!({"hook_event_name": "Stop"}))
    else {
        panic!("it leaves at Stop");
    };
    let state = |place: &mut Place| {
        let answer = place.serving.ask(&format!("/v1/sessions/{S1}")).unwrap();
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        answer["sessions"][0]["state"].clone()
    };
    assert_eq!(
        (place.message(&id).state.as_str(), state(&mut place)),
        ("processing", "running".into())
    );
    place.serving.take_back(&leases);
    let message = place.message(&id);
    assert_eq!((message.state.as_str(), message.attempts), ("pending", 0), "{message:?}");
    assert!(!message.maybe_duplicate, "S4-25: it was not seen");
    assert_eq!(state(&mut place), "idle");
    // Twice is once.
    place.serving.take_back(&leases);
    assert_eq!(place.message(&id).attempts, 0);
}

// S4-05, S4-10, S4-22: a text that is gone is that message's failure; the next one of the same answer leaves.
#[test]
fn a_lost_text_fails_alone() {
    let (mut place, client, lost) = sent_to_session();
    let next = place.send_to(S1, "and push");
    place.machine.get().disk.remove(&paths().messages().join(&lost)).unwrap();
    let (_, context) = place.prompt(S1, client);
    assert!(context.contains(&next) && !context.contains(&lost), "{context}");
    let message = place.message(&lost);
    assert!(message.state == "failed" && message.because.contains("cannot be read"), "{message:?}");
    assert_eq!(place.message(&next).state, "processing");
    // Where all are lost nothing is answered.
    let alone = place.send_to(S1, "alone");
    place.machine.get().disk.remove(&paths().messages().join(&alone)).unwrap();
    place.reports(S1, client, json!({"hook_event_name": "Stop"}));
    assert_eq!(place.message(&alone).state, "failed");
}

// H-30, R-18: of a longer context the client reads only the beginning: what lies behind it would pass for read.
#[test]
fn an_answer_is_no_longer_than_the_client_reads() {
    let mut place = Place::new();
    let client = place.client(S1, 100);
    // Each empty line is three bytes of a frame.
    let lines = "\n".repeat(3_500);
    let ids: Vec<String> = [&*lines, "one", "two", "three", "four", "five"]
        .iter()
        .map(|text| place.send_to(S1, text))
        .collect();
    let mut left = Vec::new();
    for event in ["UserPromptSubmit", "Stop"] {
        let Route::Handed(_, response, _) =
            place.hook(S1, client, json!({"hook_event_name": event}))
        else {
            panic!("{event} is answered with what waits");
        };
        let output: Value = serde_json::from_slice(&response.body).unwrap();
        let context = output["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
        assert!(context.len() <= ANSWER_BYTES_MAX, "{event}: {}", context.len());
        let is_in = |id: &&String| context.contains(&format!("[coord] Message {id} "));
        let there: Vec<String> = ids.iter().filter(is_in).cloned().collect();
        for id in &there {
            assert!(context.contains(&format!("[coord] End of message {id}.")), "{id}");
        }
        left.extend(there);
        let on_their_way = ids.iter().filter(|id| place.message(id).state == "processing");
        assert_eq!(on_their_way.cloned().collect::<Vec<_>>(), left, "{event}");
    }
    assert_eq!(left, ids, "what did not fit comes with the next answer");
}

/// `S2`, whose parent is `S1`, on a disk that works.
fn family() -> (Place, ProcessRef) {
    let mut place = Place::new();
    place.client(S1, 100);
    let child = place.client(S2, 200);
    let mut order = OperatorRequest::new(OperatorVerb::Attend);
    order.sessions = vec![S2.to_owned()];
    order.marks = MarkChange { parent: Some(S1.to_owned()), ..MarkChange::default() };
    place.serving.order(&order).unwrap();
    (0..3).for_each(|_| place.turn());
    (place, child)
}

/// The messages of coord's that are there for `S1`, with their texts.
fn told(place: &mut Place) -> Vec<String> {
    let listed = place.messages_for(S1);
    let of_coord = listed.messages.iter().filter(|one| one.from == "coord");
    let ids: Vec<String> = of_coord.map(|one| one.id.clone()).collect();
    ids.iter().map(|id| place.message(id).text.unwrap_or_default()).collect()
}

// S4-09, S4-27, S4-22: an end that could not be told is a problem that people see, and is told at the next start,
// once.
#[test]
fn an_end_that_could_not_be_told_is_told_at_the_next_start() {
    let mut n_seen = 0;
    for at in 1..40 {
        let (mut place, child) = family();
        assert_eq!(told(&mut place), [""; 0]);
        place.machine.get().disk.arm(Fault::Error { at, kind: ErrorKind::Other });
        let ended = json!({"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"});
        let answer = place.hook(S2, child, ended);
        place.machine.get().disk.disarm();
        let health = place.serving.ask("/healthz").unwrap();
        let health = String::from_utf8(health.body).unwrap();
        let was_untold = health.contains("the notice of a session's end was not sent");
        let is_taken = matches!(answer, Route::Answer(Response { status: 204, .. }));
        if is_taken {
            assert_eq!(told(&mut place).len(), usize::from(!was_untold), "fault at {at}: {health}");
        }
        n_seen += u32::from(was_untold);
        for _ in 0..2 {
            place = place.after(Damage::Kept);
            (0..3).for_each(|_| place.turn());
            let told = told(&mut place);
            if is_taken {
                assert_eq!(told.len(), 1, "fault at {at}: {told:?}");
                assert!(told[0].contains("Your child session 22222222"), "{told:?}");
            }
        }
    }
    assert!(0 < n_seen, "no fault met the text");
}
