//! Which call a prompt is about, and which prompt the result of a call ends.

use coord_model::{HookKind, RegistryStatus, ReplyKind, RequestId, Settings, ToolPhase};

use super::{CALL, asked, asks, asks_with, begins, reply_of, reports};
use crate::crashes::{PID, in_a_turn};
use crate::world::{World, process, settings};

// the client adds to a plan's input after it reported its call, and nothing to a question's.
#[test]
fn a_07_a_question_and_a_plan_are_about_the_call_of_their_tool() {
    for tool in ["AskUserQuestion", "ExitPlanMode"] {
        let mut world = in_a_turn();
        let mut before = world.event("s1", PID, HookKind::Tool(ToolPhase::Before), 0.0);
        let digest = if tool == "ExitPlanMode" { 1 } else { 7 };
        (before.tool, before.digest) = (Some(tool.into()), Some(digest));
        before.call = Some("toolu_9".into());
        world.send(before);
        world.seconds += 0.001;
        asks(&mut world, tool, None);
        let call = world.session("s1").waits[0].call.clone();
        assert_eq!(call.as_deref(), Some("toolu_9"), "{tool}");
    }
}

/// A question's call begins, or ends.
fn tell(world: &mut World, phase: ToolPhase, call: &str) {
    tell_of(world, "AskUserQuestion", phase, call);
}

/// A call of this tool begins, or ends.
fn tell_of(world: &mut World, tool: &str, phase: ToolPhase, call: &str) {
    let mut event = reports(world, HookKind::Tool(phase), Some(call));
    event.tool = Some(tool.into());
    world.send(event);
    world.seconds += 0.001;
}

fn open(world: &World) -> Vec<Option<RequestId>> {
    world.session("s1").waits.iter().map(|wait| wait.request).collect()
}

// where a hook is registered twice, the next question is no other call's.
#[test]
fn a_07_a_call_that_is_reported_twice_is_one_call() {
    let mut world = in_a_turn();
    tell(&mut world, ToolPhase::Before, "toolu_1");
    tell(&mut world, ToolPhase::Before, "toolu_1");
    asks(&mut world, "AskUserQuestion", None);
    tell(&mut world, ToolPhase::After, "toolu_1");
    tell(&mut world, ToolPhase::Before, "toolu_2");
    asks(&mut world, "AskUserQuestion", None);
    let call = world.session("s1").waits.last().and_then(|wait| wait.call.as_deref());
    assert_eq!(call, Some("toolu_2"));
}

// where a hook is registered twice, both requests are one question, and its result ends both.
#[test]
fn a_01_a_question_that_is_reported_twice_ends_once() {
    let mut world = in_a_turn();
    tell(&mut world, ToolPhase::Before, "toolu_1");
    let [_first, _second] = [(); 2].map(|()| asks(&mut world, "AskUserQuestion", None));
    tell(&mut world, ToolPhase::After, "toolu_1");
    assert_eq!(*world.session("s1").waits, []);
    // No hook reports the next call.
    asks(&mut world, "AskUserQuestion", None);
    tell(&mut world, ToolPhase::After, "toolu_2");
    assert_eq!(*world.session("s1").waits, []);
}

// no hook reports that a plan was refused. The next one is another call, though the hook that reports it came for
// a turn that is not known to have begun.
#[test]
fn a_01_a_plan_after_a_refused_one_is_not_the_same_plan() {
    let mut world = in_a_turn();
    tell_of(&mut world, "ExitPlanMode", ToolPhase::Before, "toolu_1");
    asks_with(&mut world, "ExitPlanMode", 1, None);
    let next = asks_with(&mut world, "ExitPlanMode", 2, None);
    assert!(open(&world).contains(&Some(next)));
    tell_of(&mut world, "ExitPlanMode", ToolPhase::After, "toolu_2");
    assert!(!open(&world).contains(&Some(next)), "its result ends its own prompt");
}

// the same plan is asked again before anybody reports the result of the first one. A result ends the prompt of its
// own call, in whatever order the hooks arrive, and none that was asked after it.
#[test]
fn a_01_a_plan_that_is_asked_again_ends_with_its_own_result() {
    const BEFORE: HookKind = HookKind::Tool(ToolPhase::Before);
    const AFTER: HookKind = HookKind::Tool(ToolPhase::After);
    for order in [[0, 1, 2, 3], [0, 1, 3, 2], [1, 3, 0, 2]] {
        let mut world = in_a_turn();
        let mut plan = |kind, call| {
            let mut event = reports(&mut world, kind, call);
            event.tool = Some("ExitPlanMode".into());
            event
        };
        let asked = [
            plan(BEFORE, Some("toolu_1")),
            plan(HookKind::PermissionRequest, None),
            plan(BEFORE, Some("toolu_2")),
            plan(HookKind::PermissionRequest, None),
        ];
        let results = [plan(AFTER, Some("toolu_2")), plan(AFTER, Some("toolu_1"))];
        let third = plan(HookKind::PermissionRequest, None);
        for place in order {
            world.send(asked[place].clone());
        }
        world.send(third.clone());
        let [first, third] = [asked[1].id, third.id].map(|id| Some(RequestId(id)));
        for (result, left) in results.into_iter().zip([&[first, third][..], &[third]]) {
            world.send(result);
            assert_eq!(open(&world), left, "{order:?}");
        }
    }
}

// the hooks that report the end of a question, and the call that asks it once more, are slow. The result of that
// call ends its own prompt, not the first one.
#[test]
fn a_01_a_result_ends_no_prompt_that_is_known_to_be_another_calls() {
    let mut world = in_a_turn();
    tell(&mut world, ToolPhase::Before, "toolu_1");
    let [first, _second] = [(); 2].map(|()| asks(&mut world, "AskUserQuestion", None));
    tell(&mut world, ToolPhase::After, "toolu_2");
    assert_eq!(open(&world), [Some(first)]);
    tell(&mut world, ToolPhase::After, "toolu_1");
    assert_eq!(open(&world), []);
}

// the hooks that report both calls of one message are lost. Which question an answer belongs to, its text tells. Where
// the key of the digests was lost, it is the one that was asked first, unless somebody replied to the other one.
#[test]
fn a_01_of_two_questions_without_a_call_the_answered_one_is_over() {
    for (answered, is_replied, is_first_over) in [
        (Some(1), false, true),
        (Some(2), false, false),
        (Some(1), true, true),
        (None, false, true),
        (None, true, false),
    ] {
        let mut world = in_a_turn();
        world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
        let mut question = |kind, call, text| {
            let mut event = reports(&mut world, kind, call);
            (event.tool, event.digest) = (Some("AskUserQuestion".into()), text);
            event
        };
        let [first, second] =
            [1, 2].map(|text| question(HookKind::PermissionRequest, None, Some(text)));
        let result = question(HookKind::Tool(ToolPhase::After), Some("toolu_1"), answered);
        world.send(second.clone());
        world.send(first.clone());
        let [first, second] = [first.id, second.id].map(RequestId);
        if is_replied {
            world.says("s1", PID, RegistryStatus::WaitingInput);
            let reply = reply_of(&world, second, ReplyKind::Answer, process(900));
            world.command(reply);
        }
        world.send(result);
        let left = if is_first_over { second } else { first };
        assert_eq!(open(&world), [Some(left)], "{answered:?} {is_replied}");
    }
}

// the client reports both questions of one message at once, and shows one after the other (measured, 2.1.328).
// Each is about its own call, in whatever order the hooks arrive.
#[test]
fn a_01_two_questions_of_one_message_are_two() {
    for order in
        [[0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2], [1, 3, 2, 0], [2, 3, 0, 1], [3, 2, 1, 0]]
    {
        let mut world = in_a_turn();
        let mut question = |kind, call, text| {
            let mut event = reports(&mut world, kind, call);
            (event.tool, event.digest) = (Some("AskUserQuestion".into()), Some(text));
            event
        };
        let asked = [
            question(HookKind::Tool(ToolPhase::Before), Some("toolu_1"), 1),
            question(HookKind::Tool(ToolPhase::Before), Some("toolu_2"), 2),
            question(HookKind::PermissionRequest, None, 1),
            question(HookKind::PermissionRequest, None, 2),
        ];
        let answered = question(HookKind::Tool(ToolPhase::After), Some("toolu_1"), 1);
        for place in order {
            world.send(asked[place].clone());
        }
        world.send(answered);
        let waits = &world.session("s1").waits;
        let left: Vec<_> = waits.iter().map(|wait| (wait.request, wait.call.as_deref())).collect();
        let second = (Some(RequestId(asked[3].id)), Some("toolu_2"));
        assert_eq!(left, [second], "{order:?}");
    }
}

// a request names no call (measured). Where several calls under way have its input, a request may be late or
// lost, and no call is taken for its own.
#[test]
fn a_04_of_identical_calls_none_is_taken_for_that_of_a_request() {
    let mut world = in_a_turn();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    for call in ["toolu_1", "toolu_2"] {
        begins(&mut world, call);
    }
    let requests = [asks(&mut world, "Bash", None), asks(&mut world, "Bash", None)];
    let calls = |world: &World| -> Vec<Option<String>> {
        world.session("s1").waits.iter().map(|wait| wait.call.clone()).collect()
    };
    assert_eq!(calls(&world), [None, None]);
    assert_ne!(requests[0], requests[1]);
    begins(&mut world, "toolu_3");
    assert_eq!(calls(&world), [None, None]);
}

// the client waits for the hook of a call before it asks. So a request is about none that begins later, in
// whatever order both arrive, and a result ends the prompt of its own call.
#[test]
fn a_04_a_request_is_about_a_call_that_had_begun() {
    const BEFORE: HookKind = HookKind::Tool(ToolPhase::Before);
    // What arrives, in this order: the first call, its request, the second call, its request. Then the result of the
    // second, whose own prompt is over.
    let orders: [(&[usize], &[Option<&str>]); 6] = [
        (&[0, 1, 2, 3], &[Some("toolu_1")]),
        (&[2, 0, 1, 3], &[Some("toolu_1")]),
        (&[1, 3, 0, 2], &[Some("toolu_1")]),
        (&[1, 3, 2, 0], &[Some("toolu_1")]),
        // The first call's own hook was lost.
        (&[1, 2, 3], &[None]),
        (&[1, 3, 2], &[None]),
    ];
    for (order, left) in orders {
        let mut world = in_a_turn();
        world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
        let events = [
            reports(&mut world, BEFORE, Some("toolu_1")),
            reports(&mut world, HookKind::PermissionRequest, None),
            reports(&mut world, BEFORE, Some("toolu_2")),
            reports(&mut world, HookKind::PermissionRequest, None),
        ];
        for place in order {
            world.send(events[*place].clone());
        }
        let result = reports(&mut world, HookKind::Tool(ToolPhase::After), Some("toolu_2"));
        world.send(result);
        let waits = &world.session("s1").waits;
        let open: Vec<(Option<RequestId>, Option<&str>)> =
            waits.iter().map(|wait| (wait.request, wait.call.as_deref())).collect();
        let first = Some(RequestId(events[1].id));
        assert_eq!(open, left.iter().map(|call| (first, *call)).collect::<Vec<_>>(), "{order:?}");
    }
}

// no hook reports that a call was denied. The next one with the same input is another call.
#[test]
fn a_07_a_call_that_is_asked_for_again_is_not_the_one_that_was_denied() {
    let (mut world, _) = asked();
    world.says("s1", PID, RegistryStatus::Busy);
    world.seconds += 1.0;
    begins(&mut world, "toolu_2");
    asks(&mut world, "Bash", None);
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    let calls = |world: &World| -> Vec<Option<String>> {
        world.session("s1").waits.iter().map(|wait| wait.call.clone()).collect()
    };
    assert_eq!(calls(&world), [Some("toolu_2".into())]);
    // Its result ends it, and not the one that was denied.
    let mut event = world.event("s1", PID, HookKind::Tool(ToolPhase::After), 0.0);
    (event.tool, event.digest, event.call) = (Some("Bash".into()), Some(7), Some("toolu_2".into()));
    world.send(event);
    let under_way = &world.session("s1").under_way;
    let calls: Vec<Option<&str>> = under_way.iter().map(|one| one.call.as_deref()).collect();
    assert_eq!(calls, [Some(CALL)]);
}

// the result of a call ends its own prompt, also while an earlier one for the same input is thought to be open.
#[test]
fn a_01_a_result_ends_the_prompt_of_its_own_call() {
    let (mut world, _) = asked();
    begins(&mut world, "toolu_2");
    asks(&mut world, "Bash", None);
    let mut event = world.event("s1", PID, HookKind::Tool(ToolPhase::After), 0.0);
    (event.tool, event.digest, event.call) = (Some("Bash".into()), Some(7), Some("toolu_2".into()));
    world.send(event);
    let waits = &world.session("s1").waits;
    let calls: Vec<Option<&str>> = waits.iter().map(|wait| wait.call.as_deref()).collect();
    assert_eq!(calls, [Some(CALL)]);
}

// a result ends the prompt of its own call, and where no hook named that, not the prompt of another call.
#[test]
fn a_01_a_result_ends_no_other_prompt_with_the_same_input() {
    let mut world = in_a_turn();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    begins(&mut world, "toolu_1");
    // The result of this call was lost, and the report that the next one begins.
    asks(&mut world, "Bash", None);
    let second = asks(&mut world, "Bash", None);
    let mut result = world.event("s1", PID, HookKind::Tool(ToolPhase::After), 0.0);
    (result.tool, result.digest, result.call) =
        (Some("Bash".into()), Some(7), Some("toolu_2".into()));
    world.send(result);
    let open = open(&world);
    assert!(!open.contains(&Some(second)) && open.len() == 1, "{open:?}");
}
