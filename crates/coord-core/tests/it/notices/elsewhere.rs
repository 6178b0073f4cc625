//! Machines of a fleet tell for each other, and each need is told once (F-02).

use coord_model::{FleetEvent, MachineId, NamedMachine, NeedElsewhere};

use super::*;

const LAPTOP: &str = "laptop";

fn machine(number: u128, name: &str) -> NamedMachine {
    NamedMachine { machine: MachineId(number), name: name.into() }
}

fn need(number: u32, was_told: bool) -> NeedElsewhere {
    NeedElsewhere {
        id: format!("a_7.{number}").parse().expect("an id"),
        kind: NeedKind::Permission,
        since_ms: 1,
        session_id: "s".into(),
        name: "parser".into(),
        text: "asks to run Bash".into(),
        directory: "/src".into(),
        place: None,
        was_told,
    }
}

fn needs(needs: &[NeedElsewhere]) -> Event {
    Event::Fleet(FleetEvent::Needs { of: machine(1, "desk"), needs: needs.to_vec() })
}

/// This machine tells, and has taken these on.
fn left_to(notifier: Option<&str>, told: &[NeedId], taken: &[NeedId]) -> Event {
    let notifier = notifier.map(|name| machine(2, name));
    let (told, taken) = (told.to_vec(), taken.to_vec());
    Event::Fleet(FleetEvent::Notifier { notifier, told, taken })
}

fn ids(all: &[(f64, Tell)]) -> Vec<NeedId> {
    all.iter().map(|(_, tell)| one(tell).0).collect()
}

// F-02: told after the usual delay, again as usual, and taken back when it is over there.
#[test]
fn f_02_a_need_of_another_machine_is_told_like_one_of_this() {
    let mut world = told();
    world.take(&needs(&[need(1, false)]));
    let all = world.pass_answering(60.0, &sent());
    assert_eq!(ids(&all), [NeedId::elsewhere(1)]);
    world.take(&needs(&[need(1, false), need(2, false)]));
    let all = world.pass_answering(60.0, &sent());
    assert_eq!(ids(&all), [NeedId::elsewhere(2)], "the first is not told once more");
    world.take(&needs(&[need(2, false)]));
    let tell = world.asked_of_channel();
    let TellAct::Withdraw { id, how, .. } = &tell.act else { panic!("{tell:?}") };
    assert_eq!((*id, how.as_str()), (NeedId::elsewhere(1), "it is over on desk"));
}

// F-02: what its machine has told is not told once more, but if it stays open.
#[test]
fn f_02_a_need_that_its_machine_has_told_is_told_again_only_if_it_stays_open() {
    let mut world = told();
    world.take(&needs(&[need(1, true)]));
    assert_eq!(ids(&world.pass_answering(500.0, &sent())), []);
    assert_eq!(ids(&world.pass_answering(200.0, &sent())), [NeedId::elsewhere(1)]);
    // What it thought to have told had failed.
    world.take(&needs(&[need(1, true), need(2, true)]));
    world.take(&needs(&[need(1, true), need(2, false)]));
    assert_eq!(ids(&world.pass_answering(30.0, &sent())), [NeedId::elsewhere(2)]);
}

// F-02: a machine that tells of its needs itself again is left alone, and what was told stands.
#[test]
fn f_02_needs_that_are_told_there_again_are_not_told_here() {
    let mut world = told();
    world.take(&needs(&[need(1, false), need(2, false)]));
    world.pass_answering(60.0, &sent());
    world.take(&Event::Fleet(FleetEvent::NeedsLeft { machine: MachineId(1) }));
    assert_eq!(world.pass_answering(8_000.0, &sent()), []);
}

// F-02: while another machine tells, the channels here are silent; what it did not tell is told when it is gone.
#[test]
fn f_02_needs_are_left_to_another_machine_while_it_is_heard() {
    let mut world = told();
    world.take(&left_to(Some(LAPTOP), &[], &[]));
    let first = asks(&mut world, "s", PID);
    assert_eq!(world.pass_answering(50.0, &sent()), []);
    world.take(&left_to(Some(LAPTOP), &[first], &[first]));
    ran(&mut world, "s", PID);
    assert_eq!(world.pass_answering(10.0, &sent()), [], "it takes its own notice back");
    let second = asks(&mut world, "s", PID);
    world.take(&left_to(Some(LAPTOP), &[], &[second]));
    assert_eq!(world.pass_answering(8_000.0, &sent()), []);
    // A restart does not tell it.
    world.restart_with(through(&[("tmux", ChannelClass::Tmux)]));
    assert_eq!(world.pass_answering(100.0, &sent()), []);
    world.take(&left_to(None, &[], &[]));
    assert_eq!(ids(&world.pass_answering(5.0, &sent())), [second]);
}

// F-02: what another machine has told is not told once more when it is gone.
#[test]
fn f_02_a_need_that_was_told_elsewhere_is_told_again_only_if_it_stays_open() {
    let mut world = told();
    world.take(&left_to(Some(LAPTOP), &[], &[]));
    let id = asks(&mut world, "s", PID);
    world.pass_answering(50.0, &sent());
    world.take(&left_to(Some(LAPTOP), &[id], &[id]));
    world.take(&left_to(None, &[id], &[]));
    assert_eq!(world.pass_answering(500.0, &sent()), []);
    assert_eq!(ids(&world.pass_answering(200.0, &sent())), [id]);
}

// F-02: a need of which the other machine has not heard, or which it has dropped, is told here.
#[test]
fn f_02_a_need_that_the_other_machine_has_not_taken_on_is_told_here() {
    let mut world = told();
    world.take(&left_to(Some(LAPTOP), &[], &[]));
    let first = asks(&mut world, "s", PID);
    assert_eq!(world.pass_answering(75.0, &sent()), []);
    assert_eq!(ids(&world.pass_answering(10.0, &sent())), [first]);
    ran(&mut world, "s", PID);
    world.pass_answering(1.0, &sent());
    let second = asks(&mut world, "s", PID);
    world.take(&left_to(Some(LAPTOP), &[], &[second]));
    assert_eq!(world.pass_answering(200.0, &sent()), []);
    world.take(&left_to(Some(LAPTOP), &[], &[]));
    assert_eq!(ids(&world.pass_answering(5.0, &sent())), [second]);
}

// F-02: that one need is over gives the other machine no less time for the next.
#[test]
fn f_02_a_need_that_is_over_does_not_hurry_another() {
    let mut world = told();
    let (other, other_pid) = ("t", 77);
    world.open(other, other_pid, Kind::Interactive);
    world.hook(other, other_pid, PROMPT);
    let first = asks(&mut world, "s", PID);
    world.take(&left_to(Some(LAPTOP), &[], &[first]));
    let second = asks(&mut world, other, other_pid);
    assert_eq!(world.pass_answering(30.0, &sent()), []);
    ran(&mut world, "s", PID);
    world.take(&left_to(Some(LAPTOP), &[], &[]));
    assert_eq!(world.pass_answering(10.0, &sent()), [], "it has not been a minute");
    assert_eq!(ids(&world.pass_answering(50.0, &sent())), [second]);
}

// F-02: what was told here before another machine took over, is known to it.
#[test]
fn f_02_what_was_told_or_is_being_told_is_named() {
    let mut world = told();
    let id = asks(&mut world, "s", PID);
    assert!(world.state.told_needs().is_empty());
    world.pass(21.0);
    assert_eq!(world.state.told_needs().get(&id), Some(&false), "it is being told");
    world.pass_answering(1.0, &sent());
    assert_eq!(world.state.told_needs().get(&id), Some(&true));
    ran(&mut world, "s", PID);
    assert!(world.state.told_needs().is_empty());
}

// F-02, H-49: another machine can neither fill the state nor name a session at any length.
#[test]
fn f_02_what_another_machine_says_is_bounded() {
    let mut world = told();
    let long = NeedElsewhere { name: "x".repeat(10_000), ..need(1, false) };
    let many: Vec<NeedElsewhere> = (1..10_000).map(|number| need(number, false)).collect();
    world.take(&needs(&[long]));
    let heard = world.state.header().elsewhere.needs.values().next().expect("it is held");
    assert!(heard.need.name.len() <= 1_000);
    for number in 1..100 {
        let of = machine(number, "m");
        world.take(&Event::Fleet(FleetEvent::Needs { of, needs: many.clone() }));
    }
    assert!(world.state.header().elsewhere.needs.len() <= 2_000);
}
