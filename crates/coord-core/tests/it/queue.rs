//! Messages (S4, G3): states, leases, fences, retries, folding, retention.

#![expect(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test may fail loudly")]

use crate::world::World;
use coord_core::{Admitted, LineCounts, Refused};
use coord_model::{Address, Effect, MessageId, NewMessage, QueueEvent, Same, Sender};
use proptest::prelude::*;

const QUEUE: &str = "builds";
const LEASE_S: f64 = 300.0;
const LEASE_MS: u64 = 300_000;
const DAY_S: f64 = 86_400.0;

fn to(queue: &str) -> Address {
    Address::Queue(queue.into())
}

fn id(n: u64) -> MessageId {
    MessageId::from_random(n)
}

/// A message whose text is its number.
fn new(n: u64) -> NewMessage {
    NewMessage {
        id: id(n),
        to: to(QUEUE),
        from: Sender::Operator,
        is_urgent: false,
        depth: 0,
        same: Same::Text(n),
        bytes: 1,
        ttl_ms: None,
    }
}

impl World {
    fn sent_to_queue(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for n in numbers {
            assert_eq!(self.sends(new(n)), Admitted::New);
        }
    }

    /// The next message and its fence.
    fn claims(&mut self, holder: &str) -> Option<(MessageId, u64)> {
        let next = self.state.next_in_queue(QUEUE)?.id;
        self.queue(QueueEvent::Claimed { id: next, holder: holder.into(), lease_ms: LEASE_MS });
        Some((next, self.message(next).lease().unwrap().fence))
    }

    fn fails(&mut self, (id, fence): (MessageId, u64), is_final: bool) {
        self.queue(QueueEvent::Failed { id, fence, why: "no disk".into(), is_final });
    }

    fn counts(&self) -> [usize; 3] {
        let LineCounts { pending, processing, failed } = self.state.message_counts(&to(QUEUE));
        [pending, processing, failed]
    }

    fn removed(&mut self) -> Vec<MessageId> {
        let removed = self.effects.drain(..).filter_map(|effect| match effect {
            Effect::RemoveBody { message } => Some(message),
            _ => None,
        });
        removed.collect()
    }
}

// S4-01 to S4-03: pending, one claim with a lease, processed, and gone after its time.
#[test]
fn from_sent_to_done_to_gone() {
    let mut world = World::new();
    world.sent_to_queue([1, 2]);
    assert_eq!(world.counts(), [2, 0, 0]);
    let first = world.claims("a").unwrap();
    let second = world.claims("b").unwrap();
    assert_eq!((first.0, second.0), (id(1), id(2)), "in the order in which they were sent");
    assert_eq!((world.claims("c"), world.counts()), (None, [0, 2, 0]), "each is one's alone");
    world.queue(QueueEvent::Done { id: first.0, fence: first.1 });
    assert_eq!((world.message(first.0).word(), world.counts()), ("processed", [0, 1, 0]));
    assert!(world.state.was_done_by(first.0, first.1));
    assert!(!world.state.was_done_by(first.0, second.1) && !world.state.was_done_by(second.0, 2));
    world.queue(QueueEvent::Done { id: second.0, fence: second.1 });
    world.pass(7.0 * DAY_S - 1.0);
    assert!(world.removed().is_empty() && world.state.messages().len() == 2);
    world.pass(2.0);
    assert_eq!(world.removed(), [first.0, second.0], "S4-20: with its text");
    assert_eq!(world.state.messages().len(), 0);
}

// S4-03
#[test]
fn urgent_ones_go_first() {
    let mut world = World::new();
    world.sent_to_queue([1, 2]);
    world.sends(NewMessage { is_urgent: true, ..new(3) });
    world.sends(NewMessage { to: to("others"), is_urgent: true, ..new(4) });
    let order: Vec<MessageId> = (0..3).map(|_| world.claims("a").unwrap().0).collect();
    assert_eq!(order, [id(3), id(1), id(2)]);
    assert_eq!(world.state.next_in_queue("others").map(|one| one.id), Some(id(4)));
}

// S4-13: a consumer that hangs loses the message at the deadline, to the second, and comes too late.
#[test]
fn a_consumer_hangs_on_a_claimed_message() {
    let mut world = World::new();
    world.sent_to_queue([1]);
    let (one, fence) = world.claims("hangs").unwrap();
    world.pass(LEASE_S - 0.001);
    assert_eq!(world.message(one).word(), "processing");
    world.pass(0.001);
    let message = world.message(one);
    assert!(message.is_pending() && !message.is_ready(), "it waits for its second attempt");
    assert!(message.maybe_duplicate, "S4-25: nobody knows how far the first one came");
    assert_eq!(world.state.held(one, fence), Err(Refused::NotHeld { state: "pending" }));
    world.queue(QueueEvent::Done { id: one, fence });
    world.queue(QueueEvent::Renewed { id: one, fence, lease_ms: LEASE_MS });
    assert!(world.message(one).is_pending(), "a lease that is over changes nothing");
    world.pass(10.0);
    let (again, newer) = world.claims("another").unwrap();
    assert!(again == one && fence < newer);
    assert_eq!(world.state.held(one, fence), Err(Refused::Taken { holder: "another".into() }));
    world.fails((one, fence), true);
    world.queue(QueueEvent::Done { id: one, fence });
    assert_eq!(world.state.held(one, newer).map(|message| message.attempts), Ok(2));
}

// S4-14, G10: a restart of the coordinator changes no lease, one of the machine ends all.
#[test]
fn a_consumer_crashes_after_the_claim() {
    let mut world = World::new();
    world.sent_to_queue([1]);
    let (one, fence) = world.claims("crashes").unwrap();
    world.pass(10.0);
    world.start_coordinator();
    assert!(world.state.held(one, fence).is_ok());
    world.reboot();
    let message = world.message(one);
    assert!(message.is_pending() && message.maybe_duplicate, "{message:?}");
    world.pass(10.0);
    assert!(world.claims("another").is_some_and(|(_, newer)| fence < newer));
}

// S4-17: who works for longer says so in time.
#[test]
fn a_lease_is_renewed() {
    let mut world = World::new();
    world.sent_to_queue([1]);
    let (one, fence) = world.claims("slow").unwrap();
    for _ in 0..3 {
        world.pass(LEASE_S - 1.0);
        world.queue(QueueEvent::Renewed { id: one, fence, lease_ms: LEASE_MS });
    }
    world.queue(QueueEvent::Renewed { id: one, fence, lease_ms: 1 });
    world.pass(LEASE_S - 1.0);
    assert!(world.state.held(one, fence).is_ok(), "no promise is taken back");
    assert_eq!(world.state.worked_on(world.state.moment(world.now()).awake), [1, 1, 0], "S4-18");
    world.pass(1.0);
    assert!(world.message(one).is_pending());
}

// S4-23: three more attempts, each later than the one before, then failed with the reason.
#[test]
fn attempts_have_an_end() {
    let mut world = World::new();
    world.sent_to_queue([1]);
    for (attempt, delay_s) in [(1, 10.0), (2, 20.0), (3, 40.0)] {
        let claimed = world.claims("a").unwrap();
        world.fails(claimed, false);
        assert_eq!(world.message(id(1)).attempts, attempt);
        world.pass(delay_s - 0.001);
        assert_eq!(world.claims("a"), None, "attempt {attempt}");
        world.pass(0.001);
    }
    let claimed = world.claims("a").unwrap();
    world.fails(claimed, false);
    assert_eq!(world.reason(id(1)), "no disk; tried 4 times");
    assert!(!world.message(id(1)).maybe_duplicate, "it was told that it is not done");
    assert_eq!(world.counts(), [0, 0, 1]);
    let last = world.decisions.last().unwrap();
    assert_eq!((last.session_id.as_str(), &*last.rule), (id(1).to_string().as_str(), "S4-23"));
    world.pass(29.9 * DAY_S);
    assert_eq!(world.counts(), [0, 0, 1], "S4-20");
    world.pass(0.2 * DAY_S);
    assert_eq!(world.removed(), [id(1)]);
}

// S4-20, H-32: what is kept for a time is kept for the rest of it behind a restart of the machine, which
// takes 11.6 days here, less what it was up before.
#[test]
fn retention_goes_on_behind_a_boot() {
    let mut world = World::new();
    world.sent_to_queue([1, 2]);
    let (one, fence) = world.claims("a").unwrap();
    world.queue(QueueEvent::Done { id: one, fence });
    let two = world.claims("a").unwrap();
    world.fails(two, true);
    world.pass(3.0 * DAY_S);
    world.reboot();
    assert_eq!(world.removed(), [id(1)], "7 days are over");
    world.pass(17.0 * DAY_S);
    assert_eq!(world.counts(), [0, 0, 1], "30 are not");
    world.pass(2.0 * DAY_S);
    assert_eq!(world.removed(), [id(2)]);
}

// S4-23: what cannot be done at all is not tried again.
#[test]
fn a_final_failure_is_one() {
    let mut world = World::new();
    world.sent_to_queue([1]);
    let claimed = world.claims("a").unwrap();
    world.fails(claimed, true);
    assert_eq!(world.reason(id(1)), "no disk");
}

// S4-22
#[test]
fn a_message_whose_text_is_gone_fails() {
    let mut world = World::new();
    world.sent_to_queue([1]);
    world.queue(QueueEvent::Lost { id: id(1), why: "gone".into() });
    assert_eq!(world.reason(id(1)), "gone");
    assert_eq!(world.claims("a"), None);
}

// S4-01, S4-19: a person retries or drops one, without a restart, and not under somebody's hands.
#[test]
fn a_person_retries_and_drops() {
    let mut world = World::new();
    world.sent_to_queue([1, 2]);
    let claimed = world.claims("a").unwrap();
    assert_eq!(world.state.is_free(id(1)), Err(Refused::WorkedOn { holder: "a".into() }));
    world.queue(QueueEvent::Dropped(id(1)));
    world.queue(QueueEvent::Retried(id(1)));
    assert_eq!(world.message(id(1)).word(), "processing");
    world.fails(claimed, true);
    world.queue(QueueEvent::Retried(id(1)));
    let again = world.claims("a").unwrap();
    assert_eq!((again.0, world.message(id(1)).attempts), (id(1), 1), "with all its attempts");
    world.fails(again, false);
    world.queue(QueueEvent::Retried(id(1)));
    assert!(world.message(id(1)).is_ready(), "a wait for an attempt is over as well");
    world.queue(QueueEvent::Dropped(id(1)));
    assert_eq!((world.removed(), world.state.is_free(id(1))), (vec![id(1)], Err(Refused::Gone)));
    let (two, fence) = world.claims("a").unwrap();
    world.queue(QueueEvent::Done { id: two, fence });
    assert_eq!(world.state.is_free(two), Err(Refused::Done));
    world.queue(QueueEvent::Dropped(two));
    world.queue(QueueEvent::Retried(two));
    assert_eq!(world.message(two).word(), "processed");
}

// What nobody takes in time fails, also across a restart of the machine (H-32).
#[test]
fn a_message_expires() {
    let mut world = World::new();
    let ttl = |n, ttl_ms| NewMessage { ttl_ms: Some(ttl_ms), ..new(n) };
    world.sends(ttl(1, 60_000));
    world.sends(ttl(2, 60_000));
    world.sends(ttl(3, 3 * 86_400_000 * 10));
    world.pass(59.0);
    let claimed = world.claims("a").unwrap();
    world.pass(1.0);
    assert!(world.reason(id(2)).contains("(--ttl) ran out"));
    assert!(world.state.held(claimed.0, claimed.1).is_ok(), "one that is worked on goes on");
    world.fails(claimed, false);
    world.pass(0.0);
    assert!(world.reason(id(1)).contains("(--ttl) ran out"));
    assert!(world.message(id(3)).is_ready());
    // A boot takes more than eleven days here.
    world.reboot();
    assert!(world.message(id(3)).is_ready());
    world.reboot();
    world.pass(9.0 * DAY_S);
    assert!(world.reason(id(3)).contains("(--ttl) ran out"));
}

// S4-26, flood control: a key is one message for as long as that is kept, a text for as long as it waits.
#[test]
fn the_same_message_is_sent_once() {
    let mut world = World::new();
    let keyed = |n, digest| NewMessage { same: Same::Key("k".into(), digest), ..new(n) };
    let text = |n, digest| NewMessage { same: Same::Text(digest), ..new(n) };
    assert_eq!(world.sends(keyed(1, 7)), Admitted::New);
    assert_eq!(world.sends(keyed(2, 7)), Admitted::Folded(id(1)));
    assert_eq!(world.sends(keyed(3, 8)), Admitted::OtherText(id(1)));
    let another = NewMessage { from: Sender::Agent, ..keyed(4, 8) };
    assert_eq!(world.sends(another), Admitted::New, "another sender's key is another key");
    assert_eq!(world.sends(text(5, 7)), Admitted::New, "a key and a text are not the same");
    assert_eq!(world.sends(text(6, 7)), Admitted::Folded(id(5)));
    assert_eq!(world.sends(NewMessage { to: to("others"), ..text(7, 7) }), Admitted::New);
    assert_eq!((world.message(id(1)).folded, world.message(id(5)).folded), (1, 1));
    for _ in 0..3 {
        let (id, fence) = world.claims("a").unwrap();
        world.queue(QueueEvent::Done { id, fence });
    }
    assert_eq!(world.sends(keyed(8, 7)), Admitted::Folded(id(1)), "done once is done");
    assert_eq!(world.sends(text(9, 7)), Admitted::New, "what was said before may be said again");
    world.pass(7.1 * DAY_S);
    assert_eq!(world.sends(keyed(10, 8)), Admitted::New);
}

// One cap per receiver, and nothing is dropped for it.
#[test]
fn a_receiver_has_a_cap() {
    let mut world = World::new();
    world.sent_to_queue(0..1000);
    assert_eq!(world.sends(new(1000)), Admitted::Full(1000));
    assert_eq!(world.sends(new(5)), Admitted::Folded(id(5)), "one that is there adds nothing");
    assert_eq!(world.sends(NewMessage { to: to("others"), ..new(1001) }), Admitted::New);
    assert!(world.claims("a").is_some());
    assert_eq!(world.sends(new(1000)), Admitted::New);
    assert_eq!(world.state.messages().len(), 1002);
}

#[test]
fn names_of_queues() {
    for good in ["a", "builds", "A-1_b.c", "0"] {
        assert!(coord_core::is_queue_name(good), "{good}");
    }
    let long = "a".repeat(65);
    for bad in ["", "-a", ".", "a b", "ä", "a/b", "a\n", &long] {
        assert!(!coord_core::is_queue_name(bad), "{bad}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(u64, bool, Option<u64>),
    Claim,
    Done(usize),
    Fail(usize, bool),
    Renew(usize),
    Retry(u64),
    Drop(u64),
    Pass(u32),
    Restart,
    Reboot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        4 => (0..12_u64, any::<bool>(), proptest::option::of(1..2_000_000_u64))
            .prop_map(|(n, key, ttl_ms)| Step::Send(n, key, ttl_ms)),
        4 => Just(Step::Claim),
        2 => (0..8_usize).prop_map(Step::Done),
        2 => (0..8_usize, any::<bool>()).prop_map(|(n, last)| Step::Fail(n, last)),
        1 => (0..8_usize).prop_map(Step::Renew),
        1 => (0..12_u64).prop_map(Step::Retry),
        1 => (0..12_u64).prop_map(Step::Drop),
        3 => (0..2_000_u32).prop_map(Step::Pass),
        1 => Just(Step::Restart),
        1 => Just(Step::Reboot),
    ];
    proptest::collection::vec(one, 1..60)
}

proptest! {
    // G3: whatever happens, each accepted message is in one state, none leaves it but for a reason that was
    // told, no two leases share a fence, and none outlives its deadline. `World::take` checks the
    // invariants and the indexes after each step.
    #[test]
    fn none_is_lost_and_none_is_stuck(steps in steps()) {
        let mut world = World::new();
        let (mut leases, mut gone): (Vec<(MessageId, u64)>, u64) = (Vec::new(), 0);
        let (mut accepted, mut n_ids) = (0_u64, 0_u64);
        for step in steps {
            match step {
                Step::Send(n, key, ttl_ms) => {
                    n_ids += 1;
                    let same = if key { Same::Key(n.to_string(), n) } else { Same::Text(n) };
                    let sent = NewMessage { id: id(n_ids), same, ttl_ms, ..new(n) };
                    accepted += u64::from(world.sends(sent) == Admitted::New);
                }
                Step::Claim => {
                    if let Some((id, fence)) = world.claims("a") {
                        prop_assert!(leases.iter().all(|(_, earlier)| *earlier < fence));
                        leases.push((id, fence));
                    }
                }
                Step::Done(n) => {
                    if let Some((id, fence)) = leases.iter().rev().nth(n) {
                        world.queue(QueueEvent::Done { id: *id, fence: *fence });
                    }
                }
                Step::Fail(n, is_final) => {
                    if let Some(lease) = leases.iter().rev().nth(n).copied() {
                        world.fails(lease, is_final);
                    }
                }
                Step::Renew(n) => {
                    if let Some((id, fence)) = leases.iter().rev().nth(n).copied() {
                        world.queue(QueueEvent::Renewed { id, fence, lease_ms: LEASE_MS });
                    }
                }
                Step::Retry(n) => world.queue(QueueEvent::Retried(id(n))),
                Step::Drop(n) => world.queue(QueueEvent::Dropped(id(n))),
                Step::Pass(seconds) => world.pass(f64::from(seconds)),
                Step::Restart => world.start_coordinator(),
                Step::Reboot => world.reboot(),
            }
            let removed = world.removed();
            gone += removed.len() as u64;
            prop_assert!(removed.iter().all(|id| world.state.message(*id).is_none()));
            prop_assert_eq!(world.state.messages().len() as u64 + gone, accepted);
            let now = world.state.moment(world.now()).awake;
            prop_assert_eq!(world.state.worked_on(now)[2], 0, "none is beyond its deadline");
            let held = leases.iter().filter(|(id, fence)| world.state.held(*id, *fence).is_ok());
            prop_assert_eq!(held.count(), world.counts()[1], "each lease is one that was given");
        }
        // In the end all is settled by time alone.
        while let Some(lease) = world.claims("a") {
            world.fails(lease, true);
        }
        world.pass(40.0 * DAY_S);
        while let Some(lease) = world.claims("a") {
            world.fails(lease, true);
        }
        world.pass(40.0 * DAY_S);
        prop_assert_eq!(world.state.messages().len(), 0);
    }
}
