//! Through which delivery path a message leaves, and through which never (S4-24, H-13, H-21, H-25, H-30).

use coord_core::{Admitted, Turn};
use coord_model::{
    DeliveryPath, Event, HookEvent, HookKind, Kind, NewMessage, Provenance, SessionState,
    StartSource, ToolPhase, Via,
};

use super::mail::{OTHER, id};
use crate::crashes::{PID, at_rest};
use crate::world::{PROMPT, STOP, TOOL, World, process};

/// What is other in a hook's event.
type Change = fn(&mut HookEvent);

fn urgent(world: &World, n: u64) -> NewMessage {
    NewMessage { is_urgent: true, ..world.mail(n) }
}

// S4-24, H-30: the prompt that opens a turn brings it, one that is typed into a turn does not, since it may be
// pulled back.
#[test]
fn a_prompt_of_a_closed_turn_is_a_door() {
    let mut world = at_rest();
    world.sent([1]);
    assert_eq!(world.asks(PROMPT, |_| ()), Some((DeliveryPath::Prompt, vec![id(1)])));
    assert_eq!(world.asks(PROMPT, |_| ()), None, "H-30: it waits behind the open turn");
    assert_eq!(world.message(id(1)).word(), "pending");
    assert_eq!(world.asks(STOP, |_| ()), None, "R-02: the turn of the queued prompt is open");
    assert!(matches!(*world.session("s1").turn, Turn::Open { .. }));
}

// H-30, R-01: a prompt with another id says that the turn before is over: it opens one.
#[test]
fn a_prompt_behind_an_unseen_interrupt_is_a_door() {
    let mut world = at_rest();
    world.asks(PROMPT, |event| event.prompt_id = Some("p1".into()));
    world.sent([1]);
    let same = world.asks(PROMPT, |event| event.prompt_id = Some("p1".into()));
    assert_eq!(same, None, "that one is queued");
    let other = world.asks(PROMPT, |event| event.prompt_id = Some("p2".into()));
    assert_eq!(other, Some((DeliveryPath::Prompt, vec![id(1)])));
}

// S4-24: a tool's result brings urgent ones alone; nothing but its end brings anything.
#[test]
fn a_tool_is_a_door_for_urgent_ones() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sent([1]);
    assert_eq!(world.asks(TOOL, |_| ()), None, "that one can wait for the turn's end");
    world.sends(urgent(&world, 2));
    for phase in [ToolPhase::Before, ToolPhase::Failed] {
        assert_eq!(world.asks(HookKind::Tool(phase), |_| ()), None);
    }
    assert_eq!(world.asks(TOOL, |_| ()), Some((DeliveryPath::Tool, vec![id(2)])));
}

// H-21: a Stop brings what waits, and makes the turn go on, once; what it goes on with is no idle session.
#[test]
fn a_stop_delivers_once_a_turn() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sent([1, 2]);
    assert_eq!(world.takes(STOP), [id(1), id(2)]);
    assert_eq!(world.state_of("s1"), SessionState::Running, "the turn goes on");
    assert!(matches!(*world.session("s1").turn, Turn::Open { queued: 0, .. }));
    let awake = world.state.moment(world.now()).awake;
    assert_eq!(world.session("s1").wakes.used(awake).0, 1, "one turn, however many messages");
    world.sent([3]);
    assert_eq!(world.wakes(), [], "nobody is woken in the midst of it");
    assert_eq!(world.asks(STOP, |_| ()), None, "no second time in this turn");
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert_eq!(world.takes(PROMPT), [id(3)]);
    world.sent([4]);
    assert_eq!(world.takes(STOP), [id(4)], "the next turn has its own");
}

// H-21, H-44: only a verified event says that the session began anew or that its user started a turn.
#[test]
fn an_unverified_event_does_not_let_a_stop_deliver_again() {
    let corroborated = Provenance::Corroborated {
        is_client: true,
        registry_dir: Some("/home/dev/.claude".into()),
    };
    for provenance in [Provenance::Claimed, corroborated] {
        for kind in [HookKind::SessionStart(StartSource::Startup), PROMPT] {
            let mut world = at_rest();
            world.hook("s1", PID, PROMPT);
            world.sent([1]);
            assert_eq!(world.takes(STOP), [id(1)]);
            world.hook("s1", PID, STOP);
            let forged = world.event("s1", PID, kind, 0.0);
            world.send(HookEvent { provenance: provenance.clone(), ..forged });
            world.pass(1.0);
            world.hook("s1", PID, HookKind::Tool(ToolPhase::Before));
            world.sent([2]);
            assert_eq!(world.asks(STOP, |_| ()), None, "no second time in this turn");
        }
    }
}

// S4-09, H-21: the hook did not wait for its answer: nobody was told to go on, the turn is over, and its messages
// wait as they did; the next Stop may bring them.
#[test]
fn a_stop_that_was_not_answered_leaves_the_turn_closed() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sent([1, 2]);
    let (delivery, ids) = world.asks(STOP, |_| ()).unwrap();
    assert_eq!(ids, [1, 2].map(id));
    ids.iter().for_each(|id| world.hand(*id, delivery));
    assert_eq!(world.state_of("s1"), SessionState::Running);
    for (id, word) in ids.into_iter().zip([SessionState::Running, SessionState::Idle]) {
        let fence = world.message(id).lease().unwrap().fence;
        let returned = coord_model::QueueEvent::Returned { id, fence, why: "gone".into() };
        world.queue(returned.clone());
        world.queue(returned);
        let message = world.message(id);
        assert!(message.is_ready() && message.attempts == 0 && !message.maybe_duplicate);
        assert_eq!(world.state_of("s1"), word, "with the last one");
    }
    assert_eq!(world.wakes(), [1, 2].map(id)[..1]);
    world.hook("s1", PID, PROMPT);
    world.pass(1.0);
    assert_eq!(world.takes(STOP), [1, 2].map(id));
}

// H-21: another hook made the turn go on already.
#[test]
fn a_stop_that_goes_on_is_no_door() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sent([1]);
    assert_eq!(world.asks(STOP, |event| event.stop_hook_active = true), None);
    assert_eq!(world.message(id(1)).word(), "pending");
}

// H-25, H-30: what is not proved to come from the client's own child, what came late, and a subagent's.
#[test]
fn only_a_proved_hook_of_the_main_thread_is_a_door() {
    let changes: [(&str, Change); 3] = [
        ("unverified", |event| event.provenance = Provenance::Claimed),
        ("spooled", |event| event.via = Via::Spool),
        ("of a subagent", |event| event.agent = Some("a1".into())),
    ];
    for (name, change) in changes {
        for kind in [PROMPT, TOOL, STOP] {
            let mut world = at_rest();
            if kind != PROMPT {
                world.hook("s1", PID, PROMPT);
            }
            world.sends(urgent(&world, 1));
            assert_eq!(world.asks(kind.clone(), change), None, "{name}: {kind:?}");
            assert!(world.message(id(1)).is_ready(), "{name}: {kind:?}");
        }
    }
}

// G2, H-31: an event that comes too late to change anything brings nothing.
#[test]
fn a_late_hook_is_no_door() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sends(urgent(&world, 1));
    let mut late = world.event("s1", PID, TOOL, 50.0);
    late.prompt_id = None;
    world.effects.clear();
    world.send(late);
    let is_offer =
        |effect: &coord_model::Effect| matches!(effect, coord_model::Effect::Offer { .. });
    assert!(!world.effects.iter().any(is_offer));
}

// S4-24: a run's start is followed by its prompt at once, a person's perhaps never.
#[test]
fn a_start_is_a_door_for_headless_runs_alone() {
    let mut world = at_rest();
    world.sent([1]);
    for source in [StartSource::Startup, StartSource::Resume, StartSource::Clear] {
        assert_eq!(world.asks(HookKind::SessionStart(source), |_| ()), None, "{source:?}");
    }
    let started = world.headless("s3", 500);
    world.send(started);
    let key = world.session("s3").key;
    let to = coord_model::Address::Session(key);
    assert_eq!(world.sends(NewMessage { to, ..world.mail(2) }), Admitted::New);
    let (delivery, ids) = {
        let resumed = world.headless("s3", 500);
        world.effects.clear();
        world.seconds += 1.0;
        let resumed = HookEvent { mono_ns: world.mono_ns(0.0), ..resumed };
        world.send(resumed);
        let offered = world.effects.iter().find_map(|effect| match effect {
            coord_model::Effect::Offer { session, delivery, .. } => Some((*session, *delivery)),
            _ => None,
        });
        let (session, delivery) = offered.expect("an offer");
        let session = world.state.session(session).unwrap();
        (delivery, world.state.outgoing(session, delivery, world.state.moment(world.now())))
    };
    assert_eq!((delivery, ids), (DeliveryPath::Start, vec![id(2)]));
    // In the midst of a run its context is compacted: nothing begins.
    let mut compacted = world.headless("s3", 500);
    compacted.kind = HookKind::SessionStart(StartSource::Compact);
    world.effects.clear();
    world.seconds += 1.0;
    compacted.mono_ns = world.mono_ns(0.0);
    world.send(compacted);
    let is_offer =
        |effect: &coord_model::Effect| matches!(effect, coord_model::Effect::Offer { .. });
    assert!(!world.effects.iter().any(is_offer));
}

// H-12, H-21: the last answer of a run is what its caller asked for: it is not made to go on.
#[test]
fn the_end_of_a_headless_run_is_no_door() {
    let mut world = at_rest();
    let started = world.headless("s3", 500);
    world.send(started);
    let to = coord_model::Address::Session(world.session("s3").key);
    world.seconds += 1.0;
    world.hook("s3", 500, PROMPT);
    world.sends(NewMessage { to, is_urgent: true, ..world.mail(1) });
    world.effects.clear();
    world.hook("s3", 500, STOP);
    let is_offer =
        |effect: &coord_model::Effect| matches!(effect, coord_model::Effect::Offer { .. });
    assert!(!world.effects.iter().any(is_offer));
    world.hook("s3", 500, PROMPT);
    assert!(world.effects.iter().any(is_offer), "but its next prompt is one");
}

// H-13: where two processes claim one conversation nothing is delivered, by whichever of them.
#[test]
fn two_owners_get_nothing() {
    let mut world = at_rest();
    world.sent([1]);
    world.open("s1", OTHER, Kind::Interactive);
    assert_eq!(world.state.sessions().filter(|one| one.two_owners).count(), 2);
    assert_eq!(world.asks_of_anyone(PROMPT), []);
    assert_eq!(world.wakes(), []);
    assert!(world.why_waits(id(1)).contains("two processes hold"), "{}", world.why_waits(id(1)));
    world.seen_dead(OTHER);
    world.registry(OTHER, coord_model::Registry::Absent, true);
    assert_eq!(world.wakes(), [], "a turn was opened meanwhile");
    world.hook("s1", PID, STOP);
    assert_eq!(world.wakes(), [id(1)]);
}

// S4-24: urgent ones first, else as they were sent; at most eight, and no more than the client reads.
#[test]
fn an_answer_holds_so_many() {
    let mut world = at_rest();
    world.sent(1..=9);
    world.sends(urgent(&world, 10));
    let taken = world.takes(PROMPT);
    assert_eq!(taken, [10, 1, 2, 3, 4, 5, 6, 7].map(id));
    assert_eq!(world.takes(STOP), [8, 9].map(id));
}

// R-18, H-30: of a longer context the client reads only the beginning: what does not fit waits.
#[test]
fn an_answer_holds_so_many_bytes() {
    let mut world = at_rest();
    for (n, bytes) in [(1, 3_000), (2, 3_900), (3, 200)] {
        world.sends(NewMessage { bytes, ..world.mail(n) });
    }
    assert_eq!(world.takes(PROMPT), [1, 2].map(id), "the frames count as well");
    assert_eq!(world.takes(STOP), [id(3)]);
    world.hook("s1", PID, STOP);
    world.sends(NewMessage { bytes: 60_000, ..world.mail(4) });
    world.sent([5]);
    assert_eq!(world.takes(PROMPT), [id(4)], "one that is longer than all goes alone, cut");
}

// H-04, H-21: one that a person has to let pass is in nobody's way.
#[test]
fn one_that_is_barred_blocks_no_other() {
    let mut world = at_rest();
    world.sends(NewMessage { depth: 4, ..urgent(&world, 1) });
    world.sent([2]);
    assert_eq!(world.wakes(), [id(2)]);
    assert_eq!(world.takes(PROMPT), [id(2)]);
    world.sends(urgent(&world, 3));
    assert_eq!(world.takes(TOOL), [id(3)]);
    assert_eq!(world.message(id(1)).word(), "pending");
}

// S4-02: what left once leaves by no other delivery path.
#[test]
fn what_is_on_its_way_is_handed_to_nobody_else() {
    let mut world = at_rest();
    world.sent([1]);
    assert_eq!(world.takes(PROMPT), [id(1)]);
    let fence = world.message(id(1)).lease().unwrap().fence;
    world.hand(id(1), DeliveryPath::Stop);
    world.queue(coord_model::QueueEvent::Claimed {
        id: id(1),
        holder: "a program".into(),
        lease_ms: 1,
    });
    let message = world.message(id(1));
    assert_eq!((message.lease().unwrap().fence, message.attempts), (fence, 1));
    assert_eq!(world.takes(STOP), []);
    assert_eq!(
        world.state_of("s1"),
        SessionState::Idle,
        "a record that does not fit opens no turn"
    );
}

impl World {
    /// A hook of `s1` by its first process, whichever records there are. What is offered.
    fn asks_of_anyone(&mut self, kind: HookKind) -> Vec<coord_model::MessageId> {
        let event = self.event("s1", PID, kind, 0.0);
        self.effects.clear();
        self.take(&Event::Hook(Box::new(event)));
        self.seconds += 0.001;
        let key = self.state.session_of(process(PID)).unwrap().key;
        let session = self.state.session(key).unwrap();
        self.state.outgoing(session, DeliveryPath::Prompt, self.state.moment(self.now()))
    }
}
