//! Who is told of a session's end (S4-25, S4-27, S0-34): its parent and those whose messages wait for it, each once.

use std::collections::BTreeSet;

use coord_core::Admitted;
use coord_model::{
    Address, Command, Effect, EndReason, Event, HookKind, MarkChange, NewMessage, Provenance,
    QueueEvent, Same, Sender, SessionKey, StartSource, Whom,
};

use super::mail::{DAY_S, OTHER, id};
use crate::crashes::{NEXT, PID, at_rest, dead, in_a_turn};
use crate::world::{EXIT, PROMPT, START, STOP, World, no_registry, present};

/// What happens to a session.
type Make = fn(&mut World);

impl World {
    fn parent_of(&mut self, child: SessionKey, parent: &str) {
        let marks = MarkChange { parent: Some(parent.into()), ..MarkChange::default() };
        self.command(Command::Attend { whom: Whom::Session(child), marks });
    }

    /// Sends what is to be told, as the daemon does. Whom, with the text.
    fn tells(&mut self) -> Vec<(SessionKey, String)> {
        let is_tell = |effect: &mut Effect| matches!(effect, Effect::SendNotice { .. });
        let tells: Vec<Effect> = self.effects.extract_if(.., is_tell).collect();
        let mut told = Vec::new();
        for effect in tells {
            let Effect::SendNotice { to, name, text, .. } = effect else { continue };
            let n = 1_000 + self.state.header().queue.sent;
            let new = NewMessage {
                id: id(n),
                to: Address::Session(to),
                from: Sender::Coord,
                same: Same::Key(name, n),
                is_urgent: false,
                depth: 0,
                bytes: 100,
                ttl_ms: None,
            };
            if self.sends(new) == Admitted::New {
                told.push((to, text));
            }
        }
        told
    }

    /// Time and restarts pass, and nobody is told anything more.
    #[track_caller]
    fn nobody_is_told(&mut self) {
        self.pass(600.0);
        assert!(!self.effects.iter().any(|effect| matches!(effect, Effect::SendNotice { .. })));
        for _ in 0..2 {
            self.restart();
            self.pass(60.0);
            let is_tell = |effect: &Effect| matches!(effect, Effect::SendNotice { .. });
            assert!(!self.effects.iter().any(is_tell), "a restart tells nobody twice");
        }
    }
}

/// `s1`, whose parent is `s2`.
fn child() -> World {
    family(at_rest())
}

fn family(mut world: World) -> World {
    world.other();
    let key = world.key();
    world.parent_of(key, "s2");
    world.effects.clear();
    world
}

fn leaves(world: &mut World) {
    world.hook("s1", PID, EXIT);
    world.exit(PID);
}

// S4-27, S0-34: however a child ends, its parent is told so, once.
#[test]
fn a_parent_is_told_how_its_child_ended() {
    let ends: [(&str, Make, &str); 5] = [
        ("left by its user", leaves, "was ended by a person"),
        (
            "ended",
            |world| {
                world.hook("s1", PID, HookKind::SessionEnd(EndReason::Other));
                world.exit(PID);
            },
            "has ended",
        ),
        (
            "crashed",
            |world| world.die(PID, present("s1")),
            "crashed; coord is trying to recover it",
        ),
        (
            "gone",
            |world| {
                world.hook("s1", PID, PROMPT);
                world.die(PID, no_registry());
                world.pass(60.0);
            },
            "is gone; whether it ended",
        ),
        ("interrupted", |world| world.reboot(), "was interrupted"),
    ];
    for (name, end, words) in ends {
        let mut world = child();
        let parent = world.session("s2").key;
        assert_eq!(world.tells(), [], "{name}: while it lives");
        end(&mut world);
        let told = world.tells();
        let [(to, text)] = &told[..] else { panic!("{name}: {told:?}") };
        assert_eq!(*to, parent, "{name}");
        assert!(
            text.starts_with("Your child session s1") && text.contains(words),
            "{name}: {text}"
        );
        assert!(text.contains("coord explain s1"), "G9: {text}");
        assert_eq!(world.tells(), []);
    }
}

// S4-27: one told of is told of no more, whatever happens.
#[test]
fn an_end_is_told_once() {
    let mut world = child();
    leaves(&mut world);
    assert_eq!(world.tells().len(), 1);
    world.nobody_is_told();
    let told = world.state.messages().find(|one| one.from == Sender::Coord).unwrap().id;
    world.hand(told, coord_model::DeliveryPath::Wake);
    world.queue(QueueEvent::Proved(told));
    world.nobody_is_told();
}

// S4-27: that coord gave it up is told behind that it crashed.
#[test]
fn that_it_was_given_up_is_told_as_well() {
    let mut world = family(in_a_turn());
    world.crash(PID);
    let told = world.tells();
    assert!(told.len() == 1 && told[0].1.contains("is trying to recover it"), "{told:?}");
    world.comes_back(NEXT);
    assert_eq!(world.tells(), [], "that it is back is no end");
    world.pass(40.0);
    world.crash(NEXT);
    assert_eq!(world.tells().len(), 1, "another end");
    let (intent, _) = world.asked();
    let proof = Box::new(dead(&world));
    world.take(&Event::Proved { session_id: String::new(), intent, proof });
    assert!(world.session("s1").recovery.needs_operator.is_some());
    let told = world.tells();
    let [(_, text)] = &told[..] else { panic!("{told:?}") };
    assert!(text.contains("could not recover it") && text.contains("a person"), "{text}");
    world.nobody_is_told();
}

// S4-27: a session that came back and ends again has another end.
#[test]
fn the_next_end_is_told_again() {
    let mut world = child();
    leaves(&mut world);
    assert_eq!(world.tells().len(), 1);
    world.pass(10.0);
    world.hook("s1", 700, HookKind::SessionStart(StartSource::Resume));
    world.seen_alive(700);
    assert_eq!(world.tells(), [], "that it goes on is no end");
    world.pass(10.0);
    world.hook("s1", 700, EXIT);
    world.exit(700);
    assert_eq!(world.tells().len(), 1);
    world.nobody_is_told();
}

// S4-27: what is older than a day is history: whoever is marked as a parent then hears nothing.
#[test]
fn an_old_end_is_told_to_nobody() {
    for (age_s, n) in [(DAY_S - 60.0, 1), (DAY_S + 60.0, 0)] {
        let mut world = at_rest();
        world.other();
        leaves(&mut world);
        world.pass(age_s);
        let key = world.key();
        world.parent_of(key, "s2");
        world.restart();
        assert_eq!(world.tells().len(), n, "{age_s} s");
    }
}

// S4-25, S0-34: who sent what waits there is told that it waits.
#[test]
fn senders_whose_messages_wait_are_told() {
    let mut world = at_rest();
    let other = world.other();
    world.runs_in("default");
    world.sent_by(1, Sender::Session("s2".into()));
    world.sent_by(2, Sender::Session("nobody".into()));
    world.sent([3]);
    world.effects.clear();
    leaves(&mut world);
    let told = world.tells();
    let [(to, text)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*to, other);
    assert!(text.starts_with("Session s1") && text.contains("has not read wait"), "{text}");
    world.nobody_is_told();
}

// S4-25: whose message was read hears nothing of it.
#[test]
fn senders_whose_messages_were_read_are_not_told() {
    let mut world = at_rest();
    world.other();
    world.runs_in("default");
    let sent = world.sent_by(1, Sender::Session("s2".into()));
    assert_eq!(world.takes(PROMPT), [sent]);
    world.queue(QueueEvent::Proved(sent));
    world.hook("s1", PID, STOP);
    leaves(&mut world);
    assert_eq!(world.tells(), []);
}

// S4-25, S4-27: a parent whose messages wait is told both, in one message.
#[test]
fn a_parent_that_is_a_sender_is_told_once() {
    let mut world = child();
    world.sent_by(1, Sender::Session("s2".into()));
    leaves(&mut world);
    let told = world.tells();
    let [(_, text)] = &told[..] else { panic!("{told:?}") };
    assert!(text.starts_with("Your child session") && text.contains("has not read wait"));
}

// S4-27: nobody is told of its own end, by whatever id it names itself, nor who is nobody.
#[test]
fn nobody_is_told_of_its_own_end() {
    for parent in ["s1", "s0", "nobody"] {
        let mut world = at_rest();
        world.hook("s0", PID, HookKind::SessionStart(StartSource::Clear));
        world.hook("s1", PID, HookKind::SessionStart(StartSource::Clear));
        let key = world.key();
        world.parent_of(key, parent);
        world.sent_by(1, Sender::Session("s1".into()));
        world.effects.clear();
        leaves(&mut world);
        assert_eq!(world.tells(), [], "{parent}");
    }
}

// a parent is found by the id that it had when its child was marked.
#[test]
fn a_parent_is_found_by_an_older_id() {
    let mut world = child();
    world.hook("s2b", OTHER, HookKind::SessionStart(StartSource::Clear));
    let parent = world.session("s2b").key;
    leaves(&mut world);
    let to: BTreeSet<SessionKey> = world.tells().into_iter().map(|(to, _)| to).collect();
    assert_eq!(to, BTreeSet::from([parent]));
}

// S4-27, H-44: a record of claims is dropped with what it was told; the parent itself is told then, once.
#[test]
fn a_parent_is_told_what_a_record_of_claims_was_told_before() {
    let claimant = OTHER + 1;
    let mut world = at_rest();
    let mut claim = world.event("s2", claimant, START, 0.0);
    claim.provenance = Provenance::Corroborated { is_client: true, registry_dir: None };
    world.send(claim);
    world.seen_alive(claimant);
    let key = world.key();
    world.parent_of(key, "s2");
    leaves(&mut world);
    assert_eq!(world.tells().len(), 1);
    world.hook("s3", claimant, START);
    assert_eq!(world.state.sessions_with_id("s2").count(), 0);
    let parent = world.other();
    let to: Vec<SessionKey> = world.tells().into_iter().map(|(to, _)| to).collect();
    assert_eq!(to, [parent]);
    world.nobody_is_told();
}

// S4-25: the agent whose message failed is told so, once; a person and a program ask themselves.
#[test]
fn a_sender_is_told_that_its_message_failed() {
    let mut world = at_rest();
    let other = world.other();
    world.runs_in("default");
    let sent = world.sent_by(1, Sender::Session("s2".into()));
    for (n, from) in [(2, Sender::Operator), (3, Sender::Agent), (4, Sender::Session("s9".into()))]
    {
        world.sent_by(n, from);
    }
    world.effects.clear();
    for n in 1..=4 {
        world.queue(QueueEvent::Lost { id: id(n), why: "its text cannot be read".into() });
    }
    let told = world.tells();
    let [(to, text)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*to, other);
    assert!(text.contains(&sent.to_string()) && text.contains("its text cannot be read"), "{text}");
    world.nobody_is_told();
    // Tried again, it may fail again.
    world.queue(QueueEvent::Retried(sent));
    world.pass(1.0);
    world.queue(QueueEvent::Lost { id: sent, why: "still".into() });
    assert_eq!(world.tells().len(), 1);
    world.nobody_is_told();
}

// S4-22, S4-25: what a coordinator that was killed did not tell, the next one tells; what is old nobody.
#[test]
fn a_failure_that_was_not_told_is_told_at_the_next_start() {
    for (age_s, n) in [(60.0, 1), (DAY_S + 60.0, 0)] {
        let mut world = at_rest();
        world.other();
        world.sent_by(1, Sender::Session("s2".into()));
        world.queue(QueueEvent::Lost { id: id(1), why: "gone".into() });
        world.pass(age_s);
        world.effects.clear();
        world.restart();
        assert_eq!(world.tells().len(), n, "{age_s} s");
        world.nobody_is_told();
    }
}

// S4-25: its own message to itself needs no word of it.
#[test]
fn nobody_is_told_that_a_message_to_itself_failed() {
    let mut world = at_rest();
    world.sent_by(1, Sender::Session("s1".into()));
    world.effects.clear();
    world.queue(QueueEvent::Lost { id: id(1), why: "gone".into() });
    assert_eq!(world.tells(), []);
}
