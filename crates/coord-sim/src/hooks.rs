//! The hook executables of the simulated machine: from a payload, as the client writes it, to an
//! envelope, and from there to the spool.
//!
//! The real executables are proved by running them; here only what they leave behind counts. It
//! has to be what they leave: the same fields, the same framing, the same lock.

use std::io;
use std::path::Path;

use coord_model::envelope::{ENVELOPE_VERSION, Envelope, TmuxClaim};
use coord_model::stamp::rfc3339;
use coord_model::{Harness, ProcessRef};
use coord_store::disk::{Disk, DiskFile};
use coord_testkit::FakeDisk;
use coord_wire::{frame, spool};
use serde_json::{Value, json};
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;

use crate::machine::{MACHINE, Machine, PID_NS};
use crate::serving::CONFIG_DIR;

/// The events at which an interactive client starts its wake hook as well (H-02).
pub const ARMING: [&str; 3] = ["SessionStart", "Stop", "StopFailure"];

/// What a hook knows beside its payload.
#[derive(Debug, Clone)]
pub struct Hook {
    /// Its event's id.
    pub id: u128,
    /// Its pid.
    pub pid: u32,
    /// CLOCK_MONOTONIC at its start.
    pub mono_ns: u64,
    /// Wall time at its start.
    pub wall_ms: u64,
    /// Kernel boot id.
    pub boot: String,
    /// The client's process.
    pub harness: Option<Harness>,
    /// What its environment says of tmux.
    pub tmux: Option<TmuxClaim>,
    /// The client's configuration directory.
    pub config_dir: String,
}

impl Hook {
    /// A hook that a client starts now, outside tmux: its child, with the pid after its own. The id is made
    /// of the time alone.
    pub fn of_client(machine: &Machine, client: ProcessRef) -> Self {
        let ProcessRef { pid, start_time } = client;
        let running = machine.processes.get(&pid).filter(|_| machine.is_alive(client));
        Self {
            id: (u128::from(machine.now.wall_ms) << 80) | u128::from(machine.now.mono_ns),
            pid: pid + 1,
            mono_ns: machine.now.mono_ns,
            wall_ms: machine.now.wall_ms,
            boot: machine.boot.clone(),
            harness: running.map(|process| Harness {
                pid,
                start_time,
                pid_ns: PID_NS,
                tty: process.tty,
                kind: Some(process.kind),
            }),
            tmux: None,
            config_dir: CONFIG_DIR.to_owned(),
        }
    }
}

/// The envelope that a hook makes of a payload.
pub fn envelope(hook: &Hook, payload: &Value) -> serde_json::Result<Envelope> {
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let count = |name: &str| payload.get(name).and_then(Value::as_array).map(Vec::len);
    let is_subagent = |task: &&Value| task.get("type").is_some_and(|is| is == "subagent");
    let tasks = payload.get("background_tasks").and_then(Value::as_array);
    let event = text("hook_event_name").unwrap_or_default();
    let only_of = |name: &str, of: &str| text(name).filter(|_| event == of);
    serde_json::from_value(json!({
        "v": ENVELOPE_VERSION,
        "id": format!("{:032x}", hook.id),
        "event": event,
        "session_id": text("session_id").unwrap_or_default(),
        "emitted_at": rfc3339(hook.wall_ms),
        "mono_ns": hook.mono_ns,
        "boot": hook.boot,
        "host": "host",
        "machine": MACHINE,
        "pid": hook.pid,
        "harness": hook.harness,
        "tmux": hook.tmux,
        "cwd": text("cwd").unwrap_or_default(),
        "transcript_path": text("transcript_path").unwrap_or_default(),
        "permission_mode": text("permission_mode"),
        "config_dir": hook.config_dir,
        "prompt_id": text("prompt_id"),
        "agent_id": text("agent_id"),
        "agent_type": text("agent_type"),
        "source": only_of("source", "SessionStart"),
        "reason": only_of("reason", "SessionEnd"),
        "error": only_of("error", "StopFailure"),
        "tool_name": text("tool_name"),
        "tool_use_id": text("tool_use_id"),
        "notification_type": text("notification_type"),
        "background_tasks": tasks.map(Vec::len),
        "background_subagents": tasks.map(|tasks| tasks.iter().filter(is_subagent).count()),
        "session_crons": count("session_crons"),
        "stop_hook_active": payload.get("stop_hook_active").and_then(Value::as_bool),
        "tool_input_digest": digest_of_input(payload, event),
        "hook": coord_wire::VERSION,
    }))
}

/// Of an answered question's input its questions alone: the client adds the answer (measured).
fn digest_of_input(payload: &Value, event: &str) -> Option<String> {
    let input = payload.get("tool_input")?;
    let is_question = payload.get("tool_name").is_some_and(|tool| tool == "AskUserQuestion");
    let questions = input.get("questions").filter(|_| is_question && event == "PostToolUse");
    Some(questions.map_or_else(|| digest(input), |all| digest(&json!({"questions": all}))))
}

fn digest(input: &Value) -> String {
    // The key of a machine without a key file.
    let mut hasher = SipHasher24::new();
    hasher.write(input.to_string().as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Spools an envelope. With `bytes_max` the hook is killed when so many bytes of its record are
/// written. True if all of it is there.
///
/// # Errors
/// The disk's.
pub fn spool(
    disk: &FakeDisk,
    dir: &Path,
    id: u128,
    text: &[u8],
    bytes_max: usize,
) -> io::Result<bool> {
    let mut record = Vec::new();
    frame::push(&mut record, text);
    let written = record.get(..bytes_max.min(record.len())).unwrap_or_default();
    let current = dir.join(spool::CURRENT);
    let mut file = disk.open_append(&current)?;
    if !file.try_lock()? {
        let mut solo = disk.open_append(&dir.join(format!("{}{id:032x}", spool::SOLO_PREFIX)))?;
        solo.append(written)?;
        return Ok(written.len() == record.len());
    }
    if file.len()? < spool::HEADER_BYTES as u64 {
        file.truncate(0)?;
        let mut header = vec![0; spool::HEADER_BYTES];
        if let Some(magic) = header.get_mut(..spool::HEADER_MAGIC.len()) {
            magic.copy_from_slice(&spool::HEADER_MAGIC);
        }
        file.append(&header)?;
    }
    file.append(written)?;
    Ok(written.len() == record.len())
}
