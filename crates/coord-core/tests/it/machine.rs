//! What the whole machine allows (H-11).

use crate::crashes::{NEXT, PID, at_rest, dead, in_a_turn, intent_of, is_act, launch};
use crate::world::{PROMPT, World, blank, its, pane, present, start_of};
use coord_core::Stage;
use coord_model::{
    Action, Command, Event, Intent, Kind, MarkChange, Outcome, PaneSeen, RegistryStatus,
    SessionKey, Settings, Whom,
};

// H-11: the machine counts an attempt by the step that it takes, however long ago its first one was refused.
#[test]
fn an_attempt_that_waited_between_steps_counts_from_the_latest() {
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = dead(&world);
    let (intent, _) = world.act(proof);
    let first = world.state.header().machine.starts.clone();
    world.acted(intent, Outcome::Changed { what: "the pane changed".into() });
    world.pass(70.0);
    let proof = dead(&world);
    let _again = world.act(proof);
    let starts = &world.state.header().machine.starts;
    assert_eq!((first.len(), starts.len()), (1, 1));
    assert_eq!(starts[0].ms_since(first[0]), 70_000);
}

/// The client of the session `s1`, `s2` and so on.
fn pid(id: &str) -> u32 {
    PID + u32::from(id.as_bytes()[1] - b'1')
}

fn key(world: &World, id: &str) -> SessionKey {
    world.session(id).key
}

/// Unattended sessions in open turns, each with the tmux server that its pane is on.
fn crowd(sessions: &[(&str, u32)], settings: Settings) -> World {
    let mut world = World::new();
    for (id, server) in sessions {
        let pid = pid(id);
        world.open_in(id, pid, Kind::Interactive, Some(pane(*server)));
        world.launched(pid, launch());
        world.says(id, pid, RegistryStatus::Idle);
        world.seen_on_pane(pid, its(PaneSeen { pane: pane(*server), ..blank() }), false);
        let marks = MarkChange { unattended: Some(true), ..MarkChange::default() };
        let whom = Whom::Session(key(&world, id));
        world.command(Command::Attend { whom, marks });
    }
    let host = world.state.header().host.clone().expect("it runs somewhere");
    world.take(&start_of(host, settings));
    let config_dir = "/home/dev/.claude".into();
    world.take(&Event::ConfigDirLock { config_dir, held: true });
    world.pass(40.0);
    for (id, _) in sessions {
        let pid = pid(id);
        world.seen_alive(pid);
        world.hook(id, pid, PROMPT);
        world.says(id, pid, RegistryStatus::Busy);
    }
    world.pass(3.0);
    world
}

/// A machine on which nothing is held back by the number of crashes.
fn roomy() -> Settings {
    Settings { breaker_deaths: 99, ..Settings::default() }
}

fn crash(world: &mut World, id: &str) {
    world.die(pid(id), present(id));
}

/// What it waits for; none where it is looked at, or something is done to it.
fn waits(world: &World, id: &str) -> Option<String> {
    let pending = world.session(id).recovery.pending.as_ref().expect("a recovery is owed");
    matches!(pending.stage, Stage::Waiting { .. }).then(|| pending.waits_for.clone())
}

/// A look at it finds it dead, in a pane at its shell's prompt. What is done to it then.
#[track_caller]
fn look(world: &mut World, id: &str) -> Vec<Action> {
    let pending = world.session(id).recovery.pending.as_ref().expect("a recovery is owed");
    let Stage::Proving { number, .. } = pending.stage else {
        panic!("no look at {id} was asked for: {pending:?}")
    };
    let intent = Intent { session: key(world, id), number };
    let proof = Box::new(dead(world));
    world.actions();
    world.take(&Event::Proved { session_id: String::new(), intent, proof });
    let is_its = |action: &Action| is_act(action) && intent_of(action).session == intent.session;
    world.actions().into_iter().filter(is_its).collect()
}

/// Looked at, its resume is placed.
#[track_caller]
fn begin(world: &mut World, id: &str) -> Intent {
    let acts = look(world, id);
    let [action] = acts.as_slice() else { panic!("{id}: {acts:?}, {:?}", waits(world, id)) };
    intent_of(action)
}

const OTHERS: Option<&str> = Some("other recoveries are in progress");
const TOO_MANY: Option<&str> = Some("too many recoveries in a short time");
const RESET: Command = Command::ResetFailed { session: None };

// H-11: two at once; the next one begins when one of them has come to its end, and not before.
#[test]
fn more_recoveries_than_the_machine_takes_wait_for_one_to_end() {
    let mut world = crowd(&[("s1", 7), ("s2", 7), ("s3", 7), ("s4", 7)], roomy());
    for id in ["s1", "s2", "s3"] {
        crash(&mut world, id);
    }
    let first = begin(&mut world, "s1");
    begin(&mut world, "s2");
    // One that was looked at before, and one that crashes now.
    assert_eq!(look(&mut world, "s3"), []);
    crash(&mut world, "s4");
    world.pass(20.0);
    for id in ["s3", "s4"] {
        assert_eq!(waits(&world, id).as_deref(), OTHERS, "{id}");
    }
    world.acted(first, Outcome::Observed);
    assert_eq!(world.state.header().machine.under_way, [key(&world, "s2")]);
    world.pass(1.5);
    begin(&mut world, "s3");
    let under_way = [key(&world, "s2"), key(&world, "s3")];
    assert_eq!(world.state.header().machine.under_way, under_way);
    assert_eq!(look(&mut world, "s4"), []);
    world.pass(20.0);
    assert_eq!(waits(&world, "s4").as_deref(), OTHERS);
}

/// Two recoveries have begun, ten seconds from each other, where two may in a minute.
fn crowded_window() -> World {
    let settings = Settings {
        recoveries_at_once: 9,
        recoveries_per_window: 2,
        recovery_window_ms: 60_000,
        resume_proof_ms: 600_000,
        ..roomy()
    };
    let mut world = crowd(&[("s1", 7), ("s2", 7), ("s3", 7), ("s4", 7)], settings);
    for id in ["s1", "s2"] {
        crash(&mut world, id);
        begin(&mut world, id);
        world.pass(10.0);
    }
    world
}

// H-11: so many in a window of time; each one leaves it when its own time is over.
#[test]
fn recoveries_are_spread_over_a_window_of_time() {
    let mut world = crowded_window();
    for id in ["s3", "s4"] {
        crash(&mut world, id);
        assert_eq!(waits(&world, id).as_deref(), TOO_MANY);
    }
    world.pass(39.0);
    assert!(waits(&world, "s3").is_some(), "a minute after the first one, and not before");
    world.pass(1.5);
    begin(&mut world, "s3");
    assert_eq!(look(&mut world, "s4"), [], "the second one is not over");
    world.pass(9.0);
    assert!(waits(&world, "s4").is_some());
    world.pass(1.5);
    begin(&mut world, "s4");
}

// H-11: what crashes after a person reset the limits need not wait for the window to pass.
#[test]
fn a_reset_empties_the_window() {
    let mut world = crowded_window();
    crash(&mut world, "s3");
    assert_eq!(waits(&world, "s3").as_deref(), TOO_MANY);
    world.command(RESET);
    crash(&mut world, "s4");
    begin(&mut world, "s4");
}

fn breaker(world: &World) -> Option<&str> {
    world.state.header().machine.breaker.as_ref().map(|flag| flag.reason.as_str())
}

// H-11: three crashes within a minute are one host event. Then nothing comes back by itself, whatever time passes; a
// person's order does, and a person's reset ends it for all.
#[test]
fn many_crashes_stop_everything_but_a_person() {
    let sessions = [("s1", 7), ("s2", 7), ("s3", 7), ("s4", 7)];
    let mut world = crowd(&sessions, Settings::default());
    for id in ["s1", "s2"] {
        crash(&mut world, id);
        world.pass(20.0);
        assert_eq!((breaker(&world), waits(&world, id)), (None, None), "{id}");
    }
    crash(&mut world, "s3");
    let why = Some("3 clients crashed within 60 s");
    assert_eq!(breaker(&world), why);
    for id in ["s1", "s2"] {
        assert_eq!(look(&mut world, id), [], "looked at before: {id}");
    }
    world.pass(3_600.0);
    for id in ["s1", "s2", "s3"] {
        assert_eq!(waits(&world, id).as_deref(), why, "{id}");
    }
    assert!(!world.actions().iter().any(is_act));
    let session = key(&world, "s1");
    world.command(Command::Recover { session, restart: false, when_idle: false });
    begin(&mut world, "s1");
    assert_eq!(breaker(&world), why, "one order is no reset");
    world.command(RESET);
    assert_eq!(breaker(&world), None);
    begin(&mut world, "s2");
}

// H-11: crashes before a person's reset do not count together with those behind it.
#[test]
fn a_reset_counts_crashes_anew() {
    let mut world = crowd(&[("s1", 7), ("s2", 7), ("s3", 7)], Settings::default());
    crash(&mut world, "s1");
    crash(&mut world, "s2");
    world.command(RESET);
    crash(&mut world, "s3");
    assert_eq!(breaker(&world), None);
}

/// Three attempts of `s1` failed in the same way. `s2` lives, on a tmux server of its own.
fn broken_by_failures() -> World {
    let mut world = crowd(&[("s1", 7), ("s2", 8)], patient());
    crash(&mut world, "s1");
    for _ in 0..3 {
        world.pass(1.0);
        let intent = begin(&mut world, "s1");
        world.acted(intent, Outcome::Failed { why: "no tmux".into() });
    }
    assert_eq!(breaker(&world), Some("3 recoveries in a row failed: no tmux"));
    world
}

// H-10, H-11: crashes that a host event explains do not count. What is left of them, and failures, do.
#[test]
fn a_host_event_lifts_only_what_its_own_crashes_stopped() {
    let sessions = [("s1", 7), ("s2", 8), ("s3", 8), ("s4", 8)];
    let mut world = crowd(&sessions, Settings::default());
    for (id, _) in sessions {
        crash(&mut world, id);
    }
    world.exit(7);
    assert!(world.session("s1").recovery.pending.is_none(), "its tmux server took it along");
    assert!(breaker(&world).is_some(), "three others crashed");
    world.exit(8);
    assert_eq!(breaker(&world), None);

    let mut world = broken_by_failures();
    crash(&mut world, "s2");
    world.exit(8);
    assert!(world.session("s2").recovery.pending.is_none(), "its tmux server took it along");
    assert!(breaker(&world).is_some(), "it was not for crashes");
}

/// Attempts follow each other at once, and none is the last.
fn patient() -> Settings {
    Settings {
        recoveries_per_turn: 99,
        recoveries_total: 99,
        recoveries_per_window: 99,
        cooldown_failure_ms: 1,
        cooldown_success_ms: 1,
        dies_again_within_ms: 1,
        ..roomy()
    }
}

// H-11: three failures in a row of the same kind stop all. Another one between them, one that comes back, and a
// person's reset begin the row anew.
#[test]
fn failures_in_a_row_and_alike_stop_everything() {
    for (row, is_broken) in [
        (["tmux", "tmux", "tmux"].as_slice(), true),
        (&["tmux", "tmux"], false),
        (&["tmux", "fork", "exec"], false),
        (&["tmux", "tmux", "fork", "tmux"], false),
        (&["tmux", "fork", "fork", "fork"], true),
        (&["tmux", "tmux", "verified", "tmux"], false),
        (&["tmux", "tmux", "reset", "tmux"], false),
        (&["tmux", "tmux", "reset", "tmux", "tmux", "tmux"], true),
    ] {
        let mut world = at_rest();
        world.attend(true);
        world.configure(patient());
        let mut client = PID;
        world.crash(client);
        for what in row {
            world.pass(1.0);
            match *what {
                "verified" => {
                    world.comes_back(NEXT);
                    client = NEXT;
                    world.seen_on_pane(client, its(blank()), false);
                    world.pass(1.0);
                    world.crash(client);
                }
                "reset" => world.command(RESET),
                why => {
                    let proof = dead(&world);
                    let (intent, _) = world.act(proof);
                    world.acted(intent, Outcome::Failed { why: why.into() });
                }
            }
        }
        let why = row.last().filter(|_| is_broken);
        let reason = why.map(|why| format!("3 recoveries in a row failed: {why}"));
        assert_eq!(breaker(&world), reason.as_deref(), "{row:?}");
        world.pass(3_600.0);
        let proof = world.pending().map(|pending| matches!(pending.stage, Stage::Proving { .. }));
        assert_eq!(proof, Some(!is_broken), "{row:?}: {:?}", world.pending());
    }
}

// H-11, S0-25f: what was under way when the machine was restarted is not, and keeps nothing else back.
#[test]
fn a_restart_of_the_machine_leaves_its_gate_empty() {
    let mut world = crowd(&[("s1", 7), ("s2", 7), ("s3", 7)], roomy());
    for id in ["s1", "s2"] {
        crash(&mut world, id);
        begin(&mut world, id);
    }
    world.reboot();
    let config_dir = "/home/dev/.claude".into();
    world.take(&Event::ConfigDirLock { config_dir, held: true });
    world.pass(31.0);
    world.command(Command::Restore { sessions: vec![key(&world, "s3")] });
    begin(&mut world, "s3");
}
