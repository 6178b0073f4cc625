//! Turns and order: what hook events do to a record (G2, R-01 to R-07, H-31, H-32, H-44, H-45).

use crate::world::{END, EXIT, PROMPT, RESUME, START, STOP, TOOL, World};
use coord_core::Turn;
use coord_model::{
    Background, EndReason, Event, HookEvent, HookKind, Kind, Launch, Provenance, SessionState,
    StartSource, Via,
};
use proptest::prelude::*;

/// Plays hooks of one session and returns the words that follow each.
fn words(kinds: &[HookKind]) -> Vec<SessionState> {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    kinds
        .iter()
        .map(|kind| {
            world.hook("s1", 100, kind.clone());
            world.state_of("s1")
        })
        .collect()
}

#[test]
fn a_plain_turn_opens_and_closes() {
    let words = words(&[PROMPT, TOOL, STOP, EXIT]);
    assert_eq!(
        words,
        [SessionState::Running, SessionState::Running, SessionState::Idle, SessionState::Stopped]
    );
}

#[test]
fn r_04_a_turn_without_a_prompt_is_opened_by_its_tools() {
    assert_eq!(words(&[STOP]), [SessionState::Idle]);
    assert_eq!(
        words(&[PROMPT, STOP, TOOL, STOP])[2..],
        [SessionState::Running, SessionState::Idle]
    );
}

#[test]
fn r_02_after_stop_a_queued_prompt_is_already_running() {
    let words = words(&[PROMPT, PROMPT, STOP, STOP]);
    assert_eq!(
        words,
        [SessionState::Running, SessionState::Running, SessionState::Running, SessionState::Idle]
    );
}

#[test]
fn r_03_background_work_is_neither_idle_nor_running() {
    let stop = HookKind::Stop(Background { tasks: 0, subagents: 1, crons: 0 });
    let words = words(&[PROMPT, stop, PROMPT, STOP]);
    assert_eq!(
        words,
        [
            SessionState::Running,
            SessionState::Background,
            SessionState::Running,
            SessionState::Idle
        ]
    );
}

#[test]
fn r_11_a_failed_turn_is_over() {
    let failure = HookKind::StopFailure("server_error".into());
    assert_eq!(words(&[PROMPT, failure]), [SessionState::Running, SessionState::Idle]);
}

#[test]
fn compaction_in_the_middle_of_a_turn_does_not_end_it() {
    let compact = HookKind::SessionStart(StartSource::Compact);
    assert_eq!(words(&[PROMPT, compact])[1], SessionState::Running);
}

#[test]
fn r_06_subagents_neither_open_nor_close_a_turn() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    for (kind, word) in [(TOOL, SessionState::Idle), (STOP, SessionState::Idle)] {
        let mut event = world.event("s1", 100, kind, 0.0);
        event.agent = Some("a1".into());
        world.send(event);
        assert_eq!(world.state_of("s1"), word);
    }
    world.hook("s1", 100, PROMPT);
    let mut event = world.event("s1", 100, STOP, 0.0);
    event.agent = Some("a1".into());
    world.send(event);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}

#[test]
fn a_headless_run_is_starting_until_its_prompt() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Headless);
    assert_eq!(world.state_of("s1"), SessionState::Starting);
    world.hook("s1", 100, PROMPT);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}

// G2
#[test]
fn an_event_takes_effect_once() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let prompt = world.event("s1", 100, PROMPT, 0.0);
    world.send(prompt.clone());
    world.seconds += 1.0;
    world.hook("s1", 100, STOP);
    let before = world.state.clone();
    world.send(prompt);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert_eq!(world.state.header().counters.duplicates, 1);
    assert_eq!(world.session("s1").counts, before.sessions().next().unwrap().counts);
}

// R-02, G2: prompt, (its Stop comes late), prompt, Stop.
#[test]
fn r_02_a_late_stop_still_answers_its_prompt() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.pass(60.0);
    world.late_hook("s1", 100, PROMPT, 30.0);
    world.late_hook("s1", 100, PROMPT, 10.0);
    world.late_hook("s1", 100, STOP, 20.0);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.hook("s1", 100, STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// G2: a late event is counted and changes nothing.
#[test]
fn a_late_event_never_moves_a_session_backwards() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.pass(60.0);
    world.hook("s1", 100, PROMPT);
    world.hook("s1", 100, STOP);
    for kind in [PROMPT, TOOL, START] {
        world.late_hook("s1", 100, kind, 30.0);
        assert_eq!(world.state_of("s1"), SessionState::Idle);
    }
    assert_eq!(world.session("s1").counts.late, 3);
    assert_eq!(world.session("s1").last.as_ref().unwrap().name, "Stop");
    world.hook("s1", 100, EXIT);
    world.late_hook("s1", 100, STOP, 40.0);
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
}

proptest! {
    /// G2: whatever the order of arrival, and however often each arrives, the end is the same.
    #[test]
    fn any_order_of_arrival_ends_in_the_same_state(
        order in Just((0..7usize).collect::<Vec<_>>()).prop_shuffle(),
        again in prop::collection::vec(0..7usize, 0..7),
    ) {
        let kinds = [START, PROMPT, TOOL, STOP, PROMPT, TOOL, END];
        let play = |arrivals: &[usize]| {
            let mut world = World::new();
            let events: Vec<_> = kinds
                .iter()
                .map(|kind| {
                    let event = world.event("s1", 100, kind.clone(), 0.0);
                    world.seconds += 1.0;
                    event
                })
                .collect();
            for at in arrivals {
                world.send(events[*at].clone());
            }
            world
        };
        let straight = play(&[0, 1, 2, 3, 4, 5, 6]);
        let arrivals: Vec<usize> = order.iter().copied().chain(again).collect();
        let shuffled = play(&arrivals);
        prop_assert_eq!(straight.state_of("s1"), SessionState::Stopped);
        prop_assert_eq!(shuffled.state_of("s1"), SessionState::Stopped);
        prop_assert_eq!(&shuffled.session("s1").last, &straight.session("s1").last);
    }
}

// H-31
#[test]
fn a_stamp_ahead_of_time_does_not_make_true_events_late() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let mut ahead = world.event("s1", 100, PROMPT, 0.0);
    ahead.mono_ns += 3_600_000_000_000;
    world.send(ahead);
    world.seconds += 1.0;
    world.hook("s1", 100, STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// H-31: older than the memory of ids is history only.
#[test]
fn an_event_from_an_ancient_spool_is_history() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let mut ancient = world.event("s1", 100, PROMPT, 0.0);
    ancient.via = Via::Spool;
    ancient.wall_ms -= 8 * 24 * 3_600_000;
    world.send(ancient);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert_eq!(world.session("s1").counts.late, 1);
}

// an interrupt fires no hook; the turn does not stay running for ever.
#[test]
fn r_01_a_silent_turn_becomes_unknown() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.pass(899.0);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.pass(2.0);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
    world.hook("s1", 100, PROMPT);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}

#[test]
fn rest_with_a_watched_process_may_be_silent_for_ever() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.pass(100_000.0);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// nothing tells that the client is there at all.
#[test]
fn rest_without_a_process_that_was_seen_becomes_unknown() {
    let mut world = World::new();
    world.hook("s1", 100, START);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    world.pass(901.0);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
}

// H-32: neither a stopped loop nor a stopped coordinator counts as silence, and both settle first.
#[test]
fn h_32_time_without_the_loop_is_not_silence() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.pass(600.0);
    world.seconds += 10_000.0;
    world.take(&Event::Gap { ns: 10_000_000_000_000 });
    world.pass(250.0);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.seconds += 10_000.0;
    // What passed since the last record was seen by nobody who could say so: it does not count.
    world.start_coordinator();
    world.pass(299.0);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.pass(2.0);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
}

#[test]
fn h_32_nothing_is_concluded_right_after_a_gap_and_nothing_is_taken_back() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.pass(899.0);
    world.take(&Event::Gap { ns: 0 });
    world.pass(29.0);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.pass(2.0);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
    world.take(&Event::Gap { ns: 0 });
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
}

fn of_turn(world: &mut World, turn: &str, kind: HookKind) {
    let mut event = world.event("s1", 100, kind, 0.0);
    event.prompt_id = Some(turn.into());
    world.send(event);
    world.seconds += 0.001;
}

// prompts typed into a turn carry its id; all of them become one turn, with an id of its own.
#[test]
fn r_02_queued_prompts_are_one_turn() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    for _ in 0..3 {
        of_turn(&mut world, "a", PROMPT);
    }
    of_turn(&mut world, "a", STOP);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    of_turn(&mut world, "b", STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

#[test]
fn r_02_a_prompt_queued_behind_queued_prompts_waits_too() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    of_turn(&mut world, "a", PROMPT);
    of_turn(&mut world, "a", PROMPT);
    of_turn(&mut world, "a", STOP);
    of_turn(&mut world, "b", PROMPT);
    of_turn(&mut world, "b", STOP);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    of_turn(&mut world, "c", STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// the turn before was interrupted, and nothing said so.
#[test]
fn r_01_a_prompt_with_another_id_is_not_queued() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    of_turn(&mut world, "a", PROMPT);
    of_turn(&mut world, "b", PROMPT);
    of_turn(&mut world, "b", STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

#[test]
fn a_lost_stop_between_two_turns_does_not_keep_the_second_open() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    of_turn(&mut world, "a", PROMPT);
    of_turn(&mut world, "a", PROMPT);
    of_turn(&mut world, "b", STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// H-42: prompts outstanding belong to the process they were typed into.
#[test]
fn a_new_process_begins_without_a_turn() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.exit(100);
    world.hook("s1", 200, RESUME);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert_eq!(world.session("s1").turn, Turn::None);
}

/// An event of s1 that names no process: its record goes on through a boot.
fn without_process(world: &mut World, kind: HookKind) {
    let mut event = world.event("s1", 100, kind, 0.0);
    event.harness = None;
    world.send(event);
    world.seconds += 0.001;
}

// H-31: the clock of a new boot begins anew; what it stamps is not late by the stamps before it.
#[test]
fn h_31_stamps_of_an_older_boot_make_nothing_late() {
    let mut world = World::new();
    without_process(&mut world, PROMPT);
    let before = world.mono_ns(0.0);
    world.reboot();
    assert!(world.mono_ns(0.0) < before);
    without_process(&mut world, STOP);
    assert!(matches!(*world.session("s1").turn, Turn::Closed { .. }));
    assert_eq!(world.session("s1").counts.late, 0);
    assert_eq!(world.session("s1").last.as_ref().unwrap().name, "Stop");
}

// the turn of queued prompts has an id of its own, which its first event names, whatever that is. A
// prompt with another id says that it was interrupted, and an end with another id that its own end was lost.
#[test]
fn r_02_the_turn_of_queued_prompts_is_known_by_the_id_of_its_first_event() {
    for first in [TOOL, HookKind::Tool(coord_model::ToolPhase::Before), PROMPT] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        for kind in [PROMPT, PROMPT, STOP] {
            of_turn(&mut world, "a", kind);
        }
        of_turn(&mut world, "b", first.clone());
        let mut lost = world.clone();
        for kind in [PROMPT, STOP] {
            of_turn(&mut world, "c", kind);
        }
        assert_eq!(
            world.state_of("s1"),
            SessionState::Idle,
            "{first:?}: b was interrupted, c is over"
        );
        of_turn(&mut lost, "b", PROMPT);
        assert!(matches!(*lost.session("s1").turn, Turn::Open { queued: 1.., .. }), "{first:?}");
        of_turn(&mut lost, "c", STOP);
        assert_eq!(
            lost.state_of("s1"),
            SessionState::Idle,
            "{first:?}: what was queued in b was c"
        );
    }
}

// G2: a request that comes after the result of its own call opens nothing, though an edge that is older than the
// result came between them.
#[test]
fn an_edge_that_comes_late_forgets_no_newer_result() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.pass(60.0);
    let call = |world: &mut World, kind, digest, ago| {
        let event = world.event("s1", 100, kind, ago);
        world.send(HookEvent { tool: Some("Bash".into()), digest: Some(digest), ..event });
    };
    call(&mut world, TOOL, 9, 5.0);
    world.late_hook("s1", 100, PROMPT, 20.0);
    call(&mut world, HookKind::PermissionRequest, 9, 10.0);
    assert_eq!(world.state_of("s1"), SessionState::Running, "it was answered");
    assert_eq!(*world.session("s1").waits, []);
    call(&mut world, HookKind::PermissionRequest, 8, 10.0);
    assert_eq!(world.state_of("s1"), SessionState::AwaitingPermission, "that is another call's");
}

/// An event of s1 that names this configuration directory.
fn names_dir(world: &mut World, pid: u32, dir: &str, provenance: Provenance) {
    let event = world.event("s1", pid, HookKind::SessionStart(StartSource::Resume), 0.0);
    world.send(HookEvent { config_dir: dir.into(), provenance, ..event });
    world.seconds += 0.001;
}

fn in_registry_of(dir: &str) -> Provenance {
    Provenance::Corroborated { is_client: true, registry_dir: Some(dir.into()) }
}

// H-45, H-44: a process has one configuration directory for life, which its first verified event tells.
#[test]
fn h_45_the_first_verified_event_of_a_process_tells_its_directory() {
    let mut world = World::new();
    names_dir(&mut world, 100, "/first", Provenance::Verified);
    assert_eq!(world.session("s1").config_dir, "/first");
    for provenance in [Provenance::Verified, in_registry_of("/other"), Provenance::Claimed] {
        names_dir(&mut world, 100, "/other", provenance.clone());
        assert_eq!(world.session("s1").config_dir, "/first", "{provenance:?}");
    }
    world.exit(100);
    names_dir(&mut world, 200, "", Provenance::Verified);
    assert_eq!(world.session("s1").config_dir, "/first", "it says nothing of its own");
    world.exit(200);
    names_dir(&mut world, 300, "/third", Provenance::Verified);
    assert_eq!(world.session("s1").config_dir, "/third", "another process, another directory");
}

// H-44: until a verified one comes, the directory is the one in whose registry its process stands, not the one that
// the event names.
#[test]
fn h_44_the_registry_tells_the_directory_of_what_is_not_verified() {
    let mut world = World::new();
    names_dir(&mut world, 100, "/planted", in_registry_of("/registry"));
    assert_eq!(world.session("s1").config_dir, "/registry");
    names_dir(&mut world, 100, "/verified", Provenance::Verified);
    assert_eq!(world.session("s1").config_dir, "/verified");
}

// H-45: what the process's own environment gives stands above whatever its events say.
#[test]
fn h_45_the_directory_of_the_environment_is_not_changed_by_events() {
    for told in ["/other", ""] {
        let mut world = World::new();
        names_dir(&mut world, 100, "/registry", in_registry_of("/registry"));
        let config_dir = Some("/own".into());
        world.launched(100, Launch { config_dir, ..crate::crashes::launch() });
        assert_eq!(world.session("s1").config_dir, "/own");
        names_dir(&mut world, 100, told, Provenance::Verified);
        assert_eq!(world.session("s1").config_dir, "/own", "not {told:?}");
    }
}

// the end of the conversation that a process has left is told behind the first event of the next one: it ends
// nothing of that.
#[test]
fn r_07_a_late_end_of_the_conversation_before_does_not_end_the_next_one() {
    let cleared = [HookKind::SessionStart(StartSource::Clear), PROMPT];
    for (reason, next) in [(EndReason::Clear, &cleared[..]), (EndReason::Resume, &cleared[1..])] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        for kind in [PROMPT, STOP] {
            world.hook("s1", 100, kind);
        }
        next.iter().for_each(|kind| world.hook("s2", 100, kind.clone()));
        world.hook("s1", 100, HookKind::SessionEnd(reason));
        assert_eq!(world.state_of("s2"), SessionState::Running, "{reason:?}");
        let session = world.session("s2");
        assert!(matches!(*session.turn, Turn::Open { .. }), "{reason:?}");
        assert_eq!((&*session.session_id, session.left), ("s2", None), "{reason:?}");
        world.hook("s2", 100, STOP);
        assert_eq!(world.state_of("s2"), SessionState::Idle, "{reason:?}");
    }
}
