//! Whose event is it: ids, processes, owners, machines (R-06 to R-09, H-14, H-15, H-25, H-42).

use crate::world::{
    END, EXIT, MACHINE, NS, PROMPT, RESUME, START, STOP, TOOL, World, entry, no_registry, present,
    process,
};
use coord_core::{Presence, SeenIds, State, UNVERIFIED_MAX, step};
use coord_model::{
    Domain, Effect, EndReason, Event, HookEvent, HookKind, Kind, Provenance, Registry,
    RegistryEntry, SessionState, StartSource,
};

const CLEAR: HookKind = HookKind::SessionStart(StartSource::Clear);

#[test]
fn r_07_one_record_follows_a_cleared_id() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, HookKind::SessionEnd(EndReason::Clear));
    world.hook("s2", 100, CLEAR);
    let session = world.session("s2");
    assert_eq!(session.session_id, "s2");
    assert_eq!(*session.previous_ids, ["s1"]);
    assert_eq!(world.session("s1").key, session.key);
    assert_eq!(world.state.sessions().len(), 1);
}

#[test]
fn r_07_late_events_of_the_old_id_do_not_lead_back() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.pass(60.0);
    world.hook("s2", 100, CLEAR);
    world.late_hook("s1", 100, HookKind::SessionEnd(EndReason::Clear), 30.0);
    world.late_hook("s0", 100, TOOL, 40.0);
    let session = world.session("s2");
    assert_eq!((session.session_id.as_str(), session.shown.state), ("s2", SessionState::Idle));
    assert_eq!(*session.previous_ids, ["s1", "s0"]);
}

#[test]
fn h_42_a_resume_in_a_new_process_continues_a_dead_owners_record() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.die(100, present("s1"));
    world.effects.clear();
    world.hook("s1", 200, RESUME);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert_eq!(world.session("s1").owner.as_ref().unwrap().id.process, process(200));
    assert!(world.effects.contains(&Effect::WatchProcess { process: process(200) }));
    // The dead process's last events come late and change nothing (G2, H-42).
    world.hook("s1", 100, PROMPT);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    world.exit(100);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// H-42: `--continue` names an id of its own first, and only the registry tells of it (measured).
#[test]
fn h_42_a_client_that_goes_on_with_a_dead_owners_id_before_any_hook_continues_its_record() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.die(100, present("s1"));
    world.registry(200, present("s2"), false);
    world.registry(200, present("s1"), false);
    world.hook("s1", 200, RESUME);
    let all: Vec<_> = world.state.sessions().collect();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(world.session("s1").owner.as_ref().unwrap().id.process, process(200));
    assert_eq!(world.session("s1").recovery.pending, None);
    assert!(world.session("s1").previous_ids.is_empty());
    // A living owner's id is not taken.
    world.registry(300, present("s3"), false);
    world.registry(300, present("s1"), false);
    let words: Vec<SessionState> =
        world.state.sessions_with_id("s1").map(|session| session.shown.state).collect();
    assert_eq!(words, [SessionState::Unknown, SessionState::Unknown], "two owners");
}

#[test]
fn r_07_two_live_processes_on_one_id_are_two_unknown_records() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 200, RESUME);
    let words = |world: &World| -> Vec<(SessionState, bool)> {
        let mut all: Vec<_> = world.state.sessions_with_id("s1").collect();
        all.sort_by_key(|session| session.key);
        all.iter().map(|session| (session.shown.state, session.two_owners)).collect()
    };
    assert_eq!(words(&world), [(SessionState::Unknown, true), (SessionState::Unknown, true)]);
    world.seen_alive(200);
    world.exit(200);
    world.registry(200, no_registry(), true);
    assert_eq!(words(&world)[0], (SessionState::Idle, false));
}

#[test]
fn h_42_a_fork_in_a_new_process_is_a_new_record() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s2", 200, HookKind::SessionStart(StartSource::Fork));
    assert_eq!(world.state.sessions().len(), 2);
    assert_eq!(
        (world.state_of("s1"), world.state_of("s2")),
        (SessionState::Idle, SessionState::Idle)
    );
}

#[test]
fn a_process_that_goes_over_to_another_session_leaves_its_record_stopped() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.open("s2", 200, Kind::Interactive);
    world.hook("s2", 200, END);
    world.exit(200);
    world.hook("s1", 100, HookKind::SessionEnd(EndReason::Resume));
    world.hook("s2", 100, RESUME);
    assert_eq!(
        (world.state_of("s1"), world.state_of("s2")),
        (SessionState::Stopped, SessionState::Idle)
    );
    world.seen_alive(100);
    world.die(100, present("s2"));
    assert_eq!(
        (world.state_of("s1"), world.state_of("s2")),
        (SessionState::Stopped, SessionState::Crashed)
    );
}

#[test]
fn r_09_a_nested_run_is_a_session_of_its_own() {
    let mut world = World::new();
    world.open("parent", 100, Kind::Interactive);
    world.hook("parent", 100, PROMPT);
    world.open("child", 101, Kind::Headless);
    world.hook("child", 101, PROMPT);
    world.hook("child", 101, STOP);
    world.hook("child", 101, END);
    assert_eq!(
        (world.state_of("parent"), world.state_of("child")),
        (SessionState::Running, SessionState::Stopped)
    );
}

#[test]
fn r_09_a_reused_pid_is_another_process() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let mut event = world.event("s1", 100, PROMPT, 0.0);
    event.harness.as_mut().unwrap().start_time += 1;
    world.send(event);
    assert_eq!(world.state.sessions_with_id("s1").count(), 2);
}

// H-15
#[test]
fn h_15_another_machine_or_pid_namespace_is_elsewhere_and_never_dead() {
    for (machine, pid_ns) in [("machine-2", NS), (MACHINE, 7)] {
        let mut world = World::new();
        let mut event = world.event("s1", 100, START, 0.0);
        event.machine = machine.into();
        event.harness.as_mut().unwrap().pid_ns = pid_ns;
        world.send(event);
        assert_eq!(world.state_of("s1"), SessionState::Elsewhere);
        assert!(!world.effects.iter().any(|fx| matches!(fx, Effect::WatchProcess { .. })));
        // The same pid dies here: another process altogether.
        world.exit(100);
        assert_eq!(world.session("s1").presence, Presence::Alive);
        world.pass(1.0);
        let mut end = world.event("s1", 100, END, 0.0);
        end.machine = machine.into();
        end.harness.as_mut().unwrap().pid_ns = pid_ns;
        world.send(end);
        assert_eq!(world.state_of("s1"), SessionState::Stopped);
    }
}

// H-25: state follows, and the mark stays visible.
#[test]
fn h_25_unverified_events_are_applied_and_marked() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let mut event = world.event("s1", 100, PROMPT, 0.0);
    event.provenance = Provenance::Claimed;
    world.send(event);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    assert!(!world.session("s1").last.as_ref().unwrap().verified);
    assert_eq!(world.session("s1").counts.unverified, 1);
}

// H-14
#[test]
fn h_14_a_config_dir_is_locked_once() {
    let mut world = World::new();
    let asks = |world: &World| {
        world.effects.iter().filter(|fx| matches!(fx, Effect::LockConfigDir { .. })).count()
    };
    world.open("s1", 100, Kind::Interactive);
    assert_eq!(asks(&world), 1);
    let config_dir = "/home/dev/.claude".to_owned();
    world.take(&Event::ConfigDirLock { config_dir, held: false });
    world.open("s2", 200, Kind::Interactive);
    assert_eq!(asks(&world), 1);
    assert_eq!(world.state.header().config_dirs.values().copied().collect::<Vec<_>>(), [false]);
}

// H-29
#[test]
fn h_29_a_folded_event_is_counted_once_and_is_a_sign_of_life() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.pass(800.0);
    let id = world.event("s1", 100, TOOL, 0.0).id;
    for _ in 0..2 {
        world.take(&Event::Folded { id, event: "PreToolUse".into(), session_id: "s1".into() });
    }
    world.pass(800.0);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    assert_eq!(world.session("s1").counts.folded, 1);
    assert_eq!(world.state.header().counters.folded, 1);
}

// G10: the state is its parts.
#[test]
fn g10_a_stored_state_is_the_same_state() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s2", 100, CLEAR);
    world.open("s3", 300, Kind::Headless);
    world.hook("s3", 300, PROMPT);
    world.exit(300);
    let header = serde_json::to_string(world.state.header()).unwrap();
    let sessions: Vec<String> =
        world.state.sessions().map(|session| serde_json::to_string(session).unwrap()).collect();
    let again = State::from_parts(
        serde_json::from_str(&header).unwrap(),
        sessions.iter().map(|text| serde_json::from_str(text).unwrap()).collect(),
        Vec::new(),
        SeenIds::from_bytes(&world.state.seen().to_bytes()),
    );
    assert_eq!(again, world.state);
    assert_eq!(again.next_deadline(), world.state.next_deadline());
}

// H-15: another container's client is listed from its registry entry, never judged dead, and its
// first hook finds the same record.
#[test]
fn h_15_a_registry_of_elsewhere_is_listed_and_never_dead() {
    for (machine, pid_ns) in [(MACHINE, 99), ("machine-2", NS)] {
        let mut world = World::new();
        let domain = Domain { machine: machine.into(), pid_ns };
        let read = |world: &mut World, found: Registry| {
            world.take(&Event::RegistryRead {
                process: process(1),
                found,
                after_death: false,
                domain: Some(domain.clone()),
            });
        };
        read(&mut world, present("s1"));
        assert_eq!(world.state_of("s1"), SessionState::Elsewhere);
        let mut event = world.event("s1", 1, PROMPT, 0.0);
        event.machine = machine.into();
        event.harness.as_mut().unwrap().pid_ns = pid_ns;
        if machine != MACHINE {
            event.boot = "another boot".into();
        }
        world.send(event);
        assert_eq!(world.state_of("s1"), SessionState::Elsewhere);
        assert!(
            !world.effects.iter().any(|one| matches!(one, Effect::WatchProcess { .. })),
            "its pid means nothing here"
        );
        // It is written anew now and then: only an entry that stays away says something.
        read(&mut world, present("s1"));
        read(&mut world, Registry::Absent);
        assert_eq!(world.state_of("s1"), SessionState::Elsewhere);
        if machine == MACHINE {
            world.pass(6.0);
            assert_eq!(world.state_of("s1"), SessionState::Unknown);
            let given_up = world.decisions.last().unwrap();
            assert_eq!((&*given_up.rule, given_up.did.as_str()), ("H-15", "unknown"));
        }
    }
}

// A session without a known process is adopted by the registry entry that names its id.
#[test]
fn a_record_without_an_owner_is_completed_by_the_registry() {
    let mut world = World::new();
    let mut event = world.event("s1", 100, START, 0.0);
    event.harness = None;
    world.send(event);
    world.registry(100, present("s1"), false);
    assert_eq!(world.session("s1").owner.as_ref().unwrap().id.process, process(100));
}

/// An event that is not verified: of no process, or of one as far as `provenance` says.
fn unverified(world: &mut World, id: &str, process: Option<(u32, Provenance)>) {
    let mut event = world.event(id, process.as_ref().map_or(1, |(pid, _)| *pid), START, 0.0);
    match process {
        Some((_, provenance)) => event.provenance = provenance,
        None => (event.provenance, event.harness) = (Provenance::Claimed, None),
    }
    let now = world.now();
    step(&mut world.state, &Event::Hook(Box::new(event)), now);
}

fn registered() -> Provenance {
    Provenance::Corroborated { is_client: false, registry_dir: Some("/home/dev/.claude".into()) }
}

fn living_client() -> Provenance {
    Provenance::Corroborated { is_client: true, registry_dir: None }
}

fn has(world: &World, id: &str) -> bool {
    world.state.sessions_with_id(id).next().is_some()
}

// H-49: made-up sessions take nobody's place but their own.
#[test]
fn h_49_records_without_a_verified_event_are_capped_and_the_oldest_go() {
    let mut world = World::new();
    world.open("real", 100, Kind::Interactive);
    unverified(&mut world, "client", Some((200, living_client())));
    world.seen_alive(200);
    unverified(&mut world, "left", Some((300, registered())));
    world.seen_dead(300);
    for n in 0..UNVERIFIED_MAX + 500 {
        unverified(&mut world, &format!("forged-{n}"), None);
    }
    assert!(has(&world, "real") && has(&world, "client"), "a verified one, and a living client's");
    assert!(has(&world, "left"), "the registry told of it: claims go before it");
    assert!(!has(&world, "forged-500") && has(&world, "forged-501"));
    assert_eq!(world.state.n_unverified(), UNVERIFIED_MAX);
    assert_eq!(world.state.header().counters.dropped, 501);
    // The indexes are what the records make of them.
    world.hook("real", 100, PROMPT);
    // A store with too many is cut to size by the first event.
    let mut many: Vec<_> = world.state.sessions().cloned().collect();
    let one = world.session("forged-1000").clone();
    many.extend((0..700).map(|n| {
        let mut more = one.clone();
        more.key.0 = 100_000 + n;
        more
    }));
    let header = world.state.header().clone();
    world.state = State::from_parts(header, many, Vec::new(), SeenIds::default());
    assert_eq!(world.state.n_unverified(), UNVERIFIED_MAX + 700);
    world.hook("real", 100, TOOL);
    assert_eq!(world.state.n_unverified(), UNVERIFIED_MAX);
}

// H-44, H-49: nobody looked at the client of a new record yet, and those before it count for more.
#[test]
fn h_49_the_record_of_a_living_client_is_not_dropped() {
    let mut world = World::new();
    for n in 0..2 * UNVERIFIED_MAX {
        let pid = 1000 + u32::try_from(n).unwrap();
        unverified(&mut world, &format!("left-{n}"), Some((pid, registered())));
        world.seen_dead(pid);
    }
    assert_eq!(world.state.n_unverified(), UNVERIFIED_MAX, "they have a bound as well");
    unverified(&mut world, "client", Some((200, living_client())));
    world.seen_alive(200);
    for n in 0..UNVERIFIED_MAX {
        unverified(&mut world, &format!("forged-{n}"), None);
    }
    assert!(has(&world, "client"));
    world.seen_dead(200);
    unverified(&mut world, "forged", None);
    assert!(has(&world, "client"), "claims go before it");
}

// a process that went over to another conversation comes back to the first, if nobody else has it.
#[test]
fn r_07_a_process_comes_back_to_the_conversation_it_left() {
    for (other_lives, comes_back) in [(true, false), (false, true)] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.hook("s2", 100, RESUME);
        world.hook("s1", 200, RESUME);
        if !other_lives {
            world.die(200, present("s1"));
        }
        world.hook("s1", 100, RESUME);
        let owner = world.session("s1").owner.as_ref().unwrap();
        assert_eq!(owner.id.process.pid == 100, comes_back);
    }
}

// R-07, G2: the start that brought a process into a conversation arrives after the hooks of the one it went on to.
#[test]
fn r_07_a_late_start_does_not_take_a_process_back() {
    for (late_s, goes_over) in [(10.0, false), (0.0, true)] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.die(100, present("s1"));
        world.pass(60.0);
        world.hook("s2", 200, HookKind::SessionStart(StartSource::Clear));
        let late = world.event("s1", 200, RESUME, late_s);
        world.send(late);
        let of = |id: &str| world.session(id).owner.as_ref().unwrap().id.process.pid;
        assert_eq!(of("s1") == 200, goes_over, "{late_s} s late");
        assert_eq!(world.session("s2").may_live(), !goes_over, "{late_s} s late");
    }
}

// H-44, H-42: a claim may open a record beside that of a crashed client; the proved client goes on with the latter.
#[test]
fn h_42_a_claimed_record_makes_way_for_the_one_that_was_there() {
    let mut world = World::new();
    world.open("s1", 50, Kind::Interactive);
    world.die(50, present("s1"));
    unverified(&mut world, "s1", Some((100, living_client())));
    assert_eq!(world.state.sessions().len(), 2);
    world.hook("s1", 100, RESUME);
    let keys: Vec<_> = world.state.sessions().map(|session| session.key).collect();
    assert_eq!(keys.len(), 1);
    assert_eq!(world.session("s1").owner.as_ref().unwrap().id.process.pid, 100);
}

// H-46: who makes way is who has that conversation now.
#[test]
fn h_46_a_program_that_left_a_conversation_keeps_the_one_it_has() {
    let unrecognized = |id: &str| {
        let Registry::Present(found) = entry(id, None, 0) else { unreachable!() };
        Registry::Present(RegistryEntry { is_unrecognized: true, ..found })
    };
    let mut world = World::new();
    world.registry(100, unrecognized("s1"), false);
    world.registry(100, unrecognized("s2"), false);
    world.open("s1", 200, Kind::Interactive);
    assert_eq!(world.session("s2").owner.as_ref().unwrap().id.process.pid, 100);
}

// H-42: two clients had it. What the one does while the other lives is nobody's taking it up elsewhere.
#[test]
fn h_42_a_living_owner_is_not_passed_on() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 200, RESUME);
    world.hook("s1", 200, PROMPT);
    world.hook("s2", 200, RESUME);
    let passed_on = world.state.sessions().map(|session| session.recovery.passed_on);
    assert!(passed_on.into_iter().all(|process| process.is_none()));
}

// G6: who ended it elsewhere is younger than the harness that died: started later, or since the machine was.
#[test]
fn g6_only_a_younger_process_ended_it_elsewhere() {
    for (later, is_passed_on) in [(0, false), (1, true)] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.die(100, present("s1"));
        let mut event = world.event("s1", 200, EXIT, 0.0);
        event.harness.as_mut().unwrap().start_time = process(100).start_time + later;
        world.send(event);
        assert_eq!(world.session("s1").recovery.passed_on.is_some(), is_passed_on);
    }
    for is_of_this_boot in [true, false] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.reboot();
        // It was spooled, and its client is gone: nothing proves it.
        let mut event = world.event("s1", 50, EXIT, 0.0);
        event.provenance = Provenance::Claimed;
        if !is_of_this_boot {
            event.boot = "boot-0".into();
        }
        world.send(event);
        assert_eq!(world.session("s1").recovery.passed_on.is_some(), is_of_this_boot);
    }
}

// H-44: two clients had a conversation and both died. What nobody verified, said by no process, passes nothing on.
#[test]
fn h_44_an_unverified_event_passes_nothing_on_between_the_dead() {
    for (provenance, is_passed_on) in [(Provenance::Claimed, false), (Provenance::Verified, true)] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.hook("s1", 200, RESUME);
        world.die(100, present("s1"));
        world.die(200, present("s1"));
        let event = world.event("s1", 200, STOP, 0.0);
        let harness = event.harness.clone().filter(|_| is_passed_on);
        world.send(HookEvent { provenance, harness, ..event });
        let mut records = world.state.sessions();
        assert_eq!(records.any(|one| one.recovery.passed_on.is_some()), is_passed_on);
    }
}

/// Whether the conversation of this process's record went on in another one.
fn is_passed_on(world: &World, pid: u32) -> bool {
    let is_its = |session: &coord_core::Session| {
        session.owner.as_ref().is_some_and(|owner| owner.id.process.pid == pid)
    };
    world.state.sessions().any(|session| is_its(session) && session.recovery.passed_on.is_some())
}

// H-42: two clients had a conversation and both died. What is heard of the first one is no taking up of the second's.
#[test]
fn h_42_a_record_that_went_on_elsewhere_passes_nothing_on() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 200, RESUME);
    world.die(100, present("s1"));
    world.hook("s1", 200, PROMPT);
    assert!(is_passed_on(&world, 100) && !is_passed_on(&world, 200));
    world.die(200, present("s1"));
    world.late_hook("s1", 100, END, 0.0);
    world.registry(100, Registry::Absent, true);
    assert!(!is_passed_on(&world, 200));
}

// G6: two clients had a conversation and both died. Its user takes it up and ends it while nobody listens:
// neither record is brought back (seed 1210418530531 brought the older one back).
#[test]
fn g6_an_end_elsewhere_is_of_every_record_of_its_conversation() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 200, RESUME);
    world.die(100, present("s1"));
    world.die(200, present("s1"));
    // It was spooled, and its client is gone: nothing proves it.
    let mut event = world.event("s1", 300, EXIT, 0.0);
    event.provenance = Provenance::Claimed;
    world.send(event);
    let passed_on = world.state.sessions().map(|session| session.recovery.passed_on.is_some());
    assert_eq!(passed_on.collect::<Vec<_>>(), [true, true]);
}

// G6, S0-25f: two clients have a conversation. One crashes, and the other, which is older, ends later, by a person or by a
// signal: it is not brought back (seeds 1210520000484, 3848046074). Where that end was before the crash, the crash is
// brought back.
#[test]
fn g6_the_last_process_that_ends_a_conversation_ends_it_for_all() {
    // It was spooled, and its client is gone by now.
    let ends = |world: &mut World, reason| {
        let mut event = world.event("s1", 100, reason, 0.0);
        event.provenance = Provenance::Claimed;
        world.send(event);
        world.pass(5.0);
    };
    for (ends_first, reason, is_over) in
        [(false, EXIT, true), (true, EXIT, false), (false, END, true), (true, END, false)]
    {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.hook("s1", 200, RESUME);
        world.hook("s1", 200, PROMPT);
        if ends_first {
            ends(&mut world, reason.clone());
        }
        world.die(200, present("s1"));
        world.pass(5.0);
        if !ends_first {
            ends(&mut world, reason.clone());
        }
        assert_eq!(is_passed_on(&world, 200), is_over, "first: {ends_first}, {reason:?}");
    }
}

// G6: a hook that runs late may date the end of its process after that was seen to be dead. Who crashed after it was the
// last to have the conversation.
#[test]
fn g6_no_process_ends_a_conversation_after_its_own_death() {
    for (first, second, is_over) in [(100, 200, false), (200, 100, true)] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.hook("s1", 200, RESUME);
        for pid in [first, second] {
            world.pass(5.0);
            world.die(pid, present("s1"));
        }
        world.pass(5.0);
        let mut event = world.event("s1", 100, END, 0.0);
        event.provenance = Provenance::Claimed;
        world.send(event);
        assert_eq!(is_passed_on(&world, 200), is_over, "{first} died first");
    }
}

// a conversation has one owner again once the other record is gone.
#[test]
fn r_07_the_mark_of_two_owners_goes_with_the_other_record() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.registry(200, entry("s1", None, 1), false);
    assert!(world.state.sessions().len() == 2 && world.state.sessions().all(|one| one.two_owners));
    // Nobody had told of the other client: its record goes when it goes over to another conversation.
    world.hook("s2", 200, RESUME);
    world.hook("s1", 100, PROMPT);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}
