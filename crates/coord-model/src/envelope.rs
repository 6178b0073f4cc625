//! The event envelope, version 1: what a hook reports (interfaces.md, Hook executables).
//!
//! Hooks write it by hand, because they do not link serde; all other programs read it with `Envelope`. Unknown
//! fields are accepted and kept, because the journal stores the text as it came. Prompts, messages, tool inputs
//! and tool outputs have no field, and so cannot get in (G11).

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::stamp::{WallMs, parse_rfc3339};
use crate::{Kind, ProcessRef, Usage};

/// Version of the envelope. It is also part of the request path (`/v1/…`), so the first bytes of an exchange show
/// whether both sides understand each other (H-39).
pub const ENVELOPE_VERSION: u32 = 1;
/// Largest envelope, in bytes (interfaces.md, Limits).
pub const ENVELOPE_BYTES_MAX: usize = 64 * 1024;

/// Name of the event by which `coord doctor` proves that events arrive. It reaches the journal like every event,
/// belongs to no session, and changes no record.
pub const PROBE: &str = "CoordProbe";

/// One event as a hook saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// [`ENVELOPE_VERSION`].
    pub v: u32,
    /// 32 lower-case hex digits, unique, ordered by time of emission.
    pub id: String,
    /// The payload's `hook_event_name`; names unknown to this version are kept.
    pub event: String,
    /// The session the event belongs to.
    pub session_id: String,
    /// Wall time of emission, RFC 3339.
    pub emitted_at: String,
    /// Nanoseconds the machine was awake since its boot, at emission (CLOCK_MONOTONIC).
    pub mono_ns: u64,
    /// The kernel's boot id.
    pub boot: String,
    /// Host name.
    #[serde(default)]
    pub host: String,
    /// Machine id.
    pub machine: String,
    /// Pid of the hook.
    pub pid: u32,
    /// The Claude Code process, if it could be determined.
    #[serde(default)]
    pub harness: Option<Harness>,
    /// What the environment says about tmux; a claim until the pane's terminal proves it (H-16).
    #[serde(default)]
    pub tmux: Option<TmuxClaim>,
    /// Working directory of the session at that moment.
    #[serde(default)]
    pub cwd: String,
    /// Transcript file.
    #[serde(default)]
    pub transcript_path: String,
    /// Permission mode, if the payload has one.
    #[serde(default)]
    pub permission_mode: Option<String>,
    /// Claude Code's configuration directory.
    #[serde(default)]
    pub config_dir: String,
    /// Id of the prompt that the event belongs to.
    #[serde(default)]
    pub prompt_id: Option<String>,
    /// Set inside a subagent.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Kind of subagent, or of a session started with `--agent`.
    #[serde(default)]
    pub agent_type: Option<String>,
    /// SessionStart: startup, resume, clear, compact, fork.
    #[serde(default)]
    pub source: Option<String>,
    /// SessionEnd: prompt_input_exit, logout, clear, resume, other.
    #[serde(default)]
    pub reason: Option<String>,
    /// Tool events.
    #[serde(default)]
    pub tool_name: Option<String>,
    /// Tool events.
    #[serde(default)]
    pub tool_use_id: Option<String>,
    /// Notification.
    #[serde(default)]
    pub notification_type: Option<String>,
    /// StopFailure only: the typed error (of other events it would be tool output).
    #[serde(default)]
    pub error: Option<String>,
    /// Stop, SubagentStop.
    #[serde(default)]
    pub stop_hook_active: Option<bool>,
    /// PostToolUseFailure.
    #[serde(default)]
    pub is_interrupt: Option<bool>,
    /// PostToolUse, PostToolUseFailure: milliseconds.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// Stop, SubagentStop: number of background tasks, subagents included.
    #[serde(default)]
    pub background_tasks: Option<u32>,
    /// Stop, SubagentStop: how many of the background tasks are subagents.
    #[serde(default)]
    pub background_subagents: Option<u32>,
    /// Stop, SubagentStop: number of scheduled wake-ups.
    #[serde(default)]
    pub session_crons: Option<u32>,
    /// Keyed 64-bit digest of the tool input's bytes, 16 hex digits.
    #[serde(default)]
    pub tool_input_digest: Option<String>,
    /// Keyed 64-bit digest of the prompt's bytes, 16 hex digits.
    #[serde(default)]
    pub prompt_digest: Option<String>,
    /// StatusLine: the numbers that the client gives to its status line (N-08).
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Names of fields that were longer than 4 KiB and were cut.
    #[serde(default)]
    pub cut: Vec<String>,
    /// Whether the payload did not end within the limits of size or time. Later fields are then missing.
    #[serde(default)]
    pub incomplete: bool,
    /// Version of the hook program.
    #[serde(default)]
    pub hook: String,
}

/// The Claude Code process an event came from, as the hook saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Harness {
    /// Pid of the process, as the hook sees it.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    #[serde(with = "crate::process::ticks")]
    pub start_time: u64,
    /// Inode of its pid namespace, as the hook sees it.
    pub pid_ns: u64,
    /// Device number of its controlling terminal; 0 without one.
    pub tty: u64,
    /// Judged from argv and terminal (H-24), at SessionStart only.
    #[serde(default)]
    pub kind: Option<Kind>,
}

impl Harness {
    /// The process.
    pub fn process(&self) -> ProcessRef {
        ProcessRef { pid: self.pid, start_time: self.start_time }
    }
}

/// `TMUX` and `TMUX_PANE` of the hook's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxClaim {
    /// Path of the server's socket.
    pub socket: String,
    /// Pid of the server.
    pub server_pid: u32,
    /// Start time of that pid at emission, in ticks; 0 where it could not be read.
    #[serde(with = "crate::process::ticks")]
    pub server_start: u64,
    /// Pane id, such as `%3`.
    pub pane: String,
}

/// Why a text is not a valid envelope.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Not JSON, or a field of the wrong shape; with the parser's message.
    Shape(String),
    /// Another version.
    Version(u32),
    /// A required field is empty or malformed.
    Field(&'static str),
    /// Larger than [`ENVELOPE_BYTES_MAX`].
    TooLarge(usize),
}

impl core::fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Shape(why) => write!(f, "not an event envelope: {why}"),
            Self::Version(v) => write!(f, "envelope version {v}, this coordinator speaks 1"),
            Self::Field(name) => write!(f, "envelope field {name} is missing or malformed"),
            Self::TooLarge(bytes) => write!(f, "envelope of {bytes} bytes, the limit is 65536"),
        }
    }
}

impl core::error::Error for EnvelopeError {}

/// Maximum length of a parser message, in characters: it repeats parts of its input.
const SHAPE_CHARS_MAX: usize = 200;

/// The parser's message, bounded and safe to show (H-26).
fn plain(words: &str) -> String {
    let shown = |one: char| if one.is_control() { char::REPLACEMENT_CHARACTER } else { one };
    words.chars().take(SHAPE_CHARS_MAX).map(shown).collect()
}

impl Envelope {
    /// Reads and checks one envelope.
    pub fn parse(text: &[u8]) -> Result<Self, EnvelopeError> {
        if ENVELOPE_BYTES_MAX < text.len() {
            return Err(EnvelopeError::TooLarge(text.len()));
        }
        let envelope: Self =
            serde_json::from_slice(text).map_err(|error| match Self::version(text) {
                Some(v) if v != ENVELOPE_VERSION => EnvelopeError::Version(v),
                Some(_) | None => EnvelopeError::Shape(plain(&error.to_string())),
            })?;
        if envelope.v != ENVELOPE_VERSION {
            return Err(EnvelopeError::Version(envelope.v));
        }
        if envelope.event_id().is_none() {
            return Err(EnvelopeError::Field("id"));
        }
        for (name, value) in [("event", &envelope.event), ("session_id", &envelope.session_id)] {
            if value.is_empty() || 256 < value.len() {
                return Err(EnvelopeError::Field(name));
            }
        }
        match envelope.wall_ms() {
            Some(_) => Ok(envelope),
            None => Err(EnvelopeError::Field("emitted_at")),
        }
    }

    /// The version that a text claims to have, whatever else it contains.
    pub fn version(text: &[u8]) -> Option<u32> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        serde_json::from_slice(text).ok().map(|version: Version| version.v)
    }

    /// The id as a number. Ids compare by time of emission.
    pub fn event_id(&self) -> Option<u128> {
        let hex = self.id.len() == 32 && self.id.bytes().all(|b| b.is_ascii_hexdigit());
        if hex { u128::from_str_radix(&self.id, 16).ok() } else { None }
    }

    /// Wall time of emission.
    pub fn wall_ms(&self) -> Option<WallMs> {
        parse_rfc3339(&self.emitted_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // S0-27, H-14: what names no session opens none, so that every one that is resumed has the id of a hook.
    #[test]
    fn s0_27_an_event_without_a_session_id_is_refused() {
        for id in ["\"session_id\":\"\",", ""] {
            let text = format!(
                "{{\"v\":1,\"id\":\"{:032x}\",\"event\":\"Stop\",{id}\"emitted_at\":\"2023-11-14T22:13:20.000Z\",\
                 \"mono_ns\":1,\"boot\":\"b\",\"machine\":\"m\",\"pid\":1}}",
                1
            );
            assert!(Envelope::parse(text.as_bytes()).is_err(), "{text}");
            let whole = text.replacen(id, "\"session_id\":\"s\",", 1);
            if !id.is_empty() {
                assert!(Envelope::parse(whole.as_bytes()).is_ok(), "{whole}");
            }
        }
    }

    // H-26: the parser's message repeats parts of its input.
    #[test]
    fn a_refusal_is_short_and_has_no_control_characters() {
        for kind in ["\\u001b[2J", "\\u009b\\n", "long", &"k".repeat(5000)] {
            let text = format!(
                r#"{{"v":1,"harness":{{"pid":1,"start_time":"1","pid_ns":1,"kind":"{kind}"}}}}"#
            );
            let words = Envelope::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(words.starts_with("not an event envelope: unknown variant"), "{words:?}");
            assert!(words.len() < 1000 && !words.contains(char::is_control), "{words:?}");
        }
    }
}
