//! Which requests open a wait, and which are over before they are heard of (S0-17, S0-18, R-05, R-06).

use crate::world::{PROMPT, START, STOP, TOOL, World};

use coord_model::{HookKind, Kind, RegistryStatus, SessionState, ToolPhase};

const ASK: HookKind = HookKind::PermissionRequest;

fn in_a_turn() -> World {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world.seconds += 10.0;
    world
}

/// A call that an event is about: of a subagent or of none, a tool, and the digest of its input.
type Call = (Option<&'static str>, &'static str, Option<u64>);

const BASH: Call = (None, "Bash", Some(1));
const IN_SUBAGENT: Call = (Some("a1"), "Bash", Some(1));

/// An event of a call that was emitted so many seconds ago.
fn call(world: &mut World, kind: HookKind, (agent, tool, digest): Call, ago: f64) {
    let mut event = world.event("s1", 100, kind, ago);
    event.agent = agent.map(Into::into);
    event.tool = Some(tool.into());
    event.digest = digest;
    world.send(event);
    world.seconds += 0.001;
}

fn waits(world: &World) -> usize {
    world.session("s1").waits.len()
}

fn notification() -> HookKind {
    HookKind::Notification("permission_prompt".into())
}

// a request is late only behind the result of its own call, in its own thread.
#[test]
fn a_request_is_over_only_by_the_result_of_its_own_call() {
    for (result, request, is_over) in [
        (BASH, BASH, true),
        (IN_SUBAGENT, IN_SUBAGENT, true),
        (BASH, IN_SUBAGENT, false),
        (IN_SUBAGENT, BASH, false),
        (BASH, (None, "Bash", Some(2)), false),
        (BASH, (None, "Read", Some(1)), false),
        // Nothing tells which call of the tool it was.
        ((None, "Bash", None), (None, "Bash", None), false),
        ((None, "AskUserQuestion", Some(1)), (None, "AskUserQuestion", Some(1)), true),
        ((None, "AskUserQuestion", Some(2)), (None, "AskUserQuestion", Some(1)), false),
        // The client adds to a plan's input.
        ((None, "ExitPlanMode", Some(2)), (None, "ExitPlanMode", Some(1)), true),
    ] {
        let mut world = in_a_turn();
        call(&mut world, TOOL, result, 0.0);
        call(&mut world, ASK, request, 2.0);
        assert_eq!(waits(&world) == 0, is_over, "{result:?}, {request:?}");
    }
}

// the same call may ask again.
#[test]
fn a_request_behind_the_result_of_its_call_waits() {
    let mut world = in_a_turn();
    call(&mut world, TOOL, BASH, 0.0);
    call(&mut world, ASK, BASH, 0.0);
    assert_eq!(world.state_of("s1"), SessionState::AwaitingPermission);
}

// what a subagent asked is over with the subagent; the end of one that has no id ends nothing.
#[test]
fn a_request_is_over_by_the_end_of_its_subagent() {
    for (ended, request, is_over) in [
        (Some("a1"), IN_SUBAGENT, true),
        (Some("a2"), IN_SUBAGENT, false),
        (Some("a1"), BASH, false),
        (None, BASH, false),
    ] {
        let mut world = in_a_turn();
        call(&mut world, HookKind::SubagentStop, (ended, "", None), 0.0);
        call(&mut world, ASK, request, 2.0);
        assert_eq!(waits(&world) == 0, is_over, "{ended:?}, {request:?}");
    }
}

// a notification names no call, so that any result of its thread that is newer answers it.
#[test]
fn a_notification_is_over_by_any_newer_result_of_its_thread() {
    for (agent, is_over) in [(None, true), (Some("a1"), false)] {
        let mut world = in_a_turn();
        call(&mut world, TOOL, (agent, "Read", Some(7)), 0.0);
        call(&mut world, notification(), (None, "", None), 2.0);
        assert_eq!(waits(&world) == 0, is_over, "{agent:?}");
    }
}

// a prompt that arrives late does not make what is over ask again.
#[test]
fn what_is_over_stays_so_behind_a_late_prompt() {
    let mut world = in_a_turn();
    call(&mut world, TOOL, BASH, 0.0);
    world.late_hook("s1", 100, PROMPT, 3.0);
    call(&mut world, ASK, BASH, 2.0);
    assert_eq!(waits(&world), 0);
}

// S0-18: without the digest of one of the two, the tool tells; the client adds to a plan's input.
#[test]
fn a_result_ends_the_wait_of_its_tool() {
    for (request, result) in [
        ((None, "Bash", None), BASH),
        (BASH, (None, "Bash", None)),
        ((None, "ExitPlanMode", Some(1)), (None, "ExitPlanMode", Some(2))),
    ] {
        let mut world = in_a_turn();
        call(&mut world, ASK, request, 0.0);
        call(&mut world, TOOL, result, 0.0);
        assert_eq!(waits(&world), 0, "{request:?}, {result:?}");
    }
}

// it was asked when its dialog opened, six seconds before the notification.
#[test]
fn a_notified_prompt_waits_since_it_opened() {
    let mut world = in_a_turn();
    let now_ms = world.now().wall_ms;
    call(&mut world, notification(), (None, "", None), 0.0);
    assert_eq!(world.session("s1").waits.first().unwrap().since.wall_ms, now_ms - 6_000);
    // One for an answer comes at once.
    let mut world = in_a_turn();
    let now_ms = world.now().wall_ms;
    call(&mut world, HookKind::Notification("agent_needs_input".into()), (None, "", None), 0.0);
    assert_eq!(world.session("s1").waits.first().unwrap().since.wall_ms, now_ms);
}

// H-29: what one session asks is bounded.
#[test]
fn so_many_waits_are_kept() {
    let mut world = in_a_turn();
    for digest in 0..40 {
        call(&mut world, ASK, (None, "Bash", Some(digest)), 0.0);
    }
    assert_eq!(waits(&world), 32);
    world.hook("s1", 100, STOP);
    assert_eq!(waits(&world), 0);
    world.hook("s1", 100, START);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// the hook that reports a question's end was lost, and so was the one that reports the next question's call.
#[test]
fn a_question_is_not_about_an_earlier_call_whose_prompt_is_over() {
    let mut world = in_a_turn();
    let question = |world: &mut World, kind| {
        let mut event = world.event("s1", 100, kind, 0.0);
        (event.tool, event.digest) = (Some("AskUserQuestion".into()), Some(7));
        event
    };
    let mut begins = question(&mut world, HookKind::Tool(ToolPhase::Before));
    begins.call = Some("toolu_1".into());
    world.send(begins);
    let first = question(&mut world, ASK);
    world.send(first);
    assert_eq!(world.session("s1").waits[0].call.as_deref(), Some("toolu_1"));
    world.says("s1", 100, RegistryStatus::WaitingInput);
    world.pass(1.0);
    world.says("s1", 100, RegistryStatus::Busy);
    assert_eq!(waits(&world), 0);
    world.pass(1.0);
    let second = question(&mut world, ASK);
    world.send(second);
    assert_eq!(world.session("s1").waits[0].call, None);
}
