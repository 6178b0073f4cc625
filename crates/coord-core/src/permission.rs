//! Decides whether a permission, question or plan prompt is open, as far as hooks report it (S0-17, S0-18, R-05).
//! `fusion` weighs the registry against that.
//!
//! Waits are a set, keyed by agent, tool and input digest. Only a sign that *this* prompt is over ends a wait,
//! never mere new output. A request that comes after the result of its own call opens nothing, because no sign of
//! its end would follow (G2). A headless run is denied at once if nobody can be asked, so its requests open a wait
//! only where a hook of coord's may wait for a reply.

use alloc::string::String;
use alloc::vec::Vec;

use crate::records::{Over, Session, Stamp, UnderWay, Wait, WaitKind};
use coord_model::{
    Awake, HookEvent, HookKind, Kind, Moment, RequestId, StartSource, ToolPhase, Via,
};

/// Minimum time between a permission prompt and its notification, in milliseconds (measured: 6.1 s).
const NOTIFIED_AFTER_MS: u64 = 6_000;

/// Whether the event requests something that is over, because the result of that very call, or the end of its
/// subagent, is newer. A notification names no call, so any result of its thread counts, as it would have if the
/// notification had been in time. A request without a digest cannot be told from that of another call, and never
/// counts as late.
pub(crate) fn is_over(session: &Session, event: &HookEvent, stamp: Stamp) -> bool {
    let is_request = event.kind == HookKind::PermissionRequest;
    if !is_request && !matches!(event.kind, HookKind::Notification(_)) {
        return false;
    }
    let (thread, call) = (thread_key(event), is_request.then(|| call_key(event)));
    let is_identified = event.digest.is_some() || is_plan(event);
    session
        .over
        .iter()
        .filter(|over| over.thread == thread && stamp.mono_ns < over.mono_ns)
        .any(|over| call.is_none() || over.call.is_none() || (is_identified && over.call == call))
}

/// Remembers what this event reports as over.
fn remember_over(session: &mut Session, event: &HookEvent, stamp: Stamp) {
    let call = match &event.kind {
        HookKind::Tool(ToolPhase::After | ToolPhase::Failed) | HookKind::PermissionDenied => {
            Some(call_key(event))
        }
        HookKind::UserPromptSubmit
        | HookKind::Stop(_)
        | HookKind::StopFailure(_)
        | HookKind::SubagentStop
            if event.agent.is_some() =>
        {
            None
        }
        HookKind::SessionStart(_)
        | HookKind::SessionEnd(_)
        | HookKind::UserPromptSubmit
        | HookKind::Tool(ToolPhase::Before)
        | HookKind::Stop(_)
        | HookKind::StopFailure(_)
        | HookKind::PermissionRequest
        | HookKind::Notification(_)
        | HookKind::SubagentStop
        | HookKind::StatusLine(_)
        | HookKind::Other(_) => return,
    };
    session.over.remember(Over { thread: thread_key(event), call, mono_ns: stamp.mono_ns });
}

fn thread_key(event: &HookEvent) -> u32 {
    key_of(&[event.agent.as_deref().unwrap_or_default().as_bytes()])
}

/// Key of a call.
fn call_key(event: &HookEvent) -> u32 {
    let digest = event.digest.filter(|_| !is_plan(event));
    let digest = digest.map(u64::to_be_bytes);
    let tool = event.tool.as_deref().unwrap_or_default().as_bytes();
    key_of(&[tool, digest.as_ref().map_or(&[], <[u8; 8]>::as_slice)])
}

/// FNV-1a hash. Each part ends with a byte that no UTF-8 text contains.
fn key_of(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0xff]));
    bytes.fold(0x811c_9dc5, |key, byte| (key ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Applies a hook's event to the waits of its session. `hidden_ms`: how long the hook of this request may wait while the
/// client shows no dialog.
pub(crate) fn apply(
    session: &mut Session,
    event: &HookEvent,
    stamp: Stamp,
    (at, hidden_ms): (Moment, Option<u64>),
) {
    remember_over(session, event, stamp);
    match &event.kind {
        HookKind::PermissionRequest => {
            if session.kind != Some(Kind::Headless) || hidden_ms.is_some() {
                let call = take_call(session, event, stamp.mono_ns);
                let hidden_until = hidden_ms.map(|ms| at.awake.plus_ms(ms));
                open(session, event, (call, hidden_until), (stamp, at));
            }
        }
        HookKind::Notification(kind) => on_notification(session, event, kind, (stamp, at)),
        HookKind::Tool(ToolPhase::After | ToolPhase::Failed) | HookKind::PermissionDenied => {
            on_result(session, event, stamp);
        }
        HookKind::UserPromptSubmit | HookKind::Stop(_) | HookKind::StopFailure(_) => {
            session.waits.end_of_thread(event.agent.as_ref());
        }
        // A compaction reports subagents that were never started, possibly without an id.
        HookKind::SubagentStop => {
            if event.agent.is_some() {
                session.waits.end_of_thread(event.agent.as_ref());
            }
        }
        // Compaction may happen while a subagent asks.
        HookKind::SessionStart(StartSource::Compact)
        | HookKind::StatusLine(_)
        | HookKind::Other(_) => (),
        HookKind::Tool(ToolPhase::Before) => on_call(session, event, stamp),
        HookKind::SessionStart(_) | HookKind::SessionEnd(_) => session.waits.end_all(),
    }
}

/// Ends the prompt of a call that has a result. A result ends no prompt that was asked after it; only a notification comes
/// late. Two identical requests are two prompts, which are answered one after the other (U-01). No hook reports that one
/// was denied, so the prompt of the very call goes first.
fn on_result(session: &mut Session, event: &HookEvent, stamp: Stamp) {
    let is_asked =
        |wait: &Wait| is_of(wait, event) && (wait.tool.is_empty() || wait.mono_ns <= stamp.mono_ns);
    let is_named = |wait: &Wait| event.call.is_some() && wait.call == event.call && is_asked(wait);
    if session.waits.iter().any(is_named) {
        // All of them, if its hook is registered twice.
        session.waits.end_all_of(is_named);
        return;
    }
    // One whose call is known is rather that call's, unless it was given the name of an earlier prompt's.
    let knows_its_call = |wait: &Wait| {
        let has_its_name = |other: &Wait| {
            other.mono_ns < wait.mono_ns && other.call.is_some() && other.call == wait.call
        };
        wait.call.is_some() && !session.waits.iter().any(has_its_name)
    };
    // The client shows the one first that it asked first. One that was replied to is decided, whichever is shown.
    let is_replied =
        |wait: &Wait| session.replies.iter().any(|reply| Some(reply.request) == wait.request);
    let asked = session.waits.iter().enumerate().filter(|(_, wait)| is_asked(wait));
    let over = asked
        .min_by_key(|(_, wait)| (knows_its_call(wait), !is_replied(wait), wait.mono_ns))
        .map(|(place, _)| place);
    if let Some(over) = over {
        session.waits.end_at(over);
    }
}

/// Names the call of a prompt whose request was faster on its way than the report that its call begins. It has no name
/// yet, or that of an earlier prompt: it was taken for the same question, asked by a second hook.
fn on_call(session: &mut Session, event: &HookEvent, stamp: Stamp) {
    let is_earlier = |wait: &&Wait| wait.mono_ns < stamp.mono_ns && is_call(wait, event);
    let earlier = session.waits.iter().filter(is_earlier);
    let earlier: Vec<String> = earlier.filter_map(|wait| wait.call.clone()).collect();
    let is_it = |wait: &Wait| {
        let may_be_its = wait.call.as_ref().is_none_or(|call| earlier.contains(call));
        may_be_its && stamp.mono_ns <= wait.mono_ns && is_call(wait, event)
    };
    if let Some(asked_ns) = session.waits.iter().find(|one| is_it(one)).map(|one| one.mono_ns) {
        let call = take_call(session, event, asked_ns);
        session.waits.name_call(call, is_it);
    }
}

/// Whether the event shows that this prompt is over. The wait of a notification has no tool, and is over with any
/// result of its agent.
fn is_of(wait: &Wait, event: &HookEvent) -> bool {
    let same_tool = event.tool.as_ref().is_some_and(|tool| *tool == wait.tool);
    let same_input = is_plan(event)
        || wait.digest.is_none()
        || event.digest.is_none()
        || wait.digest == event.digest;
    wait.agent == event.agent && (wait.tool.is_empty() || (same_tool && same_input))
}

/// Whether the event reports the very call that this prompt is about.
fn is_call(wait: &Wait, event: &HookEvent) -> bool {
    wait.agent == event.agent
        && event.tool.as_ref() == Some(&wait.tool)
        && is_same_input(event, wait.digest)
}

/// Whether the report that a call begins and its request have the same input.
fn is_same_input(event: &HookEvent, digest: Option<u64>) -> bool {
    is_plan(event) || (event.digest.is_some() && event.digest == digest)
}

/// Whether the event is about a plan. The client adds to a plan's input between the report of its call, its request and its
/// result (measured), so that of plans is not compared.
fn is_plan(event: &HookEvent) -> bool {
    event.tool.as_deref() == Some("ExitPlanMode")
}

/// The client's id of the call that a request of the main thread is about, which was emitted at `asked_ns`: the one that
/// had begun, since the client waits for the hook of that before it asks (measured), and that no prompt was about. Where
/// there are several with the same input, nobody knows which: a request may have been lost, or comes late. A question that
/// is asked again while its prompt is open is the same one: its hook is registered twice.
fn take_call(session: &mut Session, event: &HookEvent, asked_ns: u64) -> Option<String> {
    if event.agent.is_some() {
        return None;
    }
    let is_input = kind_of(event) == WaitKind::Input;
    let call = session.under_way.ask_about(|one: &UnderWay| {
        let has_begun = one.mono_ns <= asked_ns && !one.is_asked;
        has_begun && event.tool.as_ref() == Some(&one.tool) && is_same_input(event, one.digest)
    });
    call.or_else(|| {
        let is_same = |wait: &&Wait| wait.digest == event.digest && is_call(wait, event);
        let open = session.waits.iter().filter(|_| is_input).find(is_same);
        open.and_then(|wait| wait.call.clone())
    })
}

/// What a request for this tool asks for.
fn kind_of(event: &HookEvent) -> WaitKind {
    match event.tool.as_deref() {
        Some("AskUserQuestion" | "ExitPlanMode") => WaitKind::Input,
        Some(_) | None => WaitKind::Permission,
    }
}

fn open(
    session: &mut Session,
    event: &HookEvent,
    (call, hidden_until): (Option<String>, Option<Awake>),
    (stamp, since): (Stamp, Moment),
) {
    let (agent, digest, kind) = (event.agent.clone(), event.digest, kind_of(event));
    let tool = event.tool.clone().unwrap_or_default();
    let (request, mono_ns) = (Some(RequestId(event.id)), stamp.mono_ns);
    let wait = Wait { agent, tool, digest, kind, call, request, since, mono_ns, hidden_until };
    open_unless_over(session, event, wait);
}

/// Opens a prompt, unless it lay in the spool while the client's registry said that the client waits no longer: no later
/// sign of its end would follow, since no hook reports that a person refused it.
fn open_unless_over(session: &mut Session, event: &HookEvent, wait: Wait) {
    let level = session.registry.level().filter(|level| !level.is_waiting());
    let is_over = level.is_some_and(|level| wait.is_ended_by(level, None));
    if !(event.via == Via::Spool && is_over) {
        session.waits.open(wait);
    }
}

/// Applies a notification. It comes six seconds late and names no tool, so it counts only if the request
/// itself was lost.
fn on_notification(
    session: &mut Session,
    event: &HookEvent,
    kind: &str,
    (stamp, at): (Stamp, Moment),
) {
    let asked = match kind {
        "permission_prompt" => WaitKind::Permission,
        "agent_needs_input" => WaitKind::Input,
        _ => return,
    };
    // A notification that was on its way when its prompt was answered arrives after the answer.
    let late_ms = if asked == WaitKind::Permission { NOTIFIED_AFTER_MS } else { 0 };
    let asked_ms = at.wall_ms.saturating_sub(late_ms);
    let is_over = late_ms != 0 && asked_ms < session.edge_at.wall_ms;
    if session.waits.is_empty() && !is_over {
        let agent = event.agent.clone();
        let (tool, since) = (String::new(), Moment { wall_ms: asked_ms, ..at });
        let request = Some(RequestId(event.id));
        let wait = Wait {
            agent,
            tool,
            digest: None,
            kind: asked,
            call: None,
            request,
            since,
            mono_ns: stamp.mono_ns,
            hidden_until: None,
        };
        open_unless_over(session, event, wait);
    }
}
