//! Decides whether a permission, question or plan prompt is open, as far as hooks say (S0-17, S0-18,
//! The registry's word is weighed against it in `fusion`.
//!
//! Waits are a set, keyed by agent, tool and input digest. What is over is told by a sign that *this*
//! prompt is over, never by mere new output. A request that comes after its own call's result opens
//! nothing: no sign of its end is left to come (G2). A headless run is denied at once where nobody can
//! be asked, so its requests open no wait.

use alloc::string::String;
use alloc::vec::Vec;

use crate::records::{Over, Session, Stamp, Wait, WaitKind};
use coord_model::{HookEvent, HookKind, Kind, Moment, StartSource, ToolPhase};

/// Open prompts per session; more are not told apart.
const WAITS_MAX: usize = 32;

/// Calls remembered as over: those whose request may still be on its way.
const OVER_MAX: usize = 8;

/// A permission prompt is notified no sooner than this after it opened (measured: 6.1 s).
const NOTIFIED_AFTER_MS: u64 = 6_000;

/// Whether the event asks for something that is over: the result of that very call, or the end of its
/// subagent, is newer. A notification names no call: any result of its thread will do, as it would had
/// it come in time. A request without a digest is told from no other call's, and never taken for late.
pub(crate) fn is_over(session: &Session, event: &HookEvent, stamp: Stamp) -> bool {
    let is_request = event.kind == HookKind::PermissionRequest;
    if !is_request && !matches!(event.kind, HookKind::Notification(_)) {
        return false;
    }
    let (thread, call) = (thread_key(event), is_request.then(|| call_key(event)));
    let is_told = event.digest.is_some() || kind_of(event) == WaitKind::Input;
    session
        .over
        .iter()
        .filter(|over| over.thread == thread && stamp.mono_ns < over.mono_ns)
        .any(|over| call.is_none() || over.call.is_none() || (is_told && over.call == call))
}

/// Remembers what the event says to be over.
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
        | HookKind::Other(_) => return,
    };
    if session.over.len() == OVER_MAX {
        session.over.remove(0);
    }
    session.over.push(Over { thread: thread_key(event), call, mono_ns: stamp.mono_ns });
}

fn thread_key(event: &HookEvent) -> u32 {
    key_of(&[event.agent.as_deref().unwrap_or_default().as_bytes()])
}

/// A question's answer becomes part of the tool's input, so there the input does not tell.
fn call_key(event: &HookEvent) -> u32 {
    let digest = event.digest.filter(|_| kind_of(event) == WaitKind::Permission);
    let digest = digest.map(u64::to_be_bytes);
    let tool = event.tool.as_deref().unwrap_or_default().as_bytes();
    key_of(&[tool, digest.as_ref().map_or(&[], <[u8; 8]>::as_slice)])
}

/// FNV-1a, each part closed by a byte that no UTF-8 text has.
fn key_of(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0xff]));
    bytes.fold(0x811c_9dc5, |key, byte| (key ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Applies a hook's event to the waits of its session.
pub(crate) fn apply(session: &mut Session, event: &HookEvent, stamp: Stamp, at: Moment) {
    remember_over(session, event, stamp);
    match &event.kind {
        HookKind::PermissionRequest => {
            if session.kind != Some(Kind::Headless) {
                let tool = event.tool.clone().unwrap_or_default();
                open(&mut session.waits, event, tool, at);
            }
        }
        HookKind::Notification(kind) => on_notification(session, event, kind, at),
        HookKind::Tool(ToolPhase::After | ToolPhase::Failed) | HookKind::PermissionDenied => {
            session.waits.retain(|wait| !is_of(wait, event));
        }
        HookKind::UserPromptSubmit | HookKind::Stop(_) | HookKind::StopFailure(_) => {
            session.waits.retain(|wait| wait.agent != event.agent);
        }
        // A compaction reports subagents that nobody started, perhaps without an id.
        HookKind::SubagentStop => {
            session.waits.retain(|wait| wait.agent.is_none() || wait.agent != event.agent);
        }
        // Compaction may come while a subagent asks.
        HookKind::SessionStart(StartSource::Compact)
        | HookKind::Tool(ToolPhase::Before)
        | HookKind::Other(_) => (),
        HookKind::SessionStart(_) | HookKind::SessionEnd(_) => session.waits.clear(),
    }
}

/// Whether the event says that this prompt is over. A notification's wait has no tool and is over
/// with any result of its agent. A question's answer becomes part of the tool's input, so there the
/// input does not tell.
fn is_of(wait: &Wait, event: &HookEvent) -> bool {
    let same_tool = event.tool.as_ref().is_some_and(|tool| *tool == wait.tool);
    let is_answer = wait.kind == WaitKind::Input;
    let same_input =
        is_answer || wait.digest.is_none() || event.digest.is_none() || wait.digest == event.digest;
    wait.agent == event.agent && (wait.tool.is_empty() || (same_tool && same_input))
}

/// What a request for this tool asks for.
fn kind_of(event: &HookEvent) -> WaitKind {
    match event.tool.as_deref() {
        Some("AskUserQuestion" | "ExitPlanMode") => WaitKind::Input,
        Some(_) | None => WaitKind::Permission,
    }
}

fn open(waits: &mut Vec<Wait>, event: &HookEvent, tool: String, at: Moment) {
    let kind = kind_of(event);
    if waits.len() < WAITS_MAX {
        let (agent, digest) = (event.agent.clone(), event.digest);
        waits.push(Wait { agent, tool, digest, kind, since: at });
    }
}

/// The notification comes six seconds late and names no tool: it counts only where the
/// request itself was lost.
fn on_notification(session: &mut Session, event: &HookEvent, kind: &str, at: Moment) {
    let asked = match kind {
        "permission_prompt" => WaitKind::Permission,
        "agent_needs_input" => WaitKind::Input,
        _ => return,
    };
    // One that was on its way when its prompt was answered comes after the answer.
    let late_ms = if asked == WaitKind::Permission { NOTIFIED_AFTER_MS } else { 0 };
    let asked_ms = at.wall_ms.saturating_sub(late_ms);
    let is_over = late_ms != 0 && asked_ms < session.edge_at.wall_ms;
    if session.waits.is_empty() && !is_over {
        let agent = event.agent.clone();
        let (tool, since) = (String::new(), Moment { wall_ms: asked_ms, ..at });
        session.waits.push(Wait { agent, tool, digest: None, kind: asked, since });
    }
}
