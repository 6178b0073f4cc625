//! Which requests may be answered from elsewhere than their terminal, which reply is let through, and what becomes of
//! it (A-01 to A-07, H-23, H-38).

use coord_core::NotAnswerable;
use coord_model::{
    Command, Decided, Effect, Event, HookKind, Kind, ProcessRef, RegistryStatus, ReplyKind,
    ReplyOutcome, RequestId, SessionKey, Settings, ToolPhase,
};

use crate::crashes::{PID, in_a_turn};
use crate::world::{PROMPT, STOP, World, no_registry, order, process, settings};

const CALL: &str = "toolu_1";
const HOOK: u32 = 900;

/// A turn in which a dialog is open for a call of Bash.
fn asked() -> (World, RequestId) {
    let mut world = in_a_turn();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    begins(&mut world, CALL);
    let request = asks(&mut world, "Bash", None);
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    (world, request)
}

fn begins(world: &mut World, call: &str) {
    let mut event = world.event("s1", PID, HookKind::Tool(ToolPhase::Before), 0.0);
    (event.tool, event.digest, event.call) = (Some("Bash".into()), Some(7), Some(call.into()));
    world.send(event);
    world.seconds += 0.001;
}

fn asks(world: &mut World, tool: &str, agent: Option<&str>) -> RequestId {
    let mut event = world.event("s1", PID, HookKind::PermissionRequest, 0.0);
    (event.tool, event.digest, event.agent) =
        (Some(tool.into()), Some(7), agent.map(ToOwned::to_owned));
    let id = RequestId(event.id);
    world.send(event);
    world.seconds += 0.001;
    id
}

fn may(world: &World, request: RequestId) -> Result<(), NotAnswerable> {
    world.state.may_be_answered(world.session("s1"), request)
}

fn reply_of(world: &World, request: RequestId, reply: ReplyKind, hook: ProcessRef) -> Command {
    Command::Reply { session: world.session("s1").key, request, hook, reply }
}

/// Why the reply is refused.
fn refused(world: &World, command: &Command) -> Option<String> {
    let answer = world.state.would(command).pop().expect("the session is there");
    answer.refused_by.map(|_| answer.words)
}

fn allow(world: &mut World, request: RequestId) {
    let command = reply_of(world, request, ReplyKind::Allow, process(HOOK));
    world.take(&order(command));
}

fn handed(world: &mut World) -> Vec<(SessionKey, RequestId, ReplyKind)> {
    let effects = core::mem::take(&mut world.effects);
    let handed = effects.into_iter().filter_map(|effect| {
        let Effect::HandReply { session, request, reply } = effect else { return None };
        Some((session, request, reply))
    });
    handed.collect()
}

fn decided(world: &mut World, request: RequestId, decided: Option<Decided>) {
    let session = world.session("s1").key;
    world.take(&Event::ReplySeen { session_id: "s1".into(), session, request, decided });
}

fn outcome(world: &World) -> Option<ReplyOutcome> {
    world.session("s1").replies.last().expect("a reply").outcome
}

// H-38: only where waiting hides nothing, and only where somebody can tell when it is over.
#[test]
fn h_38_a_hook_waits_only_where_it_hides_no_dialog() {
    let (world, request) = asked();
    assert_eq!(may(&world, request), Ok(()));
    assert_eq!(may(&world, RequestId(1)), Err(NotAnswerable::Over));

    let (mut world, request) = asked();
    world.take(&settings(Settings::default()));
    assert_eq!(may(&world, request), Err(NotAnswerable::Off), "it is off by default");

    let mut world = in_a_turn();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    let of_agent = asks(&mut world, "Bash", Some("agent-1"));
    assert_eq!(may(&world, of_agent), Err(NotAnswerable::Subagent));
    let question = asks(&mut world, "AskUserQuestion", None);
    assert_eq!(may(&world, question), Err(NotAnswerable::OnlyThere));

    let mut world = World::new();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    world.open("s1", PID, Kind::Interactive);
    world.registry(PID, no_registry(), false);
    world.hook("s1", PID, PROMPT);
    let unseen = asks(&mut world, "Bash", None);
    assert_eq!(may(&world, unseen), Err(NotAnswerable::NoRegistry));
}

// a Yes at the terminal is told to no hook; the registry, the result and the end of the turn end the wait.
#[test]
fn a_01_the_wait_ends_with_its_prompt() {
    for end in [
        (|world: &mut World| world.says("s1", PID, RegistryStatus::Busy)) as fn(&mut World),
        |world| {
            let mut event = world.event("s1", PID, HookKind::Tool(ToolPhase::After), 0.0);
            (event.tool, event.digest) = (Some("Bash".into()), Some(7));
            world.send(event);
        },
        |world| world.hook("s1", PID, STOP),
        |world| world.hook("s1", PID, PROMPT),
    ] {
        let (mut world, request) = asked();
        assert_eq!(may(&world, request), Ok(()));
        end(&mut world);
        world.pass(1.0);
        assert!(may(&world, request).is_err());
        allow(&mut world, request);
        assert_eq!(handed(&mut world), [], "nothing is handed to a prompt that is over");
    }
}

// A-04, H-23: one reply for one hook, while the client says that it waits.
#[test]
fn a_04_a_reply_is_let_through_once() {
    let (mut world, request) = asked();
    handed(&mut world);
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    allow(&mut world, request);
    let key = world.session("s1").key;
    assert_eq!(handed(&mut world), [(key, request, ReplyKind::Allow)]);
    let reply = &world.session("s1").replies[0];
    assert_eq!((reply.hook, reply.call.as_deref()), (process(HOOK), Some(CALL)));
    assert_eq!(may(&world, request), Err(NotAnswerable::Replied));
    let second = reply_of(&world, request, ReplyKind::Deny, process(HOOK));
    assert_eq!(refused(&world, &second).as_deref(), Some("refused: a reply was sent already"));
    world.take(&order(second));
    assert_eq!(handed(&mut world), []);
    assert_eq!(world.session("s1").replies.len(), 1);
}

// a dialog that the client does not show is not answered.
#[test]
fn a_02_nothing_is_handed_over_before_the_client_says_that_it_waits() {
    let mut world = in_a_turn();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(1.0);
    let request = asks(&mut world, "Bash", None);
    assert_eq!(may(&world, request), Ok(()), "the hook may wait for it");
    let command = reply_of(&world, request, ReplyKind::Allow, process(HOOK));
    let words = "refused: the client does not say that it waits";
    assert_eq!(refused(&world, &command).as_deref(), Some(words));
    handed(&mut world);
    allow(&mut world, request);
    assert_eq!(handed(&mut world), []);
}

// a request names no call (measured). Identical calls are two requests with a call each.
#[test]
fn a_04_identical_requests_are_about_different_calls() {
    let mut world = in_a_turn();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    for call in ["toolu_1", "toolu_2"] {
        begins(&mut world, call);
    }
    let requests = [asks(&mut world, "Bash", None), asks(&mut world, "Bash", None)];
    let calls = |world: &World| -> Vec<Option<String>> {
        world.session("s1").waits.iter().map(|wait| wait.call.clone()).collect()
    };
    assert_eq!(calls(&world), [Some("toolu_1".into()), Some("toolu_2".into())]);
    assert_ne!(requests[0], requests[1]);
    // A call whose own hook was slower than its request's.
    let mut world = in_a_turn();
    asks(&mut world, "Bash", None);
    begins(&mut world, "toolu_3");
    assert_eq!(calls(&world), [Some("toolu_3".into())]);
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

// taken is said on the client's own note alone, and once.
#[test]
fn a_07_a_reply_becomes_what_the_transcript_shows() {
    for (seen, expected) in [
        (Some(Decided::ByHook(ReplyKind::Allow)), ReplyOutcome::Taken),
        (Some(Decided::ByHook(ReplyKind::Deny)), ReplyOutcome::Refused),
        (Some(Decided::AtTerminal), ReplyOutcome::TerminalFirst),
        (None, ReplyOutcome::NotSeen),
    ] {
        let (mut world, request) = asked();
        allow(&mut world, request);
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(60.0);
        assert_eq!(outcome(&world), None, "the registry alone proves nothing");
        decided(&mut world, request, seen);
        assert_eq!(outcome(&world), Some(expected));
        decided(&mut world, request, Some(Decided::ByHook(ReplyKind::Allow)));
        assert_eq!(outcome(&world), Some(expected), "what is known stays");
    }
}

// the transcript is looked at with each hook of the session, until the proof is there.
#[test]
fn a_07_the_proof_is_looked_for() {
    let (mut world, request) = asked();
    let seeks = |world: &mut World| {
        let effects = core::mem::take(&mut world.effects);
        effects.iter().any(|effect| matches!(effect, Effect::SeekDecisions { .. }))
    };
    allow(&mut world, request);
    seeks(&mut world);
    world.hook("s1", PID, STOP);
    assert!(seeks(&mut world));
    decided(&mut world, request, Some(Decided::AtTerminal));
    world.hook("s1", PID, PROMPT);
    assert!(!seeks(&mut world));
}
