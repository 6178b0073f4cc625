//! Prompts, the client's registry, and the weight of sources (S0-17, S0-18, R-01, R-02, R-05, R-10,
//! H-35).

use crate::world::{END, PROMPT, START, STOP, TOOL, World, entry, no_registry, process};
use coord_core::Turn;
use coord_model::{
    Background, Event, HookKind, Kind, ProcessSeen, Registry, RegistryEntry, RegistryStatus,
    Screen, SessionState, StartSource, ToolPhase, Via,
};

const BEFORE: HookKind = HookKind::Tool(ToolPhase::Before);
const FAILED: HookKind = HookKind::Tool(ToolPhase::Failed);
const ASK: HookKind = HookKind::PermissionRequest;

fn in_a_turn() -> World {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world.hook("s1", 100, PROMPT);
    world
}

/// An event of a tool call.
fn call(world: &mut World, kind: HookKind, agent: Option<&str>, tool: &str, digest: u64) {
    let mut event = world.event("s1", 100, kind, 0.0);
    event.agent = agent.map(Into::into);
    event.tool = Some(tool.into());
    event.digest = Some(digest);
    world.send(event);
    world.seconds += 0.001;
}

/// The registry says this now.
fn says(world: &mut World, status: RegistryStatus) {
    let changed_ms = world.now().wall_ms;
    world.registry(100, entry("s1", Some(status), changed_ms), false);
    world.seconds += 0.001;
}

#[test]
fn r_05_a_request_opens_the_wait_and_its_result_ends_it() {
    for result in [TOOL, FAILED, HookKind::PermissionDenied] {
        let mut world = in_a_turn();
        call(&mut world, BEFORE, None, "Bash", 1);
        call(&mut world, ASK, None, "Bash", 1);
        assert_eq!(world.state_of("s1"), SessionState::AwaitingPermission);
        call(&mut world, result, None, "Bash", 1);
        assert_eq!(world.state_of("s1"), SessionState::Running);
    }
}

#[test]
fn r_05_questions_and_plans_wait_for_input() {
    for tool in ["AskUserQuestion", "ExitPlanMode"] {
        let mut world = in_a_turn();
        call(&mut world, ASK, None, tool, 1);
        assert_eq!(world.state_of("s1"), SessionState::AwaitingInput, "{tool}");
    }
}

#[test]
fn s0_18_each_wait_is_over_by_its_own_result_only() {
    let mut world = in_a_turn();
    call(&mut world, ASK, None, "Bash", 1);
    call(&mut world, ASK, None, "Bash", 2);
    call(&mut world, TOOL, None, "Read", 1);
    call(&mut world, TOOL, Some("a1"), "Bash", 1);
    call(&mut world, TOOL, None, "Bash", 1);
    assert_eq!(world.session("s1").waits.len(), 1);
    assert_eq!(world.state_of("s1"), SessionState::AwaitingPermission);
    call(&mut world, TOOL, None, "Bash", 2);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}

#[test]
fn s0_18_the_end_of_a_thread_ends_its_waits() {
    let mut world = in_a_turn();
    call(&mut world, ASK, Some("a1"), "Bash", 1);
    call(&mut world, ASK, None, "Bash", 2);
    world.hook("s1", 100, PROMPT);
    assert_eq!(world.session("s1").waits.len(), 1, "a subagent's prompt is the session's (R-06)");
    assert_eq!(world.state_of("s1"), SessionState::AwaitingPermission);
    call(&mut world, HookKind::SubagentStop, Some("a1"), "", 0);
    assert_eq!(world.session("s1").waits.len(), 0);
}

#[test]
fn s0_18_the_notification_counts_where_the_request_was_lost() {
    let mut world = in_a_turn();
    world.hook("s1", 100, HookKind::Notification("idle_prompt".into()));
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.pass(6.2);
    world.hook("s1", 100, HookKind::Notification("permission_prompt".into()));
    assert_eq!(world.state_of("s1"), SessionState::AwaitingPermission);
    call(&mut world, TOOL, None, "Bash", 1);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}

// it comes six seconds after its prompt; one that was on its way when the prompt was answered
// opens no wait that nothing would ever clear.
#[test]
fn s0_18_a_notification_that_the_answer_overtook_opens_no_wait() {
    let mut world = in_a_turn();
    world.pass(10.0);
    call(&mut world, ASK, None, "Bash", 1);
    world.pass(6.1);
    call(&mut world, TOOL, None, "Bash", 1);
    world.hook("s1", 100, HookKind::Notification("permission_prompt".into()));
    assert_eq!(world.state_of("s1"), SessionState::Running);
    assert_eq!(world.session("s1").waits.len(), 0);
}

#[test]
fn s0_17_a_prompt_left_open_is_not_idle_and_mere_events_do_not_clear_it() {
    let mut world = in_a_turn();
    call(&mut world, ASK, None, "Bash", 1);
    world.hook("s1", 100, HookKind::Notification("idle_prompt".into()));
    call(&mut world, BEFORE, Some("a1"), "Read", 7);
    world.pass(600.0);
    assert_eq!(world.state_of("s1"), SessionState::AwaitingPermission);
}

#[test]
fn a_headless_run_is_denied_and_waits_for_nobody() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Headless);
    world.hook("s1", 100, PROMPT);
    call(&mut world, ASK, None, "Bash", 1);
    assert_eq!(world.state_of("s1"), SessionState::Running);
}

#[test]
fn r_01_the_registry_shows_an_interrupt_at_once() {
    let mut world = in_a_turn();
    says(&mut world, RegistryStatus::Busy);
    world.pass(5.0);
    says(&mut world, RegistryStatus::Idle);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert!(matches!(*world.session("s1").turn, Turn::Interrupted { .. }));
    world.hook("s1", 100, PROMPT);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.hook("s1", 100, STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

#[test]
fn r_01_a_refused_prompt_is_over_by_the_registry() {
    let mut world = in_a_turn();
    call(&mut world, ASK, None, "Bash", 1);
    says(&mut world, RegistryStatus::WaitingPermission);
    world.pass(3.0);
    says(&mut world, RegistryStatus::Idle);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert_eq!(world.session("s1").waits.len(), 0);
}

#[test]
fn r_02_after_stop_the_registry_still_busy_is_a_queued_turn() {
    let mut world = in_a_turn();
    says(&mut world, RegistryStatus::Busy);
    world.hook("s1", 100, PROMPT);
    world.hook("s1", 100, STOP);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.pass(1.0);
    says(&mut world, RegistryStatus::Idle);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// `!cmd` fires no hook while it runs.
#[test]
fn r_04_busy_without_a_prompt_is_running() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    says(&mut world, RegistryStatus::Busy);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    says(&mut world, RegistryStatus::Idle);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

#[test]
fn r_21_a_registry_that_does_not_follow_is_a_disagreement() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    says(&mut world, RegistryStatus::Idle);
    world.pass(60.0);
    world.hook("s1", 100, PROMPT);
    assert_eq!(
        (world.state_of("s1"), *world.session("s1").contested),
        (SessionState::Running, None)
    );
    world.pass(1.9);
    assert_eq!(world.session("s1").contested, None);
    world.pass(0.2);
    assert!(world.session("s1").contested.is_some());
    assert_eq!(world.state_of("s1"), SessionState::Running);
    says(&mut world, RegistryStatus::Busy);
    assert_eq!(world.session("s1").contested, None);
}

#[test]
fn r_03_what_busy_means_after_stop_hooks_know() {
    let mut world = in_a_turn();
    world.hook("s1", 100, HookKind::Stop(Background { tasks: 0, subagents: 1, crons: 0 }));
    says(&mut world, RegistryStatus::Busy);
    assert_eq!(world.state_of("s1"), SessionState::Background);
    let mut world = in_a_turn();
    world.hook("s1", 100, STOP);
    says(&mut world, RegistryStatus::Shell);
    assert_eq!(world.state_of("s1"), SessionState::Background);
}

// H-35: dialogs of the client's own are waits; a word that is not in the table is no source.
#[test]
fn h_35_dialogs_wait_and_unknown_words_say_nothing() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    says(&mut world, RegistryStatus::WaitingInput);
    assert_eq!(world.state_of("s1"), SessionState::AwaitingInput);
    let changed_ms = world.now().wall_ms;
    world.registry(100, entry("s1", None, changed_ms), false);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// with the registry behind it, an open turn may be silent; without it, it may not.
#[test]
fn r_01_a_vouched_turn_may_be_silent_until_the_registry_is_lost() {
    let mut world = in_a_turn();
    says(&mut world, RegistryStatus::Busy);
    world.pass(5_000.0);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.registry(100, no_registry(), false);
    world.pass(1.0);
    assert_eq!(world.state_of("s1"), SessionState::Unknown);
}

#[test]
fn r_21_a_session_no_hook_reported_is_listed_and_becomes_an_ordinary_one() {
    let mut world = World::new();
    let changed_ms = world.now().wall_ms;
    world.registry(100, entry("s1", Some(RegistryStatus::Idle), changed_ms), false);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert!(world.session("s1").last.is_none());
    // The same process under another id, as after /clear: only the registry tells.
    world.registry(100, entry("s2", Some(RegistryStatus::Idle), changed_ms + 1), false);
    assert_eq!(*world.session("s2").previous_ids, ["s1"]);
    world.pass(1.0);
    world.hook("s2", 100, PROMPT);
    assert_eq!(world.state_of("s2"), SessionState::Running);
    assert_eq!(world.state.sessions().len(), 1);
    world.seen_alive(100);
    world.die(100, Registry::Absent);
    assert_eq!(world.state_of("s2"), SessionState::Stopped);
}

// H-42: the registry may know of a resume before its SessionStart arrives.
#[test]
fn h_42_a_resume_that_the_registry_tells_first_is_the_same_record() {
    let mut world = in_a_turn();
    world.die(100, entry("s1", Some(RegistryStatus::Busy), 0));
    assert_eq!(world.state_of("s1"), SessionState::Crashed);
    let resumed = entry("s1", Some(RegistryStatus::Idle), world.now().wall_ms);
    world.registry(200, resumed, false);
    assert_eq!((world.state_of("s1"), world.state.sessions().len()), (SessionState::Idle, 1));
    world.hook("s1", 200, HookKind::SessionStart(StartSource::Resume));
    assert_eq!((world.state_of("s1"), world.state.sessions().len()), (SessionState::Idle, 1));
}

#[test]
fn r_20_what_another_supervisor_owns_is_foreign() {
    let mut world = World::new();
    let entry = RegistryEntry {
        session_id: "s1".into(),
        status: Some("busy".into()),
        changed_ms: world.now().wall_ms,
        is_foreign: true,
        ..RegistryEntry::default()
    };
    world.registry(100, Registry::Present(entry), false);
    assert_eq!(world.state_of("s1"), SessionState::Foreign);
}

#[test]
fn r_10_ctrl_z_is_told_by_the_process_alone() {
    let mut world = in_a_turn();
    says(&mut world, RegistryStatus::Busy);
    for (is_stopped, word) in [(true, SessionState::Suspended), (false, SessionState::Running)] {
        let process = process(100);
        let forked_from = None;
        world.take(&Event::ProcessSeen(ProcessSeen {
            process,
            alive: true,
            kind: None,
            is_stopped,
            forked_from,
            launch: None,
        }));
        assert_eq!(world.state_of("s1"), word);
    }
}

#[test]
fn r_11_typed_errors_are_states_of_their_own_until_the_next_turn() {
    for (error, word) in [
        ("rate_limit", SessionState::QuotaWait),
        ("authentication_failed", SessionState::BlockedAuth),
        ("billing_error", SessionState::BlockedBilling),
        ("server_error", SessionState::Idle),
        ("unknown", SessionState::Idle),
    ] {
        let mut world = in_a_turn();
        says(&mut world, RegistryStatus::Busy);
        world.hook("s1", 100, HookKind::StopFailure(error.into()));
        says(&mut world, RegistryStatus::Idle);
        assert_eq!(world.state_of("s1"), word, "{error}");
        world.hook("s1", 100, PROMPT);
        assert_eq!(world.state_of("s1"), SessionState::Running, "{error}");
    }
}

#[test]
fn an_end_and_a_new_process_clear_the_waits() {
    let mut world = in_a_turn();
    call(&mut world, ASK, None, "Bash", 1);
    world.hook("s1", 100, END);
    assert_eq!(world.session("s1").waits.len(), 0);
    let mut world = in_a_turn();
    call(&mut world, ASK, None, "Bash", 1);
    world.hook("s2", 100, HookKind::SessionStart(StartSource::Clear));
    assert_eq!(world.session("s2").waits.len(), 0);
    let mut world = in_a_turn();
    call(&mut world, ASK, None, "Bash", 1);
    world.exit(100);
    world.hook("s1", 200, START);
    assert_eq!(world.session("s1").waits.len(), 0);
}

// between the turn and the one of queued prompts the registry says idle for a moment; if it
// goes on saying so, the prompts were taken back.
#[test]
fn r_02_the_moment_between_two_turns_is_no_rest() {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    let of_turn = |world: &mut World, turn: &str, kind: HookKind| {
        let mut event = world.event("s1", 100, kind, 0.0);
        event.prompt_id = Some(turn.into());
        world.send(event);
        world.seconds += 0.01;
    };
    of_turn(&mut world, "a", PROMPT);
    of_turn(&mut world, "a", PROMPT);
    of_turn(&mut world, "a", STOP);
    let changed_ms = world.now().wall_ms;
    world.registry(100, entry("s1", Some(RegistryStatus::Idle), changed_ms), false);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.pass(0.5);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.pass(0.5);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    of_turn(&mut world, "b", PROMPT);
    of_turn(&mut world, "b", STOP);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

/// An event of a main thread's call, emitted `ago` seconds ago.
fn late_call(world: &mut World, kind: HookKind, tool: &str, digest: Option<u64>, ago: f64) {
    let mut event = world.event("s1", 100, kind, ago);
    event.tool = Some(tool.into());
    event.digest = digest;
    world.send(event);
    world.seconds += 0.001;
}

// G2, S0-18: the client adds to a plan's input; a call without a digest is told from none.
#[test]
fn g2_a_late_request_is_told_by_its_input_but_for_plans() {
    for (tool, asked, word) in [
        ("Bash", Some(1), SessionState::Running),
        ("Bash", Some(2), SessionState::AwaitingPermission),
        ("Bash", None, SessionState::AwaitingPermission),
        ("AskUserQuestion", Some(1), SessionState::Running),
        ("AskUserQuestion", Some(2), SessionState::AwaitingInput),
        ("ExitPlanMode", Some(2), SessionState::Running),
    ] {
        let mut world = in_a_turn();
        world.pass(10.0);
        late_call(&mut world, TOOL, tool, Some(1), 0.0);
        late_call(&mut world, ASK, tool, asked, 2.0);
        assert_eq!(world.state_of("s1"), word, "{tool} {asked:?}");
    }
    let mut world = in_a_turn();
    world.pass(10.0);
    late_call(&mut world, TOOL, "Bash", None, 0.0);
    late_call(&mut world, ASK, "Bash", None, 2.0);
    assert_eq!(world.state_of("s1"), SessionState::AwaitingPermission);
}

// G2: a few calls are remembered as over, and none that an edge makes late anyway.
#[test]
fn g2_what_is_over_is_remembered_in_bounds() {
    let mut world = in_a_turn();
    for digest in 0..20 {
        call(&mut world, TOOL, None, "Bash", digest);
    }
    assert_eq!(world.session("s1").over.len(), 8);
    world.pass(10.0);
    late_call(&mut world, ASK, "Bash", Some(19), 10.5);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.hook("s1", 100, STOP);
    assert!(world.session("s1").over.is_empty());
}

// S0-18: only a status that is newer than the prompt says that it is over.
#[test]
fn s0_18_an_older_status_ends_no_wait() {
    let mut world = in_a_turn();
    let changed_ms = world.now().wall_ms;
    world.pass(1.0);
    call(&mut world, ASK, None, "Bash", 1);
    world.registry(100, entry("s1", Some(RegistryStatus::Busy), changed_ms), false);
    assert_eq!(world.session("s1").waits.len(), 1);
    says(&mut world, RegistryStatus::Busy);
    assert_eq!(world.session("s1").waits.len(), 0);
}

// S0-18: a prompt that lay in the spool while the registry said that the client waits no longer is over: no hook would
// report that a person refused it. A hidden one is not over by `busy`, and one that came over the socket is news.
#[test]
fn s0_18_a_prompt_from_the_spool_is_over_by_a_newer_status() {
    for (status, via, asked_ago, waits) in [
        (RegistryStatus::Busy, Via::Spool, 30.0, 0),
        (RegistryStatus::Idle, Via::Spool, 30.0, 0),
        (RegistryStatus::WaitingInput, Via::Spool, 30.0, 1),
        (RegistryStatus::Busy, Via::Spool, 5.0, 1),
        (RegistryStatus::Busy, Via::Socket, 30.0, 1),
    ] {
        for kind in [ASK, HookKind::Notification("permission_prompt".into())] {
            let mut world = World::new();
            world.open("s1", 100, Kind::Interactive);
            world.pass(60.0);
            let ago = if kind == ASK { asked_ago } else { asked_ago - 6.0 };
            world.pass(10.0);
            says(&mut world, status);
            world.pass(15.0);
            let mut event = world.event("s1", 100, kind.clone(), ago);
            (event.tool, event.via) = (Some("ExitPlanMode".into()), via);
            world.send(event);
            assert_eq!(world.session("s1").waits.len(), waits, "{status:?} {kind:?} {via:?} {ago}");
        }
    }
}

// who was first heard in the midst of something is not idle until something says so.
#[test]
fn r_01_before_the_first_edge_the_registry_and_one_look_tell() {
    let heard = |kind: HookKind| {
        let mut world = World::new();
        let mut event = world.event("s1", 100, kind, 0.0);
        event.agent = Some("a1".into());
        world.send(event);
        assert_eq!(world.state_of("s1"), SessionState::Unknown);
        world.pass(2.0);
        world
    };
    for kind in [TOOL, STOP, HookKind::SubagentStop, HookKind::PermissionDenied] {
        for (status, screen, word) in [
            (RegistryStatus::Idle, Screen::Prompt, SessionState::Idle),
            (RegistryStatus::Busy, Screen::Working, SessionState::Running),
        ] {
            let mut world = heard(kind.clone());
            says(&mut world, status);
            assert_eq!(world.state_of("s1"), word);
            let mut world = heard(kind.clone());
            world.screen(100, screen);
            assert_eq!(world.state_of("s1"), word);
        }
        for (edge, word) in [
            (START, SessionState::Idle),
            (PROMPT, SessionState::Running),
            (STOP, SessionState::Idle),
        ] {
            let mut world = heard(kind.clone());
            world.hook("s1", 100, edge);
            assert_eq!(world.state_of("s1"), word);
        }
    }
}

// the registry is older than what a hook said, though the wall clock was put back between the two.
#[test]
fn r_20_the_registry_follows_the_newest_that_hooks_said() {
    let mut world = in_a_turn();
    let mut event = world.event("s1", 100, PROMPT, 0.0);
    event.wall_ms += 9_000;
    let said_ms = event.wall_ms;
    world.send(event);
    world.pass(3.0);
    for (changed_ms, word) in
        [(said_ms - 1_000, SessionState::Running), (said_ms + 1_000, SessionState::Idle)]
    {
        let idle = entry("s1", Some(RegistryStatus::Idle), changed_ms);
        world.registry(100, idle, false);
        assert_eq!(world.state_of("s1"), word);
    }
}
