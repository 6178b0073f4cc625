//! How many notices there are at once, in an hour and in quiet hours (N-01).

use super::*;

/// So many sessions ask for a permission, a millisecond after each other.
fn ask_at_once(world: &mut World, pids: std::ops::Range<u32>) {
    for pid in pids {
        let id = format!("s{pid}");
        world.open(&id, pid, Kind::Interactive);
        world.hook(&id, pid, PROMPT);
        asks(world, &id, pid);
    }
}

// N-01: two hundred at once are one or two notices, not two hundred.
#[test]
fn n_01_many_needs_at_once_are_one_digest() {
    let mut world = World::new();
    world.take(&with(through(&[("tmux", ChannelClass::Tmux)])));
    ask_at_once(&mut world, 1_000..1_200);
    let all = world.pass_answering(60.0, &sent());
    let digests: Vec<(f64, usize)> = all
        .iter()
        .filter_map(|(at, tell)| match &tell.act {
            TellAct::Digest { ids } => Some((*at, ids.len())),
            TellAct::One { .. } | TellAct::Withdraw { .. } => None,
        })
        .collect();
    let singles = all.len() - digests.len();
    assert!(singles <= 5 && digests.len() <= 2, "{singles} and {digests:?}");
    assert_eq!(singles + digests.iter().map(|(_, n)| n).sum::<usize>(), 200, "each is told once");
    assert!(digests.windows(2).all(|pair| 10.0 <= pair[1].0 - pair[0].0), "{digests:?}");
}

// N-01: what exceeds the limit waits for the end of the ten seconds, and is then one notice.
#[test]
fn n_01_a_digest_waits_for_the_single_ones_before_it() {
    let mut world = World::new();
    world.take(&with(through(&[("tmux", ChannelClass::Tmux)])));
    ask_at_once(&mut world, 1_000..1_001);
    world.pass(1.0);
    ask_at_once(&mut world, 1_001..1_010);
    let mut all = world.pass_answering(60.0, &sent());
    let (later, rest) = all.pop().expect("a digest");
    assert!(all.iter().all(|(_, tell)| matches!(tell.act, TellAct::One { .. })), "{all:?}");
    let TellAct::Digest { ids } = &rest.act else { panic!("{rest:?}") };
    assert_eq!((all.len() + ids.len(), (later - all[0].0).round()), (10, 10.0));
}

// N-01, N-04: where a person may be, each is looked for once; a digest stays one.
#[test]
fn n_01_many_needs_at_once_are_looked_for_once() {
    let mut world = World::new();
    world.take(&with(through(&[("phone", ChannelClass::Push)])));
    for pid in 1_000..1_030 {
        let id = format!("s{pid}");
        world.open_in(&id, pid, Kind::Interactive, Some(crate::world::pane(9)));
        world.seen_on_pane(pid, crate::world::its(crate::world::blank()), false);
        world.hook(&id, pid, PROMPT);
        asks(&mut world, &id, pid);
    }
    let (mut looks, mut told) = (0, 0);
    for _ in 0..60 {
        world.pass(1.0);
        let effects = core::mem::take(&mut world.effects);
        for effect in effects {
            if let Effect::LookForPresence { need, .. } = effect {
                looks += 1;
                world.take(&Event::PresenceSeen { need, is_present: false });
            } else if let Effect::Tell(tell) = effect {
                told += 1;
                world.answer(&tell, &sent());
            }
        }
    }
    assert_eq!(looks, 30);
    assert!((1..=7).contains(&told), "{told} notices");
}

#[test]
fn n_01_a_channel_has_a_limit_in_an_hour() {
    let mut world = in_a_turn();
    let mut notice = through(&[("tmux", ChannelClass::Tmux)]);
    notice.channels[0].per_hour = 2;
    (notice.again_ms, notice.again_max_ms) = (60_000, 60_000);
    world.take(&with(notice));
    asks(&mut world, "s1", PID);
    let all = world.pass_answering(3_500.0, &sent());
    assert_eq!(all.len(), 2);
    let all = world.pass_answering(3_600.0, &sent());
    assert_eq!(all.len(), 2);
}

// N-01: held, then one digest; what may pass is not held.
#[test]
fn n_01_quiet_hours_hold_and_gather() {
    let mut world = in_a_turn();
    for (n, pid) in [(2, 202), (3, 203)] {
        let id = format!("s{n}");
        world.open(&id, pid, Kind::Interactive);
        world.hook(&id, pid, PROMPT);
    }
    // The world begins at 08:00 UTC; by this clock it is 22:00.
    let east_s = 14 * 3_600;
    world.take(&Event::LocalClock { offsets: vec![LocalOffset { from_ms: 0, east_s }] });
    let mut notice = through(&[("tmux", ChannelClass::Tmux)]);
    let hours = QuietHours { from: 22 * 60, to: 7 * 60 };
    notice.quiet = Some(hours);
    notice.quiet_except = vec![NoticeKind::Need(NeedKind::Crashed)];
    world.take(&with(notice));
    world.asked_of_channels();
    let first = asks(&mut world, "s1", PID);
    let second = asks(&mut world, "s2", 202);
    let all = world.pass_answering(3_600.0, &sent());
    assert_eq!(all, []);
    let stage = world.stage("tmux", first);
    let is_held = matches!(stage, Some(NoticeStage::Waiting { because: NoticeWait::Quiet, .. }));
    assert!(is_held, "{stage:?}");
    world.exit(203);
    world.registry(203, crate::world::present("s3"), true);
    world.pass(10.0);
    let crash = world.asked_of_channels();
    for tell in &crash {
        world.answer(tell, &sent());
    }
    assert_eq!(crash.len(), usize::from(world.session("s3").open_needs().next().is_some()));
    let all = world.pass_answering(9.0 * 3_600.0, &sent());
    let digests: Vec<_> = all
        .iter()
        .filter_map(|(at, tell)| match &tell.act {
            TellAct::Digest { ids } => Some((*at, ids.clone())),
            TellAct::One { .. } | TellAct::Withdraw { .. } => None,
        })
        .collect();
    // 07:00 by that clock.
    assert_eq!(digests.len(), 1, "{digests:?}");
    assert_eq!((digests[0].0.round(), &digests[0].1[..]), (9.0 * 3_600.0, &[first, second][..]));
}

// N-01: a machine that slept through the quiet hours tells when it wakes.
#[test]
fn n_01_quiet_hours_end_by_the_wall_clock() {
    let mut world = in_a_turn();
    let mut notice = through(&[("tmux", ChannelClass::Tmux)]);
    // The world begins at 08:00 UTC.
    notice.quiet = Some(QuietHours { from: 7 * 60, to: 10 * 60 });
    world.take(&with(notice));
    asks(&mut world, "s1", PID);
    world.pass(30.0);
    assert_eq!(world.asked_of_channels(), []);
    let mut restarted = world.clone();
    world.clock_ms = 3 * 3_600_000;
    world.take(&Event::Gap { ns: 0 });
    world.asked_of_channel();
    // The same if nobody watched the clock meanwhile.
    let notice = restarted.state.header().settings.notice.clone();
    restarted.clock_ms = 3 * 3_600_000;
    restarted.restart_with(notice);
    restarted.asked_of_channel();
}
