//! When a session that nobody watches stands still (S1-02, S1-04 to S1-06, S1-13, S1-14, S1-18, S1-25, R-12).

use crate::crashes::{PID, at_rest, in_a_turn, is_act, unattended};
use crate::world::{END, PROMPT, STOP, World, blank, its, process};

use coord_model::{
    Background, Event, HookKind, PaneFound, PaneSeen, ProcessSeen, RegistryStatus, Screen,
    SessionState, ToolPhase,
};

/// Looks at the pane each five seconds for so long; it shows this. How many looks were recorded.
#[track_caller]
fn watch(world: &mut World, seconds: u32, screen: Screen, digest: impl Fn(u32) -> u64) -> u32 {
    let mut recorded = 0;
    for look in 0..seconds / 5 {
        world.pass(5.0);
        let found = its(PaneSeen { screen: Some(screen), digest: Some(digest(look)), ..blank() });
        let awake = world.state.moment(world.now()).awake;
        if world.state.is_news(world.session("s1"), &found, awake) {
            world.seen_on_pane(PID, found, false);
            recorded += 1;
        }
    }
    recorded
}

fn count(world: &World) -> u32 {
    world.session("s1").stall.map_or(0, |stall| stall.count)
}

fn tool(world: &mut World, phase: ToolPhase, name: &str, digest: u64) {
    let mut event = world.event("s1", PID, HookKind::Tool(phase), 0.0);
    (event.tool, event.digest) = (Some(name.into()), Some(digest));
    world.send(event);
}

// S1-05, S1-06
#[test]
fn captures_that_find_the_same_are_counted_and_any_change_resets() {
    let mut world = in_a_turn();
    watch(&mut world, 5, Screen::Working, |_| 1);
    watch(&mut world, 120, Screen::Working, |_| 1);
    assert_eq!(count(&world), 2);
    assert!(!world.decisions.iter().any(|decision| decision.rule == "S1-06"));
    watch(&mut world, 60, Screen::Working, |_| 1);
    assert_eq!(count(&world), 3);
    let suspected =
        |world: &World| world.decisions.iter().filter(|decision| decision.rule == "S1-06").count();
    assert_eq!(suspected(&world), 1);
    assert_eq!(world.state_of("s1"), SessionState::Running, "a suspicion is no stall");
    watch(&mut world, 5, Screen::Working, |_| 2);
    assert_eq!(count(&world), 0);
    watch(&mut world, 600, Screen::Working, u64::from);
    assert_eq!((count(&world), suspected(&world)), (0, 1));
}

// S1-06, S1-14, R-12: each has a clock of its own, and nothing is done when it runs out.
#[test]
fn what_a_turn_is_at_has_its_own_clock() {
    for (name, screen, minutes) in [
        (None, Screen::Working, 10),
        (None, Screen::Retry, 6),
        (Some("mcp__files__read"), Screen::Working, 10),
        (Some("Task"), Screen::Working, 30),
        (Some("Bash"), Screen::Working, 180),
    ] {
        let mut world = in_a_turn();
        if let Some(name) = name {
            tool(&mut world, ToolPhase::Before, name, 7);
        }
        watch(&mut world, 5, screen, |_| 1);
        watch(&mut world, minutes * 60 - 5, screen, |_| 1);
        assert_eq!(world.state_of("s1"), SessionState::Running, "{name:?} {screen:?}");
        watch(&mut world, 60, screen, |_| 1);
        assert_eq!(world.state_of("s1"), SessionState::Stalled, "{name:?} {screen:?}");
        assert!(!world.actions().iter().any(is_act), "a stall is a word");
        watch(&mut world, 5, screen, |_| 2);
        assert_eq!(world.state_of("s1"), SessionState::Running, "it goes on");
    }
}

// S1-05: a hook tells of change as a screen does; a tool that ended has no clock any more.
#[test]
fn a_hook_is_change() {
    let mut world = in_a_turn();
    tool(&mut world, ToolPhase::Before, "Bash", 7);
    tool(&mut world, ToolPhase::Before, "Read", 8);
    watch(&mut world, 300, Screen::Working, |_| 1);
    assert!(0 < count(&world));
    tool(&mut world, ToolPhase::After, "Read", 8);
    assert_eq!(count(&world), 0);
    world.hook("s1", PID, PROMPT);
    watch(&mut world, 900, Screen::Working, |_| 1);
    assert_eq!(
        world.state_of("s1"),
        SessionState::Running,
        "the other one runs, and a prompt waits for it"
    );
    tool(&mut world, ToolPhase::Failed, "Bash", 7);
    watch(&mut world, 900, Screen::Working, |_| 1);
    assert_eq!(world.state_of("s1"), SessionState::Stalled);
    world.hook("s1", PID, STOP);
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// S1-06: a client at its prompt whose Stop was lost may have work in the background.
#[test]
fn a_screen_that_shows_no_turn_is_no_stall() {
    let mut world = in_a_turn();
    for screen in [Screen::Prompt, Screen::Error, Screen::Shell] {
        watch(&mut world, 1_800, screen, |_| 1);
        assert_eq!(world.state_of("s1"), SessionState::Running, "{screen:?}");
    }
}

// what nobody can look at is not known to stand still.
#[test]
fn a_pane_that_cannot_be_read_is_no_stall() {
    let mut world = in_a_turn();
    watch(&mut world, 1_200, Screen::Working, |_| 1);
    assert_eq!(world.state_of("s1"), SessionState::Stalled);
    let unreadable = PaneFound::Unreadable { why: "no answer".into() };
    let awake = world.state.moment(world.now()).awake;
    assert!(world.state.is_news(world.session("s1"), &unreadable, awake));
    world.seen_on_pane(PID, unreadable, false);
    assert_eq!((count(&world), world.state_of("s1")), (0, SessionState::Running));
}

// S1-02: only where nobody watches.
#[test]
fn an_attended_session_is_not_counted() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    watch(&mut world, 1_800, Screen::Working, |_| 1);
    assert_eq!((count(&world), world.state_of("s1")), (0, SessionState::Running));
    world.attend(true);
    watch(&mut world, 1_800, Screen::Working, |_| 1);
    assert_eq!(world.state_of("s1"), SessionState::Stalled);
    world.attend(false);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}

// S1-13, S1-18: what waits for its quota, or for a person, explains itself.
#[test]
fn what_waits_is_no_stall() {
    let mut limited = in_a_turn();
    limited.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    limited.says("s1", PID, RegistryStatus::Idle);
    watch(&mut limited, 1_800, Screen::Error, |_| 1);
    assert_eq!((count(&limited), limited.state_of("s1")), (0, SessionState::QuotaWait));
    let mut asks = in_a_turn();
    asks.hook("s1", PID, HookKind::PermissionRequest);
    asks.says("s1", PID, RegistryStatus::WaitingPermission);
    watch(&mut asks, 1_800, Screen::Permission, |_| 1);
    assert_eq!((count(&asks), asks.state_of("s1")), (0, SessionState::AwaitingPermission));
}

// S1-25, H-32: nobody looked meanwhile.
#[test]
fn a_gap_and_a_start_begin_anew() {
    let starts: [fn(&mut World); 2] =
        [World::start_coordinator, |world| world.take(&Event::Gap { ns: 60_000_000_000 })];
    for begins_anew in starts {
        let mut world = in_a_turn();
        watch(&mut world, 1_200, Screen::Working, |_| 1);
        assert_eq!(world.state_of("s1"), SessionState::Stalled);
        begins_anew(&mut world);
        assert_eq!((count(&world), world.state_of("s1")), (0, SessionState::Running));
    }
}

// S1-02: what changes all the time costs a record a minute at most, and none while hooks tell of it.
#[test]
fn a_busy_session_is_hardly_recorded() {
    let mut world = in_a_turn();
    let recorded = watch(&mut world, 600, Screen::Working, u64::from);
    assert!((9..=11).contains(&recorded), "{recorded}");
    let mut recorded = 0;
    for call in 0..100 {
        tool(&mut world, ToolPhase::Before, "Read", call);
        recorded += watch(&mut world, 10, Screen::Working, |look| u64::from(look) + 2 * call);
        tool(&mut world, ToolPhase::After, "Read", call);
    }
    assert_eq!(recorded, 0);
}

// S1-02: at rest the count goes on, and costs a few records in a night.
#[test]
fn rest_is_counted_and_hardly_recorded() {
    let mut world = unattended();
    let recorded = watch(&mut world, 8 * 3_600, Screen::Prompt, |_| 1);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert!(240 < count(&world) && recorded < 20, "{} {recorded}", count(&world));
    world.hook("s1", PID, PROMPT);
    world.hook("s1", PID, HookKind::Stop(Background { tasks: 1, ..Background::default() }));
    world.says("s1", PID, RegistryStatus::Shell);
    watch(&mut world, 3_600, Screen::Prompt, |_| 1);
    assert_eq!(
        world.state_of("s1"),
        SessionState::Background,
        "work in the background has no clock"
    );
}

// S1-18, S1-19: hours of waiting for quota count toward nothing.
#[test]
fn time_spent_waiting_for_quota_is_on_no_clock() {
    let mut world = in_a_turn();
    world.attend(true);
    watch(&mut world, 400, Screen::Working, |_| 1);
    world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    world.says("s1", PID, RegistryStatus::Idle);
    watch(&mut world, 3 * 3_600, Screen::Error, |_| 2);
    assert_eq!((world.state_of("s1"), count(&world)), (SessionState::QuotaWait, 0));
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    watch(&mut world, 595, Screen::Working, |_| 1);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    assert_eq!(world.session("s1").recovery.budget.used(), (0, 0));
    watch(&mut world, 120, Screen::Working, |_| 1);
    assert_eq!(world.state_of("s1"), SessionState::Stalled);
}

// G2: the hook of a call that was refused ran when the next turn was open already.
#[test]
fn a_call_of_a_turn_that_is_over_has_no_clock() {
    let mut world = unattended();
    let of = |world: &mut World, kind, prompt: &str| {
        let mut event = world.event("s1", PID, kind, 0.0);
        event.prompt_id = Some(prompt.into());
        event
    };
    for (turn, prompt, word) in
        [("p2", "p1", SessionState::Stalled), ("p3", "p3", SessionState::Running)]
    {
        let begun = of(&mut world, PROMPT, turn);
        world.send(begun);
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(1.0);
        let mut call = of(&mut world, HookKind::Tool(ToolPhase::Before), prompt);
        call.tool = Some("Bash".into());
        world.send(call);
        watch(&mut world, 5, Screen::Working, |_| 1);
        watch(&mut world, 700, Screen::Working, |_| 1);
        assert_eq!(world.state_of("s1"), word, "{prompt}");
        world.hook("s1", PID, STOP);
        world.says("s1", PID, RegistryStatus::Idle);
    }
}

// S0-00: whatever stands before it in the order hides a stall.
#[test]
fn a_stall_is_the_last_of_the_rules() {
    let stalled = || {
        let mut world = in_a_turn();
        watch(&mut world, 1_200, Screen::Working, |_| 1);
        assert_eq!(world.state_of("s1"), SessionState::Stalled);
        world
    };
    let mut world = stalled();
    world.says("s1", PID, RegistryStatus::WaitingInput);
    assert_eq!(world.state_of("s1"), SessionState::AwaitingInput);
    let mut world = stalled();
    world.hook("s1", PID, HookKind::StopFailure("authentication_failed".into()));
    world.says("s1", PID, RegistryStatus::Idle);
    assert_eq!(world.state_of("s1"), SessionState::BlockedAuth);
    let mut world = stalled();
    world.crash(PID);
    assert_eq!(world.state_of("s1"), SessionState::RecoveryPending);
    let mut world = stalled();
    world.hook("s1", PID, END);
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
    let mut world = stalled();
    world.take(&Event::ProcessSeen(ProcessSeen {
        process: process(PID),
        alive: true,
        kind: None,
        is_stopped: true,
        forked_from: None,
        launch: None,
    }));
    assert_eq!(world.state_of("s1"), SessionState::Suspended);
}
