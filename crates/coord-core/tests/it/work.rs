//! When the repository of a session's work is looked at, and what waits for it.

use coord_core::{NoticeStage, NoticeWait, WorkLook};
use coord_model::{
    ChannelClass, Effect, EndReason, Event, HookKind, Kind, NeedKind, NoticeKind, NoticeSettings,
    Settings, Work,
};

use crate::notices::through;
use crate::world::{PROMPT, World, no_registry, present, settings};

const PID: u32 = 11;
const DIR: &str = "/home/dev/project";

/// A session in a turn that somebody watches.
fn watched() -> World {
    let mut world = World::new();
    world.open("s1", PID, Kind::Interactive);
    world.hook("s1", PID, PROMPT);
    world.pass(3.0);
    world
}

impl World {
    /// How many looks were requested since the last call.
    fn looks_at_work(&mut self) -> usize {
        let effects = core::mem::take(&mut self.effects);
        let looks = effects
            .iter()
            .filter(|effect| matches!(effect, Effect::LookAtWork { dir, .. } if dir == DIR));
        looks.count()
    }

    fn work_is(&mut self, work: Work) {
        let session = self.session("s1").key;
        self.take(&Event::WorkSeen { session_id: "s1".into(), session, work: Box::new(work) });
    }

    fn work(&self) -> Option<&Work> {
        match self.session("s1").work.as_ref()? {
            WorkLook::Requested => None,
            WorkLook::Seen { work, .. } => Some(work),
        }
    }
}

// a crash is looked at once, whatever happens after it, and what was found is forgotten when the session goes on.
#[test]
fn q_04_the_work_of_a_crashed_session_is_looked_at_once() {
    let mut world = watched();
    assert_eq!(world.looks_at_work(), 0);
    world.die(PID, present("s1"));
    assert_eq!(world.looks_at_work(), 1);
    world.pass(60.0);
    assert_eq!((world.looks_at_work(), world.work()), (0, None));
    world.work_is(Work::NotOurs);
    world.pass(60.0);
    assert_eq!((world.looks_at_work(), world.work()), (0, Some(&Work::NotOurs)));
    // A second answer is one that nothing waits for.
    world.work_is(Work::NoRepository);
    assert_eq!(world.work(), Some(&Work::NotOurs));
    world.open("s1", 12, Kind::Interactive);
    assert_eq!((world.looks_at_work(), world.session("s1").work.as_ref()), (0, None));
    world.work_is(Work::NoRepository);
    assert_eq!(world.session("s1").work.as_ref(), None);
    world.die(12, present("s1"));
    assert_eq!(world.looks_at_work(), 1);
}

// who ended the session knows what is there.
#[test]
fn q_04_the_work_of_a_session_that_ended_is_not_looked_at() {
    let mut world = watched();
    world.hook("s1", PID, HookKind::SessionEnd(EndReason::PromptInputExit));
    world.die(PID, no_registry());
    world.pass(60.0);
    assert_eq!(world.looks_at_work(), 0);
}

// G10: a look that a restart cut off is requested again; one that was answered is not.
#[test]
fn q_04_a_look_that_was_lost_is_requested_again() {
    let mut world = watched();
    world.die(PID, present("s1"));
    assert_eq!(world.looks_at_work(), 1);
    world.start_coordinator();
    assert_eq!(world.looks_at_work(), 1);
    world.work_is(Work::NotOurs);
    world.start_coordinator();
    assert_eq!((world.looks_at_work(), world.work()), (0, Some(&Work::NotOurs)));
}

/// A session that crashes while people are told of it, after this delay.
fn crash_told_after(delay_ms: u64) -> World {
    let mut world = watched();
    let kind = NoticeKind::Need(NeedKind::Crashed);
    let notice = through(&[("tmux", ChannelClass::Tmux)]);
    let notice = NoticeSettings { delays_ms: vec![(kind, delay_ms)], ..notice };
    world.take(&settings(Settings { notice, ..Settings::default() }));
    world.die(PID, present("s1"));
    world
}

fn n_told(world: &World) -> usize {
    world.effects.iter().filter(|effect| matches!(effect, Effect::Tell(_))).count()
}

// Q-04, N-01: the notice tells what is left, so it waits for the look, and only for a moment.
#[test]
fn q_04_a_notice_of_a_crash_waits_for_the_look() {
    let mut world = crash_told_after(0);
    world.pass(1.0);
    assert_eq!(n_told(&world), 0);
    world.work_is(Work::NotOurs);
    assert_eq!(n_told(&world), 1);

    let mut world = crash_told_after(0);
    world.pass(1.6);
    assert_eq!(n_told(&world), 1, "the look takes too long");
}

#[test]
fn q_04_a_look_does_not_shorten_the_delay_of_a_notice() {
    for delay_ms in [1_000, 5_000] {
        let mut world = crash_told_after(delay_ms);
        world.pass(0.5);
        world.work_is(Work::NotOurs);
        let notices = &world.state.header().notices.channels["tmux"].notices;
        let stages: Vec<NoticeStage> = notices.values().map(|notice| notice.stage).collect();
        let [NoticeStage::Waiting { because: NoticeWait::Delay, .. }] = stages[..] else {
            panic!("{stages:?}")
        };
        let left = f64::from(u32::try_from(delay_ms).unwrap()) / 1000.0 - 0.5;
        world.pass(left - 0.1);
        assert_eq!(n_told(&world), 0);
        world.pass(0.2);
        assert_eq!(n_told(&world), 1);
    }
}
