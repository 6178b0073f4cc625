//! Who waits for a person, a person is reminded of (H-35, R-11, S1-14, S1-22).

use crate::crashes::{PID, at_rest, dead, in_a_turn, unattended};
use crate::world::{PROMPT, STOP, World, blank, its};

use coord_model::{
    Action, Command, HookKind, PaneSeen, Proof, RegistryStatus, Screen, SessionState,
};

/// The lines put on terminals since the last look.
fn lines(world: &mut World) -> Vec<String> {
    let actions = world.actions().into_iter();
    actions
        .filter_map(
            |action| if let Action::Notify { text, .. } = action { Some(text) } else { None },
        )
        .collect()
}

/// What it says on the terminal in these minutes: after 10, then every 30.
#[track_caller]
fn reminds(world: &mut World, what: &str) {
    let _ = lines(world);
    world.pass(602.0);
    let said = lines(world);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains(what), "{said:?}");
    world.pass(1_790.0);
    assert_eq!(lines(world), [""; 0]);
    world.pass(20.0);
    assert_eq!(lines(world).len(), 1);
}

fn fails(world: &mut World, error: &str) {
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(1.0);
    world.hook("s1", PID, HookKind::StopFailure(error.into()));
    world.says("s1", PID, RegistryStatus::Idle);
}

// R-11, H-35: attended or not; nothing else is done about it.
#[test]
fn who_is_locked_out_or_has_not_paid_is_reminded() {
    for (error, word, what) in [
        (
            "authentication_failed",
            SessionState::BlockedAuth,
            "project must log in: /login (10 min)",
        ),
        (
            "billing_error",
            SessionState::BlockedBilling,
            "project stopped: account needs payment (10 min)",
        ),
    ] {
        for mut world in [unattended(), at_rest()] {
            fails(&mut world, error);
            assert_eq!(world.state_of("s1"), word);
            assert_eq!(world.session("s1").quota, None, "{error} is no wait for quota");
            reminds(&mut world, what);
            world.hook("s1", PID, PROMPT);
            world.says("s1", PID, RegistryStatus::Busy);
            world.hook("s1", PID, STOP);
            world.says("s1", PID, RegistryStatus::Idle);
            world.pass(7_200.0);
            assert_eq!(lines(&mut world), [""; 0], "it is over");
        }
    }
}

// S1-14, H-35
#[test]
fn a_turn_that_stands_still_is_told_of() {
    let mut world = in_a_turn();
    world.attend(true);
    let still = || its(PaneSeen { screen: Some(Screen::Working), digest: Some(1), ..blank() });
    world.seen_on_pane(PID, still(), false);
    world.pass(660.0);
    world.seen_on_pane(PID, still(), false);
    assert_eq!(world.state_of("s1"), SessionState::Stalled);
    reminds(&mut world, "project shows no change (10 min)");
}

// U-01: a usage limit and a crash stand in the list, and no line is put on a pane for them again and again.
#[test]
fn a_usage_limit_and_a_crash_are_not_reminded_of() {
    let mut limited = at_rest();
    fails(&mut limited, "rate_limit");
    let mut crashed = at_rest();
    crashed.crash(PID);
    let proof = dead(&crashed);
    crashed.prove(proof);
    for mut world in [limited, crashed] {
        assert_eq!(world.session("s1").open_needs().count(), 1);
        let _ = lines(&mut world);
        world.pass(7_200.0);
        assert_eq!(lines(&mut world), [""; 0]);
    }
}

// S1-22, H-35: a wait that no probe ended.
#[test]
fn who_needs_its_operator_is_told_of() {
    let mut world = unattended();
    for _ in 0..6 {
        fails(&mut world, "rate_limit");
        world.pass(3.0 * 3_600.0);
    }
    assert!(world.session("s1").recovery.needs_operator.is_some());
    let said = lines(&mut world);
    assert!(
        said.iter().any(|line| line.contains("project needs you: the usage limit does not reset")),
        "{said:?}"
    );
    world.command(Command::ResetFailed { session: None });
    let _ = lines(&mut world);
    fails(&mut world, "rate_limit");
    world.pass(1_800.0);
    assert_eq!(lines(&mut world), [""; 0]);
}

// H-35: what a recovery waits for stays the same however it is worded: its age is that of the wait.
#[test]
fn a_wait_whose_words_change_is_told_of() {
    let mut world = in_a_turn();
    world.crash(PID);
    let began = world.seconds;
    while world.seconds < began + 1_840.0 {
        let want = Some(format!("{} MB of memory are free", world.seconds));
        let proof = Proof { want, ..dead(&world) };
        assert_eq!(world.prove(proof), []);
        world.pass(20.0);
    }
    let told: Vec<&str> = world
        .decisions
        .iter()
        .filter(|one| one.rule == "H-35")
        .map(|one| one.did.as_str())
        .collect();
    assert_eq!(told, ["notice shown once"]);
}
