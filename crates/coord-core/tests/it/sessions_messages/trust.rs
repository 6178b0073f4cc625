//! From whom a session takes messages (H-04), and how long a chain of answers may become (H-21).

use coord_model::{
    Address, Command, HookKind, Kind, MarkChange, NewMessage, QueueEvent, Sender, SessionKey, Whom,
};

use super::mail::{OTHER, id};
use crate::crashes::{PID, at_rest};
use crate::world::{PROMPT, START, STOP, World};

/// Modes in which an agent asks before it acts, as the client names them.
const ASKING: [&str; 3] = ["default", "acceptEdits", "plan"];
/// And those in which it does not, or of which nobody knows.
const BOLD: [&str; 4] = ["auto", "bypassPermissions", "dontAsk", "a mode of next year"];

fn agent(id: &str) -> Sender {
    Sender::Session(id.into())
}

/// Those that no rule trusts by themselves.
fn strangers() -> [Sender; 3] {
    [agent("s2"), Sender::Agent, Sender::Program("make".into())]
}

impl World {
    fn mark(&mut self, session: SessionKey, marks: MarkChange) {
        self.command(Command::Attend { whom: Whom::Session(session), marks });
    }

    fn accepts(&mut self, senders: &[&str]) {
        let accepts = senders.iter().map(|one| (*one).to_owned()).collect();
        self.mark(self.key(), MarkChange { accepts, ..MarkChange::default() });
    }

    fn is_child_of(&mut self, child: SessionKey, parent: &str) {
        let parent = Some(parent.to_owned());
        self.mark(child, MarkChange { parent, ..MarkChange::default() });
    }

    /// Whether `s1` would take a message from this sender now.
    fn is_taken_from(&mut self, from: &Sender) -> bool {
        let mail = NewMessage { from: from.clone(), ..self.mail(99) };
        self.sends(mail);
        let is_taken = self.wakes() == [id(99)];
        if !is_taken {
            let why = self.why_waits(id(99));
            assert!(
                why.contains("accepts only allowed senders") && why.contains("--accept"),
                "{why}"
            );
        }
        self.queue(QueueEvent::Dropped(id(99)));
        is_taken
    }
}

/// `s1` in this mode, with `s2` beside it.
fn in_mode(mode: &str) -> World {
    let mut world = at_rest();
    world.other();
    world.runs_in(mode);
    world
}

// H-04: who asks before it acts may hear from anybody.
#[test]
fn an_agent_that_asks_takes_messages_from_all() {
    for mode in ASKING {
        let mut world = in_mode(mode);
        for from in strangers().into_iter().chain([Sender::Operator, Sender::Coord]) {
            assert!(world.is_taken_from(&from), "{mode}: {from:?}");
        }
    }
}

// H-04: who does not, or nobody knows, hears from its operator and from coord.
#[test]
fn an_agent_that_does_not_ask_takes_them_from_few() {
    for mode in BOLD {
        let mut world = in_mode(mode);
        for from in strangers() {
            assert!(!world.is_taken_from(&from), "{mode}: {from:?}");
        }
        for from in [Sender::Operator, Sender::Coord] {
            assert!(world.is_taken_from(&from), "{mode}: {from:?}");
        }
    }
    let mut world = at_rest();
    world.other();
    assert_eq!(world.session("s1").permission_mode, None);
    assert!(!world.is_taken_from(&agent("s2")), "a mode that was never told is none that asks");
}

// H-04: the mode is the one of now: what waits is taken by the newest, whatever it was when it was sent.
#[test]
fn the_newest_mode_counts() {
    let mut world = in_mode("bypassPermissions");
    world.sent_by(1, agent("s2"));
    assert_eq!(world.takes(PROMPT), []);
    let asks = world.asks(STOP, |event| event.permission_mode = Some("plan".into()));
    assert_eq!(asks.map(|(_, ids)| ids), Some(vec![id(1)]));
}

// H-04: a parent and a child, also by an id that they had before (/clear, R-07).
#[test]
fn kin_is_trusted() {
    for is_cleared in [false, true] {
        let mut world = in_mode("bypassPermissions");
        let (one, other) = (world.key(), world.session("s2").key);
        world.is_child_of(other, "s1");
        if is_cleared {
            world.hook("s2b", OTHER, HookKind::SessionStart(coord_model::StartSource::Clear));
            assert_eq!(world.session("s2b").key, other);
        }
        let id = if is_cleared { "s2b" } else { "s2" };
        assert!(world.is_taken_from(&agent(id)), "its child, cleared: {is_cleared}");
        assert!(!world.is_taken_from(&agent("s4")), "and nobody else");
        world.is_child_of(other, "nobody");
        assert!(!world.is_taken_from(&agent(id)));
        world.is_child_of(one, "s2");
        assert!(world.is_taken_from(&agent(id)), "its parent, cleared: {is_cleared}");
    }
}

// H-04: those that its user allowed, by id, by name, a program, anybody; and no more once that is taken back.
#[test]
fn those_that_its_user_allowed_are_trusted() {
    let mut world = in_mode("dontAsk");
    let other = world.session("s2").key;
    world.mark(other, MarkChange { name: Some("tests".into()), ..MarkChange::default() });
    let [session, unknown, program] = strangers();
    for (accepted, taken) in [
        ("s2", [true, false, false]),
        ("tests", [true, false, false]),
        ("program:make", [false, false, true]),
        ("make", [false, false, false]),
        ("any", [true, true, true]),
    ] {
        world.accepts(&[accepted]);
        let is_taken = [&session, &unknown, &program].map(|from| world.is_taken_from(from));
        assert_eq!(is_taken, taken, "{accepted}");
        world.restart();
        assert_eq!(world.is_taken_from(&session), taken[0], "{accepted}: G10");
        world.accepts(&["none"]);
        let is_taken = [&session, &unknown, &program].map(|from| world.is_taken_from(from));
        assert_eq!(is_taken, [false; 3], "none takes {accepted} back");
    }
    world.accepts(&["s2", "program:make"]);
    assert!(world.is_taken_from(&session) && world.is_taken_from(&program));
    world.accepts(&["none", "program:make"]);
    assert!(!world.is_taken_from(&session) && world.is_taken_from(&program));
}

// H-04: allowed is the sender as it was established, not a session that was given its name.
#[test]
fn a_name_is_its_session_s() {
    let mut world = in_mode("auto");
    world.accepts(&["tests"]);
    assert!(!world.is_taken_from(&agent("s2")));
    assert!(!world.is_taken_from(&Sender::Program("tests".into())));
}

// H-21: what a person's turn sends has no depth, each answer one more; the fifth message of a chain waits for a
// person.
#[test]
fn a_chain_of_answers_waits_for_a_person() {
    let mut world = at_rest();
    world.other();
    world.runs_in("default");
    assert_eq!(world.state.depth_of(&agent("s2")), 0, "its user's own turn");
    let keys = [world.key(), world.session("s2").key];
    let (ids, pids) = (["s1", "s2"], [PID, OTHER]);
    for pid in pids {
        let id = ids[usize::from(pid == OTHER)];
        let mut event = world.event(id, pid, START, 0.0);
        event.permission_mode = Some("default".into());
        world.send(event);
        world.seconds += 0.001;
    }
    for depth in 0..=4_u32 {
        let to = usize::try_from(depth).unwrap() % 2;
        let from = if depth == 0 { Sender::Operator } else { agent(ids[1 - to]) };
        let n = u64::from(depth) + 1;
        assert_eq!(world.state.depth_of(&from), depth, "message {n}");
        let address = Address::Session(keys[to]);
        let mail = NewMessage { to: address, from, depth, ..world.mail(n) };
        world.sends(mail);
        let delivery = coord_model::DeliveryPath::Wake;
        let at = world.state.moment(world.now());
        let leaving = world.state.outgoing(world.state.session(keys[to]).unwrap(), delivery, at);
        if depth < 4 {
            assert_eq!(leaving, [id(n)]);
            world.hand(id(n), delivery);
            world.hook(ids[to], pids[to], PROMPT);
            world.hook(ids[to], pids[to], STOP);
            world.queue(QueueEvent::Proved(id(n)));
        } else {
            assert_eq!(leaving, []);
        }
    }
    let last = world.message(id(5)).clone();
    assert!(world.state.waits_for_person(&last));
    let why = world.why_waits(id(5));
    assert!(
        why.contains("4 messages led to this one") && why.contains("coord queue retry"),
        "{why}"
    );
    assert!(why.contains("a person has to release it"));
    assert_eq!(world.asks(PROMPT, |_| ()), None, "by no delivery");
    world.restart();
    assert_eq!(world.state.message(id(5)), Some(&last), "G10");
    world.queue(QueueEvent::Released(id(5)));
    let message = world.message(id(5)).clone();
    assert!(message.is_released && !world.state.waits_for_person(&message));
    world.hook("s1", PID, STOP);
    assert_eq!(world.takes(PROMPT), [id(5)]);
    assert_eq!(world.state.depth_of(&agent("s1")), 5, "and the chain is as long as it is");
}

// H-21: a prompt of its user's begins anew, one of coord's does not.
#[test]
fn a_prompt_of_its_user_s_ends_a_chain() {
    let mut world = at_rest();
    let deep = NewMessage { depth: 2, ..world.mail(1) };
    world.sends(deep);
    world.hand(id(1), coord_model::DeliveryPath::Wake);
    assert_eq!(world.state.depth_of(&agent("s1")), 3);
    world.hook("s1", PID, PROMPT);
    assert_eq!(world.state.depth_of(&agent("s1")), 3, "the prompt that the wake made");
    world.hook("s1", PID, STOP);
    assert_eq!(world.state.depth_of(&agent("s1")), 3, "what it sends late is of that turn");
    world.restart();
    assert_eq!(world.state.depth_of(&agent("s1")), 3, "G10");
    world.hook("s1", PID, PROMPT);
    assert_eq!(world.state.depth_of(&agent("s1")), 0);
    let deeper = NewMessage { depth: 1, is_urgent: true, ..world.mail(2) };
    world.sends(deeper);
    assert_eq!(world.takes(crate::world::TOOL), [id(2)]);
    assert_eq!(world.state.depth_of(&agent("s1")), 2, "one in the midst of it makes it a link");
    world.hook("s1", PID, START);
    assert_eq!(world.state.depth_of(&agent("s1")), 0, "another conversation");
}

// H-21: what a run was given at its start is what its first prompt answers.
#[test]
fn the_first_prompt_of_a_run_does_not_end_a_chain() {
    let mut world = at_rest();
    let started = world.headless("s3", 500);
    world.send(started);
    let to = Address::Session(world.session("s3").key);
    let deep = NewMessage { to, depth: 1, ..world.mail(1) };
    world.sends(deep);
    world.hand(id(1), coord_model::DeliveryPath::Start);
    world.seconds += 1.0;
    let mut prompt = world.event("s3", 500, PROMPT, 0.0);
    prompt.harness.as_mut().unwrap().kind = Some(Kind::Headless);
    world.send(prompt);
    assert_eq!(world.state.depth_of(&agent("s3")), 2);
}

// H-21: whose turn an unknown agent is in nobody knows: one answer passes, the answer to that waits.
#[test]
fn an_agent_without_a_session_has_one_answer() {
    let mut world = in_mode("default");
    let first = world.sent_by(1, Sender::Agent);
    assert!(!world.state.waits_for_person(&world.message(first).clone()));
    assert_eq!(world.takes(PROMPT), [first]);
    assert_eq!(world.state.depth_of(&agent("s1")), 4);
    for from in [Sender::Operator, Sender::Coord, Sender::Program("make".into())] {
        assert_eq!(world.state.depth_of(&from), 0, "{from:?}");
    }
    assert_eq!(world.state.depth_of(&agent("nobody")), 0);
}
