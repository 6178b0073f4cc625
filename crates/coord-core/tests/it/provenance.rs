//! Who is believed (H-44 to H-47): what an event may change by how far it is believed.

use crate::crashes::{PID, at_rest, in_a_turn, launch};
use crate::world::{END, EXIT, PROMPT, RESUME, START, STOP, TOOL, World, pane, present, process};
use coord_core::{OwnerProof, Presence, State};
use coord_model::{
    HookEvent, HookKind, Kind, Provenance, Registry, RegistryEntry, Sender, SessionKey,
    SessionState,
};
use serde_json::json;

const CLIENT: Provenance = Provenance::Corroborated { is_client: true, registry_dir: None };
/// A process that nobody knows.
const STRANGER: u32 = 900;

fn in_registry(is_client: bool) -> Provenance {
    let registry_dir = Some("/home/dev/.claude".into());
    Provenance::Corroborated { is_client, registry_dir }
}

fn claim(world: &mut World, id: &str, pid: u32, kind: HookKind) -> HookEvent {
    HookEvent { provenance: Provenance::Claimed, ..world.event(id, pid, kind, 0.0) }
}

fn send_as(world: &mut World, provenance: Provenance, (id, pid): (&str, u32), kind: HookKind) {
    let event = world.event(id, pid, kind, 0.0);
    world.send(HookEvent { provenance, ..event });
    world.seconds += 0.001;
}

// H-24, H-44: a corroborated event shows that its process lives and holds the session, and not whether it is interactive
// (seed 57 with forgers). What is not known yet it may say; a verified one corrects it.
#[test]
fn only_a_verified_event_changes_whether_a_client_is_interactive() {
    let send = |world: &mut World, provenance, kind| {
        let mut event = world.event("s1", 100, START, 0.0);
        event.harness.as_mut().unwrap().kind = Some(kind);
        world.send(HookEvent { provenance, ..event });
        world.seconds += 0.001;
    };
    for provenance in [in_registry(true), in_registry(false)] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Headless);
        send(&mut world, provenance.clone(), Kind::Interactive);
        assert_eq!(world.session("s1").kind, Some(Kind::Headless), "{provenance:?}");
        let mut world = World::new();
        send(&mut world, provenance, Kind::Interactive);
        assert_eq!(world.session("s1").kind, Some(Kind::Interactive));
        send(&mut world, Provenance::Verified, Kind::Headless);
        assert_eq!(world.session("s1").kind, Some(Kind::Headless));
    }
}

// H-44: a claim moves the turn of a session whose owner is known, and nothing else.
#[test]
fn a_claim_changes_neither_place_nor_mode_nor_owner() {
    let mut world = World::new();
    world.open_in("s1", 100, Kind::Interactive, Some(pane(7)));
    let mut prompt = world.event("s1", 100, PROMPT, 0.0);
    prompt.permission_mode = Some("plan".into());
    world.send(prompt);
    let before = world.session("s1").clone();
    for pid in [100, STRANGER] {
        for (id, kind) in [("s1", STOP), ("s1", RESUME), ("s1", TOOL), ("s1", START), ("s9", TOOL)]
        {
            let mut event = claim(&mut world, id, pid, kind);
            event.permission_mode = Some("bypassPermissions".into());
            event.config_dir = "/tmp/planted".into();
            event.transcript_path = "/tmp/planted.jsonl".into();
            event.cwd = "/tmp".into();
            event.tmux = Some(pane(8));
            event.harness.as_mut().unwrap().kind = Some(Kind::Headless);
            world.send(event);
            world.seconds += 0.001;
        }
    }
    let after = world.session("s1");
    let id = |one: &coord_core::Session| one.owner.as_ref().unwrap().id.clone();
    assert_eq!(id(after), id(&before));
    assert_eq!(after.session_id, before.session_id);
    assert_eq!(after.config_dir, before.config_dir);
    assert_eq!(after.transcript_path, before.transcript_path);
    assert_eq!(after.cwd, before.cwd);
    assert_eq!((&after.tmux, after.kind), (&before.tmux, before.kind));
    assert_eq!(after.permission_mode.as_deref(), Some("plan"));
    // What was heard makes it uncertain in which mode it runs.
    assert!(!after.owner.as_ref().unwrap().has_named_mode);
    assert!(!after.two_owners && after.former_owners.is_empty());
}

// H-44: without a living client a claim opens a record that nobody owns, and nothing acts on it.
#[test]
fn a_claim_without_a_client_opens_a_record_without_an_owner() {
    let mut world = World::new();
    for kind in [START, PROMPT, TOOL, STOP] {
        send_as(&mut world, Provenance::Claimed, ("s1", STRANGER), kind);
        assert!(world.session("s1").owner.is_none());
        assert_eq!(world.state_of("s1"), SessionState::Unknown);
    }
    world.die(STRANGER, present("s1"));
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
    assert_eq!(world.actions(), []);
    // Its first verified event makes it known.
    world.open("s1", 100, Kind::Interactive);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// H-44: an event that names no process opens a record that shows nothing of what it says, and leaves the
// client that does hold the session all its own.
#[test]
fn a_claim_without_a_process_shows_nothing() {
    let mut world = World::new();
    for kind in [START, PROMPT, TOOL, STOP, EXIT] {
        let event = HookEvent { harness: None, ..claim(&mut world, "s1", STRANGER, kind) };
        world.send(event);
        world.seconds += 0.001;
        assert!(world.session("s1").owner.is_none());
        assert_eq!(world.state_of("s1"), SessionState::Unknown);
        assert!(world.session("s1").shown.because.contains("only unverified events"));
    }
    // What a living client spooled is not taken for more of the same.
    send_as(&mut world, CLIENT, ("s1", 100), PROMPT);
    world.seen_alive(100);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    assert_eq!(world.actions(), []);
}

// H-44: what was spooled while nobody listened, of a client that lives.
#[test]
fn a_spooled_start_of_a_living_client_comes_up() {
    let mut world = World::new();
    send_as(&mut world, CLIENT, ("s1", 100), START);
    world.seen_alive(100);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    let owner = world.session("s1").owner.as_ref().unwrap();
    assert_eq!((owner.proof, owner.has_reported), (OwnerProof::Claimed, false));
    world.hook("s1", 100, PROMPT);
    let owner = world.session("s1").owner.as_ref().unwrap();
    assert_eq!((owner.proof, owner.has_reported), (OwnerProof::Proved, true));
    assert_eq!(world.session("s1").transcript_path, "/t/s1.jsonl");
}

// H-44: what the claim got wrong is gone with the first verified event.
#[test]
fn a_claim_of_another_session_leaves_no_trace() {
    let mut world = World::new();
    send_as(&mut world, CLIENT, ("s9", 100), START);
    world.seen_alive(100);
    world.hook("s1", 100, START);
    assert_eq!(world.session("s1").previous_ids, Vec::<String>::new());
    assert_eq!(world.state.sessions_with_id("s9").count(), 0);
}

// H-44: died while nobody listened, and its registry entry was left behind.
#[test]
fn a_spooled_session_that_left_its_entry_behind_is_judged() {
    let mut world = World::new();
    send_as(&mut world, in_registry(false), ("s1", 100), START);
    send_as(&mut world, in_registry(false), ("s1", 100), PROMPT);
    world.seen_dead(100);
    world.registry(100, present("s1"), true);
    assert_eq!(world.state_of("s1"), SessionState::Crashed);
}

// H-46: neither a stranger nor an unproved client takes a conversation over that its user ended.
#[test]
fn an_ended_conversation_is_taken_over_by_no_claim() {
    for provenance in [Provenance::Claimed, CLIENT] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        world.hook("s1", 100, EXIT);
        world.exit(100);
        let key = world.session("s1").key;
        send_as(&mut world, provenance.clone(), ("s1", STRANGER), RESUME);
        send_as(&mut world, provenance, ("s1", STRANGER), PROMPT);
        let session = world.state.session(key).unwrap();
        assert_eq!(session.shown.state, SessionState::Stopped);
        assert_eq!(session.owner.as_ref().unwrap().id.process, process(100));
    }
}

// H-44: a living process that an event names makes no session doubtful.
#[test]
fn a_claim_makes_no_two_owners() {
    for provenance in [Provenance::Claimed, CLIENT] {
        let mut world = World::new();
        world.open("s1", 100, Kind::Interactive);
        send_as(&mut world, provenance, ("s1", STRANGER), START);
        assert!(!world.session("s1").two_owners);
        assert_eq!(world.state_of("s1"), SessionState::Idle);
    }
    // The registry confirms it: then there are two.
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    send_as(&mut world, in_registry(true), ("s1", STRANGER), START);
    assert!(world.state.sessions_with_id("s1").all(|session| session.two_owners));
}

// H-44, H-11: deaths count for the breaker where something besides the claim shows the session's client.
#[test]
fn claimed_deaths_trip_no_breaker() {
    for (provenance, trips) in
        [(Provenance::Claimed, false), (CLIENT, false), (in_registry(true), true)]
    {
        let mut world = World::new();
        for (n, id) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            send_as(&mut world, provenance.clone(), (id, STRANGER + n), START);
            send_as(&mut world, provenance.clone(), (id, STRANGER + n), PROMPT);
            world.seen_alive(STRANGER + n);
            world.die(STRANGER + n, present(id));
        }
        assert_eq!(world.state.header().machine.breaker.is_some(), trips, "{provenance:?}");
    }
}

// H-44, H-10: ends that are only claimed make no host event; those of processes that are gone do.
#[test]
fn claimed_ends_are_no_host_event() {
    let mut world = World::new();
    for (pid, id) in [(100, "a"), (200, "b"), (300, "c")] {
        world.open(id, pid, Kind::Interactive);
    }
    for (pid, id) in [(100, "a"), (200, "b"), (300, "c")] {
        send_as(&mut world, Provenance::Claimed, (id, pid), END);
        assert_eq!(world.state_of(id), SessionState::Stopped);
    }
    [100, 200, 300].into_iter().for_each(|pid| world.exit(pid));
    assert!(["a", "b", "c"].into_iter().all(|id| world.state_of(id) == SessionState::Interrupted));
}

// H-44: claims use up no configuration directories, and one process has one.
#[test]
fn claims_take_no_configuration_directory() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    for n in 0..70 {
        for (id, pid, provenance) in [
            ("s1", 100, Provenance::Claimed),
            ("s1", 100, Provenance::Verified),
            ("s2", STRANGER, Provenance::Claimed),
        ] {
            let mut event = world.event(id, pid, TOOL, 0.0);
            event.config_dir = format!("/tmp/{n}");
            world.send(HookEvent { provenance, ..event });
            world.seconds += 0.001;
        }
    }
    assert_eq!(world.session("s1").config_dir, "/home/dev/.claude");
    let is_other = |effect: &coord_model::Effect| {
        let is_lock = matches!(effect, coord_model::Effect::LockConfigDir { .. });
        is_lock && !format!("{effect:?}").contains("\"/home/dev/.claude\"")
    };
    assert!(!world.effects.iter().any(is_other));
}

// H-44, H-05: a claim names no directory; the client's own registry entry does, or its death could not be judged.
#[test]
fn the_registry_entry_tells_the_configuration_directory_of_a_claimed_session() {
    let mut world = World::new();
    send_as(&mut world, CLIENT, ("s1", 100), START);
    assert_eq!(world.session("s1").config_dir, "");
    world.registry(100, present("s1"), false);
    assert_eq!(world.session("s1").config_dir, "/home/dev/.claude");
}

// H-45: the directory of the process's own environment wins over what its hooks say.
#[test]
fn the_configuration_directory_is_that_of_the_process() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let config_dir = Some("/home/dev/work".to_owned());
    world.launched(100, coord_model::Launch { config_dir, ..launch() });
    assert_eq!(world.session("s1").config_dir, "/home/dev/work");
    world.hook("s1", 100, PROMPT);
    assert_eq!(world.session("s1").config_dir, "/home/dev/work");
}

// H-25: an end that nobody verified is believed as an end, and taken back by no claim.
#[test]
fn a_claim_revives_nothing() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, EXIT);
    send_as(&mut world, Provenance::Claimed, ("s1", 100), TOOL);
    assert_eq!(world.state_of("s1"), SessionState::Stopped);
    world.die(100, present("s1"));
    assert!(matches!(*world.session("s1").presence, Presence::Ended { .. }));
}

/// In whose name process `pid` sends.
fn name_of(world: &World, pid: u32) -> Option<&str> {
    world.state.session_in_whose_name(process(pid)).map(|session| session.session_id.as_str())
}

// H-47: a takeover renames nobody until the client's registry confirms it.
#[test]
fn a_takeover_gives_no_name_while_it_is_unproved() {
    let mut world = at_rest();
    let with_another = |world: &mut World| {
        world.open("a", 200, Kind::Interactive);
        world.open("parent", 300, Kind::Interactive);
        assert_eq!(name_of(world, 200), Some("a"));
    };
    with_another(&mut world);
    // Its session lives elsewhere: two owners, and no name for either.
    world.hook("parent", 200, RESUME);
    assert_eq!((name_of(&world, 200), name_of(&world, 300)), (None, None));

    let mut world = at_rest();
    with_another(&mut world);
    world.hook("parent", 300, EXIT);
    world.exit(300);
    world.hook("parent", 200, RESUME);
    assert_eq!(name_of(&world, 200), None);
    world.registry(200, present("a"), false);
    assert_eq!(name_of(&world, 200), None);
    world.registry(200, present("parent"), false);
    assert_eq!(name_of(&world, 200), Some("parent"));
    assert_eq!(name_of(&world, PID), Some("s1"));
    assert_eq!(name_of(&world, STRANGER), None);
    assert_eq!(world.state.depth_of(&Sender::Operator), 0);
}

// H-44, S0-25b: that a resume came up is told by its own client's start, and by nobody else's word of one.
#[test]
fn a_claim_verifies_no_resume() {
    const NEXT: u32 = 150;
    let is_claimed = |world: &World| {
        let pending = world.pending().unwrap();
        matches!(pending.stage, coord_core::Stage::Claimed { .. })
    };
    let mut world = in_a_turn();
    world.crash(PID);
    world.resume_as(NEXT);
    world.says("s1", NEXT, coord_model::RegistryStatus::Idle);
    for kind in [RESUME, TOOL] {
        let event = HookEvent { harness: None, ..claim(&mut world, "s1", NEXT, kind) };
        world.send(event);
        world.seconds += 0.001;
        world.pass(1.0);
        assert!(is_claimed(&world), "{:?}", world.pending());
    }
    world.hook("s1", NEXT, RESUME);
    world.pass(0.1);
    assert!(!is_claimed(&world), "{:?}", world.pending());
}

// H-44, H-33: the start that a resumed client spooled, unproved when it was read, counts once the registry confirms
// that the client holds the session; a start that names another process does not.
#[test]
fn an_unproved_start_of_a_resumed_client_counts_once_its_registry_confirms_it() {
    const NEXT: u32 = 150;
    for (kind, pid, comes_up) in
        [(RESUME, NEXT, true), (RESUME, STRANGER, false), (STOP, NEXT, false)]
    {
        for is_registry_first in [false, true] {
            let mut world = in_a_turn();
            world.crash(PID);
            world.resume_as(NEXT);
            if is_registry_first {
                world.says("s1", NEXT, coord_model::RegistryStatus::Idle);
            }
            let event = claim(&mut world, "s1", pid, kind.clone());
            world.send(event);
            if !is_registry_first {
                world.says("s1", NEXT, coord_model::RegistryStatus::Idle);
            }
            world.pass(1.0);
            let stage = &world.pending().unwrap().stage;
            let is_up = matches!(stage, coord_core::Stage::Started { .. });
            assert_eq!(is_up, comes_up, "{kind:?} of {pid}: {stage:?}");
        }
    }
}

// H-44: nobody's word takes the client that a recovery started to another conversation.
#[test]
fn a_claim_takes_no_resumed_client_elsewhere() {
    const NEXT: u32 = 150;
    let mut world = in_a_turn();
    world.crash(PID);
    world.resume_as(NEXT);
    for (id, kind) in [("s9", START), ("s9", TOOL), ("s1", TOOL)] {
        send_as(&mut world, CLIENT, (id, NEXT), kind);
        world.pass(1.0);
    }
    assert_eq!(world.state.sessions().len(), 1);
    world.hook("s1", NEXT, RESUME);
    world.pass(0.1);
    let stage = &world.pending().unwrap().stage;
    assert!(matches!(stage, coord_core::Stage::Started { .. }), "{stage:?}");
}

// H-44: an unverified end of a turn does not lift what waits for a person, and gives no new budget.
#[test]
fn a_claim_permits_no_act() {
    let mut world = in_a_turn();
    send_as(&mut world, Provenance::Claimed, ("s1", PID), STOP);
    send_as(&mut world, Provenance::Claimed, ("s1", PID), PROMPT);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    assert_eq!(world.actions(), []);
}

/// The registry entry of a process whose program is not recognized as a client.
fn unrecognized(id: &str) -> Registry {
    let Registry::Present(entry) = present(id) else { panic!("an entry") };
    Registry::Present(RegistryEntry { is_unrecognized: true, ..entry })
}

// H-46: a program that wrote a registry entry of itself leaves the conversation to a client, however that comes
// to it: it had gone over to it unnoticed, or begins there.
#[test]
fn a_program_that_is_no_client_makes_way_for_one() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.registry(STRANGER, unrecognized("s2"), false);
    assert_eq!(name_of(&world, STRANGER), Some("s2"));
    world.hook("s2", 100, START);
    assert!(!world.session("s2").two_owners);
    assert_eq!(world.state.sessions_with_id("s2").count(), 1);
    assert_eq!((name_of(&world, 100), name_of(&world, STRANGER)), (None, None));
    world.registry(100, present("s2"), false);
    assert_eq!(name_of(&world, 100), Some("s2"));

    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, EXIT);
    world.exit(100);
    world.registry(STRANGER, unrecognized("s1"), false);
    world.hook("s1", 200, RESUME);
    let owner = world.session("s1").owner.as_ref().unwrap().id.process;
    assert_eq!((owner, world.state.sessions().len()), (process(200), 1));
    assert_eq!(name_of(&world, STRANGER), None);
}

// H-46: a client under another name has its registry entry, and then its hooks.
#[test]
fn an_unrecognized_client_keeps_its_session_once_its_hooks_are_verified() {
    let mut world = World::new();
    world.registry(100, unrecognized("s1"), false);
    world.hook("s1", 100, PROMPT);
    world.registry(100, unrecognized("s1"), false);
    assert_eq!(world.session("s1").owner.as_ref().unwrap().proof, OwnerProof::Proved);
    world.open("s2", 200, Kind::Interactive);
    world.hook("s1", 200, START);
    assert!(world.state.sessions_with_id("s1").all(|session| session.two_owners));
}

// H-44: a claim that is newer keeps out nothing that a verified event says.
#[test]
fn a_late_verified_event_is_believed_behind_a_claim() {
    let mut world = World::new();
    let start = world.event("s1", 100, START, 0.0);
    world.pass(5.0);
    let mut forged = world.event("s1", 100, TOOL, 0.0);
    forged.provenance = CLIENT;
    forged.cwd = "/tmp/planted".into();
    world.send(forged);
    world.seen_alive(100);
    assert_eq!(world.session("s1").cwd, "/tmp/planted");
    let cwd = start.cwd.clone();
    world.send(start);
    assert_eq!(world.session("s1").cwd, cwd);
    assert_eq!(world.session("s1").transcript_path, "/t/s1.jsonl");
}

// G6, H-44: of the client that a recovery started, a claim counts only as its user's end, and only from this machine.
#[test]
fn only_a_users_end_on_this_machine_is_believed_of_a_resumed_client() {
    const NEXT: u32 = 150;
    let resumed = || {
        let mut world = in_a_turn();
        world.crash(PID);
        world.resume_as(NEXT);
        world
    };
    let has_ended = |world: &World| matches!(*world.session("s1").presence, Presence::Ended { .. });
    let mut world = resumed();
    let turn = world.session("s1").turn;
    for kind in [PROMPT, STOP] {
        let event = claim(&mut world, "s1", NEXT, kind);
        world.send(event);
        assert_eq!(world.session("s1").turn, turn);
    }
    let elsewhere = HookEvent { machine: "another".into(), ..claim(&mut world, "s1", NEXT, EXIT) };
    world.send(elsewhere);
    assert!(!has_ended(&world));

    let mut world = resumed();
    let event = claim(&mut world, "s1", NEXT, EXIT);
    world.send(event);
    assert!(has_ended(&world));
    // Whatever newer records the conversation has.
    for provenance in [Provenance::Claimed, in_registry(true)] {
        let mut world = resumed();
        let key = world.key();
        let session = world.session("s1").clone();
        let mut other = serde_json::to_value(&session).unwrap();
        other["key"] = json!(SessionKey(99));
        other["presence"] = json!(Presence::Gone { at: session.edge_at });
        other["recovery"] = json!({});
        other["owner"]["id"]["process"] = json!(process(50));
        let sessions = vec![session, serde_json::from_value(other).unwrap()];
        let (header, seen) = (world.state.header().clone(), world.state.seen().clone());
        world.state = State::from_parts(header, sessions, Vec::new(), seen);
        let event = claim(&mut world, "s1", NEXT, EXIT);
        world.send(HookEvent { provenance, ..event });
        let session = world.state.session(key).unwrap();
        assert!(matches!(*session.presence, Presence::Ended { .. }), "{:?}", session.presence);
    }
}

fn dir_of(world: &World) -> &str {
    &world.session("s1").config_dir
}

// H-45: the first verified event of a process tells its directory, and a later one only where none is known.
#[test]
fn the_first_verified_event_tells_the_configuration_directory() {
    let told = |world: &mut World, pid, provenance: Provenance, dir: &str| {
        let event = world.event("s1", pid, STOP, 0.0);
        world.send(HookEvent { provenance, config_dir: dir.into(), ..event });
        world.seconds += 0.001;
    };
    let mut world = World::new();
    told(&mut world, 100, Provenance::Verified, "");
    told(&mut world, 100, in_registry(true), "/claimed");
    assert_eq!(dir_of(&world), "", "what is only claimed is not taken");
    told(&mut world, 100, Provenance::Verified, "/a");
    assert_eq!(dir_of(&world), "/a");
    told(&mut world, 100, Provenance::Verified, "/b");
    assert_eq!(dir_of(&world), "/a", "a process has one for life");
    // The next process has its own; one that does not say which has told nothing.
    world.die(100, present("s1"));
    told(&mut world, 200, Provenance::Verified, "");
    assert_eq!(dir_of(&world), "/a");
    world.die(200, present("s1"));
    told(&mut world, 300, Provenance::Verified, "/c");
    assert_eq!(dir_of(&world), "/c");
    // Before that, the registry in which its entry stands.
    world.die(300, present("s1"));
    told(&mut world, 400, in_registry(true), "/claimed");
    assert_eq!(dir_of(&world), "/home/dev/.claude");
}
