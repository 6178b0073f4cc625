//! Which requests may be answered from elsewhere than their terminal, which reply is let through, and what becomes of
//! it (A-01 to A-07, H-23, H-38).

mod hidden;

mod calls;

use coord_core::NotAnswerable;
use coord_model::{
    ChannelClass, Command, Decided, Effect, Event, HookEvent, HookKind, Kind, MarkChange, NeedKind,
    NoticeKind, NoticeSettings, PlanMode, ProcessRef, Provenance, Registry, RegistryEntry,
    RegistryStatus, ReplyKind, ReplyOutcome, RequestId, SessionKey, SessionState, Settings,
    TellAct, ToolPhase, Verdict, Whom,
};

use crate::crashes::{PID, in_a_turn};
use crate::notices::through;
use crate::world::{PROMPT, START, STOP, World, entry, no_registry, order, process, settings};

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
    let event = reports(world, HookKind::Tool(ToolPhase::Before), Some(call));
    world.send(event);
}

/// What a hook reports of a call whose input is always the same. It does not arrive yet.
fn reports(world: &mut World, kind: HookKind, call: Option<&str>) -> HookEvent {
    let mut event = world.event("s1", PID, kind, 0.0);
    (event.tool, event.digest, event.call) =
        (Some("Bash".into()), Some(7), call.map(ToOwned::to_owned));
    world.seconds += 0.001;
    event
}

fn asks(world: &mut World, tool: &str, agent: Option<&str>) -> RequestId {
    asks_with(world, tool, 7, agent)
}

fn asks_with(world: &mut World, tool: &str, digest: u64, agent: Option<&str>) -> RequestId {
    let mut event = world.event("s1", PID, HookKind::PermissionRequest, 0.0);
    (event.tool, event.digest, event.agent) =
        (Some(tool.into()), Some(digest), agent.map(ToOwned::to_owned));
    let id = RequestId(event.id);
    world.send(event);
    world.seconds += 0.001;
    id
}

fn may(world: &World, request: RequestId) -> Result<(), NotAnswerable> {
    world.state.may_be_answered(world.session("s1"), request)
}

fn reply_of(world: &World, request: RequestId, reply: ReplyKind, hook: ProcessRef) -> Command {
    let from = "pts/3".into();
    Command::Reply { session: world.session("s1").key, request, hook, reply, from }
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

    let mut world = in_a_turn();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    let dialog = asks(&mut world, "", None);
    assert_eq!(may(&world, dialog), Err(NotAnswerable::Dialog), "no hook reported what it is");

    let mut world = World::new();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    world.open("s1", PID, Kind::Interactive);
    world.registry(PID, no_registry(), false);
    world.hook("s1", PID, PROMPT);
    let unseen = asks(&mut world, "Bash", None);
    assert_eq!(may(&world, unseen), Err(NotAnswerable::NoRegistry));
}

/// What is switched on where a hook may wait although the client shows no dialog meanwhile.
fn hidden(bound_ms: u64) -> Settings {
    Settings {
        remote_answers: true,
        headless_answers: true,
        hidden_wait_ms: bound_ms,
        notice: through(&[("here", ChannelClass::Tmux)]),
        ..Settings::default()
    }
}

// R-20, U-01, A-03: what the client's own supervisor runs needs its person like any other session, and is answered
// from elsewhere only where its owner wants that.
#[test]
fn a_background_session_needs_its_person_and_is_answered_only_where_that_is_switched_on() {
    for (background_answers, answer) in [(true, Ok(())), (false, Err(NotAnswerable::Background))] {
        let mut world = in_a_turn();
        let with = Settings { remote_answers: true, background_answers, ..Settings::default() };
        world.take(&settings(with));
        let says = |world: &mut World, status| {
            let Registry::Present(its) = entry("s1", Some(status), 0) else { unreachable!() };
            world.registry(
                PID,
                Registry::Present(RegistryEntry { is_foreign: true, ..its }),
                false,
            );
        };
        says(&mut world, RegistryStatus::Busy);
        assert!(world.session("s1").needs.is_empty(), "{:?}", world.session("s1").needs);
        begins(&mut world, CALL);
        let request = asks(&mut world, "Bash", None);
        world.pass(3.0);
        says(&mut world, RegistryStatus::WaitingPermission);
        assert_eq!(world.state_of("s1"), SessionState::Foreign);
        let needs = &world.session("s1").needs;
        let of = |need: &coord_core::Need| (need.kind, need.request);
        assert_eq!(
            needs.iter().map(of).collect::<Vec<_>>(),
            [(NeedKind::Permission, Some(request))]
        );
        assert_eq!(may(&world, request), answer);
        allow(&mut world, request);
        assert_eq!(handed(&mut world).len(), usize::from(background_answers));
        world.pass(3.0);
        says(&mut world, RegistryStatus::Busy);
        assert!(world.session("s1").needs.is_empty(), "{:?}", world.session("s1").needs);
    }
}

/// A headless run whose client says in its registry that it is busy, as it does while it asks (measured).
fn run(with: Settings) -> World {
    let mut world = World::new();
    world.take(&settings(with));
    world.open("s1", PID, Kind::Headless);
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world
}

// A-03, H-38: a headless run asks only where its owner wants that and somebody is told.
#[test]
fn h_38_a_headless_run_asks_only_where_that_is_switched_on_and_somebody_is_told() {
    let on = hidden(600_000);
    for (with, may_ask) in [
        (on.clone(), true),
        (Settings { headless_answers: false, ..on.clone() }, false),
        (Settings { remote_answers: false, ..on.clone() }, false),
        (Settings { notice: Settings::default().notice, ..on.clone() }, false),
        (
            Settings {
                notice: NoticeSettings { kinds: vec![], ..on.notice.clone() },
                ..on.clone()
            },
            false,
        ),
        (Settings { hidden_wait_ms: 0, ..on }, false),
    ] {
        let mut world = run(with);
        let request = asks(&mut world, "Bash", None);
        world.says("s1", PID, RegistryStatus::Busy);
        // Said at once, since the run is held up until then.
        let is_off = !world.state.header().settings.remote_answers;
        let no = if is_off { NotAnswerable::Off } else { NotAnswerable::Headless };
        assert_eq!(may(&world, request), if may_ask { Ok(()) } else { Err(no) });
        world.pass(3.0);
        assert_eq!(world.session("s1").needs.len(), usize::from(may_ask), "it is denied at once");
        handed(&mut world);
        allow(&mut world, request);
        assert_eq!(handed(&mut world).len(), usize::from(may_ask));
    }
}

// H-38, H-44: what nothing proves holds up no run.
#[test]
fn h_38_an_unverified_request_asks_nobody() {
    let mut world = run(hidden(600_000));
    let mut event = world.event("s1", PID, HookKind::PermissionRequest, 0.0);
    (event.tool, event.digest, event.provenance) =
        (Some("Bash".into()), Some(7), Provenance::Claimed);
    let request = RequestId(event.id);
    world.send(event);
    assert_eq!(may(&world, request), Err(NotAnswerable::Headless));
    assert_eq!(*world.session("s1").needs, []);
}

// H-38, H-24: a client of which nothing tells whether it is interactive may be a headless run, where that is switched off.
#[test]
fn h_38_a_client_of_unknown_kind_asks_nobody() {
    for (kind, may_ask) in [(None, false), (Some(Kind::Interactive), true)] {
        let mut world = World::new();
        world.take(&settings(Settings { headless_answers: false, ..hidden(600_000) }));
        let mut start = world.event("s1", PID, START, 0.0);
        start.harness.as_mut().unwrap().kind = kind;
        world.send(start);
        world.seen_alive(PID);
        let whom = Whom::Session(world.session("s1").key);
        let (asks_for_agents, unattended) = (Some(true), Some(true));
        let marks = MarkChange { asks_for_agents, unattended, ..MarkChange::default() };
        world.take(&order(Command::Attend { whom, marks }));
        world.hook("s1", PID, PROMPT);
        let request = asks(&mut world, "Bash", Some("agent-1"));
        let waits = world.session("s1").waits.iter().find(|wait| wait.request == Some(request));
        assert_eq!(waits.is_some_and(|wait| wait.hidden_until.is_some()), may_ask, "{kind:?}");
    }
}

// H-38: the bound is for all prompts of a run together.
#[test]
fn h_38_a_headless_run_waits_no_longer_in_all_than_its_bound() {
    let mut world = run(hidden(600_000));
    let first = asks(&mut world, "Bash", None);
    world.pass(400.0);
    assert_eq!(may(&world, first), Ok(()));
    let mut event = world.event("s1", PID, HookKind::Tool(ToolPhase::After), 0.0);
    (event.tool, event.digest) = (Some("Bash".into()), Some(7));
    world.send(event);
    world.pass(1_000.0);
    let second = asks(&mut world, "Bash", None);
    world.pass(199.0);
    assert_eq!(may(&world, second), Ok(()));
    world.pass(2.0);
    assert_eq!(may(&world, second), Err(NotAnswerable::Headless));
    assert_eq!(*world.session("s1").needs, []);
    let third = asks(&mut world, "Write", None);
    assert_eq!(may(&world, third), Err(NotAnswerable::Headless), "nothing is left of it");
}

// H-38: the dialog of a background subagent is hidden while a hook waits, so that is for unattended sessions whose
// person allowed it by name, and ends with the bound, when the client shows it.
#[test]
fn h_38_a_subagent_asks_only_where_its_person_allowed_it() {
    for (asks_for_agents, unattended, may_ask) in [
        (None, Some(true), false),
        (Some(false), Some(true), false),
        (Some(true), Some(false), false),
        (Some(true), Some(true), true),
    ] {
        let mut world = in_a_turn();
        world.take(&settings(hidden(600_000)));
        let whom = Whom::Session(world.session("s1").key);
        let marks = MarkChange { asks_for_agents, unattended, ..MarkChange::default() };
        world.take(&order(Command::Attend { whom, marks }));
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(1.0);
        let request = asks(&mut world, "Bash", Some("agent-1"));
        let expected = if may_ask { Ok(()) } else { Err(NotAnswerable::Subagent) };
        assert_eq!(may(&world, request), expected);
        // The registry of a client that shows no dialog says nothing of it.
        world.says("s1", PID, RegistryStatus::Busy);
        assert_eq!(may(&world, request).is_ok(), may_ask);
        handed(&mut world);
        if may_ask {
            world.pass(601.0);
            assert_eq!(may(&world, request), Err(NotAnswerable::Subagent), "its dialog is shown");
            world.hook("s1", PID, PROMPT);
            let next = asks(&mut world, "Bash", Some("agent-2"));
            assert_eq!(may(&world, next), Ok(()), "the bound is for one turn");
            allow(&mut world, next);
            assert_eq!(handed(&mut world).len(), 1);
        }
    }
}

// H-22: who is told of needs is told of each reply.
#[test]
fn h_22_a_reply_is_told_through_the_channels() {
    let (mut world, request) = asked();
    world.take(&settings(hidden(600_000)));
    allow(&mut world, request);
    let effects = core::mem::take(&mut world.effects);
    let is_it = |effect: &Effect| {
        let Effect::Tell(tell) = effect else { return false };
        matches!(tell.act, TellAct::One { kind: NoticeKind::Replied, .. })
    };
    assert!(effects.iter().any(is_it), "{effects:#?}");
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

// a bare "allow" is no answer to a question or a plan, and neither is a plan's reply one to a call.
#[test]
fn a_02_each_kind_of_prompt_takes_its_own_replies() {
    let kinds = [
        ReplyKind::Allow,
        ReplyKind::Deny,
        ReplyKind::Answer,
        ReplyKind::Approve(PlanMode::Default),
        ReplyKind::Approve(PlanMode::AcceptEdits),
    ];
    for (tool, status, taken) in [
        ("Bash", RegistryStatus::WaitingPermission, vec![kinds[0], kinds[1]]),
        ("AskUserQuestion", RegistryStatus::WaitingInput, vec![kinds[1], kinds[2]]),
        // Older clients (measured: 2.1.150).
        ("AskUserQuestion", RegistryStatus::WaitingPermission, vec![kinds[1], kinds[2]]),
        ("ExitPlanMode", RegistryStatus::WaitingPermission, vec![kinds[1], kinds[3], kinds[4]]),
    ] {
        for kind in kinds {
            let mut world = in_a_turn();
            world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
            let request = asks(&mut world, tool, None);
            world.says("s1", PID, status);
            handed(&mut world);
            let command = reply_of(&world, request, kind, process(HOOK));
            assert_eq!(
                refused(&world, &command).is_none(),
                taken.contains(&kind),
                "{tool} {kind:?}"
            );
            world.take(&order(command));
            let key = world.session("s1").key;
            let expected = taken.contains(&kind).then_some((key, request, kind));
            assert_eq!(handed(&mut world), expected.as_slice(), "{tool} {kind:?}");
        }
    }
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

// taken is said on the client's own note alone, and once.
#[test]
fn a_07_a_reply_becomes_what_the_transcript_shows() {
    for (seen, expected) in [
        (Some(Decided::ByHook(Verdict::Allow)), ReplyOutcome::Taken),
        (Some(Decided::ByHook(Verdict::Deny)), ReplyOutcome::Refused),
        (Some(Decided::AtTerminal), ReplyOutcome::TerminalFirst),
        (None, ReplyOutcome::NotSent),
    ] {
        let (mut world, request) = asked();
        allow(&mut world, request);
        world.says("s1", PID, RegistryStatus::Busy);
        world.pass(60.0);
        assert_eq!(outcome(&world), None, "the registry alone proves nothing");
        decided(&mut world, request, seen);
        assert_eq!(outcome(&world), Some(expected));
        decided(&mut world, request, Some(Decided::ByHook(Verdict::Allow)));
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

// a denial is reported by no hook, and beside another prompt the registry still says that the client waits.
#[test]
fn a_07_a_denial_that_is_proved_ends_its_prompt_alone() {
    let mut world = in_a_turn();
    world.take(&settings(Settings { remote_answers: true, ..Settings::default() }));
    for call in ["toolu_1", "toolu_2"] {
        begins(&mut world, call);
    }
    let [first, second] = [asks(&mut world, "Bash", None), asks(&mut world, "Bash", None)];
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    let denies = reply_of(&world, first, ReplyKind::Deny, process(HOOK));
    world.take(&order(denies));
    let open = |world: &World| -> Vec<Option<RequestId>> {
        world.session("s1").needs.iter().map(|need| need.request).collect()
    };
    decided(&mut world, first, None);
    assert_eq!(open(&world), [Some(first), Some(second)], "nothing shows that it is over");
    let denies = reply_of(&world, second, ReplyKind::Deny, process(HOOK + 1));
    world.take(&order(denies));
    decided(&mut world, second, Some(Decided::ByHook(Verdict::Deny)));
    assert_eq!(open(&world), [Some(first)]);
    assert_eq!(may(&world, second), Err(NotAnswerable::Over));
}

// a call that was denied runs no more, so that the same call right after is proved by its own result.
#[test]
fn a_07_the_same_call_after_a_denial_is_another_call() {
    let (mut world, request) = asked();
    let command = reply_of(&world, request, ReplyKind::Deny, process(HOOK));
    world.take(&order(command));
    decided(&mut world, request, Some(Decided::ByHook(Verdict::Deny)));
    assert!(world.session("s1").under_way.is_empty());
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(1.0);
    // Refused at the terminal, with feedback: no hook tells of its end.
    begins(&mut world, "toolu_2");
    asks(&mut world, "Bash", None);
    world.says("s1", PID, RegistryStatus::WaitingPermission);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(1.0);
    begins(&mut world, "toolu_3");
    asks(&mut world, "Bash", None);
    let newest = world.session("s1").waits.last().and_then(|wait| wait.call.as_deref());
    assert_eq!(newest, Some("toolu_3"));
}
