//! What becomes of a message that left (H-30, S4-23, S4-25, G3, G10): proved, given back, failed, across restarts.

use coord_core::Turn;
use coord_model::{
    Background, DeliveryPath, Effect, EndReason, HookKind, MessageId, NewMessage, QueueEvent,
    SessionState, StartSource,
};

use super::mail::{DAY_S, LEASE_S, id};
use crate::crashes::{PID, at_rest};
use crate::world::{PROMPT, STOP, TOOL, World};

/// Settings' bound of a last look.
const LOOK_S: f64 = 30.0;

/// A message that left with a prompt.
fn handed() -> World {
    let mut world = at_rest();
    world.sent([1]);
    assert_eq!(world.takes(PROMPT), [id(1)]);
    world.effects.clear();
    world
}

impl World {
    fn last_looks(&mut self) -> Vec<MessageId> {
        let looks = self.effects.drain(..).filter_map(|effect| match effect {
            Effect::SeekLast { message } => Some(message),
            _ => None,
        });
        looks.collect()
    }

    fn seeks(&mut self) -> usize {
        let is_seek = |effect: &Effect| matches!(effect, Effect::SeekMessages { .. });
        self.effects.drain(..).filter(is_seek).count()
    }

    fn proved(&mut self, n: u64) {
        self.queue(QueueEvent::Proved(id(n)));
    }

    fn unproved(&mut self, n: u64) {
        self.queue(QueueEvent::Unproved(id(n)));
    }

    /// Its lease is over, and the last look does not find it.
    fn lapses(&mut self, n: u64) {
        self.pass(LEASE_S);
        self.unproved(n);
    }

    fn word_of(&self, n: u64) -> &'static str {
        self.message(id(n)).word()
    }
}

// H-30: that it left is no delivery; what its transcript shows is.
#[test]
fn what_left_is_on_its_way_until_it_is_proved() {
    let mut world = handed();
    let message = world.message(id(1));
    let sought = message.sought().unwrap();
    assert_eq!((message.word(), message.attempts), ("processing", 1));
    assert_eq!((sought.path.as_str(), sought.is_last), ("/t/s1.jsonl", false));
    assert_eq!(sought.config_dir, "/home/dev/.claude");
    world.hook("s1", PID, TOOL);
    assert_eq!(world.word_of(1), "processing", "an event proves nothing");
    assert_eq!(world.seeks(), 1, "but it is a moment to look");
    let (processed, counts) = (world.state.header().queue.processed, world.counts_of_s1());
    assert_eq!((processed, counts), (0, [0, 1, 0]));
    world.proved(1);
    assert_eq!((world.word_of(1), world.counts_of_s1()), ("processed", [0, 0, 0]));
    assert_eq!(world.state.header().queue.processed, 1);
    let said = world.decisions.iter().rfind(|one| one.session_id == id(1).to_string()).unwrap();
    assert_eq!((&*said.rule, said.did.as_str()), ("H-30", "delivered"), "G9");
    world.proved(1);
    world.unproved(1);
    assert_eq!((world.word_of(1), world.state.header().queue.processed), ("processed", 1));
    world.effects.clear();
    world.hook("s1", PID, STOP);
    assert_eq!(world.seeks(), 0, "nothing is looked for any more");
    world.pass(7.1 * DAY_S);
    assert!(world.state.message(id(1)).is_none(), "S4-20");
}

// H-30: what never left is proved by nothing, whatever a transcript shows.
#[test]
fn what_never_left_cannot_arrive() {
    let mut world = at_rest();
    world.sent([1]);
    world.proved(1);
    world.unproved(1);
    assert!(world.message(id(1)).is_ready());
}

// H-30: the lease is over: one last look, and only that gives it back, as one that may have been read.
#[test]
fn at_the_end_of_its_lease_it_is_looked_for_once_more() {
    let mut world = handed();
    world.unproved(1);
    assert_eq!(world.word_of(1), "processing", "no look before the last one gives up");
    world.pass(LEASE_S - 1.0);
    assert_eq!(world.last_looks(), []);
    world.pass(1.0);
    assert_eq!(world.last_looks(), [id(1)]);
    assert_eq!(world.word_of(1), "processing");
    assert!(world.message(id(1)).sought().unwrap().is_last);
    world.unproved(1);
    let message = world.message(id(1));
    assert!(message.is_pending() && !message.is_ready(), "S4-23: later");
    assert!(message.maybe_duplicate && message.attempts == 1, "S4-25");
    assert!(message.last_failure.as_deref().unwrap().contains("no answer to a request"));
    assert_eq!(world.takes(STOP), []);
    world.pass(9.0);
    assert!(!world.message(id(1)).is_ready());
    world.pass(1.0);
    assert_eq!((world.takes(PROMPT), world.last_looks()), (vec![id(1)], vec![]));
    assert!(world.message(id(1)).maybe_duplicate, "its frame says so");
}

// H-30: found by the last look it was delivered.
#[test]
fn the_last_look_may_find_it() {
    let mut world = handed();
    world.pass(LEASE_S + 1.0);
    assert_eq!(world.last_looks(), [id(1)]);
    world.proved(1);
    world.unproved(1);
    assert_eq!(world.word_of(1), "processed");
}

// H-30: a look that never answers is given up, so that nothing is stuck (G3).
#[test]
fn a_last_look_without_an_answer_is_given_up() {
    let mut world = handed();
    world.pass(LEASE_S + LOOK_S - 0.5);
    assert_eq!((world.word_of(1), world.last_looks()), ("processing", vec![id(1)]));
    world.pass(0.5);
    let message = world.message(id(1));
    assert!(message.is_pending() && message.maybe_duplicate && !message.is_ready());
    assert!(message.last_failure.as_deref().unwrap().contains("does not show whether"));
    assert_eq!((world.last_looks(), world.state.header().queue.ran_out), (vec![], 1));
    world.unproved(1);
    assert_eq!(world.message(id(1)).attempts, 1, "an answer that comes too late changes nothing");
}

// H-30: proof that comes late is proof: while it waits again, and when it was given up.
#[test]
fn a_late_proof_is_one() {
    let mut world = handed();
    world.lapses(1);
    world.hook("s1", PID, STOP);
    assert_eq!(world.seeks(), 1, "it is still looked for");
    world.proved(1);
    assert_eq!((world.word_of(1), world.wakes()), ("processed", vec![]));
    world.pass(60.0);
    assert_eq!(world.takes(PROMPT), [], "and is not sent again");

    let mut world = handed();
    fails(&mut world);
    world.proved(1);
    assert_eq!((world.word_of(1), world.counts_of_s1()), ("processed", [0, 0, 0]));
}

/// It is handed over until nobody tries any more.
fn fails(world: &mut World) {
    for attempt in 1..=4 {
        assert_eq!(world.message(id(1)).attempts, attempt);
        world.lapses(1);
        world.pass(60.0);
        world.hook("s1", PID, STOP);
        world.takes(PROMPT);
    }
}

// S4-23: three more attempts, then it failed, and says why; a person has it tried again (S4-19).
#[test]
fn attempts_have_an_end() {
    let mut world = handed();
    fails(&mut world);
    let why = world.reason(id(1));
    assert!(why.contains("no answer to a request") && why.ends_with("; tried 4 times"), "{why}");
    assert_eq!(world.counts_of_s1(), [0, 0, 1]);
    world.queue(QueueEvent::Retried(id(1)));
    let message = world.message(id(1));
    assert!(message.is_ready() && message.attempts == 0 && message.maybe_duplicate);
    world.hook("s1", PID, STOP);
    assert_eq!(world.takes(PROMPT), [id(1)]);
}

// S4-09: what did not leave was not tried: not counted, not marked, no delay; and an older lease says nothing.
#[test]
fn what_did_not_leave_was_not_tried() {
    let mut world = handed();
    let fence = world.message(id(1)).lease().unwrap().fence;
    let returned = |fence| QueueEvent::Returned { id: id(1), fence, why: "gone".into() };
    world.queue(returned(fence - 1));
    assert_eq!(world.word_of(1), "processing");
    world.queue(returned(fence));
    let message = world.message(id(1));
    assert!(message.is_ready() && message.attempts == 0 && !message.maybe_duplicate);
    assert_eq!(message.last_failure.as_deref(), Some("gone"));
    world.hook("s1", PID, STOP);
    assert_eq!(world.takes(PROMPT), [id(1)]);
    world.queue(returned(fence));
    assert_eq!(world.word_of(1), "processing", "that lease is over");
    let newer = world.message(id(1)).lease().unwrap().fence;
    assert!(fence < newer, "S4-13");
}

// G10, S4-22: a restart of the coordinator changes nothing of it, wherever it is.
#[test]
fn a_restart_keeps_it_where_it_is() {
    let mut world = handed();
    world.restart();
    assert_eq!((world.word_of(1), world.message(id(1)).attempts), ("processing", 1));
    world.pass(LEASE_S);
    assert_eq!(world.last_looks(), [id(1)]);
    world.restart();
    assert!(world.message(id(1)).sought().unwrap().is_last);
    world.pass(LOOK_S);
    assert!(world.message(id(1)).maybe_duplicate, "whoever looked is gone");
    world.restart();
    assert_eq!((world.word_of(1), world.message(id(1)).attempts), ("pending", 1));
    assert!(world.message(id(1)).maybe_duplicate);
    world.proved(1);
    world.restart();
    assert_eq!(world.word_of(1), "processed");
}

// H-32, H-30: with the machine its client is gone: it is looked for at once, and what is not found waits again.
#[test]
fn a_new_boot_ends_its_lease_with_a_look() {
    for is_found in [true, false] {
        let mut world = handed();
        world.pass(10.0);
        world.effects.clear();
        world.reload();
        world.reboot();
        assert_eq!(world.last_looks(), [id(1)]);
        assert_eq!(world.word_of(1), "processing");
        if is_found {
            world.proved(1);
            assert_eq!(world.word_of(1), "processed");
        } else {
            world.unproved(1);
            let message = world.message(id(1));
            assert!(message.is_pending() && message.maybe_duplicate);
            assert!(world.why_waits(id(1)).contains("when it is resumed"));
        }
    }
}

// S0-33, R-07: messages are the agent's, whatever its id is by now; a client that resumes it gets them.
#[test]
fn messages_stay_with_their_session() {
    let mut world = at_rest();
    world.sent([1]);
    world.hook("s1", PID, HookKind::SessionEnd(EndReason::Clear));
    let mut began = world.event("s1b", PID, HookKind::SessionStart(StartSource::Clear), 0.0);
    began.transcript_path = "/t/s1b.jsonl".into();
    world.send(began);
    assert_eq!(world.message(id(1)).session(), Some(world.session("s1b").key));
    world.seconds += 1.0;
    world.hook("s1b", PID, HookKind::SessionEnd(EndReason::PromptInputExit));
    world.exit(PID);
    assert!(world.why_waits(id(1)).contains("has ended"));
    world.pass(1_000.0);
    world.hook("s1b", 700, HookKind::SessionStart(StartSource::Resume));
    world.launched(700, crate::crashes::launch());
    assert_eq!(world.wakes(), [id(1)], "S0-33: it comes when it is resumed");
    let prompt = world.event("s1b", 700, PROMPT, 0.0);
    world.send(prompt);
    let key = world.session("s1b").key;
    let session = world.state.session(key).unwrap();
    let at = world.state.moment(world.now());
    assert_eq!(world.state.outgoing(session, DeliveryPath::Prompt, at), [id(1)]);
}

// H-30: what left for one conversation is looked for in that one's transcript, whatever followed.
#[test]
fn it_is_sought_where_it_left_for() {
    let mut world = handed();
    let mut began = world.event("s1b", PID, HookKind::SessionStart(StartSource::Clear), 0.0);
    began.transcript_path = "/t/s1b.jsonl".into();
    world.send(began);
    assert_eq!(world.session("s1b").transcript_path, "/t/s1b.jsonl");
    assert_eq!(world.message(id(1)).sought().unwrap().path, "/t/s1.jsonl");
    let key = world.session("s1b").key;
    let ids: Vec<MessageId> = world.state.on_their_way(key).iter().map(|one| one.id).collect();
    assert_eq!(ids, [id(1)]);
}

// S0-31, S4-23: with the record that nobody resumed its messages fail, and say so.
#[test]
fn with_its_record_its_messages_fail() {
    let mut world = handed();
    world.sent([2]);
    world.hook("s1", PID, HookKind::SessionEnd(EndReason::PromptInputExit));
    world.exit(PID);
    world.pass(29.0 * DAY_S);
    world.restart();
    assert_eq!(world.word_of(2), "pending");
    world.pass(2.0 * DAY_S);
    world.restart();
    assert!(world.state.sessions().next().is_none());
    assert!(world.reason(id(2)).contains("was not resumed"), "{}", world.reason(id(2)));
    assert_eq!(
        world.state.waits_for(&world.message(id(2)).clone(), world.state.moment(world.now())),
        None
    );
    world.restart();
    world.pass(31.0 * DAY_S);
    assert_eq!(world.state.messages().len(), 0, "S4-20");
}

// What nobody read in time fails; one that is on its way is not taken back for it.
#[test]
fn a_message_to_a_session_expires() {
    let mut world = at_rest();
    for n in [1, 2] {
        let mail = NewMessage { ttl_ms: Some(60_000), ..world.mail(n) };
        world.sends(mail);
        if n == 1 {
            assert_eq!(world.takes(PROMPT), [id(1)]);
        }
    }
    world.pass(60.0);
    assert_eq!((world.word_of(1), world.reason(id(2))), ("processing", "its time (--ttl) ran out"));
}

// S4-22: a message whose text is gone fails by itself.
#[test]
fn a_lost_text_is_one_message_s_failure() {
    let mut world = at_rest();
    world.sent([1, 2]);
    world.queue(QueueEvent::Lost { id: id(1), why: "its text cannot be read".into() });
    assert_eq!(world.reason(id(1)), "its text cannot be read");
    assert_eq!(world.takes(PROMPT), [id(2)]);
}

impl World {
    fn counts_of_s1(&self) -> [usize; 3] {
        let to = coord_model::Address::Session(self.key());
        let counts = self.state.message_counts(&to);
        [counts.pending, counts.processing, counts.failed]
    }
}

// R-11, S1-22: a turn that a message made go on and that fails at a limit waits for quota, whatever its Stop told.
#[test]
fn a_turn_that_went_on_and_failed() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sent([1]);
    let stop = HookKind::Stop(Background { tasks: 1, ..Background::default() });
    assert_eq!(world.takes(stop), [id(1)]);
    world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    assert_eq!(world.session("s1").shown.state, SessionState::QuotaWait);
}

// S4-09, R-02: a prompt that came while a Stop waited for its answer has its own turn, and no other.
#[test]
fn a_prompt_beside_a_stop_that_was_not_answered() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sent([1]);
    assert_eq!(world.takes(STOP), [id(1)]);
    let fence = world.message(id(1)).lease().unwrap().fence;
    world.hook("s1", PID, PROMPT);
    world.queue(QueueEvent::Returned { id: id(1), fence, why: "gone".into() });
    assert!(matches!(*world.session("s1").turn, Turn::Open { queued: 0, .. }));
    world.hook("s1", PID, STOP);
    assert!(matches!(*world.session("s1").turn, Turn::Closed { .. }));
}
