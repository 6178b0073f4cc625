//! Stored times and the clocks they were taken from: a reboot, and a coordinator that was away. That no stored
//! time is ahead of now after any start is held by `World::take` in every test.

use coord_model::{Command, Effect, Event, Kind, MarkChange, TaskFound, Whom};
use proptest::prelude::*;

use crate::world::{self, PROMPT, STOP, World};

const DIR: &str = "/task";

fn order(world: &mut World, command: Command) {
    world.take(&world::order(command));
}

fn with_a_task() -> World {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let whom = Whom::Session(world.session("s1").key);
    let marks = MarkChange { task_dir: Some(DIR.into()), ..MarkChange::default() };
    order(&mut world, Command::Attend { whom, marks });
    world
}

fn reads(world: &World) -> usize {
    world.effects.iter().filter(|effect| matches!(effect, Effect::ReadTask { .. })).count()
}

// H-32, S1-15: the files of a task are polled on the clock of the present boot.
#[test]
fn h_32_a_task_is_polled_after_a_reboot() {
    let mut world = with_a_task();
    world.pass(86_400.0);
    world.reboot();
    world.open("s1", 200, Kind::Interactive);
    world.take(&Event::TaskRead { dir: DIR.into(), found: TaskFound::default() });
    let before = reads(&world);
    world.pass(600.0);
    assert!(9 <= reads(&world) - before, "{} reads in ten minutes", reads(&world) - before);
}

// H-32, G12: a hold for a time lasts for the rest of it, whatever the clock of the new boot says.
#[test]
fn h_32_a_timed_hold_goes_on_for_the_rest_of_its_time() {
    for is_all in [false, true] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.pass(86_400.0);
        let session = (!is_all).then(|| world.session("s1").key);
        order(&mut world, Command::Hold { session, for_ms: Some(3_600_000) });
        world.pass(600.0);
        order(&mut world, Command::Hold { session: None, for_ms: None });
        order(&mut world, Command::Release { session: None });
        if is_all {
            order(&mut world, Command::Hold { session, for_ms: Some(3_000_000) });
        }
        world.reboot();
        let machine = &world.state.header().machine;
        let hold = if is_all { &machine.held } else { &world.session("s1").held };
        let now = world.state.moment(world.now()).awake;
        assert_eq!(hold.as_ref().unwrap().remaining_ms(now), 3_000_000, "all: {is_all}");
    }
}

// H-06: a hold that lasts until it is released does so through a reboot.
#[test]
fn h_06_a_hold_without_an_end_stays_through_a_reboot() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let session = Some(world.session("s1").key);
    order(&mut world, Command::Hold { session, for_ms: None });
    order(&mut world, Command::Hold { session: None, for_ms: None });
    world.reboot();
    assert_eq!(world.session("s1").held.as_ref().unwrap().until.0, u64::MAX);
    assert_eq!(world.state.header().machine.held.as_ref().unwrap().until.0, u64::MAX);
}

// no process outlives its boot.
#[test]
fn r_10_a_process_of_an_earlier_boot_is_not_alive() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.reboot();
    let seen = world.session("s1").owner.as_ref().unwrap().seen_alive;
    assert!(matches!(seen, Some((false, _))), "{seen:?}");
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u32),
    Open(u32),
    Turn(u32),
    End(u32),
    Die(u32),
    Hold(u32, Option<u32>),
    Look(u32),
    Restart(u32),
    Reboot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        (1..100_000_u32).prop_map(Step::Pass),
        (0..3_u32).prop_map(Step::Open),
        (0..3_u32).prop_map(Step::Turn),
        (0..3_u32).prop_map(Step::End),
        (0..3_u32).prop_map(Step::Die),
        (0..3_u32, proptest::option::of(1..1_000_000_u32)).prop_map(|(n, ms)| Step::Hold(n, ms)),
        (0..3_u32).prop_map(Step::Look),
        (1..10_000_u32).prop_map(Step::Restart),
        Just(Step::Reboot),
    ];
    proptest::collection::vec(one, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // H-32: whatever happened, no stored time is ahead of now after any start.
    #[test]
    fn h_32_no_stored_time_is_ahead_of_now_after_any_start(steps in steps()) {
        let mut world = World::new();
        let mut boots = 0_u32;
        for step in steps {
            let (id, pid) = match &step {
                Step::Open(n) | Step::Turn(n) | Step::End(n) | Step::Die(n) | Step::Look(n)
                | Step::Hold(n, _) => (format!("s{n}"), 1_000 * boots + 100 + n),
                Step::Pass(_) | Step::Restart(_) | Step::Reboot => (String::new(), 0),
            };
            match step {
                Step::Pass(s) => world.pass(f64::from(s)),
                Step::Open(_) => world.open(&id, pid, Kind::Interactive),
                Step::Turn(_) => world.hook(&id, pid, PROMPT),
                Step::End(_) => world.hook(&id, pid, STOP),
                Step::Die(_) => world.die(pid, world::present(&id)),
                Step::Look(_) => world.screen(pid, coord_model::Screen::Prompt),
                Step::Hold(_, for_s) => {
                    let session = world.state.sessions_with_id(&id).next().map(|one| one.key);
                    let for_ms = for_s.map(|s| u64::from(s) * 1_000);
                    order(&mut world, Command::Hold { session, for_ms });
                }
                Step::Restart(s) => {
                    // Looks are not recorded, but a snapshot has them.
                    world.take(&Event::Tick);
                    world.seconds += f64::from(s);
                    world.start_coordinator();
                }
                Step::Reboot => {
                    boots += 1;
                    world.reboot();
                }
            }
        }
    }
}
