//! Who is woken by a message, and how often (H-02, H-08, H-13, H-21, H-35).

use coord_core::{Starter, Turn};
use coord_model::{
    Command, DeliveryPath, EndReason, Event, HookKind, Kind, ProcessSeen, Provenance, QueueEvent,
    RegistryStatus, Screen, SessionState, Settings, WakeLimits,
};

use super::mail::{LEASE_S, OTHER, id};
use crate::crashes::{PID, at_rest, living, unattended};
use crate::world::{PROMPT, STOP, World, process};

/// What happens to a session first.
type Make = fn(&mut World);

// H-02: an idle session is woken, with one message, and its turn is charged.
#[test]
fn an_idle_session_is_woken_with_one_message() {
    let mut world = at_rest();
    world.sent([1, 2]);
    world.wakes_with(1);
    assert_eq!(world.session("s1").starter, Starter::Awaited);
    let awake = world.state.moment(world.now()).awake;
    assert_eq!(world.session("s1").wakes.used(awake).0, 1, "H-21");
    assert_eq!(world.wakes(), [], "one at a time");
    assert!(world.why_waits(id(2)).contains("was woken a moment ago"));
    assert_eq!(world.takes(PROMPT), [id(2)], "the turn that the wake starts takes the rest");
    assert_eq!(world.session("s1").starter, Starter::Coord);
}

// H-02, H-21, H-35: each thing that is other than it should be forbids it, and says why.
#[test]
fn who_is_at_something_is_not_woken() {
    let makes: [(&str, Make, &str); 7] = [
        ("a turn is open", |world| world.hook("s1", PID, PROMPT), "when the turn ends"),
        (
            "a permission dialog is open",
            |world| world.says("s1", PID, RegistryStatus::WaitingPermission),
            "a dialog is open",
        ),
        (
            "a question is open",
            |world| world.says("s1", PID, RegistryStatus::WaitingInput),
            "a dialog is open",
        ),
        (
            "a person holds it",
            |world| {
                let session = Some(world.key());
                world.command(Command::Hold { session, for_ms: None });
            },
            "a person holds the session",
        ),
        (
            "a person holds all",
            |world| world.command(Command::Hold { session: None, for_ms: Some(1_000_000) }),
            "a person holds the session",
        ),
        (
            "it waits for its quota",
            |world| {
                world.hook("s1", PID, PROMPT);
                world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
            },
            "usage limit",
        ),
        (
            "its account is blocked",
            |world| {
                world.hook("s1", PID, PROMPT);
                world.hook("s1", PID, HookKind::StopFailure("billing_error".into()));
            },
            "account error",
        ),
    ];
    makes.into_iter().for_each(is_not_woken);
}

// H-02, H-13, H-14, G4: so does each thing that coord is at, or that it may not touch.
#[test]
fn whom_coord_may_not_touch_is_not_woken() {
    let makes: [(&str, Make, &str); 7] = [
        (
            "its client went over to another conversation, and the hooks that tell so were lost",
            |world| world.says("s9", PID, RegistryStatus::Idle),
            "the client's registry names another conversation",
        ),
        (
            "it is being ended",
            |world| {
                let session = world.key();
                world.command(Command::Recover { session, restart: true, when_idle: false });
                let proof = living(world);
                assert_eq!(world.prove(proof).len(), 1);
            },
            "being recovered",
        ),
        (
            "two sources contradict each other",
            |world| {
                world.hook("s1", PID, PROMPT);
                world.says("s1", PID, RegistryStatus::Busy);
                world.pass(1.0);
                world.hook("s1", PID, STOP);
                world.pass(20.0);
                assert!(world.session("s1").contested.is_some());
                assert_eq!(world.state_of("s1"), SessionState::Idle);
            },
            "what the session is doing is unknown",
        ),
        (
            "Ctrl-Z",
            |world| {
                world.take(&Event::ProcessSeen(ProcessSeen {
                    process: process(PID),
                    alive: true,
                    kind: None,
                    is_stopped: true,
                    forked_from: None,
                    launch: None,
                }));
            },
            "Ctrl-Z",
        ),
        (
            "its directory is another coordinator's",
            |world| {
                let config_dir = "/home/dev/.claude".into();
                world.take(&Event::ConfigDirLock { config_dir, held: false });
            },
            "may not wake the session",
        ),
        ("it crashed", |world| world.crash(PID), "when it is recovered"),
        (
            "its user left",
            |world| world.hook("s1", PID, HookKind::SessionEnd(EndReason::PromptInputExit)),
            "when it is resumed",
        ),
    ];
    makes.into_iter().for_each(is_not_woken);
}

#[track_caller]
fn is_not_woken((name, make, why): (&str, Make, &str)) {
    let mut world = at_rest();
    world.sent([1]);
    assert_eq!(world.wakes(), [id(1)], "{name}: at rest it is woken");
    make(&mut world);
    assert_eq!(world.wakes(), [], "{name}");
    assert!(world.why_waits(id(1)).contains(why), "{name}: {}", world.why_waits(id(1)));
    assert_eq!(world.message(id(1)).word(), "pending", "H-21: held, never dropped");
}

// S0-25a: a recovery that waits holds no message back, and does not end what a message is starting.
#[test]
fn a_recovery_that_waits_holds_no_message_back() {
    let mut world = at_rest();
    let session = world.key();
    world.sent([1]);
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.command(Command::Recover { session, restart: true, when_idle: true });
    world.pass(3_600.0);
    assert!(world.why_waits(id(1)).contains("is working"), "{}", world.why_waits(id(1)));
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    world.actions();
    assert!(world.session("s1").recovery.pending.is_some());
    world.wakes_with(1);
    world.pass(40.0);
    assert!(!world.actions().iter().any(crate::crashes::is_act));
    let pending = world.session("s1").recovery.pending.as_ref();
    assert_eq!(pending.unwrap().waits_for, "a message is being delivered to it");
}

// H-02: no wake hook waits in a headless run.
#[test]
fn a_headless_run_is_not_woken() {
    let mut world = at_rest();
    let started = world.headless("s3", 500);
    world.send(started);
    world.seen_alive(500);
    world.hook("s3", 500, PROMPT);
    world.hook("s3", 500, STOP);
    let to = coord_model::Address::Session(world.session("s3").key);
    let mail = coord_model::NewMessage { to, ..world.mail(1) };
    world.sends(mail);
    assert_eq!(world.wakes(), []);
    assert!(world.why_waits(id(1)).contains("headless"));
}

// H-14: known from the registry alone, it is never acted on.
#[test]
fn a_session_that_never_reported_is_not_woken() {
    let mut world = at_rest();
    let mut spooled = world.event("s2", OTHER, crate::world::START, 0.0);
    let registry_dir = Some(spooled.config_dir.clone());
    spooled.provenance = Provenance::Corroborated { is_client: true, registry_dir };
    spooled.harness.as_mut().unwrap().kind = Some(Kind::Interactive);
    world.send(spooled);
    world.seen_alive(OTHER);
    let to = coord_model::Address::Session(world.session("s2").key);
    let mail = coord_model::NewMessage { to, ..world.mail(1) };
    world.sends(mail);
    assert_eq!(world.wakes(), []);
    assert!(world.why_waits(id(1)).contains("may not wake the session"));
}

// H-02, R-01: an interrupted turn is over, and background work keeps nobody from reading.
#[test]
fn an_interrupted_turn_and_background_work_are_rest() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(3.0);
    world.interrupted(PID);
    world.says("s1", PID, RegistryStatus::Idle);
    assert!(matches!(*world.session("s1").turn, Turn::Interrupted { .. }));
    world.sent([1]);
    assert_eq!(world.wakes(), [id(1)]);
    world.hook("s1", PID, PROMPT);
    let work = coord_model::Background { tasks: 1, subagents: 0, crons: 0 };
    world.hook("s1", PID, HookKind::Stop(work));
    world.screen(PID, Screen::Prompt);
    assert_eq!((world.state_of("s1"), world.wakes()), (SessionState::Background, vec![id(1)]));
}

// H-21: six turns in ten minutes; the seventh waits, and says for how long.
#[test]
fn the_seventh_wake_in_ten_minutes_waits() {
    let mut world = at_rest();
    for n in 1..=6 {
        world.sent([n]);
        world.wakes_with(n);
        world.has_a_turn();
        world.queue(QueueEvent::Proved(id(n)));
        world.pass(60.0);
    }
    world.sent([7]);
    assert_eq!(world.wakes(), []);
    let why = world.why_waits(id(7));
    assert!(why.contains("(6) is used up") && why.contains("held for 4 min"), "{why}");
    world.pass(239.0);
    assert_eq!(world.wakes(), []);
    world.pass(2.0);
    world.wakes_with(7);
}

// H-21: a turn that a Stop made go on is a turn; a budget that is spent closes that delivery path as well, and no other.
#[test]
fn continuations_are_charged_to_the_same_budget() {
    let mut world = at_rest();
    for n in 1..=6 {
        world.hook("s1", PID, PROMPT);
        world.sent([n]);
        assert_eq!(world.takes(STOP), [id(n)]);
        world.hook("s1", PID, STOP);
    }
    world.sent([7]);
    assert_eq!(world.wakes(), []);
    assert!(world.why_waits(id(7)).contains("(6) is used up"), "{}", world.why_waits(id(7)));
    world.restart();
    assert!(world.why_waits(id(7)).contains("(6) is used up"), "G10");
    world.asks(PROMPT, |_| ());
    assert_eq!(world.asks(STOP, |_| ()), None);
    assert_eq!(world.message(id(7)).word(), "pending");
    assert_eq!(world.takes(PROMPT), [id(7)], "what its user starts costs nothing");
}

// H-21: the limits are the configured ones, and a day has its own.
#[test]
fn a_budget_of_a_day() {
    let mut world = at_rest();
    let wakes = WakeLimits { per_10min: 6, per_day: 2 };
    world.configure(Settings { wakes, ..Settings::default() });
    for n in 1..=2 {
        world.sent([n]);
        world.wakes_with(n);
        world.has_a_turn();
        world.queue(QueueEvent::Proved(id(n)));
        world.pass(3_600.0);
    }
    world.sent([3]);
    assert_eq!(world.wakes(), []);
    world.pass(86_400.0);
    assert_eq!(world.wakes(), [id(3)]);
}

// S4-09, H-02: the waiter was gone: no turn follows, the message waits as it did, and is sent by the next one.
#[test]
fn a_wake_that_did_not_leave_is_none() {
    let mut world = at_rest();
    world.sent([1]);
    world.wakes_with(1);
    let fence = world.message(id(1)).lease().unwrap().fence;
    let why = "its wake hook was gone".to_owned();
    world.queue(QueueEvent::Returned { id: id(1), fence, why });
    let message = world.message(id(1));
    assert!(message.is_ready() && !message.maybe_duplicate && message.attempts == 0);
    assert_eq!(world.session("s1").starter, Starter::User, "nobody's turn is awaited");
    assert_eq!(world.wakes(), [id(1)]);
    world.hook("s1", PID, PROMPT);
    assert_eq!(world.session("s1").starter, Starter::User, "the next prompt is its user's");
}

// H-02, H-30: a wake that started no turn is over with its lease; the session can be woken again.
#[test]
fn a_wake_that_nobody_heard_is_over_with_its_lease() {
    for says in [true, false] {
        let mut world = at_rest();
        world.sent([1]);
        world.wakes_with(1);
        world.pass(LEASE_S);
        if says {
            world.queue(QueueEvent::Unproved(id(1)));
        }
        world.pass(40.0);
        assert!(world.message(id(1)).is_ready() && world.message(id(1)).maybe_duplicate);
        assert_eq!(world.session("s1").starter, Starter::User);
        world.wakes_with(1);
    }
}

// H-21: a wake that arrived is awaited until its prompt is heard of: nobody is woken twice for one turn.
#[test]
fn a_wake_is_awaited_until_its_prompt_comes() {
    let mut world = at_rest();
    world.sent([1, 2]);
    world.wakes_with(1);
    world.queue(QueueEvent::Proved(id(1)));
    assert_eq!(world.wakes(), []);
    assert!(world.why_waits(id(2)).contains("was woken a moment ago"));
    assert_eq!(world.takes(PROMPT), [id(2)]);
}

// H-21: the messages of one answer start one turn.
#[test]
fn the_messages_of_one_answer_are_charged_once() {
    let mut world = at_rest();
    world.sent([1]);
    world.hook("s1", PID, PROMPT);
    world.sent([2]);
    let (delivery, ids) = world.asks(STOP, |_| ()).unwrap();
    assert_eq!((delivery, ids.len()), (DeliveryPath::Stop, 2));
    ids.iter().for_each(|id| world.hand(*id, delivery));
    let awake = world.state.moment(world.now()).awake;
    assert_eq!(world.session("s1").wakes.used(awake), (1, 1));
}

// S1-08, H-02: that somebody watches it is nothing against it: the draft survives a wake (measured).
#[test]
fn an_unattended_session_is_woken_like_any() {
    let mut world = unattended();
    world.sent([1]);
    assert_eq!(world.wakes(), [id(1)]);
}
