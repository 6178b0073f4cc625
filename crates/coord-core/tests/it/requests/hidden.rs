//! Prompts of which the client shows no dialog while a hook waits: when such a wait ends (H-38).

use coord_core::NotAnswerable;
use coord_model::{
    Command, Event, HookKind, Host, MarkChange, RegistryStatus, ReplyKind, RequestId, SessionState,
    Settings, Via, Whom,
};

use super::{CALL, HOOK, asks, begins, handed, hidden, may, reply_of, run};
use crate::crashes::{PID, in_a_turn};
use crate::world::{World, order, process, settings, start_of};

/// A prompt of which its client shows no dialog while a hook waits: of a headless run, or of a subagent.
fn hidden_prompt(of_agent: bool) -> (World, RequestId) {
    if !of_agent {
        let mut world = run(hidden(600_000));
        let request = asks(&mut world, "Bash", None);
        return (world, request);
    }
    let mut world = in_a_turn();
    world.take(&settings(hidden(600_000)));
    attend(&mut world, true);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(1.0);
    let request = asks(&mut world, "Bash", Some("agent-1"));
    (world, request)
}

fn attend(world: &mut World, asks_for_agents: bool) {
    let whom = Whom::Session(world.session("s1").key);
    let asks_for_agents = Some(asks_for_agents);
    let marks = MarkChange { asks_for_agents, unattended: Some(true), ..MarkChange::default() };
    world.take(&order(Command::Attend { whom, marks }));
}

fn hook_ended(world: &mut World, request: RequestId) {
    let session = world.session("s1").key;
    world.take(&Event::RequestHookEnded { session_id: "s1".into(), session, request });
}

// H-38: a headless run is denied when its hook has ended, and the client shows the dialog of a subagent.
#[test]
fn h_38_the_end_of_its_hook_ends_a_hidden_wait() {
    for end in [
        hook_ended as fn(&mut World, RequestId),
        // Hooks end with the coordinator.
        |world, _| {
            let host = Host::clone(world.state.header().host.as_ref().expect("it runs"));
            world.take(&start_of(host, hidden(600_000)));
        },
    ] {
        let (mut world, request) = hidden_prompt(false);
        assert_eq!(may(&world, request), Ok(()));
        end(&mut world, request);
        assert!(world.session("s1").needs.is_empty(), "nobody can decide it any more");
        assert_eq!(world.session("s1").shown.state, SessionState::Running);

        let (mut world, request) = hidden_prompt(true);
        assert_eq!(may(&world, request), Ok(()));
        end(&mut world, request);
        assert_eq!(may(&world, request), Err(NotAnswerable::Subagent), "its dialog is shown");
        world.says("s1", PID, RegistryStatus::WaitingPermission);
        assert_eq!(world.session("s1").shown.state, SessionState::AwaitingPermission);
        world.pass(1.0);
        // Refused with feedback, which no hook tells.
        world.says("s1", PID, RegistryStatus::Busy);
        assert!(world.session("s1").needs.is_empty());
    }
}

// a plan that was refused while no coordinator ran does not keep the hook of a subagent's prompt, whose dialog is
// on the screen, from ending with it (seed 1210510000421).
#[test]
fn a_01_a_refused_prompt_from_the_spool_keeps_no_other_open() {
    let mut world = in_a_turn();
    world.take(&settings(hidden(600_000)));
    attend(&mut world, true);
    world.pass(60.0);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(1.0);
    let mut plan = world.event("s1", PID, HookKind::PermissionRequest, 30.0);
    (plan.tool, plan.via) = (Some("ExitPlanMode".into()), Via::Spool);
    world.send(plan);
    world.pass(10.0);
    let request = asks(&mut world, "Bash", Some("agent-1"));
    assert_eq!(may(&world, request), Ok(()));
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    assert_eq!(world.session("s1").needs.len(), 1, "the plan needs nobody");
    world.pass(4.0);
    world.says("s1", PID, RegistryStatus::Busy);
    assert!(may(&world, request).is_err(), "its hook waits no longer");
}

// H-38: when a hook ended with its coordinator, nobody saw: all the time since the last record counts as waited (seeds
// 1210510000833 and 1210520000082).
#[test]
fn h_38_a_hidden_wait_that_ended_unseen_counts_to_the_start_of_the_next_coordinator() {
    let mut world = run(hidden(600_000));
    asks(&mut world, "Bash", None);
    let before = world.now();
    world.seconds += 70.0;
    let host = Host::clone(world.state.header().host.as_ref().expect("it runs"));
    world.take(&start_of(host, hidden(600_000)));
    let passed_ms = (world.now().mono_ns - before.mono_ns) / 1_000_000;
    let spent_ms = world.session("s1").hidden_waits.spent_ms;
    assert!((70_000..=passed_ms + 1_000).contains(&spent_ms), "{spent_ms} of {passed_ms}");
    assert_eq!(world.session("s1").hidden_waits.since, None);
}

// H-38, A-07: no hook and no transcript tells that a subagent's call was denied.
#[test]
fn h_38_a_subagents_prompt_is_over_once_its_hook_took_the_reply() {
    let (mut world, request) = hidden_prompt(true);
    handed(&mut world);
    let denies = reply_of(&world, request, ReplyKind::Deny, process(HOOK));
    world.take(&order(denies));
    assert_eq!(handed(&mut world).len(), 1);
    hook_ended(&mut world, request);
    assert!(world.session("s1").needs.is_empty());
}

// H-38: what its owner has switched off in the meantime holds up nobody.
#[test]
fn h_38_a_hidden_wait_ends_when_it_is_no_longer_allowed() {
    let (mut world, request) = hidden_prompt(true);
    attend(&mut world, false);
    assert_eq!(may(&world, request), Err(NotAnswerable::Subagent));
    for with in [
        Settings { headless_answers: false, ..hidden(600_000) },
        Settings { notice: Settings::default().notice, ..hidden(600_000) },
    ] {
        let (mut world, request) = hidden_prompt(false);
        world.take(&settings(with));
        assert_eq!(may(&world, request), Err(NotAnswerable::Headless));
    }
}

// the dialog of a subagent in the foreground is on the screen while its hook waits, and the registry tells its end.
#[test]
fn a_01_the_registry_ends_the_prompt_of_a_subagent_that_it_showed() {
    let (mut world, request) = hidden_prompt(true);
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    assert_eq!(may(&world, request), Ok(()));
    world.pass(1.0);
    world.says("s1", PID, RegistryStatus::Busy);
    assert_eq!(may(&world, request), Err(NotAnswerable::Over));

    // That of the main thread is beside one that is hidden.
    let (mut world, request) = hidden_prompt(true);
    begins(&mut world, CALL);
    asks(&mut world, "Bash", None);
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    world.pass(1.0);
    world.says("s1", PID, RegistryStatus::Busy);
    assert_eq!(may(&world, request), Ok(()));
}
