//! By which way a message left, and what its session is left with (S4-09, S4-24, H-02, H-13, H-15, H-30, R-20).

use coord_core::{ANSWER_BYTES_MAX, Admitted, MessageState, Turn};
use coord_model::{
    Address, DeliveryPath, Effect, HookKind, Kind, NewMessage, QueueEvent, Registry, RegistryEntry,
    RegistryStatus, SessionKey, SessionState, StartSource,
};

use super::mail::{OTHER, id};
use crate::crashes::{PID, at_rest};
use crate::world::{PROMPT, START, STOP, World, entry};

// S4-24, G9: who reads where a message is reads the hook that took it, as the client names it.
#[test]
fn the_way_by_which_a_message_left_is_named() {
    let names = [
        (DeliveryPath::Start, "SessionStart"),
        (DeliveryPath::Prompt, "UserPromptSubmit"),
        (DeliveryPath::Tool, "PostToolUse"),
        (DeliveryPath::Stop, "Stop"),
        (DeliveryPath::Wake, "the wake hook"),
    ];
    for (delivery, name) in names {
        let mut world = at_rest();
        world.sent([1]);
        world.hand(id(1), delivery);
        let holder = match &world.message(id(1)).state {
            MessageState::Processing(lease) => lease.holder.clone(),
            state => panic!("{state:?}"),
        };
        assert_eq!((delivery.event(), &*holder), (name, name), "{delivery:?}");
        let did = &world.decisions.last().unwrap().did;
        assert!(did.starts_with(&format!("handed over by {name};")), "{delivery:?}: {did}");
    }
}

// H-30: of two messages the second one leaves with the first while both fit into one answer, to the byte.
#[test]
fn what_fits_into_an_answer_exactly_leaves_in_it() {
    // Each of them with the 500 bytes that its frame adds.
    let both = u32::try_from(ANSWER_BYTES_MAX).unwrap() - 2 * 500;
    for (more, n) in [(0, 2), (1, 1)] {
        let mut world = at_rest();
        for (n, bytes) in [(1, both - 100 + more), (2, 100)] {
            world.sends(NewMessage { bytes, ..world.mail(n) });
        }
        assert_eq!(world.takes(PROMPT).len(), n, "{more} bytes more than fit");
    }
}

/// A message for this session, and why it waits; nothing is handed to it by any way.
fn waits_at(world: &mut World, to: SessionKey) -> String {
    let to = Address::Session(to);
    let mail = NewMessage { to: to.clone(), ..world.mail(1) };
    assert_eq!(world.sends(mail), Admitted::New);
    let Address::Session(key) = to else { panic!("{to:?}") };
    let session = world.state.session(key).unwrap();
    let at = world.state.moment(world.now());
    for delivery in [
        DeliveryPath::Start,
        DeliveryPath::Prompt,
        DeliveryPath::Tool,
        DeliveryPath::Stop,
        DeliveryPath::Wake,
    ] {
        assert_eq!(world.state.outgoing(session, delivery, at), [], "{delivery:?}");
    }
    world.why_waits(id(1))
}

// H-15, R-20: a session elsewhere, and one that the client's own supervisor has, are both not this coordinator's.
#[test]
fn nothing_is_handed_to_a_session_that_is_not_this_coordinators() {
    let mut elsewhere = at_rest();
    let mut start = elsewhere.event("s2", OTHER, START, 0.0);
    start.machine = "machine-2".into();
    elsewhere.send(start);
    let mut foreign = at_rest();
    foreign.other();
    let Registry::Present(its) = entry("s2", Some(RegistryStatus::Idle), 0) else { panic!() };
    let found = Registry::Present(RegistryEntry { is_foreign: true, ..its });
    foreign.registry(OTHER, found, false);
    for (mut world, word) in
        [(elsewhere, SessionState::Elsewhere), (foreign, SessionState::Foreign)]
    {
        assert_eq!(world.state_of("s2"), word);
        let key = world.session("s2").key;
        assert_eq!(
            waits_at(&mut world, key),
            "this coordinator does not manage the session",
            "{word:?}"
        );
    }
}

// S4-09, H-30: a Stop brought it, and its hook was gone. That turn has ended by itself meanwhile, and its user's
// next one is no business of it.
#[test]
fn what_a_stop_could_not_bring_ends_no_later_turn() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sent([1]);
    assert_eq!(world.takes(STOP), [id(1)]);
    world.hook("s1", PID, STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    world.hook("s1", PID, PROMPT);
    let fence = world.message(id(1)).lease().unwrap().fence;
    world.queue(QueueEvent::Returned { id: id(1), fence, why: "gone".into() });
    assert!(world.message(id(1)).is_ready());
    assert_eq!(world.state_of("s1"), SessionState::Running);
    assert!(matches!(*world.session("s1").turn, Turn::Open { .. }));
}

// H-30: a transcript is looked through for what left for its session, and for nothing that never did.
#[test]
fn only_what_left_is_sought() {
    let is_sought = |world: &World| {
        world.effects.iter().any(|effect| matches!(effect, Effect::SeekMessages { .. }))
    };
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.sent([1, 2]);
    world.asks(HookKind::Other("PreCompact".into()), |_| ());
    assert!(world.state.on_their_way(world.key()).is_empty() && !is_sought(&world));
    world.hand(id(1), DeliveryPath::Tool);
    let ids: Vec<_> = world.state.on_their_way(world.key()).iter().map(|one| one.id).collect();
    assert_eq!(ids, [id(1)]);
    world.asks(HookKind::Other("PreCompact".into()), |_| ());
    assert!(is_sought(&world));
    let fence = world.message(id(1)).lease().unwrap().fence;
    world.queue(QueueEvent::Returned { id: id(1), fence, why: "gone".into() });
    world.asks(HookKind::Other("PreCompact".into()), |_| ());
    assert!(world.state.on_their_way(world.key()).is_empty() && !is_sought(&world));
}

// S4-24, G12: an urgent message need not wait for the end of the turn, and that is said.
#[test]
fn what_is_urgent_comes_with_the_next_tool_of_an_open_turn() {
    let urgent =
        "the session is working; delivered with its next tool result or when the turn ends";
    let other = "the session is working; delivered when the turn ends";
    for (is_urgent, why) in [(true, urgent), (false, other)] {
        let mut world = at_rest();
        world.sends(NewMessage { is_urgent, ..world.mail(1) });
        assert!(world.why_waits(id(1)).contains("is idle"), "{}", world.why_waits(id(1)));
        world.hook("s1", PID, PROMPT);
        assert_eq!(world.why_waits(id(1)), why);
    }
}

// H-02: the registry speaks of a background shell, but nobody has seen the turn end: it is not woken.
#[test]
fn nobody_is_woken_whose_turn_was_not_seen_to_end() {
    let mut world = at_rest();
    world.sent([1]);
    world.hook("s1", PID, PROMPT);
    world.pass(5.0);
    world.says("s1", PID, RegistryStatus::Shell);
    let turn = *world.session("s1").turn;
    assert!(world.state_of("s1") == SessionState::Background && matches!(turn, Turn::Open { .. }));
    assert_eq!(world.wakes(), []);
    let why = "what the session is doing is unknown; delivered with its next prompt";
    assert_eq!(world.why_waits(id(1)), why);
    world.hook("s1", PID, STOP);
    assert_eq!(world.state_of("s1"), SessionState::Background);
    assert_eq!(world.wakes(), [id(1)], "its turn is over");
}

// H-02, R-07: a waiter is kept for a session that was ever sent a message, whichever conversation its client is in.
#[test]
fn a_session_that_was_sent_a_message_keeps_its_waiter() {
    let mut world = at_rest();
    assert!(!world.session("s1").inbox.was_sent);
    world.sent([1]);
    assert!(world.session("s1").inbox.was_sent);
    for (id, source) in
        [("s1", StartSource::Startup), ("s2", StartSource::Clear), ("s2", StartSource::Resume)]
    {
        world.hook(id, PID, HookKind::SessionStart(source));
        assert!(world.session(id).inbox.was_sent, "{source:?}");
    }
    assert_eq!(world.session("s2").kind, Some(Kind::Interactive));
}
