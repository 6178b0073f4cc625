//! Deaths and ends: stopped, crashed, interrupted or unknown (S0-02, S0-25f, S0-28a, H-05, H-10).

use crate::world::{
    END, EXIT, PROMPT, START, STOP, World, blank, entry, its, no_registry, pane, present, process,
};
use coord_core::Presence;
use coord_model::{
    Effect, EndReason, Event, HookKind, Kind, PaneFound, ProcessSeen, Provenance, Registry,
    RegistryStatus, SessionState, StartSource,
};

fn in_a_turn() -> World {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.registry(100, present("s1"), false);
    world.hook("s1", 100, PROMPT);
    world
}

#[test]
fn s0_28a_a_death_asks_for_the_registry_after_socket_and_spool() {
    let mut world = in_a_turn();
    world.effects.clear();
    world.exit(100);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
    let read = Effect::ReadRegistry {
        process: process(100),
        config_dir: "/home/dev/.claude".into(),
        after_death: true,
    };
    assert_eq!(world.effects, [read]);
}

// S0-02: a recorded RUNNING proves nothing; the process decides.
#[test]
fn h_05_each_thing_a_death_can_leave_behind() {
    for (found, word) in [
        (present("s1"), SessionState::Crashed),
        (Registry::Absent, SessionState::Stopped),
        (no_registry(), SessionState::Unknown),
    ] {
        let mut world = in_a_turn();
        world.die(100, found.clone());
        assert_eq!(world.state_of("s1"), word, "{found:?}");
        assert!(world.decisions.iter().any(|decision| decision.rule == "H-05"), "{found:?}");
    }
}

#[test]
fn h_05_an_entry_never_seen_proves_nothing_by_its_absence() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.die(100, Registry::Absent);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
    assert!(matches!(*world.session("s1").presence, Presence::Gone { .. }));
}

// The client may withdraw its entry a moment before its process is gone.
#[test]
fn h_05_an_entry_withdrawn_before_the_death_proves_a_clean_end() {
    let mut world = in_a_turn();
    world.registry(100, Registry::Absent, false);
    world.die(100, Registry::Absent);
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
}

#[test]
fn s0_25f_an_end_before_the_death_is_a_stop() {
    for (kind, because) in [(EXIT, "prompt_input_exit"), (END, "other")] {
        let mut world = in_a_turn();
        world.hook("s1", 100, kind);
        world.exit(100);
        assert_eq!(world.state_of("s1"), SessionState::Stopped);
        assert!(world.session("s1").shown.because.contains(because));
    }
}

#[test]
fn h_05_an_end_that_arrives_during_or_after_the_judgement_corrects_it() {
    for judged in [false, true] {
        let mut world = in_a_turn();
        world.exit(100);
        if judged {
            world.registry(100, present("s1"), true);
        }
        world.late_hook("s1", 100, END, 0.0005);
        assert_eq!(world.state_of("s1"), SessionState::Stopped);
        world.registry(100, present("s1"), true);
        assert_eq!(world.state_of("s1"), SessionState::Stopped);
    }
}

#[test]
fn h_05_facts_that_do_not_come_are_not_waited_for() {
    let mut world = in_a_turn();
    world.exit(100);
    world.pass(4.9);
    assert!(matches!(*world.session("s1").presence, Presence::Dying { .. }));
    world.pass(0.2);
    assert!(matches!(*world.session("s1").presence, Presence::Gone { .. }));
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
}

#[test]
fn late_events_of_a_dead_process_do_not_bring_it_back() {
    let mut world = in_a_turn();
    world.die(100, present("s1"));
    world.late_hook("s1", 100, STOP, 0.0001);
    assert_eq!(world.state_of("s1"), SessionState::Crashed);
}

#[test]
fn r_08_an_end_of_an_unknown_id_is_no_session() {
    let mut world = World::new();
    world.hook("s1", 100, END);
    assert_eq!(world.state.sessions().len(), 0);
    assert_eq!(world.state.header().counters.phantom_ends, 1);
}

#[test]
fn r_08_a_failed_resume_does_not_stop_a_crashed_session() {
    let mut world = in_a_turn();
    world.die(100, present("s1"));
    world.hook("s1", 200, END);
    assert_eq!(world.state_of("s1"), SessionState::Crashed);
    assert_eq!(world.session("s1").owner.as_ref().unwrap().id.process, process(100));
}

fn shutdown(world: &mut World, under_way: bool) {
    world.take(&Event::Shutdown { under_way });
}

// H-10: what a shutdown ends was interrupted, and what had ended just before it was noticed as well.
#[test]
fn h_10_a_shutdown_interrupts_what_it_ends() {
    let mut world = World::new();
    for (n, id) in (1_u32..).zip(["long before", "just before", "during", "left", "silent"]) {
        world.open(id, 100 * n, Kind::Interactive);
    }
    world.open("run", 900, Kind::Headless);
    world.hook("long before", 100, END);
    world.pass(30.0);
    world.hook("just before", 200, END);
    world.pass(5.0);
    shutdown(&mut world, true);
    world.hook("during", 300, END);
    world.hook("left", 400, EXIT);
    world.hook("run", 900, END);
    // Its SessionEnd was ended with it; it removed its registry entry.
    world.registry(500, present("silent"), false);
    world.die(500, Registry::Absent);
    for (id, word) in [
        ("long before", SessionState::Stopped),
        ("just before", SessionState::Interrupted),
        ("during", SessionState::Interrupted),
        ("left", SessionState::Stopped),
        ("run", SessionState::Stopped),
        ("silent", SessionState::Interrupted),
    ] {
        assert_eq!(world.state_of(id), word, "{id}");
    }
    // A late event of a session that had ended before changes nothing.
    world.late_hook("long before", 100, STOP, 40.0);
    assert_eq!(world.state_of("long before"), SessionState::Stopped);
}

// H-10: after a shutdown that was called off, and on the next boot, an end is an end.
#[test]
fn h_10_a_shutdown_is_over_when_it_is_called_off_or_done() {
    for is_called_off in [true, false] {
        let mut world = World::new();
        shutdown(&mut world, true);
        if is_called_off {
            shutdown(&mut world, false);
        } else {
            world.reboot();
            world.pass(300.0);
        }
        world.open("s1", 100, Kind::Interactive);
        world.hook("s1", 100, END);
        assert_eq!(world.state_of("s1"), SessionState::Stopped, "called off: {is_called_off}");
    }
}

// H-10
#[test]
fn h_10_three_ends_within_ten_seconds_are_one_host_event() {
    let mut world = World::new();
    for n in 1..=4_u32 {
        world.open(&format!("s{n}"), 100 * n, Kind::Interactive);
    }
    world.hook("s4", 400, EXIT);
    world.hook("s1", 100, END);
    world.pass(5.0);
    world.hook("s2", 200, END);
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
    world.hook("s3", 300, END);
    let words = ["s1", "s2", "s3", "s4"].map(|id| world.state_of(id));
    assert_eq!(
        words,
        [
            SessionState::Interrupted,
            SessionState::Interrupted,
            SessionState::Interrupted,
            SessionState::Stopped
        ]
    );
}

#[test]
fn h_10_ends_far_apart_or_of_headless_runs_are_stops() {
    let mut world = World::new();
    for n in 1..=3_u32 {
        world.open(&format!("s{n}"), 100 * n, Kind::Interactive);
        world.open(&format!("p{n}"), 1000 * n, Kind::Headless);
    }
    for n in 1..=3_u32 {
        world.hook(&format!("s{n}"), 100 * n, END);
        world.pass(6.0);
    }
    for n in 1..=3_u32 {
        world.hook(&format!("p{n}"), 1000 * n, END);
    }
    assert!(world.state.sessions().all(|session| session.shown.state == SessionState::Stopped));
}

#[test]
fn h_10_a_tmux_servers_death_takes_its_sessions_along_in_either_order() {
    for server_first in [true, false] {
        let mut world = World::new();
        world.open_in("s1", 100, Kind::Interactive, Some(pane(50)));
        world.open_in("s2", 200, Kind::Interactive, Some(pane(60)));
        if server_first {
            world.exit(50);
        }
        world.hook("s1", 100, END);
        world.hook("s2", 200, END);
        if !server_first {
            world.exit(50);
        }
        assert_eq!(world.state_of("s1"), SessionState::Interrupted, "server first: {server_first}");
        assert_eq!(world.state_of("s2"), SessionState::Stopped);
    }
}

#[test]
fn h_10_a_pane_that_is_gone_with_its_server_tells_nothing_else() {
    // A dying server takes the pane along; its client ends a moment later.
    for server_first in [true, false] {
        for ends_late in [false, true] {
            let mut world = World::new();
            world.open_in("s1", 100, Kind::Interactive, None);
            world.seen_on_pane(100, its(blank()), false);
            if server_first {
                world.exit(7);
            }
            world.seen_on_pane(100, PaneFound::NotThere, false);
            if ends_late {
                world.pass(11.0);
                world.seen_on_pane(100, PaneFound::NotThere, false);
            }
            if !server_first {
                world.exit(7);
            }
            world.hook("s1", 100, END);
            let expected =
                if ends_late { SessionState::Stopped } else { SessionState::Interrupted };
            assert_eq!(world.state_of("s1"), expected, "{server_first} {ends_late}");
        }
    }
}

#[test]
fn h_10_a_session_its_user_left_is_not_interrupted_by_anything_later() {
    let mut world = World::new();
    world.open_in("s1", 100, Kind::Interactive, Some(pane(50)));
    world.hook("s1", 100, EXIT);
    world.exit(50);
    world.reboot();
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
}

#[test]
fn s0_25f_a_reboot_interrupts_what_lived_and_what_had_just_ended() {
    let mut world = World::new();
    world.seconds = 1_000_000.0 - 300.0;
    for (id, pid) in [("early", 100), ("late", 200), ("alive", 300)] {
        world.open(id, pid, Kind::Interactive);
    }
    world.hook("early", 100, END);
    world.pass(240.0);
    world.hook("late", 200, END);
    world.reboot();
    let words = ["early", "late", "alive"].map(|id| world.state_of(id));
    assert_eq!(
        words,
        [SessionState::Stopped, SessionState::Interrupted, SessionState::Interrupted]
    );
}

#[test]
fn events_of_an_older_boot_that_come_after_it_open_nothing_alive() {
    let mut world = World::new();
    let old = world.event("s1", 100, START, 0.0);
    world.reboot();
    world.send(old);
    assert_eq!(world.state_of("s1"), SessionState::Interrupted);
}

// G10: a restarted coordinator asks for everything it needs to know again.
#[test]
fn g10_a_restart_watches_the_living_and_judges_the_dying() {
    let mut world = World::new();
    world.open_in("s1", 100, Kind::Interactive, Some(pane(50)));
    world.open("s2", 200, Kind::Interactive);
    world.exit(200);
    world.hook("s3", 300, START);
    world.hook("s3", 300, EXIT);
    world.effects.clear();
    world.start_coordinator();
    let has = |wanted: Effect| world.effects.contains(&wanted);
    assert!(has(Effect::WatchProcess { process: process(100) }));
    assert!(has(Effect::WatchProcess { process: process(50) }));
    let config_dir = "/home/dev/.claude".to_owned();
    assert!(has(Effect::ReadRegistry { process: process(200), config_dir, after_death: true }));
    assert!(!has(Effect::WatchProcess { process: process(300) }));
    assert!(has(Effect::LockConfigDir { config_dir: "/home/dev/.claude".into() }));
}

#[test]
fn a_death_while_no_coordinator_ran_is_judged_at_its_start() {
    let mut world = in_a_turn();
    world.start_coordinator();
    world.take(&Event::ProcessSeen(ProcessSeen {
        process: process(100),
        alive: false,
        kind: None,
        is_stopped: false,
        forked_from: None,
        launch: None,
    }));
    world.registry(100, present("s1"), true);
    assert_eq!(world.state_of("s1"), SessionState::Crashed);
}

// S0-31
#[test]
fn s0_31_records_go_when_their_retention_is_over_and_not_before() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, EXIT);
    world.open("s2", 200, Kind::Interactive);
    for (days, left) in [(29.0, 2), (31.0, 1)] {
        world.seconds = days * 86_400.0;
        world.start_coordinator();
        assert_eq!(world.state.sessions().len(), left, "after {days} days");
    }
}

#[test]
fn an_in_process_clear_is_not_an_end() {
    let mut world = in_a_turn();
    world.hook("s1", 100, STOP);
    world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
    world.hook("s2", 100, HookKind::SessionStart(StartSource::Clear));
    assert_eq!(world.state_of("s2"), SessionState::Idle);
}

// S0-38: who was found dead, nobody having seen it die, is counted; who was seen dying is not.
#[test]
fn s0_38_the_found_dead_are_counted() {
    let mut world = in_a_turn();
    world.start_coordinator();
    world.seen_dead(100);
    assert_eq!(world.state.header().counters.found_dead, 1);
    let mut world = in_a_turn();
    world.exit(100);
    assert_eq!(world.state.header().counters.found_dead, 0);
}

// S0-28b, H-16, H-44: of a session without a known process nothing can be proved: it is unknown, whatever
// events say, and nothing acts.
#[test]
fn s0_28b_a_session_without_a_process_is_unknown() {
    let mut world = World::new();
    let mut event = world.event("s1", 100, PROMPT, 0.0);
    event.harness = None;
    event.provenance = Provenance::Claimed;
    world.send(event);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
    assert!(world.session("s1").recovery.pending.is_none());
    // The registry names its process: it is watched from then on.
    world.registry(100, entry("s1", Some(RegistryStatus::Busy), world.now().wall_ms), false);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}

// H-05, H-33, H-44: a client went over to another conversation while no coordinator ran, and died; what its
// spooled hooks say of that is not believed, but the registry entry that it left is no sign of a crash of the
// conversation before. A former id is: the client writes its entry after the hook.
#[test]
fn h_05_an_entry_left_behind_that_names_another_session_is_no_crash() {
    for (named, state) in [("s2", SessionState::Unknown), ("s0", SessionState::Crashed)] {
        let mut world = World::new();
        world.open("s0", 100, Kind::Interactive);
        world.registry(100, present("s0"), false);
        world.hook("s1", 100, HookKind::SessionStart(StartSource::Clear));
        world.hook("s1", 100, PROMPT);
        world.exit(100);
        world.registry(100, present(named), true);
        assert_eq!(world.state_of("s1"), state, "{named}");
    }
}
