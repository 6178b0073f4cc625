//! Why a session needs a person: when each need begins, and what ends it (U-01). That none begins or ends twice is
//! held by `World::take` in every test.

use coord_model::{
    Command, HookKind, Kind, NeedKind, NeedStep, RegistryStatus, SessionState, ToolPhase,
};

use crate::crashes::{NEXT, PID, at_rest, dead, in_a_turn, unattended};
use crate::world::{PROMPT, RESUME, STOP, World};

/// The open needs of a session, the oldest first.
fn kinds(world: &World, id: &str) -> Vec<NeedKind> {
    world.session(id).open_needs().map(|need| need.kind).collect()
}

/// What ended the last need.
#[track_caller]
fn ended_by(world: &World) -> &str {
    let (change, how) = world.needs.changes.last().expect("needs changed");
    assert_eq!(change.step, NeedStep::Ended, "{how}");
    how
}

fn asks(world: &mut World, tool: &str) {
    let mut event = world.event("s1", PID, HookKind::PermissionRequest, 0.0);
    (event.tool, event.digest) = (Some(tool.into()), Some(7));
    world.send(event);
    world.seconds += 0.001;
}

fn ran(world: &mut World, tool: &str) {
    let mut event = world.event("s1", PID, HookKind::Tool(ToolPhase::After), 0.0);
    (event.tool, event.digest) = (Some(tool.into()), Some(7));
    world.send(event);
    world.seconds += 0.001;
}

#[test]
fn u_01_a_prompt_is_one_need_until_its_result() {
    for (tool, kind, reason, how) in [
        ("Bash", NeedKind::Permission, "asks to run Bash", "allowed: the tool ran"),
        ("AskUserQuestion", NeedKind::Question, "asks a question", "answered"),
        ("ExitPlanMode", NeedKind::Plan, "has a plan to approve", "approved"),
    ] {
        let mut world = in_a_turn();
        asks(&mut world, tool);
        world.says("s1", PID, RegistryStatus::WaitingPermission);
        world.pass(700.0);
        assert_eq!(kinds(&world, "s1"), [kind]);
        assert_eq!(world.session("s1").needs[0].reason, reason);
        world.says("s1", PID, RegistryStatus::Busy);
        ran(&mut world, tool);
        assert_eq!(kinds(&world, "s1"), []);
        assert_eq!(world.needs.changes.len(), 2, "one began, one ended: {:?}", world.needs.changes);
        let is_hook = ended_by(&world) == how;
        assert!(is_hook || ended_by(&world).contains("registry"), "{:?}", world.needs.changes);
    }
}

#[test]
fn u_01_two_identical_requests_are_two_needs() {
    let mut world = World::new();
    world.open("s1", PID, Kind::Interactive);
    world.hook("s1", PID, PROMPT);
    asks(&mut world, "Bash");
    asks(&mut world, "Bash");
    assert_eq!(kinds(&world, "s1"), [NeedKind::Permission; 2]);
    let ids: Vec<_> = world.session("s1").needs.iter().map(|need| need.id).collect();
    ran(&mut world, "Bash");
    assert_eq!(world.session("s1").needs.iter().map(|need| need.id).collect::<Vec<_>>(), ids[1..]);
    assert_eq!(ended_by(&world), "allowed: the tool ran");
    ran(&mut world, "Bash");
    assert_eq!(kinds(&world, "s1"), []);
}

#[test]
fn u_01_a_request_that_is_reported_late_is_the_need_that_is_open() {
    let mut world = in_a_turn();
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    world.pass(20.0);
    assert_eq!(kinds(&world, "s1"), [NeedKind::Permission]);
    let id = world.session("s1").needs[0].id;
    asks(&mut world, "Bash");
    assert_eq!(world.session("s1").needs.len(), 1);
    assert_eq!(world.session("s1").needs[0].id, id);
    assert_eq!(world.session("s1").needs[0].reason, "asks to run Bash");
}

#[test]
fn u_01_a_notification_and_its_late_request_are_one_need() {
    let mut world = World::new();
    world.open("s1", PID, Kind::Interactive);
    world.hook("s1", PID, PROMPT);
    world.pass(10.0);
    world.hook("s1", PID, HookKind::Notification("permission_prompt".into()));
    assert_eq!(kinds(&world, "s1"), [NeedKind::Permission]);
    asks(&mut world, "Bash");
    assert_eq!(kinds(&world, "s1"), [NeedKind::Permission]);
    ran(&mut world, "Bash");
    assert_eq!(kinds(&world, "s1"), []);
}

#[test]
fn u_01_a_block_is_a_need_until_the_next_turn() {
    for (error, kind) in [
        ("authentication_failed", NeedKind::Login),
        ("billing_error", NeedKind::Billing),
        ("rate_limit", NeedKind::UsageLimit),
    ] {
        let mut world = at_rest();
        world.hook("s1", PID, PROMPT);
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(1.0);
        world.hook("s1", PID, HookKind::StopFailure(error.into()));
        world.says("s1", PID, RegistryStatus::Idle);
        assert_eq!(kinds(&world, "s1"), [kind], "{error}");
        world.hook("s1", PID, PROMPT);
        world.says("s1", PID, RegistryStatus::Busy);
        assert_eq!(kinds(&world, "s1"), [], "{error}");
    }
}

// S1-22: where coord finds out by itself whether the limit has ended, nobody is needed.
#[test]
fn u_01_a_limit_that_coord_probes_is_no_need() {
    let mut world = unattended();
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(1.0);
    world.hook("s1", PID, HookKind::StopFailure("rate_limit".into()));
    world.says("s1", PID, RegistryStatus::Idle);
    assert_eq!(world.state_of("s1"), SessionState::QuotaWait);
    assert_eq!(kinds(&world, "s1"), []);
}

#[test]
fn u_01_a_crash_is_a_need_until_the_session_is_back() {
    let mut world = at_rest();
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    world.pass(5.0);
    assert_eq!(kinds(&world, "s1"), [NeedKind::Permission]);
    world.crash(PID);
    assert_eq!(kinds(&world, "s1"), [], "what is on its screen has to be looked at first");
    let proof = dead(&world);
    world.prove(proof);
    assert_eq!(world.state_of("s1"), SessionState::Crashed);
    assert_eq!(kinds(&world, "s1"), [NeedKind::Crashed]);
    assert!(world.needs.changes.iter().any(|(_, how)| how == "the client ended"));
    world.hook("s1", NEXT, RESUME);
    assert_eq!(kinds(&world, "s1"), []);
    assert_eq!(ended_by(&world), "the session started again");
}

#[test]
fn u_01_nobody_is_needed_while_a_session_is_brought_back() {
    let mut world = unattended();
    world.crash(PID);
    assert_eq!(world.state_of("s1"), SessionState::RecoveryPending);
    assert_eq!(kinds(&world, "s1"), []);
}

#[test]
fn u_01_a_dismissed_need_is_hidden_until_it_ends() {
    let mut world = in_a_turn();
    asks(&mut world, "Bash");
    asks(&mut world, "Edit");
    let first = world.session("s1").needs[0].id;
    let session = world.key();
    world.command(Command::Dismiss { session, need: first });
    assert_eq!(world.session("s1").open_needs().count(), 1, "it silences nothing else");
    world.pass(700.0);
    ran(&mut world, "Bash");
    asks(&mut world, "Bash");
    assert_eq!(world.session("s1").open_needs().count(), 2, "another request is another need");
}

#[test]
fn u_01_a_reboot_leaves_one_need_of_each_interrupted_session() {
    let mut world = at_rest();
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    world.pass(5.0);
    world.reboot();
    assert_eq!(world.state_of("s1"), SessionState::Interrupted);
    assert_eq!(kinds(&world, "s1"), [NeedKind::Interrupted]);
}

#[test]
fn u_01_the_end_of_a_turn_ends_its_prompts() {
    let mut world = World::new();
    world.open("s1", PID, Kind::Interactive);
    world.hook("s1", PID, PROMPT);
    asks(&mut world, "Bash");
    world.hook("s1", PID, STOP);
    assert_eq!(kinds(&world, "s1"), []);
    assert_eq!(ended_by(&world), "the turn ended");
}

// H-05: what a living session needs is not over because a source went silent.
#[test]
fn u_01_a_need_lasts_while_the_state_is_unknown() {
    let mut world = World::new();
    world.open("s1", PID, Kind::Interactive);
    world.hook("s1", PID, PROMPT);
    asks(&mut world, "Bash");
    world.pass(86_400.0);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
    assert_eq!(kinds(&world, "s1"), [NeedKind::Permission]);
}
