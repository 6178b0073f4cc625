//! What status lines say: whose numbers count, and what follows from them (Q-01, Q-02, N-08).

use crate::crashes::{PID, unattended};
use crate::quota::resets;
use crate::rest::{a_turn, full, told_words};
use crate::world::{PROMPT, World, entry, no_registry, settings};

use coord_core::{ResetSource, is_failure_open};
use coord_model::{
    Decimal, HookEvent, HookKind, Kind, NeedKind, Provenance, QuotaLimits, RegistryStatus,
    SessionState, Settings, Usage,
};

const HOUR_MS: u64 = 3_600_000;

fn percent(share: u64) -> Decimal {
    Decimal(share * Decimal::ONE)
}

/// A 5-hour limit that is used so far, and resets then.
fn five_hour(share: u64, resets_ms: u64) -> Usage {
    let resets = Some(Decimal(resets_ms * (Decimal::ONE / 1000)));
    Usage { five_hour_percent: Some(percent(share)), five_hour_resets: resets, ..Usage::default() }
}

fn context(share: u64) -> Usage {
    Usage { context_percent: Some(percent(share)), ..Usage::default() }
}

impl World {
    fn status_line(&mut self, id: &str, pid: u32, usage: Usage) -> HookEvent {
        self.event(id, pid, HookKind::StatusLine(Box::new(usage)), 0.0)
    }

    fn says_usage(&mut self, id: &str, pid: u32, usage: Usage) {
        let event = self.status_line(id, pid, usage);
        self.send(event);
    }
}

fn shown(world: &World, id: &str) -> Option<Usage> {
    world.session(id).usage.as_ref().map(|said| said.numbers.clone())
}

// Q-01, H-44: only a verified child of the client that holds the session is believed.
#[test]
fn q_01_numbers_count_only_from_the_client_that_holds_the_session() {
    let mut world = World::new();
    world.open("s1", 11, Kind::Interactive);
    world.open("s2", 12, Kind::Interactive);
    world.says_usage("s1", 11, context(61));
    assert_eq!(shown(&world, "s1"), Some(context(61)));
    for provenance in [
        Provenance::Claimed,
        Provenance::Corroborated { is_client: true, registry_dir: None },
        Provenance::Corroborated {
            is_client: true,
            registry_dir: Some("/home/dev/.claude".to_owned()),
        },
    ] {
        let event = world.status_line("s1", 11, context(99));
        world.send(HookEvent { provenance, ..event });
    }
    world.says_usage("s1", 12, context(98));
    world.says_usage("s9", 12, context(97));
    assert_eq!(shown(&world, "s1"), Some(context(61)));
    assert_eq!((shown(&world, "s2"), world.state.sessions().len()), (None, 2));
}

// N-08: the client draws its status line by a timer too, so that it is no sign of work.
#[test]
fn n_08_a_status_line_is_no_sign_of_work() {
    let mut world = World::new();
    world.open("s1", 11, Kind::Interactive);
    world.hook("s1", 11, PROMPT);
    let before = world.session("s1").clone();
    world.pass(5.0);
    world.says_usage("s1", 11, context(61));
    let after = world.session("s1");
    assert_eq!(
        (&after.last, after.sign, &after.counts),
        (&before.last, before.sign, &before.counts)
    );
    assert_eq!((&after.turn, &after.shown), (&before.turn, &before.shown));
}

// what is known is not recorded again, but within a minute, so that its age is true.
#[test]
fn known_numbers_are_recorded_once_a_minute() {
    let mut world = World::new();
    world.open("s1", 11, Kind::Interactive);
    let is_old = |world: &mut World, usage| {
        let event = world.status_line("s1", 11, usage);
        world.state.is_old_usage(&event, world.now())
    };
    assert!(!is_old(&mut world, context(61)));
    world.says_usage("s1", 11, context(61));
    world.pass(59.0);
    assert!(is_old(&mut world, context(61)) && !is_old(&mut world, context(62)));
    world.pass(2.0);
    assert!(!is_old(&mut world, context(61)));
    let event = world.status_line("s1", 11, context(70));
    let claimed = HookEvent { provenance: Provenance::Claimed, ..event };
    assert!(world.state.is_old_usage(&claimed, world.now()), "nobody believes it");
}

// sessions of one account tell of the same limits. The newest word counts, and what it leaves out stays.
#[test]
fn q_02_the_limits_of_an_account_are_merged_over_its_sessions() {
    let mut world = World::new();
    for (id, pid) in [("s1", 11), ("s2", 12), ("s3", 13)] {
        world.open(id, pid, Kind::Interactive);
    }
    let resets_ms = world.now().wall_ms + HOUR_MS;
    let seven = Usage {
        seven_day_percent: Some(percent(17)),
        seven_day_resets: Some(Decimal((resets_ms + 99 * HOUR_MS) * (Decimal::ONE / 1000))),
        ..five_hour(40, resets_ms)
    };
    world.says_usage("s1", 11, seven);
    world.pass(1.0);
    world.says_usage("s2", 12, five_hour(42, resets_ms));
    world.pass(1.0);
    world.says_usage("s3", 13, context(5));
    let account = world.state.header().accounts.get("/home/dev/.claude").unwrap();
    let five = account.five_hour.unwrap();
    assert_eq!((five.limit.percent, five.limit.resets_ms), (percent(42), resets_ms));
    assert_eq!(account.seven_day.unwrap().limit.percent, percent(17));
    assert!(!five.is_over(resets_ms - 1) && five.is_over(resets_ms));
    assert_eq!(world.state.header().accounts.len(), 1);
}

/// A turn of an unattended session that meets its limit.
fn limited(world: &mut World) {
    world.hook("s1", PID, PROMPT);
    world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    world.registry(PID, entry("s1", Some(RegistryStatus::Idle), world.now().wall_ms), false);
    world.pass(1.0);
    assert_eq!(world.state_of("s1"), SessionState::QuotaWait);
}

// Q-02, S1-22: where the transcript does not say when the limit ends, the status lines of the account do.
#[test]
fn q_02_a_session_at_its_limit_waits_for_the_reset_that_a_status_line_names() {
    for said_before in [true, false] {
        let mut world = unattended();
        let resets_ms = world.now().wall_ms + 2 * HOUR_MS;
        if said_before {
            world.says_usage("s1", PID, five_hour(100, resets_ms));
        }
        limited(&mut world);
        if !said_before {
            assert_eq!(world.session("s1").quota.unwrap().resets_ms, None);
            world.says_usage("s1", PID, five_hour(99, resets_ms));
            assert_eq!(world.session("s1").quota.unwrap().resets_ms, None, "99 % is not all");
            world.says_usage("s1", PID, five_hour(100, resets_ms));
        }
        let quota = world.session("s1").quota.unwrap();
        assert_eq!(
            (quota.resets_ms, quota.reset_source),
            (Some(resets_ms), ResetSource::StatusLine)
        );
        let left_ms = quota.until.ms_since(world.state.moment(world.now()).awake);
        assert!(HOUR_MS < left_ms && left_ms < 3 * HOUR_MS, "{left_ms}");
    }
}

// S1-22: the session's own transcript knows better.
#[test]
fn the_transcript_knows_better_than_the_account() {
    let mut world = unattended();
    let (resets_ms, own_ms) = (world.now().wall_ms + 2 * HOUR_MS, world.now().wall_ms + HOUR_MS);
    world.says_usage("s1", PID, five_hour(100, resets_ms));
    limited(&mut world);
    let awake = world.state.moment(world.now()).awake;
    assert!(is_failure_open(world.session("s1"), awake), "its transcript is still read");
    resets(&mut world, own_ms);
    assert!(!is_failure_open(world.session("s1"), awake));
    let quota = world.session("s1").quota.unwrap();
    assert_eq!((quota.resets_ms, quota.reset_source), (Some(own_ms), ResetSource::Transcript));
    world.says_usage("s1", PID, five_hour(100, resets_ms));
    assert_eq!(world.session("s1").quota.unwrap().resets_ms, Some(own_ms));
}

// S1-23, Q-01: the client knows the size of its window; its figure of this turn counts, and no older one.
#[test]
fn q_01_the_clients_own_figure_decides_on_a_summary() {
    let mut world = unattended();
    a_turn(&mut world);
    world.says_usage("s1", PID, context(20));
    assert_eq!(told_words(&mut world, full(190_000)).0, [], "a window of a million tokens");
    world.says_usage("s1", PID, context(71));
    world.pass(1.0);
    a_turn(&mut world);
    assert_eq!(told_words(&mut world, full(10_000)).0, [], "that was before this turn");
    a_turn(&mut world);
    world.says_usage("s1", PID, context(71));
    let (wakes, rule) = told_words(&mut world, full(10_000));
    assert_eq!((wakes.len(), rule), (1, "S1-23"));
    assert!(wakes[0].1.contains("71 %"), "{}", wakes[0].1);
}

// only who asks for it is told, once, by the session that uses the limit, and until it resets.
#[test]
fn q_02_a_limit_that_is_almost_reached_is_a_need_only_if_asked_for() {
    let near = |world: &mut World, share| {
        let resets = world.now().wall_ms + HOUR_MS;
        world.says_usage("s1", 11, five_hour(share, resets));
    };
    let needs = |world: &World| {
        let needs = world.session("s1").open_needs();
        needs.map(|need| (need.kind, need.reason.clone())).collect::<Vec<_>>()
    };
    let mut world = World::new();
    world.open("s1", 11, Kind::Interactive);
    world.open("s2", 12, Kind::Interactive);
    near(&mut world, 95);
    assert_eq!(needs(&world), []);

    let quota = QuotaLimits { need_at_percent: Some(90), ..QuotaLimits::default() };
    world.take(&settings(Settings { quota, ..Settings::default() }));
    let told = |share| [(NeedKind::UsageLimit, format!("used {share}% of its 5-hour limit"))];
    assert_eq!(needs(&world), told(95));
    assert_eq!(world.session("s2").open_needs().count(), 0, "it does not use it");
    near(&mut world, 89);
    assert_eq!(needs(&world), []);
    near(&mut world, 90);
    let first = world.session("s1").needs[0].id;
    near(&mut world, 97);
    assert_eq!((needs(&world), world.session("s1").needs[0].id), (told(97).to_vec(), first));
    world.pass(3_599.0);
    assert_eq!(needs(&world), told(97));
    world.pass(2.0);
    assert_eq!(needs(&world), [], "it has reset");
    near(&mut world, 97);
    world.die(11, no_registry());
    assert_eq!(needs(&world), []);
}

// one that has reached its limit waits; that it had almost reached it is no second reason, and no deadline.
#[test]
fn q_02_a_limit_that_is_reached_is_not_almost_reached() {
    let mut world = unattended();
    let quota = QuotaLimits { need_at_percent: Some(90), ..QuotaLimits::default() };
    world.take(&settings(Settings { quota, ..Settings::default() }));
    let resets_ms = world.now().wall_ms + HOUR_MS;
    world.says_usage("s1", PID, five_hour(100, resets_ms));
    assert_eq!(world.session("s1").open_needs().count(), 1);
    limited(&mut world);
    assert_eq!(world.session("s1").open_needs().count(), 0, "it goes on by itself");
}
